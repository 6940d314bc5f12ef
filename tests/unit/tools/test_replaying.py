"""`journal replay` without a broker: counts and refusals."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.engine import commands
from daybook.history.replays.fates import Request
from daybook.history.replays.progress_file import ProgressFile
from daybook.history.replays.spans import VERSION, Progress
from daybook.tools.history import replay as running
from daybook.tools.journal_cli import cli

NOWHERE = "stomp://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def replay(history: Any, *words: object) -> Result:
    given = ["replay", history.data, "/queue/again", "--url", NOWHERE, *words]
    return CliRunner().invoke(cli, [str(word) for word in given])


def counted(history: Any, *words: object) -> dict[str, Any]:
    done = replay(history, "--json", *words)
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.output)
    return told


def test_what_is_counted(history: Any) -> None:
    everything = counted(history)
    assert everything["addresses"] == {"orders": 4, "orders.copy": 1, "stock": 1, "bulk": 60}
    assert everything["unjournaled"] == 1
    assert everything["left_out_copies"] == 2
    assert counted(history, "--copies")["messages"] == everything["messages"] + 2
    assert counted(history, "--address", "orders")["messages"] == 4
    assert counted(history, "--queue", "ledger")["addresses"] == {"orders.copy": 1}
    assert counted(history, "--message", history["dead"])["messages"] == 1
    assert counted(history, "--from", history["several"], "--address", "orders")["messages"] == 2
    assert counted(history, "--to", history["dead"])["messages"] == 2
    assert counted(history, "--filter", "n = 'one' OR n = 'two'")["messages"] == 2


@pytest.mark.parametrize(
    ("fates", "messages"),
    [
        (["acknowledged"], 1),
        (["dead-lettered"], 1),
        (["expired"], 1),
        (["removed"], 60),
        (["waiting"], 3),
        (["never-acknowledged"], 65),
        (["expired", "dead-lettered"], 2),
    ],
)
def test_fates(history: Any, fates: list[str], messages: int) -> None:
    only = [word for fate in fates for word in ("--only", fate)]
    assert counted(history, *only)["messages"] == messages


def test_a_fate_may_come_after_the_span(history: Any) -> None:
    told = counted(history, "--only", "removed", "--from", 60, "--to", 70)
    assert 0 < told["messages"] <= 11


def test_nothing_is_sent_without_being_asked_for(history: Any) -> None:
    done = replay(history, "--address", "orders")
    assert done.exit_code == 0
    assert "nothing was sent" in done.output
    assert "4 messages with " in done.output
    one = replay(history, "--message", history["dead"]).output
    assert "1 message with " in one
    assert "1 messages" not in one


def test_what_is_refused(history: Any, tmp_path: Path) -> None:
    done = replay(history, "--filter", "n = ")
    assert done.exit_code == 2
    assert "--filter" in done.output
    done = replay(history, "--send")
    assert done.exit_code == 1
    assert "repeat the command to resume" in done.output
    state = tmp_path / "state.json"
    state.write_text("{}")
    done = replay(history, "--state", state)
    assert done.exit_code == 1
    assert "not the state of a replay" in done.output
    state.unlink()
    assert replay(history, "--state", state, "--send").exit_code == 1


def test_a_state_belongs_to_one_replay(history: Any, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    begun = Progress(Request(to_lsn=5), "/queue/other", NOWHERE, "00" * 16)
    ProgressFile(state, Progress, VERSION, "").save(begun)
    done = replay(history, "--state", state)
    assert done.exit_code == 1
    assert "of another replay" in done.output


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The messages that a stand-in for the broker got: a list for each run."""
    runs: list[list[int]] = []

    def send(disk: Any, messages: Any, state: Any, file: Any, *_: Any) -> None:
        runs.append([lsn for lsn in messages if lsn > state.done])
        state.sent += len(runs[-1])
        state.done, state.is_complete = messages[-1], True
        file.save(state)

    monkeypatch.setattr(running, "_send", send)
    return runs


