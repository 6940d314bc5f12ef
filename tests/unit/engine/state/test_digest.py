"""The digest tells logical states apart, and nothing else."""

import tracemalloc
from collections.abc import Callable

import msgspec
import pytest

from daybook.engine.commands import ClearDuplicateIds, PauseQueue, Room
from daybook.engine.queues.id_cache import IdCache
from daybook.engine.state.apply import apply
from daybook.engine.state.digest import _array_of, digest
from daybook.engine.state.state import State
from tests.support.compiled import replaces_parts
from tests.support.topology import create_queue
from tests.support.world import World, fold

MIB = 1 << 20


def scenario(world: World) -> tuple[int, int]:
    connection = world.connect()
    world.send("q", b"1", duplicate_id="1")
    world.send("q", b"2", headers={"a": "b"})
    return connection, world.attach(connection, "q", credit_messages=1, credit_bytes=0)


def test_form() -> None:
    assert digest(State()) == digest(State())
    assert len(digest(State())) == 32
    int(digest(State()), 16)


CHANGES: dict[str, Callable[[World, int, int], object]] = {
    "a message": lambda w, c, k: w.send("q", b"3"),
    "an acknowledgement": lambda w, c, k: w.ack(k, next(iter(w.state.consumers[k].unacked))),
    "a count": lambda w, c, k: w.nack(k, next(iter(w.state.consumers[k].unacked))),
    "a delivery": lambda w, c, k: w.credit(k, 1),
    "a queue": lambda w, c, k: w.ok(create_queue("p", "q")),
    "a pause": lambda w, c, k: w.ok(PauseQueue("q")),
    "a consumer": lambda w, c, k: w.attach(c, "q"),
    "a connection": lambda w, c, k: w.connect(),
    "settings": lambda w, c, k: w.settings(all={"max_delivery_attempts": 2}),
    "an id": lambda w, c, k: w.send("q", duplicate_id="2"),
    "no ids": lambda w, c, k: w.ok(ClearDuplicateIds("q")),
    "a mode": lambda w, c, k: w.settings("full"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_it_sees(world: World, what: str) -> None:
    connection, consumer = scenario(world)
    before = digest(world.state)
    CHANGES[what](world, connection, consumer)
    assert digest(world.state) != before


def test_it_leaves_content_to_the_chain_of_the_journal(world: World) -> None:
    scenario(world)
    state = State()
    for event in world.journal:
        apply(state, *event)
    for queue in state.queues.values():
        for entry in queue.entries.values():
            entry.message.headers = entry.message.body = b"paged out"
            entry.message.resident = False
    assert digest(state) == digest(fold(world.journal))


def test_it_leaves_out_what_is_volatile(world: World) -> None:
    connection, consumer = scenario(world)
    world.credit(consumer, 1)
    before = digest(world.state)
    world.credit(consumer, size=-5)
    world.ok(Room(connection, 5))
    world.begin(connection)
    world.ack(consumer, next(iter(world.state.consumers[consumer].unacked)), transaction="t")
    world.queue("q").next_consumer = 7
    world.queue("q").address.next_anycast = 7
    assert digest(world.state) == before
    world.abort(connection)


def test_it_is_that_of_one_array_however_much_there_is() -> None:
    """Encoding a piece at a time gives the same bytes as MessagePack of the whole."""
    for count in (0, 1, 15, 16, 17, 65_535, 65_536):
        assert msgspec.msgpack.encode([None] * count) == _array_of(count) + b"\xc0" * count


class ManyIds(IdCache):
    """Remembers a megabyte of ids."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded = 1

    def joined(self) -> bytes:
        return bytes(MIB)


@replaces_parts
def test_it_takes_memory_for_one_address_at_a_time() -> None:
    """Each may remember thousands of ids, and there may be thousands of such addresses."""
    world = World()
    for number in range(40):
        world.send(f"q{number}", duplicate_id="1")
    for address in world.state.addresses.values():
        address.ids = ManyIds()
    tracemalloc.start()
    try:
        digest(world.state)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * MIB
