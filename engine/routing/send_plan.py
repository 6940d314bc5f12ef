"""Resolving a send: which queue or address it needs, and which diverts take it.

There is one tree of cases, `resolve`. A command is resolved to a plan, the plan is checked, and the
same plan is carried out (`engine.routing.routing`), at once or in a commit, where it is resolved
again because earlier operations may have changed what there is. Must never know how a message
enters a queue, and decides nothing.
"""

from collections.abc import Iterator
from typing import Final

from daybook.engine.commands import Send
from daybook.engine.core import capacity
from daybook.engine.core.core import Core
from daybook.engine.entries import retained_messages
from daybook.engine.entries.placement import serves
from daybook.engine.facts import events
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.messages.annotations import annotated
from daybook.engine.messages.message import Message
from daybook.engine.queues.id_cache import key_of
from daybook.engine.queues.queue import Address
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing import divert_decisions, duplicates
from daybook.engine.state.diverts import Divert
from daybook.engine.topology.temporary_names import is_lost
from daybook.engine.topology.topology import (
    check_address,
    check_queue,
    default_address_type,
    default_queue_type,
)

EXPIRES_MAX: Final = (1 << 53) - 1
"""The latest expiry, in milliseconds; every integer up to here is exact in any JSON reader too."""

LOST: Final = 0
"""It is for a temporary destination that has ended, and is dropped."""
TO_QUEUE: Final = 1
"""Its sender named the queue."""
DIVERTED: Final = 2
"""Exclusive diverts take it: its address must be there, and no queue of that gets it."""
SERVED: Final = 3
"""Its address is there, with all that it needs."""
TO_OWN_QUEUE: Final = 4
"""It needs the anycast queue that is named as its address."""
TO_TOPIC: Final = 5
"""It needs its address to be multicast."""


class Plan:
    """The needs of a send, and the targets of its message.

    `queue` is the name of the queue that must be there or be created, None if an address is
    enough; `routing_type` is that of what would be created. `address` is the one that the command
    names, None if it does not exist. `takers` are the diverts that take the message.
    """

    __slots__ = ("address", "queue", "routing_type", "takers", "way")

    def __init__(
        self,
        way: int,
        address: Address | None,
        routing_type: str = MULTICAST,
        queue: str | None = None,
        takers: tuple[Divert, ...] = (),
    ) -> None:
        self.way = way
        self.address = address
        self.routing_type = routing_type
        self.queue = queue
        self.takers = takers


def resolve(core: Core, command: Send) -> Plan:
    """Return the plan of a send whose values are right; nothing is checked or changed."""
    address = core.state.address_by_name.get(command.address)
    is_served = address is not None and serves(address, command.routing_type)
    if is_lost(command.address, command.connection) and not _has_target(core, command, is_served):
        return Plan(LOST, address)
    if command.queue is not None:
        routing_type = command.routing_type or default_queue_type(core, command.address)
        return Plan(TO_QUEUE, address, routing_type, command.queue)
    takers = takers_of(core, command)
    if divert_decisions.is_taken(takers):
        return Plan(DIVERTED, address, command.routing_type or MULTICAST, None, takers)
    if is_served:
        return Plan(SERVED, address, takers=takers)
    if _default_type(core, command, address) == ANYCAST:
        return Plan(TO_OWN_QUEUE, address, ANYCAST, command.address, takers)
    return Plan(TO_TOPIC, address, takers=takers)


def _has_target(core: Core, command: Send, is_served: bool) -> bool:
    """Whether what a message is for exists, where nothing may be created."""
    if command.queue is None:
        return is_served
    queue = core.state.queue_by_name.get(command.queue)
    return queue is not None and queue.address.name == command.address


def _default_type(core: Core, command: Send, address: Address | None) -> str:
    """Return the routing type of a message for which something must be created."""
    if command.routing_type is not None:
        return command.routing_type
    if address is None:
        return default_address_type(core, command.address)
    return ANYCAST if ANYCAST in address.definition.routing_types else MULTICAST


def check(core: Core, command: Send, plan: Plan) -> Refusal | None:
    """Return why the queue or address that a plan creates would be refused, None if it would
    not."""
    if plan.way in (LOST, SERVED) or (plan.way == DIVERTED and plan.address is not None):
        return None
    if plan.queue is not None:
        return check_queue(core, plan.queue, command.address, plan.routing_type, command.connection)
    return check_address(core, command.address, plan.routing_type, command.connection)


def check_send(core: Core, command: Send) -> Refusal | None:
    """Return why a send would be refused, None if it would not."""
    refusal = check_values(core, command)
    return refusal if refusal is not None else check(core, command, resolve(core, command))


