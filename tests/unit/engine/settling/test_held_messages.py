"""Messages without a destination are held: not delivered, counted, and never lost (ADR 25)."""

from collections.abc import Callable

import pytest

from daybook.engine.commands import (
    CreateAddress,
    DeleteQueue,
    ExpireDue,
    PurgeQueue,
    ReleaseHeld,
    RetryHeld,
    Send,
)
from daybook.engine.facts import reasons
from daybook.engine.messages.headers import as_dict
from daybook.engine.refusals import Code
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World

HOPELESS = {"max_delivery_attempts": 1, "dead_letter_address": "dead"}


def killed(world: World, count: int = 3, queue: str = "q", **values: object) -> None:
    """So many messages whose last attempt fails, in order."""
    for number in range(count):
        world.send(queue, b"%d" % number, **values)
    connection = world.connect()
    consumer = world.attach(connection, queue)
    for delivery in world.taken(consumer):
        world.nack(consumer, delivery.message)
    world.close(connection)


def taken_name(world: World) -> None:
    """The name of the queue for dead letters is on another address, from before it was kept."""
    world.send("elsewhere", b"x", queue="dead")
    world.settings(q=HOPELESS)


def no_address(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 1})


def not_created(world: World) -> None:
    world.settings(q=HOPELESS, dead={"auto_create_queues": False})


def filtered(world: World) -> None:
    world.ok(create_queue("picky", "dead", filter="kind=big"))
    world.settings(q=HOPELESS)


def only_multicast(world: World) -> None:
    world.ok(CreateAddress("dead", ("multicast",)))
    world.settings(q=HOPELESS, dead={"auto_create_addresses": False})


WAYS = (taken_name, no_address, not_created, filtered, only_multicast)


@pytest.mark.parametrize("spoil", WAYS)
@pytest.mark.parametrize("persistent", [True, False])
def test_a_dead_letter_without_a_way_is_held(
    world: World, spoil: Callable[[World], None], persistent: bool
) -> None:
    spoil(world)
    killed(world, persistent=persistent)
    queue = world.queue("q")
    assert (queue.held_count, queue.ready_count, queue.message_count) == (3, 0, 3)
    assert world.held("q") == [b"0", b"1", b"2"]
    assert world.events_named("DeadLettered") == []
    world.attach(world.connect(), "q")
    world.retry()
    assert world.taken() == []
    assert world.held("q") == [b"0", b"1", b"2"]
    world.check()
    world.restart()
    assert world.held("q") == ([b"0", b"1", b"2"] if persistent else [])


@pytest.mark.parametrize("spoil", WAYS)
def test_what_is_held_outlives_a_restart(world: World, spoil: Callable[[World], None]) -> None:
    spoil(world)
    killed(world, priority=7)
    world.restart()
    world.attach(world.connect(), "q")
    assert world.taken() == []
    assert world.held("q") == [b"0", b"1", b"2"]
    assert {entry.message.priority for entry in world.entries("q")} == {7}
    assert world.counts("q") == {b"0": 1, b"1": 1, b"2": 1}


def test_the_event_says_why_and_people_are_told_once(world: World) -> None:
    taken_name(world)
    killed(world)
    held = world.events_named("Held")
    assert [event.reason for event in held] == [reasons.DEAD_LETTER] * 3
    assert held[0].decoded.text.startswith("queue 'dead' is on address 'elsewhere'")
    (notice,) = [text for text in world.broker.notices if "cannot leave" in text]
    assert notice.startswith("queue 'q' holds 1 messages that cannot leave: queue 'dead' is")
    world.sleep(61)
    killed(world)
    assert len([text for text in world.broker.notices if "cannot leave" in text]) == 2


@pytest.mark.parametrize("paged", [False, True])
def test_they_leave_as_soon_as_the_address_takes_them(paged: bool) -> None:
    world = PagedWorld(window=1, lag=0) if paged else World()
    taken_name(world)
    killed(world, 5)
    assert not [event for event in world.events_named("DeadLettered")]
    world.ok(DeleteQueue("dead", force=True))
    world.retry()
    assert world.bodies("dead") == [b"%d" % number for number in range(5)]
    assert world.queue("q").message_count == world.queue("q").held_count == 0
    assert world.queue("q").dead_lettered == 5
    (first, *_) = world.entries("dead")
    assert as_dict(first.message.headers)["_AMQ_ORIG_QUEUE"] == "q"
    world.check()


def test_a_new_dead_letter_address_frees_them(world: World) -> None:
    no_address(world)
    killed(world)
    world.settings(q=HOPELESS)
    world.retry()
    assert world.bodies("dead") == [b"0", b"1", b"2"]


def test_a_filter_that_takes_some_frees_those(world: World) -> None:
    filtered(world)
    killed(world, 2)
    killed(world, 1, headers={"kind": "big"})
    assert world.bodies("dead" if "dead" in world.state.queue_by_name else "picky") == [b"0"]
    assert world.held("q") == [b"0", b"1"]
    world.ok(create_queue("all", "dead"))
    world.retry()
    assert sorted(world.bodies("all") + world.bodies("picky")) == [b"0", b"0", b"1"]


