"""Plans a scan: which byte ranges of which segments to read, and the names of that history.

A plan is a snapshot. It ends with an LSN that is known to be durable, so every reader sees the same
events, however late it reads. Footers exclude blocks; a segment without a sound footer (the newest,
or a damaged one) is read block by block.

Fault model: that of readers of the journal; if a segment is removed while the plan is made or read,
that is a JournalError, unless a pin protects it (`pipeline.reading`). Must never know Arrow or
Spark.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from daybook.client.control import is_running
from daybook.engine.facts import events, kinds
from daybook.engine.facts.events import KIND, MESSAGE, TIME
from daybook.history.initial_state import beginning
from daybook.history.names import Names
from daybook.history.search import Clause, Search, kinds_mask
from daybook.journal.archive.archive import Archive
from daybook.journal.archive.disk import JoinedDisk
from daybook.journal.archive.ranges import RangedDisk
from daybook.journal.blocks.block import Block, kind_bit, queue_bit
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    FOOTER_ENTRY_FIELDS,
    Damage,
    segment_first_lsn,
)
from daybook.journal.confirmed import UNBOUNDED
from daybook.journal.disk import Disk
from daybook.journal.errors import ArchiveError, Corruption, JournalError, NoJournal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import (
    Segment,
    first_lsn_of,
    left_meanwhile,
    open_segment,
    segment_names,
)
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline.arrays import Part
from daybook.pipeline.naming import NO_NAMES, NameTables
from daybook.pipeline.selection import Selection, SelectionError
from daybook.recovery.readonly import journal_disk

LSN_MOST: Final = 1 << 62
SPLIT_BYTES: Final = 16 << 20
UNWANTED_BYTES_MAX: Final = 1 << 16
"""Unwanted blocks between two ranges are read too if they are smaller than this."""

ENTRY: Final = np.dtype(
    [(name, {"Q": "<u8", "I": "<u4", "q": "<i8"}[code]) for name, code in FOOTER_ENTRY_FIELDS]
)
NAMING: Final = kinds_mask(kinds.NAMING)
_NAMES: Final = Search(Clause(kinds.NAMING))
"""Events that name addresses and queues."""

ALL_QUEUES: Final = (1 << 64) - 1
"""The bloom filter of a block about which nothing is known."""

Entries = NDArray[Any]


class Source(msgspec.Struct, frozen=True):
    """The place of a history: a data directory, an archive (path or URL), or both as one."""

    directory: str = ""
    archive: str = ""

    def disk(self) -> Disk:
        """Return a Disk of all its segments.

        Raises NoJournal, and ArchiveError for an archive that lacks the segments that left, or that
        is of another data directory.
        """
        if not self.archive:
            return journal_disk(Path(self.directory))
        archive = Archive(self.archive)
        live = journal_disk(Path(self.directory)) if self.directory else None
        entries = archive.entries_before(live)
        if not entries and (live is None or first_lsn_of(live) > 1):
            raise ArchiveError(archive.url, "no segment is archived here; is it the right place?")
        return self._with_live(archive.ranges({each.segment: each.bytes for each in entries}))

    def disk_of(self, split: "Split") -> Disk:
        """Return a Disk for reading one split only, which needs no listing of the archive.

        Raises NoJournal and ArchiveError.
        """
        if not (self.archive and split.segment_bytes):
            return self.disk()
        return self._with_live(Archive(self.archive).ranges({split.segment: split.segment_bytes}))

    def _with_live(self, archived: RangedDisk) -> Disk:
        if not self.directory:
            return archived
        return JoinedDisk(archived, journal_disk(Path(self.directory)), archive_first=False)


class Split(msgspec.Struct, frozen=True):
    """A part of a scan: byte ranges of whole blocks in a segment, and the LSNs in them.

    `rows` is the number of events there, before any filter. `segment_bytes` is the size of the
    segment when the plan was made, 0 if unknown.
    """

    segment: str
    ranges: tuple[tuple[int, int], ...]
    first_lsn: int
    last_lsn: int
    rows: int
    segment_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The number of bytes to read."""
        return sum(end - start for start, end in self.ranges)


