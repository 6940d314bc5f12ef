"""Salvage: a new data directory with all provably sound parts of a damaged one (ADR 67).

Data flow: sound blocks are found by their own crcs; an archive, if one is named, lends missing
segments (`recovery.salvage.salvage_archive`); the newest sound state is looked for (index,
snapshots, base); all sound blocks are copied under a new data id, each event with its LSN, gaps
filled with `Lost`; events behind a gap that no state covers are made to fit
(`recovery.salvage.fitting`); the index is made of that, and messages whose content is missing are
removed by events that say so. Fault model: every file of the source may be missing, unreadable, or
contain anything. Does not change the source; the target appears as the last step.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import time_ns
from typing import Any, Final, NamedTuple

import msgspec

from daybook.engine.facts import details, events, reasons
from daybook.engine.queues.queue import StoreError
from daybook.engine.state.state import State
from daybook.errors import DaybookError
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import DATA_ID_BYTES, Damage
from daybook.journal.copying import CopyDisk, JournalCopy
from daybook.journal.data_directory import (
    BASE,
    CLUSTERS_DIRECTORY,
    DATA_ID,
    INDEX,
    JOURNAL,
    SNAPSHOTS,
    TABLES,
    TABLES_LOCK,
    USERS,
)
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.errors import DiskFull, JournalError
from daybook.journal.segments.segment import data_id_of, first_lsn_of, open_segment, segment_names
from daybook.journal.segments.sound_blocks import Broken, Gap, pieces
from daybook.paging.checks.index_check import check
from daybook.paging.content.cluster_writer import forget_clusters
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.batches import folded
from daybook.paging.fold.index import Index
from daybook.paging.retention.missing_content import without_content
from daybook.paging.snapshots.base import BaseDamaged, describe, publish, restore_copy
from daybook.paging.snapshots.index_copy import copy_index
from daybook.paging.snapshots.snapshots import known_snapshots
from daybook.paging.tables.carried_content import forget_lost
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import (
    IndexDamaged,
    IndexUnwritable,
    open_for_reading,
    open_for_writing,
)
from daybook.recovery.fold import fold_block
from daybook.recovery.salvage.fitting import Fact, Fitter, Wanted, batch_of, lost_rows
from daybook.recovery.salvage.fork import made
from daybook.recovery.salvage.salvage_archive import Evidence, Lender, Needs
from daybook.recovery.salvage.salvage_gaps import begin_of, head_gap, in_order, missing_in
from daybook.recovery.salvage.salvage_names import LISTED_MAX, QueueNames, name_untaken
from daybook.recovery.salvage.salvage_report import Report, described, skipped_in
from daybook.recovery.signing.file_errors import is_full

FILL_EVENTS: Final = 1 << 16
"""How many lost events a block stands for."""
FREE_MIN: Final = 1 << 16
"""With less free space a failed copy does not mean that the source is damaged."""
_KNOWN: Final = "known"
_BASE: Final = "the base"


class SalvageError(DaybookError):
    """The directory cannot be salvaged; the text says why."""


class _State(NamedTuple):
    """A sound copy of tables, the event that they stand for, and the hash of its block."""

    path: Path
    lsn: int
    block_hash: bytes
    name: str


class _Scan(msgspec.Struct):
    """The result of the first reading: the gaps, the ends of the journal, hashes of blocks."""

    gaps: list[Gap] = []
    broken: list[Broken] = []
    segments: set[str] = set()
    first_lsn: int = 0
    last_lsn: int = 0
    events: int = 0
    blocks: int = 0
    hashes: dict[int, bytes] = {}
    ends: dict[int, bytes] = {}


def salvage(
    source: Path,
    target: Path,
    *,
    archive: Archive | None = None,
    note: Callable[[str], None],
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Make a data directory from the sound parts of another one; return a report of the gaps.

    Damaged or missing segments that are whole in `archive` are taken from there. `progress` is
    called with the number of bytes read, each byte being read two or three times. Raises
    SalvageError, ForkError about the target, JournalError and OSError.
    """
    try:
        with made(target, source, "unfinished") as work:
            return _Salvage(source, target, work, note, progress).run(archive)
    except (DiskFull, OSError) as error:
        if not is_full(error):
            raise
        raise SalvageError(
            f"no space is left for {target}: the salvage needs about as much as the journal in "
            f"{source}, and as much again as its index and snapshots. Nothing was left there"
        ) from error


