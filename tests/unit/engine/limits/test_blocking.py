"""Blocked senders wait in line and resume in order; transactions at full addresses are whole."""

import pytest

from daybook.engine import commands as c
from daybook.engine.core import capacity
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.refusals import Code, Refusal
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.worlds.full import BODY, is_blocked, limited, paging, reasons_of, sends, try_send


@pytest.fixture
def world() -> World:
    return World()


# ---- BLOCK


def test_a_blocked_send_leaves_no_trace_and_waits_in_line(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=1)
    first, second = world.connect(), world.connect()
    sends(world, 1)
    for connection in (first, second, first):
        refusal = world.refused(c.Send(connection, "orders", b"", BODY))
        assert refusal.code is Code.BLOCKED
    line = world.broker.room.waiting
    assert line.addresses() == ["orders"]
    assert (line.first("orders"), line.length("orders")) == ((first, 0), 2)
    assert capacity.next_in_line(world.broker, "orders") is None
    assert "max-size-messages is 1" in capacity.explain(world.broker, "orders")
    world.ok(c.PurgeQueue("orders"))
    assert capacity.next_in_line(world.broker, "orders") == (first, 0)
    # Nobody goes before who stands before.
    assert is_blocked(try_send(world, second))
    assert is_blocked(try_send(world, world.connect()))
    assert isinstance(try_send(world, first), int)
    assert line.first("orders") == (second, 0)


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
        assert capacity.next_in_line(world.broker, "orders") is None  # in flight counts
        world.ack(consumer, delivery.message)
    assert capacity.next_in_line(world.broker, "orders") == (connection, 0)
    assert isinstance(try_send(world, connection), int)
    assert not world.broker.room.waiting.addresses()
    world.check()


def test_a_link_waits_and_the_others_of_its_connection_do_not(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    connection = world.connect()

    def send(link: int, address: str = "orders") -> bool:
        return is_blocked(world.handle(c.Send(connection, address, b"", BODY, link=link)))

    assert send(1)
    assert send(2)
    assert not send(3, "elsewhere")
    line = world.broker.room.waiting
    assert (line.first("orders"), line.length("orders")) == ((connection, 1), 2)
    world.ok(c.GiveUpSend(connection, 1))
    assert line.first("orders") == (connection, 2)
    world.begin(connection)
    world.send("orders", BODY, connection, transaction="t")
    assert is_blocked(world.handle(c.Commit(connection, "t", link=4)))
    assert line.address_of((connection, 4)) == "orders"
    world.close(connection)
    assert not line.addresses()
    assert not line.count


def test_who_goes_away_is_waited_for_no_more(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    first, second = world.connect(), world.connect()
    assert is_blocked(try_send(world, first))
    assert is_blocked(try_send(world, second))
    world.close(first)
    assert world.broker.room.waiting.first("orders") == (second, 0)
    world.close(second)
    assert not world.broker.room.waiting.addresses()


def test_who_has_its_turn_may_go_on_as_long_as_there_is_room(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=2)
    first, second = world.connect(), world.connect()
    sends(world, 2)
    assert is_blocked(try_send(world, first))
    assert is_blocked(try_send(world, second))
    world.ok(c.PurgeQueue("orders"))
    world.broker.room.waiting.serving = first, 0
    assert isinstance(try_send(world, first), int)
    assert isinstance(try_send(world, first), int)
    assert is_blocked(try_send(world, first))
    world.broker.room.waiting.serving = None
    assert world.broker.room.waiting.first("orders") == (second, 0)


def test_a_sender_without_a_connection_does_not_stand_in_line(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    assert is_blocked(try_send(world, 0))
    assert not world.broker.room.waiting.addresses()


def test_administration_is_never_blocked(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    world.broker.report_disk("the disk is full")
    world.ok(create_queue("orders", "orders", ANYCAST))
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
    assert not world.broker.room.waiting.addresses()


def test_a_blocked_transaction_can_be_rolled_back(world: World) -> None:
    limited(world, "BLOCK", max_size_messages=0)
    connection = world.connect()
    transaction(world, connection, "orders")
    assert is_blocked(world.handle(c.Commit(connection, "t")))
    world.abort(connection)
    assert not world.broker.room.waiting.addresses()


def test_a_commit_passes_lines_and_stands_in_one(world: World) -> None:
    limits_of = {"max_size_messages": 1, "address_full_policy": "BLOCK"}
    world.settings(one=limits_of, two=limits_of)
    single, both = world.connect(), world.connect()
    sends(world, 1, "one")
    sends(world, 1, "two")
    assert is_blocked(try_send(world, single, "two"))
    transaction(world, both, "one", "two")
    assert is_blocked(world.handle(c.Commit(both, "t")))
    assert world.broker.room.waiting.address_of((both, 0)) == "one"
    world.ok(c.PurgeQueue("one"))
    assert is_blocked(world.handle(c.Commit(both, "t")))
    assert world.broker.room.waiting.address_of((both, 0)) == "two"
    world.ok(c.PurgeQueue("two"))
    world.commit(both)
    assert world.broker.room.waiting.first("two") == (single, 0)


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
    assert reasons_of(world, "TransactionRolledBack") == ["commit-refused"]
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
