"""The pieces of `journal verify` that can be done in any order and by several processes: the check
of one segment, and the fold of one range.

A range begins with a snapshot and ends with another one, or with the journal. Its fold is worth
something only if the range before came to the state that the snapshot has, which
`history.verification.verification` compares. The data stays unchanged; temporary files lie in a
folder of the caller.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, cast

import msgspec

from daybook.engine.facts import details, events
from daybook.engine.facts.events import KIND, RELATED, Row
from daybook.engine.facts.kinds import ENDING_A_SOURCE, SIGNING, WITH_DIGEST
from daybook.engine.state.invariants import check
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import SegmentHeader
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption
from daybook.journal.segments.segment import data_id_of, first_lsn_of
from daybook.journal.segments.segment_check import SegmentCheck, check_segment
from daybook.paging.checks.index_check import check as check_index
from daybook.paging.fold.batches import folded as fold_batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.base import BaseDamaged, restore, restore_copy
from daybook.paging.snapshots.snapshots import Snapshot
from daybook.paging.tables.loading import load_state
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable
from daybook.recovery.readonly import journal_disk, opened, used_bytes

PIECE_BYTES: Final = 1 << 20
RECENT_BLOCKS: Final = 10_000


class Recorded(msgspec.Struct, frozen=True):
    """A digest in the journal: of the state at which event, and the event that contains it."""

    of_lsn: int
    said_at: int
    by: str
    digest: str


class Source(NamedTuple):
    """Where the segments are: a data directory, and the URL of its archive if that takes part."""

    data: Path
    archive: str = ""

    @contextmanager
    def opened(self) -> Iterator[Disk]:
        """Give the segments as one Disk. Raises JournalError."""
        with ExitStack() as stack:
            disk: Disk = journal_disk(self.data, whole=True)
            if self.archive:
                disk = stack.enter_context(Archive(self.archive).reading(disk))
            yield disk

    @contextmanager
    def measured(self, *, is_named: bool = True, whole: bool = False) -> Iterator[tuple[Disk, int]]:
        """Give the segments as one Disk, after a look that they are files, and how many bytes they
        have; with the `whole`, what the cluster of a node has not confirmed, too. An archive that
        `is_named`, or without which the beginning is missing, must have some. Raises JournalError.
        """
        live = opened(self.data, whole=whole, may_be_empty=bool(self.archive))
        if not self.archive:
            yield live, used_bytes(live)
            return
        archive = Archive(self.archive)
        if is_named or first_lsn_of(live) > 1:
            archive.check_filled()
        with archive.reading(live) as disk:
            yield disk, used_bytes(live) + archive.segment_bytes()


class SeenStatement(msgspec.Struct, frozen=True):
    """A signed statement in the journal: by which event, about history up to which.

    `found_hash` is that of the block that ends there, "" if the segment does not have it.
    """

    said_at: int
    lsn: int
    detail: details.SignedDetail
    found_hash: str


class SeenChange(msgspec.Struct, frozen=True):
    """A change of the signing key in the journal, and the event that records it."""

    said_at: int
    detail: details.KeyChangeDetail


class Wanted(msgspec.Struct, frozen=True):
    """Further results to note of a segment: signatures, the hashes of the blocks that end with
    these events, and the hash of the file.
    """

    signatures: bool = False
    hashes_at: frozenset[int] = frozenset()
    file_hash: bool = False


NOTHING: Final = Wanted()


class CheckedSegment(msgspec.Struct, frozen=True):
    """A checked segment: the result, and the notes about it.

    `source_ends` are the last events of other data directories. `skipped` of its LSNs are not
    events: a start left them out.
    `sha256` and `bytes` are those of the whole file, if they were asked for.
    """

    check: SegmentCheck
    recorded: list[Recorded]
    statements: list[SeenStatement] = []
    changes: list[SeenChange] = []
    source_ends: list[int] = []
    hashes: dict[int, str] = {}
    wanted: Wanted = NOTHING
    sha256: str = ""
    bytes: int = 0
    skipped: int = 0

    def has(self, wanted: Wanted) -> bool:
        """Return whether all wanted notes exist."""
        mine = self.wanted
        return mine.signatures >= wanted.signatures and mine.hashes_at >= wanted.hashes_at


def check_one(
    where: Source | Disk,
    name: str,
    names: Sequence[str],
    reference: SegmentHeader | None,
    wanted: Wanted = NOTHING,
    known: CheckedSegment | None = None,
    *,
    progress: Callable[[int], None],
) -> CheckedSegment:
    """Check a segment; if its file has the hash of a `known` check, that is the result.

    Raises JournalError and OSError.
    """
    if isinstance(where, Source):
        with where.opened() as disk:
            return check_one(disk, name, names, reference, wanted, known, progress=progress)
    size, sha256 = _hash_of(where, name) if wanted.file_hash else (0, "")
    if known is not None and (known.bytes, known.sha256) == (size, sha256) and known.has(wanted):
        progress(size)
        return known
    notes = _Notes(wanted)
    found = check_segment(where, name, names, reference, progress=progress, observe=notes.see)
    return CheckedSegment(
        found, notes.recorded, notes.statements, notes.changes, notes.source_ends, notes.hashes,
        wanted, sha256, size, notes.skipped,
    )  # fmt: skip


class _Notes:
    """Notes from the blocks of a segment, in order."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self.recorded: list[Recorded] = []
        self.statements: list[SeenStatement] = []
        self.changes: list[SeenChange] = []
        self.source_ends: list[int] = []
        self.hashes: dict[int, str] = {}
        self.skipped = 0
        # A statement is journaled soon after the block that it is about.
        self._recent: OrderedDict[int, str] = OrderedDict()

    def see(self, block: Block) -> None:
        """Make the wanted notes of a block."""
        if block.is_mark:
            return
        self.recorded += _digests_in(block)
        self.skipped += skipped_in(block)
        if block.last_lsn in self._wanted.hashes_at:
            self.hashes[block.last_lsn] = block.hash.hex()
        if not self._wanted.signatures:
            return
        self._recent[block.last_lsn] = block.hash.hex()
        if len(self._recent) > RECENT_BLOCKS:
            self._recent.popitem(last=False)
        if not SIGNING.isdisjoint(block.columns()[KIND]):
            self._see_signing(block)
        if not ENDING_A_SOURCE.isdisjoint(block.columns()[KIND]):
            self.source_ends += source_ends(block)

    def _see_signing(self, block: Block) -> None:
        for event in block.events():
            lsn, row, detail, _, _ = cast(tuple[int, Row, bytes, bytes, bytes], event)
            if row[KIND] == events.SIGNED:
                signed = cast(details.SignedDetail, events.decode_detail(row[KIND], detail))
                about = row[RELATED]
                self.statements.append(
                    SeenStatement(lsn, about, signed, self._recent.get(about, ""))
                )
            elif row[KIND] == events.SIGNING_KEY_CHANGED:
                change = cast(details.KeyChangeDetail, events.decode_detail(row[KIND], detail))
                self.changes.append(SeenChange(lsn, change))


