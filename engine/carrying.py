"""Recording what retention does: content written again, and segments that left.

A carried message keeps its id, its places and its count; only where its content is found changes,
which is no part of the logical state. Must never know segments, or what is to be carried.
"""

from engine import events
from engine.commands import Carry, CarryChunk, NoteSegmentsRemoved
from engine.core import Core
from engine.message import Message
from engine.state import State


def carry(core: Core, command: Carry) -> int:
    """Record headers and body of a message, or where the chunks of a large one are now."""
    detail = b""
    flags = command.flags
    if command.chunks:
        detail = events.encode_detail(
            events.CarriedDetail(
                chunks=events.chunk_steps(command.chunks), body_bytes=command.body_bytes
            )
        )
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
    detail = events.SegmentsRemovedDetail(
        segments=command.segments, bytes=command.bytes, archive=command.archive
    )
    return core.emit(
        events.row(
            events.SEGMENTS_REMOVED,
            reason=events.CONFIGURATION,
            related=command.last_lsn,
            time=core.now,
        ),
        events.encode_detail(detail),
    )


def with_chunks_before(state: State, last_lsn: int) -> list[Message]:
    """Resident large messages that have chunks at an event or before it.

    Some may have come into memory between their `Carried` event and its commit in the index: what
    they say of their chunks is then to be set again.
    """
    return [
        entry.message
        for queue in state.queues.values()
        for entry in queue.entries.values()
        if entry.message.chunks and entry.message.chunks[0] <= last_lsn
    ]
