"""The outcome of a message, read from the events about it."""

import pytest

from daybook.engine.commands import (
    Begin,
    Commit,
    CreateAddress,
    CreateDivert,
    OpenConnection,
    Send,
)
from daybook.engine.facts.definitions import DivertDefinition
from daybook.engine.routing.send_outcome import NAMES_MAX, Outcome
from daybook.engine.settings.permissions import Permissions
from tests.support.topology import create_queue
from tests.support.world import MANY, World


def outcome(world: World, address: str, **values: object) -> Outcome | None:
    before = world.broker.lsn
    world.handle(Send(0, address, b"", b"x", **values))  # type: ignore[arg-type]
    return world.broker.outcome(before, 0)


def test_the_queues_are_named(world: World) -> None:
    assert outcome(world, "q") == Outcome(("q",))
    assert outcome(world, "q", expires=1 << 50) == Outcome(("q",))
    world.ok(create_queue("a", "news", "multicast"))
    world.ok(create_queue("b", "news", "multicast"))
    assert outcome(world, "news") == Outcome(("a", "b"))
    assert outcome(world, "news") == Outcome(("a", "b"))


def test_names_that_a_sender_may_not_know_are_counted(world: World) -> None:
    world.ok(create_queue("hers", "inbox", "multicast"))
    world.ok(create_queue("his", "inbox", "multicast"))
    rules = {
        "inbox": {"send": ("mail",)},
        "inbox::his": {"browse": ("mail",)},
    }
    world.broker.permit(Permissions(rules, {"mallory": frozenset({"mail"})}))
    peer = world.ok(OpenConnection("stomp", "10.0.0.1:5", "mallory", room=MANY))
    before = world.broker.lsn
    world.handle(Send(peer, "inbox", b"", b"x"))
    assert world.broker.outcome(before, peer) == Outcome(("his",), others=1)


@pytest.mark.parametrize(("exclusive", "names"), [(True, ("a", "b")), (False, ("news",))])
def test_all_copies_of_exclusive_diverts_are_named(
    world: World, exclusive: bool, names: tuple[str, ...]
) -> None:
    for name in ("a", "b"):
        definition = DivertDefinition(
            name=name, address="news", forwarding_addresses=(name,), exclusive=exclusive
        )
        world.ok(CreateDivert(definition))
    assert outcome(world, "news", routing_type="anycast") == Outcome(names)


def test_not_all_of_very_many_are_named(world: World) -> None:
    for number in range(NAMES_MAX + 5):
        world.ok(create_queue(f"q{number}", "news", "multicast"))
    found = outcome(world, "news")
    assert found is not None
    assert (len(found.queues), found.others) == (NAMES_MAX, 5)


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
    assert world.broker.outcome(before, 0) is None
    world.ok(Commit(connection, "t"))
