"""Verifying a data directory: chain, crcs and footers, then the fold, digests and invariants.

`journal.segments.verify` checks the bytes. If they are sound the events are folded with the
engine's own `apply`, the digest is compared with the one in each BrokerStopped and Checkpoint, and
the state at the end must satisfy the engine's invariants. With the index, that must equal the
result of the fold at its event (`history.verification.index_verification`). With a plan, several
processes check segments, and the fold is done in ranges that begin at snapshots
(`history.verification.folding_ranges`); the verdict is the same. Only reads.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import msgspec

from daybook.engine.state.invariants import check
from daybook.history.verification.folding_ranges import Plan, fold_in_ranges
from daybook.history.verification.index_verification import IndexCopy
from daybook.history.verification.signature_proof import Proof, Proven
from daybook.history.verification.snapshot_verification import SnapshotCheck
from daybook.history.verification.verify_work import (
    CheckedSegment,
    Recorded,
    Wanted,
    check_one,
    differs,
)
from daybook.history.workers import adding_up, carried_out
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import BASE_DESCRIPTION
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, NoJournal
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.journal.segments.segment_check import Fault, sound_header
from daybook.journal.segments.verify import Report, join
from daybook.paging.fold.batches import folded
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.base import BaseDamaged, restore
from daybook.paging.tables.loading import load_state
from daybook.paging.tables.tables import IndexDamaged
from daybook.scratch_folders import scratch_folder


class Verdict(msgspec.Struct):
    """The result. `faults` are damaged places, `wrong` are contradictions between events, `derived`
    lists the faults of files that the broker makes again from the journal.

    `notes` are not faults: an index may be of an older release.

    So many segments, and ranges of the fold, were verified before and have not changed.
    """

    report: Report
    wrong: list[str] = []
    derived: list[str] = []
    notes: list[str] = []
    digests_compared: int = 0
    digest: str = ""
    folded_lsn: int = 0
    index_lsn: int | None = None
    snapshots_compared: int = 0
    catalogs_compared: int = 0
    segments_known: int = 0
    ranges_known: int = 0
    proven: Proven | None = None
    skipped: int = 0
    """How many LSNs a start skipped, because clients may have learned them before a crash; the
    report does not count them as events."""
    begun_at: int = 0
    """The first event of the first segment that was checked, if an event was asked for to begin
    with; 0 for the whole journal."""

    @property
    def ok(self) -> bool:
        """Whether there are no faults."""
        return self.is_journal_ok and not self.derived

    @property
    def is_journal_ok(self) -> bool:
        """Whether the journal has no faults; derived files may have some."""
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
    plan: Plan | None = None,
    proof: Proof | None = None,
    begin: int = 0,
) -> Verdict:
    """Verify a journal; `progress` gets the bytes checked and folded so far, twice their sum.

    Messages that come and go are folded as sets, as in the indexer; `one_by_one` applies each
    event, which takes about ten times as long and must have the same result. `base` is the
    directory with the state before the first event, if retention removed segments. `index` is a
    copy of the index that was made before the call; `index_lsn` is where it was compared.
    `snapshots` is the directory of snapshots to compare, each at its event. `plan` divides the
    work, and knows earlier results. `proof` has the keys and anchors that must prove the journal.
    With an event to `begin` at, only the bytes and the chain of its segment and of later ones are
    checked, with the keys and anchors for them, and notes say what was not.

    Raises NoJournal, NewerFormat and OSError (WorkerFailed from other processes); damage is in the
    verdict.
    """
    advance = adding_up(progress)
    checks, segments_known = _check_segments(disk, advance, plan, proof, begin)
    verdict = Verdict(join(each.check for each in checks), segments_known=segments_known)
    verdict.skipped = sum(each.skipped for each in checks)
    verdict.report.events -= verdict.skipped
    if begin:
        _note_what_was_left_out(verdict, begin, has_keys=proof is not None and proof.has_keys)
        return _proven(verdict, proof, disk, checks)
    if not verdict.report.ok:
        verdict.wrong.append(
            "the events were not folded, because the bytes that they come from are damaged"
        )
        return verdict
    _proven(verdict, proof, disk, checks)
    first = verdict.report.first_lsn
    if first > 1 and verdict.report.archived:
        # Fetched from an archive: the beginning is not expected here.
        return verdict
    known = base if first > 1 and base is not None and (base / BASE_DESCRIPTION).exists() else None
    if first > 1 and known is None:
        verdict.wrong.append(
            f"the journal begins at LSN {first}: its beginning, LSN 1 to {first - 1}, is missing; "
            "if it was archived, name the archive with --archive, else restore the segments "
            "before from a backup (no events were folded)"
        )
        return verdict
    last_lsn = verdict.report.last_lsn
    recorded = [said for each in checks for said in each.recorded if said.said_at <= last_lsn]
    if plan is not None and index is None and snapshots is None and not one_by_one:
        folded = fold_in_ranges(disk, plan, verdict.report, recorded, known, advance)
        verdict.wrong += folded.wrong
        verdict.digests_compared = folded.compared
        verdict.digest, verdict.folded_lsn = folded.digest, folded.lsn
        verdict.ranges_known = folded.known
        return verdict
    if index is not None and (index.wrong or index.older):
        verdict.derived += [index.wrong] if index.wrong else []
        verdict.notes += [index.older] if index.older else []
        index = None
    taken = SnapshotCheck(snapshots, disk) if snapshots is not None else None
    verdict.derived += taken.wrong if taken is not None else []
    _fold(disk, verdict, recorded, advance, one_by_one, known, index, taken)
    return verdict


def _proven(
    verdict: Verdict, proof: Proof | None, disk: Disk, checks: list[CheckedSegment]
) -> Verdict:
    """Judge sound bytes by keys and anchors, if there are any. Raises JournalError."""
    if proof is not None and verdict.report.ok:
        verdict.proven = proof.judge(disk, verdict.report, checks)
        verdict.wrong += verdict.proven.wrong
    return verdict


def _note_what_was_left_out(verdict: Verdict, begin: int, *, has_keys: bool) -> None:
    first, last = verdict.report.first_lsn, verdict.report.last_lsn
    verdict.begun_at = first
    if begin > last:
        verdict.wrong.append(f"the journal ends with event {last}, before event {begin}")
    verdict.notes += [
        f"not checked: the events before {first}, and whether they are those that it followed",
        "not checked: the state after them. They were not folded, and no digest was compared",
    ]
    if has_keys and first > 1:
        verdict.notes.append(
            f"not read: changes of the signing key before event {first}; the key must be one that"
            " signs after it"
        )


def _check_segments(
    disk: Disk,
    advance: Callable[[int], None],
    plan: Plan | None,
    proof: Proof | None,
    begin: int,
) -> tuple[list[CheckedSegment], int]:
    """Check the segments from that of an event on; return the results in order, and how many were
    known before."""
    names = segment_names(disk)
    if not names:
        raise NoJournal("there is no journal in the directory")
    reference = sound_header(disk, names)
    wanted = proof.wanted() if proof is not None else {}
    state = plan.state if plan is not None else None
    pieces = []
    firsts = [segment_first_lsn(name) or 0 for name in names]
    chosen = names[max(bisect_right(firsts, begin) - 1, 0) :]
    for name, following in zip_longest(chosen, chosen[1:]):
        # The newest segment still grows.
        is_kept = state is not None and following is not None
        first, end = segment_first_lsn(name) or 0, segment_first_lsn(following or "")
        noted = Wanted(
            proof is not None and proof.has_keys,
            frozenset(lsn for lsn in wanted if first <= lsn and (end is None or lsn < end)),
            is_kept,
        )
        known = state.segment(name) if state is not None and is_kept else None
        where = plan.source if plan is not None else disk
        pieces.append((name, check_one, (where, name, names, reference, noted, known)))
    done: dict[str, CheckedSegment] = {}
    segments_known = 0
    for name, checked in carried_out(pieces, plan.processes if plan is not None else 1, advance):
        done[name] = checked
        if state is not None and name != names[-1]:
            segments_known += checked == state.segment(name)
            state.keep_segment(name, checked)
    return [done[name] for name in chosen], segments_known


def _fold(
    disk: Disk,
    verdict: Verdict,
    recorded: list[Recorded],
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
    by_lsn: dict[int, list[Recorded]] = {}
    for said in recorded:
        by_lsn.setdefault(said.of_lsn, []).append(said)
    with scratch_folder("verify") as folder:
        data_id = bytes(16)
        if base is not None:
            data_id = data_id_of(disk)
            try:
                restore(base, data_id, folder, verdict.report.first_lsn)
            except BaseDamaged as error:
                verdict.wrong.append(str(error))
                return
            if copy is not None:
                verdict.wrong += copy.check_base(folder)
        index = Index(folder, data_id, plain=not one_by_one, clusters=False)
        ends = {*by_lsn, *([copy.lsn] if copy is not None else [])}
        ends |= snapshots.events if snapshots is not None else set()
        try:
            if copy is not None and not index.lsn <= copy.lsn <= last_lsn:
                out_of = copy.out_of(index.lsn, last_lsn)
                # The journal had all events that the index knows: its end is missing.
                (verdict.wrong if copy.lsn > last_lsn else verdict.derived).append(out_of)
            for batch in folded(index, disk, last_lsn, ends):
                verdict.folded_lsn = index.lsn
                if copy is not None and index.lsn == copy.lsn:
                    verdict.derived += copy.compare(index, disk)
                    verdict.index_lsn = copy.lsn
                if snapshots is not None:
                    verdict.derived += snapshots.compare(index)
                    verdict.snapshots_compared = snapshots.compared
                for said in by_lsn.get(index.lsn, ()):
                    verdict.digests_compared += 1
                    verdict.wrong += differs(said, index.digest())
                advance(sum(block.header.block_bytes for block in batch))
            with index.tables.read() as txn:
                state = load_state(index.tables, txn, None, until=index.lsn)
            verdict.wrong += [f"event {index.lsn}: {wrong}" for wrong in check(state)]
            verdict.digest = index.digest()
        except (IndexDamaged, Corruption) as error:
            verdict.wrong.append(str(error))
        finally:
            index.close()
