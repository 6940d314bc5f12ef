"""Full addresses that page, drop or fail, and when that begins and ends."""

import pytest

from daybook.engine import commands as c
from daybook.engine.core import capacity
from daybook.engine.core.core import Options
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST, DivertDefinition
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import Permissions
from tests.support.topology import create_queue
from tests.support.world import MANY, World
from tests.support.worlds.full import BODY, SIZE, limited, paging, reasons_of, sends, try_send


@pytest.fixture
def world() -> World:
    return World()


# ---- PAGE


@pytest.mark.parametrize(("key", "limit"), [("max_size_messages", 2), ("max_size_bytes", 2 * SIZE)])
def test_the_message_that_meets_it_full_is_the_first_to_page(
    world: World, key: str, limit: int
) -> None:
    limited(world, "PAGE", **{key: limit})
    sends(world, 2)
    sends(world, 1, "others")
    # By bytes or messages the limit is reached: at the end of that turn it pages.
    assert paging(world) == ["orders"]
    (started,) = world.events_named("PagingStarted")
    assert reasons.REASONS[started.reason][0] == key.replace("_", "-")
    assert (started.decoded.bytes, started.decoded.messages) == (2 * SIZE, 2)
    sends(world, 3)
    assert len(world.events_named("PagingStarted")) == 1
    world.check()


def test_within_one_turn_the_message_behind_pages(world: World) -> None:
    limited(world, "PAGE", max_size_messages=1)
    world.handle(c.Send(0, "orders", b"", b"1"))
    world.handle(c.Send(0, "orders", b"", b"2", persistent=False))
    world.turn()
    names = [event.name for event in world.journal][-3:]
    assert names == ["Routed", "PagingStarted", "Routed"]


def test_zero_means_always(world: World) -> None:
    limited(world, "PAGE", max_size_bytes=0)
    sends(world, 1)
    assert [event.name for event in world.journal][-2:] == ["PagingStarted", "Routed"]
    world.ok(c.PurgeQueue("orders"))
    assert paging(world) == ["orders"]
    assert not world.events_named("PagingStopped")


def test_paging_ends_at_three_quarters(world: World) -> None:
    limited(world, "PAGE", max_size_messages=8)
    connection = world.connect()
    consumer = world.attach(connection, "orders")
    sends(world, 8)
    delivered = [delivery.message for delivery in world.taken()]
    assert paging(world) == ["orders"]
    world.ack(consumer, delivered[0])
    assert paging(world) == ["orders"]
    world.ack(consumer, delivered[1])
    assert paging(world) == []
    (stopped,) = world.events_named("PagingStopped")
    assert stopped.decoded.messages == 6
    world.check()


def test_paging_outlives_a_restart(world: World) -> None:
    limited(world, "PAGE", max_size_messages=2)
    sends(world, 2)
    world.restart()
    assert paging(world) == ["orders"]
    world.ok(c.PurgeQueue("orders"))
    assert paging(world) == []


def test_what_a_restart_drops_ends_paging(world: World) -> None:
    limited(world, "PAGE", max_size_messages=2)
    sends(world, 3, persistent=False)
    assert paging(world) == ["orders"]
    world.restart()
    assert paging(world) == []
    world.check()


@pytest.mark.parametrize("mode", ["decisions", "full"])
def test_non_persistent_messages_are_journaled_whole_while_paging(world: World, mode: str) -> None:
    world.settings(mode, orders={"max_size_messages": 1})
    sends(world, 1)
    assert try_send(world, 0, persistent=False) == 0
    last = world.events_named("Routed")[-1]
    assert (last.body, last.row[events.FLAGS]) == (BODY, 0)
    other = world.send("others", BODY, persistent=False)
    assert other == 0
    bodies = [event.body for event in world.events_named("Routed")[2:]]
    assert bodies == {"decisions": [b""], "full": [BODY]}[mode]


def test_new_settings_begin_and_end_paging(world: World) -> None:
    sends(world, 3)
    limited(world, "PAGE", max_size_messages=2)
    assert paging(world) == ["orders"]
    limited(world, "PAGE", max_size_messages=-1)
    assert paging(world) == []
    world.check()


def test_a_policy_that_changed_leaves_the_backlog_on_disk(world: World) -> None:
    limited(world, "PAGE", max_size_messages=2)
    sends(world, 4)
    limited(world, "FAIL", max_size_messages=2)
    assert paging(world) == ["orders"]
    assert try_send(world, 0).code is Code.LIMIT
    world.ok(c.PurgeQueue("orders"))
    assert paging(world) == []


