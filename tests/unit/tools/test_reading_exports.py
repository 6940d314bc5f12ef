"""Every command reads exports, and reports their gaps instead of inventing content."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from daybook.engine import commands
from daybook.tools.journal_cli import cli
from daybook.tools.pipeline import pipeline_group
from tests.unit.tools.conftest import History, Pen, write_history


def run(*words: object) -> Result:
    answer = CliRunner().invoke(cli, [str(word) for word in words])
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    assert "KeyError" not in answer.output
    return answer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> History:
    return write_history(tmp_path_factory.mktemp("made") / "data")


def routed(data: Path) -> list[int]:
    told = run("inspect", data, "--kind", "Routed", "--json").stdout.splitlines()
    return [json.loads(line)["lsn"] for line in told]


def exported(history: History, target: Path, *words: object) -> Path:
    done = run("export", history.data, target, *words)
    assert done.exit_code == 0, done.output
    return target


@pytest.mark.parametrize("catalogued", [False, True])
def test_a_trail_of_an_export_tells_what_it_has(
    made: History, tmp_path: Path, *, catalogued: bool
) -> None:
    """From any event on, every message has the events that are there, and says what is missing."""
    messages = routed(made.data)
    whole = {
        message: [
            json.loads(line)
            for line in run("trail", made.data, message, "--json").stdout.splitlines()
        ]
        for message in messages
    }
    for begin in messages[:: max(len(messages) // 4, 1)]:
        export = exported(made, tmp_path / f"{begin}-{catalogued}", "--from", begin)
        first = int(next((export / "journal").glob("*.seg")).stem)
        if catalogued:
            assert run("catalog", export).exit_code == 0
        for message in messages:
            answer = run("trail", export, message, "--json")
            lines = [json.loads(line) for line in answer.stdout.splitlines()]
            of_it = [
                each["lsn"]
                for each in whole[message][:-1]
                if each["lsn"] >= first and each["message"] == message
            ]
            found = [each["lsn"] for each in lines[:-1] if each["message"] == message]
            assert found == of_it, (begin, message, answer.output)
            if lines:
                assert ("no state to begin with" in str(lines[-1]["missing"])) == (first > 1)
                assert "the export ends" in lines[-1]["ended"]
            else:
                assert "nothing is known of message" in answer.stderr
                assert "no state to begin with" in answer.stderr


def test_a_trail_of_an_export_says_what_is_missing(tmp_path: Path) -> None:
    """Queues without a name, a delivery without its message, and a restart of unknown effect."""
    pen = Pen(tmp_path / "data")
    connection = pen.connect("alice")
    before = pen.send(connection, "orders", b"1")
    begin = pen.broker.lsn + 1
    message = pen.send(connection, "orders", b"2")
    pen.do(commands.Attach(connection, "orders", subscription="s", credit_messages=1))
    pen.do(commands.Start(version="1"))
    pen.close()
    history = History()
    history.data = tmp_path / "data"
    export = exported(history, tmp_path / "export", "--from", begin)
    told = run("trail", export, message).stdout
    assert "earlier history is unavailable: this is an export of events" in told
    assert f"now: message {message} last seen in queue '#1' by event" in told
    assert f"what the restart did to message {message} in queue '#1' is not known" in told
    told = run("trail", export, before).stdout
    assert "Delivered" in told
    assert f"now: message {before} last seen in queue '#1' by event" in told
    for form in ("--svg", "--mermaid"):
        # A sentence may be drawn in several lines.
        words = re.sub("<[^>]+>", " ", run("trail", export, message, form).stdout).split()
        assert "no state to begin with" in " ".join(words)
    assert f"message {message}" in run("trail", export, "--header", "n=2").stdout
    assert "no state to begin with" in run("trail", export, "--header", "n=1").stderr
    # A piece of history without a beginning is not an export, but has no state either.
    piece = shutil.copytree(export, tmp_path / "piece")
    (piece / "proof.jsonl").unlink()
    told = run("trail", piece, message).stdout
    assert "left the journal, and was not archived" in told


def redacted(made: History, target: Path) -> Path:
    return exported(made, target, "--redact", "bodies", "--redact", "headers")


def test_what_was_left_out_is_no_empty_message(made: History, tmp_path: Path) -> None:
    export = redacted(made, tmp_path / "export")
    answer = run("inspect", export, "--json", "--bodies")
    assert "bodies and headers were left out of this export" in answer.stderr
    told = [json.loads(line) for line in answer.stdout.splitlines()]
    messages = [each for each in told if each["kind"] == "Routed" and not each["flags"] & 2]
    assert messages
    for each in messages:
        assert each["redacted"] == ["bodies", "headers"]
        assert each["body"] is None
        assert each["headers"] is None
        assert each["body_bytes"] is None
    assert all("redacted" not in each for each in told if each["kind"] == "Acknowledged")
    text = run("inspect", export, "--kind", "Routed").stdout
    assert "bodies and headers redacted" in text
    dead = made["dead"]
    assert "bodies and headers redacted" in run("trail", export, dead).stdout
    first = json.loads(run("trail", export, dead, "--json").stdout.splitlines()[0])
    assert first["body_bytes"] is None
    # The size of headers alone is not that of the message.
    half = exported(made, tmp_path / "half", "--redact", "headers")
    shown = json.loads(run("inspect", half, "--message", dead, "--json").stdout.splitlines()[0])
    assert (shown["body_bytes"], shown["headers"]) == (3, None)
    assert "a body of 3 bytes, headers redacted" in run("inspect", half, "--message", dead).stdout


def test_messages_of_the_past_are_not_shown_as_empty(made: History, tmp_path: Path) -> None:
    export = redacted(made, tmp_path / "export")
    words = ("inspect", export, "--at", made["several"], "--queue", "ledger", "--bodies")
    assert "(redacted)" in run(*words).stdout
    assert json.loads(run(*words, "--json").stdout.splitlines()[1])["body_bytes"] is None


def test_no_message_is_found_by_what_was_left_out(made: History, tmp_path: Path) -> None:
    export = redacted(made, tmp_path / "export")
    (tmp_path / "empty").touch()
    for words in (("--header", "n=one"), ("--body", tmp_path / "empty")):
        answer = run("trail", export, *words)
        assert answer.exit_code == 1
        assert "were left out of this export, so no message is found" in answer.stderr


@pytest.mark.parametrize("what", ["bodies", "headers"])
def test_messages_without_content_are_not_replayed(
    made: History, tmp_path: Path, what: str
) -> None:
    """Nothing is left to send, so no broker is asked for."""
    export = exported(made, tmp_path / "export", "--redact", what)
    state = ("--state", tmp_path / "state.json", "--url", "stomp://127.0.0.1:1", "--send")
    told = json.loads(run("replay", export, "/queue/again", *state, "--json").stdout)
    assert (told["messages"], told["sent"]) == (0, 0)
    assert told["redacted"] > 60
    shown = run("replay", export, "/queue/again", *state).stdout
    assert "cannot be sent: their content was left out of this export" in shown


def test_an_export_with_a_damaged_proof_is_reported(made: History, tmp_path: Path) -> None:
    export = redacted(made, tmp_path / "export")
    proof = export / "proof.jsonl"
    proof.write_bytes(b"\xff" + proof.read_bytes())
    answer = run("inspect", export)
    assert answer.exit_code == 1
    assert "line 1 is damaged" in answer.stderr
    proof.write_bytes(proof.read_bytes()[1:].replace(b"bodies", b"bodhes"))
    assert "no export is without" in run("inspect", export).stderr


def test_a_range_has_no_state_to_ask_for(made: History, tmp_path: Path) -> None:
    """No archive has what a range of history lacks, so none is recommended."""
    export = exported(made, tmp_path / "export", "--from", made["several"])
    inside, last = made["several"] + 5, made.last_lsn
    for words in (
        ("audit", export),
        ("audit", export, "--from", inside),
        ("audit", export, "--from", 1),
        ("diff", export, inside, last),
        ("diff", export, 1, last),
        ("inspect", export, "--at", inside),
        ("inspect", export, "--at", 1),
        ("fork", export, tmp_path / "fork"),
    ):
        answer = run(*words)
        assert answer.exit_code == 1, words
        assert "this is an export of events" in answer.stderr, words
        assert "which has no state to begin with" in answer.stderr
        assert "archive" not in answer.stderr


def test_a_name_that_was_given_before_the_range_is_not_said_to_have_never_been(
    made: History, tmp_path: Path
) -> None:
    export = exported(made, tmp_path / "export", "--from", made.last_lsn - 5)
    first = int(next((export / "journal").glob("*.seg")).stem)
    assert first > 1
    for option, what in (("--queue", "queue"), ("--address", "address")):
        answer = run("inspect", export, option, "orders")
        assert answer.exit_code == 1
        said = f"gives the name of the {what} 'orders', and names from before event {first} are"
        assert f"{said} not known: this is an export of events {first} to" in answer.stderr
        assert "never was" not in answer.stderr


def test_decisions_about_what_was_left_out_are_not_audited(made: History, tmp_path: Path) -> None:
    whole = exported(made, tmp_path / "whole")
    assert run("audit", whole, "--json").stdout == run("audit", made.data, "--json").stdout != ""
    answer = run("audit", redacted(made, tmp_path / "export"))
    assert answer.exit_code == 1
    assert "no decision that depends on them can be audited" in answer.stderr


@pytest.mark.parametrize("command", ["fork", "salvage", "export"])
def test_nothing_is_made_of_messages_without_content(
    made: History, tmp_path: Path, command: str
) -> None:
    answer = run(command, redacted(made, tmp_path / "export"), tmp_path / "made")
    assert answer.exit_code == 1
    assert "bodies and headers were left out of the export" in answer.stderr
    assert not (tmp_path / "made").exists()


def test_no_job_sends_messages_without_content(made: History, tmp_path: Path) -> None:
    words = ("replay", "--data", redacted(made, tmp_path / "export"), "--address", "orders")
    answer = CliRunner().invoke(pipeline_group, [*map(str, words), "--dry-run"])
    assert answer.exit_code == 1
    assert "the messages would be sent empty" in answer.stderr
