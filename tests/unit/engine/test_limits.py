"""What full addresses do: page, drop, block, fail; and when that begins and ends."""

from typing import Any

import pytest

from engine import commands as c
from engine import events, limits
from engine.core import Options
from engine.message import MESSAGE_OVERHEAD_BYTES
from engine.refusals import Code, Refusal
from tests.support.world import World

BODY = b"x" * 100
SIZE = 100 + MESSAGE_OVERHEAD_BYTES


@pytest.fixture
def world() -> World:
    return World()


def limited(world: World, policy: str, **values: Any) -> None:
    world.settings(orders={"address_full_policy": policy, **values})


def sends(world: World, count: int, address: str = "orders", **values: Any) -> None:
    for _ in range(count):
        world.send(address, BODY, **values)


def try_send(world: World, connection: int, address: str = "orders", **values: Any) -> Any:
    answer = world.handle(c.Send(connection, address, b"", BODY, **values))
    world.turn()
    return answer


def is_blocked(answer: Any) -> bool:
    return isinstance(answer, Refusal) and answer.code is Code.BLOCKED


def paging(world: World) -> list[str]:
    """Addresses that page."""
    return sorted(address.name for address in world.state.addresses.values() if address.paging)


def reasons(world: World, name: str) -> list[str]:
    return [events.REASONS[event.reason][0] for event in world.events_named(name)]


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
    assert events.REASONS[started.reason][0] == key.replace("_", "-")
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


@pytest.mark.parametrize("mode", ["decisions", "off", "full"])
def test_non_persistent_messages_are_journaled_whole_while_paging(world: World, mode: str) -> None:
    world.settings(mode, orders={"max_size_messages": 1})
    sends(world, 1)
    assert try_send(world, 0, persistent=False) == 0
    last = world.events_named("Routed")[-1]
    assert (last.body, last.row[events.FLAGS]) == (BODY, 0)
    other = world.send("others", BODY, persistent=False)
    assert other == 0
    bodies = [event.body for event in world.events_named("Routed")[2:]]
    assert bodies == {"decisions": [b""], "off": [], "full": [BODY]}[mode]


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
        assert reasons(world, "Dropped") == ["page-limit-messages"]
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
        world.ok(c.CreateQueue(name, "news", c.MULTICAST))
    sends(world, 1, "news", routing_type=c.MULTICAST)
    sends(world, 1, "news", queue="one", routing_type=c.MULTICAST)
    answer = try_send(world, 0, "news", routing_type=c.MULTICAST)
    assert "it holds 2 messages, and page-limit-messages is 2" in answer.text


# ---- the broker as a whole


def test_the_largest_addresses_page_when_the_broker_is_full() -> None:
    world = World(global_max_messages=12)
    for name, count in (("a", 1), ("b", 6), ("c", 4)):
        sends(world, count, name)
    assert paging(world) == []
    sends(world, 1, "a")
    assert paging(world) == ["b"]
    assert reasons(world, "PagingStarted") == ["global-max-messages"]
    assert world.broker.sizes.messages == 6
    sends(world, 6, "a")
    assert paging(world) == ["a", "b"]
    world.check()


def test_an_address_ends_paging_when_the_broker_has_room_for_it() -> None:
    world = World(global_max_size=10 * SIZE)
    sends(world, 6, "a")
    sends(world, 4, "b")
    assert paging(world) == ["a"]
    assert reasons(world, "PagingStarted") == ["global-max-size"]
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
        assert reasons(world, "Dropped") == ["global-max-messages"]
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
    assert reasons(world, "Dropped") == ["max-size-messages"] * 2
    assert world.broker.notices == [
        "messages to address 'orders' are dropped: address 'orders' is full: it holds 1 messages, "
        "and max-size-messages is 1; try again when some were consumed"
    ]
    world.broker.notices.clear()
    world.ok(c.PurgeQueue("orders"))
    sends(world, 2)
    assert len(world.broker.notices) == 1
    world.check()


def test_what_is_not_journaled_is_dropped_without_a_trace(world: World) -> None:
    world.settings("off", orders={"max_size_messages": 0, "address_full_policy": "DROP"})
    before = len(world.events_named("Dropped"))
    assert try_send(world, 0, persistent=False) == 0
    assert len(world.events_named("Dropped")) == before
    assert len(world.broker.notices) == 1


