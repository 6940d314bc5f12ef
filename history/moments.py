"""Moments of history: the last event that is not younger than a time.

Footers and headers of blocks are searched by halves, as if times never went back. Where the clock
was set back, one of the possible events is found; the answer names it, so that one can ask for
another. Must never know what a state is.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daybook.engine.facts.events import TIME
from daybook.errors import DaybookError
from daybook.history.event_finder import EventFinder
from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of, open_segment, segment_names
from daybook.paging.tables.layout import LAYOUT
from daybook.texts import moment

NEWEST: Final = (1 << 62) - 1
"""The moment behind all events."""


def last_lsn(disk: Disk, *, proven: bool = False) -> int:
    """Return the last event of a journal, 0 if it has none. Raises JournalError.

    With `proven` it is the last one of which a later block or segment proves that it is durable.
    """
    names = segment_names(disk)
    found = 0
    for name in reversed(names):
        found = _last_from(disk, segment_first_lsn(name) or 1, proven=proven)
        if found:
            break
    return found


def newest_lsn(finder: EventFinder) -> int:
    """Return what `last_lsn` does; the catalogs of a finder save reading most of the newest
    segment. Raises JournalError."""
    near = finder.catalogs.near(NEWEST) if finder.catalogs is not None else (0, 0)
    if not near[0]:
        return last_lsn(finder.disk)
    return _last_from(finder.disk, near[0], near)


def _last_from(
    disk: Disk, from_lsn: int, near: tuple[int, int] = (0, 0), *, proven: bool = False
) -> int:
    blocks = read_blocks(disk, LAYOUT, from_lsn=from_lsn, heaps=False, proven=proven, near=near)
    return max((block.last_lsn for block in blocks if block.count), default=0)


class NoSuchMoment(DaybookError):
    """A journal has no event of a moment, or not any more."""


def event_of(
    directory: Path, disk: Disk, lsn: int, time: int | None, finder: EventFinder | None = None
) -> tuple[int, int]:
    """Return the event of a moment, an LSN or a time, and its time. Raises NoSuchMoment,
    ExportError and JournalError.

    A `finder` with catalogs saves reading.
    """
    finder = finder or EventFinder(disk)
    lsn = lsn_at(disk, time) if time is not None else lsn
    event = finder.at(lsn) if lsn else None
    if event is not None:
        return lsn, event.row[TIME]
    if lsn >= first_lsn_of(disk):
        raise NoSuchMoment(f"the journal ends with event {newest_lsn(finder)}, before event {lsn}")
    from daybook.history.initial_state import before_the_first  # noqa: PLC0415 (slow to import)

    raise NoSuchMoment(
        f"the journal begins with event {first_lsn_of(disk)}, after "
        f"{moment(time) if time is not None else f'event {lsn}'}; "
        f"{before_the_first(directory, disk)}"
    )


def lsn_at(disk: Disk, time: int) -> int:
    """Return the last event until a time, in microseconds since 1970. Raises JournalError.

    If all events are younger, that is the one before the first event of the journal.
    """
    names = segment_names(disk)
    number = bisect_right(names, time, key=lambda name: _first_time(disk, name)) - 1
    if number < 0:
        return first_lsn_of(disk) - 1
    begin = segment_first_lsn(names[number]) or 1
    found = begin - 1
    for first_lsn, first_time in _beginnings(disk, names[number], begin):
        if first_time > time:
            break
        found = first_lsn
    return _last_within(disk, found, time) if found >= begin else found


def _first_time(disk: Disk, name: str) -> int:
    """Return the time of the first event of a segment; one without events lies in the future."""
    begin = segment_first_lsn(name) or 1
    return next((time for _, time in _beginnings(disk, name, begin)), 1 << 63)


def _beginnings(disk: Disk, name: str, begin: int) -> Iterator[tuple[int, int]]:
    """Yield the first event of each block of a segment, with its time."""
    segment = open_segment(disk, name, LAYOUT)
    try:
        footer = segment.footer()
    except Damage:
        footer = None
    finally:
        segment.close()
    if footer is not None and footer.block_count:
        # One after the other: most callers need the first alone.
        for entry in footer.entries():
            if entry.event_count:
                yield entry.first_lsn, entry.time_min
        return
    for block in read_blocks(disk, LAYOUT, from_lsn=begin, heaps=False):
        if block.segment != name:
            return
        if block.count:
            yield block.first_lsn, int(block.columns()[TIME][0])


def _last_within(disk: Disk, first_lsn: int, time: int) -> int:
    """Return the last event until a time in the block that begins with an event."""
    for block in read_blocks(disk, LAYOUT, from_lsn=first_lsn, heaps=False):
        if block.count:
            times = block.columns()[TIME]
            return block.first_lsn + max(bisect_right(times, time), 1) - 1
    return first_lsn
