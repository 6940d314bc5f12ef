"""Messages that a consumer returns as not for itself: others get them, and it does not."""

from typing import Any

import pytest

from daybook.engine.commands import Settle
from daybook.engine.facts import reasons
from daybook.engine.facts.settlements import FAILED, REJECTED, RELEASED
from daybook.engine.queues.entry import REFUSED_MAX, Taker
from daybook.engine.state.digest import digest
from tests.support.topology import create_queue
from tests.support.world import World


def refuse(world: World, consumer: int, message: int, outcome: int = RELEASED, **more: Any) -> None:
    world.ok(Settle(consumer, message, outcome=outcome, not_here=True, **more))


@pytest.mark.parametrize("outcome", [RELEASED, FAILED])
def test_others_get_it_and_the_consumer_does_not(world: World, outcome: int) -> None:
    connection = world.connect()
    first = world.attach(connection, "q")
    message = world.send("q", b"x")
    refuse(world, first, message, outcome)
    assert world.taken()[1:] == []
    world.send("q", b"y")
    assert [(each.consumer, each.body) for each in world.taken()] == [(first, b"y")]
    second = world.attach(connection, "q")
    (again,) = world.taken()
    assert (again.consumer, again.message) == (second, message)
    assert again.attempt == (1 if outcome == RELEASED else 2)
    world.ack(second, message)
    world.check()


def test_without_saying_so_it_comes_back(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    world.ok(Settle(consumer, message, outcome=RELEASED))
    assert [each.message for each in world.taken()] == [message, message]


def test_what_all_refused_waits_for_another(world: World) -> None:
    connection = world.connect()
    consumers = [world.attach(connection, "q") for _ in range(3)]
    message = world.send("q", b"x")
    for _ in consumers:
        taker = world.taken()[-1].consumer
        refuse(world, taker, message)
    assert world.taken() == []
    assert world.ready("q") == [b"x"]
    world.detach(consumers[0])
    assert world.taken() == []
    another = world.attach(connection, "q")
    assert [each.consumer for each in world.taken()] == [another]
    world.check()


def test_it_is_forgotten_with_the_consumer_and_by_a_restart(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    refuse(world, consumer, message)
    assert world.state.consumers[consumer].refused == {message: None}
    assert world.queue("q").selective_count == 1
    world.check()
    world.restart()
    assert world.queue("q").selective_count == 0
    world.taken()
    world.attach(world.connect(), "q")
    assert [each.message for each in world.taken()] == [message]


def test_it_is_a_part_of_the_state(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    refuse(world, consumer, message)
    (event,) = world.events_named("Returned")
    assert event.decoded.not_here
    world.check()
    with_it = digest(world.state)
    world.state.consumers[consumer].refused.clear()
    assert digest(world.state) != with_it
    world.state.consumers[consumer].refuse(message)


def test_with_a_filter_of_its_own(world: World) -> None:
    consumer = world.attach(world.connect(), "q", filter="color=blue")
    blue = world.send("q", b"1", headers={"color": "blue"})
    world.send("q", b"2", headers={"color": "red"})
    refuse(world, consumer, blue)
    world.send("q", b"3", headers={"color": "blue"})
    assert world.taken_bodies(consumer) == [b"1", b"3"]


def test_in_a_transaction_it_holds_from_the_commit_on(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "q")
    message = world.send("q", b"x")
    world.begin(connection)
    refuse(world, consumer, message, transaction="t")
    assert not world.state.consumers[consumer].refused
    world.commit(connection)
    assert [each.message for each in world.taken()] == [message]
    assert world.state.consumers[consumer].refused == {message: None}


def test_a_message_of_a_group_goes_to_another_consumer(world: World) -> None:
    connection = world.connect()
    first = world.attach(connection, "q")
    message = world.send("q", b"x", headers={"JMSXGroupID": "g"})
    assert [each.consumer for each in world.taken()] == [first]
    second = world.attach(connection, "q")
    refuse(world, first, message)
    taken = world.taken()
    assert all(each.consumer == second for each in taken)
    world.check()


def test_of_an_exclusive_queue_it_waits_for_the_next_holder(world: World) -> None:
    world.ok(create_queue("q", "q", exclusive=True))
    connection = world.connect()
    first = world.attach(connection, "q")
    message = world.send("q", b"x")
    second = world.attach(connection, "q")
    world.taken()
    refuse(world, first, message)
    assert world.taken() == []
    world.detach(first)
    assert [each.consumer for each in world.taken()] == [second]


def test_what_is_rejected_dies_and_what_is_held_is_remembered(world: World) -> None:
    world.settings(q={"dead_letter_address": "dead"})
    consumer = world.attach(world.connect(), "q")
    refuse(world, consumer, world.send("q", b"x"), REJECTED)
    assert world.ready("dead") == [b"x"]
    assert not world.state.consumers[consumer].refused


def test_the_oldest_is_forgotten() -> None:
    taker = Taker(1, 2, "guest")
    assert not taker.is_selective
    for number in range(REFUSED_MAX):
        taker.refuse(number)
    taker.refuse(0)
    assert len(taker.refused) == REFUSED_MAX
    taker.refuse(REFUSED_MAX)
    assert len(taker.refused) == REFUSED_MAX
    assert 1 not in taker.refused
    assert 0 in taker.refused
    assert taker.is_selective
    assert not Taker(3, 4, "guest").refused


def test_a_lost_connection_refuses_nothing(world: World) -> None:
    connection = world.connect()
    world.attach(connection, "q")
    message = world.send("q", b"x")
    world.taken()
    world.close(connection, reasons.DISCONNECTED)
    world.attach(world.connect(), "q")
    assert [each.message for each in world.taken()] == [message]
