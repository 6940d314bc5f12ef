"""The end of queues, addresses and diverts that the configuration no longer lists."""

from typing import Any

from daybook.engine.commands import (
    CreateAddress,
    CreateDivert,
    CreateQueue,
    DropUnlisted,
    PurgeQueue,
)
from daybook.engine.effects import Detached
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition, QueueDefinition
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.refusals import UNFINISHED
from daybook.engine.state.digest import digest
from tests.support.topology import create_queue
from tests.support.world import World, fold

DIVERT = DivertDefinition(name="d", address="a", forwarding_addresses=("b",))


def listed(name: str, address: str, **attributes: Any) -> CreateQueue:
    definition = QueueDefinition(name=name, **attributes)
    return CreateQueue(address, definition, adopts=True, configured=True)


def reload(
    addresses: tuple[str, ...] = (), queues: tuple[str, ...] = (), diverts: tuple[str, ...] = ()
) -> DropUnlisted:
    return DropUnlisted(frozenset(addresses), frozenset(queues), frozenset(diverts))


def forced(world: World, *kinds: str) -> None:
    world.settings(all={f"config_delete_{kind}": "FORCE" for kind in kinds})


def detached(world: World) -> list[Detached]:
    """The reasons told to consumers that the broker detached."""
    return [each for each in world.effects if isinstance(each, Detached)]


def test_by_default_everything_stays_and_the_log_says_so(world: World) -> None:
    world.ok(listed("q", "a"))
    world.ok(CreateDivert(DIVERT, configured=True))
    assert world.ok(reload()) == 0
    assert {"q"} <= world.state.queue_by_name.keys()
    assert {"d"} <= world.state.diverts.keys()
    (notice,) = world.broker.notices
    assert notice == (
        "the configuration lists these no more; they stay: divert 'd' (config-delete-diverts), "
        "queue 'q' (config-delete-queues), address 'a' (config-delete-addresses)"
    )


def test_what_is_listed_or_never_was_stays(world: World) -> None:
    forced(world, "queues", "addresses", "diverts")
    world.ok(listed("q", "a"))
    world.ok(CreateDivert(DIVERT, configured=True))
    world.ok(create_queue("by-hand", "c"))
    world.ok(CreateDivert(DivertDefinition(name="e", address="x", forwarding_addresses=("y",))))
    world.send("on-demand", b"x")
    assert world.ok(reload(("a",), ("q",), ("d",))) == 0
    assert {"q", "by-hand", "on-demand"} <= world.state.queue_by_name.keys()
    assert world.state.diverts.keys() == {"d", "e"}
    assert world.broker.notices == []


def test_force_deletes_a_queue_with_its_messages(world: World) -> None:
    forced(world, "queues")
    world.ok(listed("q", "a"))
    world.send("a", b"x")
    world.ok(reload(("a",)))
    assert "q" not in world.state.queue_by_name
    assert "a" in world.state.address_by_name
    (deleted,) = world.events_named("QueueDeleted")
    assert deleted.reason == reasons.CONFIGURATION
    assert [each.reason for each in world.events_named("Removed")] == [reasons.QUEUE_REMOVED]
    (notice,) = world.broker.notices
    assert notice == "deleted, because the configuration lists them no more: queue 'q'"
    world.check()


def test_force_deletes_an_address_with_all_its_queues(world: World) -> None:
    forced(world, "addresses")
    world.ok(CreateAddress("a", (ANYCAST, MULTICAST), adopts=True, configured=True))
    world.ok(listed("q", "a"))
    world.ok(create_queue("by-hand", "a"))
    connection = world.connect()
    world.attach(connection, "a", routing_type=MULTICAST, durable_name="one")
    world.ok(reload())
    assert "a" not in world.state.address_by_name
    assert world.state.queue_by_name == {}
    assert [each.reason for each in world.events_named("AddressDeleted")] == [reasons.CONFIGURATION]
    (told,) = detached(world)
    assert told.consumer.connection_id == connection
    assert told.text == "queue 'dsub.one' was deleted: the configuration lists it no more"
    world.check()


def test_force_deletes_a_divert(world: World) -> None:
    forced(world, "diverts")
    world.ok(CreateDivert(DIVERT, configured=True))
    world.ok(reload())
    world.send("a", b"x")
    assert "b" not in world.state.queue_by_name
    (deleted,) = world.events_named("DivertDeleted")
    assert (deleted.reason, deleted.decoded.name) == (reasons.CONFIGURATION, "d")
    world.check()