@pytest.mark.parametrize(("policy", "key"), [("DROP", "messages"), ("FAIL", "bytes")])
def test_full_pages(world: World, policy: str, key: str) -> None:
    limit = 3 if key == "messages" else 3 * SIZE
    values = {f"page_limit_{key}": limit, "page_full_policy": policy}
    limited(world, "PAGE", max_size_messages=2, **values)
    sends(world, 3)
    answer = try_send(world, 0)
    assert world.queue("orders").message_count == 3
    if policy == "DROP":
        assert answer == world.broker.lsn
        assert reasons_of(world, "Dropped") == ["page-limit-messages"]
    else:
        assert f"page-limit-bytes is {limit}" in answer.text
    world.ok(c.PurgeQueue("orders", limit=1))
    sends(world, 1)
    assert world.queue("orders").message_count == 3


def test_the_longest_queue_counts_for_a_page_limit(world: World) -> None:
    world.settings(
        news={"max_size_messages": 0, "page_limit_messages": 2, "page_full_policy": "FAIL"}
    )
    for name in ("one", "two"):
        world.ok(create_queue(name, "news", MULTICAST))
    sends(world, 1, "news", routing_type=MULTICAST)
    sends(world, 1, "news", queue="one", routing_type=MULTICAST)
    answer = try_send(world, 0, "news", routing_type=MULTICAST)
    assert "it holds 2 messages, and page-limit-messages is 2" in answer.text


def test_a_sender_is_told_of_a_full_address_only_where_it_may_know_it(world: World) -> None:
    limited(world, "FAIL", max_size_messages=1)
    divert = DivertDefinition(name="d", address="news", forwarding_addresses=("orders",))
    world.ok(c.CreateDivert(divert))
    rules = {"news": {"send": ("all",)}, "orders": {"browse": ("staff",)}}
    groups = {"mallory": frozenset({"all"}), "alice": frozenset({"all", "staff"})}
    world.broker.permit(Permissions(rules, groups))
    peers = {
        user: world.ok(c.OpenConnection("stomp", "10.0.0.1:5", user, room=MANY)) for user in groups
    }
    assert not isinstance(world.handle(c.Send(0, "news", b"", b"1")), Refusal)
    told = {user: try_send(world, peer, "news").text for user, peer in peers.items()}
    assert told["mallory"] == capacity.ELSEWHERE_FULL
    assert "address 'orders' is full: it holds 1 messages" in told["alice"]


# ---- the broker as a whole


def test_the_largest_addresses_page_when_the_broker_is_full() -> None:
    world = World(global_max_messages=12)
    for name, count in (("a", 1), ("b", 6), ("c", 4)):
        sends(world, count, name)
    assert paging(world) == []
    sends(world, 1, "a")
    assert paging(world) == ["b"]
    assert reasons_of(world, "PagingStarted") == ["global-max-messages"]
    assert world.broker.room.sizes.messages == 6
    sends(world, 6, "a")
    assert paging(world) == ["a", "b"]
    world.check()


def test_an_address_ends_paging_when_the_broker_has_room_for_it() -> None:
    world = World(global_max_size=10 * SIZE)
    sends(world, 6, "a")
    sends(world, 4, "b")
    assert paging(world) == ["a"]
    assert reasons_of(world, "PagingStarted") == ["global-max-size"]
    world.ok(c.PurgeQueue("a", limit=4))
    assert paging(world) == ["a"]  # with it there would be six
    world.ok(c.PurgeQueue("b", limit=1))
    assert paging(world) == ["a"]  # nobody touched it
    world.ok(c.PurgeQueue("a", limit=1))
    assert paging(world) == []


def test_untouched_addresses_end_paging_when_the_broker_gets_empty() -> None:
    world = World(global_max_messages=10)
    sends(world, 4, "a")
    sends(world, 6, "b")
    assert paging(world) == ["b"]
    sends(world, 2, "a")
    world.ok(c.PurgeQueue("b", limit=5))
    assert paging(world) == ["b"]
    world.ok(c.PurgeQueue("a"))
    assert paging(world) == []