def test_an_address_that_is_always_full_is_made_and_drops(world: World) -> None:
    limited(world, "DROP", max_size_messages=0)
    sends(world, 1)
    assert world.queue("orders").message_count == 0
    assert reasons(world, "Dropped") == ["max-size-messages"]


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


# ---- BLOCK


def test_a_blocked_send_leaves_no_trace_and_waits_in_line(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=1)
    first, second = world.connect(), world.connect()
    sends(world, 1)
    for connection in (first, second, first):
        refusal = world.refused(c.Send(connection, "orders", b"", BODY))
        assert refusal.code is Code.BLOCKED
    line = world.broker.line
    assert line.addresses() == ["orders"]
    assert (line.first("orders"), line.length("orders")) == (first, 2)
    assert limits.next_in_line(world.broker, "orders") == 0
    assert "max-size-messages is 1" in limits.explain(world.broker, "orders")
    world.ok(c.PurgeQueue("orders"))
    assert limits.next_in_line(world.broker, "orders") == first
    # Nobody goes before who stands before.
    assert is_blocked(try_send(world, second))
    assert is_blocked(try_send(world, world.connect()))
    assert isinstance(try_send(world, first), int)
    assert line.first("orders") == second


@pytest.mark.parametrize("way", ["settings", "purge", "delete", "acknowledge", "expire"])
def test_everything_that_makes_room_lets_the_first_go_on(world: World, way: str) -> None:
    limited(world, "BLOCK", max_size_messages=1)
    connection, other = world.connect(), world.connect()
    world.send("orders", BODY, expires=world.now // 1000 + 5000 if way == "expire" else 0)
    assert is_blocked(try_send(world, connection))
    if way == "settings":
        limited(world, "BLOCK", max_size_messages=2)
    elif way == "purge":
        world.ok(c.PurgeQueue("orders"))
    elif way == "delete":
        world.ok(c.DeleteQueue("orders", force=True))
    elif way == "expire":
        world.sleep(10)
        world.ok(c.ExpireDue())
    else:
        consumer = world.attach(other, "orders")
        (delivery,) = world.taken()
        assert limits.next_in_line(world.broker, "orders") == 0  # in flight counts
        world.ack(consumer, delivery.message)
    assert limits.next_in_line(world.broker, "orders") == connection
    assert isinstance(try_send(world, connection), int)
    assert not world.broker.line.addresses()
    world.check()


def test_who_goes_away_is_waited_for_no_more(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    first, second = world.connect(), world.connect()
    assert is_blocked(try_send(world, first))
    assert is_blocked(try_send(world, second))
    world.close(first)
    assert world.broker.line.first("orders") == second
    world.close(second)
    assert not world.broker.line.addresses()


def test_who_has_its_turn_may_go_on_as_long_as_there_is_room(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=2)
    first, second = world.connect(), world.connect()
    sends(world, 2)
    assert is_blocked(try_send(world, first))
    assert is_blocked(try_send(world, second))
    world.ok(c.PurgeQueue("orders"))
    world.broker.line.serving = first
    assert isinstance(try_send(world, first), int)
    assert isinstance(try_send(world, first), int)
    assert is_blocked(try_send(world, first))
    world.broker.line.serving = 0
    assert world.broker.line.first("orders") == second


def test_a_sender_without_a_connection_does_not_stand_in_line(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    assert is_blocked(try_send(world, 0))
    assert not world.broker.line.addresses()


def test_administration_is_never_blocked(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    world.broker.report_disk("the disk is full")
    world.ok(c.CreateQueue("orders", "orders", c.ANYCAST))
    world.ok(c.PauseQueue("orders"))
    world.ok(c.DeleteAddress("orders", force=True))


# ---- transactions


def transaction(world: World, connection: int, *addresses: str) -> None:
    world.begin(connection)
    for address in addresses:
        world.send(address, BODY, connection, transaction="t")


def test_a_commit_is_blocked_as_a_whole(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=1)
    connection = world.connect()
    sends(world, 1)
    transaction(world, connection, "free", "orders", "free")
    world.refused(c.Commit(connection, "t"))
    assert "free" not in world.state.queue_by_name
    world.ok(c.PurgeQueue("orders"))
    world.commit(connection)
    assert world.queue("free").message_count == 2
    assert not world.broker.line.addresses()


def test_a_blocked_transaction_can_be_rolled_back(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    connection = world.connect()
    transaction(world, connection, "orders")
    assert is_blocked(world.handle(c.Commit(connection, "t")))
    world.abort(connection)
    assert not world.broker.line.addresses()


def test_a_commit_passes_lines_and_stands_in_one(world: World) -> None:
    limits_of = {"max_size_messages": 1, "address_full_policy": "BLOCK"}
    world.settings(one=limits_of, two=limits_of)
    single, both = world.connect(), world.connect()
    sends(world, 1, "one")
    sends(world, 1, "two")
    assert is_blocked(try_send(world, single, "two"))
    transaction(world, both, "one", "two")
    assert is_blocked(world.handle(c.Commit(both, "t")))
    assert world.broker.line.address_of(both) == "one"
    world.ok(c.PurgeQueue("one"))
    assert is_blocked(world.handle(c.Commit(both, "t")))
    assert world.broker.line.address_of(both) == "two"
    world.ok(c.PurgeQueue("two"))
    world.commit(both)
    assert world.broker.line.first("two") == single


def test_a_commit_fails_as_a_whole(world: World) -> None:
    world.settings(
        orders={"max_size_messages": 1, "address_full_policy": "FAIL"},
        mails={"max_size_messages": 0, "address_full_policy": "BLOCK"},
    )
    connection = world.connect()
    sends(world, 1)
    transaction(world, connection, "free", "mails", "orders")
    answer = world.handle(c.Commit(connection, "t"))
    assert isinstance(answer, Refusal)
    assert (answer.code, "address 'orders' is full" in answer.text) == (Code.LIMIT, True)
    assert reasons(world, "TransactionRolledBack") == ["commit-refused"]
    assert "free" not in world.state.queue_by_name


def test_a_transaction_over_paged_and_unpaged_addresses_is_one(world: World) -> None:
    world.settings(
        orders={"max_size_messages": 2},
        mails={"max_size_messages": 1, "address_full_policy": "DROP"},
    )
    connection = world.connect()
    consumer = world.attach(connection, "orders", credit_messages=1, credit_bytes=0)
    sends(world, 3)
    sends(world, 1, "mails")
    (delivery,) = world.taken()
    assert paging(world) == ["orders"]
    world.begin(connection)
    world.ack(consumer, delivery.message, transaction="t")
    for address in ("orders", "free", "mails", "orders"):
        world.send(address, BODY, connection, transaction="t")
    before = world.broker.lsn
    world.commit(connection)
    batch = [event for event in world.journal if event.lsn > before]
    end = next(event for event in batch if event.name == "TransactionCommitted")
    inside = batch[: batch.index(end)]
    assert end.decoded.first == before + 1
    assert end.decoded.events == len(inside)
    names = [event.name for event in inside]
    assert names[0] == "Acknowledged"
    assert names.count("Routed") == 3
    assert names.count("Dropped") == 1
    assert [world.queue(name).message_count for name in ("orders", "free", "mails")] == [4, 1, 1]
    world.check()


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
    assert limits.next_in_line(world.broker, "orders") == 0
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
    # What has begun goes on, up to the message itself.
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
        assert reasons(world, "Dropped") == ["disk-full"]
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
        orders={"max_delivery_attempts": 1, "expiry_address": "", "max_size_messages": 2},
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
    assert (world.broker.sizes.bytes, world.broker.sizes.messages) == (0, 0)
    assert paging(world) == (["news"] if way == "rebind" else [])


@pytest.mark.parametrize("way", ["delete", "expire", "dead-letter"])
def test_what_leaves_makes_the_broker_smaller(way: str) -> None:
    world = World(global_max_messages=100)
    world.settings(all={"max_delivery_attempts": 1})
    connection = world.connect()
    for _ in range(3):
        world.send("orders", BODY, expires=world.now // 1000 + 1000 if way == "expire" else 0)
    assert world.broker.sizes.messages == 3
    if way == "delete":
        world.ok(c.DeleteQueue("orders", force=True))
    elif way == "expire":
        world.sleep(5)
        world.ok(c.ExpireDue())
    else:
        consumer = world.attach(connection, "orders")
        for delivery in world.taken():
            world.nack(consumer, delivery.message)
    assert (world.broker.sizes.bytes, world.broker.sizes.messages) == (0, 0)
