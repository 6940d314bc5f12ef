"""Commands of retention: content is written again, and segments leave.

Must never know which content, or why.
"""

from daybook.engine.commands import Command
from daybook.engine.facts.details import Origin


class Carry(Command, kw_only=True):
    """Write the content of a queued message again; `before` is the event that contains it now.

    A large message has `chunks`, the answers to `CarryChunk`, and no body.
    """

    message: int
    address: int
    priority: int
    flags: int
    before: int
    headers: bytes
    body: bytes = b""
    chunks: tuple[int, ...] = ()
    body_bytes: int = 0
    origin: Origin | None = None


class CarryChunk(Command):
    """Write a chunk again; `previous` is the answer to the one before, 0 for the first."""

    body: bytes
    previous: int = 0


class NoteSegmentsRemoved(Command, kw_only=True):
    """Record that history up to `last_lsn` left the live set; `archive` is a URL, or empty."""

    last_lsn: int
    segments: int
    bytes: int
    archive: str = ""