class Plan(msgspec.Struct, frozen=True):
    """A snapshot of a selection. `last_lsn` is the LSN of the last event of the history."""

    source: Source
    selection: Selection
    splits: tuple[Split, ...]
    names: NameTables
    first_lsn: int
    last_lsn: int


def make_plan(
    source: Source, selection: Selection, *, names: bool = True, split_bytes: int = SPLIT_BYTES
) -> Plan:
    """Plan a scan. Without `names` columns of names cannot be read.

    Raises JournalError, SelectionError for a name that history does not have, and what reading
    the base of a journal raises (`history.initial_state`).
    """
    disk = source.disk()
    planner = _Planner(source, disk, selection, split_bytes, names or selection.needs_names)
    return planner.plan()


def durable_lsn(source: Source, from_lsn: int = 1) -> int:
    """Return the LSN of the last durable event, at least `from_lsn` - 1; cheap near the end."""
    last = from_lsn - 1
    disk = source.disk()
    for block in _durable_blocks(disk, max(from_lsn, 1), served=_is_served(source)):
        last = max(last, block.last_lsn)
    return last


def open_planned(disk: Disk, name: str) -> Segment:
    """Open a segment of a listing that may be outdated.

    Raises Corruption, NewerFormat, WrongLayout, and JournalError if it was removed or cannot be
    read.
    """
    try:
        return open_segment(disk, name, LAYOUT)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and name not in segment_names(disk):
            raise left_meanwhile(name) from error
        raise unreadable(name, error) from error


def unreadable(name: str, error: OSError) -> JournalError:
    """Return the error for a segment that cannot be read."""
    return JournalError(f"segment {name} cannot be read: {error}")


def _is_served(source: Source) -> bool:
    """Return whether a broker may be appending, so that the last block may not be durable yet."""
    return bool(source.directory) and is_running(Path(source.directory))


def _durable_blocks(disk: Disk, from_lsn: int, *, served: bool) -> Iterator[Block]:
    """Yield blocks without heaps, up to the last one that is known to be durable."""
    blocks = read_blocks(disk, LAYOUT, from_lsn=from_lsn, heaps=False, proven=served)
    if served:
        yield from blocks
        return
    previous: Block | None = None
    for block in blocks:
        if previous is not None:
            yield previous
        previous = block
    # Nothing proves the last block: it may be torn, which only its heap's crc shows.
    if previous is not None and _has_its_heap(disk, previous):
        yield previous


def _has_its_heap(disk: Disk, block: Block) -> bool:
    segment = open_planned(disk, block.segment)
    try:
        segment.block_at(block.offset, with_heap=True)
    except Damage:
        return False
    finally:
        segment.close()
    return True


