"""Messages as they were when they were sent, for replays: headers, details and bodies.

Fault model: headers may be in a format that this version does not know, and chunks of a large body
may have left the journal. Must never know where a message is sent to.
"""

from array import array
from collections.abc import Iterator
from typing import Final

from daybook.engine.facts import events
from daybook.engine.messages import headers
from daybook.engine.messages.content import UnknownFormat, View
from daybook.engine.queues.queue import StoreError
from daybook.history.event_finder import EventFinder
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import open_segment
from daybook.paging.catalogs.catalog_making import chunks_of
from daybook.paging.content.content import ContentReader
from daybook.paging.tables.layout import LAYOUT

CACHE_BYTES: Final = 4 << 20


def content_of(
    message: int, flags: int, packed: bytes, body: bytes
) -> tuple[list[tuple[str, str]], bytes]:
    """Return the header lines of a message, and its body as plain bytes; b"" for a large body.

    Raises UnknownFormat, which names the message.
    """
    try:
        view = View(flags, packed, body=body)
        return headers.parse(view.lines()), b"" if flags & events.LARGE else view.plain_body
    except UnknownFormat as error:
        raise UnknownFormat(f"message {message} cannot be replayed: {error}") from error


def originals(disk: Disk, messages: "array[int]") -> Iterator[tuple[Event, str]]:
    """Yield the Routed events of messages, which come in order, with their bodies.

    With each comes the id of the data directory that its segment is from: forks have two. Raises
    JournalError.
    """
    if not messages:
        return
    ids: dict[str, str] = {}
    search = Search(Clause(lsns=messages), from_lsn=messages[0], to_lsn=messages[-1], bodies=True)
    for block in EventFinder(disk).blocks(search):
        for event in search.events_in(block):
            if block.segment not in ids:
                segment = open_segment(disk, block.segment)
                segment.close()
                ids[block.segment] = segment.header.data_id.hex()
            yield event, ids[block.segment]


class LargeBodies:
    """The bodies of large messages, put together from chunks."""

    def __init__(self, disk: Disk) -> None:
        self._content: Final = ContentReader(disk, LAYOUT, cache_bytes=CACHE_BYTES)

    def pieces(self, detail: bytes) -> Iterator[bytes]:
        """Yield the pieces of the body of a Routed with this detail. Raises StoreError."""
        return chunks_of(self._content, events.ROUTED, detail)

    def is_whole(self, detail: bytes) -> bool:
        """Read the body of a Routed with this detail; return whether history has all of it."""
        try:
            return sum(map(len, self.pieces(detail))) == events.routed_detail(detail).body_bytes
        except (StoreError, OSError):
            return False

    def close(self) -> None:
        """Close the segments."""
        self._content.close()