@pytest.mark.parametrize("policy", ["BLOCK", "FAIL", "DROP"])
def test_other_policies_hold_for_a_full_broker_too(policy: str) -> None:
    world = World(global_max_messages=3)
    limited(world, policy)
    connection = world.connect()
    sends(world, 3, connection=connection)
    answer = try_send(world, connection)
    if policy == "DROP":
        assert reasons_of(world, "Dropped") == ["global-max-messages"]
    else:
        assert "the broker is full: it holds 3 messages, and global-max-messages is 3" in (
            answer.text
        )
    # An address that may page does so, and takes what comes.
    sends(world, 2, "other")
    assert world.queue("other").message_count == 2
    world.broker.configure(Options(global_max_messages=9))
    sends(world, 1, connection=connection)
    assert world.queue("orders").message_count == 4


# ---- DROP and FAIL


def test_what_meets_a_full_address_is_dropped_and_told_once(world: World) -> None:
    limited(world, "DROP", max_size_messages=1)
    sends(world, 1)
    assert try_send(world, 0) == world.broker.lsn
    assert try_send(world, 0, persistent=False) == 0
    assert reasons_of(world, "Dropped") == ["max-size-messages"] * 2
    assert world.broker.notices == [
        "messages to address 'orders' are dropped: address 'orders' is full: it holds 1 messages, "
        "and max-size-messages is 1; try again when some were consumed"
    ]
    world.broker.notices.clear()
    world.ok(c.PurgeQueue("orders"))
    sends(world, 2)
    assert len(world.broker.notices) == 1
    world.check()


def test_an_address_that_is_always_full_is_made_and_drops(world: World) -> None:
    limited(world, "DROP", max_size_messages=0)
    sends(world, 1)
    assert world.queue("orders").message_count == 0
    assert reasons_of(world, "Dropped") == ["max-size-messages"]


@pytest.mark.parametrize("queue", [None, "orders", "extra"])
def test_who_sends_to_a_full_address_is_refused(world: World, queue: str | None) -> None:
    limited(world, "FAIL", max_size_bytes=2 * SIZE)
    sends(world, 2)
    refusal = world.refused(c.Send(0, "orders", b"", b"", queue=queue))
    assert refusal.code is Code.LIMIT
    assert refusal.text == (
        f"address 'orders' is full: it holds {2 * SIZE} bytes, and max-size-bytes is {2 * SIZE}; "
        "try again when some were consumed"
    )


def test_an_address_that_does_not_exist_can_be_full(world: World) -> None:
    limited(world, "FAIL", max_size_messages=0)
    assert "it holds 0 messages" in world.refused(c.Send(0, "orders", b"", b"")).text
    assert not world.state.queue_by_name


def test_what_the_broker_moves_is_never_refused(world: World) -> None:
    world.settings(
        orders={"max_delivery_attempts": 1, "dead_letter_address": "dead"},
        dead={"max_size_messages": 1, "address_full_policy": "FAIL"},
    )
    connection = world.connect()
    consumer = world.attach(connection, "orders")
    sends(world, 2)
    for delivery in world.taken():
        world.nack(consumer, delivery.message)
    assert world.queue("dead").message_count == 2
    assert try_send(world, 0, "dead").code is Code.LIMIT


def test_a_dead_letter_address_pages_by_what_is_moved_to_it(world: World) -> None:
    world.settings(
        orders={"max_delivery_attempts": 1, "dead_letter_address": "dead"},
        dead={"max_size_messages": 1},
    )
    consumer = world.attach(world.connect(), "orders")
    world.nack(consumer, world.send("orders", BODY))
    assert paging(world) == ["dead"]


# ---- the disk


@pytest.mark.parametrize("policy", ["BLOCK", "FAIL", "DROP"])
def test_a_large_message_is_never_taken_in_part(policy: str) -> None:
    world = World(disk_full_policy=policy)
    connection = world.connect()
    send = c.Send(connection, "orders", b"", b"")
    first = world.ok(c.Chunk(send, BODY))
    world.broker.report_disk("no space is left")
    refusal = world.refused(c.Chunk(send, BODY, first))
    assert refusal.code is (Code.BLOCKED if policy == "BLOCK" else Code.LIMIT)
    assert refusal.text == "no space is left"
    assert capacity.next_in_line(world.broker, "orders") is None
    world.broker.report_disk("")
    assert isinstance(world.handle(c.Chunk(send, BODY, first)), int)


