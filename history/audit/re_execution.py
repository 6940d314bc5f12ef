"""Running an audit over a data directory, in pieces (`history.audit.pieces`).

A piece has its state from a snapshot and needs nothing of the others, so it does not matter where
and when it runs. Within a piece the state is read from a temporary index again after every
stretch, so memory grows with neither the backlog nor the span. Writes to temporary directories
only.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, cast

import msgspec

from daybook.engine.core.core import Options
from daybook.engine.facts.events import TIME
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.queues.queue import StoreDamaged
from daybook.history.audit.accounts import Account, Counted, accounts_of, seam
from daybook.history.audit.clock_tolerance import CLOCK_TOLERANCE
from daybook.history.audit.context import AuditContext, Folded
from daybook.history.audit.feature_levels import NOBODY, Decider, deciders_at
from daybook.history.audit.judge import Clock, Judge
from daybook.history.audit.pieces import beginnings
from daybook.history.audit.rules import CONSERVED, Breach
from daybook.history.event_finder import EventFinder
from daybook.history.initial_state import base_lsn
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.data_directory import INDEX, SNAPSHOTS
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, first_lsn_of
from daybook.paging.snapshots.archived_snapshots import archived_lsns
from daybook.paging.snapshots.snapshots import known_snapshots
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import IndexDamaged
from daybook.recovery.fold import FoldError
from daybook.recovery.moments import Course

BREACHES_MOST: Final = 10_000
"""How many breaches of a piece are kept; further ones are only counted."""
STRETCH_EVENTS: Final = 100_000
STRETCH_BYTES: Final = 32 * 1024 * 1024
"""After so many events, or stored bytes, the state is read from the index again."""
UNFOLDABLE: Final = (FoldError, IndexDamaged, MismatchError, StoreDamaged)
"""The errors of the fold of an index at events that do not fit."""


class Task(msgspec.Struct, frozen=True):
    """A piece of an audit: the events after `after`, up to `last`; times in microseconds.

    `directory` is "" for a history without one. `decider` is the broker that had decided last.
    """

    directory: str
    after: int
    last: int
    now: int
    tolerance: int
    decider: Decider = NOBODY


class Piece(msgspec.Struct):
    """The result of a piece: its counts, stretch by stretch, and its breaches."""

    after: int
    last: int
    events: int = 0
    counted: list[Counted] = []
    breaches: list[Breach] = []
    breach_count: int = 0
    notes: list[str] = []


class Audit(msgspec.Struct):
    """The result of an audit of the events after `after`, up to `last`.

    `dropped` counts messages that no queue took, by address and reason.
    """

    after: int
    last: int
    events: int
    accounts: list[Account]
    dropped: dict[tuple[str, str], int]
    breaches: list[Breach]
    breach_count: int
    notes: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether no rule was broken and every account balances."""
        return not self.breach_count and not any(each.difference for each in self.accounts)


def first_known(directory: Path | None, disk: Disk) -> int | None:
    """Return the first event of a history after which the state is known: from there on it can be
    audited. None if there is none. Raises BaseDamaged, JournalError and OSError."""
    first = first_lsn_of(disk)
    if first == FIRST_LSN:
        return 0
    base = base_lsn(directory, disk) if directory is not None else 0
    known = {base, *_snapshots(directory, disk)}
    return min((lsn for lsn in known if lsn >= first - 1), default=None)


def _snapshots(directory: Path | None, disk: Disk) -> set[int]:
    found = set(archived_lsns(disk))
    if directory is not None:
        found |= {each.lsn for each in known_snapshots(directory / SNAPSHOTS, data_id_of(disk))}
    return found


def tasks(
    directory: Path | None,
    disk: Disk,
    after: int,
    last: int,
    *,
    processes: int,
    now: int,
    tolerance: int = CLOCK_TOLERANCE,
) -> list[Task]:
    """Cut a span into pieces, in order, for so many processes. Raises JournalError."""
    places = sorted(lsn for lsn in _snapshots(directory, disk) if after < lsn < last)
    begins = beginnings(disk, places, after, last, processes)
    ends = [*begins[1:], last]
    where = str(directory) if directory is not None else ""
    return [
        Task(where, begin, end, now, tolerance, decider)
        for begin, end, decider in zip(begins, ends, deciders_at(disk, begins), strict=True)
    ]


