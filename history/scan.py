"""Finding events in a journal without reading more of it than needed.

Footers of sealed segments say which kinds, messages and times a block has; blocks that cannot match
are not read. A footer is derived: if one is damaged or missing, all blocks are read. Everything is
opened for reading only and without a lock, so a running broker is not disturbed. The hash chain is
not checked across skipped blocks; `verify` does that.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, cast

from daybook.engine.events import Row
from daybook.journal.block import Block, BlockCodec, kind_bit
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption
from daybook.journal.format import Damage, FooterEntry, segment_first_lsn
from daybook.journal.reader import read_blocks
from daybook.journal.segment import Segment, open_segment, segment_names
from daybook.paging.layout import LAYOUT


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


def event_at(disk: Disk, lsn: int) -> Event | None:
    """Return the event of this LSN, None if the journal has none. Raises JournalError."""
    for block in read_blocks(disk, LAYOUT, from_lsn=lsn, to_lsn=lsn):
        for event in events_of(block, lambda at, _: at == lsn):
            return event
    return None
