"""Changes of existing queues and addresses, and their administrators."""

from typing import Any

import pytest

from daybook.engine.commands import (
    Administer,
    Attach,
    CreateQueue,
    DeleteUnused,
    PauseAddress,
    PauseQueue,
    PurgeQueue,
    ResumeAddress,
    ResumeQueue,
    UpdateAddress,
    UpdateQueue,
)
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, QueueDefinition
from daybook.engine.refusals import Code
from tests.support.topology import create_queue
from tests.support.world import World


def update(world: World, name: str, **changes: bool | int | str) -> int:
    return world.ok(UpdateQueue(name, changes))


# ---- attributes


def test_a_filter_decides_about_what_comes_after_it(world: World) -> None:
    world.send("q", b"before")
    lsn = update(world, "q", filter="kind=big")
    (updated,) = world.events_named("QueueUpdated")
    assert (updated.lsn, updated.reason) == (lsn, reasons.ADMINISTRATION)
    assert updated.decoded.changed == ("filter",)
    world.send("q", b"small")
    world.send("q", b"big", headers={"kind": "big"})
    assert world.bodies("q") == [b"before", b"big"]
    world.restart()
    world.send("q", b"small")
    assert world.bodies("q") == [b"before", b"big"]
    update(world, "q", filter="")
    world.send("q", b"small")
    assert world.bodies("q") == [b"before", b"big", b"small"]
    world.check()


def test_a_routing_type_that_the_address_lacks_is_added(world: World) -> None:
    world.send("q", b"x")
    update(world, "q", routing_type=MULTICAST)
    assert world.state.address_by_name["q"].definition.routing_types == (ANYCAST, MULTICAST)
    world.send("q", b"y", routing_type=MULTICAST)
    assert world.bodies("q") == [b"x", b"y"]
    world.check()


def test_a_lower_limit_of_consumers_holds_for_the_next_one(world: World) -> None:
    connection = world.connect()
    for _ in range(2):
        world.attach(connection, "q")
    update(world, "q", max_consumers=1)
    assert "max-consumers is 1" in world.refused(Attach(connection, "q")).text
    assert len(world.queue("q").consumers) == 2


@pytest.mark.parametrize("kind", [{}, {"non_destructive": True}], ids=str)
def test_what_was_for_one_consumer_alone_is_for_all_again(kind: dict[str, Any]) -> None:
    """Also where rules choose the consumers, which once gave everything to the first one."""
    world = World()
    world.ok(create_queue("q", "q", exclusive=True, **kind))
    connection = world.connect()
    first, second = (
        world.attach(connection, "q", filter="kind=big", credit_messages=2, credit_bytes=0)
        for _ in range(2)
    )
    for body in (b"1", b"2", b"3", b"4"):
        world.send("q", body, headers={"kind": "big"})
    assert (world.taken_bodies(first), world.taken_bodies(second)) == ([b"1", b"2"], [])
    world.ok(UpdateQueue("q", {"exclusive": False}))
    assert world.taken_bodies(second) == ([b"1", b"2"] if kind else [b"3", b"4"])
    world.check()


def test_exclusive_begins_and_ends(world: World) -> None:
    connection = world.connect()
    first, second = (world.attach(connection, "q") for _ in range(2))
    update(world, "q", exclusive=True)
    for _ in range(4):
        world.send("q", b"x")
    assert {each.consumer for each in world.taken()} == {first}
    update(world, "q", exclusive=False)
    for _ in range(4):
        world.send("q", b"x")
    assert {each.consumer for each in world.taken()} == {first, second}


def test_a_lifetime_can_be_given_and_taken(world: World) -> None:
    world.ok(create_queue("q", "q"))
    world.detach(world.attach(world.connect(), "q"))
    update(world, "q", auto_delete=True, auto_delete_delay=1000)
    world.detach(world.attach(world.connect(), "q"))
    world.ok(DeleteUnused())
    world.sleep(1)
    update(world, "q", auto_delete=False)
    world.restart()
    world.ok(DeleteUnused())
    update(world, "q", auto_delete=True)
    assert world.queue("q").left_at == 0
    world.detach(world.attach(world.connect(), "q"))
    world.sleep(1)
    world.ok(DeleteUnused())
    assert "q" not in world.state.queue_by_name
    world.check()


