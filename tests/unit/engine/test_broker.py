"""The door: every command is answered, and dispatch does what was left to do."""

import pytest

from daybook.engine import commands
from daybook.engine.broker import HANDLERS, Broker
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.state import State
from tests.support.world import World

ENGINE = "daybook.engine"


def test_every_command_has_an_answer() -> None:
    known = {
        each for each in commands.Command.__subclasses__() if each.__module__.startswith(ENGINE)
    }
    assert set(HANDLERS) == known


def test_many_commands_and_one_dispatch(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    for number in range(5):
        world.handle(commands.Send(0, "q", b"", b"%d" % number))
    assert world.broker.effects == []
    world.turn()
    assert world.taken_bodies(consumer) == [b"0", b"1", b"2", b"3", b"4"]
    names = [event.name for event in world.journal[-10:]]
    assert names == ["Routed"] * 5 + ["Delivered"] * 5


def test_dispatch_with_nothing_to_do_does_nothing() -> None:
    broker = Broker(State())
    broker.dispatch(1)
    assert broker.take() is None
    assert broker.effects == []


def test_a_full_disk_takes_no_messages_and_lets_the_rest_go_on(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "q")
    message = world.send("q", b"x")
    world.broker.report_disk("the disk is full; free some space")
    refusal = world.refused(commands.Send(connection, "q", b"", b"y"))
    assert (refusal.code, refusal.text) == (Code.BLOCKED, "the disk is full; free some space")
    world.ack(consumer, message)
    for transaction in ("sends", "acks"):
        world.begin(connection, transaction)
    world.broker.report_disk("")
    world.send("other", b"y", connection, transaction="sends")
    world.broker.report_disk("the disk is full; free some space")
    world.commit(connection, "acks")
    answer = world.handle(commands.Commit(connection, "sends"))
    assert isinstance(answer, Refusal)
    assert answer.code is Code.BLOCKED
    world.broker.report_disk("")
    world.commit(connection, "sends")
    assert world.bodies("other") == [b"y"]
    world.send("q", b"z")
    assert world.taken_bodies()[-1] == b"z"


@pytest.mark.parametrize("persistent", [True, False])
def test_the_answer_to_a_send_is_what_it_waits_for(world: World, persistent: bool) -> None:
    answer = world.send("q", b"x", persistent=persistent)
    assert answer == (world.events_named("Routed")[0].lsn if persistent else 0)
