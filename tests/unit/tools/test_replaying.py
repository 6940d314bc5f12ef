"""`journal replay` without a broker: what is counted, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

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
    from daybook.history.fates import Request  # noqa: PLC0415
    from daybook.tools.replaying import State, _save  # noqa: PLC0415

    state = tmp_path / "state.json"
    _save(state, State(Request(to_lsn=5), "/queue/other", NOWHERE, "00" * 16))
    done = replay(history, "--state", state)
    assert done.exit_code == 1
    assert "of another replay" in done.output
