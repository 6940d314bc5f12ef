"""The audit: right histories are clean, and planted faults are found exactly, on both engines."""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.commands import (
    Attach,
    CreateAddress,
    CreateDivert,
    DeliverDue,
    OpenConnection,
    Send,
    Settle,
)
from daybook.engine.facts import events
from daybook.engine.facts.definitions import MULTICAST, DivertDefinition
from daybook.engine.facts.mismatch import MisfitError
from daybook.history.audit.re_execution import Task, run_task
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs import audit as audit_job
from daybook.pipeline.jobs.audit import Audit, audit
from daybook.pipeline.jobs.audit_rules import breaches_of
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import EVERYTHING, Selection, SelectionError
from tests.support.breaches import BREACHES, copy_with_another_body
from tests.support.faults import PLANTERS, Found, Planter, all_planted, appended, of_kind, without
from tests.support.histories import some_history, write_history
from tests.support.leaving import Leaving
from tests.support.scenario import RESTART, Step, play, steps
from tests.support.world import Event, World, fold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = st.integers(0, 1 << 32)
MESSAGES = 120


def audited(directory: Path, selection: Selection = EVERYTHING) -> Audit:
    with DuckEngine() as engine:
        return audit(engine, History(Source(str(directory))), selection)


def audit_of(history: list[Event], selection: Selection = EVERYTHING) -> Audit:
    with TemporaryDirectory() as folder:
        return audited(write_history(Path(folder) / "data", history), selection)


def found(result: Audit) -> list[Found]:
    return sorted((fault.kind, fault.lsns[-1], fault.message) for fault in result.faults)


def held(history: list[Event]) -> dict[int, tuple[int, int]]:
    """Ready and in flight, by queue, as the engine has them."""
    told = {}
    for queue in fold(history).queues.values():
        in_flight = sum(entry.consumer is not None for entry in queue.entries.values())
        told[queue.id] = (queue.message_count - in_flight, in_flight)
    return {number: counts for number, counts in told.items() if any(counts)}


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_what_is_there_at_the_end_is_what_the_broker_has(seed: int) -> None:
    history = some_history(seed, MESSAGES)
    result = audit_of(history)
    assert result.faults == []
    assert result.is_clean
    told = {each.queue_id: (each.ready, each.in_flight) for each in result.queues}
    assert {number: counts for number, counts in told.items() if any(counts)} == held(history)
    assert all(each.opening == each.difference == 0 for each in result.queues)
    assert (result.first_lsn, result.last_lsn, result.events) == (1, len(history), len(history))


@given(steps)
@settings(max_examples=10, deadline=None)
def test_whatever_clients_and_administrators_do_is_accounted_for(scenario: list[Step]) -> None:
    world = World()
    play(world, scenario)
    result = audit_of(world.journal)
    assert result.faults == []
    assert result.is_clean
    told = {each.queue_id: (each.ready, each.in_flight) for each in result.queues}
    assert {number: counts for number, counts in told.items() if any(counts)} == held(world.journal)


@pytest.mark.parametrize("seed", [*range(6), 46])
def test_long_stories_are_accounted_for(seed: int) -> None:
    """With copies of diverts, recalls, and deliveries that are given back."""
    draw = random.Random(seed)
    world = World()
    story: list[Step] = [
        (draw.randint(0, RESTART), draw.randint(0, 20), draw.randint(0, 20), draw.randint(0, 20))
        for _ in range(draw.randint(40, 120))
    ]
    play(world, story)
    assert audit_of(world.journal).faults == []


