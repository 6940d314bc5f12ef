"""`journal inspect --at`, `diff` and `growth` on a history that has something of everything."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.journal.data_directory import INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import data_id_of
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots import snapshots
from daybook.paging.snapshots.snapshots import Snapshots, known_snapshots
from daybook.tools.journal_cli import cli
from tests.unit.tools.conftest import write_history


def journal(*arguments: object) -> Result:
    env = {"DAYBOOK_DATA": None}
    return CliRunner().invoke(cli, [str(each) for each in arguments], env=env)


def told(*arguments: object) -> list[dict[str, Any]]:
    result = journal(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(code: int, *arguments: object) -> str:
    result = journal(*arguments)
    assert result.exit_code == code, result.output
    return result.output


def names_of(rows: list[dict[str, Any]], key: str) -> list[Any]:
    return [row[key] for row in rows]


def test_the_broker_as_it_was(history: Any) -> None:
    (at,) = told("inspect", history.data, "--at", history["in_flight"])
    assert at["lsn"] == history["in_flight"]
    assert {"orders", "audit", "stock"} <= set(names_of(at["list_of_queues"], "queue"))
    assert "bulk" not in names_of(at["list_of_queues"], "queue")
    assert names_of(at["list_of_connections"], "user") == ["alice", "bob"]
    assert at["settings"]["orders"] == {"max-delivery-attempts": 2}
    text = journal("inspect", history.data, "--at", history["in_flight"]).output
    assert text.startswith(f"after event {history['in_flight']} (2025-11-20 12:00:")
    assert "alice" in text
    assert "max-delivery-attempts" in text


def test_the_messages_of_a_queue_and_who_had_them(history: Any) -> None:
    after = history["in_flight"] + 1
    queue, message = told("inspect", history.data, "--at", after, "--queue", "orders")
    assert queue["in_queue"] == 1
    assert message["message"] == history["in_flight"]
    assert message["held_by"] == f"bob from peer-of-bob, consumer {history['consumer']}"
    assert message["delivery_count"] == 1
    text = journal("inspect", history.data, "--at", after, "--queue", "orders", "--bodies").output
    assert "bob from peer-of-bob" in text
    assert f"{history['in_flight']:>10}  six" in text
    # A restart later it is back in its place.
    later = told("inspect", history.data, "--at", history["expired"], "--queue", "orders")
    place = later[1]["message"], later[1]["state"], later[1]["held_by"]
    assert place == (history["in_flight"], "ready", None)


def test_a_limit_says_how_many_more_there_are(history: Any) -> None:
    asked = ("inspect", history.data, "--at", history["bulk"], "--queue", "bulk")
    assert len(told(*asked, "--limit", 5)) == 6
    assert len(told(*asked)) == 61
    assert "and 55 more: --limit" in journal(*asked, "--limit", 5).output


def test_a_time_is_the_last_event_until_then(history: Any) -> None:
    (by_lsn,) = told("inspect", history.data, "--at", history["bob"])
    (by_time,) = told("inspect", history.data, "--at", "2025-11-20T12:00:06.999")
    assert by_time["lsn"] == by_lsn["lsn"]
    assert told("inspect", history.data, "--at", "2030-01-01")[0]["lsn"] == history.last_lsn


def test_moments_that_the_journal_does_not_have(history: Any) -> None:
    last = history.last_lsn
    assert f"ends with event {last}, before event {last + 1}" in refused(
        1, "inspect", history.data, "--at", last + 1
    )
    assert "nothing before" in refused(1, "inspect", history.data, "--at", "2020-01-01")
    assert "is not a time" in refused(2, "inspect", history.data, "--at", "sometime")
    assert "or give an LSN" in refused(2, "inspect", history.data, "--at", "sometime")
    assert "there is no queue 'nix'" in refused(
        1, "inspect", history.data, "--at", 40, "--queue", "nix"
    )


@pytest.mark.parametrize(
    "option", ["--from=3", "--to=9", "--since=1h", "--message=3", "--kind=Routed", "--follow"]
)
def test_a_state_is_no_choice_of_events(history: Any, option: str) -> None:
    said = refused(2, "inspect", history.data, "--at", 40, option)
    assert f"--at shows a state and {option.partition('=')[0]} chooses events" in said


def test_bodies_are_those_of_a_queue(history: Any) -> None:
    assert "are for the messages of a --queue" in refused(
        2, "inspect", history.data, "--at", 40, "--bodies"
    )


def test_what_changed_between_two_moments(history: Any) -> None:
    (change,) = told("diff", history.data, history["alice"], history.last_lsn)
    assert "orders" in names_of(change["queues"]["new"], "queue")
    assert names_of(change["connections"]["gone"], "user") == ["alice"]
    (orders,) = [row for row in change["traffic"] if row["queue"] == "orders"]
    assert orders["added"] == 4
    assert (orders["acknowledged"], orders["dead_lettered"], orders["expired"]) == (1, 1, 1)
    assert orders["after"] == 1
    (bulk,) = [row for row in change["traffic"] if row["queue"] == "bulk"]
    assert (bulk["added"], bulk["otherwise_left"], bulk["after"]) == (60, 60, 0)
    text = journal("diff", history.data, history["alice"], history.last_lsn).output
    assert "+ queues: orders" in text
    assert "- connections: " in text


def test_settings_and_attributes_that_changed(history: Any) -> None:
    (change,) = told("diff", history.data, 1, history["alice"])
    assert {"match": "orders", "key": "max-delivery-attempts", "from": None, "to": 2,
            "at_run_time": False} in change["settings"]  # fmt: skip
    assert "~ setting max-delivery-attempts of match orders: was not set, is 2" in (
        journal("diff", history.data, 1, history["alice"]).output
    )


def test_nothing_changed(history: Any) -> None:
    assert "nothing changed" in journal("diff", history.data, 40, 40).output
    assert "is before the first" in refused(2, "diff", history.data, 40, 30)
    assert "give two moments" in refused(2, "diff", "40")


@pytest.fixture(scope="module")
def with_snapshots(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same history, with a snapshot after every fifty events."""
    ids = write_history(tmp_path_factory.mktemp("snapshots") / "data")
    disk = RealDisk(ids.data / JOURNAL)
    data_id = data_id_of(disk)
    index = Index(ids.data / INDEX, data_id)
    taken = Snapshots(ids.data / SNAPSHOTS, data_id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "SHARE", 0)
        for batch in batches(disk, 0, ids.last_lsn, set(range(0, ids.last_lsn, 10))):
            index.advance(batch)
            taken.follow(index, disk, 1, 1)
    index.close()
    assert len(list(known_snapshots(ids.data / SNAPSHOTS, data_id))) > 5
    return ids