@pytest.mark.parametrize("policy", ["FAIL", "BLOCK"])
def test_a_large_message_for_a_full_address_is_refused_at_its_first_piece(
    world: World, policy: str
) -> None:
    limited(world, policy, max_size_messages=1)
    connection = world.connect()
    send = c.Send(connection, "orders", b"", b"")
    first = world.ok(c.Chunk(send, BODY))
    sends(world, 1)
    # A message that has begun continues, up to its end.
    second = world.ok(c.Chunk(send, BODY, first))
    refusal = world.refused(c.Chunk(send, BODY))
    assert refusal.code is (Code.BLOCKED if policy == "BLOCK" else Code.LIMIT)
    send.chunks, send.body_bytes = (first, second), 200
    assert world.refused(send).code is refusal.code


@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
def test_a_full_disk_goes_by_its_own_policy(policy: str) -> None:
    world = World(disk_full_policy=policy)
    sends(world, 1)
    world.broker.report_disk("no space is left")
    answer = try_send(world, 0)
    if policy == "FAIL":
        assert answer == Refusal(Code.LIMIT, "no space is left")
    else:
        assert reasons_of(world, "Dropped") == ["disk-full"]
        assert world.broker.notices == [
            "messages to address 'orders' are dropped: no space is left"
        ]
    world.broker.report_disk("")
    sends(world, 1)
    assert world.queue("orders").message_count == 2


def test_an_address_is_looked_at_only_if_it_can_be_full(world: World) -> None:
    sends(world, 1)
    address = world.queue("orders").address
    assert address.open_queue is world.queue("orders")
    world.broker.report_disk("full")
    assert address.open_queue is None
    world.broker.report_disk("")
    sends(world, 1)
    assert address.open_queue is not None
    limited(world, "PAGE", max_size_messages=5)
    sends(world, 1)
    assert address.open_queue is None
    sends(world, 2)
    assert address.paging
    sends(world, 1)
    # There is nothing more that could happen to it.
    assert address.open_queue is world.queue("orders")


@pytest.mark.parametrize("way", ["delete", "expire", "purge", "dead-letter", "rebind"])
def test_the_broker_is_as_small_as_its_queues(world: World, way: str) -> None:
    world.settings(
        orders={
            "max_delivery_attempts": 1,
            "dead_letter_policy": "DROP",
            "expiry_address": "",
            "max_size_messages": 2,
        },
        news={"max_size_messages": 0},
        topic={"max_size_messages": 2},
    )
    connection = world.connect()
    if way == "rebind":
        consumer = world.attach(connection, "topic", routing_type="multicast", durable_name="d")
        sends(world, 2, "topic", routing_type="multicast")
        assert paging(world) == ["topic"]
        world.detach(consumer)
        world.ok(c.CreateAddress("news", ("multicast",)))
        world.attach(connection, "news", routing_type="multicast", durable_name="d")
        assert paging(world) == ["news"]
    else:
        for _ in range(2):
            world.send("orders", BODY, expires=world.now // 1000 + 1000 if way == "expire" else 0)
        assert paging(world) == ["orders"]
    if way == "delete":
        world.ok(c.DeleteQueue("orders", force=True))
    elif way == "expire":
        world.sleep(5)
        world.ok(c.ExpireDue())
    elif way == "purge":
        world.ok(c.PurgeQueue("orders"))
    elif way == "dead-letter":
        consumer = world.attach(connection, "orders")
        for delivery in world.taken():
            world.nack(consumer, delivery.message)
    assert (world.broker.room.sizes.bytes, world.broker.room.sizes.messages) == (0, 0)
    assert paging(world) == (["news"] if way == "rebind" else [])


@pytest.mark.parametrize("way", ["delete", "expire", "dead-letter"])
def test_what_leaves_makes_the_broker_smaller(way: str) -> None:
    world = World(global_max_messages=100)
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_policy": "DROP"})
    connection = world.connect()
    for _ in range(3):
        world.send("orders", BODY, expires=world.now // 1000 + 1000 if way == "expire" else 0)
    assert world.broker.room.sizes.messages == 3
    if way == "delete":
        world.ok(c.DeleteQueue("orders", force=True))
    elif way == "expire":
        world.sleep(5)
        world.ok(c.ExpireDue())
    else:
        consumer = world.attach(connection, "orders")
        for delivery in world.taken():
            world.nack(consumer, delivery.message)
    assert (world.broker.room.sizes.bytes, world.broker.room.sizes.messages) == (0, 0)
