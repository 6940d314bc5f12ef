"""The audit's re-execution: the engine's own rules, asked about every event (ADR 65).

The pieces are those of `journal audit`, run by an engine of the pipeline: one by one, or as
tasks of Spark. Needs the data directory, because a state is there to begin with, and every task
must be able to read it. Must never know SQL, or a rule.
"""

from pathlib import Path
from typing import Final

from daybook.history.audit.re_execution import joined, run_task, tasks
from daybook.history.audit.rules import Breach
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import first_lsn_of
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.selection import SelectionError

TOLERANCE: Final = 1_000_000
"""How far times may go back, in microseconds."""


def breaches_of(
    engine: Engine, history: History, first_lsn: int, last_lsn: int, now: int
) -> list[Breach]:
    """Return the events of a span that the engine's rules do not allow; `now` is in microseconds.

    Raises JournalError, SelectionError, and the errors of reading snapshots and the base.
    """
    directory = history.source.directory
    if not directory:
        raise SelectionError("re-execution begins with a state, so name the data directory: --data")
    disk = RealDisk(Path(directory) / JOURNAL)
    if first_lsn < first_lsn_of(disk):
        raise SelectionError(
            f"re-execution needs the events themselves, and the journal in {directory} begins with "
            f"event {first_lsn_of(disk)}: use journal audit --with-archive, or a later span"
        )
    pieces = tasks(
        Path(directory), disk, first_lsn - 1, last_lsn,
        processes=engine.tasks_at_once, now=now, tolerance=TOLERANCE,
    )  # fmt: skip
    # The longest ones first, so that all tasks end at about the same time.
    by_length = sorted(pieces, key=lambda each: each.after - each.last)
    done = engine.each(run_task, by_length)
    return joined(sorted(done, key=lambda each: each.after)).breaches
