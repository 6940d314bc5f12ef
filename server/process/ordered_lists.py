"""Pages of very many objects, searched and in order, in slices, and orders that are kept for
clients that take one page after the other.

A client that takes pages of the largest size takes the whole list: the first page then has a
cursor, by which the next ones come from the order that was found for it, without another look at
all objects. An order that is not used is soon dropped; then a page costs another look. Must never
know the objects.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, count, islice, repeat
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from daybook.server.process.ranks import Columns, all_in_rank, in_rank
from daybook.server.process.slices import PAGE_MAX, SLICE, Rows, Slices

_T = TypeVar("_T")
KEPT_SECONDS: Final = 10.0
"""So long after its last page an order is kept."""
KEPT_WORDS_MAX: Final = 4_000_000
"""All orders that are kept take so many words of eight bytes at most."""
_name_of: Final = attrgetter("name")


class Kept(msgspec.Struct):
    """An order that is kept: the key of its list, its objects, how many words they take, and when
    it was last used."""

    key: object
    objects: Sequence[Any]
    words: int
    used: float


class KeptOrders:
    """The orders that are kept, by their cursors."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        # None is a cursor of the broker before this one.
        self._numbers: Final = count(time.time_ns() // 1000)
        self._kept: Final[dict[int, Kept]] = {}

    def keep(self, key: object, objects: Sequence[Any], words: int) -> int:
        """Keep an order of objects with so many words, and return its cursor; 0 if they are too
        many."""
        if words > KEPT_WORDS_MAX:
            return 0
        cursor = next(self._numbers)
        self._kept[cursor] = Kept(key, objects, words, self._clock())
        while sum(each.words for each in self._kept.values()) > KEPT_WORDS_MAX:
            # Those that are used go to the end.
            del self._kept[next(iter(self._kept))]
        return cursor

    def objects(self, cursor: int, key: object) -> Sequence[Any] | None:
        """Return the objects of an order, None if it is not kept (any more)."""
        self.drop_old()
        kept = self._kept.get(cursor)
        if kept is None or kept.key != key:
            return None
        kept.used = self._clock()
        self._kept[cursor] = self._kept.pop(cursor)
        return kept.objects

    def drop(self, cursor: int) -> None:
        """Drop an order: its last page was taken."""
        self._kept.pop(cursor, None)

    def drop_old(self) -> None:
        """Drop the orders that nobody used lately."""
        before = self._clock() - KEPT_SECONDS
        for cursor in [each for each, kept in self._kept.items() if kept.used < before]:
            del self._kept[cursor]


class Order(msgspec.Struct, frozen=True):
    """Which rows of a list are wanted, and in which order: those whose name contains `search`, by a
    column, or by name if it is empty.

    `cursor` is that of the page before, 0 for the first page, and `key` tells the list from others.
    An object of the list takes so many words of memory if it is `kept`.
    """

    search: str = ""
    sort: str = ""
    descending: bool = False
    cursor: int = 0
    key: object = None
    kept: KeptOrders | None = None
    words: int = 1

    @property
    def is_by_name(self) -> bool:
        """Whether all rows are wanted, in the order that needs no look at them."""
        return not (self.search or self.sort or self.descending)

    def objects(self) -> Sequence[Any] | None:
        """Return all objects in order if they are kept for this cursor."""
        if self.kept is None or not self.cursor:
            return None
        return self.kept.objects(self.cursor, self.key)


BY_NAME: Final = Order()


class Page(NamedTuple, Generic[_T]):
    """A page of a list: its objects, how many there are in all, where the next page begins (None if
    this is the last), and the cursor for that, 0 for none."""

    objects: Sequence[_T]
    total: int
    next_offset: int | None
    cursor: int = 0

    def answer(self, key: str, rows: Rows) -> dict[str, Any]:
        """Return the answer with the rows of the page."""
        told = {key: rows, "total": self.total, "next_offset": self.next_offset}
        return told | {"cursor": self.cursor} if self.cursor else told


def next_offset(offset: int, count: int, total: int) -> int | None:
    """Where the next page begins, None if there is none."""
    return offset + count if count and offset + count < total else None


def page_at(objects: Sequence[_T], offset: int, limit: int) -> Page[_T]:
    """Return a page of objects that are in order."""
    some = objects[offset : offset + limit]
    return Page(some, len(objects), next_offset(offset, len(some), len(objects)))


def in_order(
    found: Iterable[_T],
    offset: int,
    limit: int,
    order: Order,
    orders: dict[str, Callable[[_T], int]],
    text: Callable[[_T], str] = _name_of,
    rank: Callable[[_T], Any] = _name_of,
    numbers: Iterable[int] | None = None,
) -> Slices[Page[_T]]:
    """Return a page of objects in order. Each number is read once, whatever changes meanwhile.

    `text` is searched; `rank` orders what no column does. `numbers` are those of the column, in the
    order of the objects, if they are known already.
    """
    kept = order.objects()
    if kept is not None and order.kept is not None:
        page = page_at(kept, offset, limit)
        if page.next_offset is None:
            order.kept.drop(order.cursor)
            return page
        return page._replace(cursor=order.cursor)
    every = list(found)
    if numbers is None:
        number = orders.get(order.sort)
        numbers = map(number, every) if number is not None else repeat(0)
    objects, *keys = yield from _columns(every, iter(numbers), order.search.casefold(), text, rank)
    total = len(objects)
    places = range(total)
    if order.kept is not None and limit >= PAGE_MAX and offset + limit < total:
        sorted_all = yield from all_in_rank(Columns(*keys, places, objects))
        if order.descending:
            sorted_all.reverse()
        cursor = order.kept.keep(order.key, sorted_all, order.words * total)
        return page_at(sorted_all, offset, limit)._replace(cursor=cursor)
    begin, end = min(offset, total), min(offset + limit, total)
    if order.descending:
        begin, end = total - end, total - begin
    some = yield from in_rank(Columns(*keys, places), begin, end)
    if order.descending:
        some.reverse()
    chosen = [objects[place] for *_, place in some]
    return Page(chosen, total, next_offset(offset, len(some), total))


def _columns(
    every: list[_T],
    numbers: Iterator[int],
    search: str,
    text: Callable[[_T], str],
    rank: Callable[[_T], Any],
) -> Slices[tuple[list[_T], list[int], list[Any]]]:
    """Return the objects that are wanted, and of each the number and the rank, which say its
    place."""
    wanted: list[_T] = []
    found: list[int] = []
    ranks: list[Any] = []
    for start in range(0, len(every), SLICE):
        some = every[start : start + SLICE]
        looked = len(some)
        them = list(islice(numbers, looked))
        if search:
            fit = [search in text(each).casefold() for each in some]
            some, them = list(compress(some, fit)), list(compress(them, fit))
        wanted += some
        found += them
        ranks += map(rank, some)
        yield looked
    return wanted, found, ranks
