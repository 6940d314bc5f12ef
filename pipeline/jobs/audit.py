"""The audit: accounts for every message of a span, queue by queue, and reports every fault.

**The account** of a queue is `opening + routed = acknowledged + dead-lettered + expired + removed +
dropped + ready + in flight + difference`. Messages that entered or left are counted by their
events; opening, dropped, ready and in flight are determined entry by entry (an entry is a message
in one queue), so a difference other than 0 shows a fault. *Opening* are messages that are older
than the span and have an event in it; *dropped* are messages that a restart removes without an
event: non-persistent ones, and all in queues that are not durable. A span that begins with event 1
has no opening, and its ready and in-flight messages are exactly those of the broker.

**Faults** are what the rules of `engine.state.apply` forbid:

* `settled-twice`: acknowledged, dead-lettered, expired or removed after it had left the queue;
  `after-settlement`: delivered or returned after that, or any event after a restart dropped it;
* `not-routed`: its id is of this span, but no Routed put it into the queue; `routed-twice`;
  `misnumbered`: a Routed whose message id is not its own LSN;
* `not-delivered`: acknowledged, returned or dead-lettered while it was not in flight;
  `wrong-consumer`: by a consumer that it was not delivered to; `delivered-twice`: delivered while
  it was in flight; `expired-in-flight`; `delivery-count`: the count does not follow from the count
  before it: one more for a delivery, one less for a return whose attempt does not count;
* `lost`: in a queue that was deleted, or in flight to a consumer that left, and not returned;
* `no-copy`: the copy named by DeadLettered, Expired or Moved was never routed; `no-origin`: a
  Routed names an original that was not dead-lettered, expired or moved as this copy, or, for a
  copy that a divert made, never sent;
* `no-queue`, `no-consumer`, `no-connection`: an event of one that did not exist at that time (or of
  a consumer of another queue or connection); `not-detached`: a connection closed with a consumer;
* `transaction`: a TransactionCommitted that does not directly follow the events that it names, or a
  message of a transaction that no commit covers;
* `lsn-gap`: events that are missing or exist twice.

Nearly all entries are plain (routed, delivered, acknowledged; or still ready) and are counted with
one GROUP BY in the engine, which can spill to disk; only the others are judged, one at a time.
Memory grows with the number of queues and consumers. Must never know which engine runs the SQL.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from daybook.engine.facts.kinds import ENTERING, LEAVING, TOPOLOGY, outcome
from daybook.engine.facts.life import ASIDE, IN_FLIGHT, READY
from daybook.history.audit.rules import Breach
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.audit_judge import (
    DROPPED,
    EntryEvent,
    judge,
)
from daybook.pipeline.jobs.audit_lives import (
    Bounds,
    Fault,
    Group,
    Lives,
    life_event,
    older_events,
    wrong_bounds,
)
from daybook.pipeline.jobs.audit_rules import breaches_of
from daybook.pipeline.jobs.audit_tables import (
    COPIES,
    DIVERTED,
    ENTRIES,
    ENTRY_EVENTS,
    EXTENT,
    GAPS,
    GROUPS,
    LIVES,
    OUTSIDE,
    PLAIN,
    SPAN,
    SUSPECTS,
    classes,
)
from daybook.pipeline.jobs.audit_transactions import Transactions
from daybook.pipeline.selection import EVERYTHING, Selection, SelectionError

COLUMNS: Final = (
    "lsn", "kind_id", "reason_id", "queue_id", "address_id", "message", "consumer", "connection",
    "related", "delivery_count", "persistent", "detail",
)  # fmt: skip
FAULTS_MOST: Final = 100_000
"""How many faults are kept; further ones are only counted."""
LSNS_MOST: Final = 10
"""How many LSNs one fault lists."""
Told = Callable[[str], None]
_Key = tuple[int, int, int]


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

    def balance(self) -> None:
        """Compute the difference."""
        went = self.acknowledged + self.dead_lettered + self.expired + self.removed + self.dropped
        self.difference = self.opening + self.routed - went - self.ready - self.in_flight


NUMBERS: Final = tuple(Account.__struct_fields__[3:])


def _number_of(kind: int) -> str:
    """Return the count to which a kind adds; `removed` is for kinds without their own."""
    word = "routed" if kind in ENTERING else outcome(kind, "_")
    return word if word in NUMBERS else "removed"


COUNTED: Final = {kind: _number_of(kind) for kind in ENTERING | LEAVING}


class Audit(msgspec.Struct):
    """The result. `fault_counts` counts all faults by kind, including those that were not kept."""

    first_lsn: int
    last_lsn: int
    events: int
    total: Account
    queues: list[Account]
    faults: list[Fault]
    fault_counts: dict[str, int]
    breaches: list[Breach] = []

    @property
    def is_clean(self) -> bool:
        """Whether there is no fault, no breach and no difference."""
        return not self.fault_counts and not self.breaches and not self.total.difference


def audit(
    engine: Engine,
    history: History,
    selection: Selection,
    told: Told = lambda now: None,
    *,
    re_execute_at: int = 0,
) -> Audit:
    """Audit a span of history; report only the selected queues and addresses.

    All events of the span are read, because an account needs all of them. With the time now, in
    microseconds, as `re_execute_at`, each decision is also asked for at the engine's rules. Raises
    JournalError, SelectionError, and the errors of reading the base and snapshots.
    """
    result = _Auditor(engine, history, selection, told).result()
    if re_execute_at and result.events:
        told("every decision once more")
        found = breaches_of(engine, history, result.first_lsn, result.last_lsn, re_execute_at)
        result.breaches = [each for each in found if _is_selected(selection, each)]
    return result


def _is_selected(chosen: Selection, breach: Breach) -> bool:
    return (not chosen.queues or breach.queue in chosen.queues) and (
        not chosen.addresses or breach.address in chosen.addresses
    )


class Extent(NamedTuple):
    """LSNs (0 for none) and times of the first and last event of a history."""

    first_lsn: int
    last_lsn: int
    begins: datetime | None
    ends: datetime | None


def extent(engine: Engine, history: History, selection: Selection = EVERYTHING) -> Extent:
    """Return the extent of the selected history. Raises JournalError and SelectionError."""
    engine.load("extent", history, ("lsn", "time"), selection)
    row = engine.ask(EXTENT).to_pylist()[0]
    return Extent(row["first"] or 0, row["last"] or 0, row["begins"], row["ends"])


class _Span(NamedTuple):
    first: int
    last: int
    events: int


class _Auditor:
    """Runs the queries, keeps the accounts and collects the faults."""

    def __init__(self, engine: Engine, history: History, selection: Selection, told: Told) -> None:
        self._engine: Final = engine
        self._history: Final = history
        self._selection: Final = selection
        self._told: Final = told
        self._accounts: Final[dict[int, Account]] = {}
        self._faults: Final[list[Fault]] = []
        self._counts: Final[Counter[str]] = Counter()
        self._is_cut = selection.to_lsn is not None or selection.until is not None
        self._lives = Lives(1)
        self._wrong: Final[dict[_Key, Bounds]] = {}

    def result(self) -> Audit:
        self._told("reading events")
        span = self._load()
        self._lives = Lives(span.first)
        if span.events:
            self._learn(span)
            self._account(span)
            self._judge_all(span)
            self._told("dead letters and expired messages")
            self._check_copies(span)
        # An empty span has no names, so a selected name cannot be called unknown.
        accounts = self._chosen_accounts() if span.events else []
        total = Account(0, "", "")
        for name in NUMBERS:
            setattr(total, name, sum(getattr(each, name) for each in accounts))
        faults = sorted(self._faults, key=lambda fault: (fault.lsns[-1], fault.kind, fault.queue))
        return Audit(
            span.first, span.last, span.events, total, accounts, faults,
            dict(sorted(self._counts.items())),
        )  # fmt: skip

    def _load(self) -> _Span:
        """Load the events of the span."""
        chosen = self._selection
        plain = Selection(from_lsn=chosen.from_lsn, to_lsn=chosen.to_lsn)
        if chosen.since is not None or chosen.until is not None:
            timed = msgspec.structs.replace(plain, since=chosen.since, until=chosen.until)
            self._engine.load("audited", self._history, ("lsn",), timed)
            found = self._span()
            # The span must have no gaps, even if a clock was set back.
            plain = Selection(from_lsn=found.first or 1, to_lsn=found.last)
        self._engine.load("audited", self._history, COLUMNS, plain)
        self._engine.define("entry_events", ENTRY_EVENTS)
        self._engine.define("entries", ENTRIES)
        return self._span()

    def _span(self) -> _Span:
        row = self._engine.ask(SPAN).to_pylist()[0]
        return _Span(row["first"] or 0, row["last"] or 0, row["events"])

    def _learn(self, span: _Span) -> None:
        """Read the lives of the span, with older names and queues.

        Transactions are checked on the way, when the names of their queues are known.
        """
        self._told("queues, consumers and transactions")
        if span.first > 1:
            for event in older_events(self._engine, self._history, span.first):
                self._lives.learn(event)
        transactions = Transactions(self._lives)
        for row in self._rows(LIVES):
            if row["kind_id"] in TOPOLOGY:
                self._lives.learn(life_event(row))
            else:
                self._gather(transactions.take(row))
        self._gather(transactions.end(is_cut=self._is_cut))
        self._gather(self._lives.faults)
        if span.events != span.last - span.first + 1:
            for row in self._rows(GAPS):
                self._gather([_gap(row["lsn"], row["following"])])

    def _account(self, span: _Span) -> None:
        """Count entering and leaving messages by events, and plain entries by their class."""
        self._told("entries")
        for key, rows in groupby(self._rows(GROUPS), key=_group_of):
            self._take_group(key, list(rows))
        gone = pa.table({"queue_id": pa.array(self._lives.gone_queues(), pa.int64())})
        self._engine.add("gone_queues", gone)
        restarts = self._lives.restarts
        first, last = (restarts[0], restarts[-1]) if restarts else (0, 0)
        self._engine.define("classes", classes(span.first, first, last))
        for row in self._rows(PLAIN):
            account = self._account_of(row["queue_id"])
            if row["class"] == "opening":
                account.opening += row["entries"]
            elif row["class"] == "ready":
                account.ready += row["entries"]

    def _take_group(self, key: _Key, rows: list[dict[str, Any]]) -> None:
        """Count events of a queue and consumer by kind; note if one of the two did not exist."""
        account = self._account_of(key[0])
        for row in rows:
            counted = COUNTED.get(row["kind_id"])
            if counted is not None:
                setattr(account, counted, getattr(account, counted) + row["events"])
        first, last = min(row["first"] for row in rows), max(row["last"] for row in rows)
        bounds = wrong_bounds(self._lives, Group(*key, first, last))
        if bounds is not None:
            self._wrong[key] = bounds

    def _judge_all(self, span: _Span) -> None:
        """Judge entries that are not plain, and events of missing queues or consumers."""
        outside = self._outside()
        self._told("entries that are not plain")
        blamed: set[int] = set()
        for story in self._stories():
            verdict = judge(self._lives, span.last, story)
            account = self._account_of(story[0].queue)
            account.opening += verdict.opening
            account.ready += verdict.place in (READY, *ASIDE)
            account.in_flight += verdict.place == IN_FLIGHT
            account.dropped += verdict.place == DROPPED
            self._gather(verdict.faults)
            blamed.update(fault.lsns[-1] for fault in verdict.faults)
        for each in outside:
            each.forgive(blamed)
            if each.count:
                self._gather([self._outside_fault(each)])

    def _stories(self) -> Iterator[list[EntryEvent]]:
        """Yield all events of each entry that is not plain."""
        each = (
            EntryEvent(*row)
            for batch in self._engine.stream(SUSPECTS)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        for _, story in groupby(each, key=lambda event: (event.message, event.queue)):
            yield list(story)

    def _outside(self) -> list["_Outside"]:
        """Return events of queues and consumers that did not exist."""
        if not self._wrong:
            return []
        self._engine.add("bounds", _bounds_table(list(self._wrong.values())))
        found = []
        for key, rows in groupby(self._rows(OUTSIDE), key=_group_of):
            outside = _Outside(self._wrong[key])
            for row in rows:
                outside.take(row["lsn"], row["message"])
            found.append(outside)
        return found

    def _outside_fault(self, outside: "_Outside") -> Fault:
        bounds, count = outside.bounds, outside.count
        queue, address = self._lives.place(bounds.group.queue)
        lsns = outside.lsns[:LSNS_MOST]
        more = f" and {count - len(lsns):,} more" if count > len(lsns) else ""
        listed = ", ".join(str(lsn) for lsn in lsns) + more
        says = f"event {listed} of queue '{queue}' says otherwise"
        if count > 1:
            says = f"events {listed} of queue '{queue}' say otherwise"
        text = f"{bounds.text}, and {says}"
        return Fault(bounds.kind, tuple(lsns), text, outside.message, queue, address, count)

    def _check_copies(self, span: _Span) -> None:
        for row in self._rows(COPIES):
            copy, origin, lsn = row["copy"], row["origin"], row["lsn"]
            queue, address = self._lives.place(row["queue_id"])
            if not row["copies"] and copy <= span.last:
                text = f"event {lsn} says that {copy} is a copy of message {origin}, "
                text += "but no such copy was routed"
                self._gather([Fault("no-copy", (lsn,), text, origin, queue, address)])
            elif not row["departures"] and lsn > span.first:
                text = f"event {lsn} says that message {copy} is a copy of {origin}, "
                text += "which was not dead-lettered or expired as that copy"
                self._gather([Fault("no-origin", (lsn,), text, copy, queue, address)])
        for row in self._rows(DIVERTED):
            if row["origin"] >= span.first:
                copy, origin, lsn = row["copy"], row["origin"], row["lsn"]
                queue, address = self._lives.place(row["queue_id"])
                text = f"event {lsn} says that message {copy} is a copy that a divert made of "
                text += f"{origin}, which was never sent"
                self._gather([Fault("no-origin", (lsn,), text, copy, queue, address)])

    def _rows(self, sql: str) -> Iterator[dict[str, Any]]:
        for batch in self._engine.stream(sql):
            yield from batch.to_pylist()

    def _account_of(self, queue_id: int) -> Account:
        account = self._accounts.get(queue_id)
        if account is None:
            account = Account(queue_id, *self._lives.place(queue_id))
            self._accounts[queue_id] = account
        return account

    def _gather(self, faults: list[Fault]) -> None:
        chosen = self._selection
        for fault in faults:
            if (chosen.queues and fault.queue not in chosen.queues) or (
                chosen.addresses and fault.address not in chosen.addresses
            ):
                continue
            self._counts[fault.kind] += 1
            if len(self._faults) < FAULTS_MOST:
                self._faults.append(fault)

    def _chosen_accounts(self) -> list[Account]:
        """Return the accounts of the selected queues, or all."""
        chosen = self._selection
        queues = {life.name for life in self._lives.queues.values()}
        addresses = set(self._lives.addresses.values())
        _check_names(chosen.queues, queues, "queue")
        _check_names(chosen.addresses, addresses, "address")
        found = []
        for account in sorted(self._accounts.values(), key=lambda each: each.queue_id):
            if (not chosen.queues or account.queue in chosen.queues) and (
                not chosen.addresses or account.address in chosen.addresses
            ):
                account.balance()
                found.append(account)
        return found


class _Outside:
    """Events of a group outside its bounds: their number, the first LSNs, and a message."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds: Final = bounds
        self.lsns: list[int] = []
        self.count = 0
        self.message = 0

    def take(self, lsn: int, message: int) -> None:
        """Add the next event."""
        self.count += 1
        self.message = self.message or message
        if len(self.lsns) < FAULTS_MOST:
            self.lsns.append(lsn)

    def forgive(self, blamed: set[int]) -> None:
        """Drop the events for which another fault is reported."""
        left = [lsn for lsn in self.lsns if lsn not in blamed]
        self.count -= len(self.lsns) - len(left)
        self.lsns = left


def _check_names(names: tuple[str, ...], known: set[str], what: str) -> None:
    for name in names:
        if name not in known:
            close = get_close_matches(name, sorted(known), n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise SelectionError(f"history has no {what} '{name}'{hint}")


def _gap(lsn: int, following: int) -> Fault:
    if following <= lsn:
        return Fault("lsn-gap", (lsn, following), f"event {following} exists twice")
    missing = following - lsn - 1
    what = f"event {lsn + 1} is" if missing == 1 else f"events {lsn + 1} to {following - 1} are"
    return Fault("lsn-gap", (lsn, following), f"{what} missing", events=missing)


def _group_of(row: dict[str, Any]) -> _Key:
    return row["queue_id"], row["consumer"], row["connection"]


def _bounds_table(wrong: list[Bounds]) -> pa.Table:
    columns = {
        "queue_id": [each.group.queue for each in wrong],
        "consumer": [each.group.consumer for each in wrong],
        "connection": [each.group.connection for each in wrong],
        "first": [each.first for each in wrong],
        "last": [each.last for each in wrong],
    }
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
