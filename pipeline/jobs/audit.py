"""The audit: accounts for every message of a span, queue by queue, and names every event that the
broker's rules do not allow.

The engine finds the span. The library (`history.audit`) judges it, in pieces that the engine runs:
one by one, or as tasks of Spark, which must be able to read the whole history. An audit begins with
a state, so it covers the events after the first one whose state is known: all, if history begins
with event 1. Must never know SQL, or a rule.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from daybook.engine.facts.kinds import LEAVING, outcome
from daybook.history.audit import accounts, re_execution
from daybook.history.audit.re_execution import Piece, Task, audit_piece, first_known, joined, tasks
from daybook.history.audit.rules import Breach
from daybook.journal.errors import JournalError
from daybook.journal.pins import Pin
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.archive import absolute
from daybook.pipeline.parquet.archive import local_path
from daybook.pipeline.parquet.segments import segments_of
from daybook.pipeline.selection import EVERYTHING, Selection

TOLERANCE: Final = 1_000_000
"""How far times may go back, in microseconds."""
EXTENT: Final = """
SELECT min(lsn) AS first, max(lsn) AS last, min(time) AS begins, max(time) AS ends FROM extent
"""
Told = Callable[[str], None]


class Account(msgspec.Struct):
    """Counts of messages that entered, left and remain in a queue; `queue` is "" for the total."""

    queue_id: int
    queue: str
    address: str
    opening: int = 0
    routed: int = 0
    acknowledged: int = 0
    dead_lettered: int = 0
    expired: int = 0
    removed: int = 0
    dropped: int = 0
    ready: int = 0
    in_flight: int = 0
    difference: int = 0


NUMBERS: Final = Account.__struct_fields__[3:]
_OUTCOMES: Final = {outcome(kind): outcome(kind, "_") for kind in LEAVING}


class Fault(msgspec.Struct, frozen=True):
    """An event that a rule does not allow: the rule, the events that prove it, and a sentence.

    `source` is where the rule is written.
    """

    kind: str
    lsns: tuple[int, ...]
    text: str
    message: int
    queue: str
    address: str
    source: str


class Audit(msgspec.Struct):
    """The result. `fault_counts` counts the faults by kind, and `not_kept` those beyond them."""

    first_lsn: int
    last_lsn: int
    events: int
    total: Account
    queues: list[Account]
    faults: list[Fault]
    fault_counts: dict[str, int]
    not_kept: int = 0
    notes: list[str] = []

    @property
    def fault_count(self) -> int:
        """How many faults there are."""
        return len(self.faults) + self.not_kept

    @property
    def is_clean(self) -> bool:
        """Whether there is no fault, and every account balances."""
        return not self.fault_count and not any(each.difference for each in self.queues)


class Extent(NamedTuple):
    """LSNs (0 for none) and times of the first and last event of a history."""

    first_lsn: int
    last_lsn: int
    begins: datetime | None
    ends: datetime | None


def audit(
    engine: Engine,
    history: History,
    selection: Selection,
    told: Told = lambda now: None,
    *,
    now: int,
) -> Audit:
    """Audit a span of history; report only the selected queues and addresses.

    `now` is the time in microseconds. Raises JournalError, SelectionError, and the errors of
    reading the base, snapshots and the fold.
    """
    told("finding the span")
    span = extent(engine, history, msgspec.structs.replace(selection, queues=(), addresses=()))
    if not span.last_lsn:
        return Audit(0, 0, 0, Account(0, "", ""), [], [], {})
    if selection.needs_names:
        # A name that history does not have is an error.
        extent(engine, history, msgspec.structs.replace(selection, to_lsn=selection.from_lsn))
    with Pin(Path(history.source.directory)) if history.source.directory else nullcontext():
        told("every decision once more")
        return _chosen(_judged(engine, history, span, now), selection)


def _judged(engine: Engine, history: History, span: Extent, now: int) -> re_execution.Audit:
    # Executors have another working directory than the caller.
    source, parquet = absolute(history.source), history.parquet
    history = History(source, (local_path(parquet) or parquet) if parquet else "")
    directory = Path(source.directory) if source.directory else None
    with segments_of(history) as disk:
        known = first_known(directory, disk)
        if known is None or known >= span.last_lsn:
            raise JournalError(
                f"nothing knows the state before event {span.first_lsn}, with which an audit "
                "begins: name the data directory, or an archive that begins with event 1 or has "
                "snapshots"
            )
        pieces = tasks(
            directory, disk, max(span.first_lsn - 1, known), span.last_lsn,
            processes=engine.tasks_at_once, now=now, tolerance=TOLERANCE,
        )  # fmt: skip
    # The longest ones first, so that all tasks end at about the same time.
    by_length = sorted(pieces, key=lambda each: each.after - each.last)
    done = engine.each(partial(_audited, history), by_length)
    found = joined(sorted(done, key=lambda each: each.after))
    if known >= span.first_lsn:
        found.notes.insert(
            0, f"the audit begins with event {known + 1:,}: the state before it is the first known"
        )
    return found


def extent(engine: Engine, history: History, selection: Selection = EVERYTHING) -> Extent:
    """Return the extent of the selected history. Raises JournalError and SelectionError."""
    engine.load("extent", history, ("lsn", "time"), selection)
    row = engine.ask(EXTENT).to_pylist()[0]
    return Extent(row["first"] or 0, row["last"] or 0, row["begins"], row["ends"])


def _audited(history: History, task: Task) -> Piece:
    with segments_of(history) as disk:
        return audit_piece(task, disk)


def _chosen(found: re_execution.Audit, selection: Selection) -> Audit:
    """Return the accounts and faults of the selected queues and addresses."""

    def is_chosen(one: accounts.Account | Breach) -> bool:
        return (not selection.queues or one.queue in selection.queues) and (
            not selection.addresses or one.address in selection.addresses
        )

    queues = [_account(each) for each in found.accounts if is_chosen(each)]
    queues = [each for each in queues if any(getattr(each, name) for name in NUMBERS)]
    total = Account(0, "", "")
    for name in NUMBERS:
        setattr(total, name, sum(getattr(each, name) for each in queues))
    faults = [
        Fault(
            each.rule, each.lsns, each.text, each.message, each.queue, each.address, each.source
        )
        for each in found.breaches
        if is_chosen(each)
    ]  # fmt: skip
    counts = Counter(each.kind for each in faults)
    return Audit(
        found.after + 1, found.last, found.events, total, queues, faults,
        dict(sorted(counts.items())), found.breach_count - len(found.breaches), found.notes,
    )  # fmt: skip


def _account(found: accounts.Account) -> Account:
    """Return an account of the library with the sums that this one has."""
    account = Account(
        found.queue_id, found.queue, found.address, found.before, sum(found.entered.values()),
        dropped=found.restarted, ready=found.after - found.in_flight, in_flight=found.in_flight,
        difference=found.difference,
    )  # fmt: skip
    for way, count in found.left.items():
        name = _OUTCOMES.get(way.partition(":")[0], "")
        name = name if name in NUMBERS else "removed"
        setattr(account, name, getattr(account, name) + count)
    return account
