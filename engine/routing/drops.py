"""Recording that a message that was sent is dropped, and why; and what its flags say.

It never becomes a message. The event records the inputs of the decision, and an audit calls the
same functions again. Must never know how queues are chosen.
"""

from typing import Final

from msgspec.structs import replace

from daybook.engine.commands import Send
from daybook.engine.core import capacity
from daybook.engine.core.core import Core
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.queues.id_cache import key_of
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.routing import duplicates
from daybook.engine.state.no_local import without_own
from daybook.engine.state.state import State

UNROUTED: Final = frozenset(
    (
        reasons.NO_BINDING,
        reasons.NO_MATCHING_FILTER,
        reasons.DISABLED,
        reasons.NO_CONSUMERS,
        reasons.NO_LOCAL,
    )
)
"""Why no queue of an address takes a message."""


def flags_of(core: Core, command: Send, address: Address, others: tuple[Address, ...]) -> int:
    """Return the flags of a message.

    A message that may leave memory must be completely in the journal. The body of a large message
    is never in memory, so the journal always has it: otherwise retention could not know which
    message needs the chunks.
    """
    if command.persistent:
        return PERSISTENT | command.format
    if core.state.journal_non_persistent == "full" or address.paging or command.chunks:
        return command.format
    if others and any(each.paging for each in others):
        return command.format
    return events.BODY_OMITTED | command.format


def drop_known(core: Core, command: Send, address: Address) -> int:
    """Drop a duplicate message; return the LSN that its sender must wait for.

    That is the last LSN: the message itself may not be durable yet.
    """
    is_volatile = address.ids is None or not address.ids.has(key_of(command.duplicate_id))
    flags = flags_of(core, command, address, ())
    drop(core, command, address, flags, reasons.DUPLICATE, is_volatile=is_volatile)
    duplicates.note(core, address, command.duplicate_id)
    return core.next_lsn - 1


def drop(
    core: Core,
    command: Send,
    address: Address,
    flags: int,
    reason: int,
    *,
    is_volatile: bool = False,
) -> int:
    """Drop a message; return the LSN to wait for, 0 for none. `is_volatile` is as in `Basis`."""
    lsn = emit_dropped(core, command, address, flags, reason, is_volatile=is_volatile)
    if command.transaction is not None and command.duplicate_id:
        # The commit must not be repeated, whatever became of its parts.
        lsn = duplicates.remember(core, address, command.duplicate_id, lsn)
    return lsn if flags & PERSISTENT else 0


def drop_lost(core: Core, command: Send) -> int:
    """Drop a message for a temporary destination that has ended; return the LSN to wait for."""
    flags = PERSISTENT | command.format if command.persistent else command.format
    lsn = emit_dropped(core, command, None, flags, reasons.GONE)
    return lsn if flags & PERSISTENT else 0


def emit_dropped(
    core: Core,
    command: Send,
    address: Address | None,
    flags: int,
    reason: int,
    *,
    is_volatile: bool = False,
) -> int:
    """Record that a message was dropped, and what that was decided from. It never becomes a
    message, so it has no message id.

    Without an address the event says the name that it was sent to. What filters refused keeps its
    headers, so that they can be asked again.
    """
    if command.chunks:
        flags |= events.LARGE
    basis = basis_of(command)
    said = capacity.text_of_machine(core, reason)
    if said:
        basis = replace(basis, text=said)
    elif reason in capacity.KEYS_OF and address is not None:
        used, limit = capacity.measure(core, address.name, address, reason)
        basis = replace(basis, held=used, limit=limit)
    elif is_volatile:
        basis = replace(basis, volatile=True)
    elif reason == reasons.UNROUTABLE:
        basis = replace(basis, destination=command.address)
    detail = details.DroppedDetail(
        transaction=command.transaction or "",
        duplicate_id=command.duplicate_id,
        destination="" if address is not None else command.address,
        basis=basis,
        came_from=command.came_from,
    )
    return core.emit(
        events.row(
            events.DROPPED,
            reason=reason, address=address.id if address is not None else 0,
            priority=command.priority, flags=flags,
            connection=command.connection, related=command.copied_from, time=core.now,
        ),
        events.encode_detail(detail),
        command.headers if _was_filtered(core, address, reason) else b"",
    )  # fmt: skip


def basis_of(command: Send) -> details.Basis:
    """Return what a decision about a message was made from, as far as its sender said it."""
    return details.Basis(
        routing_type=command.routing_type or "",
        queue=command.queue or "",
        expires=command.expires,
        body_bytes=command.body_bytes if command.chunks else len(command.body),
    )


def _was_filtered(core: Core, address: Address | None, reason: int) -> bool:
    """Whether filters were asked about a message that no queue took: of queues, or of diverts."""
    if reason == reasons.NO_MATCHING_FILTER:
        return True
    if address is None or reason not in UNROUTED or not core.diverts.count:
        return False
    return bool(core.diverts.of(address.name))


def why_no_queue(
    state: State,
    address: Address,
    others: tuple[Address, ...],
    routing_type: str | None,
    sender: int,
) -> int:
    """Return why no queue takes a message: there is none, none is enabled, none has consumers, no
    filter wants it, or it is their own."""
    found = list(address.anycast) if routing_type != MULTICAST else []
    if routing_type != ANYCAST:
        for each in (address, *others):
            found += each.multicast
    if not found:
        return reasons.NO_BINDING
    if all(each.served_only and not each.queue.consumers for each in found):
        return reasons.NO_CONSUMERS
    if not without_own(state, [each.queue for each in found], sender):
        return reasons.NO_LOCAL
    is_enabled = any(binding.queue.definition.enabled for binding in found)
    return reasons.NO_MATCHING_FILTER if is_enabled else reasons.DISABLED


def why_not_here(queue: Queue) -> int:
    """Return why the one queue that a sender named takes nothing, 0 if it takes messages."""
    if not queue.definition.enabled:
        return reasons.DISABLED
    if queue.definition.purge_on_no_consumers and not queue.consumers:
        return reasons.NO_CONSUMERS
    return 0
