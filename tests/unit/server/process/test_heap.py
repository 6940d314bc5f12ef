"""Giving memory back: when, how often, and never while it costs others time."""

from daybook.server.process.heap import CREDIT_US, FALL_BYTES, REST_TIMES, Heap, malloc_trim

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


def test_what_was_freed_is_given_back_in_steps_while_it_falls() -> None:
    library = Library()
    heap = library.heap()
    heap.tick(400 * MIB, 1)
    assert library.calls == 0
    calls = []
    for used in (380, 340, 330, 324, 308, 300, 300, 300):
        heap.tick(used * MIB, CREDIT_US)
        calls.append(library.calls)
    # It begins at an eighth, goes on at 16 MiB, and the rest follows when it falls no more.
    assert calls == [0, 1, 1, 2, 3, 3, 4, 4]
    assert heap.status() == {
        "memory_given_back_times": 4,
        "memory_given_back_bytes": 400 * MIB,
        "memory_given_back_us_longest": 1000,
    }


def test_no_call_has_more_to_do_than_what_fell_in_a_tick_or_a_step() -> None:
    library = Library()
    heap = library.heap()
    heap.tick(1000 * MIB, 1)
    given, last = [], 1000
    for used in range(990, 0, -10):
        before = library.calls
        heap.tick(used * MIB, CREDIT_US)
        if library.calls > before:
            given.append(last - used)
            last = used
    assert given[0] == 130
    assert set(given[1:]) == {20}
    assert sum(given) > 970


def test_little_is_not_given_back() -> None:
    library = Library()
    heap = library.heap()
    heap.tick(FALL_BYTES, 1)
    heap.tick(1, 2)
    assert library.calls == 0
    heap.tick(1000 * MIB, 3)
    heap.tick(900 * MIB, 4)
    assert library.calls == 0
    # What grows again ends the steps.
    heap.tick(870 * MIB, 5)
    heap.tick(900 * MIB, 6)
    heap.tick(850 * MIB, 7)
    assert library.calls == 1


def test_it_takes_a_hundredth_of_the_time_at_most() -> None:
    library = Library()
    heap = library.heap()
    library.took_ms = 100
    now = 10 * CREDIT_US
    first = now

    def fall() -> None:
        heap.tick(400 * MIB, now)
        heap.tick(1, now)
        heap.tick(1, now)

    # Time without calls is credit for three of them.
    for calls in (1, 2, 3, 3):
        fall()
        assert library.calls == calls
    now = first + REST_TIMES * 100_000 - 1
    fall()
    assert library.calls == 3
    now += CREDIT_US
    fall()
    assert library.calls == 4
    # A clock that was set back does not make it rest for longer than before.
    now = 1
    heap.clock_stepped(now)
    fall()
    assert library.calls == 5


def test_a_library_that_cannot_is_not_asked() -> None:
    heap = Heap(None)
    heap.tick(400 * MIB, 1)
    heap.tick(1, 2)
    assert heap.times == 0
    trim = malloc_trim()
    assert trim is None or trim() in (True, False)
