"""Names that nobody uses any more, and when they go."""

from daybook.engine.commands import (
    CreateAddress,
    CreateQueue,
    DeleteUnused,
    PauseQueue,
    PurgeQueue,
    Settle,
)
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, QueueDefinition
from tests.support.topology import create_queue
from tests.support.world import World


def sweep(world: World) -> None:
    """Scan all names."""
    world.ok(DeleteUnused())
    while world.broker.scans_names:
        world.ok(DeleteUnused())
    while world.broker.has_more:
        world.broker.go_on(world.now)
        world.turn()
    world.check()


def names(world: World) -> tuple[set[str], set[str]]:
    return set(world.state.queue_by_name), set(world.state.address_by_name)


def use(world: World, address: str, **values: object) -> int:
    """Attach a consumer to an address and detach it; return the connection."""
    connection = world.connect()
    world.detach(world.attach(connection, address, **values))
    return connection


def test_a_used_queue_goes_with_its_address_at_the_next_scan(world: World) -> None:
    world.send("q", b"x")
    sweep(world)
    assert names(world) == ({"q"}, {"q"})  # it holds a message
    connection = world.connect()
    consumer = world.attach(connection, "q")
    world.ack(consumer, world.taken()[0].message)
    sweep(world)
    assert names(world) == ({"q"}, {"q"})  # it has a consumer
    world.detach(consumer)
    lsn = world.broker.lsn
    sweep(world)
    assert names(world) == (set(), set())
    assert world.names_since(lsn) == ["QueueDeleted", "AddressDeleted"]
    assert {event.reason for event in world.journal[lsn:]} == {reasons.AUTO_DELETE}
    world.send("q", b"again")
    assert world.bodies("q") == [b"again"]


def test_who_only_sends_uses_it_too(world: World) -> None:
    world.send("q", b"x")
    world.ok(PurgeQueue("q"))
    sweep(world)
    assert names(world) == (set(), set())


def test_what_nobody_ever_used_stays_unless_the_check_is_skipped(world: World) -> None:
    world.settings(all={"auto_delete_created_queues": True})
    world.ok(create_queue("new", "new"))
    sweep(world)
    assert "new" in names(world)[0]
    world.settings(
        all={"auto_delete_queues_skip_usage_check": True, "auto_delete_created_queues": True}
    )
    sweep(world)
    assert "new" not in names(world)[0]


def test_with_the_check_skipped_the_delay_counts_from_the_creation(world: World) -> None:
    world.settings(
        all={"auto_delete_queues_skip_usage_check": True, "auto_delete_queues_delay": 5000}
    )
    use(world, "q")
    world.sleep(4)
    use(world, "q")
    sweep(world)
    assert "q" in names(world)[0]
    world.sleep(1)
    sweep(world)
    assert "q" not in names(world)[0]


def test_the_delay_counts_from_the_last_consumer_also_over_a_restart(world: World) -> None:
    world.settings(all={"auto_delete_queues_delay": 5000})
    use(world, "q")
    world.sleep(4)
    use(world, "q")
    world.sleep(4.9)
    world.restart()
    sweep(world)
    assert "q" in names(world)[0]
    world.sleep(0.1)
    sweep(world)
    assert "q" not in names(world)[0]


def test_a_consumer_that_a_restart_ended_left_then(world: World) -> None:
    world.settings(all={"auto_delete_queues_delay": 5000})
    world.attach(world.connect(), "q")
    world.sleep(60)
    world.restart()
    sweep(world)
    assert "q" in names(world)[0]
    world.sleep(5)
    sweep(world)
    assert "q" not in names(world)[0]


def test_messages_stay_unless_the_message_count_allows_more(world: World) -> None:
    world.settings(
        few={"auto_delete_queues_message_count": 1},
        any={"auto_delete_queues_message_count": -1},
    )
    for address in ("few", "more", "any"):
        world.send(address, b"1")
    for _ in range(200):
        world.send("any", b"2")
    sweep(world)
    assert names(world) == ({"more"}, {"more"})
    removed = world.events_named("Removed")
    assert len(removed) == 202
    world.send("few", b"1")
    world.send("few", b"2")
    sweep(world)
    assert world.bodies("few") == [b"1", b"2"]


def test_a_durable_subscription_is_a_booking_and_stays(world: World) -> None:
    use(world, "news", durable_name="d", routing_type=MULTICAST)
    sweep(world)
    assert names(world) == ({"dsub.d"}, {"news"})
    world.send("news", b"x", routing_type=MULTICAST)
    assert world.bodies("dsub.d") == [b"x"]