def skipped_in(block: Block) -> int:
    """Return how many LSNs of a block a start skipped: they have a row, and are not events."""
    return block.columns()[KIND].tolist().count(events.SKIPPED)


def source_ends(block: Block) -> Iterator[int]:
    """Yield the events of a fork, and of a salvage, that end the history of their source."""
    for event in block.events():
        lsn, row, detail, _, _ = cast(tuple[int, Row, bytes, bytes, bytes], event)
        if row[KIND] in ENDING_A_SOURCE and ends_a_source(row[KIND], detail):
            yield lsn


def ends_a_source(kind: int, detail: bytes) -> bool:
    """Whether an event of a kind that may end the history of a source does it."""
    told = events.decode_detail(kind, detail) if detail else None
    return bool(getattr(told, "data_id", "") or getattr(told, "source", ""))


def _hash_of(disk: Disk, name: str) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    file = disk.open(name)
    try:
        while piece := file.pread(PIECE_BYTES, size):
            digest.update(piece)
            size += len(piece)
    finally:
        file.close()
    return size, digest.hexdigest()


def _digests_in(block: Block) -> Iterator[Recorded]:
    """Yield the digests that the events of a block record."""
    if block.is_mark or WITH_DIGEST.isdisjoint(block.columns()[KIND]):
        return
    for event in block.events():
        lsn, row, detail, _, _ = cast(tuple[int, Row, bytes, bytes, bytes], event)
        kind = row[KIND]
        if kind == events.CHECKPOINT:
            checkpoint = cast(details.CheckpointDetail, events.decode_detail(kind, detail))
            yield Recorded(row[RELATED], lsn, "the index was written", checkpoint.digest)
        elif kind == events.BROKER_STOPPED:
            stopped = cast(details.BrokerStoppedDetail, events.decode_detail(kind, detail))
            if stopped.hurried:
                continue
            # The event itself has no effect.
            yield Recorded(lsn, lsn, "the broker stopped", stopped.digest)


