"""The command line `journal` on a history that has something of everything."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.console.jobs.history import story
from daybook.engine import commands
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import BY_NUMBER
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import LOCK
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.tools.journal_cli import cli
from tests.support.topology import create_queue

NO_DATA_IN_ENVIRONMENT = {"DAYBOOK_DATA": None}


def journal(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], env=NO_DATA_IN_ENVIRONMENT)


def told(*arguments: object) -> list[dict[str, Any]]:
    result = journal("inspect", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_the_history_has_sealed_segments(history: Any) -> None:
    assert len(segment_names(RealDisk(history.data / "journal"))) > 2


def test_inspect_tells_every_event_once(history: Any) -> None:
    assert [each["lsn"] for each in told(history.data)] == list(range(1, history.last_lsn + 1))
    assert len(journal("inspect", history.data).output.splitlines()) == history.last_lsn


def test_lsns_that_a_start_skipped_are_one_line(pen: Any) -> None:
    pen.do(commands.Start(version="1"))
    for version in ("2", "3"):
        before = pen.broker.lsn
        pen.do(commands.Start(version=version, skipped=500))
    pen.close()
    lines = journal("inspect", pen.data).output.splitlines()
    skipped = [line for line in lines if " Skipped" in line]
    assert [line.split()[0] for line in skipped] == ["2", str(before + 1)]
    assert ": 500 LSNs up to 501; the broker before was killed" in skipped[0]
    # Three starts, two runs of what was skipped.
    assert len(lines) == 5
    assert len(journal("inspect", pen.data, "--limit", 3).output.splitlines()) == 3
    assert len(journal("inspect", pen.data, "--kind", "skipped").output.splitlines()) == 2
    assert len(told(pen.data, "--kind", "skipped")) == 1000


def test_inspect_tells_the_last_events(history: Any) -> None:
    everything = journal("inspect", history.data).output.splitlines()
    for count in (1, 3, history.last_lsn, history.last_lsn + 5):
        shown = journal("inspect", history.data, "--last", count).output.splitlines()
        assert shown == everything[-count:]
    of_orders = told(history.data, "--queue", "orders")
    last = told(history.data, "--queue", "orders", "--last", 2)
    assert last == of_orders[-2:]
    before = last[0]["lsn"] - 1
    assert told(history.data, "--queue", "orders", "--to", before, "--last", 2) == of_orders[-4:-2]


def test_inspect_tells_names_instead_of_ids(history: Any) -> None:
    lines = journal("inspect", history.data).output.splitlines()
    line = next(each for each in lines if " Acknowledged " in each)
    for word in ("message", "'orders'", "'sub-1'", "bob from peer-of-bob", "acknowledged it"):
        assert word in line
    several = next(each for each in lines if each.split()[0] == str(history["several"]))
    assert "queues 'audit', 'ledger', address 'orders.copy'" in several


def test_a_story_that_begins_late_still_knows_who_is_who(history: Any) -> None:
    everything = journal("inspect", history.data).output.splitlines()
    for start in range(1, history.last_lsn + 1):
        found = journal("inspect", history.data, "--from", start, "--limit", 2).output
        assert found.splitlines() == everything[start - 1 : start + 1]


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (["--queue", "bulk"], lambda each: each["queue_name"] == "bulk"),
        (
            ["--queue", "audit"],
            lambda each: each["queue_name"] == "audit" or each["detail"].get("queues"),
        ),
        (["--address", "orders"], lambda each: each["address_name"] == "orders"),
        (["--kind", "delivered"], lambda each: each["kind"] == "Delivered"),
        (
            ["--kind", "Routed", "--kind", "dropped", "--queue", "DLQ"],
            lambda each: each["kind"] == "Routed" and each["queue_name"] == "DLQ",
        ),
        (["--from", "20", "--to", "30"], lambda each: 20 <= each["lsn"] <= 30),
        (["--since", "2025-11-20T12:00:30"], lambda each: each["at"] >= "2025-11-20T12:00:30"),
        (
            ["--since", "2025-11-20T12:00:05", "--until", "2025-11-20T13:00:10+01:00"],
            lambda each: "2025-11-20T12:00:05" <= each["at"] <= "2025-11-20T12:00:10.000000Z",
        ),
    ],
)
def test_filters_choose_what_they_say(history: Any, flags: list[str], wanted: Any) -> None:
    expected = [each for each in told(history.data) if wanted(each)]
    assert expected
    assert told(history.data, *flags) == expected


def test_filters_by_id(history: Any) -> None:
    everything = told(history.data)
    dead = history["dead"]
    assert told(history.data, "--message", dead) == [
        each for each in everything if dead in (each["message"], each["related"])
    ]
    assert told(history.data, "--connection", history["bob"]) == [
        each for each in everything if each["connection"] == history["bob"]
    ]


def test_bodies_only_if_asked_for(history: Any) -> None:
    lsn = history["acknowledged"]
    flags = ("--from", lsn, "--to", lsn)
    [thin], [full] = told(history.data, *flags), told(history.data, *flags, "--bodies")
    assert "body" not in thin
    assert thin["body_bytes"] == 3
    assert full["body"] == "one"
    assert thin["headers"] == {"destination": "/queue/orders", "n": "one"}
    assert "one" in journal("inspect", history.data, *flags, "--bodies").output.splitlines()[1]


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (["--kind", "Deliverd"], 2, "did you mean Delivered?"),
        (["--from", "9", "--to", "3"], 2, "--from 9 is behind --to 3"),
        (["--since", "yesterday-ish"], 2, "is not a time; write it like"),
        (["--since", "1h", "--until", "2h"], 2, "is behind --until"),
        (["--queue", "bulky"], 1, "there never was the queue 'bulky'"),
        (["--address", "nix"], 1, "there never was the address 'nix'"),
        (["--limit", "0"], 2, "--limit"),
        (["--last", "0"], 2, "--last"),
        (["--last", "3", "--limit", "3"], 2, "--last and --limit exclude each other"),
        (["--last", "3", "--at", "1"], 2, "--last chooses events"),
        (["--queue", "bulky", "--last", "3"], 1, "there never was the queue 'bulky'"),
    ],
)
def test_inspect_says_what_is_wrong(
    history: Any, flags: list[str], code: int, sentence: str
) -> None:
    result = journal("inspect", history.data, *flags)
    assert result.exit_code == code
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_a_directory_without_a_journal_is_no_data_directory(tmp_path: Path) -> None:
    for command in ("inspect", "verify", "stat"):
        result = journal(command, tmp_path)
        assert result.exit_code == 1
        assert f"{tmp_path} is not a data directory" in result.output


def test_reading_changes_nothing(history: Any) -> None:
    def everything() -> dict[str, tuple[int, int]]:
        found = {}
        for path in sorted(history.data.rglob("*")):
            found[str(path)] = (path.stat().st_size, path.stat().st_mtime_ns)
        return found

    before = everything()
    for command in ("inspect", "verify", "stat"):
        journal(command, history.data)
    journal("trail", history.data, history["dead"])
    assert everything() == before


def trail(history: Any, key: str) -> list[dict[str, Any]]:
    result = journal("trail", history.data, history[key], "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def kinds(steps: list[dict[str, Any]]) -> list[str]:
    return [each["kind"] for each in steps[:-1]]


def test_trail_of_a_message_that_was_acknowledged(history: Any) -> None:
    steps = trail(history, "acknowledged")
    assert kinds(steps) == ["Routed", "Delivered", "Acknowledged"]
    assert steps[-1]["now"][0]["where"].endswith("Acknowledged (by-consumer)")


@pytest.mark.parametrize("key", ["dead", "copy"])
def test_trail_follows_a_message_to_its_dead_letter_and_back(history: Any, key: str) -> None:
    steps = trail(history, key)
    assert kinds(steps) == [
        "Routed", "Delivered", "Returned", "Delivered", "DeadLettered", "Routed",
    ]  # fmt: skip
    assert [each["message"] for each in steps[-1]["now"]] == [history["dead"], history["copy"]]
    assert "DeadLettered" in steps[-1]["now"][0]["where"]
    assert steps[-1]["now"][1]["where"] == "ready in queue 'DLQ', 0 counted attempts"


def test_trail_tells_what_a_restart_did(history: Any) -> None:
    steps = trail(history, "in_flight")
    assert kinds(steps)[:3] == ["Routed", "Delivered", "BrokerStarted"]
    [consequence] = steps[2]["consequences"]
    assert "returned to its place in queue 'orders' by the restart; attempt 1 counts" in consequence
    assert steps[-1]["now"][0]["where"] == "ready in queue 'orders', 1 counted attempt"


def test_trail_tells_that_a_restart_dropped_what_is_not_persistent(history: Any) -> None:
    steps = trail(history, "transient")
    assert kinds(steps) == ["Routed", "BrokerStarted"]
    assert "it is not persistent" in steps[1]["consequences"][0]
    assert "it is not persistent" in steps[-1]["now"][0]["where"]


def test_trail_tells_of_transactions_and_of_several_queues(history: Any) -> None:
    [routed, now] = trail(history, "committed")
    assert routed["transaction"].startswith(f"'tx-1' of connection {history['alice']}")
    assert now["now"][0]["where"] == "ready in queue 'stock', 0 counted attempts"
    steps = trail(history, "several")
    assert "queue 'audit'" in steps[-1]["now"][0]["where"]
    assert "queue 'ledger'" in steps[-1]["now"][0]["where"]


def test_trail_of_what_expired_and_what_was_purged(history: Any) -> None:
    assert kinds(trail(history, "expired")) == ["Routed", "Expired", "Routed"]
    assert kinds(trail(history, "bulk")) == ["Routed", "Removed"]


def test_trail_for_people(history: Any) -> None:
    result = journal("trail", history.data, history["dead"])
    assert result.exit_code == 0
    assert f"went on as message {history['copy']}" in result.output
    assert f"now: message {history['copy']} ready in queue 'DLQ'" in result.output


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["seventeen"], 2, "is not a message id"),
        (["0"], 2, "is not a message id"),
        (["99999999"], 1, "has no event 99999999"),
        (["1"], 1, "event 1 is BrokerStarted"),
        ([], 2, "which message?"),
    ],
)
def test_trail_says_what_is_wrong(history: Any, words: list[str], code: int, sentence: str) -> None:
    result = journal("trail", "--data", history.data, *words)
    assert result.exit_code == code
    assert sentence in result.output


def test_verify_of_an_intact_journal(history: Any) -> None:
    result = journal("verify", history.data)
    assert result.exit_code == 0
    assert "digests at checkpoints and clean stops: 1 compared, all equal" in result.output
    verdict = json.loads(journal("verify", "--data", history.data, "--json").output)
    assert verdict["ok"] is True
    assert verdict["folded_lsn"] == history.last_lsn


def test_verify_counts_no_lsns_that_a_start_skipped(pen: Any, tmp_path: Path) -> None:
    pen.do(commands.Start(version="1"))
    pen.do(commands.Start(version="2", skipped=500))
    pen.close()
    result = journal("verify", pen.data)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("2 events (LSN 1 to 502) in ")
    assert "\n500 other LSNs are not events: starts after a crash skipped them" in result.output
    verdict = json.loads(journal("verify", pen.data, "--json").output)
    assert (verdict["report"]["events"], verdict["skipped"]) == (2, 500)
    state = tmp_path / "state"
    for _ in range(2):
        again = journal("verify", pen.data, "--state", state, "--processes", "2")
        assert again.output.startswith("2 events (LSN 1 to 502) in ")


def test_verify_from_an_event_on_says_what_it_did_not_check(history: Any, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(history.data, copy)
    names = segment_names(RealDisk(copy / "journal"))
    first = segment_first_lsn(names[1])
    assert first is not None
    (copy / LOCK).touch()
    path = copy / "journal" / names[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)
    assert journal("verify", copy).exit_code == 1
    for begin in (first, first + 1):
        result = journal("verify", copy, "--from", begin)
        assert result.exit_code == 0, result.output
        assert f"note: not checked: the events before {first}, " in result.output
        assert "They were not folded" in result.output
        assert result.output.endswith(f"intact from event {first} on\n")
        verdict = json.loads(journal("verify", copy, "--from", begin, "--json").output)
        assert (verdict["ok"], verdict["begun_at"], verdict["folded_lsn"]) == (True, first, 0)
        assert verdict["report"]["first_lsn"] == first
    several = journal("verify", copy, "--from", first, "--processes", 2)
    assert several.output == result.output
    for begin in (first - 1, 1, "2000-01-01"):
        assert journal("verify", copy, "--from", begin).exit_code == 1
    result = journal("verify", copy, "--from", "now")
    assert result.output.endswith(f"intact from event {segment_first_lsn(names[-1])} on\n")
    [newest, *_] = json.loads(journal("reports", "--data", copy, "--json").output)["reports"]
    assert newest["result"] == f"intact from event {segment_first_lsn(names[-1])} on"
    assert newest["command"].startswith(f"journal verify --data {copy} --from ")
    beyond = journal("verify", copy, "--from", history.last_lsn + 1)
    # The journal has no fault, and the page Integrity says the same.
    assert beyond.exit_code == 2
    why = f"--from: the last event is {history.last_lsn}: there is nothing to check from"
    assert f"{why} {history.last_lsn + 1} on" in " ".join(beyond.output.split())


def test_verify_from_an_event_on_finds_damage_behind_it(history: Any, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(history.data, copy)
    names = segment_names(RealDisk(copy / "journal"))
    (copy / "journal" / names[2]).unlink()
    result = journal("verify", copy, "--from", segment_first_lsn(names[1]))
    assert result.exit_code == 1
    assert "should come before: blocks or a segment are missing" in result.output


@pytest.mark.parametrize("option", ["--index", "--one-by-one", "--resume"])
def test_verify_from_an_event_on_folds_nothing(history: Any, option: str) -> None:
    result = journal("verify", history.data, "--from", 5, option)
    assert result.exit_code == 2
    assert f"{option} " in result.output
    assert "that all events give, and --from reads the last ones alone: give one" in result.output


def test_verify_names_the_damaged_place(history: Any, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(history.data, copy)
    name = segment_names(RealDisk(copy / "journal"))[1]
    path = copy / "journal" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)
    result = journal("verify", copy)
    assert result.exit_code == 1
    assert f"DAMAGED {name}, offset" in result.output
    assert "intact" not in result.output.splitlines()
    verdict = json.loads(journal("verify", copy, "--json").output)
    assert verdict["ok"] is False
    assert verdict["report"]["faults"][0]["segment"] == name
    for command in ("inspect", "stat"):
        assert "Traceback" not in journal(command, copy).output


def test_verify_says_what_a_start_would_refuse(history: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(history.data, copy)
    (copy / "data-id").write_text("ab" * 16)
    result = journal("verify", copy)
    assert result.exit_code == 1
    assert "belongs to another data directory" in " ".join(result.output.split())


def test_verify_of_an_index_that_is_gone_is_one_of_the_journal_too(
    history: Any, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(history.data, copy)
    shutil.rmtree(copy / "index", ignore_errors=True)
    result = journal("verify", "--index", copy)
    assert result.exit_code == 6
    assert "events (LSN 1 to" in result.output
    assert f"there is no index in {copy / 'index'}" in " ".join(result.output.split())


def test_verify_sees_a_digest_that_is_not_that_of_the_events(pen: Any) -> None:
    pen.do(commands.Start(version="1"))
    pen.broker.emit(
        events.row(events.BROKER_STOPPED, reason=reasons.SHUTDOWN, time=pen.now),
        events.encode_detail(details.BrokerStoppedDetail(digest="0" * 32)),
    )
    pen.write()
    pen.close()
    result = journal("verify", pen.data)
    assert result.exit_code == 1
    assert f"WRONG event 2: the broker stopped with digest {'0' * 32}" in result.output


def test_verify_expects_no_digest_of_a_hurried_stop(pen: Any) -> None:
    pen.do(commands.Start(version="1"))
    pen.broker.emit(
        events.row(events.BROKER_STOPPED, reason=reasons.SHUTDOWN, time=pen.now),
        events.encode_detail(details.BrokerStoppedDetail(hurried=True)),
    )
    pen.write()
    pen.close()
    result = journal("verify", pen.data)
    assert result.exit_code == 0
    assert "no checkpoint or clean stop to compare a digest with" in result.output


def test_stat_counts_what_inspect_tells(history: Any) -> None:
    figures = json.loads(journal("stat", history.data, "--json").output)
    everything = told(history.data)
    for name in {entry.name for entry in BY_NUMBER.values()}:
        assert figures["kinds"].get(name, 0) == sum(each["kind"] == name for each in everything)
    assert figures["events"] == history.last_lsn == figures["segments"][-1]["last_lsn"]
    by_queue = {row["queue"]: row for row in figures["queues"]}
    assert by_queue["bulk"]["Routed"] == by_queue["bulk"]["Removed"] == 60
    assert by_queue["audit"]["Routed"] == by_queue["ledger"]["Routed"] == 1
    assert by_queue["orders"]["Returned"] == 1
    text = journal("stat", history.data).output
    assert "2025-11-20 12:00:01.000000" in text
    assert "active" in text


def test_an_empty_journal_is_no_reason_to_fail(pen: Any) -> None:
    for command in ("inspect", "verify", "stat"):
        result = journal(command, pen.data)
        assert result.exit_code == 0, result.output


def test_a_damaged_footer_is_done_without(history: Any, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(history.data, copy)
    path = copy / "journal" / segment_names(RealDisk(copy / "journal"))[0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 255
    path.write_bytes(content)
    assert told(copy) == told(history.data)


def test_a_reader_that_goes_away_is_no_mistake(history: Any) -> None:
    command = [
        sys.executable,
        "-m",
        "daybook.tools.journal_cli",
        "inspect",
        "--json",
        str(history.data),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


def test_follow_tells_what_comes_until_it_is_interrupted(pen: Any) -> None:
    pen.do(commands.Start(version="1"))
    command = [
        sys.executable,
        "-m",
        "daybook.tools.journal_cli",
        "inspect",
        "--follow",
        str(pen.data),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert "BrokerStarted" in process.stdout.readline()
        pen.do(create_queue("late", "late"))
        assert "AddressCreated" in process.stdout.readline()
        assert "'late'" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
        assert process.stderr.read() == ""


def test_a_page_tells_messages_in_a_queue_from_those_that_left(history: Any) -> None:
    now = story(str(history.data), history["dead"])["now"]
    assert [each["is_queued"] for each in now] == [False, True]
    assert not story(str(history.data), history["acknowledged"])["now"][0]["is_queued"]
