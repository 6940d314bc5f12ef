"""Deciding about durable subscriptions: their queues, and what their names mean to a client.

A subscription is known by its name on a virtual host. Names are not secret, and nobody has to ask
for one: so a client that may not use the queue of a name gets another queue for it, as if there
were none (ADR 77). Must never know how a queue is created or bound.
"""

import msgspec

from daybook.engine.commands import Attach, DeleteSubscription
from daybook.engine.core import permission_checks, quotas
from daybook.engine.core.core import Core
from daybook.engine.core.lifetime import ANY_NUMBER, expires
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import MULTICAST, QueueDefinition
from daybook.engine.names.names import DURABLE, HOST, numbered, plain, qualified
from daybook.engine.queues.queue import Queue
from daybook.engine.queues.recall import Start
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import BROWSE, CONSUME, DELETE_DURABLE_QUEUE
from daybook.engine.topology.reserved_names import check_spaces
from daybook.engine.topology.topology import (
    check_name,
    create_queue,
    delete_queue,
    rebind_queue,
    require_address,
)


def queue_name(core: Core, connection: int, name: str) -> str:
    """Return the name of the queue of a durable subscription, on the host of a connection."""
    peer = core.state.connections.get(connection)
    return qualified(peer.host if peer is not None else HOST, DURABLE + name)


def is_one(queue: Queue) -> bool:
    """Whether a queue is that of a subscription which its clients may end."""
    definition = queue.definition
    is_named = plain(queue.name).startswith(DURABLE) or bool(definition.expiry_policy)
    return is_named and not definition.temporary


def find(core: Core, command: Attach, name: str) -> Queue | None:
    """Return the queue of a durable subscription that a command names; None if there is none that
    its client may use."""
    permission = BROWSE if command.browses else CONSUME
    wanted = queue_name(core, command.connection, name)
    return permission_checks.named_alone(
        core, command.connection, permission, wanted, command.address
    )


def require(core: Core, command: Attach, name: str, queue: Queue | None) -> Queue | Refusal:
    """Return the queue of a durable subscription, created or rebound if necessary; `queue` is what
    `find` found."""
    wanted = queue_name(core, command.connection, name)
    syntax = core.state.settings.syntax
    wrong = check_name("durable subscription", name, syntax)
    wrong = wrong or check_name("queue", plain(wanted), syntax)
    if wrong is not None:
        return wrong
    if command.browses:
        # A browser must not change the subscription, neither its address nor its filter.
        missing = Refusal(
            Code.NOT_FOUND,
            f"there is no durable subscription '{name}' to browse; make it first, as a consumer",
        )
        return queue if queue is not None else missing
    if queue is not None:
        definition = queue.definition
        if definition.routing_type != MULTICAST or definition.durable != command.durable:
            kind = "durable" if command.durable else "non-durable"
            return Refusal(
                Code.ALREADY_EXISTS,
                f"queue '{wanted}' exists already and is no {kind} subscription; give"
                " the subscription another id",
            )
        as_wanted = _as_subscribed(core, command, queue.definition)
        if queue.address.name == command.address and as_wanted == queue.definition:
            return queue
        refusal = _check_change(core, command, queue)
        if isinstance(refusal, Refusal):
            return refusal
        if refusal:
            return _change(core, command, queue)
    return _create(core, command, wanted)


def _check_change(core: Core, command: Attach, queue: Queue) -> bool | Refusal:
    """Return whether a client may change the queue of a subscription, or why not; False says that
    the queue is another user's, which does not block the name."""
    denials = len(core.rights.denials)
    connection = command.connection
    refusal = permission_checks.check_rebinding(core, connection, queue, command.address)
    user = core.state.connections[connection].user
    is_elsewhere = queue.address.name != command.address
    if refusal is not None and is_elsewhere and queue.definition.user not in ("", user):
        # Nothing is refused: the client did not ask for this queue.
        del core.rights.denials[denials:]
        return False
    refusal = refusal or permission_checks.check_new_subscription(
        core, connection, command.address, queue.name, durable=command.durable
    )
    return refusal if refusal is not None else True


def _change(core: Core, command: Attach, queue: Queue) -> Queue | Refusal:
    """Bind the queue of a subscription to another address, or with another filter."""
    address = require_address(core, command.address, MULTICAST, command.connection)
    if isinstance(address, Refusal):
        return address
    wanted = _as_subscribed(core, command, queue.definition)
    rebind_queue(core, queue, address, wanted, command.connection)
    return queue


def _create(core: Core, command: Attach, name: str) -> Queue | Refusal:
    """Create the queue of a subscription; if others have one of the name, with a number."""
    connection = command.connection
    refusal = check_spaces(core, name) or permission_checks.check_new_subscription(
        core, connection, command.address, name, durable=command.durable
    )
    refusal = refusal or quotas.check_queue(core, connection)
    if refusal is not None:
        return refusal
    address = require_address(core, command.address, MULTICAST, connection)
    if isinstance(address, Refusal):
        return address
    if name in core.state.queue_by_name:
        name = numbered(name, core.next_lsn)
    definition = _as_subscribed(core, command, QueueDefinition(name=name, routing_type=MULTICAST))
    start = Start(command.after, command.since)
    return create_queue(core, address, definition, connection, reasons.SUBSCRIPTION, start)


def _as_subscribed(core: Core, command: Attach, found: QueueDefinition) -> QueueDefinition:
    """Return the definition of a durable subscription's queue with what its subscriber wants."""
    client_id = core.state.connections[command.connection].client_id if command.no_local else ""
    wanted = msgspec.structs.replace(
        found, filter=command.filter, durable=command.durable,
        no_local=command.no_local, client_id=client_id,
    )  # fmt: skip
    if not command.expiry_policy:
        return wanted
    wanted = msgspec.structs.replace(wanted, expiry_policy=command.expiry_policy)
    is_expiring = expires(wanted)
    return msgspec.structs.replace(
        wanted,
        auto_delete=is_expiring,
        auto_delete_delay=command.expiry_ms if is_expiring else 0,
        auto_delete_message_count=ANY_NUMBER if is_expiring else 0,
    )


def delete(core: Core, command: DeleteSubscription) -> int | Refusal:
    """Delete a durable subscription that nobody consumes from."""
    wanted = queue_name(core, command.connection, command.name)
    queue = permission_checks.named_alone(core, command.connection, DELETE_DURABLE_QUEUE, wanted)
    if queue is None:
        if core.rights.permissions is not None:
            return permission_checks.unknown(core, command.connection, DELETE_DURABLE_QUEUE, wanted)
        return Refusal(
            Code.NOT_FOUND,
            f"there is no durable subscription '{command.name}'; give the id that it was made with",
        )
    refusal = permission_checks.check_deletion(core, command.connection, queue)
    if refusal is not None:
        return refusal
    if queue.consumers:
        return Refusal(
            Code.NOT_ALLOWED,
            f"the durable subscription '{command.name}' has consumers; end them first",
        )
    delete_queue(core, queue, reasons.SUBSCRIPTION, command.connection)
    return core.next_lsn - 1
