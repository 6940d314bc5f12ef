"""Verifying a data directory: chain, crcs and footers, then the fold, digests and invariants.

`journal.verify` checks the bytes. If they are sound the events are folded with the engine's own
`apply`, the digest is compared with the one in each BrokerStopped and Checkpoint, and the state at
the end must satisfy the engine's invariants. With the index, that must equal the result of the fold
at its event (`tools.index_verification`). Nothing is changed.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

import msgspec

from daybook.engine import details, events
from daybook.engine.events import KIND, RELATED, Row
from daybook.engine.invariants import check
from daybook.engine.kinds import WITH_DIGEST
from daybook.journal.data_directory import BASE_DESCRIPTION
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption
from daybook.journal.reader import read_blocks
from daybook.journal.segment import data_id_of
from daybook.journal.verify import Fault, Report, verify
from daybook.paging.base import BaseDamaged, restore
from daybook.paging.batches import batches
from daybook.paging.index import Index
from daybook.paging.layout import LAYOUT
from daybook.paging.loading import load_state
from daybook.paging.tables import IndexDamaged
from daybook.tools.index_verification import IndexCopy
from daybook.tools.printing import adding_up
from daybook.tools.snapshot_verification import SnapshotCheck


class Verdict(msgspec.Struct):
    """The result. `faults` are damaged places, `wrong` are contradictions between events."""

    report: Report
    wrong: list[str] = []
    digests_compared: int = 0
    digest: str = ""
    folded_lsn: int = 0
    index_lsn: int | None = None
    snapshots_compared: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.report.ok and not self.wrong

    @property
    def faults(self) -> list[Fault]:
        """Damaged places."""
        return self.report.faults


def verify_data(
    disk: Disk,
    progress: Callable[[int], None],
    *,
    one_by_one: bool = False,
    base: Path | None = None,
    index: IndexCopy | None = None,
    snapshots: Path | None = None,
) -> Verdict:
    """Verify a journal; `progress` gets the bytes checked and folded so far, twice their sum.

    Messages that come and go are folded as sets, as in the indexer; `one_by_one` applies each
    event, which takes about ten times as long and must have the same result. `base` is the
    directory with the state before the first event, if retention removed segments. `index` is a
    copy of the index that was made before the call; `index_lsn` is where it was compared.
    `snapshots` is the directory of snapshots to compare, each at its event.

    Raises NoJournal, NewerFormat and OSError; damage is in the verdict.
    """
    advance = adding_up(progress)
    verdict = Verdict(verify(disk, progress=advance))
    if not verdict.report.ok:
        verdict.wrong.append(
            "the events were not folded, because the bytes that they come from are damaged"
        )
        return verdict
    first = verdict.report.first_lsn
    if first > 1 and verdict.report.archived:
        # Fetched from an archive: nothing is missing that should be there.
        return verdict
    known = base if first > 1 and base is not None and (base / BASE_DESCRIPTION).exists() else None
    if first > 1 and known is None:
        verdict.wrong.append(
            f"the journal begins at LSN {first}: its beginning, LSN 1 to {first - 1}, is missing; "
            "if it was archived, name the archive with --archive, else restore the segments "
            "before from a backup (nothing was folded)"
        )
        return verdict
    if index is not None and index.wrong:
        verdict.wrong.append(index.wrong)
        index = None
    taken = SnapshotCheck(snapshots, data_id_of(disk)) if snapshots is not None else None
    verdict.wrong += taken.wrong if taken is not None else []
    _fold(disk, verdict, advance, one_by_one, known, index, taken)
    return verdict


class _Recorded(NamedTuple):
    """A digest in the journal: of the state at which event, and the event that contains it."""

    of_lsn: int
    said_at: int
    by: str
    digest: str


def _fold(
    disk: Disk,
    verdict: Verdict,
    advance: Callable[[int], None],
    one_by_one: bool,
    base: Path | None,
    copy: IndexCopy | None,
    snapshots: SnapshotCheck | None,
) -> None:
    """Fold everything; compare every recorded digest, the copy of the index, and the snapshots.

    Entries are kept in a separate index, so memory does not grow with the backlog. A running broker
    keeps writing meanwhile: the fold ends where the check of the bytes ended.
    """
    last_lsn = verdict.report.last_lsn
    recorded = _recorded(disk, last_lsn)
    with TemporaryDirectory(prefix="daybook-verify-") as folder:
        data_id = bytes(16)
        if base is not None:
            data_id = data_id_of(disk)
            try:
                restore(base, data_id, Path(folder), verdict.report.first_lsn)
            except BaseDamaged as error:
                verdict.wrong.append(str(error))
                return
            if copy is not None:
                verdict.wrong += copy.check_base(Path(folder))
        index = Index(Path(folder), data_id, plain=not one_by_one, clusters=False)
        ends = {*recorded, *([copy.lsn] if copy is not None else [])}
        ends |= snapshots.events if snapshots is not None else set()
        try:
            if copy is not None and not index.lsn <= copy.lsn <= last_lsn:
                verdict.wrong.append(copy.out_of(index.lsn, last_lsn))
            for batch in batches(disk, index.lsn, last_lsn, ends):
                verdict.folded_lsn = index.advance(batch)
                if copy is not None and index.lsn == copy.lsn:
                    verdict.wrong += copy.compare(index, disk)
                    verdict.index_lsn = copy.lsn
                if snapshots is not None:
                    verdict.wrong += snapshots.compare(index)
                    verdict.snapshots_compared = snapshots.compared
                for said in recorded.get(index.lsn, ()):
                    _compare(said, index.digest(), verdict)
                advance(sum(block.header.block_bytes for block in batch))
            with index.tables.read() as txn:
                state = load_state(index.tables, txn, None, until=index.lsn)
            verdict.wrong += [f"event {index.lsn}: {wrong}" for wrong in check(state)]
            verdict.digest = index.digest()
        except (IndexDamaged, Corruption) as error:
            verdict.wrong.append(str(error))
        finally:
            index.close()


def _recorded(disk: Disk, last_lsn: int) -> dict[int, list[_Recorded]]:
    """Return all digests in the journal, by the event of their state."""
    found: dict[int, list[_Recorded]] = {}
    for block in read_blocks(disk, LAYOUT, to_lsn=last_lsn):
        kinds = set() if block.is_mark else set(block.columns()[KIND])
        if kinds.isdisjoint(WITH_DIGEST):
            continue
        for event in block.events():
            lsn, row, detail, _, _ = cast(tuple[int, Row, bytes, bytes, bytes], event)
            kind = row[KIND]
            if kind == events.CHECKPOINT:
                checkpoint = cast(details.CheckpointDetail, events.decode_detail(kind, detail))
                said = _Recorded(row[RELATED], lsn, "the index was written", checkpoint.digest)
            elif kind == events.BROKER_STOPPED:
                stopped = cast(details.BrokerStoppedDetail, events.decode_detail(kind, detail))
                # The event itself changes nothing.
                said = _Recorded(lsn, lsn, "the broker stopped", stopped.digest)
            else:
                continue
            found.setdefault(said.of_lsn, []).append(said)
    return found


def _compare(said: _Recorded, folded: str, verdict: Verdict) -> None:
    verdict.digests_compared += 1
    if said.digest != folded:
        verdict.wrong.append(
            f"event {said.said_at}: {said.by} with digest {said.digest}, but the events up to "
            f"{said.of_lsn} fold to {folded}"
        )