def test_what_is_so_already_changes_nothing(world: World) -> None:
    world.ok(create_queue("q", "q", max_consumers=3))
    lsn = world.broker.lsn
    assert update(world, "q", max_consumers=3, filter="") == 0
    assert world.broker.lsn == lsn


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("none", {"filter": ""}, "there is no queue 'none'"),
        ("q", {"durable": False}, "durable of a queue that exists cannot change; these can: rout"),
        ("q", {"owner": 3}, "owner of a queue"),
        ("q", {"filter": "rubbish"}, "the filter is wrong"),
        ("q", {"filter": 3}, "filter cannot be 3"),
        ("q", {"routing_type": "unicast"}, "routing-type cannot be 'unicast'"),
        ("q", {"max_consumers": -2}, "max-consumers cannot be -2"),
        ("q", {"exclusive": 1}, "exclusive cannot be 1"),
        ("wild", {"routing_type": ANYCAST}, "it must be multicast only"),
        ("temporary", {"filter": ""}, "is temporary"),
    ],
)
def test_what_cannot_change_is_refused(
    world: World, name: str, changes: dict[str, bool | int | str], words: str
) -> None:
    world.ok(create_queue("q", "q"))
    world.ok(create_queue("wild", "a.*", MULTICAST))
    consumer = world.attach(world.connect(), "news", routing_type=MULTICAST)
    temporary = world.state.consumers[consumer].queue.name
    name = temporary if name == "temporary" else name
    assert words in world.refused(UpdateQueue(name, changes)).text


# ---- queues that are not enabled


def test_a_disabled_queue_is_passed_over_and_drained(world: World) -> None:
    for name in ("one", "two"):
        world.ok(create_queue(name, "q"))
        world.ok(create_queue(f"each.{name}", "news", MULTICAST))
    world.send("q", b"kept", queue="one")
    world.send("news", b"kept", routing_type=MULTICAST)
    update(world, "one", enabled=False)
    update(world, "each.one", enabled=False)
    for _ in range(3):
        world.send("q", b"x")
        world.send("news", b"x", routing_type=MULTICAST)
    assert (world.bodies("one"), len(world.bodies("two"))) == ([b"kept"], 3)
    assert (world.bodies("each.one"), len(world.bodies("each.two"))) == ([b"kept"], 4)
    world.attach(world.connect(), "q", queue="one")
    assert world.taken_bodies() == [b"kept"]
    world.restart()
    world.send("q", b"x")
    assert world.bodies("one") == [b"kept"]
    update(world, "one", enabled=True)
    for _ in range(2):
        world.send("q", b"y")
    assert world.bodies("one") == [b"kept", b"y"]


@pytest.mark.parametrize("values", [{}, {"queue": "q"}])
def test_where_all_are_disabled_messages_are_dropped_or_dead(
    world: World, values: dict[str, str]
) -> None:
    world.ok(create_queue("q", "q", enabled=False))
    world.send("q", b"x", **values)
    (dropped,) = world.events_named("Dropped")
    assert dropped.reason == reasons.DISABLED
    world.settings(all={"dead_letter_address": "DLA", "send_to_dla_on_no_route": True})
    world.send("q", b"y", duplicate_id="1", **values)
    world.send("q", b"y", duplicate_id="1", **values)
    assert world.bodies("DLA") == [b"y"]
    world.check()


# ---- paused addresses


