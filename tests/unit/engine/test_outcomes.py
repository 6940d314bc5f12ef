"""What became of a message, read from the events about it."""

from daybook.engine.commands import Begin, Commit, CreateAddress, Send
from daybook.engine.outcomes import Outcome
from tests.support.topology import create_queue
from tests.support.world import World


def outcome(world: World, address: str, **values: object) -> Outcome | None:
    before = world.broker.lsn
    world.handle(Send(0, address, b"", b"x", **values))  # type: ignore[arg-type]
    return world.broker.outcome(before)


def test_the_queues_are_named(world: World) -> None:
    assert outcome(world, "q") == Outcome(("q",))
    assert outcome(world, "q", expires=1 << 50) == Outcome(("q",))
    world.ok(create_queue("a", "news", "multicast"))
    world.ok(create_queue("b", "news", "multicast"))
    assert outcome(world, "news") == Outcome(("a", "b"))
    assert outcome(world, "news") == Outcome(("a", "b"))


def test_what_no_queue_took_was_dropped(world: World) -> None:
    world.ok(CreateAddress("news", ("multicast",)))
    assert outcome(world, "news", routing_type="multicast") == Outcome((), "no-binding")
    assert outcome(world, "q", duplicate_id="1") == Outcome(("q",))
    assert outcome(world, "q", duplicate_id="1") == Outcome((), "duplicate")


def test_nothing_is_said_of_what_no_event_tells(world: World) -> None:
    connection = world.connect()
    world.ok(Begin(connection, "t"))
    before = world.broker.lsn
    world.handle(Send(connection, "q", b"", b"x", transaction="t"))
    assert world.broker.outcome(before) is None
    world.ok(Commit(connection, "t"))
