"""Resolving an attach: which queue a consumer would get, and why it would get none.

There is one tree of cases, `resolve`. A command is resolved to a plan, the plan is checked, and
`engine.consumers.subscriptions` carries it out. Decides nothing. Must never know how a consumer is
recorded.
"""

from collections.abc import Collection
from typing import Final

from daybook.engine.commands import Attach
from daybook.engine.consumers import sequences
from daybook.engine.core import permission_checks, quotas
from daybook.engine.core.core import Core
from daybook.engine.facts.definitions import ANYCAST, EXPIRY_POLICIES, MULTICAST, NEVER
from daybook.engine.names.names import INTERNAL, host_and_name, is_temporary, plain
from daybook.engine.queues.consumer import Connection
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.setting_key import DELAY_MAX
from daybook.engine.state import no_local
from daybook.engine.topology import durable_subscriptions, ownership
from daybook.engine.topology.temporary_names import check_consumer
from daybook.engine.topology.topology import (
    check_address,
    check_queue,
    default_address_type,
    default_queue_type,
    find_address,
)

TO_QUEUE: Final = 0
"""Its client named the queue."""
TO_SUBSCRIPTION: Final = 1
"""It is of a durable subscription."""
TO_OWN_QUEUE: Final = 2
"""It needs the anycast queue that is named as its address."""
TO_AVAILABLE: Final = 3
"""It gets another anycast queue of its address, which is there."""
TO_TOPIC: Final = 4
"""A queue is made for it, which ends with it; or it gets the one that it left."""


class Plan:
    """The queue that a consumer needs.

    `name` is its name, empty for a queue that is made for the consumer alone; `queue` is the queue
    of that name, if there is one; `routing_type` is that of what would be created.
    """

    __slots__ = ("name", "queue", "routing_type", "way")

    def __init__(self, way: int, name: str, queue: Queue | None, routing_type: str) -> None:
        self.way = way
        self.name = name
        self.queue = queue
        self.routing_type = routing_type


def resolve(core: Core, command: Attach, planned: Collection[str] = ()) -> Plan:
    """Return the plan of an attach; nothing is checked or changed. `planned` are queues that
    commands before it would have made."""
    if command.queue is not None:
        routing_type = command.routing_type or default_queue_type(core, command.address)
        queue = core.state.queue_by_name.get(command.queue)
        return Plan(TO_QUEUE, command.queue, queue, routing_type)
    if command.durable_name is not None:
        name = durable_subscriptions.queue_name(core, command.connection, command.durable_name)
        queue = durable_subscriptions.find(core, command, command.durable_name)
        return Plan(TO_SUBSCRIPTION, name, queue, MULTICAST)
    if routing_type_of(core, command) == MULTICAST:
        return Plan(TO_TOPIC, "", ownership.left_by(core, command), MULTICAST)
    name = command.address
    available = None if name in planned else _first_available(core, command, name)
    if available is not None:
        return Plan(TO_AVAILABLE, available.name, available, ANYCAST)
    return Plan(TO_OWN_QUEUE, name, core.state.queue_by_name.get(name), ANYCAST)


def check_attach(core: Core, command: Attach) -> Refusal | None:
    """Return why a consumer would be refused, None if it would not; for one that is not durable.

    What the limit of queues says of several such commands together is not part of it.
    """
    connection = core.state.connections[command.connection]
    plan = resolve(core, command)
    refusal = check_asking(core, command, connection, plan) or check_place(core, command)
    if refusal is not None:
        return refusal
    if plan.way == TO_TOPIC:
        return check_own_queue(core, command)
    if plan.way != TO_AVAILABLE:
        refusal = check_queue(
            core, plan.name, command.address, plan.routing_type, command.connection
        )
    if refusal is None and plan.queue is not None:
        refusal = check_queue_of(plan.queue, command)
    return refusal


def name_of_queue(core: Core, command: Attach, planned: set[str]) -> tuple[str, bool]:
    """Return the name of the queue that a command means, and whether it would be a new one that
    stays; empty for that of a topic. `planned` are queues that there will be."""
    name = resolve(core, command, planned).name
    is_new = name not in core.state.queue_by_name and not is_temporary(name)
    return name, bool(name) and is_new


def _first_available(core: Core, command: Attach, name: str) -> Queue | None:
    """Return the first anycast queue of an address that takes another consumer, or browser.

    None if there is one named as the address, which comes before all others.
    """
    address = find_address(core, name)
    if address is not None and name not in core.state.queue_by_name:
        for binding in address.anycast:
            most = binding.queue.definition.max_consumers
            if command.browses or most < 0 or len(binding.queue.consumers) < most:
                return binding.queue
    return None


def routing_type_of(core: Core, command: Attach) -> str:
    """Return the routing type by which a consumer gets its messages."""
    return command.routing_type or routing_type_at(core, command.address)


