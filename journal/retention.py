"""Retention: chooses which of the oldest segments may leave the live set, and removes them.

The choice is a pure function. The segments that leave are always a run of the oldest ones, never
the newest, so the live journal has no gap.

Fault model of `remove`: a crash or power cut at any moment leaves the newer part of the journal
complete, because each removal is durable before the next one begins.

Must never know: what a column means, what time it is, whether there is an archive.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption
from daybook.journal.pins import holding_off_pins
from daybook.journal.segments.repair import summary_of
from daybook.journal.segments.segment import Segment, open_segment, segment_names


class Limits(msgspec.Struct, frozen=True):
    """How much history stays in the live set; None sets no limit.

    `max_age_ms` is milliseconds since the newest event of a segment, `max_bytes` the size of all
    segments, including reserved space in the newest.
    """

    max_age_ms: int | None = None
    max_bytes: int | None = None


class SealedSegment(msgspec.Struct, frozen=True):
    """The facts about a segment that retention needs. `time_max` is microseconds since 1970 UTC."""

    name: str
    first_lsn: int
    last_lsn: int
    file_bytes: int
    time_max: int


class Choice(msgspec.Struct, frozen=True):
    """Segments that may leave, oldest first.

    `held_back` is the next segment, if a limit is exceeded but some of its events must stay.
    `doubtful` is the first examined segment whose newest event is later than now.
    """

    removable: tuple[SealedSegment, ...] = ()
    held_back: SealedSegment | None = None
    doubtful: SealedSegment | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the segments that may leave."""
        return tuple(segment.name for segment in self.removable)

    @property
    def last_lsn(self) -> int:
        """The last LSN that leaves; 0 if none does."""
        return self.removable[-1].last_lsn if self.removable else 0


def choose(
    sealed: Iterable[SealedSegment],
    limits: Limits,
    *,
    live_bytes: int,
    now: int,
    lowest_kept_lsn: int,
) -> Choice:
    """Choose which of the oldest segments may leave.

    `sealed` are all segments but the newest, oldest first; it may be a lazy iterator, as no more of
    them are read than needed. `live_bytes` is the size of all segments, including the newest; `now`
    is microseconds since 1970 UTC; everything from `lowest_kept_lsn` on must stay.
    """
    removable: list[SealedSegment] = []
    doubtful: SealedSegment | None = None
    for segment, time in _written_before(sealed, now):
        assert not removable or segment.first_lsn == removable[-1].last_lsn + 1, (
            "a gap in the journal"
        )
        if segment.time_max > now and doubtful is None:
            doubtful = segment
        if not _is_unwanted(time, limits, live_bytes, now):
            break
        if segment.last_lsn >= lowest_kept_lsn:
            return Choice(tuple(removable), segment, doubtful)
        removable.append(segment)
        live_bytes -= segment.file_bytes
    return Choice(tuple(removable), None, doubtful)


def _written_before(
    sealed: Iterable[SealedSegment], now: int
) -> Iterator[tuple[SealedSegment, int]]:
    """Yield each segment with the time by which it was written, corrected for wrong clocks.

    Segments are written one after the other, so this time never decreases: a segment is not older
    than the one before it. A segment with events from the future gets the time of the first later
    segment without such events, or `now` if there is none.
    """
    newest = 0
    doubtful: list[SealedSegment] = []
    for segment in sealed:
        if segment.time_max > now:
            doubtful.append(segment)
            continue
        newest = max(newest, segment.time_max)
        for earlier in doubtful:
            yield earlier, newest
        doubtful.clear()
        yield segment, newest
    for segment in doubtful:
        yield segment, now


def _is_unwanted(time: int, limits: Limits, live_bytes: int, now: int) -> bool:
    if limits.max_bytes is not None and live_bytes > limits.max_bytes:
        return True
    return limits.max_age_ms is not None and now - time > limits.max_age_ms * 1000


def sealed_segments(disk: Disk) -> Iterator[SealedSegment]:
    """Yield all segments but the newest, oldest first, each read when it is needed.

    If a footer is damaged, the blocks are read. Raises Corruption, NewerFormat and OSError.
    """
    for name, following in pairwise(segment_names(disk)):
        yield _read_sealed(disk, name, following)[0]


def _read_sealed(disk: Disk, name: str, following: str) -> tuple[SealedSegment, bool]:
    """Describe a segment before the one named `following`; return whether its footer is sound."""
    segment = open_segment(disk, name)
    try:
        try:
            time_max = max((entry.time_max for entry in segment.footer().entries()), default=0)
            is_sound = True
        except Damage:
            time_max = _newest_time_of_blocks(segment)
            is_sound = False
        last_lsn = (segment_first_lsn(following) or 0) - 1
        first_lsn = segment.header.first_lsn
        sealed = SealedSegment(name, first_lsn, last_lsn, segment.file.size(), time_max)
    finally:
        segment.close()
    return sealed, is_sound


class SegmentTable:
    """A cache of the sealed segments of a journal: each is opened only once.

    Must not be shared between threads.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known: dict[str, SealedSegment] = {}

    def look(self) -> tuple[list[SealedSegment], int]:
        """Return all segments but the newest, oldest first, and the bytes of all segments.

        Raises Corruption, NewerFormat and OSError.
        """
        names = segment_names(self._disk)
        there = set(names)
        for gone in [name for name in self._known if name not in there]:
            del self._known[gone]
        sealed = []
        for name, following in pairwise(names):
            segment = self._known.get(name)
            if segment is None:
                segment, is_sound = _read_sealed(self._disk, name, following)
                if is_sound:
                    self._known[name] = segment
            sealed.append(segment)
        live_bytes = sum(segment.file_bytes for segment in sealed)
        return sealed, live_bytes + sum(_size_of(self._disk, name) for name in names[-1:])


def _size_of(disk: Disk, name: str) -> int:
    file = disk.open(name)
    try:
        return file.size()
    finally:
        file.close()


def remove(disk: Disk, names: Sequence[str]) -> None:
    """Remove these segments, the oldest ones of a journal, oldest first.

    Missing segments are skipped, so a removal that a crash interrupted may be repeated. Raises
    OSError; the segments removed until then leave no gap.
    """
    there = segment_names(disk)
    left = [name for name in names if name in there]
    assert left == there[: len(left)], "only the oldest segments may leave"
    assert not left or len(left) < len(there), "the newest segment must stay"
    for name in left:
        disk.remove(name)
        disk.sync_directory()


def remove_unpinned(
    disk: Disk, directory: Path | str, segments: Sequence[SealedSegment], now: int | None = None
) -> tuple[str, ...]:
    """Remove those of these oldest segments that no reader needs; return their names.

    `directory` is the data directory with the readers' pins. Only leases that have not ended at
    `now` (microseconds since 1970 UTC) count; with None all count. Raises OSError, also if the pins
    cannot be read; then no segment is removed.
    """
    with holding_off_pins(directory, now) as lowest:
        names = tuple(segment.name for segment in segments if segment.last_lsn < lowest)
        remove(disk, names)
    return names


def _newest_time_of_blocks(segment: Segment) -> int:
    newest = 0
    offset = segment.first_offset
    try:
        codec = segment.codec()
        while not segment.begins_footer_at(offset):
            block = segment.block_at(offset, with_heap=False)
            newest = max(newest, summary_of(codec, block).time_max)
            offset += block.header.block_bytes
    except Damage as damage:
        raise Corruption(segment.name, offset, segment.header.first_lsn, str(damage)) from damage
    return newest
