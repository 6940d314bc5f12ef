"""Giving memory back: when, how often, and never while it costs others time."""

from daybook.server.heap import FALL_BYTES, REST_TIMES, REST_US, Heap, malloc_trim

MIB = 1 << 20
MS = 1_000_000


class Library:
    """A C library that takes some time and gives back what is asked for."""

    def __init__(self) -> None:
        self.calls = 0
        self.clock = 0
        self.took_ms = 1
        self.has = 500 * MIB

    def trim(self) -> bool:
        self.calls += 1
        self.clock += self.took_ms * MS
        self.has = 100 * MIB
        return True

    def heap(self) -> Heap:
        return Heap(self.trim, meter=lambda: self.clock, size=lambda: self.has)


def settled(heap: Heap, held: int, now: int) -> None:
    """What is held has fallen, and stays."""
    heap.tick(held, now)
    heap.tick(held, now)


def test_what_was_freed_is_given_back_once_it_falls_no_more() -> None:
    library = Library()
    heap = library.heap()
    heap.tick(400 * MIB, 1)
    assert library.calls == 0
    heap.tick(200 * MIB, 2)
    heap.tick(10 * MIB, 3)
    assert library.calls == 0
    heap.tick(10 * MIB, 4)
    assert library.calls == 1
    for now in range(5, 100):
        heap.tick(10 * MIB, now)
    assert library.calls == 1
    assert heap.status() == {
        "memory_given_back_times": 1,
        "memory_given_back_bytes": 400 * MIB,
        "memory_given_back_us_longest": 1000,
    }


def test_little_is_not_given_back() -> None:
    library = Library()
    heap = library.heap()
    heap.tick(FALL_BYTES, 1)
    settled(heap, 1, 2)
    assert library.calls == 0
    heap.tick(1000 * MIB, 3)
    settled(heap, 800 * MIB, 4)
    assert library.calls == 0
    settled(heap, 700 * MIB, 5)
    assert library.calls == 1


def test_it_takes_a_hundredth_of_the_time_at_most() -> None:
    library = Library()
    heap = library.heap()
    library.took_ms = 100
    heap.tick(400 * MIB, 1)
    settled(heap, 1, 2)
    heap.tick(400 * MIB, 3)
    settled(heap, 1, REST_US + 3)
    assert library.calls == 1
    settled(heap, 1, 2 + REST_TIMES * 100_000)
    assert library.calls == 2
    heap.tick(400 * MIB, 10)
    heap.clock_stepped(20)
    settled(heap, 1, 20 + REST_US)
    assert library.calls == 3


def test_a_library_that_cannot_is_not_asked() -> None:
    heap = Heap(None)
    heap.tick(400 * MIB, 1)
    settled(heap, 1, 2)
    assert heap.times == 0
    trim = malloc_trim()
    assert trim is None or trim() in (True, False)
