"""When a message's time has passed, and where it goes then."""

from daybook.engine.commands import DeleteAddress, ExpireDue, PauseQueue
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.messages.headers import first
from daybook.engine.state.timers import PRUNE_MIN
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.worlds.deaths import other_headers


def soon(world: World, seconds: float = 1) -> int:
    """Milliseconds of a moment that is so many seconds away."""
    return world.now // 1000 + int(seconds * 1000)


def test_expired_at_delivery_and_dropped(world: World) -> None:
    world.send("q", b"old", expires=soon(world))
    world.send("q", b"new")
    world.sleep(1)
    assert world.ready("q") == [b"old", b"new"]
    world.attach(world.connect(), "q")
    assert world.taken_bodies() == [b"new"]
    (expired,) = world.events_named("Expired")
    assert (expired.reason, expired.row[events.RELATED]) == (reasons.NO_EXPIRY_ADDRESS, 0)
    assert expired.row[events.DELIVERY_COUNT] == 0
    assert world.queue("q").expired == 1


def test_a_clock_that_once_ran_ahead_expires_nothing_that_comes_later(world: World) -> None:
    world.sleep(30 * 86_400)
    world.send("q", b"from the future")
    world.sleep(-30 * 86_400)
    world.send("q", b"in time", expires=soon(world, 60))
    world.ok(ExpireDue())
    world.restart()
    world.ok(ExpireDue())
    world.attach(world.connect(), "q")
    assert world.taken_bodies() == [b"from the future", b"in time"]


def test_a_moment_too_early_it_is_delivered(world: World) -> None:
    world.send("q", b"x", expires=soon(world))
    world.sleep(0.999)
    world.ok(ExpireDue())
    world.attach(world.connect(), "q")
    assert world.taken_bodies() == [b"x"]


def test_the_scan_finds_it_without_consumers_and_in_paused_queues(world: World) -> None:
    world.send("q", b"x", expires=soon(world))
    world.send("p", b"x", expires=soon(world))
    world.ok(PauseQueue("p"))
    world.sleep(1)
    assert world.ok(ExpireDue()) == 0
    assert world.bodies("q") == world.bodies("p") == []


def test_the_scan_finds_it_in_the_middle(world: World) -> None:
    for number in range(200):
        world.send("q", b"%d" % number, expires=soon(world) if number % 4 else 0)
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.ready("q") == [b"%d" % number for number in range(0, 200, 4)]
    consumer = world.attach(world.connect(), "q")
    assert len(world.taken(consumer)) == 50


def test_the_scan_has_a_limit_and_says_what_is_left(world: World) -> None:
    for _ in range(5):
        world.send("q", b"x", expires=soon(world))
    world.send("q", b"y", expires=soon(world, 10))
    world.sleep(1)
    world.ok(ExpireDue(3))
    assert world.broker.work.more_due
    assert len(world.bodies("q")) == 3
    world.ok(ExpireDue(3))
    assert not world.broker.work.more_due
    assert world.bodies("q") == [b"y"]


def test_in_flight_it_does_not_expire_until_it_comes_back(world: World) -> None:
    world.send("q", b"x", expires=soon(world))
    consumer = world.attach(world.connect(), "q")
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.in_flight("q") == [b"x"]
    world.detach(consumer)
    assert world.ready("q") == [b"x"]
    world.ok(ExpireDue())
    assert world.bodies("q") == []


def test_a_late_acknowledgement_is_good(world: World) -> None:
    message = world.send("q", b"x", expires=soon(world))
    consumer = world.attach(world.connect(), "q")
    world.sleep(1)
    world.ok(ExpireDue())
    world.ack(consumer, message)
    assert world.events_named("Expired") == []


def test_rejected_and_expired_it_is_not_delivered_again(world: World) -> None:
    message = world.send("q", b"x", expires=soon(world))
    consumer = world.attach(world.connect(), "q")
    world.taken()
    world.sleep(1)
    world.nack(consumer, message)
    assert world.taken() == []
    (expired,) = world.events_named("Expired")
    assert expired.row[events.DELIVERY_COUNT] == 1


