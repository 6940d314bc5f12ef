"""Latencies, hot spots and poison are those that counting by hand finds, on both engines."""

import importlib
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.commands import Attach, OpenConnection, Send, Settle
from daybook.engine.facts import events, reasons
from daybook.engine.facts.settlements import FAILED
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs import latency as latency_job
from daybook.pipeline.jobs.latency import latency
from daybook.pipeline.jobs.latency_spread import Spread
from daybook.pipeline.jobs.latency_tables import (
    DELIVERED_TO_ACKNOWLEDGED,
    MEASURES,
    ROUTED_TO_ACKNOWLEDGED,
    ROUTED_TO_DELIVERED,
    SCHEMAS,
)
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import EVERYTHING, Selection
from tests.support.histories import some_history, write_history
from tests.support.world import SECOND, Event, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tables = dict[str, pa.Table]


def measured(
    directory: Path, selection: Selection = EVERYTHING, engine: Engine | None = None
) -> Tables:
    with engine if engine is not None else DuckEngine() as asked:
        return latency(asked, History(Source(str(directory))), selection, poison_deliveries=2)


def measured_of(history: list[Event]) -> Tables:
    with TemporaryDirectory() as folder:
        return measured(write_history(Path(folder) / "data", history))


def by_hand(history: list[Event]) -> dict[str, list[int]]:
    """All latencies in microseconds, found entry by entry."""
    routed: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    found: dict[str, list[int]] = {measure: [] for measure in MEASURES}
    for event in history:
        row = event.row
        key, time = (row[events.MESSAGE], row[events.QUEUE]), row[events.TIME]
        if event.name == "Routed":
            queues = event.decoded.queues if event.detail else ()
            routed |= dict.fromkeys([(key[0], each) for each in queues or (key[1],)], time)
        elif event.name == "Delivered":
            if key not in first:
                found[ROUTED_TO_DELIVERED].append(time - routed[key])
            first.setdefault(key, time)
            last[key] = time
        elif event.name == "Acknowledged":
            found[ROUTED_TO_ACKNOWLEDGED].append(time - routed[key])
            if event.reason != reasons.AUTOMATIC:
                found[DELIVERED_TO_ACKNOWLEDGED].append(time - last[key])
    return found


def three_digits(value: int) -> int:
    behind = max(len(str(value)) - 3, 0)
    return value // 10**behind * 10**behind


def percentile(values: list[int], percent: int) -> int:
    return three_digits(sorted(values)[max(ceil(percent * len(values) / 100), 1) - 1])


@given(st.integers(0, 1 << 32))
@settings(max_examples=8, deadline=None)
def test_percentiles_are_those_of_all_values(seed: int) -> None:
    history = some_history(seed, 150)
    tables = measured_of(history)
    told = {row.pop("measure"): row for row in tables["latency"].to_pylist()}
    expected = {
        measure: {
            "count": len(values),
            **{f"p{each}_ms": percentile(values, each) / 1000 for each in (50, 90, 99)},
            "max_ms": max(values) / 1000,
        }
        for measure, values in by_hand(history).items()
    }
    assert told == expected
    for name in ("latency_by_address", "latency_by_queue", "latency_by_hour"):
        rows = tables[name].to_pylist()
        for measure, values in by_hand(history).items():
            of_measure = [row for row in rows if row["measure"] == measure]
            assert sum(row["count"] for row in of_measure) == len(values)
            assert max(row["max_ms"] for row in of_measure) == max(values) / 1000


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=50), st.integers(1, 100))
def test_a_spread_has_the_percentiles_of_its_values(values: list[int], percent: int) -> None:
    whole, half = Spread(), Spread()
    for position, value in enumerate(values):
        (whole if position % 2 else half).add(three_digits(value), 1, value)
    whole.include(half)
    assert whole.percentiles(percent) == [percentile(values, percent)]
    assert (whole.count, whole.most) == (len(values), max(values))
    assert Spread().percentiles(50) == [0]


