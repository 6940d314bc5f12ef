"""The views against the engine's own state, on histories that the engine made."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.errors import ErrorLevel

from daybook.engine import commands as c
from daybook.engine.facts import details, events
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.queues.queue import Queue
from daybook.engine.state.state import State
from daybook.pipeline import views
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import History
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import EVERYTHING, Selection
from tests.support.histories import some_history, write_history
from tests.support.topology import create_queue
from tests.support.world import Event, World, fold

ALL = tuple(view.name for view in views.VIEWS)
Rows = list[dict[str, Any]]


def asked(journal: Sequence[Event], *questions: str, selection: Selection = EVERYTHING) -> Any:
    """The answers of the views over a history: of several questions a list."""
    with tempfile.TemporaryDirectory() as directory, DuckEngine() as engine:
        data = write_history(Path(directory) / "data", journal)
        views.prepare(engine, History(Source(str(data))), ALL, selection)
        answers = [engine.ask(question).to_pylist() for question in questions]
    return answers if len(answers) > 1 else answers[0]


def in_flight(state: State) -> set[tuple[int, int, int]]:
    return {
        (message, consumer.queue.id, consumer.id)
        for consumer in state.consumers.values()
        for message in consumer.unacked
    }


def as_row(queue: Queue, flying: int) -> dict[str, Any]:
    """The row that the view `queues` must have for a queue."""
    return {
        "queue": queue.name, "address": queue.address.name,
        "routing_type": queue.definition.routing_type, "filter": queue.definition.filter,
        "durable": queue.definition.durable, "paused": queue.paused,
        "routed": queue.added, "acknowledged": queue.acknowledged,
        "dead_lettered": queue.dead_lettered, "expired": queue.expired,
        "messages": len(queue.entries), "in_flight": flying, "ready": queue.ready_count,
        "held": queue.held_count, "scheduled": queue.scheduled_count,
    }  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), part=st.floats(0.3, 1))
def test_views_say_what_the_state_is_at_any_point_of_a_history(seed: int, part: float) -> None:
    journal = some_history(seed, 250)
    journal = journal[: int(len(journal) * part)]
    state = fold(journal)
    queues, entries, deliveries = asked(
        journal,
        "SELECT * FROM queues WHERE deleted_lsn IS NULL",
        "SELECT queue_id, message, state FROM entries"
        " WHERE state IN ('ready', 'held', 'scheduled', 'in flight')",
        "SELECT * FROM deliveries WHERE outcome = 'in flight'",
    )
    flying = in_flight(state)
    told = {row["queue_id"]: row for row in queues}
    assert told.keys() == state.queues.keys()
    for queue in state.queues.values():
        expected = as_row(queue, sum(1 for _, number, _ in flying if number == queue.id))
        assert {name: told[queue.id][name] for name in expected} == expected
    assert {(row["message"], row["queue_id"], row["consumer"]) for row in deliveries} == flying
    assert {(row["queue_id"], row["message"], row["state"]) for row in entries} == {
        (queue.id, message, entry.place)
        for queue in state.queues.values()
        for message, entry in queue.entries.items()
    }


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000))
def test_what_came_in_is_what_went_out_and_what_is_there(seed: int) -> None:
    queues, messages, entries, deliveries = asked(
        some_history(seed, 200),
        "SELECT * FROM queues",
        "SELECT * FROM messages",
        "SELECT count(*) AS n, CAST(sum(deliveries) AS BIGINT) AS delivered FROM entries",
        "SELECT count(*) AS n FROM deliveries",
    )
    ways = ("acknowledged", "dead_lettered", "expired", "removed", "dropped")
    for row in queues:
        assert row["routed"] == row["messages"] + sum(row[way] for way in ways)
    for row in messages:
        assert len(row["queues"]) == row["queued"] + sum(row[way] for way in ways)
    assert entries == [{"n": sum(row["routed"] for row in queues), "delivered": deliveries[0]["n"]}]


def test_what_its_sender_schedules_is_not_ready_before_it_is_due() -> None:
    world = World()
    for name in ("a", "b"):
        world.ok(create_queue(name, "t", MULTICAST))
    for minutes in (1, 2):
        due = world.now // 1000 + minutes * 60_000
        world.send("t", b"x", routing_type=MULTICAST, due=due)
    world.sleep(90)
    world.ok(c.DeliverDue())
    queues, entries, messages = asked(
        world.journal,
        "SELECT queue, ready, scheduled FROM queues ORDER BY queue",
        "SELECT state FROM entries ORDER BY message, queue",
        "SELECT state, queued FROM messages ORDER BY message",
    )
    assert queues == [{"queue": name, "ready": 1, "scheduled": 1} for name in ("a", "b")]
    assert [row["state"] for row in entries] == ["ready", "ready", "scheduled", "scheduled"]
    assert messages == [
        {"state": "ready", "queued": 2}, {"state": "scheduled", "queued": 2},
    ]  # fmt: skip


def test_messages_have_the_length_of_their_bodies_and_their_end() -> None:
    journal = some_history(3, 300)
    routed = [event for event in journal if event.name == "Routed"]
    rows = asked(journal, "SELECT * FROM messages ORDER BY message")
    assert [row["message"] for row in rows] == [event.lsn for event in routed]
    large = 0
    for row, event in zip(rows, routed, strict=True):
        detail = event.decoded or details.RoutedDetail()
        large += bool(detail.chunks)
        assert row["body_bytes"] == (detail.body_bytes or len(event.body))
        assert row["headers_bytes"] == len(event.headers)
        expires = row["expires_at"]
        assert (int(expires.timestamp() * 1000) if expires else 0) == detail.expires
        assert len(row["queues"]) == max(len(detail.queues), 1)
        assert row["made_from"] == event.row[events.RELATED]
    assert large


def restarted() -> tuple[World, int, int]:
    """A broker that was started again: with a queue that does not outlive it, and a delivery."""
    world = World()
    connection = world.connect()
    world.ok(c.CreateAddress("news", (MULTICAST,)))
    listeners = [world.attach(connection, address) for address in ("news", "work")]
    copied = world.send("news", b"x", connection, routing_type=MULTICAST)
    worked = world.send("work", b"y", connection)
    assert [each.consumer for each in world.taken()] == listeners
    world.restart()
    return world, copied, worked


def test_a_restart_ends_what_nobody_settled() -> None:
    world, copied, worked = restarted()
    start = world.events_named("BrokerStarted")[-1]
    entries, deliveries, queues = asked(
        world.journal,
        "SELECT * FROM entries ORDER BY message",
        "SELECT * FROM deliveries ORDER BY message",
        "SELECT * FROM queues ORDER BY created_lsn",
    )
    assert [(row["message"], row["state"], row["ended_lsn"]) for row in entries] == [
        (copied, "dropped", start.lsn),
        (worked, "ready", None),
    ]
    assert entries[0]["reason"] == "restart"
    for delivery, message in zip(deliveries, (copied, worked), strict=True):
        assert delivery["outcome"] == "returned at restart"
        assert delivery["ended_lsn"] == start.lsn
        assert delivery["duration_ms"] == (start.row[events.TIME] - _time(world, message)) / 1000
    assert [(row["durable"], row["deleted_lsn"], row["messages"]) for row in queues] == [
        (False, start.lsn, 0),
        (True, None, 1),
    ]


def _time(world: World, message: int) -> int:
    (delivered,) = [e for e in world.events_named("Delivered") if e.row[events.MESSAGE] == message]
    return delivered.row[events.TIME]


def test_a_queue_that_was_made_again_is_another_one() -> None:
    world = World()
    connection = world.connect()
    for body in (b"one", b"two"):
        world.ok(create_queue("jobs", "jobs"))
        world.send("jobs", body, connection)
        if body == b"one":
            world.ok(c.DeleteQueue("jobs", force=True))
    rows = asked(world.journal, "SELECT * FROM queues ORDER BY created_lsn")
    assert [(row["queue"], row["routed"], row["removed"], row["messages"]) for row in rows] == [
        ("jobs", 1, 1, 0),
        ("jobs", 1, 0, 1),
    ]
    assert rows[0]["queue_id"] != rows[1]["queue_id"]
    assert rows[0]["deleted_at"] is not None
    assert rows[1]["deleted_at"] is None


def test_a_span_of_history_is_told_as_if_it_had_ended_there() -> None:
    journal = some_history(5, 200)
    half = len(journal) // 2
    whole = asked(journal, "SELECT * FROM queues ORDER BY queue_id", selection=_up_to(half))
    cut = asked(journal[:half], "SELECT * FROM queues ORDER BY queue_id")
    assert whole == cut


def _up_to(lsn: int) -> Selection:
    return Selection(to_lsn=lsn)


@pytest.mark.parametrize("view", views.VIEWS, ids=ALL)
def test_what_a_view_says_of_itself_is_so(view: views.View, tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", some_history(1, 60))
    with DuckEngine() as engine:
        views.prepare(engine, History(Source(str(data))), [view.name])
        told = engine.ask(f"SELECT * FROM {view.name}")
        needed = engine.ask("SELECT * FROM events LIMIT 0").schema.names
    assert told.schema.names == [column.name for column in view.columns]
    assert len(told)
    assert set(needed) == set(view.needs)
    assert pa.types.is_timestamp(engine_type := told.schema.field(_some_time(view)).type)
    assert engine_type.tz == "UTC"


def _some_time(view: views.View) -> str:
    return next(column.name for column in view.columns if column.name.endswith("_at"))


@pytest.mark.parametrize("view", views.VIEWS, ids=ALL)
def test_views_can_be_said_in_the_words_of_spark(view: views.View) -> None:
    (text,) = sqlglot.transpile(
        view.sql, read="duckdb", write="spark", unsupported_level=ErrorLevel.RAISE
    )
    assert text.upper().count("FROM EVENTS") == ("events" in view.sql and view.name != "queues")


def test_a_view_brings_those_that_it_refers_to() -> None:
    assert [view.name for view in views.needed(["queues"])] == ["entries", "queues"]
    assert [view.name for view in views.needed(["deliveries"])] == ["deliveries"]