def test_the_settings_are_those_of_the_address(world: World) -> None:
    world.settings(a={"config_delete_queues": "FORCE"}, b={"config_delete_queues": "OFF"})
    world.ok(listed("q", "a"))
    world.ok(listed("p", "b"))
    world.ok(reload(("a", "b")))
    assert world.state.queue_by_name.keys() == {"p"}


def test_what_was_created_before_it_was_listed_counts_as_listed(world: World) -> None:
    forced(world, "queues", "addresses")
    world.send("a", b"x")
    world.ok(CreateAddress("a", (ANYCAST,), adopts=True, configured=True))
    world.ok(listed("a", "a"))
    world.restart()
    world.ok(reload())
    assert world.state.queue_by_name == {}
    assert world.state.address_by_name == {}


def test_consumers_go_and_nothing_in_flight_is_a_failed_attempt(world: World) -> None:
    world.settings(
        all={
            "config_delete_queues": "FORCE",
            "max_delivery_attempts": 1,
            "dead_letter_address": "dead",
        }
    )
    world.ok(listed("q", "q"))
    connection = world.connect()
    consumer = world.attach(connection, "q")
    other = world.attach(connection, "elsewhere", routing_type=ANYCAST)
    world.send("q", b"1")
    world.send("q", b"2")
    assert len(world.taken(consumer)) == 2
    world.begin(connection)
    world.ok(reload(("q",)))
    assert world.state.consumers.keys() == {other}
    assert "dead" not in world.state.queue_by_name
    assert {each.reason for each in world.events_named("Removed")} == {reasons.QUEUE_REMOVED}
    (event,) = world.events_named("ConsumerDetached")
    assert event.reason == reasons.QUEUE_REMOVED
    (told,) = detached(world)
    assert (told.consumer.id, told.reason, told.gate) == (consumer, event.reason, event.lsn)
    assert told.text == "queue 'q' was deleted: the configuration lists it no more"
    world.close(connection)
    world.check()


def test_many_are_deleted_in_slices_and_a_kill_ends_none_of_it(world: World) -> None:
    forced(world, "queues", "addresses")
    world.ok(listed("q", "a"))
    world.ok(listed("p", "b"))
    connection = world.connect()
    consumer = world.attach(connection, "a", queue="q", credit_messages=300)
    for number in range(600):
        world.send("a", b"%d" % number)
    command = reload()
    broker = world.broker
    slices = 0
    while True:
        broker.budget.allow(20)
        answer = world.handle(command)
        broker.budget.limit = NO_LIMIT
        world.turn()
        assert digest(fold(world.journal)) == digest(world.state)
        if answer != UNFINISHED:
            break
        slices += 1
        assert slices < 500
        if slices == 4:
            # Nobody finds it any more, although its messages are still there.
            assert "q" not in world.state.queue_by_name
            assert world.handle(PurgeQueue("q")).text  # type: ignore[union-attr]
        if broker.has_more:
            broker.budget.allow(20)
            broker.go_on(world.now)
            broker.budget.limit = NO_LIMIT
            world.turn()
    assert slices > 4
    (told,) = detached(world)
    assert told.consumer.id == consumer
    assert world.state.queues == {}
    assert world.state.addresses == {}
    assert consumer not in world.state.consumers
    world.check()


def test_a_kill_in_the_middle(world: World) -> None:
    forced(world, "queues")
    world.ok(listed("q", "a"))
    for number in range(200):
        world.send("a", b"%d" % number)
    world.broker.budget.allow(10)
    world.handle(reload(("a",)))
    world.broker.budget.limit = NO_LIMIT
    world.restart()
    while world.broker.has_more:
        world.broker.go_on(world.now)
    world.ok(reload(("a",)))
    assert world.state.queues == {}
    world.check()


def test_a_long_list_is_cut_in_the_log(world: World) -> None:
    for number in range(30):
        world.ok(listed(f"q{number:02}", "a"))
    world.ok(reload(("a",)))
    (notice,) = world.broker.notices
    assert notice.endswith("'q20' (config-delete-queues) and 20 others")


def test_a_name_is_unlisted_by_what_the_event_says(world: World) -> None:
    world.ok(listed("q", "a"))
    (created,) = world.events_named("QueueCreated")
    assert created.row[events.REASON] == reasons.CONFIGURATION
    assert created.decoded.configuration_managed
    (address,) = world.events_named("AddressCreated")
    assert address.decoded.configuration_managed
