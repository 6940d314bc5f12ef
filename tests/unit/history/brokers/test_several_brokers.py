"""`journal trail` and `journal audit` with the data directories of several brokers."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from daybook.engine.commands import ChangeDistributions, CreateQueue, Send
from daybook.engine.facts.definitions import (
    AutoLink,
    DistributionEntry,
    QueueDefinition,
    Waypoint,
)
from daybook.engine.refusals import Refusal
from daybook.journal.data_directory import JOURNAL
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import Disposition
from daybook.protocols.amqp.wire.termini import Accepted, Released
from daybook.tools.journal_cli import cli
from tests.support.amqp.line import THERE, Line
from tests.support.amqp.peer import Peer
from tests.support.bridges import BILLS, OUT, accept, lose_outcomes, written
from tests.support.world import World
from tests.support.worlds.auditing import DoorWorld

HERE = "0" * 32


def ask(command: object, *arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(command), *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def line() -> Line:
    """A bridge in each direction, with a message that went by each."""
    line = Line(OUT, BILLS, here=DoorWorld(), there=DoorWorld()).settle()
    send(line.here, "orders", b"x")
    send(line.there, "bills", b"y")
    return line.settle()


def sent(world: DoorWorld | None, came: bool = False) -> int:
    assert world is not None
    return next(
        each.lsn for each in world.events_named("Routed") if bool(each.decoded.came_from) == came
    )


def send(world: World, address: str, body: bytes) -> None:
    answer = world.broker.handle(Send(world.connect(), address, b"", body), world.now)
    assert not isinstance(answer, Refusal), answer.text


def both(line: Line, folder: Path) -> tuple[Path, Path]:
    return written(line.here, folder / "west"), written(line.there, folder / "east")


# ---- trail


def test_a_trail_follows_a_message_to_the_next_broker(line: Line, tmp_path: Path) -> None:
    accept(line.there, "orders")
    west, east = both(line, tmp_path)
    number = sent(line.here)
    there = line.there.events_named("Routed")[-1].lsn
    answer = ask("trail", west, number, "--data", east)
    assert answer.exit_code == 0
    first, _, second = answer.stdout.partition("\n\n")
    assert first.startswith(f"in {west}, data directory {HERE}:\n")
    assert second.startswith(
        f"in {east}, data directory {THERE}:\nmessage {there} came from message {number} in {west}"
    )
    assert f"came from message {number} of the data directory {HERE}" in second
    assert f"now: message {there} left queue 'orders'" in second


def test_it_begins_where_the_message_began_whichever_is_asked(line: Line, tmp_path: Path) -> None:
    west, east = both(line, tmp_path)
    there = next(each.lsn for each in line.there.events_named("Routed") if each.decoded.came_from)
    answers = [
        ask("trail", "--data", west, "--data", east, sent(line.here)).stdout,
        ask("trail", "--data", east, "--data", west, there).stdout,
    ]
    assert answers[0] == answers[1]


def test_programs_get_each_step_with_its_directory(line: Line, tmp_path: Path) -> None:
    west, east = both(line, tmp_path)
    answer = ask("trail", west, sent(line.here), "--data", east, "--json")
    told = [json.loads(each) for each in answer.stdout.splitlines()]
    assert {each["data"] for each in told} == {str(west), str(east)}
    ends = [each for each in told if "now" in each]
    assert [len(each["before"]) for each in ends] == [0, 1]


def test_it_says_which_journal_is_missing(line: Line, tmp_path: Path) -> None:
    """The one where the message began; or the one where it went."""
    west, east = both(line, tmp_path)
    third = _stranger(tmp_path)
    there = next(each.lsn for each in line.there.events_named("Routed") if each.decoded.came_from)
    backwards = ask("trail", east, there, "--data", third).stdout
    assert (
        f"it came from message {sent(line.here)} of the data directory {HERE}, which was not named"
        in backwards
    )
    onwards = ask("trail", west, sent(line.here), "--data", third).stdout
    assert "went to another broker by link 'to-east'" in onwards
    assert "no journal that was named has it" in onwards


def _stranger(folder: Path) -> Path:
    """Return a journal that has nothing to do with the others."""
    world = DoorWorld()
    world.broker.identity = "d" * 32
    return written(world, folder / "third")


def test_a_single_directory_names_the_broker_before(line: Line, tmp_path: Path) -> None:
    _, east = both(line, tmp_path)
    there = next(each.lsn for each in line.there.events_named("Routed") if each.decoded.came_from)
    answer = ask("trail", east, there)
    assert f"came from message {sent(line.here)} of the data directory {HERE}" in answer.stdout


def test_a_duplicate_is_told_where_it_was_dropped(tmp_path: Path) -> None:
    worlds = DoorWorld(), DoorWorld()
    first = Line(OUT, here=worlds[0], there=worlds[1]).settle()
    send(worlds[0], "orders", b"x")
    lose_outcomes(first)
    second = Line(OUT, here=worlds[0], there=worlds[1]).settle()
    west, east = both(second, tmp_path)
    (dropped,) = worlds[1].events_named("Dropped")
    answer = ask("trail", west, sent(worlds[0]), "--data", east).stdout
    assert f"in {east} event {dropped.lsn}, Dropped, came from message" in answer


def test_messages_are_found_by_a_header_too(line: Line, tmp_path: Path) -> None:
    west, east = both(line, tmp_path)
    answer = ask("trail", west, "--data", east, "--header", "no=such")
    assert answer.exit_code != 0


@pytest.mark.parametrize("option", [["--svg"], ["--mermaid"], ["--archive", "x"]])
def test_what_is_about_one_journal_is_refused(
    option: Sequence[str], line: Line, tmp_path: Path
) -> None:
    west, east = both(line, tmp_path)
    answer = ask("trail", west, 1, "--data", east, *option)
    assert answer.exit_code == 2
    assert f"{option[0]} is for one data directory" in answer.stderr


def test_the_same_broker_twice_is_refused(line: Line, tmp_path: Path) -> None:
    west, _ = both(line, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(west, copy)
    for command in (["trail", west, 1], ["audit", west]):
        answer = ask(*command, "--data", copy)
        assert answer.exit_code != 0
        assert "they are of one broker" in answer.stderr


# ---- audit


def test_what_one_sent_the_other_got(line: Line, tmp_path: Path) -> None:
    west, east = both(line, tmp_path)
    answer = ask("audit", west, "--data", east)
    assert answer.exit_code == 0, answer.output
    assert "2 messages came from one to another, each of them once" in answer.stdout
    told = json.loads(ask("audit", west, "--data", east, "--json").stdout)
    assert (told["ok"], told["arrived"], told["findings"]) == (True, 2, [])
    assert [each["data"] for each in told["journals"]] == [str(west), str(east)]


def test_a_message_that_is_nowhere_is_found(line: Line, tmp_path: Path) -> None:
    """The other journal ends before it came."""
    send(line.here, "orders", b"lost")
    line.settle()
    west, east = both(line, tmp_path)
    world = line.there
    at = world.events_named("Routed")[-1].lsn - 1
    shutil.rmtree(east)
    del world.journal[at:]
    written(world, east)
    answer = ask("audit", west, "--data", east)
    assert answer.exit_code == 1
    assert "lost" in answer.stdout
    assert "was accepted at link 'to-east'" in answer.stdout


def test_a_message_that_came_twice_is_found(tmp_path: Path) -> None:
    """As the ids of duplicates were forgotten meanwhile."""
    worlds = DoorWorld(), DoorWorld()
    worlds[1].settings(all={"id_cache_size": 0})
    first = Line(OUT, here=worlds[0], there=worlds[1]).settle()
    send(worlds[0], "orders", b"x")
    lose_outcomes(first)
    west, east = both(Line(OUT, here=worlds[0], there=worlds[1]).settle(), tmp_path)
    answer = ask("audit", west, "--data", east)
    assert answer.exit_code == 1
    assert "left 1 queue, and came 2 times" in answer.stdout


def test_a_message_that_a_consumer_gave_back_may_come_again(tmp_path: Path) -> None:
    """It goes to a direct address, where nobody accepted it."""
    here, there = DoorWorld(), DoorWorld()
    table = (DistributionEntry(prefix="wp", waypoint=True),)
    here.ok(ChangeDistributions(table, "stored", (Waypoint("wp"),)))
    there.ok(CreateQueue("wp", QueueDefinition("wp")))
    line = Line(AutoLink("back", "wp", "wp", is_out=False, phase=1), here=here, there=there)
    line.settle()
    client = Peer(here).open("client")
    client.receiver(1, "wp", 10)
    send(there, "wp", b"x")
    for state in (Released(), Accepted()):
        line.settle()
        client.settle()
        ((transfer, _),) = client.deliveries()
        client.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=state))
    line.settle()
    assert len(here.events_named("Forwarded")) == 2
    west, east = both(line, tmp_path)
    answer = ask("audit", west, "--data", east)
    assert answer.exit_code == 0, answer.output


def test_a_message_that_never_left_is_found(line: Line, tmp_path: Path) -> None:
    west, east = both(line, tmp_path)
    shutil.rmtree(west)
    del line.here.journal[line.here.events_named("Routed")[0].lsn :]
    written(line.here, west)
    answer = ask("audit", west, "--data", east)
    assert answer.exit_code == 1
    assert "and never left" in answer.stdout


def test_a_broker_that_was_not_named_is_a_note(line: Line, tmp_path: Path) -> None:
    west, _ = both(line, tmp_path)
    third = _stranger(tmp_path)
    answer = ask("audit", west, "--data", third)
    assert answer.exit_code == 0, answer.output
    assert "link 'to-east'" in answer.stderr
    assert f"1 message came from the data directory {THERE}" in answer.stderr


def test_an_audit_of_several_has_no_span(line: Line, tmp_path: Path) -> None:
    west, east = both(line, tmp_path)
    answer = ask("audit", west, "--data", east, "--from", "5")
    assert answer.exit_code == 2
    assert "--from is for one data directory" in answer.stderr
    assert (west / JOURNAL).is_dir()


def test_a_message_to_a_direct_address_is_followed_and_counted_too(tmp_path: Path) -> None:
    west, east = DoorWorld(), DoorWorld()
    west.ok(ChangeDistributions((DistributionEntry(prefix="work"),)))
    line = Line(AutoLink("work", "work", "jobs", is_out=True), here=west, there=east).settle()
    for body in (b"x", b"y"):
        send(west, "work", body)
        line.settle()
    first, second = (each.lsn for each in west.events_named("Forwarded"))
    number = east.events_named("Routed")[0].lsn
    folders = both(line, tmp_path)
    answer = ask("trail", folders[0], first, "--data", folders[1]).stdout
    assert f"message {number} came from message {first} in {folders[0]}" in answer
    answer = ask("audit", folders[0], "--data", folders[1]).stdout
    assert "2 messages came from one to another, each of them once" in answer
    shutil.rmtree(folders[1])
    del east.journal[east.events_named("Routed")[1].lsn - 1 :]
    written(east, folders[1])
    found = ask("audit", folders[0], "--data", folders[1])
    assert found.exit_code == 1
    assert f"message {second} of {folders[0]} was accepted at link 'work'" in found.stdout
