"""The account of every queue between two moments: messages before, entered, left, and after.

*Before* and *after* are counts of the states; what entered and left is counted by events, in sets
derived from the table of events. Memory grows with the number of queues. Must never know rules.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from daybook.engine.facts import events
from daybook.engine.facts.events import ADDRESS, QUEUE, REASON, Row
from daybook.engine.facts.kinds import ENTERING, LEAVING, changing, outcome
from daybook.engine.facts.life import BEGINS, BROKER, CHANGES
from daybook.engine.facts.life import QUEUE as OF_QUEUE
from daybook.engine.facts.reasons import REASONS
from daybook.engine.state.state import State

Way: TypeAlias = tuple[int, int, int]
"""Queue, kind and reason."""
MOVING: Final = ENTERING | LEAVING
STARTS: Final = changing({BROKER}, {BEGINS})
NAMES: Final = changing({OF_QUEUE}, {BEGINS, CHANGES})


class Account(msgspec.Struct):
    """What happened to the messages of a queue, by the names of ways: `kind` or `kind:reason`.

    `restarted` are those that starts of the broker removed without an event; `in_flight` are those
    `after` that a consumer has. `difference` is 0 unless messages came or went otherwise.
    """

    queue_id: int
    queue: str
    address: str
    before: int = 0
    entered: dict[str, int] = msgspec.field(default_factory=dict)
    left: dict[str, int] = msgspec.field(default_factory=dict)
    restarted: int = 0
    after: int = 0
    in_flight: int = 0
    difference: int = 0

    def balance(self) -> None:
        """Compute the difference."""
        came = self.before + sum(self.entered.values())
        self.difference = came - sum(self.left.values()) - self.restarted - self.after


class Ledger:
    """Counts what enters and leaves queues, event by event."""

    def __init__(self, state: State) -> None:
        self._state: Final = state
        self.ways: Counter[Way] = Counter()
        self.restarted: Counter[int] = Counter()
        # By address and reason: messages that no queue took, or that only diverts took.
        self.dropped: Counter[tuple[str, str]] = Counter()
        self.names: dict[int, tuple[str, str]] = {}
        self.counts_before: Final = counts_of(state)
        self._counts: dict[int, int] = {}
        for queue in state.queues.values():
            self.names[queue.id] = queue.name, queue.address.name

    def before(self, kind: int, row: Row, detail: bytes) -> None:
        """Note the event about to be applied."""
        if kind in STARTS:
            self._counts = counts_of(self._state)

    def after(self, kind: int, row: Row, detail: bytes) -> None:
        """Count an event that was applied."""
        if kind in MOVING:
            queue = row[QUEUE]
            if queue:
                self.ways[queue, kind, row[REASON]] += 1
                return
            for each in events.routed_detail(detail).queues:
                self.ways[each, kind, row[REASON]] += 1
        elif kind in STARTS:
            now = counts_of(self._state)
            for queue, count in self._counts.items():
                self.restarted[queue] += count - now.get(queue, 0)
        elif kind in NAMES:
            queue_made = self._state.queues[row[QUEUE]]
            self.names[queue_made.id] = queue_made.name, queue_made.address.name
        elif kind == events.DROPPED:
            address = self._state.addresses.get(row[ADDRESS])
            name = address.name if address is not None else ""
            self.dropped[name, REASONS.get(row[REASON], ("",))[0]] += 1

    def forget(self) -> None:
        """Do nothing about an event that could not be applied."""
        self._counts = {}

    def counted(self, last: int) -> "Counted":
        """Return the counts up to an event, with those of the state now."""
        return Counted(
            last, self.counts_before, counts_of(self._state), dict(self.ways), dict(self.restarted),
            dict(self.dropped), self.names, _in_flight(self._state),
        )  # fmt: skip


def counts_of(state: State) -> dict[int, int]:
    """Return how many messages each queue has."""
    return {queue.id: queue.message_count for queue in state.queues.values()}


def _in_flight(state: State) -> dict[int, int]:
    """Return how many messages of each queue a consumer has."""
    return {
        queue.id: sum(entry.consumer is not None for entry in queue.entries.values())
        for queue in state.queues.values()
    }


class Counted(msgspec.Struct):
    """The counts of a stretch of events, which ends with event `last`."""

    last: int
    before: dict[int, int]
    after: dict[int, int]
    ways: dict[Way, int]
    restarted: dict[int, int]
    dropped: dict[tuple[str, str], int]
    names: dict[int, tuple[str, str]]
    in_flight: dict[int, int]


def accounts_of(parts: Iterable[Counted]) -> tuple[list[Account], dict[tuple[str, str], int]]:
    """Return the accounts of consecutive stretches as one, by queue; and what was dropped."""
    accounts: dict[int, Account] = {}
    dropped: Counter[tuple[str, str]] = Counter()
    is_first = True
    for part in parts:
        for number, names in part.names.items():
            account = accounts.setdefault(number, Account(number, *names))
            account.queue, account.address = names
            if is_first:
                account.before = part.before.get(number, 0)
        for number, account in accounts.items():
            account.after = part.after.get(number, 0)
            account.in_flight = part.in_flight.get(number, 0)
            account.restarted += part.restarted.get(number, 0)
        for (number, kind, reason), count in part.ways.items():
            account = accounts.setdefault(number, Account(number, f"#{number}", ""))
            ways = account.entered if kind in ENTERING else account.left
            name = way(kind, reason)
            ways[name] = ways.get(name, 0) + count
        dropped.update(part.dropped)
        is_first = False
    for account in accounts.values():
        account.balance()
    return sorted(accounts.values(), key=lambda each: each.queue_id), dict(dropped)


def way(kind: int, reason: int) -> str:
    """Return the name of a way into or out of a queue."""
    said = REASONS.get(reason, (str(reason),))[0]
    return f"{outcome(kind)}:{said}" if said else outcome(kind)


def seam(before: Counted, after: Counted) -> dict[int, tuple[int, int]]:
    """Return the queues whose count at the end of a stretch is not that at which the next one
    begins, with both counts."""
    numbers = {*before.after, *after.before}
    pairs = {each: (before.after.get(each, 0), after.before.get(each, 0)) for each in numbers}
    return {number: pair for number, pair in pairs.items() if pair[0] != pair[1]}
