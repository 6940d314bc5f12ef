"""Finding events in a journal without reading more of it than needed.

Footers of sealed segments say which kinds, messages and times a block has; blocks that cannot match
are not read. A footer is derived: if one is damaged or missing, all blocks are read. Everything is
opened for reading only and without a lock, so a running broker is not disturbed. The hash chain is
not checked across skipped blocks; `verify` does that.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias, cast

from daybook.engine.facts.events import KIND, MESSAGE, RELATED, Row
from daybook.journal.blocks.block import Block, BlockCodec, kind_bit
from daybook.journal.blocks.format import Damage, FooterEntry, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import Segment, open_segment, segment_names
from daybook.paging.tables.layout import LAYOUT


class Event(NamedTuple):
    """An event as the tools pass it around; `body` is None unless it was asked for."""

    lsn: int
    row: Row
    detail: bytes
    headers: bytes
    body_bytes: int
    body: bytes | None


Wanted: TypeAlias = Callable[[FooterEntry], bool]
"""Returns whether the block of a footer's entry may contain what is asked for."""


def kinds_mask(kinds: frozenset[int]) -> int:
    """Return the kinds as the bit set that footers use."""
    mask = 0
    for kind in kinds:
        mask |= kind_bit(kind)
    return mask


def wanted_blocks(
    disk: Disk, wanted: Wanted, *, from_lsn: int = 1, to_lsn: int | None = None
) -> Iterator[Block]:
    """Yield the blocks from `from_lsn` to `to_lsn` that may contain what is wanted.

    Raises JournalError.
    """
    names = segment_names(disk)
    firsts = [segment_first_lsn(name) or 0 for name in names]
    position = max(bisect_right(firsts, from_lsn) - 1, 0)
    for index in range(position, len(names)):
        if to_lsn is not None and firsts[index] > to_lsn:
            return
        found = _by_footer(disk, names[index], wanted, from_lsn, to_lsn)
        if found is None:
            # Without a usable footer (the newest segment, or a damaged one) every block is read.
            end = firsts[index + 1] - 1 if index + 1 < len(names) else to_lsn
            if to_lsn is not None and end is not None:
                end = min(end, to_lsn)
            begin = max(from_lsn, firsts[index])
            yield from read_blocks(disk, LAYOUT, from_lsn=begin, to_lsn=end)
        else:
            yield from found


def _by_footer(
    disk: Disk, name: str, wanted: Wanted, from_lsn: int, to_lsn: int | None
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
    segment: Segment, codec: BlockCodec, entries: Iterator[FooterEntry], wanted: Wanted
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


def events_of(
    block: Block, wants: Callable[[int, Row], bool], *, bodies: bool = False
) -> Iterator[Event]:
    """Yield the events of a block for which `wants(lsn, row)` is true.

    The heap is read only if there are any.
    """
    if block.is_mark:
        return
    rows = cast(list[Row], list(block.rows()))
    first = block.first_lsn
    chosen = [position for position, row in enumerate(rows) if wants(first + position, row)]
    if not chosen:
        return
    details = list(block.strings(0))
    headers = list(block.strings(1))
    body_texts = list(block.strings(2)) if bodies else None
    lengths = block.columns()[-1]
    for position in chosen:
        body = body_texts[position] if body_texts is not None else None
        yield Event(
            first + position, rows[position], details[position], headers[position],
            lengths[position], body,
        )  # fmt: skip


class Picker:
    """Single events of a block, decoded where they are asked for."""

    def __init__(self, block: Block) -> None:
        self._block: Final = block
        self._columns: Final = block.columns()
        self._ends: list[list[int]] = []
        self._heaps: list[memoryview] = []

    def row(self, position: int) -> Row:
        """Return a row."""
        shared = self._columns[: -self._block.codec.heap_count]
        return cast(Row, tuple(column[position] for column in shared))

    def positions(self, lsn: int, ids: Collection[int], kinds: Collection[int]) -> list[int]:
        """Return where, from an event on, a message or a related event is one of these, or the
        kind is one of those."""
        begin = max(lsn - self._block.first_lsn, 0)
        columns = (self._columns[each][begin:].tolist() for each in (MESSAGE, RELATED, KIND))
        return [
            position
            for position, (message, related, kind) in enumerate(zip(*columns, strict=True), begin)
            if message in ids or related in ids or kind in kinds
        ]

    def headers(self) -> bytes:
        """Return the headers of all events, one after the other."""
        self._decode()
        return bytes(self._heaps[1])

    def _decode(self) -> None:
        if not self._ends:
            lengths = self._columns[-self._block.codec.heap_count :]
            self._ends = [list(accumulate(column.tolist(), initial=0)) for column in lengths]
            self._heaps = self._block.heaps()

    def event(self, position: int, *, bodies: bool = False) -> Event:
        """Return an event."""
        self._decode()
        detail, headers, body = (
            bytes(heap[ends[position] : ends[position + 1]]) if number < 2 or bodies else b""
            for number, (heap, ends) in enumerate(zip(self._heaps, self._ends, strict=True))
        )
        ends = self._ends[2]
        return Event(
            self._block.first_lsn + position, self.row(position), detail, headers,
            ends[position + 1] - ends[position], body if bodies else None,
        )  # fmt: skip


def event_at(disk: Disk, lsn: int) -> Event | None:
    """Return the event of this LSN, None if the journal has none. Raises JournalError."""
    for block in read_blocks(disk, LAYOUT, from_lsn=lsn, to_lsn=lsn):
        if block.first_lsn <= lsn <= block.last_lsn:
            return Picker(block).event(lsn - block.first_lsn)
    return None