class _Salvage:
    def __init__(
        self,
        source: Path,
        target: Path,
        work: Path,
        note: Callable[[str], None],
        progress: Callable[[int], None] | None,
    ) -> None:
        self._source: Final = source
        self._work: Final = work
        self._disk: Disk = RealDisk(source / JOURNAL)
        self._made_disk: Final = RealDisk(work / JOURNAL)
        self._note: Final = note
        self._progress: Final = progress
        self._id: Final = os.urandom(DATA_ID_BYTES)
        self._source_id = _id_of(source, self._disk)
        self._journal: JournalCopy | None = None
        self._time = 0
        self._fitter: Fitter | None = None
        self._fits_from = 0
        self._left_until = 0
        self._position = (0, bytes(16), 0)
        self._made: dict[int, list[Fact]] = {}
        self._names: Final = QueueNames()
        self.report: Final = Report(str(target), self._id.hex(), self._source_id.hex())

    def run(self, archive: Archive | None) -> Report:
        """Do all of it."""
        scan = self._scan()
        states = list(self._states())
        if archive is not None and self._borrow(archive, scan, states):
            scan = self._scan()
        for text in _doubts(self._source, self._disk, self._source_id):
            self._say(text)
        known = self._known_state(scan, states)
        # Gaps that the state does not cover: only there events are made to fit.
        after = [gap for gap in scan.gaps if gap.last_lsn > max(known.lsn, gap.first_lsn - 1)]
        if any(gap.blocks for gap in scan.gaps):
            self._know_names(states)
        store = _opened(known, self._disk)
        try:
            if after:
                self._fitter = Fitter(store.checkpoint() if store is not None else State())
                self._prepare(known, after)
            self._write(scan, known)
        finally:
            if store is not None:
                store.close()
        journal = self._open_journal()
        with closing(self._index(known, scan)) as index:
            self._follow(index)
            self._remove_lost(index, scan, journal)
            self._say_so(journal, scan)
            self._follow(index)
            self._describe_gaps(scan, index)
        journal.finish(self._time)
        self._finish(scan, known)
        return self.report

    def _know_names(self, states: list[_State]) -> None:
        for each in states:
            store = _opened(each, self._disk)
            if store is None:
                continue
            with closing(store):
                queues = store.checkpoint().queues.values()
                self._names.know({queue.id: queue.name for queue in queues})

    def _pieces(self) -> Iterator[Block | Gap | Broken]:
        return pieces(self._disk, self._source_id, progress=self._progress)

    def _say(self, text: str) -> None:
        self.report.notes.append(text)
        self._note(text)

    # ---- the existing parts

    def _scan(self) -> _Scan:
        scan = _Scan()
        segment, end = "", (0, b"")
        for piece in self._pieces():
            if isinstance(piece, Gap) or (isinstance(piece, Block) and piece.segment != segment):
                scan.ends[end[0]] = end[1]
            if isinstance(piece, Block):
                segment, end = piece.segment, (piece.last_lsn + 1, piece.hash)
            if isinstance(piece, Gap):
                scan.gaps.append(piece)
            elif isinstance(piece, Broken):
                scan.broken.append(piece)
            else:
                scan.segments.add(piece.segment)
                if piece.count:
                    scan.first_lsn = scan.first_lsn or piece.first_lsn
                    scan.last_lsn = piece.last_lsn
                    scan.hashes[piece.last_lsn] = piece.hash
                    scan.events += piece.count
                    scan.blocks += 1
        scan.ends[end[0]] = end[1]
        if not scan.events:
            raise SalvageError(
                f"there is no sound block in {self._source / JOURNAL}: the journal cannot be "
                f"salvaged. An archive or a backup may have its events"
            )
        return scan

    def _borrow(self, archive: Archive, scan: _Scan, states: list[_State]) -> bool:
        """Take segments from an archive in place of damaged or missing ones; return whether any."""
        source = RealDisk(self._source / JOURNAL)
        folder = self._work / f"{_KNOWN}-archive"
        folder.mkdir(mode=0o700)
        lender = Lender(archive, self._source_id.hex(), source, folder, self._say)
        needs = Needs(
            scan.gaps,
            frozenset(broken.segment for broken in scan.broken),
            frozenset(name for name, _ in _bad_headers(source)),
            max((state.lsn for state in states if state.name == _BASE), default=0),
            scan.first_lsn,
        )
        known = {state.lsn: state.block_hash for state in states}
        evidence = Evidence(scan.hashes, scan.ends, known)
        self.report.archive = archive.url
        self._disk, taken = lender.borrow(needs, evidence, self._progress or (lambda _: None))
        self.report.from_archive = taken
        return bool(taken)

    def _known_state(self, scan: _Scan, states: list[_State]) -> _State:
        """Find a sound state to begin with: the newest if anything is missing, else the oldest."""
        nothing = _State(Path(), 0, b"", "the first event")
        found = [state for state in states if self._fits(state, scan)]
        scan.gaps = in_order(scan.gaps)
        begins = begin_of(scan.gaps, scan.first_lsn)
        if not scan.gaps and begins == 1:
            return nothing
        whole = [state for state in found if state.lsn >= begins - 1]
        if scan.gaps or begins > self._left_until + 1 or not whole:
            best = max(found, key=lambda state: state.lsn, default=nothing)
        else:
            best = min(whole, key=lambda state: state.lsn)
        if begins > 1 and best is nothing:
            self._say(
                f"the journal begins with event {begins}, and no sound state before it is "
                "left (base, snapshots, index): the messages queued then are unknown"
            )
        head = head_gap(begins, self._left_until, best.lsn)
        if head is not None:
            scan.gaps.insert(0, head)
        self.report.state_from, self.report.state_lsn = best.name, best.lsn
        return best

    def _states(self) -> Iterator[_State]:
        yield from self._one("the index", lambda path: self._copied_index(path))
        snapshots = self._source / SNAPSHOTS
        for known in known_snapshots(snapshots, self._source_id):
            where = f"the snapshot at event {known.lsn}"
            yield from self._one(where, lambda path, k=known: _restored(snapshots, k, path))  # type: ignore[misc]
        base = self._source / BASE
        try:
            described = describe(base, self._source_id)
        except BaseDamaged as damage:
            # Segments may have left: how many is not known.
            self._left_until = 1 << 64
            self._say(str(damage).partition(". ")[0])
            return
        if described is not None:
            self._left_until = described.lsn
            yield from self._one(_BASE, lambda path: _restored(base, described, path))

    def _one(self, name: str, bring: Callable[[Path], None]) -> Iterator[_State]:
        """Bring tables to a folder, read all of them, and yield them if they are sound."""
        folder = self._work / f"{_KNOWN}-{len(list(self._work.glob(_KNOWN + '*')))}"
        folder.mkdir()
        path = folder / INDEX
        try:
            bring(path)
            check(path, clusters=False)
            with closing(open_for_reading(path, self._source_id)) as tables, tables.read() as txn:
                lsn, block_hash, _ = tables.position(txn)
            yield _State(path, lsn, block_hash, name)
        except FileNotFoundError:
            pass
        except (IndexDamaged, IndexUnwritable, StoreError, OSError) as error:
            if is_full(error) or shutil.disk_usage(folder).free < FREE_MIN:
                # It is not a fault of the source.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
            self._say(f"{name} cannot be used: {error}")

    def _copied_index(self, path: Path) -> None:
        if not (self._source / INDEX / TABLES).exists():
            raise FileNotFoundError
        copy_index(self._source, path)
        (path / CLUSTERS_DIRECTORY).unlink()

    def _fits(self, state: _State, scan: _Scan) -> bool:
        """Whether a state is of this journal; one of events that are missing cannot be compared."""
        if not state.lsn:
            return False
        known = scan.hashes.get(state.lsn)
        within = any(gap.first_lsn <= state.lsn <= gap.last_lsn for gap in scan.gaps)
        is_it = known == state.block_hash or (known is None and (
            within or state.lsn > scan.last_lsn or state.lsn < scan.first_lsn
        ))  # fmt: skip
        if not is_it:
            self._say(f"{state.name} is not of this journal: it is not used")
        elif state.lsn > scan.last_lsn and not within:
            scan.gaps.append(
                Gap(scan.last_lsn + 1, state.lsn, "", 0, 0, f"{state.name} knows of these events")
            )
        return is_it

    # ---- events behind a gap

    def _prepare(self, known: _State, after: list[Gap]) -> None:
        """Fold up to the first gap; find the objects that later events name; give them room in the
        gaps.
        """
        fitter = self._fitter
        assert fitter is not None
        begins = after[0].first_lsn
        wanted: Wanted | None = None
        for piece in self._pieces():
            if not isinstance(piece, Block) or not piece.count or piece.last_lsn <= known.lsn:
                continue
            if piece.first_lsn < begins:
                fold_block(piece, fitter.state)
                continue
            wanted = wanted or self._begin_fitting(fitter)
            wanted.follow(piece)
        if wanted is None:
            self._begin_fitting(fitter)
            return
        rooms = [[gap, gap.last_lsn - max(gap.first_lsn - 1, known.lsn)] for gap in after]
        for lsn, fact in reversed(wanted.found):
            for room in reversed(rooms):
                gap: Any = room[0]
                if gap.last_lsn < lsn and room[1]:
                    room[1] -= 1  # type: ignore[operator]
                    self._made.setdefault(gap.first_lsn, []).insert(0, fact)
                    break

    def _begin_fitting(self, fitter: Fitter) -> Wanted:
        self.report.uncertain = sum(queue.message_count for queue in fitter.state.queues.values())
        return Wanted(fitter.state)

    # ---- writing

    def _open_journal(self) -> JournalCopy:
        """Return the journal that is being written."""
        assert self._journal is not None
        return self._journal

    def _write(self, scan: _Scan, known: _State) -> None:
        """Write all sound blocks and substitutes for the gaps."""
        # A journal that begins later than at 1 has a base, and the state is that.
        begin = 1 if not known.lsn else max(min(scan.first_lsn, known.lsn + 1), 2)
        self._position = (known.lsn, bytes(16), 0)
        disk = CopyDisk(self._work / JOURNAL)
        disk.create()
        self._journal = JournalCopy.begin(disk, LAYOUT, data_id=self._id, first_lsn=begin)
        gaps = iter(scan.gaps)
        gap = next(gaps, None)
        for piece in self._pieces():
            if not isinstance(piece, Block):
                continue
            while gap is not None and gap.first_lsn < piece.first_lsn:
                self._names.note(gap)
                self._fill(gap, known, piece.time)
                gap = next(gaps, None)
            if not piece.is_mark:
                self._names.follow(piece)
                self._put(piece, known, begin)
        while gap is not None:
            self._names.note(gap)
            self._fill(gap, known, self._time)
            gap = next(gaps, None)

    def _put(self, block: Block, known: _State, begin: int) -> None:
        journal = self._open_journal()
        self._time = block.time
        if block.first_lsn < begin:
            # The first event; it is not needed if the salvage begins with a state.
            facts = [Fact(*event[1:]) for event in block.events()][begin - block.first_lsn :]
            if facts:
                journal.append(batch_of(begin, facts))
        else:
            fitter = self._fitter if 0 < self._fits_from < block.first_lsn else None
            fitted = fitter.fit(block) if fitter is not None else None
            if fitted is None:
                journal.copy(block)
            else:
                journal.append(fitted)
        if block.last_lsn == known.lsn:
            self._position = (known.lsn, journal.last_hash, block.time)

    def _fill(self, gap: Gap, known: _State, time: int) -> None:
        """Fill a gap: with the objects created in it, as far as known, and `Lost`."""
        journal = self._open_journal()
        lsn, last = max(gap.first_lsn, journal.next_lsn), gap.last_lsn
        if last < lsn:
            return
        if lsn <= known.lsn:
            lsn = self._fill_up(lsn, min(last, known.lsn), time)
            if lsn > known.lsn:
                self._position = (known.lsn, journal.last_hash, time)
        if self._fitter is not None and last > known.lsn:
            self._fits_from = last
            facts = self._made.get(gap.first_lsn, [])
            fitted = [self._fitter.apply(lsn + at, fact) for at, fact in enumerate(facts)]
            if fitted:
                journal.append(batch_of(lsn, fitted))
                lsn += len(fitted)
                self.report.created += [_name_in(fact) for fact in fitted]
        self._fill_up(lsn, last, time)

    def _fill_up(self, lsn: int, last: int, time: int) -> int:
        while lsn <= last:
            end = min(lsn + FILL_EVENTS - 1, last)
            self._open_journal().append(lost_rows(lsn, end, time))
            lsn = end + 1
        return lsn

    # ---- the index

    def _index(self, known: _State, scan: _Scan) -> Index:
        path = self._work / INDEX
        if not known.lsn:
            return Index(path, self._id, clusters=False)
        shutil.copytree(known.path, path)
        tables = open_for_writing(path, self._source_id)
        try:
            tables.write(lambda txn: tables.set_data_id(txn, self._id))
            tables.write(lambda txn: forget_clusters(tables, txn))
            is_lost = missing_in(scan.gaps)
            tables.write(lambda txn: forget_lost(tables, txn, is_lost))
            tables.write(lambda txn: tables.set_position(txn, *self._position))
            copied = self._work / BASE / "copy"
            copied.mkdir(mode=0o700, parents=True)
            tables.copy_to(copied)
            publish(self._work / BASE, copied / TABLES, known.lsn, self._id)
            shutil.rmtree(copied)
        finally:
            tables.close()
        return Index(path, self._id, clusters=False)

    def _follow(self, index: Index) -> None:
        last = self._open_journal().durable_lsn
        for _ in folded(index, self._made_disk, last):
            pass

    def _remove_lost(self, index: Index, scan: _Scan, journal: JournalCopy) -> None:
        """Remove the messages whose content is missing, by events that say so."""
        begins = first_lsn_of(self._made_disk)
        gone = [(1, begins - 1), *((gap.first_lsn, gap.last_lsn) for gap in scan.gaps)]
        with closing(self._store(index)) as store:
            state = store.checkpoint()
        found: list[Fact] = []
        for place in without_content(index.tables, self._made_disk, gone):
            queue = state.queues[place.queue]
            if self.report.without_content_count < LISTED_MAX:
                self.report.without_content.append((queue.name, place.message))
            self.report.without_content_count += 1
            row = events.row(
                events.REMOVED, reason=reasons.SALVAGED, delivery_count=place.delivery_count,
                address=place.address, queue=place.queue, priority=place.priority,
                flags=place.flags & events.MESSAGE_FLAGS, message=place.message, time=self._time,
            )  # fmt: skip
            found.append(Fact(row))
        for start in range(0, len(found), FILL_EVENTS):
            journal.append(batch_of(journal.next_lsn, found[start : start + FILL_EVENTS]))
        if self._fitter is not None:
            name_untaken(self.report, self._fitter, state, index.tables)

    def _store(self, index: Index) -> IndexStore:
        # No other code in this process may open the tables a second time.
        return IndexStore(index.tables, self._made_disk, map_bytes=0, owns_tables=False)

    def _say_so(self, journal: JournalCopy, scan: _Scan) -> None:
        """End the history with an event that identifies it."""
        lost = sum(gap.last_lsn - gap.first_lsn + 1 - skipped_in(gap) for gap in scan.gaps)
        self.report.lost_events = lost
        self._time = max(self._time, time_ns() // 1000)
        detail = details.LostDetail(source=self._source_id.hex(), events=lost)
        row = events.row(events.LOST, reason=reasons.SALVAGED, time=self._time)
        fact = Fact(row, events.encode_detail(detail))
        journal.append(batch_of(journal.next_lsn, [fact]))

    def _describe_gaps(self, scan: _Scan, index: Index) -> None:
        with closing(self._store(index)) as store:
            queues = store.checkpoint().queues
        if any(gap.last_lsn < gap.first_lsn for gap in scan.gaps):
            # The events after the last one are unknown: they may have ended any of them.
            self.report.uncertain = sum(queue.message_count for queue in queues.values())
        names = {queue.id: queue.name for queue in queues.values()}
        self.report.gaps = [described(gap, self._names.of(gap, names)) for gap in scan.gaps]

    def _finish(self, scan: _Scan, known: _State) -> None:
        report = self.report
        report.segments, report.blocks = len(scan.segments), scan.blocks
        report.events = scan.events
        report.first_lsn = first_lsn_of(self._made_disk)
        report.last_lsn = scan.last_lsn
        report.broken_chain = scan.broken
        if self._fitter is not None:
            report.replaced = dict(self._fitter.replaced)
            report.renamed = self._fitter.renamed
        for folder in self._work.glob(_KNOWN + "*"):
            shutil.rmtree(folder)
        (self._work / INDEX / TABLES_LOCK).unlink(missing_ok=True)
        (self._work / DATA_ID).write_text(self._id.hex() + "\n", encoding="ascii")
        users = self._source / USERS
        try:
            if users.is_file():
                shutil.copyfile(users, self._work / USERS)
                (self._work / USERS).chmod(0o600)
        except OSError as error:
            self._say(f"{users} cannot be read: {error.strerror}; create the users again")


def _id_of(source: Path, disk: Disk) -> bytes:
    """Return the id of a damaged data directory: of its newest sound segment, else of the file.

    Empty if neither says it.
    """
    with suppress(JournalError, OSError):
        return data_id_of(disk)
    with suppress(OSError, ValueError):
        said = bytes.fromhex((source / DATA_ID).read_text("ascii", "replace").strip())
        return said if len(said) == DATA_ID_BYTES else b""
    return b""


def _bad_headers(disk: Disk) -> Iterator[tuple[str, str]]:
    """Yield the segments whose headers are damaged, and why."""
    for name in segment_names(disk):
        try:
            open_segment(disk, name).close()
        except (Damage, JournalError, OSError) as error:
            yield name, str(error)


def _doubts(source: Path, disk: Disk, data_id: bytes) -> Iterator[str]:
    """Yield sentences about headers and an id that are damaged, and do no harm by that."""
    for name, why in _bad_headers(disk):
        yield f"the header of {name} cannot be used: {why}"
    with suppress(OSError):
        said = (source / DATA_ID).read_text("ascii", "replace").strip()
        if said != data_id.hex():
            yield f"the file '{DATA_ID}' says {said!r}, and the segments are of {data_id.hex()}"


def _restored(folder: Path, known: Any, path: Path) -> None:
    """Copy the tables of a description; raises IndexDamaged."""
    path.mkdir()
    wrong = restore_copy(folder, known, path)
    if wrong:
        raise IndexDamaged(wrong)


def _opened(known: _State, disk: Disk) -> IndexStore | None:
    if not known.lsn:
        return None
    return IndexStore(open_for_reading(known.path), disk, map_bytes=0)


def _name_in(fact: Fact) -> str:
    detail = events.decode_detail(fact.row[events.KIND], fact.detail)
    return str(getattr(detail, "name", ""))
