"""Works done ahead give their results in order, as many as are taken, and their errors in place."""

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ahead import in_order

ROOM = 3


def weighed(results: int) -> int:
    return 1


DEADLINE = 60.0
"""For what must happen at once; reached only where a test fails."""


@given(st.lists(st.integers(0, 6), max_size=8), st.integers(1, 4))
def test_results_come_in_order(counts: list[int], threads: int) -> None:
    def work(number: int) -> Iterator[tuple[int, int]]:
        yield from ((number, place) for place in range(counts[number]))

    works = [partial(work, number) for number in range(len(counts))]
    expected = [(number, place) for number, count in enumerate(counts) for place in range(count)]
    assert list(in_order(works, threads, lambda _: 1, ROOM)) == expected


def test_so_many_run_at_once() -> None:
    together = threading.Barrier(3)

    def work() -> Iterator[int]:
        # Each waits for the two others.
        yield together.wait(DEADLINE)

    assert sorted(in_order([work] * 3, 3, weighed, ROOM)) == [0, 1, 2]


def test_an_error_comes_behind_what_was_before_it() -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise ValueError("the disk is gone")

    results = in_order([lambda: iter([0]), fails, lambda: iter([2])], 2, weighed, ROOM)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="the disk is gone"):
        next(results)
    assert list(results) == []


def test_memory_is_bounded_and_who_stops_leaves_nothing_behind() -> None:
    made: list[int] = []
    closed = threading.Semaphore(0)

    def work(number: int) -> Iterator[int]:
        try:
            while True:
                made.append(number)
                yield number
        finally:
            closed.release()

    def works() -> Iterator[Callable[[], Iterator[int]]]:
        yield from (partial(work, number) for number in range(100))

    results = in_order(works(), 3, weighed, ROOM)
    assert [next(results) for _ in range(5)] == [0] * 5
    results.close()  # type: ignore[attr-defined]
    for _ in set(made):
        assert closed.acquire(timeout=DEADLINE)
    # What was taken, what waits, and what is in the making.
    assert made.count(0) <= 5 + ROOM + 2
    assert made.count(1) <= ROOM + 2
    assert max(made) <= 3
    assert not [each for each in threading.enumerate() if each.name.startswith("decoding")]


def test_a_result_larger_than_the_room_is_given_all_the_same() -> None:
    works = [lambda: iter([10, 20]), lambda: iter([30])]
    assert list(in_order(works, 2, lambda size: size, 5)) == [10, 20, 30]