def test_bookings_go_where_the_settings_say_so(world: World) -> None:
    world.settings(
        all={
            "auto_delete_created_queues": True,
            "auto_delete_queues_delay": 1000,
            "auto_delete_queues_message_count": -1,
        }
    )
    use(world, "news", durable_name="d", routing_type=MULTICAST)
    world.send("news", b"x", routing_type=MULTICAST)
    sweep(world)
    assert "dsub.d" in names(world)[0]
    world.sleep(1)
    sweep(world)
    assert names(world) == (set(), set())


def test_administrators_say_it_of_single_queues(world: World) -> None:
    world.ok(create_queue("kept", "kept"))
    world.ok(create_queue("brief", "brief", auto_delete=True, auto_delete_delay=1000))
    for name in ("kept", "brief"):
        use(world, name)
    world.sleep(1)
    sweep(world)
    # Addresses that administrators create stay, too.
    assert names(world) == ({"kept"}, {"kept", "brief"})


def test_what_is_turned_off_protects_at_once_and_on_reaches_only_new_ones(world: World) -> None:
    use(world, "q")
    world.settings(all={"auto_delete_queues": False, "auto_delete_addresses": False})
    use(world, "p")
    sweep(world)
    assert names(world) == ({"q", "p"}, {"q", "p"})
    world.settings()
    sweep(world)
    assert names(world) == ({"p"}, {"p"})


def test_a_paused_queue_waits_for_its_administrator(world: World) -> None:
    use(world, "q")
    world.ok(PauseQueue("q"))
    sweep(world)
    assert names(world) == ({"q"}, {"q"})


def test_what_is_asked_for_afterwards_is_adopted(world: World) -> None:
    use(world, "q")
    definition = QueueDefinition(name="q")
    world.ok(CreateQueue("q", definition, adopts=True, configured=True))
    assert world.ok(CreateQueue("q", definition, adopts=True, configured=True)) == 0
    world.ok(CreateAddress("q", (ANYCAST,), adopts=True))
    world.refused(CreateAddress("q", (ANYCAST,), adopts=True))
    world.restart()
    sweep(world)
    assert names(world) == ({"q"}, {"q"})
    assert not world.queue("q").definition.auto_created


def test_an_address_waits_for_its_delay_and_keeps_what_it_remembers(world: World) -> None:
    world.settings(all={"auto_delete_addresses_delay": 5000})
    use(world, "q")
    world.sleep(60)
    world.send("known", b"x", duplicate_id="1")
    world.ok(PurgeQueue("known"))
    sweep(world)
    assert names(world) == (set(), {"q", "known"})
    world.restart()
    world.sleep(5)
    sweep(world)
    assert names(world) == (set(), {"known"})
    world.send("known", b"x", duplicate_id="1")
    assert world.names_since(world.broker.lsn - 1) == ["Dropped"]


def test_the_delay_of_an_address_may_count_from_its_creation(world: World) -> None:
    world.settings(
        all={"auto_delete_addresses_delay": 5000, "auto_delete_addresses_skip_usage_check": True}
    )
    use(world, "q")
    world.sleep(5)
    sweep(world)
    assert names(world) == (set(), set())


def test_an_address_that_was_only_sent_to_goes(world: World) -> None:
    world.send("news", b"x", routing_type=MULTICAST)
    sweep(world)
    assert names(world) == (set(), set())


def test_a_scan_is_done_in_slices(world: World) -> None:
    connection = world.connect()
    for number in range(100):
        world.detach(world.attach(connection, f"q{number}"))
    slices = 0
    world.broker.budget.allow(20)
    world.ok(DeleteUnused())
    while world.broker.scans_names:
        world.broker.budget.allow(20)
        world.ok(DeleteUnused())
        slices += 1
    assert slices > 10
    assert names(world) == (set(), set())
    world.check()


def test_who_settles_the_last_message_and_leaves_uses_it(world: World) -> None:
    world.send("q", b"x")
    connection = world.connect()
    consumer = world.attach(connection, "q")
    world.ok(Settle(consumer, world.taken()[0].message))
    world.close(connection)
    sweep(world)
    assert names(world) == (set(), set())


def test_default_routing_types_decide_where_nobody_says_it(world: World) -> None:
    world.settings(
        topics={"default_address_routing_type": "MULTICAST"},
        mixed={"default_queue_routing_type": "MULTICAST"},
    )
    world.send("topics", b"x")
    assert world.state.address_by_name["topics"].definition.routing_types == (MULTICAST,)
    connection = world.connect()
    consumer = world.attach(connection, "topics")
    assert world.state.consumers[consumer].queue.definition.routing_type == MULTICAST
    world.send("mixed", b"x", queue="inner")
    assert world.queue("inner").definition.routing_type == MULTICAST
    world.attach(connection, "mixed", queue="other")
    assert world.queue("other").definition.routing_type == MULTICAST
