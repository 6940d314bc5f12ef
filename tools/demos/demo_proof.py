"""Checks the demo: the records of the clients must be consistent, and agree with the journal."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.events import DELIVERY_COUNT, FLAGS, KIND, MESSAGE
from daybook.engine.facts.kinds import OF_ENTRIES
from daybook.engine.messages.content import View
from daybook.engine.messages.conversions import text_of
from daybook.history.event_finder import EventFinder
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.recovery.readonly import journal_disk
from daybook.tools.demos.demo_clients import Ledger, Order

KINDS = OF_ENTRIES | {events.BROKER_STARTED}


class Row(NamedTuple):
    """A line of the table; `must` is None for a figure that may have any value."""

    what: str
    value: int
    must: int | None = None

    @property
    def right(self) -> bool:
        return self.must is None or self.value == self.must


class History:
    """The orders according to the journal."""

    def __init__(self, data: Path) -> None:
        self.starts: list[int] = []
        self.routed: dict[int, list[int]] = {}
        self.delivered: set[tuple[int, int]] = set()
        self.acknowledged: dict[int, int] = {}
        self.dead_lettered: set[int] = set()
        for event in EventFinder(journal_disk(data)).find(Search(Clause(KINDS))):
            self._take(event)

    def _take(self, event: Event) -> None:
        row = event.row
        kind = row[KIND]
        if kind == events.BROKER_STARTED:
            self.starts.append(event.lsn)
        elif kind == events.ROUTED:
            number = int(text_of(View(row[FLAGS], event.headers).get("order") or -1))
            self.routed.setdefault(number, []).append(event.lsn)
        elif kind == events.DELIVERED:
            self.delivered.add((row[MESSAGE], row[DELIVERY_COUNT]))
        elif kind == events.ACKNOWLEDGED:
            self.acknowledged[row[MESSAGE]] = event.lsn
        elif kind == events.DEAD_LETTERED:
            self.dead_lettered.add(row[MESSAGE])

    def survivor(self) -> int | None:
        """A message that was sent before the first crash and was acknowledged after the last."""
        for message, lsn in self.acknowledged.items():
            if len(self.starts) > 2 and message < self.starts[1] and lsn > self.starts[-1]:
                return message
        return None


def judge(ledger: Ledger, history: History) -> list[Row]:
    """Return the table of counts, with the figures that must be zero."""
    orders = ledger.orders
    receipted = ledger.count(lambda order: order.receipted)
    acked = ledger.count(lambda order: order.acked_count > 0)
    confirmed = ledger.count(lambda order: order.confirmed_count > 0)
    arrived = sum(1 for number in history.routed if not orders[number].receipted)
    return [
        Row("orders sent, each once", len(orders)),
        Row("  with a receipt: safe", receipted),
        Row("  without: in doubt when the broker was killed", len(orders) - receipted),
        Row("    of these, arrived all the same", arrived),
        Row("connections made", ledger.connections),
        Row("  dropped by a dying consumer", ledger.dropped),
        Row("deliveries seen by consumers", sum(len(each.deliveries) for each in orders.values())),
        Row("  flagged as redelivered", sum(map(_flagged, orders.values()))),
        Row("  rejected by a consumer", sum(order.nacked for order in orders.values())),
        Row("orders acknowledged by a consumer", acked),
        Row("  with a receipt: final", confirmed),
        Row("  without: lost with a connection", acked - confirmed),
        Row("delivered again, flagged: the receipt of the ack was lost", ledger.count(_again)),
        *_verdicts(ledger, history),
    ]


def _verdicts(ledger: Ledger, history: History) -> list[Row]:
    orders = ledger.orders
    safe = [number for number, order in orders.items() if order.receipted]
    seen = {(each.message, each.count) for order in orders.values() for each in order.deliveries}
    routed_ids = {message for ids in history.routed.values() for message in ids}
    return [
        Row("lost: receipted, never delivered",
            sum(1 for number in safe if not orders[number].deliveries), 0),
        Row("lost: receipted, not in the journal",
            sum(1 for number in safe if number not in history.routed), 0),
        Row("invented: delivered, never sent so", len(ledger.invented), 0),
        Row("doubled: sent once, taken twice",
            sum(1 for ids in history.routed.values() if len(ids) > 1), 0),
        Row("redelivered without the flag", ledger.count(_unflagged), 0),
        Row("delivered again after the receipt of its ack", ledger.count(_undead), 0),
        Row("delivered, not in the journal", len(seen - history.delivered), 0),
        Row("ack with a receipt, not in the journal",
            ledger.count(lambda order: _ack_missing(order, history)), 0),
        Row("left in a queue at the end",
            len(routed_ids - history.acknowledged.keys() - history.dead_lettered), 0),
        Row("dead-lettered", len(history.dead_lettered), 0),
    ]  # fmt: skip


def _flagged(order: Order) -> int:
    return sum(1 for delivery in order.deliveries if delivery.flagged)


def _unflagged(order: Order) -> bool:
    """Whether an attempt after the first had no flag, or two attempts had the same count."""
    by_count = Counter(delivery.count for delivery in order.deliveries)
    return any(times > 1 for times in by_count.values()) or any(
        delivery.count > 1 and not delivery.flagged for delivery in order.deliveries
    )


def _again(order: Order) -> bool:
    """Whether an order was redelivered because the receipt of its acknowledgement was lost:
    correct."""
    return any(0 < order.first_acked_count < delivery.count for delivery in order.deliveries)


def _undead(order: Order) -> bool:
    """Whether there was another attempt after the receipt of the acknowledgement."""
    return bool(order.confirmed_count) and any(
        delivery.count > order.confirmed_count for delivery in order.deliveries
    )


def _ack_missing(order: Order, history: History) -> bool:
    return bool(order.confirmed_count) and not any(
        delivery.message in history.acknowledged for delivery in order.deliveries
    )


def as_objects(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the table in a form for programs."""
    return [
        {"what": row.what.strip(), "value": row.value, "must": row.must, "right": row.right}
        for row in rows
    ]