def test_to_the_expiry_address_as_a_copy(world: World) -> None:
    world.settings(q={"expiry_address": "late"})
    message = world.send("q", b"x", expires=soon(world), headers={"expires": "1", "a": "b"})
    world.sleep(5)
    world.ok(ExpireDue())
    (expired,) = world.events_named("Expired")
    copy = world.journal[expired.lsn]
    assert (copy.name, copy.reason, copy.row[events.RELATED]) == ("Routed", reasons.EXPIRY, message)
    assert expired.row[events.RELATED] == copy.lsn
    (entry,) = world.queue("late").entries.values()
    assert other_headers(entry.message.headers) == {
        "a": "b",
        "_AMQ_ORIG_ADDRESS": "q",
        "_AMQ_ORIG_QUEUE": "q",
        "_AMQ_ORIG_MESSAGE_ID": str(message),
        "_AMQ_ORIG_ROUTING_TYPE": "0",
        "_AMQ_ACTUAL_EXPIRY": str(world.now // 1000),
    }
    assert entry.message.expires == 0


def test_queues_of_the_expiry_address_are_exempt(world: World) -> None:
    world.settings(all={"expiry_address": "late"})
    world.send("late", b"x", expires=soon(world))
    world.sleep(1)
    world.ok(ExpireDue())
    world.attach(world.connect(), "late")
    assert world.taken_bodies() == [b"x"]


def test_expiry_goes_by_the_address_that_was_sent_to(world: World) -> None:
    world.settings(a={"expiry_address": "late.a"}, b={"expiry_address": "late.b"})
    connection = world.connect()
    consumer = world.attach(connection, "a", routing_type=MULTICAST, durable_name="d")
    world.detach(consumer)
    world.send("a", b"x", expires=soon(world), routing_type=MULTICAST)
    world.attach(connection, "b", durable_name="d", credit_messages=0, credit_bytes=0)
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.ready("late.a") == [b"x"]


def test_each_subscription_expires_its_own(world: World) -> None:
    world.settings(news={"expiry_address": "late"})
    for name in ("s1", "s2"):
        world.ok(create_queue(name, "news", MULTICAST))
    world.send("news", b"x", expires=soon(world))
    world.sleep(1)
    world.ok(ExpireDue())
    origins = [
        first(entry.message.headers, "_AMQ_ORIG_QUEUE")
        for entry in world.queue("late").entries.values()
    ]
    assert origins == ["s1", "s2"]


def test_an_expiry_address_that_takes_nothing(world: World) -> None:
    world.send("q", b"x", expires=soon(world))
    world.settings(
        q={"expiry_address": "late", "dead_letter_policy": "DROP"},
        late={"auto_create_addresses": False},
    )
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.events_named("Expired")[0].reason == reasons.UNROUTABLE


def test_what_was_deleted_does_not_expire(world: World) -> None:
    world.send("q", b"x", expires=soon(world))
    world.ok(DeleteAddress("q", force=True))
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.events_named("Expired") == []


def test_expiry_survives_a_restart(world: World) -> None:
    world.send("q", b"x", expires=soon(world))
    world.attach(world.connect(), "q")
    world.restart()
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.bodies("q") == []


def test_selective_consumers_do_not_get_what_has_expired(world: World) -> None:
    world.send("q", b"old", expires=soon(world), headers={"k": "1"})
    world.send("q", b"new", headers={"k": "1"})
    world.sleep(1)
    world.attach(world.connect(), "q", filter="k=1")
    assert world.taken_bodies() == [b"new"]


def test_the_list_of_what_will_expire_does_not_outgrow_the_messages(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    kept = world.send("p", b"kept", expires=soon(world, 1000))
    for _ in range(PRUNE_MIN * 2):
        world.ack(consumer, world.send("q", b"x", expires=soon(world, 1000)))
    returned = world.send("q", b"y", expires=soon(world, 1000))
    for _ in range(9):
        world.nack(consumer, returned)
    assert len(world.state.expiring.heap) <= PRUNE_MIN + 1
    world.detach(consumer)
    world.sleep(1000)
    for _ in range(3):
        world.ok(ExpireDue())
    assert [event.row[events.MESSAGE] for event in world.events_named("Expired")] == [
        kept,
        returned,
    ]


def test_the_scan_goes_on_behind_what_is_in_flight(world: World) -> None:
    world.send("q", b"x", expires=soon(world))
    world.attach(world.connect(), "q", credit_messages=1, credit_bytes=0)
    world.send("q", b"y", expires=soon(world))
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.bodies("q") == world.in_flight("q") == [b"x"]
