"""Works done ahead give their results in order, as many as are taken, and their errors in place."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.pipeline.ahead import AHEAD, in_order

DEADLINE = 60.0
"""For what must happen at once; reached only where a test fails."""


@given(st.lists(st.integers()), st.integers(1, 4))
def test_results_come_in_order(items: list[int], threads: int) -> None:
    assert list(in_order(iter(items), lambda item: -item, threads)) == [-item for item in items]


def test_so_many_run_at_once() -> None:
    together = threading.Barrier(3)

    def work(_: int) -> int:
        # Each waits for the two others.
        return together.wait(DEADLINE)

    assert sorted(in_order(iter(range(3)), work, 3)) == [0, 1, 2]


def test_the_source_is_advanced_by_who_takes_the_results() -> None:
    def source() -> Iterator[int]:
        while True:
            yield threading.get_ident()

    results = in_order(source(), lambda item: item, 4)
    assert {next(results) for _ in range(50)} == {threading.get_ident()}


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_error_of_a_work_comes_behind_what_was_before_it(threads: int) -> None:
    def work(item: int) -> int:
        if item == 2:
            raise ValueError("the disk is gone")
        return item

    results = in_order(iter(range(10)), work, threads)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="the disk is gone"):
        next(results)
    assert list(results) == []


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_error_of_the_source_comes_behind_what_was_before_it(threads: int) -> None:
    def source() -> Iterator[int]:
        yield from range(5)
        raise ValueError("the disk is gone")

    results = in_order(source(), lambda item: item, threads)
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="the disk is gone"):
        next(results)


def test_memory_is_bounded_and_who_stops_leaves_nothing_behind() -> None:
    begun: list[int] = []
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            for number in range(1000):
                begun.append(number)
                yield number
        finally:
            closed.set()

    results = in_order(source(), lambda item: item, 3)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    results.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    # Pieces that were taken, that are at work, and that wait.
    assert len(begun) <= 5 + 3 + AHEAD
    assert not [each for each in threading.enumerate() if each.name.startswith("decoding")]
