"""Choosing a page of many objects in order, without sorting all of them, and sorting them in
slices.

A sample says between which values the page lies; what lies there is chosen in a second pass, and
again until it is short enough to be sorted. So the work grows with the number of objects and not
with the place of the page, and each slice of it is short. Must never know the objects.
"""

import random
from bisect import bisect
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar, overload

from daybook.server.process.slices import SLICE, Slices

_LAST: Final = itemgetter(-1)
_T = TypeVar("_T", bound=tuple[Any, ...])

SORTED_MAX: Final = 2 * SLICE
"""So many, and those of the page, are sorted at once: some 2 ms, as long as a slice takes."""
SAMPLE: Final = 2000
MARGIN: Final = 100
"""How many values of the sample lie around the page: more than four times as many as its place in
the sample is wrong by."""
ATTEMPTS: Final = 3
PER_PART: Final = 20
SAMPLE_MAX: Final = 4000
"""A sample for all has so many values for each part, up to so many in all."""


class Columns(Sequence[tuple[Any, ...]]):
    """Values of one item of each of these columns, which are made when they are read.

    To make a hundred thousand tuples that stay takes longer than to choose from them, most of all
    because the garbage collector looks at each of them, and at what it is of.
    """

    __slots__ = ("_columns",)

    def __init__(self, *columns: Sequence[Any]) -> None:
        self._columns: Final = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, place: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[Any, ...]]: ...
    def __getitem__(self, place: int | slice) -> tuple[Any, ...] | list[tuple[Any, ...]]:
        found = [column[place] for column in self._columns]
        return list(zip(*found, strict=True)) if isinstance(place, slice) else tuple(found)


def in_rank(values: Sequence[_T], begin: int, end: int) -> Slices[list[_T]]:
    """Return the values with these places in ascending order; no two values are equal."""
    attempts = 0
    while len(values) > SORTED_MAX + end - begin and attempts < ATTEMPTS:
        low, high = _around(values, begin, end)
        yield SLICE
        below = 0
        within: list[_T] = []
        for start in range(0, len(values), SLICE):
            some = values[start : start + SLICE]
            chosen = [each for each in some if low is None or low <= each]
            below += len(some) - len(chosen)
            within += [each for each in chosen if high is None or each < high]
            yield len(some)
        attempts += 1
        if below <= begin and end <= below + len(within) < below + len(values):
            values, begin, end, attempts = within, begin - below, end - below, 0
    ordered = sorted(values)
    yield min(len(ordered), SLICE)
    return ordered[begin:end]


def _around(values: Sequence[_T], begin: int, end: int) -> tuple[_T | None, _T | None]:
    """Return a value at or below those with these places, and one above them; None for no limit."""
    # By chance, since names and times have patterns.
    sample = sorted(random.choices(values, k=SAMPLE))
    low = begin * SAMPLE // len(values) - MARGIN
    high = end * SAMPLE // len(values) + MARGIN
    return (
        sample[low] if low >= 0 else None,
        sample[high] if high < len(sample) else None,
    )


def all_in_rank(values: Sequence[_T]) -> Slices[list[Any]]:
    """Return the last parts of all values, in ascending order of the values, of which no two are
    equal."""
    parts: list[list[_T]] = [[] for _ in range(max(1, len(values) // SLICE))]
    # Several of the sample lie in each part, so that no part is long.
    size = min(PER_PART * len(parts), SAMPLE_MAX) if len(parts) > 1 else 0
    sample = sorted(random.choices(values, k=size))
    bounds = [sample[len(sample) * part // len(parts)] for part in range(1, len(parts))]
    yield SLICE
    for start in range(0, len(values), SLICE):
        for each in values[start : start + SLICE]:
            parts[bisect(bounds, each)].append(each)
        yield SLICE
    last: list[Any] = []
    for part in parts:
        part.sort()
        last += map(_LAST, part)
        yield len(part)
        part.clear()
    return last
