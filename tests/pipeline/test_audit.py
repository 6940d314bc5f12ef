"""The audit: the library's rules and accounts over any history, on both engines."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from daybook.engine.commands import (
    Attach,
    CreateAddress,
    OpenConnection,
    Send,
    Settle,
)
from daybook.engine.facts import events
from daybook.engine.facts.definitions import MULTICAST
from daybook.history.audit import re_execution
from daybook.journal.data_directory import BASE, JOURNAL
from daybook.journal.errors import JournalError
from daybook.pipeline import proof
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.archive import ArchiveReport, archive
from daybook.pipeline.jobs.audit import Audit, audit
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import EVERYTHING, Selection, SelectionError
from tests.support.forging.breaches import BREACHES
from tests.support.forging.faults import appended, of_kind
from tests.support.histories import write_history
from tests.support.stored.retention_world import RetentionWorld
from tests.support.world import Event, fold
from tests.support.worlds.auditing import OPTIONS, DoorWorld, door_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 120
SEED = 3


@pytest.fixture
def as_in_worlds() -> Iterator[None]:
    """Judge by the options of worlds, whose filters are not selectors."""
    with patch.object(re_execution, "Options", lambda: OPTIONS):
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("history") / "data", SEED)


def written(directory: Path, seed: int) -> Path:
    world = door_history(seed, MESSAGES)
    return write_history(directory, world.journal, cuts=world.ends)


def audited(
    history: History | Path, selection: Selection = EVERYTHING, engine: Engine | None = None
) -> Audit:
    if isinstance(history, Path):
        history = History(Source(str(history)))
    with engine if engine is not None else DuckEngine() as asked:
        return audit(asked, history, selection, now=time.time_ns() // 1000)


def counts_of(history: list[Event]) -> dict[int, tuple[int, int]]:
    """Ready and in flight, by queue, as the engine has them."""
    told = {}
    for queue in fold(history).queues.values():
        in_flight = sum(entry.consumer is not None for entry in queue.entries.values())
        told[queue.id] = (queue.message_count - in_flight, in_flight)
    return {number: counts for number, counts in told.items() if any(counts)}


@pytest.mark.usefixtures("as_in_worlds")
@pytest.mark.parametrize("seed", range(3))
def test_what_is_there_at_the_end_is_what_the_broker_has(seed: int, tmp_path: Path) -> None:
    history = door_history(seed, MESSAGES).journal
    result = audited(written(tmp_path / "data", seed))
    assert result.faults == []
    assert result.is_clean
    told = {each.queue_id: (each.ready, each.in_flight) for each in result.queues}
    assert {number: counts for number, counts in told.items() if any(counts)} == counts_of(history)
    assert any(in_flight for _, in_flight in told.values())
    assert all(each.opening == each.difference == 0 for each in result.queues)
    assert (result.first_lsn, result.last_lsn, result.events) == (1, len(history), len(history))


@pytest.mark.usefixtures("as_in_worlds")
def test_spans_join(data: Path) -> None:
    """The arrivals and departures of two halves are those of the whole."""
    middle = Random(SEED).randrange(1, len(door_history(SEED, MESSAGES).journal))
    whole = audited(data)
    first = audited(data, Selection(to_lsn=middle))
    second = audited(data, Selection(from_lsn=middle + 1))
    assert first.is_clean
    assert second.is_clean
    for name in ("routed", "acknowledged", "dead_lettered", "expired", "removed", "dropped"):
        joined = getattr(first.total, name) + getattr(second.total, name)
        assert joined == getattr(whole.total, name)
    assert second.total.opening == first.total.ready + first.total.in_flight
    assert (second.first_lsn, second.last_lsn) == (middle + 1, whole.last_lsn)


@pytest.mark.usefixtures("as_in_worlds")
def test_a_fault_says_what_and_where_and_shows_in_the_account(tmp_path: Path) -> None:
    world = door_history(1, MESSAGES)
    last = of_kind(world.journal, events.ACKNOWLEDGED)[-1]
    told = appended(world.journal, last.row)
    result = audited(write_history(tmp_path, told, cuts=world.ends))
    (fault,) = result.faults
    queue = fold(world.journal).queues[last.row[events.QUEUE]]
    assert (fault.kind, fault.lsns, fault.message) == (
        "fits", (told[-1].lsn,), last.row[events.MESSAGE],
    )  # fmt: skip
    assert fault.text.startswith(f"event {told[-1].lsn}, Acknowledged (by-consumer) of message")
    assert (fault.queue, fault.address) == (queue.name, queue.address.name)
    assert result.fault_counts == {"fits": 1}
    assert not result.is_clean


@pytest.mark.usefixtures("as_in_worlds")
def test_only_some_queues(data: Path) -> None:
    whole = audited(data)
    chosen = audited(data, Selection(queues=("orders",)))
    assert chosen.queues == [each for each in whole.queues if each.queue == "orders"]
    assert chosen.total.routed == chosen.queues[0].routed
    news = audited(data, Selection(addresses=("news",)))
    assert {each.address for each in news.queues} == {"news"}
    with pytest.raises(SelectionError, match="no queue 'order'; did you mean 'orders'"):
        audited(data, Selection(queues=("order",)))


@pytest.mark.usefixtures("as_in_worlds")
def test_a_span_of_time(data: Path) -> None:
    history = door_history(SEED, MESSAGES).journal
    middle = history[len(history) // 2].row[events.TIME]
    result = audited(data, Selection(since=middle))
    expected = [event.lsn for event in history if event.row[events.TIME] >= middle]
    assert (result.first_lsn, result.last_lsn) == (expected[0], expected[-1])
    assert result.is_clean


def test_a_span_without_events(data: Path) -> None:
    result = audited(data, Selection(from_lsn=1_000_000))
    assert (result.events, result.queues, result.faults) == (0, [], [])


def in_parquet(folder: Path) -> tuple[Path, str, ArchiveReport, list[Event]]:
    """A history whose last event is a fault, and its sealed segments as Parquet."""
    world = door_history(1, 3 * MESSAGES)
    last = of_kind(world.journal, events.ACKNOWLEDGED)[-1]
    told = appended(world.journal, last.row)
    cuts = [*world.ends, len(told) - 1]
    directory = write_history(folder / "data", told, cuts=cuts, segment_bytes=1 << 14)
    report = archive(Source(str(directory)), str(folder / "parquet"))
    assert len(report.added) > 4
    return directory, str(folder / "parquet"), report, told


@pytest.mark.usefixtures("as_in_worlds")
def test_parquet_alone_is_audited_as_the_segments_that_it_is_made_of(tmp_path: Path) -> None:
    """Also a fault behind it, and content that is in another segment than what needs it."""
    directory, target, report, told = in_parquet(tmp_path)
    sealed = Selection(to_lsn=report.last_lsn)
    assert audited(History(parquet=target), sealed) == audited(directory, sealed)
    for segment in report.added:
        (directory / JOURNAL / segment.segment).unlink()
    joined = audited(History(Source(str(directory)), target))
    assert [each.lsns for each in joined.faults] == [(told[-1].lsn,)]
    assert joined.events == len(told)


@pytest.mark.usefixtures("as_in_worlds")
def test_what_another_zstd_compressed_is_audited_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, target, report, told = in_parquet(tmp_path)
    expected = audited(directory)
    monkeypatch.setattr(proof, "COMPRESSION_LEVEL", 19)
    for segment in report.added[1:]:
        (directory / JOURNAL / segment.segment).unlink()
    assert audited(History(Source(str(directory)), target)) == expected
    assert expected.events == len(told)


def left(directory: Path) -> tuple[DoorWorld, int]:
    """Write a history whose beginning left; return its world, and its first event."""
    world = DoorWorld()
    connection = world.ok(OpenConnection("stomp", "peer", "user", room=1 << 20))
    world.ok(CreateAddress("news", (MULTICAST,)))
    world.ok(Attach(connection, "news", credit_messages=1))
    for _ in range(5):
        world.ok(Send(connection, "news", b"", b"x" * 100))
        world.ok(Send(connection, "orders", b"", b"x" * 100))
    retention = RetentionWorld(directory, world)
    retention.write()
    for _ in range(3):
        assert retention.round(2)
    consumer = world.ok(Attach(connection, "orders"))
    world.ok(Settle(consumer, world.deliveries[-1].message))
    world.ok(Attach(connection, "news", credit_messages=1))
    world.ok(Send(connection, "news", b"", b"late"))
    world.restart()
    retention.write()
    retention.close()
    return world, retention.removed_lsn + 1


@pytest.mark.usefixtures("as_in_worlds")
def test_a_history_whose_beginning_left(tmp_path: Path) -> None:
    """The base tells which queues existed then, also those that do not survive a restart."""
    _, first = left(tmp_path)
    result = audited(tmp_path)
    assert result.first_lsn == first
    assert result.is_clean
    told = {each.queue: each for each in result.queues}
    # Five were there; the restart returned the four that were not acknowledged.
    assert (told["orders"].opening, told["orders"].acknowledged, told["orders"].ready) == (5, 1, 4)
    dropped = [each for name, each in told.items() if name.startswith("news.")]
    assert sorted((each.address, each.opening, each.routed) for each in dropped) == [
        ("news", 0, 1), ("news", 5, 1),
    ]  # fmt: skip
    assert all(each.dropped == each.opening + each.routed for each in dropped)


def test_without_a_state_there_is_nothing_to_begin_with(tmp_path: Path) -> None:
    left(tmp_path)
    shutil.rmtree(tmp_path / BASE)
    with pytest.raises(JournalError, match="nothing knows the state before event"):
        audited(tmp_path)


def test_both_engines_agree(spark: "SparkSession", tmp_path: Path) -> None:
    """Each planted breach is found, in this process and by tasks of Spark, with the same proof."""
    from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

    for planter in BREACHES[::20]:
        planted = planter()
        data = write_history(tmp_path / planter.__name__, planted.history, cuts=planted.ends)
        told = audited(data)
        assert (told.faults[0].kind, planted.lsn) == (planted.rule, told.faults[0].lsns[-1])
        assert audited(data, engine=SparkEngine()) == told


def test_spark_audits_parquet_in_pieces(spark: "SparkSession", tmp_path: Path) -> None:
    from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

    directory, target, _, told = in_parquet(tmp_path)
    history = History(Source(str(directory)), target)
    with patch("daybook.history.audit.pieces.PIECE_EVENTS_MIN", 600):
        found = audited(history, engine=SparkEngine())
    assert found.faults[-1].lsns[-1] == told[-1].lsn
    assert found == audited(history)
