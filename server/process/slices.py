"""Work on many objects in slices, between which a running broker has turns.

A generator does a slice, yields at how many objects it has looked, and in the end returns the
result: a sum is then not that of one moment. Must never know the objects.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

_T = TypeVar("_T")
Slices: TypeAlias = Generator[int, None, _T]
"""Work on many objects: after each slice it yields at how many it has looked since the last,
and at the end it returns the result."""
Rows: TypeAlias = list[dict[str, Any]]

SLICE: Final = 1000
"""At how many objects a slice looks, some 1 to 3 ms; a row takes as long as ROW of them."""
ROW: Final = 40
PAGE_MAX: Final = 1000
"""How many rows a page has at most."""


def into(found: list[_T], slices: Slices[_T]) -> Iterator[int]:
    """Do slice by slice, and add the result to a list in the end."""
    found.append((yield from slices))


def at_once(slices: Slices[_T]) -> _T:
    """Return the result of all slices."""
    found: list[_T] = []
    for _ in into(found, slices):
        pass
    return found[0]


def page_of(objects: Iterable[_T], offset: int) -> tuple[list[_T], int | None]:
    """Return a page of objects in their order, and where the next one begins, None if it is the
    last."""
    page = list(islice(objects, offset, offset + PAGE_MAX + 1))
    return page[:PAGE_MAX], offset + PAGE_MAX if len(page) > PAGE_MAX else None


def nothing_more(_: Any) -> int:
    """Return 0: how many objects are looked at for a row besides its own."""
    return 0


def rows_of(
    some: Iterable[_T],
    row: Callable[[_T], dict[str, Any]],
    more: Callable[[_T], int] = nothing_more,
) -> Slices[Rows]:
    """Return a row for each object, without those that are empty; `more` tells at how many other
    objects it looks for that."""
    rows: Rows = []
    looked = 0
    for each in some:
        cost = ROW + more(each)
        if looked and looked + cost > SLICE:
            yield looked
            looked = 0
        if found := row(each):
            rows.append(found)
        looked += cost
    yield looked
    return rows