class _Planner:
    """Goes through the segments once, for names and for wanted blocks."""

    def __init__(
        self, source: Source, disk: Disk, selection: Selection, split_bytes: int, names: bool
    ) -> None:
        self._source: Final = source
        self._disk: Final = disk
        self._selection: Final = selection
        self._split_bytes: Final = split_bytes
        self._needs_names: Final = names
        self._proven: Final = _is_served(source)
        self._names: Final = Names()
        self._kinds: Final = kinds_mask(
            frozenset(events.BY_NAME[name].number for name in selection.kinds)
        )
        self._messages: Final = np.array(sorted(selection.messages), np.uint64)
        self._looks_closely: Final = names or selection != Selection(
            from_lsn=selection.from_lsn, to_lsn=selection.to_lsn
        )
        self._splits: list[Split] = []
        self._last_lsn = 0
        self._last_name = ""
        self._last_hash = b""
        """Last hash of the segment before the current one; empty if unknown."""

    def plan(self) -> Plan:
        names = segment_names(self._disk)
        if not names:
            raise NoJournal("there is no segment to read: the journal or the archive is empty")
        firsts = [segment_first_lsn(name) or 0 for name in names]
        if self._needs_names and firsts[0] > 1 and self._source.directory:
            for event in beginning(Path(self._source.directory), self._disk).events:
                self._names.learn(event.row, event.detail)
        self._last_lsn = firsts[0] - 1
        for position, name in enumerate(names):
            following = firsts[position + 1] if position + 1 < len(names) else None
            self._visit(name, following)
        tables = NameTables(self._names.addresses, self._names.queues)
        if self._selection.needs_names:
            self._check_names(tables)
        return Plan(
            self._source, self._selection, tuple(self._splits),
            tables if self._needs_names else NO_NAMES, firsts[0], self._last_lsn,
        )  # fmt: skip

    def _check_names(self, tables: NameTables) -> None:
        tables.queues.ids_of(self._selection.queues, "queue")
        tables.addresses.ids_of(self._selection.addresses, "address")

    def _visit(self, name: str, following: int | None) -> None:
        """Process one segment; `following` is the first LSN of the next one."""
        outside = following is not None and self._lies_outside(name, following)
        if outside and not self._needs_names:
            assert following is not None
            self._last_lsn, self._last_name, self._last_hash = following - 1, name, b""
            return
        segment = open_planned(self._disk, name)
        try:
            self._check_follows(segment)
            entries, last_hash = self._entries(segment, following)
            self._learn(segment, entries)
            if not outside:
                self._split(segment, entries[self._wanted(entries)])
        except OSError as error:
            raise unreadable(name, error) from error
        finally:
            segment.close()
        self._last_name, self._last_hash = name, last_hash
        if len(entries):
            self._last_lsn = int(entries["first_lsn"][-1] + entries["event_count"][-1]) - 1

    def _check_follows(self, segment: Segment) -> None:
        """Raise JournalError if this segment does not continue the one before it."""
        name, first = segment.name, segment.header.first_lsn
        if self._last_lsn + 1 != first:
            raise JournalError(
                f"events {self._last_lsn + 1} to {first - 1} are missing: segment {name} does not "
                f"continue {self._last_name}. Restore the events between, or name the archive "
                "that has them, or select only one side (lsn)"
            )
        if self._last_hash and segment.header.previous_hash != self._last_hash:
            what = (
                f"it does not carry the hash of the last block of {self._last_name}: they belong "
                "to different journals, or one was changed"
            )
            raise Corruption(name, 0, first, what)

    def _entries(self, segment: Segment, following: int | None) -> tuple[Entries, bytes]:
        """Return the footer entries of a segment, and the hash of its last block if known."""
        try:
            footer = segment.footer()
        except Damage:
            return self._walk(segment.name, following), b""
        entries = np.frombuffer(footer.packed_entries, ENTRY)
        if following is None:
            # A sealed segment may end with events that the cluster of a node has not confirmed.
            confirmed = min(getattr(self._disk, "confirmed_lsn", UNBOUNDED), LSN_MOST)
            entries = entries[entries["first_lsn"] + entries["event_count"] <= confirmed + 1]
        return entries, footer.last_hash

    def _lies_outside(self, name: str, following: int) -> bool:
        first = segment_first_lsn(name) or 0
        to_lsn = self._selection.to_lsn
        return following <= self._selection.from_lsn or (to_lsn is not None and first > to_lsn)

    def _walk(self, name: str, following: int | None) -> Entries:
        """Compute the footer entries of a segment that has no footer."""
        first = segment_first_lsn(name) or 1
        if following is None:
            blocks = _durable_blocks(self._disk, first, served=self._proven)
        else:
            blocks = read_blocks(
                self._disk, LAYOUT, from_lsn=first, to_lsn=following - 1, heaps=False
            )
        summarised = _summarised if self._looks_closely else _measured
        rows = [summarised(block) for block in blocks if block.segment == name]
        return np.array(rows, ENTRY)

    def _learn(self, segment: Segment, entries: Entries) -> None:
        """Collect the names of addresses and queues."""
        if not self._needs_names:
            return
        codec = segment.codec()
        for entry in entries[(entries["kinds"] & np.uint64(NAMING)) != 0]:
            offset, first_lsn = int(entry["offset"]), int(entry["first_lsn"])
            try:
                block = Block(codec, segment.block_at(offset, with_heap=True), segment.name)
                for event in _NAMES.events_in(block):
                    self._names.learn(event.row, event.detail)
            except Damage as damage:
                raise Corruption(segment.name, offset, first_lsn, str(damage)) from damage

    def _wanted(self, entries: Entries) -> NDArray[np.bool_]:
        """Return which blocks may contain selected events."""
        selection = self._selection
        wanted = entries["event_count"] > 0
        lasts = entries["first_lsn"] + entries["event_count"] - 1
        wanted &= lasts >= selection.from_lsn
        if selection.to_lsn is not None:
            wanted &= entries["first_lsn"] <= selection.to_lsn
        if selection.since is not None:
            wanted &= entries["time_max"] >= selection.since
        if selection.until is not None:
            wanted &= entries["time_min"] <= selection.until
        if selection.kinds:
            wanted &= (entries["kinds"] & np.uint64(self._kinds)) != 0
        if selection.queues:
            wanted &= (entries["queues"] & np.uint64(self._queue_bits())) != 0
        if len(self._messages):
            lowest = np.searchsorted(self._messages, entries["message_min"], "left")
            behind = np.searchsorted(self._messages, entries["message_max"], "right")
            wanted &= behind > lowest
        return wanted

    def _queue_bits(self) -> int:
        """Return the bits of the queues' ids known so far, and of 0 for several queues."""
        chosen = set(self._selection.queues)
        bits = queue_bit(0)
        for number, name in self._names.queues.items():
            if name in chosen:
                bits |= queue_bit(number)
        return bits

    def _split(self, segment: Segment, entries: Entries) -> None:
        """Divide the wanted blocks of a segment into splits."""
        if not len(entries):
            return
        starts = entries["offset"].astype(np.int64)
        ends = starts + BLOCK_HEADER_BYTES
        ends += entries["rows_stored_bytes"]
        ends += entries["heap_stored_bytes"]
        begin = 0
        taken = np.cumsum(ends - starts)
        while begin < len(entries):
            before = int(taken[begin - 1]) if begin else 0
            end = int(np.searchsorted(taken, before + self._split_bytes, "left")) + 1
            end = min(end, len(entries))
            part = entries[begin:end]
            self._splits.append(
                Split(
                    segment.name, tuple(_ranges(starts[begin:end], ends[begin:end])),
                    int(part["first_lsn"][0]),
                    int(part["first_lsn"][-1] + part["event_count"][-1]) - 1,
                    int(part["event_count"].sum()), segment.file.size(),
                )
            )  # fmt: skip
            begin = end


