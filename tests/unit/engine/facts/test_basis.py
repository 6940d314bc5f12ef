"""Dropped, Diverted and Routed record the basis of their decision."""

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.facts.details import Basis
from daybook.engine.facts.reasons import REASONS
from tests.support.topology import create_queue
from tests.support.world import Event, World


def dropped(world: World) -> tuple[str, Basis]:
    event = world.events_named("Dropped")[-1]
    return REASONS[event.row[1]][0], event.decoded.basis


def routed(world: World) -> Event:
    return world.events_named("Routed")[-1]


def test_no_binding_says_what_its_sender_asked_for(world: World) -> None:
    world.ok(create_queue("q", "q"))
    world.ok(c.CreateAddress("q", (ANYCAST, MULTICAST)))
    world.send("q", b"abc", routing_type=MULTICAST)
    assert dropped(world) == ("no-binding", Basis(routing_type=MULTICAST, body_bytes=3))


def test_a_queue_that_was_named_is_said(world: World) -> None:
    world.ok(create_queue("q", "q", enabled=False))
    world.send("q", b"", queue="q")
    assert dropped(world) == ("disabled", Basis(queue="q"))


@pytest.mark.parametrize("persistent", [True, False])
def test_what_filters_refuse_keeps_its_headers_if_its_content_is_journaled(
    world: World, persistent: bool
) -> None:
    world.ok(c.CreateAddress("n", (MULTICAST,)))
    world.ok(create_queue("big", "n", MULTICAST, filter="kind=big"))
    world.send("n", b"", persistent=persistent, headers={"kind": "small"})
    assert dropped(world) == ("no-matching-filter", Basis())
    expected = b"kind:small\n" if persistent else b""
    assert world.events_named("Dropped")[-1].headers == expected


def test_without_a_filter_there_are_no_headers(world: World) -> None:
    world.ok(c.CreateAddress("n", (MULTICAST,)))
    world.send("n", b"", headers={"kind": "small"})
    assert world.events_named("Dropped")[-1].headers == b""


def test_how_full_it_was_and_the_limit(world: World) -> None:
    world.settings(q={"max_size_messages": 1, "address_full_policy": "DROP"})
    world.ok(create_queue("q", "q"))
    world.send("q")
    world.send("q")
    assert dropped(world) == ("max-size-messages", Basis(held=1, limit=1))


def test_what_the_machine_said() -> None:
    world = World(disk_full_policy="DROP")
    world.ok(create_queue("q", "q"))
    world.broker.report_disk("4 bytes are free")
    world.send("q")
    assert dropped(world) == ("disk-full", Basis(text="4 bytes are free"))


@pytest.mark.parametrize("persists", [True, False])
def test_an_id_that_is_in_memory_only_is_said_to_be(persists: bool) -> None:
    world = World(persist_id_cache=persists)
    for _ in range(2):
        world.send("q", duplicate_id="7")
    assert dropped(world) == ("duplicate", Basis(volatile=not persists))


def test_a_copy_that_was_refused_says_where_it_was_to_go(world: World) -> None:
    world.settings(nowhere={"auto_create_queues": False, "auto_create_addresses": False})
    world.ok(create_queue("q", "q"))
    world.ok(c.CreateDivert(DivertDefinition("d", "q", ("nowhere",))))
    world.send("q")
    assert dropped(world) == ("unroutable", Basis(destination="nowhere"))


def test_diverted_says_what_its_filters_read(world: World) -> None:
    world.ok(create_queue("q", "q"))
    world.ok(create_queue("other", "other"))
    world.ok(c.CreateDivert(DivertDefinition("d", "q", ("other",), True, "kind=big")))
    world.send("q", b"abc", headers={"kind": "big"})
    event = world.events_named("Diverted")[-1]
    assert (event.decoded.basis, event.headers) == (Basis(body_bytes=3), b"kind:big\n")


def test_a_delivery_time_is_said_by_the_message_itself(world: World) -> None:
    due = world.now // 1000 + 50
    world.send("q", due=due)
    assert routed(world).decoded.due == due
    world.send("q", due=world.now // 1000)
    assert routed(world).detail == b""


def test_a_queue_is_said_to_be_named_where_others_could_get_the_message(world: World) -> None:
    world.ok(create_queue("q", "q"))
    world.send("q", queue="q")
    assert routed(world).detail == b""
    world.ok(create_queue("r", "q"))
    world.send("q", queue="q")
    assert routed(world).decoded.named
    world.send("q")
    assert not (routed(world).detail and routed(world).decoded.named)
