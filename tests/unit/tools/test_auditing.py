"""`journal audit`: accounts and breaches for people and programs; moments that are not there."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from daybook.engine.commands import DeleteQueue, PurgeQueue
from daybook.engine.facts.definitions import MULTICAST
from daybook.history.reports.report import Report
from daybook.journal.data_directory import JOURNAL
from daybook.tools.history import audit
from daybook.tools.history.audit import QUEUES_SHOWN
from daybook.tools.journal_cli import cli
from daybook.tools.terminal.failures import Failure
from tests.support.forging.breaches import copy_with_another_body, years_ahead
from tests.support.histories import write_history
from tests.support.worlds.auditing import DoorWorld


def ask(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["audit", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A history in which one message of each fate was in `orders`."""
    world = DoorWorld()
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    connection = world.connect()
    consumer = world.attach(connection, "orders", credit_messages=2)
    for body in (b"a", b"b", b"c", b"d"):
        world.send("orders", body, connection)
    taken = [each.message for each in world.taken(consumer)]
    world.ack(consumer, taken[0])
    world.nack(consumer, taken[1])
    world.detach(consumer)
    world.send("orders", b"e", connection, persistent=False)
    world.restart()
    world.ok(PurgeQueue("orders", limit=1))
    world.turn()
    return write_history(tmp_path / "data", world.journal, cuts=world.ends)


def test_every_message_is_accounted_for(data: Path) -> None:
    answer = ask(data, "--json")
    told = json.loads(answer.stdout)
    assert (answer.exit_code, told["ok"], told["breaches"]) == (0, True, [])
    orders = next(each for each in told["queues"] if each["queue"] == "orders")
    assert orders["before"] == orders["difference"] == 0
    assert orders["entered"] == {"routed:sent": 5}
    assert orders["left"]["acknowledged:by-consumer"] == 1
    assert orders["left"]["dead-lettered"] == orders["left"]["removed:administration"] == 1
    assert (orders["restarted"], orders["after"]) == (1, 1)
    shown = ask(data)
    assert "every decision was allowed, and every message is accounted for" in shown.output
    assert "dead lettered" in shown.stdout


def test_a_queue_has_the_address_that_it_was_bound_to_last(tmp_path: Path) -> None:
    """Also while it is being deleted, which is a change of it, too."""
    world = DoorWorld()
    connection = world.connect()
    for address in ("news", "prices"):
        subscribed = world.attach(
            connection, address, durable_name="d", routing_type=MULTICAST, credit_messages=1
        )
        world.send(address, b"x", connection, routing_type=MULTICAST)
        world.detach(subscribed)
    shown = []
    for name in ("kept", "deleted"):
        data = write_history(tmp_path / name, world.journal, cuts=world.ends)
        [queue] = json.loads(ask(data, "--json").stdout)["queues"]
        shown.append((queue["address"], queue["difference"]))
        if name == "kept":
            world.ok(DeleteQueue(queue["queue"], force=True))
            world.turn()
    assert shown == [("prices", 0)] * 2


def test_of_very_many_queues_the_busiest_are_shown(tmp_path: Path) -> None:
    world = DoorWorld()
    connection = world.connect()
    for number in range(QUEUES_SHOWN + 7):
        world.send(f"q.{number}", b"a", connection)
    world.send("busy", b"b", connection)
    world.send("busy", b"c", connection)
    data = write_history(tmp_path / "data", world.journal, cuts=world.ends)
    lines = ask(data).stdout.splitlines()
    assert sum(line.startswith("q.") for line in lines) == QUEUES_SHOWN - 1
    assert next(line for line in lines if line.startswith("busy")).split()[1:3] == ["0", "2"]
    others = next(line for line in lines if line.startswith("(8 more: --json)"))
    assert others.split()[3:] == ["0", "8", "0", "8", "0"]
    assert len(json.loads(ask(data, "--json").stdout)["queues"]) == QUEUES_SHOWN + 8


def test_between_two_moments(data: Path) -> None:
    whole = json.loads(ask(data, "--json").stdout)
    middle = whole["last"] // 2
    first = json.loads(ask(data, "--json", "--to", middle).stdout)
    second = json.loads(ask(data, "--json", "--from", middle).stdout)
    assert (first["last"], second["after"], second["last"]) == (middle, middle, whole["last"])
    assert first["ok"]
    assert second["ok"], second["breaches"]
    before = {each["queue"]: each["after"] for each in first["queues"]}
    for each in second["queues"]:
        assert each["before"] == before.get(each["queue"], 0)
    assert json.loads(ask(data, "--json", "--from", middle, "--to", "2023-11-15").stdout)["ok"]


def test_a_breach_is_shown_with_its_proof(tmp_path: Path) -> None:
    planted = copy_with_another_body()
    data = write_history(tmp_path / "data", planted.history, cuts=planted.ends)
    shown = ask(data)
    assert shown.exit_code == 1
    assert "is proven by events" in shown.stdout
    assert "1 breach, and 0 accounts that do not balance" in shown.output
    told = json.loads(ask(data, "--json").stdout)
    assert [(each["rule"], each["source"], each["lsn"]) for each in told["breaches"]] == [
        ("copy", "ADR 25", planted.lsn)
    ]


def test_a_clock_may_be_given_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Report] = []
    monkeypatch.setattr(audit, "keep_report", lambda path, report: kept.append(report))
    planted = years_ahead()
    data = write_history(tmp_path / "data", planted.history, cuts=planted.ends)
    assert ask(data).exit_code == 1
    assert ask(data, "--clock-tolerance", 400_000_000).exit_code == 0
    assert [each.ok for each in kept] == [False, True]
    assert kept[0].command == f"journal audit --data {data}"
    assert kept[1].command == f"journal audit --data {data} --clock-tolerance 400000000"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--to", 10_000_000), "the journal ends with event"),
        (("--from", 10_000_000), "there is no event after"),
        (("--from", 9, "--to", 9), "there is no event after"),
    ],
)
def test_moments_that_are_not_there(data: Path, arguments: tuple[object, ...], text: str) -> None:
    with pytest.raises(Failure, match=text):
        ask_raising(data, *arguments)


def ask_raising(*arguments: object) -> None:
    cli.main(["audit", *map(str, arguments)], standalone_mode=False)


def test_nothing_is_written_to_the_directory(data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert ask(data).exit_code == 0
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_damage_is_an_answer_in_words(data: Path) -> None:
    segment = sorted((data / JOURNAL).glob("*.seg"))[0]
    content = bytearray(segment.read_bytes())
    content[700] ^= 1
    segment.write_bytes(bytes(content))
    with pytest.raises(Failure, match="offset"):
        ask_raising(data)


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "-1", "-inf", "4e9"])
def test_a_clock_tolerance_without_a_bound_is_refused(data: Path, seconds: str) -> None:
    answer = ask(data, "--clock-tolerance", seconds)
    assert answer.exit_code == 2
    assert "--clock-tolerance" in answer.stderr
    assert "is not in the range" in answer.stderr or "is not a number of seconds" in answer.stderr


def test_the_verdict_is_a_part_of_the_answer(data: Path) -> None:
    answer = ask(data)
    assert answer.stdout.splitlines()[-1].endswith("every message is accounted for")
    assert "accounted" not in answer.stderr


def test_without_a_journal_there_is_nothing_to_audit(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).mkdir()
    answer = ask(tmp_path)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert f"there is no journal in {tmp_path}" in answer.stderr
    write_history(tmp_path / "data", [], cuts=[])
    answer = ask(tmp_path / "data")
    assert answer.exit_code == 1
    assert "nothing to audit: the journal has no events" in answer.stderr