def test_a_walk_is_done_in_slices_and_begins_anew_with_each_change(world: World) -> None:
    no_address(world)
    killed(world, 5)
    world.retry()
    world.settings(q=HOPELESS)
    world.ok(RetryHeld(2))
    assert world.broker.retry_due
    assert world.bodies("dead") == [b"0", b"1"]
    world.retry()
    assert world.bodies("dead") == [b"%d" % number for number in range(5)]
    lsn = world.broker.lsn
    world.retry()
    assert world.broker.lsn == lsn
    assert world.state.holding == {}


def test_more_attempts_make_them_ready_again(world: World) -> None:
    no_address(world)
    killed(world)
    world.settings(q={"max_delivery_attempts": 2})
    world.retry()
    assert world.ready("q") == [b"0", b"1", b"2"]
    assert {event.reason for event in world.events_named("Released")} == {reasons.CONFIGURATION}
    world.attach(world.connect(), "q")
    assert [(each.attempt, each.redelivered) for each in world.taken()] == [(2, True)] * 3


def test_an_administrator_releases_them_in_their_places(world: World) -> None:
    no_address(world)
    killed(world)
    world.send("q", b"new")
    assert world.ok(ReleaseHeld("q", limit=2)) > 0
    assert world.ready("q") == [b"0", b"1", b"new"]
    assert world.ok(ReleaseHeld("q")) > 0
    assert world.ok(ReleaseHeld("q")) == 0
    assert world.ready("q") == [b"0", b"1", b"2", b"new"]
    assert world.refused(ReleaseHeld("none")).code is Code.NOT_FOUND


def test_purge_and_forced_deletion_remove_them(world: World) -> None:
    no_address(world)
    killed(world)
    assert world.refused(DeleteQueue("q")).code is Code.NOT_ALLOWED
    world.ok(PurgeQueue("q", limit=2))
    assert world.held("q") == [b"2"]
    world.ok(DeleteQueue("q", force=True))
    assert "q" not in world.state.queue_by_name
    world.check()


def test_the_configuration_may_say_drop(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_policy": "DROP"})
    killed(world)
    assert world.bodies("q") == []
    found = {event.reason for event in world.events_named("DeadLettered")}
    assert found == {reasons.NO_DEAD_LETTER_ADDRESS}


def test_what_was_held_is_dropped_when_the_configuration_says_so(world: World) -> None:
    taken_name(world)
    killed(world)
    world.settings(q={**HOPELESS, "dead_letter_policy": "DROP"})
    world.retry()
    assert world.bodies("q") == []
    assert {event.reason for event in world.events_named("DeadLettered")} == {reasons.UNROUTABLE}


def test_an_expired_message_without_a_way_is_held_until_there_is_one(world: World) -> None:
    world.settings(q={"expiry_address": "late"}, late={"auto_create_queues": False})
    world.send("q", b"x", expires=world.now // 1000 + 10)
    world.send("q", b"y", expires=world.now // 1000 + 10)
    world.sleep(1)
    world.attach(world.connect(), "q")
    world.ok(ExpireDue())
    assert world.taken() == []
    assert world.held("q") == [b"x", b"y"]
    assert {event.reason for event in world.events_named("Held")} == {reasons.EXPIRY}
    world.ok(ExpireDue())
    assert len(world.events_named("Held")) == 2
    world.ok(create_queue("late", "late"))
    world.retry()
    assert world.bodies("late") == [b"x", b"y"]
    assert world.queue("q").expired == 2


def test_without_an_expiry_address_a_message_still_ends_with_its_time(world: World) -> None:
    world.send("q", b"x", expires=world.now // 1000 + 10)
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.bodies("q") == []
    assert world.events_named("Held") == []


def test_no_client_takes_the_name_of_the_queue_for_dead_letters(world: World) -> None:
    world.settings(q={**HOPELESS, "expiry_address": "late"})
    connection = world.connect()
    for name in ("dead", "late"):
        refusal = world.refused(Send(connection, "x", b"", b"", queue=name))
        assert refusal.code is Code.NOT_ALLOWED
        assert f"queue '{name}' cannot be created on address 'x'" in refusal.text
        assert world.refused(create_queue(name, "x")).code is Code.NOT_ALLOWED
    world.send("dead", b"to its own address", queue="dead")
    killed(world, 1)
    assert world.bodies("dead") == [b"to its own address", b"0"]


def test_a_passing_subscription_is_no_place_to_keep_dead_letters(world: World) -> None:
    """A listener on the dead letter address gets them, and so does a queue that stays."""
    world.settings(q=HOPELESS)
    connection = world.connect()
    listener = world.attach(connection, "dead", routing_type="multicast")
    sent = world.send("q", b"0")
    consumer = world.attach(connection, "q")
    world.nack(consumer, sent)
    assert world.taken_bodies(listener) == [b"0"]
    world.close(connection)
    assert world.bodies("dead") == [b"0"]


def test_held_messages_page_and_come_back_whole(world: World) -> None:
    paged = PagedWorld(window=1, lag=0)
    no_address(paged)
    for priority in (3, 9):
        killed(paged, 4, priority=priority, headers={"k": "v"})
    paged.ok(ReleaseHeld("q"))
    killed(paged, 1)
    paged.check()
    assert paged.queue("q").held_count + paged.queue("q").ready_count == 9
