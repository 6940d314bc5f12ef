"""Reading events: single ones of a block, and the blocks of a segment that its footer names.

A footer is derived: if one is damaged or missing, all blocks are read. Opens files for reading
only, without a lock. `history.event_finder` chooses what to read.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple, cast

from daybook.engine.facts.events import Row
from daybook.journal.blocks.block import Block, BlockCodec
from daybook.journal.blocks.format import Damage, FooterEntry
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import Segment, open_segment
from daybook.paging.tables.layout import LAYOUT


class Event(NamedTuple):
    """An event as the tools pass it around; `body` is None unless it was asked for."""

    lsn: int
    row: Row
    detail: bytes
    headers: bytes
    body_bytes: int
    body: bytes | None


def segment_blocks(
    disk: Disk,
    name: str,
    wanted: Callable[[FooterEntry], bool],
    from_lsn: int = 1,
    to_lsn: int | None = None,
) -> Iterator[Block]:
    """Yield the blocks of a segment, of those with events from one to another, that its footer does
    not exclude; all of them if it has no sound footer. Raises JournalError.
    """
    found = _by_footer(disk, name, wanted, from_lsn, to_lsn)
    if found is None:
        found = read_blocks(disk, LAYOUT, from_lsn=from_lsn, to_lsn=to_lsn)
    yield from found


def _by_footer(
    disk: Disk, name: str, wanted: Callable[[FooterEntry], bool], from_lsn: int, to_lsn: int | None
) -> Iterator[Block] | None:
    """Return the wanted blocks of a sealed segment, None if its footer cannot be used."""
    segment = open_segment(disk, name, LAYOUT)
    try:
        footer = segment.footer()
        codec = segment.codec()
    except Damage:
        segment.close()
        return None
    inside = (
        entry
        for entry in footer.entries()
        if entry.first_lsn + entry.event_count > from_lsn
        and (to_lsn is None or entry.first_lsn <= to_lsn)
    )
    return _read_entries(segment, codec, inside, wanted)


def _read_entries(
    segment: Segment,
    codec: BlockCodec,
    entries: Iterator[FooterEntry],
    wanted: Callable[[FooterEntry], bool],
) -> Iterator[Block]:
    try:
        for entry in entries:
            # Checked lazily, because a caller may want more after what it has found.
            if not entry.event_count or not wanted(entry):
                continue
            try:
                raw = segment.block_at(entry.offset, with_heap=True)
            except Damage as damage:
                raise Corruption(
                    segment.name, entry.offset, entry.first_lsn, str(damage)
                ) from damage
            yield Block(codec, raw, segment.name)
    finally:
        segment.close()


class Picker:
    """Single events of a block, decoded where they are asked for."""

    def __init__(self, block: Block) -> None:
        self._block: Final = block
        self._columns: Final = block.columns()
        self._ends: list[list[int]] = []
        self._details = self._headers = b""
        self._bodies = memoryview(b"")
        self._rows: list[Row] = []

    def read_rows(self) -> None:
        """Read all rows, which is quicker where most of them are asked for."""
        self._rows = cast(list[Row], list(self._block.rows()))

    def row(self, position: int) -> Row:
        """Return a row."""
        if self._rows:
            return self._rows[position]
        shared = self._columns[: -self._block.codec.heap_count]
        return cast(Row, tuple(column[position] for column in shared))

    def details(self) -> bytes:
        """Return the details of all events, one after the other."""
        self._decode()
        return self._details

    def headers(self) -> bytes:
        """Return the headers of all events, one after the other."""
        self._decode()
        return self._headers

    def _decode(self) -> None:
        if not self._ends:
            lengths = self._columns[-self._block.codec.heap_count :]
            self._ends = [list(accumulate(column.tolist(), initial=0)) for column in lengths]
            details, headers, self._bodies = self._block.heaps()
            self._details, self._headers = bytes(details), bytes(headers)

    def event(self, at: int, *, bodies: bool = False) -> Event:
        """Return the event at a position."""
        self._decode()
        details, headers, lengths = self._ends
        begin, end = lengths[at : at + 2]
        return Event(
            self._block.first_lsn + at, self.row(at), self._details[details[at] : details[at + 1]],
            self._headers[headers[at] : headers[at + 1]], end - begin,
            bytes(self._bodies[begin:end]) if bodies else None,
        )  # fmt: skip