def routing_type_at(core: Core, name: str) -> str:
    """Without a preference: anycast, unless the address is multicast only, as with wildcards; the
    default of its settings for one that is not there."""
    if core.state.settings.syntax.is_pattern(name):
        return MULTICAST
    address = find_address(core, name)
    if address is None:
        return default_address_type(core, name)
    multicast_only = address.definition.routing_types == (MULTICAST,)
    return MULTICAST if multicast_only else ANYCAST


def check_asking(core: Core, command: Attach, connection: Connection, plan: Plan) -> Refusal | None:
    """Return why a client may not consume as it wants to, whatever queues there are."""
    refusal = check_host(command, connection) or quotas.check_consumer(core, command.connection)
    refusal = refusal or check_expiry(command)
    refusal = refusal or _check_permission(core, command, plan)
    return refusal or _check_reading(core, command, connection, plan)


def check_host(command: Attach, connection: Connection) -> Refusal | None:
    """Return why a client may not consume from another virtual host than its own."""
    if host_and_name(command.address or command.queue or "")[0] == connection.host:
        return None
    return Refusal(
        Code.INVALID,
        f"'{command.address}' is not on virtual host '{connection.host}'; connect to the host that"
        " has it",
    )


def check_expiry(command: Attach) -> Refusal | None:
    """Return why the queue of a subscription cannot live as its subscriber wants it to."""
    policy = command.expiry_policy
    if policy and policy not in EXPIRY_POLICIES:
        known = ", ".join(EXPIRY_POLICIES)
        return Refusal(Code.INVALID, f"unknown expiry policy '{policy}'; it must be one of {known}")
    if not 0 <= command.expiry_ms <= DELAY_MAX:
        return Refusal(
            Code.INVALID,
            f"a subscription cannot expire after {command.expiry_ms:,} ms; the most is"
            f" {DELAY_MAX:,}",
        )
    is_named = command.durable_name is not None
    if not is_named and (policy == NEVER or command.expiry_ms or not command.durable):
        return Refusal(
            Code.INVALID,
            "only a subscription with a name can outlive its connection, because nothing else"
            " finds it again; give it one",
        )
    return None


def _check_permission(core: Core, command: Attach, plan: Plan) -> Refusal | None:
    """Return why a client may not consume from the queue that its command means."""
    if core.rights.permissions is None:
        return None
    address, shown = command.address, command.queue
    name = plan.name if plan.way != TO_TOPIC else None
    if plan.way == TO_SUBSCRIPTION:
        shown = name
        if command.browses and plan.queue is not None:
            # It reads the queue where that is, whatever destination it gives.
            address = plan.queue.address.name
    return permission_checks.check_consumer(core, command, address, name, shown)


def _check_reading(
    core: Core, command: Attach, connection: Connection, plan: Plan
) -> Refusal | None:
    """Return why a consumer cannot read as it wants to, whatever queues there are."""
    is_durable = command.durable_name is not None
    is_topic = is_durable or plan.way == TO_TOPIC
    if command.browses and is_topic and not is_durable:
        return Refusal(
            Code.INVALID,
            f"'{command.address}' is a topic, which keeps no messages to browse; browse a queue, or"
            " a durable subscription",
        )
    if command.from_sequence is not None:
        address = command.address if command.queue is None else ""
        refusal = sequences.check(core, address, command.from_sequence)
        if refusal is not None:
            return refusal
    if not command.no_local:
        return None
    return no_local.check(connection, is_topic=is_topic, is_durable=is_durable)


def check_queue_of(queue: Queue, command: Attach) -> Refusal | None:
    """Return why a queue takes no further consumer."""
    owned = queue.definition.temporary and queue.definition.owner != command.connection
    if owned:
        return Refusal(
            Code.NOT_ALLOWED,
            f"queue '{queue.name}' is temporary and belongs to another connection; make one here",
        )
    most = queue.definition.max_consumers
    if not command.browses and 0 <= most <= len(queue.consumers):
        return Refusal(
            Code.LIMIT,
            f"queue '{queue.name}' has {len(queue.consumers)} consumers, and its max-consumers is "
            f"{most}; end one of them, or raise max-consumers",
        )
    return None


def check_place(core: Core, command: Attach) -> Refusal | None:
    """Return why nobody, or another connection only, may consume from a place."""
    if command.queue is None and plain(command.address).startswith(INTERNAL):
        return Refusal(
            Code.NOT_ALLOWED,
            f"address '{command.address}' belongs to the broker itself; use another one",
        )
    if is_temporary(command.address):
        refusal = check_consumer(
            core,
            command.address,
            command.connection,
            is_durable=command.durable_name is not None,
        )
        if refusal is not None:
            return refusal
    return None


def check_own_queue(core: Core, command: Attach) -> Refusal | None:
    """Return why no queue may be created that ends with its consumer."""
    # A queue that ends with its subscription needs memory like any other.
    return (
        permission_checks.check_new_queue(
            core, command.connection, command.address, None, durable=False
        )
        or quotas.check_subscription(core, command.connection)
        or check_address(core, command.address, MULTICAST, command.connection)
    )