def test_what_came_after_a_replay_is_sent_by_the_same_command(
    pen: Any, sending: list[list[int]]
) -> None:
    alice = _begun(pen)
    first = [pen.send(alice, "orders", b"one"), pen.send(alice, "orders", b"two")]
    assert "sent 2 to" in replay(pen, "--address", "orders", "--send").output
    again = replay(pen, "--address", "orders", "--send")
    assert "sent 0 to" in again.output
    assert "2 were sent before" in again.output
    third = pen.send(alice, "orders", b"three")
    dry = counted(pen, "--address", "orders")
    assert (dry["messages"], dry["left"], dry["sent"], dry["sent_before"]) == (1, 1, 0, 2)
    said = replay(pen, "--address", "orders", "--send").output
    assert "sent 1 to" in said
    assert "2 were sent before" in said
    assert sending == [first, [third]]
    assert counted(pen, "--address", "orders")["left"] == 0


def test_what_met_its_fate_after_a_replay_is_sent_by_the_same_command(
    pen: Any, sending: list[list[int]]
) -> None:
    alice = _begun(pen)
    ids = [pen.send(alice, "orders", b"%d" % number) for number in range(3)]
    consumer = pen.do(commands.Attach(alice, "orders", subscription="s"))
    pen.do(commands.Settle(consumer, ids[1]))
    only = ("--only", "acknowledged", "--send")
    assert replay(pen, *only).exit_code == 0
    pen.do(commands.Settle(consumer, ids[0]))
    assert replay(pen, *only).exit_code == 0
    assert sending == [[ids[1]], [ids[0]]]


def test_an_end_that_was_named_stays(pen: Any, sending: list[list[int]]) -> None:
    alice = _begun(pen)
    first = pen.send(alice, "orders", b"one")
    span = ("--to", first, "--send")
    replay(pen, *span)
    pen.send(alice, "orders", b"two")
    assert replay(pen, *span).exit_code == 0
    assert sending == [[first]]


def _begun(pen: Any) -> int:
    pen.do(commands.Start(version="1"))
    return int(pen.connect("alice"))


def test_a_time_before_the_first_event_is_its_beginning(history: Any) -> None:
    told = counted(history, "--from", "2001-01-01")
    assert (told["from_lsn"], told["messages"]) == (1, counted(history)["messages"])
    done = CliRunner().invoke(cli, ["inspect", str(history.data), "--at", "2001-01-01"])
    assert done.exit_code == 1
    assert "begins with event 1" in done.output
    assert "archive" not in done.output


@pytest.mark.parametrize("rate", ["nan", "inf", "-inf", "0"])
def test_a_rate_is_a_number(history: Any, rate: str) -> None:
    assert replay(history, "--rate", rate).exit_code == 2


def test_a_span_that_ends_before_it_begins(history: Any) -> None:
    done = replay(history, "--from", 20, "--to", 10)
    assert done.exit_code == 2
    assert "--from is after --to" in done.output


def test_names_that_history_does_not_have_are_told(history: Any) -> None:
    done = replay(
        history, "--queue", "nope", "--queue", "orders", "--address", "never", "--message", 99_999
    )
    assert done.exit_code == 0
    for text in ("no queue 'nope'", "no address 'never'", "no message 99999"):
        assert done.output.count(text) == 1
    assert "'orders'" not in done.output


def test_a_state_that_cannot_be_written_is_named_after_the_counts(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def send(disk: Any, messages: Any, state: Any, file: Any, *_: Any) -> None:
        state.sent += 7
        file.save(state)

    monkeypatch.setattr(running, "_send", send)
    monkeypatch.setattr("os.fsync", full)
    state = tmp_path / "state.json"
    done = replay(history, "--state", state, "--send")
    assert done.exit_code == 1
    assert f"{state}: No space left on device" in done.output
    assert "sent 7 to" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["state.json.lock"]
