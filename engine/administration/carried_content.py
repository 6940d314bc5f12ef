"""Recording the work of retention: content written again, and segments removed.

A carried message keeps its id, its places and its count; only the place of its content changes,
which does not belong to the logical state. Must never know segments, or which messages to carry.
"""

from collections.abc import Iterator
from typing import Final

from daybook.engine.administration.retention_commands import Carry, CarryChunk, NoteSegmentsRemoved
from daybook.engine.core.core import Core
from daybook.engine.facts import details, events, reasons
from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import Entry
from daybook.engine.state.state import State

SLICE_ENTRIES: Final = 2_000
"""How many entries are looked at in one step."""


def carry(core: Core, command: Carry) -> int:
    """Record headers and body of a message, or where the chunks of a large one are now."""
    detail = b""
    flags = command.flags
    if command.chunks or command.origin is not None:
        detail = events.encode_detail(
            details.CarriedDetail(
                chunks=events.chunk_steps(command.chunks), body_bytes=command.body_bytes,
                origin=command.origin,
            )
        )  # fmt: skip
    return core.emit(
        events.row(
            events.CARRIED,
            address=command.address, priority=command.priority, flags=flags,
            message=command.message, related=command.before, time=core.now,
        ),
        detail, command.headers, command.body,
    )  # fmt: skip


def carry_chunk(core: Core, command: CarryChunk) -> int:
    """Record a chunk of a large message again."""
    return core.emit(
        events.row(events.CHUNK_RECEIVED, related=command.previous, time=core.now),
        body=command.body,
    )


def note_segments_removed(core: Core, command: NoteSegmentsRemoved) -> int:
    """Record that history up to an event is not in the live set any more."""
    detail = details.SegmentsRemovedDetail(
        segments=command.segments, bytes=command.bytes, archive=command.archive
    )
    return core.emit(
        events.row(
            events.SEGMENTS_REMOVED,
            reason=reasons.CONFIGURATION,
            related=command.last_lsn,
            time=core.now,
        ),
        events.encode_detail(detail),
    )


def large_before(state: State, last_lsn: int) -> Iterator[list[Entry]]:
    """Find the entries in memory whose large messages have chunks at or before an event.

    Each list belongs to a slice of all queues and is often empty, so that a caller that serves
    clients can pause in between. Messages that move meanwhile may be missed: each is a new message
    then, whose own event says where its chunks are. An entry gets another message object when it is
    annotated, so a caller that paused asks the entry.
    """
    found: list[Entry] = []
    looked = 0
    for queue_id in list(state.queues):
        queue = state.queues.get(queue_id)
        entries = list(queue.entries.values()) if queue is not None else []
        looked += 1
        for start in range(0, len(entries), SLICE_ENTRIES):
            part = entries[start : start + SLICE_ENTRIES]
            looked += len(part)
            for entry in part:
                chunks = entry.message.chunks
                if chunks and chunks[0] <= last_lsn:
                    found.append(entry)
            if looked >= SLICE_ENTRIES:
                yield found
                found = []
                looked = 0
    if found:
        yield found


def relocate(message: Message, kind: int, detail: bytes) -> None:
    """Give a message in memory the chunks that an event of this kind lists.

    The place of content does not belong to the logical state, so no event records this.
    """
    decoded = events.decode_detail(kind, detail)
    if isinstance(decoded, details.RoutedDetail | details.CarriedDetail):
        message.chunks = events.chunk_lsns(decoded)