class Shop:
    """One queue, a quick and a slow consumer, and a message that nobody can digest."""

    def __init__(self) -> None:
        self.world = World()
        connections = [
            self.world.ok(OpenConnection("stomp", f"10.0.0.{number}:1", f"user{number}", room=9999))
            for number in range(2)
        ]
        self.connection = connections[0]
        self.quick, self.slow = (
            self.world.ok(Attach(each, "q", credit_messages=1)) for each in connections
        )

    def sell(self, number: int) -> None:
        """Two messages come; one is acknowledged after 10 ms, the other after a second."""
        for _ in range(2):
            self.world.ok(Send(self.connection, "q", b"", b"body %d" % number))
        delivered = {each.consumer: each.message for each in self.world.deliveries}
        self.world.deliveries.clear()
        self.world.sleep(0.01)
        self.world.ok(Settle(self.quick, delivered[self.quick]))
        self.world.sleep(0.99)
        self.world.ok(Settle(self.slow, delivered[self.slow]))

    def poison(self) -> int:
        """A message that is rejected four times, and still there."""
        message = self.world.ok(Send(self.connection, "q", b"", b"poison"))
        for _ in range(4):
            delivery = self.world.deliveries[-1]
            self.world.ok(Settle(delivery.consumer, delivery.message, outcome=FAILED))
        self.world.turn()
        return message


def test_a_slow_consumer_a_hot_spot_and_poison(tmp_path: Path) -> None:
    shop = Shop()
    for number in range(12):
        shop.sell(number)
    message = shop.poison()
    write_history(tmp_path, shop.world.journal)
    tables = measured(tmp_path)
    slow, quick = tables["slow_consumers"].to_pylist()
    assert (slow["consumer"], slow["user"], slow["acknowledged"]) == (shop.slow, "user1", 12)
    assert (slow["p50_ms"], slow["queue_p50_ms"], slow["times_slower"]) == (1000, 10, 100)
    assert (quick["consumer"], quick["p50_ms"], quick["times_slower"]) == (shop.quick, 10, 1)
    assert slow["in_flight"] + quick["in_flight"] == 1
    (spot,) = tables["hot_spots"].to_pylist()
    assert (spot["queue"], spot["delivered"], spot["redelivered"]) == ("q", 29, 4)
    assert (spot["nacked"], spot["most_deliveries"]) == (4, 5)
    (poison,) = tables["poison_messages"].to_pylist()
    assert (poison["message"], poison["deliveries"], poison["returns"]) == (message, 5, 4)
    assert (poison["dead_lettered"], poison["body_bytes"]) == (False, 6)
    last = shop.world.deliveries[-1].consumer
    assert poison["last_consumer"] == last
    (body,) = tables["poison_bodies"].to_pylist()
    assert (body["messages"], body["deliveries"], body["example"]) == (1, 5, message)
    assert body["body_md5"] == poison["body_md5"]


def test_a_delivery_that_a_restart_returned_is_no_latency(tmp_path: Path) -> None:
    world = World()
    for _ in range(2):
        connection = world.ok(OpenConnection("stomp", "p", "u", room=9999))
        consumer = world.ok(Attach(connection, "q"))
        if not world.deliveries:
            message = world.ok(Send(connection, "q", b"", b""))
            world.sleep(100)
            world.restart()
    world.sleep(2)
    world.ok(Settle(consumer, message))
    tables = measured(write_history(tmp_path, world.journal))
    told = {row["measure"]: row["max_ms"] for row in tables["latency"].to_pylist()}
    assert told == {
        ROUTED_TO_DELIVERED: 0,
        DELIVERED_TO_ACKNOWLEDGED: 2000,
        ROUTED_TO_ACKNOWLEDGED: 102_000,
    }


def test_what_a_restart_returned_is_why_it_was_delivered_again(tmp_path: Path) -> None:
    """And what a restart dropped, or had been acknowledged, did not come back."""
    world = World()
    for attempt in range(3):
        connection = world.ok(OpenConnection("stomp", "p", "u", room=9999))
        consumer = world.ok(Attach(connection, "q", credit_messages=9))
        if not attempt:
            first, _, rejected = (
                world.ok(Send(connection, "q", b"", b"", persistent=persistent))
                for persistent in (True, False, True)
            )
            world.ok(Settle(consumer, rejected, outcome=FAILED))
        else:
            world.ok(Settle(consumer, first if attempt == 1 else rejected))
        world.turn()
        world.restart()
    tables = measured(write_history(tmp_path, world.journal))
    (spot,) = tables["hot_spots"].to_pylist()
    # The rejected one came back by its rejection, and by the two restarts before it was settled.
    assert (spot["redelivered"], spot["nacked"], spot["restart"]) == (4, 1, 3)
    first_restart = [event.lsn for event in world.journal if event.name == "BrokerStarted"][-3]
    (spot,) = measured(tmp_path, Selection(to_lsn=first_restart))["hot_spots"].to_pylist()
    assert (spot["redelivered"], spot["restart"]) == (1, 2)


