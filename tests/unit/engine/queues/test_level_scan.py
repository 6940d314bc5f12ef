"""The oldest ready message of a queue, whatever of it is in memory."""

from typing import Any

import pytest

from daybook.engine.administration.message_moves import REMOVE
from daybook.engine.commands import ActOnMessages
from daybook.engine.core.residency import page_out
from daybook.engine.queues.level_scan import oldest_known, oldest_ready
from daybook.engine.queues.queue import Loaded, Queue, StoreError
from daybook.engine.queues.window import Window
from tests.support.models.memory_store import MemoryStore
from tests.support.paged_world import strip
from tests.support.world import World, fold

MANY = 1 << 40


class CountingStore(MemoryStore):
    """Counts how often it is asked; refuses when told to."""

    asked = 0
    broken = False

    def load(self, queue: Queue, level: int, after: int, window: Window) -> Loaded:
        self.asked += 1
        if self.broken:
            raise StoreError("it is broken")
        return super().load(queue, level, after, window)


class Place:
    """A queue all of which leaves memory when a test says so."""

    def __init__(self) -> None:
        self.world = World()
        self.store = CountingStore(self.world.journal)
        self.world.state.attach_store(self.store)

    def send(self, **values: Any) -> int:
        self.world.send("q", b"x", **values)
        return self.world.queue("q").newest

    def leave(self) -> None:
        """Everything that waits leaves memory, and the queue forgets which one is the oldest."""
        self.store.advance(len(self.world.journal))
        page_out(self.world.queue("q"), self.store.indexed_lsn, 0, MANY)
        assert all(each.state for each in self.world.queue("q").entries.values())
        self.world.queue("q").oldest = 0

    def oldest(self) -> int:
        """The oldest one, found by asking the store if that is needed, and then without it."""
        queue = self.world.queue("q")
        needed, before = oldest_known(queue) is None, self.store.asked
        found = oldest_ready(queue)
        assert (self.store.asked > before) == needed
        before = self.store.asked
        assert oldest_known(queue) == found
        assert oldest_ready(queue) == found
        assert self.store.asked == before
        return found


@pytest.fixture
def place() -> Place:
    return Place()


def test_of_all_priorities(place: Place) -> None:
    first = place.send(priority=1)
    place.send(priority=9)
    assert place.oldest() == first
    assert place.store.asked == 0
    place.leave()
    assert place.oldest() == first
    assert place.store.asked == 2


def test_the_store_is_asked_again_only_when_the_first_one_left(place: Place) -> None:
    ids = [place.send() for _ in range(4)]
    place.leave()
    assert place.oldest() == ids[0]
    place.leave()
    place.send()
    assert (place.oldest(), place.store.asked) == (ids[0], 1)
    queue = place.world.queue("q")
    queue.make_resident(queue.store.find(queue, ids[2]))  # type: ignore[union-attr,arg-type]
    assert (place.oldest(), place.store.asked) == (ids[0], 1)
    consumer = place.world.attach(place.world.connect(), "q", credit_messages=1, credit_bytes=0)
    assert place.world.taken(consumer)[0].message == ids[0]
    place.leave()
    assert place.oldest() == ids[1]


def test_one_that_returns_is_the_oldest_again(place: Place) -> None:
    ids = [place.send() for _ in range(3)]
    consumer = place.world.attach(place.world.connect(), "q", credit_messages=1, credit_bytes=0)
    place.leave()
    assert place.oldest() == ids[1]
    place.world.detach(consumer)
    assert place.oldest() == ids[0]
    place.leave()
    assert place.oldest() == ids[0]


def test_one_that_came_into_memory_is_the_oldest_until_it_leaves(place: Place) -> None:
    ids = [place.send() for _ in range(3)]
    place.leave()
    queue = place.world.queue("q")
    first = queue.store.find(queue, ids[0])  # type: ignore[union-attr]
    assert first is not None
    assert place.oldest() == ids[0]
    queue.make_resident(first)
    assert place.oldest() == ids[0]
    place.world.ok(ActOnMessages("q", REMOVE, message=ids[0]))
    assert place.oldest() == ids[1]


def test_what_does_not_wait_is_not_the_oldest(place: Place) -> None:
    due = place.world.now // 1000 + 60_000
    place.send(due=due)
    place.leave()
    assert place.oldest() == 0
    ready = place.send()
    assert place.oldest() == ready


def test_a_store_that_cannot_be_read_is_said(place: Place) -> None:
    first = place.send()
    place.leave()
    place.store.broken = True
    with pytest.raises(StoreError):
        oldest_ready(place.world.queue("q"))
    place.store.broken = False
    assert place.oldest() == first


@pytest.mark.parametrize("leaves", [False, True])
def test_a_queue_remembers_it_until_it_changes(place: Place, leaves: bool) -> None:
    """Lists of very many queues then look at no level; each change is followed, wherever the
    entries are."""
    first, second = place.send(priority=2), place.send(priority=9)
    queue = place.world.queue("q")
    assert queue.oldest == first, "it came into an empty queue: nobody has to look"
    if leaves:
        place.leave()
        place.oldest()
    levels, queue.levels = queue.levels, []
    assert oldest_known(queue) == first
    queue.levels = levels
    consumer = place.world.attach(place.world.connect(), "q", credit_messages=1, credit_bytes=0)
    assert place.world.taken(consumer)[0].message == second
    assert place.oldest() == first
    place.world.detach(consumer)
    assert place.oldest() == first
    place.world.ok(ActOnMessages("q", REMOVE, message=first))
    assert place.oldest() == second
    place.world.ok(ActOnMessages("q", REMOVE, message=second))
    assert place.oldest() == 0


def test_one_that_is_withheld_is_not_the_oldest(place: Place) -> None:
    first, second = place.send(), place.send()
    assert place.oldest() == first
    queue = place.world.queue("q")
    queue.withhold(queue.entries[first])
    assert place.oldest() == second


def test_one_that_a_start_removed_is_not_the_oldest(place: Place) -> None:
    first, second = place.send(persistent=False), place.send()
    place.store.advance(len(place.world.journal))
    queue = strip(fold(place.world.journal), place.store).queue_by_name["q"]
    assert oldest_ready(queue) == first
    queue.drop_paged_transients(second)
    assert oldest_ready(queue) == second


def test_nothing_is_the_oldest_of_a_queue_that_forgot_its_places(place: Place) -> None:
    place.send()
    queue = place.world.queue("q")
    queue.forget_places()
    assert queue.oldest == 0