def joined(pieces: list[Piece]) -> Audit:
    """Join the results of consecutive pieces, and compare the counts where they meet."""
    counted = [each for piece in pieces for each in piece.counted]
    accounts, dropped = accounts_of(counted)
    breaches = [breach for piece in pieces for breach in piece.breaches]
    notes = [note for piece in pieces for note in piece.notes]
    count = sum(piece.breach_count for piece in pieces)
    for before, after in pairwise(counted):
        found = list(_torn(before, after))
        breaches += found
        count += len(found)
    breaches.sort(key=lambda each: each.lsn)
    return Audit(
        pieces[0].after, pieces[-1].last, sum(piece.events for piece in pieces), accounts, dropped,
        breaches, count, list(dict.fromkeys(notes)),
    )  # fmt: skip


def _torn(before: Counted, after: Counted) -> Iterator[Breach]:
    """Yield a breach for each queue whose count by events differs from the count of the index, or
    the snapshot, at the same event."""
    lsn = before.last
    for number, (folded, indexed) in seam(before, after).items():
        queue, address = before.names.get(number, (f"#{number}", ""))
        text = (
            f"queue '{queue}' has {folded} messages after event {lsn} by its events, and {indexed} "
            "by the snapshot or the index there"
        )
        yield Breach(
            CONSERVED.name, CONSERVED.source, lsn, text, (lsn,), queue=queue, address=address
        )


class _Stretch(NamedTuple):
    events: list[Folded]
    last: int
    bytes: int


def audit_piece(
    task: Task,
    disk: Disk,
    progress: Callable[[int], None] = lambda events: None,
    folder: Path | None = None,
) -> Piece:
    """Judge the events of a piece; `progress` gets their number.

    Temporary files lie in a folder, or where the system wants them. An event that does not fit is a
    breach, and no index can be folded over it: then the state stays in memory. Raises JournalError,
    FoldError, BaseDamaged, IndexDamaged, IndexUnwritable, StoreError and OSError.
    """
    piece = Piece(task.after, task.last)
    try:
        _judge_piece(piece, task, disk, progress, folder)
    except UNFOLDABLE:
        if not piece.breach_count:
            raise
        piece = Piece(task.after, task.last)
        _judge_piece(piece, task, disk, lambda events: None, folder, is_in_memory=True)
    return piece


def _judge_piece(
    piece: Piece,
    task: Task,
    disk: Disk,
    progress: Callable[[int], None],
    folder: Path | None,
    *,
    is_in_memory: bool = False,
) -> None:
    """Judge the events of a piece, stretch by stretch, or in one."""
    before = EventFinder(disk).at(task.after) if task.after else None
    clock = Clock(task.now, task.tolerance, before.row[TIME] if before is not None else 0)
    with TemporaryDirectory(prefix="daybook-audit-", dir=folder) as own:
        path = Path(own) / INDEX
        # Nothing lies in its own folder, as in a history without a directory.
        directory = Path(task.directory or own)
        course = Course(directory, disk, task.after, path, piece.notes.append)
        blocks = _blocks(disk, task)
        reached = task.after
        context: AuditContext | None = None
        while reached < task.last:
            with course.state_at(reached) as state:
                judge = Judge(state, reached, Options(), clock)
                judge.context.decider = task.decider
                if context is not None:
                    judge.context.adopt(context)
                ended = _judge_stretch(
                    judge, blocks, task, piece, progress, is_in_memory=is_in_memory
                )
                piece.counted.append(judge.ledger.counted(min(max(ended, reached), task.last)))
                context = judge.context
            if ended <= reached:
                break
            reached = ended


def _blocks(disk: Disk, task: Task) -> Iterator[_Stretch]:
    """Yield the blocks of a piece, whole: the rules look around an event in its block."""
    for block in read_blocks(disk, LAYOUT, from_lsn=task.after + 1, to_lsn=task.last):
        if block.count and block.last_lsn > task.after:
            found = cast("list[Folded]", list(block.events()))
            yield _Stretch(found, block.last_lsn, block.header.block_bytes)


def _judge_stretch(
    judge: Judge,
    blocks: Iterator[_Stretch],
    task: Task,
    piece: Piece,
    progress: Callable[[int], None],
    *,
    is_in_memory: bool,
) -> int:
    """Judge blocks until the stretch is long enough, or all of them; return the last event, 0 if
    there is none."""
    reached = size = 0
    for block in blocks:
        for breach in judge.judge(block.events, after=task.after, last=task.last):
            piece.breach_count += 1
            if len(piece.breaches) < BREACHES_MOST:
                piece.breaches.append(breach)
        piece.notes += judge.notes
        judge.notes.clear()
        count = min(block.last, task.last) - max(block.events[0][0] - 1, task.after)
        piece.events += count
        progress(count)
        reached = block.last
        size += block.bytes
        if not is_in_memory and (judge.judged >= STRETCH_EVENTS or size >= STRETCH_BYTES):
            break
    return reached