@given(st.integers(0, 1 << 32))
@settings(max_examples=8, deadline=None)
def test_reasons_add_up_to_what_was_delivered_again(seed: int) -> None:
    """Of what had come back before the end, and neither waits nor was dead-lettered instead."""
    for spot in measured_of(some_history(seed, 200))["hot_spots"].to_pylist():
        known = ("nacked", "disconnected", "restart", "returned_otherwise")
        assert sum(spot[name] for name in known) >= spot["redelivered"]


def test_only_some_queues(tmp_path: Path) -> None:
    write_history(tmp_path, some_history(6, 150))
    whole, chosen = measured(tmp_path), measured(tmp_path, Selection(queues=("press",)))
    for name in ("latency_by_queue", "hot_spots"):
        rows = [row for row in whole[name].to_pylist() if row["queue"] == "press"]
        assert chosen[name].to_pylist() == rows
    assert {row["queue"] for row in chosen["hot_spots"].to_pylist()} == {"press"}


@pytest.fixture
def plots() -> ModuleType:
    """The module that draws; it imports matplotlib, which few workers need."""
    return importlib.import_module("daybook.pipeline.jobs.latency_plots")


def test_nothing_to_measure(plots: ModuleType, tmp_path: Path) -> None:
    write_history(tmp_path, some_history(6, 5))
    tables = measured(tmp_path, Selection(from_lsn=100_000))
    assert all(table.num_rows == 0 for table in tables.values())
    assert plots.draw(tables, tmp_path) == []


def test_a_clock_that_was_set_back_makes_no_negative_latency(tmp_path: Path) -> None:
    world = World()
    connection = world.ok(OpenConnection("stomp", "p", "u", room=9999))
    world.ok(Send(connection, "q", b"", b""))
    world.now -= 5 * SECOND
    world.ok(Attach(connection, "q"))
    tables = measured(write_history(tmp_path, world.journal))
    assert [row["max_ms"] for row in tables["latency"].to_pylist()] == [0]


def test_poison_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_history(tmp_path, some_history(6, 150))
    whole = measured(tmp_path)["poison_messages"]
    assert whole.num_rows > 2
    monkeypatch.setattr(latency_job, "POISON_MOST", 2)
    assert measured(tmp_path)["poison_messages"].to_pylist() == whole.slice(0, 2).to_pylist()


def many_queues(count: int) -> Tables:
    """Tables as of a history with so many queues."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
    spread = {"count": 2, "p50_ms": 0.0, "p90_ms": 5.0, "p99_ms": 70.0, "max_ms": 90.0}
    for number in range(count):
        place = {"queue": f"a very long name of a queue with number {number}", "address": "a"}
        for measure in MEASURES:
            rows["latency_by_queue"].append({"measure": measure, **place, **spread})
            rows["histogram"] += [
                {"measure": measure, **place, "from_us": value, "count": 1} for value in (0, 90_000)
            ]
        spot = dict.fromkeys(SCHEMAS["hot_spots"].names[2:], number)
        rows["hot_spots"].append({**place, **spot, "redelivered_percent": 1.0})
    return {name: pa.Table.from_pylist(rows[name], schema=SCHEMAS[name]) for name in SCHEMAS}


def test_pictures_of_what_there_is(plots: ModuleType, tmp_path: Path) -> None:
    write_history(tmp_path, some_history(3, 400))
    drawn = plots.draw(measured(tmp_path), tmp_path)
    assert [path.name for path in drawn] == [
        "latency_over_hours.png", "latency_of_queues.png", "hot_spots.png", "slow_consumers.png",
    ]  # fmt: skip
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
    assert len(plots.draw(many_queues(50), tmp_path)) == 2


@pytest.mark.parametrize(
    ("ms", "told"),
    [(0, "≤ 1 µs"), (0.01, "10 µs"), (1, "1 ms"), (1000, "1 s"), (100_000, "100 s"),
     (36_000_000, "10 h")],
)  # fmt: skip
def test_durations_have_units(plots: ModuleType, ms: float, told: str) -> None:
    assert plots.duration(ms) == told


def test_both_engines_agree(spark: "SparkSession", tmp_path: Path) -> None:
    from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

    write_history(tmp_path, some_history(6, 100))
    embedded, distributed = measured(tmp_path), measured(tmp_path, engine=SparkEngine())
    for name, table in embedded.items():
        assert distributed[name].to_pylist() == table.to_pylist(), name
