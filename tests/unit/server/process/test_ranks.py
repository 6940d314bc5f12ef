"""A page in order is what sorting everything would give, and costs the same wherever it lies."""

import random
from collections.abc import Sequence

import pytest

from daybook.server.process import ranks
from daybook.server.process.ranks import Columns
from daybook.server.process.slices import SLICE, Slices

MANY = 100_000
Value = tuple[int, str, int]
BY_NAME: list[Value] = [(0, f"orders.{each % 50:02d}.c{each:06d}", each) for each in range(MANY)]
BY_NUMBER: list[Value] = [(each * 7919 % 101, f"q{each}", each) for each in range(MANY)]
PLACES = (0, 1, MANY // 2, MANY - 100)


def done(slices: Slices[list[Value]]) -> tuple[list[int], list[Value]]:
    """Return how much each slice looked at, and the result."""
    looked = []
    while True:
        try:
            looked.append(next(slices))
        except StopIteration as end:
            return looked, end.value


@pytest.mark.parametrize("values", [BY_NAME, BY_NUMBER, BY_NUMBER[:500], []])
def test_a_page_is_that_of_the_whole_order(values: list[Value]) -> None:
    ordered = sorted(values)
    for begin in PLACES:
        first = min(begin, len(values))
        last = min(begin + 100, len(values))
        _, page = done(ranks.in_rank(values, first, last))
        assert page == ordered[first:last]


@pytest.mark.parametrize("values", [BY_NAME, BY_NUMBER])
def test_each_page_costs_little_more_than_looking_once(values: list[Value]) -> None:
    for begin in PLACES:
        looked, _ = done(ranks.in_rank(values, begin, begin + 100))
        assert max(looked) <= SLICE
        assert sum(looked) < 1.5 * MANY


def test_a_sample_that_misleads_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def choose(values: Sequence[Value], k: int) -> list[Value]:
        drawn.append(k)
        return sorted(values)[-k:] if len(drawn) < 2 else random.Random(1).choices(values, k=k)

    monkeypatch.setattr(random, "choices", choose)
    _, page = done(ranks.in_rank(BY_NUMBER, 0, 100))
    assert page == sorted(BY_NUMBER)[:100]
    assert len(drawn) > 1


def test_samples_that_always_mislead_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "choices", lambda values, k: sorted(values)[-k:])
    _, page = done(ranks.in_rank(BY_NAME, 0, 100))
    assert page == sorted(BY_NAME)[:100]


@pytest.mark.parametrize("values", [BY_NAME, BY_NUMBER, BY_NUMBER[:500], []])
def test_all_are_sorted_in_slices(values: list[Value], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "choices", random.Random(5).choices)
    looked, last = done(ranks.all_in_rank(values))
    assert last == [each[-1] for each in sorted(values)]
    assert max(looked) < 2 * SLICE


@pytest.mark.parametrize("values", [BY_NAME, BY_NUMBER, BY_NUMBER[:500]])
def test_columns_are_the_values_of_their_items(values: list[Value]) -> None:
    columns = Columns(*(list(column) for column in zip(*values, strict=True)))
    assert len(columns) == len(values)
    assert list(columns) == columns[:] == values
    assert columns[100:-100] == values[100:-100]
    for begin in (0, len(values) // 2):
        _, page = done(ranks.in_rank(columns, begin, begin + 100))
        assert page == sorted(values)[begin : begin + 100]
