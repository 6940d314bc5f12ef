"""Measures latencies, redelivery, poison messages and slow consumers.

* *Routed to delivered* ends with the first delivery; *delivered to acknowledged* is measured for
  the delivery that was acknowledged, so not for one that a restart or a rejection returned, nor
  for one that is acknowledged automatically when it is sent; *routed to acknowledged* is the
  whole time.
* Percentiles are over entries (a message in one queue) with both ends in the span, exact to three
  digits; maxima are exact. The hour is that in which the message was routed (or delivered, if it
  was routed before the span); the consumer is the one that acknowledged.
* *Hot spots* are queues with redelivered or dead-lettered messages, and the reasons of their
  return: rejected by the consumer, connection lost, restart.
* *Poison* is a message that was delivered at least `poison_deliveries` times, or dead-lettered;
  those with the same body are also grouped.
* *Slow consumers* are compared with the median of their queue, with the number of their
  deliveries in flight at the end.

Memory grows with the number of queues, consumers, hours and distinct three-digit latencies. Must
never know which engine runs the SQL.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import md5
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from daybook.engine.facts import events, life, reasons
from daybook.engine.facts.details import AddressDetail, ConnectionDetail, QueueDetail
from daybook.engine.facts.events import ADDRESS, KIND, QUEUE
from daybook.engine.facts.kinds import NAMING, changing, names
from daybook.history.initial_state import beginning
from daybook.history.scan import Event
from daybook.pipeline import rows
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.defaults import POISON_DELIVERIES
from daybook.pipeline.jobs.latency_spread import Spread
from daybook.pipeline.jobs.latency_tables import (
    COLUMNS,
    DELIVERED_TO_ACKNOWLEDGED,
    ENTRIES,
    ENTRY_EVENTS,
    HAPPENINGS,
    IN_FLIGHT,
    KINDS,
    LATENCIES,
    MEASURES,
    POISON,
    RESTARTED,
    SCHEMAS,
    histogram,
)
from daybook.pipeline.selection import Selection

POISON_MOST: Final = 10_000
"""How many poison messages are reported, the worst first."""
SLOW_ACKNOWLEDGED: Final = 10
"""Consumers with fewer acknowledgements are not compared."""
AROUND_COLUMNS: Final = ("lsn", "kind_id", "consumer", "connection", "detail")
AROUND_KINDS: Final = names(changing({life.BROKER, life.CONNECTION, life.CONSUMER}, {life.BEGINS}))
MS: Final = 1000

Row = dict[str, Any]
Told = Callable[[str], None]
Tables = dict[str, pa.Table]


def latency(
    engine: Engine,
    history: History,
    selection: Selection,
    *,
    poison_deliveries: int = POISON_DELIVERIES,
    told: Told = lambda now: None,
) -> Tables:
    """Measure the selected events; return the tables of SCHEMAS by name.

    Raises JournalError, SelectionError, and the errors of `history.initial_state`.
    """
    return _Measuring(engine, history, selection, told).tables(poison_deliveries)


class _Queue:
    """The counts of a queue."""

    def __init__(self) -> None:
        self.kinds: dict[int, int] = {}
        self.returns: dict[int, int] = {}
        self.redelivered = 0
        self.restarted = 0
        self.most_deliveries = 0

    def count(self, row: Row) -> None:
        kind = row["kind_id"]
        self.kinds[kind] = self.kinds.get(kind, 0) + row["events"]
        if kind == events.RETURNED:
            reason = row["reason_id"]
            self.returns[reason] = self.returns.get(reason, 0) + row["events"]
        elif kind == events.DELIVERED:
            self.redelivered += row["events"] * row["redelivered"]
            self.most_deliveries = max(self.most_deliveries, row["most_deliveries"])


class _Measuring:
    """Runs the queries and makes tables of their results."""

    def __init__(self, engine: Engine, history: History, selection: Selection, told: Told) -> None:
        self._engine: Final = engine
        self._history: Final = history
        self._selection: Final = selection
        self._told: Final = told
        self._addresses: Final[dict[int, str]] = {}
        self._queues: Final[dict[int, tuple[QueueDetail, int]]] = {}
        self._peers: Final[dict[int, ConnectionDetail]] = {}
        self._connections: Final[dict[int, int]] = {}
        self._restarts: Final[list[int]] = []
        self._redelivered: Final[dict[tuple[int, int], int]] = {}

    def tables(self, poison_deliveries: int) -> Tables:
        self._told("reading events")
        chosen = msgspec.structs.replace(self._selection, kinds=KINDS)
        self._engine.load("measured", self._history, COLUMNS, chosen)
        self._engine.define("entry_events", ENTRY_EVENTS)
        self._engine.define("spans", ENTRIES)
        self._engine.define("latencies", LATENCIES)
        self._learn()
        self._told("latencies")
        found = dict(self._latencies())
        self._told("hot spots")
        found["hot_spots"] = list(self._hot_spots())
        self._told("slow consumers")
        found["latency_by_consumer"], found["slow_consumers"] = self._consumers()
        self._told("poison messages")
        found |= self._poison(poison_deliveries)
        return {name: pa.Table.from_pylist(found[name], schema=SCHEMAS[name]) for name in SCHEMAS}

    def _learn(self) -> None:
        """Read names, restarts, and the peers of consumers."""
        source = self._history.source
        if source.directory:
            for event in beginning(Path(source.directory), source.disk()).events:
                self._learn_name(event)
        self._engine.load("naming", self._history, rows.COLUMNS, Selection(kinds=names(NAMING)))
        for batch in self._engine.stream("SELECT * FROM naming ORDER BY lsn"):
            for event in rows.events_in(batch):
                self._learn_name(event)
        chosen = self._selection
        around = Selection(kinds=AROUND_KINDS, to_lsn=chosen.to_lsn, until=chosen.until)
        self._engine.load("around", self._history, AROUND_COLUMNS, around)
        for row in self._rows("SELECT * FROM around ORDER BY lsn"):
            if row["kind_id"] == events.BROKER_STARTED:
                self._restarts.append(row["lsn"])
            elif row["kind_id"] == events.CONNECTION_OPENED:
                peer = msgspec.json.decode(row["detail"] or "{}", type=ConnectionDetail)
                self._peers[row["connection"]] = peer
            else:
                self._connections[row["consumer"]] = row["connection"]

    def _learn_name(self, event: Event) -> None:
        detail = events.decode_detail(event.row[KIND], event.detail)
        if isinstance(detail, AddressDetail):
            self._addresses[event.row[ADDRESS]] = detail.name
        elif isinstance(detail, QueueDetail):
            self._queues[event.row[QUEUE]] = detail, event.row[ADDRESS]

    def _names(self, queue_id: int) -> tuple[str, str]:
        """Return the names of a queue and of its address."""
        if queue_id not in self._queues:
            return f"#{queue_id}", ""
        queue, address = self._queues[queue_id]
        return queue.name, self._addresses.get(address, f"#{address}")

    def _is_chosen(self, queue_id: int) -> bool:
        """Return whether a queue is selected: an event of several queues is also about others."""
        queue, address = self._names(queue_id)
        chosen = self._selection
        return (not chosen.queues or queue in chosen.queues) and (
            not chosen.addresses or address in chosen.addresses
        )

    def _latencies(self) -> Iterator[tuple[str, list[Row]]]:
        whole: dict[str, Spread] = {}
        addresses: dict[tuple[str, str], Spread] = {}
        queues: dict[tuple[str, int], Spread] = {}
        hours: dict[tuple[str, datetime], Spread] = {}
        for row in self._rows(histogram("hour")):
            if not self._is_chosen(row["queue_id"]):
                continue
            measure, queue_id = row["measure"], row["queue_id"]
            address = self._names(queue_id)[1]
            values = (row["bucket"], row["entries"], row["most"])
            whole.setdefault(measure, Spread()).add(*values)
            addresses.setdefault((measure, address), Spread()).add(*values)
            queues.setdefault((measure, queue_id), Spread()).add(*values)
            hours.setdefault((measure, row["hour"]), Spread()).add(*values)
        measured = sorted(whole, key=MEASURES.index)
        yield "latency", [{"measure": each, **_percentiles(whole[each])} for each in measured]
        yield (
            "latency_by_address",
            [
                {"measure": measure, "address": address, **_percentiles(spread)}
                for (measure, address), spread in _ordered(addresses)
            ],
        )
        yield (
            "latency_by_hour",
            [
                {"measure": measure, "hour": hour, **_percentiles(spread)}
                for (measure, hour), spread in _ordered(hours)
            ],
        )
        yield (
            "latency_by_queue",
            [
                {"measure": measure, **self._place(queue_id), **_percentiles(spread)}
                for (measure, queue_id), spread in _ordered(queues)
            ],
        )
        yield (
            "histogram",
            [
                {"measure": measure, **self._place(queue_id), "from_us": value, "count": count}
                for (measure, queue_id), spread in _ordered(queues)
                for value, count in spread.buckets()
            ],
        )

    def _hot_spots(self) -> Iterator[Row]:
        queues: dict[int, _Queue] = {}
        for row in self._rows(HAPPENINGS):
            queue_id = row["queue_id"]
            if not self._is_chosen(queue_id):
                continue
            queues.setdefault(queue_id, _Queue()).count(row)
            if row["kind_id"] == events.DELIVERED and row["redelivered"]:
                self._redelivered[queue_id, row["consumer"]] = row["events"]
        for row in self._restarted():
            queues[row["queue_id"]].restarted = row["events"]
        found = [self._hot_spot(queue_id, queue) for queue_id, queue in queues.items()]
        found.sort(key=lambda row: (-row["redelivered"] - row["dead_lettered"], row["queue"]))
        yield from found

    @property
    def _last_restart(self) -> int:
        """0 if there was none."""
        return self._restarts[-1] if self._restarts else 0

    def _restarted(self) -> Iterator[Row]:
        """Yield the number of deliveries that restarts returned, by queue."""
        if not self._restarts:
            return
        transient = [number for number, (queue, _) in self._queues.items() if not queue.durable]
        self._engine.add("restarts", pa.table({"lsn": pa.array(self._restarts, pa.int64())}))
        self._engine.add(
            "transient_queues", pa.table({"queue_id": pa.array(transient, pa.int64())})
        )
        for row in self._rows(RESTARTED.format(restart=self._last_restart)):
            if self._is_chosen(row["queue_id"]):
                yield row

    def _hot_spot(self, queue_id: int, queue: _Queue) -> Row:
        delivered = queue.kinds.get(events.DELIVERED, 0)
        nacked = queue.returns.get(reasons.NACK, 0)
        disconnected = queue.returns.get(reasons.DISCONNECTED, 0)
        return {
            **self._place(queue_id),
            "routed": queue.kinds.get(events.ROUTED, 0),
            "delivered": delivered,
            "redelivered": queue.redelivered,
            "redelivered_percent": 100 * queue.redelivered / delivered if delivered else 0.0,
            "nacked": nacked,
            "disconnected": disconnected,
            "restart": queue.restarted,
            "returned_otherwise": sum(queue.returns.values()) - nacked - disconnected,
            "dead_lettered": queue.kinds.get(events.DEAD_LETTERED, 0),
            "expired": queue.kinds.get(events.EXPIRED, 0),
            "most_deliveries": queue.most_deliveries,
        }

    def _consumers(self) -> tuple[list[Row], list[Row]]:
        """Return latencies by consumer, and consumers ordered by slowness."""
        spreads: dict[tuple[str, int, int], Spread] = {}
        medians: dict[int, Spread] = {}
        for row in self._rows(histogram("acknowledger")):
            consumer, queue_id = row["acknowledger"], row["queue_id"]
            if consumer is None or not self._is_chosen(queue_id):
                continue
            values = (row["bucket"], row["entries"], row["most"])
            spreads.setdefault((row["measure"], queue_id, consumer), Spread()).add(*values)
            if row["measure"] == DELIVERED_TO_ACKNOWLEDGED:
                medians.setdefault(queue_id, Spread()).add(*values)
        in_flight = {
            row["consumer"]: row["entries"]
            for row in self._rows(IN_FLIGHT.format(restart=self._last_restart))
        }
        told = [
            {"measure": measure, **self._who(queue_id, consumer), **_percentiles(spread)}
            for (measure, queue_id, consumer), spread in _ordered(spreads)
        ]
        slow = [
            self._slow(queue_id, consumer, spread, medians[queue_id], in_flight.get(consumer, 0))
            for (measure, queue_id, consumer), spread in _ordered(spreads)
            if measure == DELIVERED_TO_ACKNOWLEDGED and spread.count >= SLOW_ACKNOWLEDGED
        ]
        slow.sort(key=lambda row: (-row["times_slower"], row["consumer"]))
        return told, slow

    def _slow(
        self, queue_id: int, consumer: int, own: Spread, queue: Spread, in_flight: int
    ) -> Row:
        median, high = own.percentiles(50, 99)
        (usual,) = queue.percentiles(50)
        return {
            **self._who(queue_id, consumer),
            "acknowledged": own.count,
            "p50_ms": median / MS,
            "p99_ms": high / MS,
            "queue_p50_ms": usual / MS,
            "times_slower": median / usual if usual else 1.0,
            "redelivered": self._redelivered.get((queue_id, consumer), 0),
            "in_flight": in_flight,
        }

    def _poison(self, deliveries: int) -> dict[str, list[Row]]:
        asked = POISON.format(deliveries=deliveries, most=POISON_MOST)
        found = [row for row in self._rows(asked) if self._is_chosen(row["queue_id"])]
        bodies = self._bodies({row["message"] for row in found})
        messages = []
        for row in found:
            digest, size = bodies.get(row["message"], (None, None))
            names = {"queue": self._names(row["queue_id"])[0]}
            dead = {"dead_lettered": bool(row["dead_lettered"])}
            messages.append({**row, **names, **dead, "body_md5": digest, "body_bytes": size})
        return {"poison_messages": messages, "poison_bodies": _by_body(messages)}

    def _bodies(self, messages: set[int]) -> dict[int, tuple[str, int]]:
        """Return digests and sizes of bodies that are in one event."""
        if not messages:
            return {}
        # Copies of these messages are selected too, but not wanted.
        chosen = Selection(kinds=("Routed",), messages=tuple(sorted(messages)))
        self._engine.load("bodies", self._history, ("message", "body"), chosen)
        asked = "SELECT message, body FROM bodies WHERE body IS NOT NULL"
        return {
            row["message"]: (md5(row["body"], usedforsecurity=False).hexdigest(), len(row["body"]))
            for row in self._rows(asked)
            if row["message"] in messages and row["body"]
        }

    def _place(self, queue_id: int) -> Row:
        queue, address = self._names(queue_id)
        return {"queue": queue, "address": address}

    def _who(self, queue_id: int, consumer: int) -> Row:
        peer = self._peers.get(self._connections.get(consumer, 0), ConnectionDetail())
        queue = self._names(queue_id)[0]
        return {
            "queue": queue, "consumer": consumer,
            "peer": peer.peer or None, "user": peer.user or None,
        }  # fmt: skip

    def _rows(self, sql: str) -> Iterator[Row]:
        for batch in self._engine.stream(sql):
            yield from batch.to_pylist()


def _percentiles(spread: Spread) -> Row:
    """Return percentiles as columns, in milliseconds."""
    p50, p90, p99 = spread.percentiles(50, 90, 99)
    return {
        "count": spread.count, "p50_ms": p50 / MS, "p90_ms": p90 / MS, "p99_ms": p99 / MS,
        "max_ms": spread.most / MS,
    }  # fmt: skip


def _ordered(spreads: dict[Any, Spread]) -> list[tuple[Any, Spread]]:
    """Sort by measure, in the order of MEASURES, then by the rest of the key."""
    return sorted(spreads.items(), key=lambda item: (MEASURES.index(item[0][0]), *item[0][1:]))


def _by_body(messages: list[Row]) -> list[Row]:
    """Group poison messages by body, the most frequent first."""
    groups: dict[str, list[Row]] = {}
    for row in messages:
        if row["body_md5"] is not None:
            groups.setdefault(row["body_md5"], []).append(row)
    found = [
        {
            "body_md5": digest,
            "body_bytes": rows[0]["body_bytes"],
            "messages": len({row["message"] for row in rows}),
            "deliveries": sum(row["deliveries"] for row in rows),
            "dead_lettered": sum(row["dead_lettered"] for row in rows),
            "example": min(row["message"] for row in rows),
        }
        for digest, rows in groups.items()
    ]
    return sorted(found, key=lambda row: (-row["messages"], row["example"]))
