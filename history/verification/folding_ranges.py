"""Folding a journal in ranges, for `journal verify`: by several processes, and resumable.

A range begins at a snapshot, which proves nothing by itself: the range before must end with the
same digest. If it does not, or if the snapshot cannot be read, that beginning is given up and both
ranges are folded as one. So the verdict is that of one fold from the first event, even with damaged
snapshots. Only reads.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from daybook.history.verification.verify_state import VerifyState
from daybook.history.verification.verify_work import (
    FoldedRange,
    Range,
    Recorded,
    Source,
    fold_range,
)
from daybook.history.workers import carried_out
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import SNAPSHOTS
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.journal.segments.verify import Report
from daybook.paging.checks.usability import why_not_of
from daybook.paging.snapshots.snapshots import Snapshot, known_snapshots
from daybook.scratch_folders import scratch_folder

RANGE_SEGMENTS: Final = 4
"""A range spans at least so many segments: reading the snapshot at its beginning must be worth
it."""


class Plan(NamedTuple):
    """A plan to verify: the number of processes, and the state of an earlier run if any."""

    source: Source
    processes: int
    state: VerifyState | None = None
    range_segments: int = RANGE_SEGMENTS


class Folded(NamedTuple):
    """The result of the fold of all ranges; `known` of them were folded before."""

    wrong: list[str]
    compared: int
    digest: str
    lsn: int
    known: int


def fold_in_ranges(
    disk: Disk,
    plan: Plan,
    report: Report,
    recorded: Sequence[Recorded],
    base: Path | None,
    advance: Callable[[int], None],
) -> Folded:
    """Fold all events of a journal whose bytes are sound.

    Raises JournalError, WorkerFailed and OSError.
    """
    work = _Ranges(disk, plan, report, recorded, base)
    with scratch_folder("verify") as folder:
        while True:
            work.carry_out(folder, advance)
            if not work.give_up_a_beginning():
                return work.joined()


class _Ranges:
    """The ranges of one journal: where they begin, and the results of their folds."""

    def __init__(
        self,
        disk: Disk,
        plan: Plan,
        report: Report,
        recorded: Sequence[Recorded],
        base: Path | None,
    ) -> None:
        self._plan = plan
        self._report = report
        self._recorded = recorded
        self._base = base
        self._names = set(segment_names(disk))
        self._snapshots = plan.source.data / SNAPSHOTS
        self._beginnings: list[Snapshot | None] = [None, *self._chosen(disk)]
        self._results: dict[Range, FoldedRange] = {}
        self._known: set[Range] = set()

    def _chosen(self, disk: Disk) -> list[Snapshot]:
        """Choose snapshots to begin at, far enough from each other, oldest first."""
        report, chosen = self._report, list[Snapshot]()
        firsts = [segment_first_lsn(name) or 0 for name in sorted(self._names)]
        last = 0
        for known in sorted(
            known_snapshots(self._snapshots, data_id_of(disk)), key=lambda each: each.lsn
        ):
            position = bisect_right(firsts, known.lsn) - 1
            if (
                report.first_lsn <= known.lsn < report.last_lsn
                and position >= last + self._plan.range_segments
                and not why_not_of(disk, known.lsn, bytes.fromhex(known.block_hash))
            ):
                chosen.append(known)
                last = position
        return chosen

    def _ranges(self) -> list[Range]:
        """Return the ranges between the beginnings that are left."""
        ends = [each.lsn for each in self._beginnings if each is not None]
        ranges = []
        for beginning, end in zip(self._beginnings, [*ends, 0], strict=True):
            after = beginning.lsn if beginning is not None else -1
            to_lsn = end or self._report.last_lsn
            said = tuple(each for each in self._recorded if after < each.of_lsn <= to_lsn)
            ranges.append(Range(beginning, to_lsn, said, not end))
        return ranges

    def _key(self, each: Range) -> str:
        """Return the name of a range in the state: it identifies the folded and compared events."""
        end = next(
            (other.block_hash for other in self._beginnings if other and other.lsn == each.to_lsn),
            self._report.last_hash,
        )
        begin = (each.snapshot.lsn, each.snapshot.block_hash) if each.snapshot else (0, "")
        told = [begin, each.to_lsn, end, [msgspec.to_builtins(said) for said in each.recorded]]
        return hashlib.sha256(msgspec.json.encode(told)).hexdigest()

    def carry_out(self, folder: Path, advance: Callable[[int], None]) -> None:
        """Fold the ranges that have no result yet."""
        missing = []
        for each in self._ranges():
            if each in self._results:
                continue
            known = self._remembered(each)
            if known is not None:
                self._results[each] = known
                self._known.add(each)
            else:
                arguments = (
                    self._plan.source, each, self._snapshots, self._base,
                    self._report.first_lsn, folder,
                )  # fmt: skip
                missing.append((each, fold_range, arguments))
        for each, folded in carried_out(missing, self._plan.processes, advance):
            self._results[each] = folded
            if self._plan.state is not None and self._is_lasting(each):
                self._plan.state.keep_range(self._key(each), folded)

    def _is_lasting(self, each: Range) -> bool:
        """Return whether a fold may be remembered: a base has no hash of a block to go by."""
        return each.snapshot is not None or self._base is None

    def _remembered(self, each: Range) -> FoldedRange | None:
        state = self._plan.state
        return state.range(self._key(each)) if state and self._is_lasting(each) else None

    def give_up_a_beginning(self) -> bool:
        """Drop the first beginning that differs from the end of the range before, if any."""
        before: FoldedRange | None = None
        for position, each in enumerate(self._ranges()):
            result = self._results[each]
            if before is not None and (
                result.unusable or result.first_digest != before.last_digest
            ):
                del self._beginnings[position]
                return True
            if result.broken:
                return False
            before = result
        return False

    def joined(self) -> Folded:
        """Return the result of all ranges together."""
        wrong, compared = list[str](), 0
        digest, lsn = "", 0
        ranges = self._ranges()
        for each in ranges:
            result = self._results[each]
            wrong += result.wrong
            compared += result.compared
            lsn, digest = result.lsn or lsn, result.last_digest
            if result.broken:
                break
        state = self._plan.state
        if state is not None:
            state.forget_others(self._names, {self._key(each) for each in ranges})
        return Folded(wrong, compared, digest, lsn, len(self._known & set(ranges)))