class Range(NamedTuple):
    """Events to fold: from a snapshot, or else from the base or the first event, to `to_lsn`.

    `recorded` are the digests to compare. `is_last`: the invariants are checked at its end.
    """

    snapshot: Snapshot | None
    to_lsn: int
    recorded: tuple[Recorded, ...]
    is_last: bool


class FoldedRange(msgspec.Struct, frozen=True):
    """The result: the digests of the state at both ends, and the faults between them.

    `unusable`: the snapshot at its beginning cannot be read, so nothing was folded. `broken`: the
    fold did not reach the end.
    """

    first_digest: str
    last_digest: str
    lsn: int
    compared: int
    wrong: list[str]
    unusable: bool = False
    broken: bool = False


def fold_range(
    where: Source | Disk,
    folded: Range,
    snapshots: Path,
    base: Path | None,
    first_lsn: int,
    temporary: Path,
    *,
    progress: Callable[[int], None],
) -> FoldedRange:
    """Fold a range of events, and compare the digests that were recorded in it.

    `first_lsn` is the first event of the journal, `base` has the state before it, and `snapshots`
    is the directory of snapshots. Raises JournalError and OSError.
    """
    if isinstance(where, Source):
        with where.opened() as disk:
            return fold_range(
                disk, folded, snapshots, base, first_lsn, temporary, progress=progress
            )
    with TemporaryDirectory(prefix="range-", dir=temporary) as folder:
        data_id = bytes(16)
        if folded.snapshot is not None:
            data_id = data_id_of(where)
            if _restore_wrong(snapshots, folded.snapshot, Path(folder)):
                return FoldedRange("", "", 0, 0, [], unusable=True)
        elif base is not None:
            data_id = data_id_of(where)
            try:
                restore(base, data_id, Path(folder), first_lsn)
            except BaseDamaged as error:
                return FoldedRange("", "", 0, 0, [str(error)], broken=True)
        return _fold(where, Path(folder), data_id, folded, progress)


def _restore_wrong(snapshots: Path, known: Snapshot, path: Path) -> str:
    """Copy a snapshot to the path of a new index; return the faults of its parts."""
    try:
        wrong = restore_copy(snapshots, known, path)
        if not wrong:
            # Its digest is a sum stored in it, so the summed rows must be checked.
            check_index(path, clusters=False)
    except (IndexDamaged, IndexUnwritable) as error:
        return str(error)
    return wrong


def _fold(
    disk: Disk, path: Path, data_id: bytes, folded: Range, progress: Callable[[int], None]
) -> FoldedRange:
    """Fold a range into the index at a path."""
    by_lsn: dict[int, list[Recorded]] = {}
    for said in folded.recorded:
        by_lsn.setdefault(said.of_lsn, []).append(said)
    compared, wrong = 0, list[str]()
    lsn, first = 0, ""
    try:
        index = Index(path, data_id, clusters=False)
    except (IndexDamaged, IndexUnwritable):
        return FoldedRange("", "", 0, 0, [], unusable=True)
    try:
        first = index.digest() if folded.snapshot is not None else ""
        for batch in fold_batches(index, disk, folded.to_lsn, by_lsn.keys()):
            lsn = index.lsn
            for said in by_lsn.get(lsn, ()):
                compared += 1
                wrong += differs(said, index.digest())
            progress(sum(block.header.block_bytes for block in batch))
        if folded.is_last:
            with index.tables.read() as txn:
                state = load_state(index.tables, txn, None, until=index.lsn)
            wrong += [f"event {index.lsn}: {each}" for each in check(state)]
        return FoldedRange(first, index.digest(), index.lsn, compared, wrong)
    except (IndexDamaged, Corruption) as error:
        return FoldedRange(first, "", lsn, compared, [*wrong, str(error)], broken=True)
    finally:
        index.close()


def differs(said: Recorded, folded: str) -> list[str]:
    """Return the fault of a recorded digest, where the fold has this one."""
    if said.digest == folded:
        return []
    return [
        f"event {said.said_at}: {said.by} with digest {said.digest}, but the events up to "
        f"{said.of_lsn} fold to {folded}"
    ]