def test_snapshots_change_no_answer(history: Any, with_snapshots: Any) -> None:
    questions = [
        ("inspect", "--at", str(lsn)) for lsn in range(10, history.last_lsn, 25)
    ] + [
        ("inspect", "--from", str(lsn)) for lsn in range(10, history.last_lsn, 25)
    ] + [
        ("trail", str(history[name]))
        for name in ("acknowledged", "dead", "copy", "committed", "transient", "bulk", "expired")
    ]  # fmt: skip
    for command, *rest in questions:
        # With `trail` the directory comes first, else anywhere.
        plain = told(command, history.data, *rest)
        assert told(command, with_snapshots.data, *rest) == plain


def test_a_name_that_is_gone_at_the_snapshot(with_snapshots: Any) -> None:
    said = refused(1, "inspect", with_snapshots.data, "--from", 150, "--queue", "nix")
    assert "since event " in said
    assert "there was no queue 'nix'" in said


def test_verify_compares_every_snapshot(with_snapshots: Any, tmp_path: Path) -> None:
    assert "snapshots: " in journal("verify", "--index", with_snapshots.data).output
    folder = with_snapshots.data / SNAPSHOTS
    (newest, *_) = sorted(folder.glob("*.mdb"), reverse=True)
    whole = newest.read_bytes()
    try:
        newest.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        said = refused(6, "verify", "--index", with_snapshots.data)
        assert f"the snapshot {newest}: its SHA-256 is not that of the description" in said
        assert "Delete it" in said
        described = newest.with_suffix(".json")
        told_before = described.read_bytes()
        described.write_bytes(b"")
        said = refused(6, "verify", "--index", with_snapshots.data)
        assert f"the snapshot {described}: its description cannot be read" in said
        described.write_bytes(told_before)
        # Without the question nothing needs it.
        assert journal("verify", with_snapshots.data).exit_code == 0
        asked = journal("inspect", with_snapshots.data, "--at", int(newest.stem))
        assert asked.exit_code == 0
        assert "is passed over" in asked.stderr
    finally:
        newest.write_bytes(whole)


def test_the_steps_of_a_queue(history: Any) -> None:
    done = journal("growth", history.data, "orders", "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 0
    assert told["lsn"] == history.last_lsn
    entered, left = (sum(each[key] for each in told["steps"]) for key in ("entered", "left"))
    assert entered - left == told["steps"][-1]["messages"]
    assert entered > left > 0
    assert "The queue was created at" in told["notes"][0]
    shown = journal("growth", history.data, "orders")
    assert "note: The queue was created at" in shown.stderr
    assert "came" in shown.stdout


def test_the_end_may_be_a_past_moment(history: Any) -> None:
    [step] = json.loads(
        journal("growth", history.data, "orders", "--at", history["in_flight"], "--json").stdout
    )["steps"][-1:]
    assert step["messages"] == 1


def test_the_span_ends_where_the_answer_does(history: Any) -> None:
    whole, last = (
        json.loads(journal("growth", history.data, "orders", "--since", since, "--json").stdout)
        for since in ("1d", "2m")
    )
    assert 1 <= len(last["steps"]) <= 3
    assert last["steps"][-1]["messages"] == whole["steps"][-1]["messages"]


def test_the_steps_of_all_queues(history: Any) -> None:
    def counted(key: str, *words: object) -> int:
        done = journal("growth", "--data", history.data, "--since", "1d", "--json", *words)
        assert done.exit_code == 0, done.output
        return sum(each[key] for each in json.loads(done.stdout)["steps"])

    for kind, key in (
        ("Delivered", "delivered"), ("Acknowledged", "acknowledged"),
        ("DeadLettered", "dead_lettered"), ("Expired", "expired"),
    ):  # fmt: skip
        found = told("inspect", history.data, "--kind", kind)
        found = [each for each in found if each["reason"] != "resumed"]
        assert counted(key) == len(found)
        earlier = [each for each in found if each["lsn"] <= history["in_flight"]]
        assert counted(key, "--at", history["in_flight"]) == len(earlier)
    assert counted("added") > counted("acknowledged") > 0
    shown = journal("growth", "--data", history.data).stdout
    assert f"all queues, after event {history.last_lsn}" in shown
    assert "dead lettered" in shown


def test_what_cannot_be_answered_is_refused(history: Any) -> None:
    assert "there is no queue" in journal("growth", history.data, "nowhere").output
    assert "one queue at a time" in journal("growth", history.data, "orders", "DLQ").output
    later = journal("growth", history.data, "orders", "--since", "2100-01-01")
    assert (later.exit_code, "--since must be before the end" in later.output) == (2, True)
    wrong = journal("growth", history.data, "orders", "--since", "soon")
    assert (wrong.exit_code, "is not a time" in wrong.output) == (2, True)
