"""Recording that a message that was sent is dropped, and why; and what its flags say.

It never becomes a message. Must never know how queues are chosen.
"""

from daybook.engine import (
    details,
    duplicates,
    events,
    reasons,
)
from daybook.engine.commands import Send
from daybook.engine.core import Core
from daybook.engine.events import PERSISTENT
from daybook.engine.state import Address


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
    drop(core, command, address, flags_of(core, command, address, ()), reasons.DUPLICATE)
    duplicates.note(core, address, command.duplicate_id)
    return core.next_lsn - 1


def drop(core: Core, command: Send, address: Address, flags: int, reason: int) -> int:
    """Drop a message; return the LSN to wait for, 0 for none."""
    lsn = emit_dropped(core, command, address, flags, reason)
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
    core: Core, command: Send, address: Address | None, flags: int, reason: int
) -> int:
    """Record that a message was dropped. It never becomes a message, so it has no message id.

    Without an address the event says the name that it was sent to.
    """
    if command.chunks:
        flags |= events.LARGE
    detail = details.DroppedDetail(
        transaction=command.transaction or "",
        duplicate_id=command.duplicate_id,
        destination="" if address is not None else command.address,
    )
    return core.emit(
        events.row(
            events.DROPPED,
            reason=reason, address=address.id if address is not None else 0,
            priority=command.priority, flags=flags,
            connection=command.connection, related=command.copied_from, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip
