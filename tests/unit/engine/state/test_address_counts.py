"""How many messages of an address queues took, and how many none did, live and after a fold."""

from daybook.engine.commands import CreateDivert
from daybook.engine.facts.definitions import MULTICAST, DivertDefinition
from tests.support.topology import create_queue
from tests.support.world import World, address_counts


def counts(world: World, address: str) -> tuple[int, int]:
    return address_counts(world.state)[world.state.address_by_name[address].id]


def test_addresses_count_what_was_routed_and_what_was_not(world: World) -> None:
    world.ok(create_queue("picky", "q", filter="kind=big"))
    world.send("q", b"small")
    world.send("q", b"big", headers={"kind": "big"})
    world.send("other", b"x")
    address = world.state.address_by_name["q"]
    assert (address.routed, address.unrouted) == (1, 1)
    assert world.state.address_by_name["other"].routed == 1
    world.restart()
    assert (counts(world, "q"), counts(world, "other")) == ((1, 1), (1, 0))


def test_what_goes_to_the_dead_letter_address_counts_at_both(world: World) -> None:
    world.settings(news={"send_to_dla_on_no_route": True, "dead_letter_address": "DLA"})
    world.send("news", b"x", routing_type=MULTICAST)
    assert (counts(world, "news"), counts(world, "DLA")) == ((0, 1), (1, 0))
    definition = DivertDefinition(
        name="d", address="DLA", forwarding_addresses=("audit",), exclusive=True
    )
    world.ok(CreateDivert(definition))
    world.send("news", b"y", routing_type=MULTICAST)
    world.restart()
    assert (counts(world, "news"), counts(world, "DLA")) == ((0, 2), (1, 0))
    assert counts(world, "audit") == (1, 0)
    world.check()


def test_in_a_transaction_to_several_queues_and_after_the_address_is_gone(world: World) -> None:
    for name in ("one", "two"):
        world.ok(create_queue(name, "news", MULTICAST))
    connection = world.connect()
    world.begin(connection)
    world.send("news", b"x", connection=connection, transaction="t", routing_type=MULTICAST)
    assert counts(world, "news") == (0, 0)
    world.commit(connection)
    world.restart()
    assert counts(world, "news") == (1, 0)