def check_place(core: Core, command: Send) -> Refusal | None:
    """Return why every message would be refused that goes where this one does; None if some may not
    be."""
    refusal = check_values(core, command)
    if refusal is not None or (core.diverts.count and core.diverts.of(command.address)):
        # A divert may take some messages and not others, and these need different things.
        return refusal
    return check(core, command, resolve(core, command))


def check_values(core: Core, command: Send) -> Refusal | None:
    """Return the fault in the values of a send, whatever queues and addresses exist."""
    if not 0 <= command.priority <= 9:
        return Refusal(Code.INVALID, f"priority is {command.priority}; it must be from 0 to 9")
    if not 0 <= command.expires <= EXPIRES_MAX:
        return Refusal(
            Code.INVALID,
            f"expires is {command.expires}; it must be milliseconds since 1970, at most "
            f"{EXPIRES_MAX}, or 0 for never",
        )
    if not 0 <= command.due <= EXPIRES_MAX:
        return Refusal(
            Code.INVALID,
            f"the delivery time is {command.due}; it must be milliseconds since 1970, at most "
            f"{EXPIRES_MAX}",
        )
    if core.state.settings.syntax.is_pattern(command.address):
        return Refusal(
            Code.INVALID,
            f"'{command.address}' has wildcards; a message is sent to one address, and wildcards "
            "are for subscriptions",
        )
    return retained_messages.check(command) if command.retain else None


def queue_needed(command: Send, plan: Plan) -> tuple[str, str] | None:
    """Return (name, address) of the queue that must exist or be created for a send, if any."""
    return (plan.queue, command.address) if plan.queue is not None and command.address else None


def takers_of(core: Core, command: Send) -> tuple[Divert, ...]:
    """Return the diverts that take a message: only exclusive ones, if there are any."""
    if not core.diverts.count or command.queue is not None:
        return ()
    if not core.diverts.of(command.address):
        return ()
    address = core.state.address_by_name.get(command.address)
    flags = PERSISTENT if command.persistent else 0
    return divert_decisions.taking(
        core, command.address, message_of(core, command, address, flags | command.format)
    )


def message_of(core: Core, command: Send, address: Address | None, flags: int) -> Message:
    """Return the message of a send; the address may not exist yet."""
    if command.chunks:
        flags |= events.LARGE
    message = Message(
        core.next_lsn, address.id if address is not None else 0, command.priority, flags,
        command.expires,
        command.headers, command.body,
    )  # fmt: skip
    if command.chunks:
        message.enlarge(command.chunks, command.body_bytes)
    message.origin = command.origin
    return annotated(message, command.annotations)


def matching(core: Core, command: Send, address: Address | None) -> tuple[Address, ...]:
    """Return the wildcard addresses whose queues may get a message for an address.

    `address` is None if it does not exist yet.
    """
    if not core.wildcards.count or command.routing_type == ANYCAST or command.queue is not None:
        return ()
    if address is not None:
        return core.wildcards.of(address)
    return core.wildcards.matching(command.address)


def copied_to(core: Core, command: Send) -> Iterator[str]:
    """Iterate over the addresses that copies of a message can reach, also if it finds no queue."""
    yield from core.diverts.reached(takers_of(core, command))
    settings = core.state.settings.resolve(target_of(core, command)[0])
    if settings.send_to_dla_on_no_route:
        yield from core.diverts.reached(core.diverts.of(settings.dead_letter_address))


def targets_of(
    core: Core, command: Send, takers: tuple[Divert, ...] | None = None
) -> capacity.Targets:
    """Return the addresses whose queues a message may enter; `takers` as in its plan, if known."""
    name, address = target_of(core, command)
    if takers is None:
        takers = takers_of(core, command)
    targets: capacity.Targets = {} if divert_decisions.is_taken(takers) else {name: address}
    if targets:
        for other in matching(core, command, address):
            targets[other.name] = other
    for reached in core.diverts.reached(takers):
        targets[reached] = core.state.address_by_name.get(reached)
        for other in core.wildcards.matching(reached):
            targets[other.name] = other
    return targets


def target_of(core: Core, command: Send) -> tuple[str, Address | None]:
    """Return the address that a message is for: its name, and the address itself if it exists."""
    queue = core.state.queue_by_name.get(command.queue) if command.queue is not None else None
    if queue is not None and command.address in ("", queue.address.name):
        return queue.address.name, queue.address
    return command.address, core.state.address_by_name.get(command.address)


def known_at(core: Core, command: Send) -> Address | None:
    """Return the address that a message is for if it had the message before."""
    address = target_of(core, command)[1]
    if address is not None and duplicates.is_known(address, key_of(command.duplicate_id)):
        return address
    return None