def test_what_its_sender_schedules_is_not_delivered_before_it_is_due() -> None:
    world = World()
    consumer = world.attach(world.connect(), "orders", credit_messages=9)
    message = world.send("orders", b"a", due=world.now // 1000 + 1000)
    world.sleep(2)
    world.ok(DeliverDue())
    world.taken(consumer)
    world.ack(consumer, message)
    assert audit_of(world.journal).faults == []
    early = without(world.journal, world.events_named("Due")[-1])
    assert "not-ready" in {fault.kind for fault in audit_of(early).faults}


def test_a_copy_of_a_divert_needs_its_original() -> None:
    world = World()
    own = world.connect()
    definition = DivertDefinition(name="d", address="news", forwarding_addresses=("copies",))
    world.ok(CreateDivert(definition))
    world.send("copies", b"other", own)
    world.send("news", b"one", own)
    original = next(each for each in world.events_named("Routed") if each.body == b"one")
    assert audit_of(world.journal).faults == []
    lost = without(world.journal, original)
    assert "no-origin" in {fault.kind for fault in audit_of(lost).faults}


@given(SEEDS, st.data())
@settings(max_examples=10, deadline=None)
def test_every_span_is_clean(seed: int, data: st.DataObject) -> None:
    history = some_history(seed, MESSAGES)
    first = data.draw(st.integers(1, len(history)))
    last = data.draw(st.integers(first, len(history)))
    result = audit_of(history, Selection(from_lsn=first, to_lsn=last))
    assert result.faults == []
    assert result.is_clean
    assert (result.first_lsn, result.last_lsn) == (first, last)


@given(SEEDS)
@settings(max_examples=5, deadline=None)
def test_spans_join(seed: int) -> None:
    """What is routed and what leaves in two halves is what is in the whole."""
    history = some_history(seed, MESSAGES)
    middle = Random(seed).randrange(1, len(history))
    whole = audit_of(history).total
    first = audit_of(history, Selection(to_lsn=middle)).total
    second = audit_of(history, Selection(from_lsn=middle + 1)).total
    for name in ("routed", "acknowledged", "dead_lettered", "expired", "removed"):
        assert getattr(first, name) + getattr(second, name) == getattr(whole, name)


@pytest.mark.parametrize("planter", PLANTERS, ids=lambda planter: planter.__name__)
def test_a_planted_fault_is_found_and_nothing_else(planter: Planter) -> None:
    tried = 0
    for seed in range(100):
        planted = planter(some_history(seed, MESSAGES), Random(seed))
        if planted is None:
            continue
        tried += 1
        result = audit_of(planted.history)
        assert found(result) == sorted(planted.faults), f"seed {seed}"
        assert sum(result.fault_counts.values()) == len(planted.faults)
        assert not result.is_clean
        if tried == 2:
            return
    raise AssertionError(f"{planter.__name__} found no place in 100 histories")


@given(SEEDS)
@settings(max_examples=2, deadline=None)
def test_planted_faults_in_any_history(seed: int) -> None:
    for planted in all_planted(some_history(seed, MESSAGES), Random(seed)):
        assert found(audit_of(planted.history)) == sorted(planted.faults)


def test_a_fault_says_what_and_where() -> None:
    history = some_history(1, MESSAGES)
    last = [event for event in history if event.row[events.KIND] == events.ACKNOWLEDGED][-1]
    told = appended(history, last.row)
    (fault,) = audit_of(told).faults
    lsn, row = told[-1].lsn, last.row
    assert fault.lsns == (last.lsn, lsn)
    assert fault.text == (
        f"event {lsn}, Acknowledged (by-consumer) of message {row[events.MESSAGE]} by consumer "
        f"{row[events.CONSUMER]}: it was acknowledged by event {last.lsn} before"
    )
    queues = fold(history).queues
    assert fault.queue == queues[row[events.QUEUE]].name
    assert fault.address == queues[row[events.QUEUE]].address.name


def test_a_fault_shows_in_the_account() -> None:
    history = some_history(1, MESSAGES)
    last = [event for event in history if event.row[events.KIND] == events.ACKNOWLEDGED][-1]
    result = audit_of(appended(history, last.row))
    wrong = {each.queue_id: each.difference for each in result.queues if each.difference}
    assert wrong == {last.row[events.QUEUE]: -1}
    assert result.total.difference == -1


class Forgetful(DuckEngine):
    """An engine over a history in which some events are not there, and one is there twice."""

    def load(
        self,
        table: str,
        history: History,
        columns: Sequence[str],
        selection: Selection = EVERYTHING,
    ) -> None:
        super().load(table, history, columns, selection)
        self.connection.execute(f"DELETE FROM {table} WHERE lsn BETWEEN 20 AND 29 OR lsn = 50")
        self.connection.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE lsn = 60")


def test_events_that_are_missing(tmp_path: Path) -> None:
    row = events.row(events.CONNECTION_REFUSED)
    refusals = [Event(lsn, row, b"", b"", b"") for lsn in range(1, 101)]
    write_history(tmp_path, refusals)
    with Forgetful() as engine:
        result = audit(engine, History(Source(str(tmp_path))), EVERYTHING)
    assert [(fault.kind, fault.lsns, fault.events, fault.text) for fault in result.faults] == [
        ("lsn-gap", (19, 30), 10, "events 20 to 29 are missing"),
        ("lsn-gap", (49, 51), 1, "event 50 is missing"),
        ("lsn-gap", (60, 60), 1, "event 60 exists twice"),
    ]
    assert not result.is_clean


def test_only_some_queues(tmp_path: Path) -> None:
    history = some_history(3, MESSAGES)
    write_history(tmp_path, history)
    whole = audited(tmp_path)
    chosen = audited(tmp_path, Selection(queues=("orders",)))
    assert chosen.queues == [each for each in whole.queues if each.queue == "orders"]
    assert chosen.total.routed == chosen.queues[0].routed
    news = audited(tmp_path, Selection(addresses=("news",)))
    assert {each.address for each in news.queues} == {"news"}
    with pytest.raises(SelectionError, match="no queue 'order'; did you mean 'orders'"):
        audited(tmp_path, Selection(queues=("order",)))


def test_a_span_of_time(tmp_path: Path) -> None:
    history = some_history(3, MESSAGES)
    write_history(tmp_path, history)
    middle = history[len(history) // 2].row[events.TIME]
    result = audited(tmp_path, Selection(since=middle))
    expected = [event.lsn for event in history if event.row[events.TIME] >= middle]
    assert (result.first_lsn, result.last_lsn) == (expected[0], expected[-1])
    assert result.is_clean


def test_a_span_without_events(tmp_path: Path) -> None:
    write_history(tmp_path, some_history(3, 10))
    result = audited(tmp_path, Selection(from_lsn=1_000_000))
    assert (result.events, result.queues, result.faults) == (0, [], [])


def test_faults_are_counted_when_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = some_history(1, MESSAGES)
    last = [event for event in history if event.row[events.KIND] == events.ACKNOWLEDGED][-1]
    for _ in range(5):
        history = appended(history, last.row)
    monkeypatch.setattr(audit_job, "FAULTS_MOST", 2)
    result = audited(write_history(tmp_path, history))
    assert len(result.faults) == 2
    assert result.fault_counts == {"settled-twice": 5}


def on_spark(directory: Path, selection: Selection = EVERYTHING) -> Audit:
    from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

    engine: Engine
    with SparkEngine() as engine:
        return audit(engine, History(Source(str(directory))), selection)


def test_both_engines_agree(spark: "SparkSession", tmp_path: Path) -> None:
    """On a span of a history with many faults at once."""
    history = some_history(5, MESSAGES)
    planted = None
    for planter in PLANTERS:
        with suppress(MisfitError):  # Some look at the state, which has none after a fault.
            planted = planter(history, Random(5))
        history = planted.history if planted is not None else history
    write_history(tmp_path, history)
    span = Selection(from_lsn=len(history) // 6)
    embedded = audited(tmp_path, span)
    assert len(embedded.faults) > len(PLANTERS) // 2
    assert on_spark(tmp_path, span) == embedded


def test_a_history_whose_beginning_left(tmp_path: Path) -> None:
    """What was there then is known from the base: queues that do not outlive a restart, too."""
    world = World()
    connection = world.ok(OpenConnection("stomp", "peer", "user", room=1 << 20))
    world.ok(CreateAddress("news", (MULTICAST,)))
    world.ok(Attach(connection, "news", credit_messages=1))
    for _ in range(5):
        world.ok(Send(connection, "news", b"", b"x" * 100))
        world.ok(Send(connection, "orders", b"", b"x" * 100))
    leaving = Leaving(tmp_path, world)
    leaving.write()
    for _ in range(3):
        assert leaving.round(2)
    consumer = world.ok(Attach(connection, "orders"))
    world.ok(Settle(consumer, world.deliveries[-1].message))
    news = world.ok(Attach(connection, "news", credit_messages=1))
    world.ok(Send(connection, "news", b"", b"late"))
    world.restart()
    leaving.write()
    leaving.close()
    result = audited(tmp_path)
    assert result.first_lsn == leaving.removed_lsn + 1
    assert result.is_clean
    told = {each.queue: each for each in result.queues}
    # Five were there; the restart returned the four that were not acknowledged.
    assert (told["orders"].opening, told["orders"].acknowledged, told["orders"].ready) == (5, 1, 4)
    dropped = [each for name, each in told.items() if name.startswith("news.")]
    assert [(each.address, each.routed, each.dropped) for each in dropped] == [("news", 1, 1)] * 2
    assert world.deliveries[-1].consumer == news


def test_events_of_a_consumer_that_was_never_there_are_one_fault() -> None:
    history = some_history(1, MESSAGES)
    busy = [event.row[events.CONSUMER] for event in of_kind(history, events.DELIVERED)]
    consumer = max(busy, key=busy.count)
    own = (events.DELIVERED, events.ACKNOWLEDGED, events.RETURNED)
    told = [each.lsn for each in of_kind(history, *own) if each.row[events.CONSUMER] == consumer]
    assert len(told) > 10
    result = audit_of(without(history, history[consumer - 1]))
    (fault,) = [fault for fault in result.faults if fault.events > 1]
    assert (fault.kind, fault.lsns, fault.events) == ("no-consumer", tuple(told[:10]), len(told))
    listed = ", ".join(str(lsn) for lsn in told[:10])
    assert fault.text.startswith(f"consumer {consumer} was never attached, and events {listed} and")
    assert f" and {len(told) - 10} more of queue '{fault.queue}' say otherwise" in fault.text
    # The other one is that it was detached.
    assert {each.kind for each in result.faults} == {"no-consumer"}
    assert len(result.faults) <= 2


def now() -> int:
    return time.time_ns() // 1000


def test_the_rules_of_the_broker_are_asked_on_both_engines(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Each planted breach is found, in this process and by tasks of Spark, with the same proof."""
    from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

    found, expected = [], []
    for planter in BREACHES:
        planted = planter()
        data = write_history(tmp_path / planter.__name__, planted.history, cuts=planted.ends)
        found.append(Task(str(data), 0, planted.history[-1].lsn, now(), 1_000_000))
        expected.append((planted.rule, planted.lsn))
    with DuckEngine() as embedded, SparkEngine() as on_many:
        told = embedded.each(run_task, found)
        assert on_many.each(run_task, found) == told
    assert [(each.breaches[0].rule, each.breaches[0].lsn) for each in told] == expected


def test_an_audit_that_re_executes(spark: "SparkSession", tmp_path: Path) -> None:
    from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

    planted = copy_with_another_body()
    write_history(tmp_path, planted.history, cuts=planted.ends)
    history = History(Source(str(tmp_path)))
    with DuckEngine() as embedded, SparkEngine() as on_many:
        assert audit(embedded, history, EVERYTHING).is_clean
        told = audit(embedded, history, EVERYTHING, re_execute_at=now())
        assert audit(on_many, history, EVERYTHING, re_execute_at=now()) == told
        elsewhere = audit(embedded, history, Selection(queues=("dead",)), re_execute_at=now())
    assert [(each.rule, each.lsn) for each in told.breaches] == [(planted.rule, planted.lsn)]
    assert not told.is_clean
    assert elsewhere.breaches == []


def test_re_execution_needs_a_data_directory(tmp_path: Path) -> None:
    write_history(tmp_path, some_history(3, 10))
    with DuckEngine() as engine, pytest.raises(SelectionError, match="name the data directory"):
        breaches_of(engine, History(parquet="elsewhere"), 1, 10, now())
