"""A message for several destinations: all of them get it, or none."""

from daybook.engine import commands as c
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.refusals import Code
from tests.support.topology import create_queue
from tests.support.world import World


def to(
    world: World, connection: int, *names: str, body: bytes = b"x", **values: str
) -> c.SendToAll:
    sends = [c.Send(connection, name, b"", body, ANYCAST, **values) for name in names]  # type: ignore[arg-type]
    return c.SendToAll(connection, sends)


def test_it_is_one_group_of_events() -> None:
    world = World()
    own = world.connect()
    lsn = world.ok(to(world, own, "a", "b"))
    committed = world.events_named("TransactionCommitted")
    assert [each.lsn for each in committed] == [lsn]
    routed = world.events_named("Routed")
    assert {each.decoded.transaction for each in routed} == {committed[0].decoded.transaction}
    assert committed[0].decoded.first + committed[0].decoded.events == lsn
    assert world.bodies("a") == world.bodies("b") == [b"x"]


def test_one_that_refuses_it_keeps_it_from_all() -> None:
    world = World()
    own = world.connect()
    world.ok(create_queue("b", "elsewhere"))
    before = world.broker.lsn
    assert world.refused(to(world, own, "a", "b")).code is Code.ALREADY_EXISTS
    assert world.broker.lsn == before


def test_where_it_was_before_it_is_dropped() -> None:
    world = World()
    own = world.connect()
    world.ok(to(world, own, "a", "b", duplicate_id="7"))
    lsn = world.ok(to(world, own, "a", "b", duplicate_id="7"))
    assert lsn == world.broker.lsn
    world.ok(to(world, own, "b", "c", duplicate_id="7"))
    assert [len(world.bodies(name)) for name in "abc"] == [1, 1, 1]


def test_it_counts_as_often_as_it_is_sent() -> None:
    world = World(max_transaction_bytes=10_000)
    own = world.connect()
    world.ok(to(world, own, "a", "b", body=b"x" * 3000))
    refused = world.refused(to(world, own, "a", "b", "c", "d", body=b"x" * 3000))
    assert refused.code is Code.LIMIT
    assert "max-transaction-bytes" in refused.text


def test_one_that_is_full_holds_back_all() -> None:
    world = World()
    own = world.connect()
    world.settings(b={"address-full-policy": "BLOCK", "max-size-messages": 1})
    world.send("b", b"full")
    assert world.handle(to(world, own, "a", "b")).code is Code.BLOCKED  # type: ignore[union-attr]
    assert "a" not in world.state.queue_by_name
    consumer = world.attach(own, "b")
    world.ack(consumer, world.deliveries[0].message)
    world.ok(to(world, own, "a", "b"))
    assert world.bodies("a") == [b"x"]