def test_a_paused_address_takes_messages_and_delivers_none(world: World) -> None:
    connection = world.connect()
    world.attach(connection, "q")
    world.ok(PauseAddress("q"))
    world.send("q", b"1")
    world.attach(connection, "q", queue="later")
    world.send("q", b"2", queue="later")
    assert world.taken_bodies() == []
    world.restart()
    connection = world.connect()
    world.attach(connection, "q")
    world.attach(connection, "q", queue="later")
    assert world.taken_bodies() == []
    assert world.refused(PauseAddress("q")).code is Code.ALREADY_EXISTS
    world.ok(PauseQueue("later"))
    world.ok(ResumeAddress("q"))
    assert world.taken_bodies() == [b"1"]
    world.ok(ResumeQueue("later"))
    assert world.taken_bodies() == [b"2"]
    assert world.refused(ResumeAddress("q")).code is Code.ALREADY_EXISTS
    assert world.refused(ResumeAddress("none")).code is Code.NOT_FOUND
    world.check()


def test_a_paused_address_and_its_queues_wait_for_their_administrator(world: World) -> None:
    for name in ("q", "p"):
        world.send(name, b"x")
        world.ok(PurgeQueue(name))
        world.ok(PauseAddress(name))
    world.ok(DeleteUnused())
    assert set(world.state.queue_by_name) == {"q", "p"}


def test_routing_types_of_an_address_can_be_given_and_taken(world: World) -> None:
    world.ok(create_queue("q", "q"))
    world.ok(UpdateAddress("q", (MULTICAST, ANYCAST)))
    assert world.ok(UpdateAddress("q", (ANYCAST, MULTICAST))) == 0
    refusal = world.refused(UpdateAddress("q", (MULTICAST,)))
    assert "queue 'q' of address 'q' is anycast" in refusal.text
    assert world.refused(UpdateAddress("q", ())).code is Code.INVALID
    assert world.refused(UpdateAddress("x", (ANYCAST,))).code is Code.NOT_FOUND
    world.ok(create_queue("wild", "a.*", MULTICAST))
    assert world.refused(UpdateAddress("a.*", (ANYCAST,))).code is Code.INVALID


# ---- changes by the configuration


def test_a_configured_queue_becomes_what_the_configuration_says(world: World) -> None:
    world.send("q", b"x")
    wanted = QueueDefinition(name="q", filter="kind=big", max_consumers=1)
    lsn = world.broker.lsn
    world.ok(CreateQueue("q", wanted, adopts=True, configured=True))
    assert {event.reason for event in world.journal[lsn:]} == {reasons.CONFIGURATION}
    found = world.queue("q").definition
    assert (found.filter, found.max_consumers, found.auto_created) == ("kind=big", 1, False)
    assert world.ok(CreateQueue("q", wanted, adopts=True, configured=True)) == 0
    assert world.bodies("q") == [b"x"]


def test_what_cannot_conform_is_reported(world: World) -> None:
    world.ok(create_queue("q", "q"))
    wanted = QueueDefinition(name="q", durable=False)
    world.ok(CreateQueue("q", wanted, adopts=True, configured=True))
    assert world.queue("q").definition.durable
    (notice,) = world.broker.notices
    assert "queue 'q' differs from the configuration in durable" in notice
    world.refused(CreateQueue("elsewhere", wanted, adopts=True, configured=True))
    assert "in durable, address" in world.broker.notices[-1]


# ---- who it was


def test_who_asked_is_recorded_behind_what_it_led_to(world: World) -> None:
    world.send("q", b"x")
    request = '{"do":"purge-queue","queue":"q"}'
    lsn = world.ok(Administer("joe (uid 7)", request, PurgeQueue("q")))
    removed, administered = world.journal[-2:]
    assert (removed.name, administered.name) == ("Removed", "Administered")
    assert lsn == administered.lsn
    assert administered.row[10] == removed.lsn
    assert administered.decoded.by == "joe (uid 7)"
    assert administered.decoded.request == request
    assert world.ok(Administer("joe", request, PurgeQueue("q"))) == 0
    world.refused(Administer("joe", request, PurgeQueue("none")))
    world.ok(Administer("joe", "x" * 5000, PauseQueue("q")))
    assert world.journal[-1].decoded.request == "x" * 2000 + "..."
    world.check()
