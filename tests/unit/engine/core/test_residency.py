"""Content that leaves memory, content that must stay, and how much returns at a time."""

import pytest

from daybook.engine.core.residency import (
    WINDOW_BYTES_MAX,
    WINDOW_BYTES_MIN,
    WINDOWS_BYTES,
    page_out,
    share_windows,
)
from daybook.engine.queues.entry import READY
from daybook.engine.queues.queue import StoreError
from tests.support.models.memory_store import MemoryStore
from tests.support.paged_world import PagedWorld
from tests.support.world import World

MANY = 1 << 40


@pytest.fixture
def world() -> World:
    """A world whose queues can be paged out, and are when a test says so."""
    world = World()
    world.state.attach_store(MemoryStore(world.journal))
    return world


def index(world: World, lsn: int | None = None) -> int:
    store = world.state.store
    assert isinstance(store, MemoryStore)
    store.advance(len(world.journal) if lsn is None else lsn)
    return store.indexed_lsn


def resident(world: World, name: str) -> list[bytes]:
    entries = world.queue(name).entries.values()
    return [entry.message.body for entry in entries if entry.state == READY]


def test_the_head_stays_and_the_rest_leaves(world: World) -> None:
    for number in range(10):
        world.send("q", b"%d" % number)
    assert page_out(world.queue("q"), index(world), 3, MANY) == 7
    assert resident(world, "q") == [b"0", b"1", b"2"]
    assert world.queue("q").ready_count == world.queue("q").message_count == 10
    assert world.ready("q") == [b"%d" % number for number in range(10)]


def test_what_is_not_indexed_stays(world: World) -> None:
    for number in range(4):
        world.send("q", b"%d" % number)
    known = index(world)
    world.send("q", b"new")
    assert page_out(world.queue("q"), known, 0, 0) == 4
    assert resident(world, "q") == [b"new"]
    assert page_out(world.queue("q"), index(world), 0, 0) == 1


def test_what_came_back_stays_until_that_is_indexed(world: World) -> None:
    peer = world.connect()
    world.send("q", b"a")
    consumer = world.attach(peer, "q", credit_messages=1, credit_bytes=0)
    (delivery,) = world.taken()
    known = index(world)
    world.detach(consumer)
    assert page_out(world.queue("q"), known, 0, 0) == 0
    assert page_out(world.queue("q"), index(world), 0, 0) == 1
    world.attach(peer, "q", credit_messages=1, credit_bytes=0)
    assert [(d.message, d.body) for d in world.taken()] == [(delivery.message, b"a")]


def test_what_the_journal_does_not_have_stays(world: World) -> None:
    world.send("q", b"gone with the process", persistent=False)
    world.send("q", b"kept")
    assert page_out(world.queue("q"), index(world), 0, 0) == 1
    assert resident(world, "q") == [b"gone with the process"]
    assert world.ready("q") == [b"gone with the process", b"kept"]


def test_bytes_bound_the_window_too(world: World) -> None:
    for _ in range(10):
        world.send("q", b"x" * 1000)
    assert page_out(world.queue("q"), index(world), 1000, 3000) >= 7


def test_a_gap_that_is_empty_again_is_no_gap(world: World) -> None:
    peer = world.connect()
    for number in range(3000):
        world.send("q", b"%d" % number)
    page_out(world.queue("q"), index(world), 10, MANY)
    assert list(world.queue("q").paged_ranges())
    world.attach(peer, "q", credit_messages=3000)
    assert world.taken_bodies() == [b"%d" % number for number in range(3000)]
    assert not list(world.queue("q").paged_ranges())


def test_a_store_that_lost_something_is_noticed() -> None:
    world = PagedWorld(window=1, lag=0)
    for number in range(5):
        world.send("q", b"%d" % number)
    world.store.state.queue_by_name["q"].levels[4].head.line.pop()
    peer = world.connect()
    with pytest.raises(StoreError, match="more in the journal than in the index"):
        world.attach(peer, "q", credit_messages=10)


def test_windows_are_shared_and_have_bounds(world: World) -> None:
    peer = world.connect()
    share_windows(world.state)
    assert world.state.window.bytes == WINDOW_BYTES_MAX
    for number in range(WINDOWS_BYTES // WINDOW_BYTES_MAX * 2):
        world.attach(peer, f"q{number}")
    assert WINDOW_BYTES_MIN < world.state.window.bytes == WINDOW_BYTES_MAX // 2


def test_an_address_can_ask_for_smaller_windows(world: World) -> None:
    world.settings(q={"max_read_page_messages": 5})
    peer = world.connect()
    for number in range(40):
        world.send("q", b"%d" % number)
    page_out(world.queue("q"), index(world), 0, 0)
    world.attach(peer, "q", credit_messages=1, credit_bytes=0)
    assert len(resident(world, "q")) == 4
