"""Trails of many messages are those that `journal trail` tells of each."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.facts import events
from daybook.history.event_finder import EventFinder
from daybook.history.trail import follow
from daybook.journal.data_directory import BASE, BASE_DESCRIPTION
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs import trail as trail_job
from daybook.pipeline.jobs.trail import TRAIL, trail
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import SelectionError
from daybook.recovery.readonly import journal_disk
from tests.support.forging.faults import of_kind
from tests.support.histories import some_history, write_history
from tests.support.stored.retention_world import RetentionWorld
from tests.support.world import Event, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


def trails(
    directory: Path, messages: list[int], engine: Engine | None = None
) -> tuple[Rows, list[int]]:
    with engine if engine is not None else DuckEngine() as asked:
        found = trail(asked, History(Source(str(directory))), messages)
        batches = list(found.batches)
        assert all(batch.schema == TRAIL for batch in batches)
        return [row for batch in batches for row in batch.to_pylist()], found.missing


def routed(history: list[Event]) -> list[int]:
    return [event.lsn for event in of_kind(history, events.ROUTED)]


@given(st.integers(0, 1 << 32))
@settings(max_examples=6, deadline=None)
def test_trails_are_those_of_journal_trail(seed: int) -> None:
    history = some_history(seed, 150)
    messages = Random(seed).sample(routed(history), 40)
    with TemporaryDirectory() as folder:
        # A copy and the end of its original are decided at once, and so in one block.
        cuts = [at for at in range(20, len(history), 20) if not history[at].row[events.RELATED]]
        directory = write_history(Path(folder) / "data", history, cuts=cuts)
        rows, missing = trails(directory, messages)
        assert missing == []
        told: dict[int, list[int]] = {}
        notes: dict[int, list[str]] = {}
        for row in rows:
            told.setdefault(row["root"], []).append(row["lsn"])
            notes.setdefault(row["root"], []).extend([row["note"]] if row["note"] else [])
        expected = {}
        consequences = {}
        disk = journal_disk(directory)
        for message in messages:
            family = follow(EventFinder(disk), message, directory)
            root = family.messages[0]
            # A crash that did nothing to a message is about none, and so has no row.
            steps = [step for step in family.steps if step.consequences or not step.is_crash]
            expected[root] = [step.event.lsn for step in steps]
            consequences[root] = [each.text for step in family.steps for each in step.consequences]
    assert {root: sorted(each) for root, each in notes.items()} == {
        root: sorted(each) for root, each in consequences.items()
    }
    assert {root: sorted(set(lsns)) for root, lsns in told.items()} == expected
    assert all(lsns == sorted(lsns) for lsns in told.values())
    assert list(told) == sorted(told)


def test_a_row_has_who_and_where(tmp_path: Path) -> None:
    history = some_history(2, 80)
    event = of_kind(history, events.ACKNOWLEDGED)[0]
    write_history(tmp_path, history)
    rows, _ = trails(tmp_path, [event.row[events.MESSAGE]])
    (row,) = [row for row in rows if row["lsn"] == event.lsn]
    opened = history[event.row[events.CONNECTION] - 1].decoded
    assert (row["peer"], row["user"]) == (opened.peer, opened.user)
    assert row["kind"] == "Acknowledged"
    assert row["reason"] in ("by-consumer", "automatic")
    assert row["consumer"] == event.row[events.CONSUMER]
    assert row["delivery_count"] == event.row[events.DELIVERY_COUNT]
    assert len(row["queues"]) == 1


def test_what_a_restart_did_is_told(tmp_path: Path) -> None:
    history = some_history(4, 120)
    write_history(tmp_path, history)
    rows, _ = trails(tmp_path, routed(history))
    notes = [row["note"] for row in rows if row["kind"] == "BrokerStarted"]
    assert any("is returned to its place in queue" in note for note in notes)
    assert any("is dropped from queue" in note for note in notes)
    assert all(row["note"] is None for row in rows if row["kind"] != "BrokerStarted")


def test_a_family_is_found_from_any_of_its_members(tmp_path: Path) -> None:
    history = some_history(4, 120)
    write_history(tmp_path, history)
    left = of_kind(history, events.DEAD_LETTERED, events.EXPIRED)
    dead = next(event for event in left if event.row[events.RELATED])
    origin, copy = dead.row[events.MESSAGE], dead.row[events.RELATED]
    assert trails(tmp_path, [origin]) == trails(tmp_path, [copy])
    rows, _ = trails(tmp_path, [copy])
    assert {origin, copy} <= {row["message"] for row in rows}


def test_ids_that_are_no_messages(tmp_path: Path) -> None:
    history = some_history(2, 60)
    write_history(tmp_path, history)
    message = routed(history)[0]
    rows, missing = trails(tmp_path, [message, 1, 1_000_000])
    assert missing == [1, 1_000_000]
    assert {row["root"] for row in rows} == {message}
    assert trails(tmp_path, [1]) == ([], [1])
    with pytest.raises(SelectionError, match="no message is named"):
        trails(tmp_path, [])


def left_behind(directory: Path) -> int:
    """Write a history whose beginning left with a message that a restart returns; return that."""
    world = World()
    connection = world.connect()
    for _ in range(5):
        message = world.send("orders", b"x" * 100, connection)
    retention = RetentionWorld(directory, world)
    retention.write()
    for _ in range(3):
        assert retention.round(2)
    assert retention.removed_lsn > message
    world.attach(world.connect(), "orders", credit_messages=10)
    world.restart()
    retention.write()
    retention.close()
    return message


def test_the_base_says_what_a_restart_did_to_a_message_from_before(tmp_path: Path) -> None:
    message = left_behind(tmp_path)
    rows, _ = trails(tmp_path, [message])
    assert [row["kind"] for row in rows] == ["Carried", "Delivered", "BrokerStarted"]
    assert "is returned to its place in queue 'orders' by the restart" in rows[-1]["note"]
    assert rows[-1]["delivery_count"] == 1


def test_where_no_state_is_known_nothing_is_guessed(tmp_path: Path) -> None:
    message = left_behind(tmp_path)
    (tmp_path / BASE / BASE_DESCRIPTION).unlink()
    rows, _ = trails(tmp_path, [message])
    (queue,) = rows[-2]["queues"]
    told = f"what the restart did to message {message} in queue '{queue}' is not known"
    assert rows[-1]["note"] == told


def test_large_answers_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = some_history(2, 60)
    write_history(tmp_path, history)
    whole = trails(tmp_path, routed(history))
    monkeypatch.setattr(trail_job, "BATCH_ROWS", 7)
    assert trails(tmp_path, routed(history)) == whole


def test_both_engines_agree(spark: "SparkSession", tmp_path: Path) -> None:
    from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

    history = some_history(3, 100)
    write_history(tmp_path, history)
    messages = [*Random(3).sample(routed(history), 30), 1]
    assert trails(tmp_path, messages, SparkEngine()) == trails(tmp_path, messages)