def _measured(block: Block) -> tuple[int, ...]:
    """Make a footer entry with the sizes of a block only."""
    header = block.header
    return (
        block.offset, block.first_lsn, block.count, header.rows_stored_bytes,
        header.heap_stored_bytes, header.heap_raw_bytes, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip


def _summarised(block: Block) -> tuple[int, ...]:
    """Make a footer entry of a block."""
    if not block.count:
        return _measured(block)
    stored = _measured(block)[:6]
    rows = Part(block, wanted=(KIND, MESSAGE, TIME))
    kinds, messages, times = rows.raw(KIND), rows.raw(MESSAGE), rows.raw(TIME)
    named = messages[messages > 0]
    lowest, highest = (int(named.min()), int(named.max())) if len(named) else (0, 0)
    kind_bits = 0
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        kind_bits |= kind_bit(kind)
    # Finding the queues would take longer than reading the block.
    return (*stored, int(times.min()), int(times.max()), lowest, highest, kind_bits, ALL_QUEUES)


def _ranges(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield byte ranges that cover blocks, including small gaps between them."""
    cuts = np.flatnonzero(starts[1:] - ends[:-1] > UNWANTED_BYTES_MAX) + 1
    firsts = [0, *cuts.tolist()]
    lasts = [*cuts.tolist(), len(starts)]
    for first, last in zip(firsts, lasts, strict=True):
        yield int(starts[first]), int(ends[last - 1])


def check_source(source: Source) -> None:
    """Raise SelectionError if a source names nothing."""
    if not (source.directory or source.archive):
        raise SelectionError("name a data directory, an archive, or both")
