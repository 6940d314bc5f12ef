"""Pages of a list that is in order: those of one look, for a client that takes one by one."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from daybook.server.process import ordered_lists
from daybook.server.process.ordered_lists import KEPT_SECONDS, KeptOrders, Order, Page, in_order
from daybook.server.process.slices import PAGE_MAX, at_once

MANY = 2 * PAGE_MAX + 7
NUMBERS = [each * 7919 % MANY for each in range(MANY)]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def nobody_looks() -> Iterator[int]:
    raise AssertionError("this looks at all objects again")
    yield 0


def page(order: Order, offset: int = 0, limit: int = PAGE_MAX, *, again: bool = False) -> Page[Any]:
    """Return a page of numbers by their negative, and by their text."""
    found = NUMBERS if again else nobody_looks()
    orders = {"less": lambda each: -each}
    return at_once(in_order(found, offset, limit, order, orders, str, lambda each: each))


@pytest.mark.parametrize(
    ("wanted", "every"),
    [
        ({}, list(range(MANY))),
        ({"descending": True}, list(range(MANY))[::-1]),
        ({"sort": "less"}, list(range(MANY))[::-1]),
        ({"search": "1"}, [each for each in range(MANY) if "1" in str(each)]),
    ],
)
def test_pages_with_a_cursor_come_from_one_look(wanted: dict[str, Any], every: list[int]) -> None:
    kept = KeptOrders()
    first = page(Order(**wanted, key="a", kept=kept), again=True)
    rows, cursor, offset = list(first.objects), first.cursor, first.next_offset
    assert (cursor > 0) == (offset is not None)
    while offset is not None:
        following = page(Order(**wanted, key="a", kept=kept, cursor=cursor), offset)
        assert following.total == len(every)
        rows += following.objects
        offset = following.next_offset
        assert following.cursor == (cursor if offset is not None else 0)
    assert rows == every
    assert kept.objects(cursor, "a") is None, "nobody takes more of it"


def test_short_pages_and_single_ones_are_not_kept() -> None:
    kept = KeptOrders()
    assert page(Order(kept=kept), 0, PAGE_MAX - 1, again=True).cursor == 0
    assert page(Order(kept=kept), MANY - PAGE_MAX, again=True).cursor == 0
    assert page(Order(), again=True).cursor == 0
    assert "cursor" not in page(Order(), again=True).answer("numbers", [])


def test_an_order_that_nobody_uses_is_dropped() -> None:
    clock = Clock()
    kept = KeptOrders(clock)
    cursor = page(Order(kept=kept), again=True).cursor
    clock.now += KEPT_SECONDS
    assert page(Order(kept=kept, cursor=cursor), PAGE_MAX).objects[0] == PAGE_MAX
    clock.now += KEPT_SECONDS
    assert page(Order(kept=kept, cursor=cursor), PAGE_MAX).objects[0] == PAGE_MAX
    clock.now += KEPT_SECONDS + 1
    after = page(Order(kept=kept, cursor=cursor), PAGE_MAX, again=True)
    assert after.objects[0] == PAGE_MAX
    assert after.cursor not in (0, cursor)


def test_a_cursor_is_good_for_its_list_only() -> None:
    kept = KeptOrders()
    cursor = page(Order(kept=kept, key="a"), again=True).cursor
    assert kept.objects(cursor, "b") is None
    assert kept.objects(cursor + 1, "a") is None
    assert kept.objects(cursor, "a") is not None


def test_what_is_kept_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_lists, "KEPT_WORDS_MAX", 2 * MANY)
    kept = KeptOrders()
    one, two = (page(Order(kept=kept), again=True).cursor for _ in range(2))
    assert kept.objects(one, None) is not None
    three = page(Order(kept=kept), again=True).cursor
    assert [kept.objects(each, None) is not None for each in (one, two, three)] == [
        True, False, True,
    ]  # fmt: skip
    too_large = page(Order(kept=kept, words=3), again=True)
    assert (too_large.cursor, too_large.next_offset) == (0, PAGE_MAX)


@pytest.mark.parametrize("wanted", [{}, {"sort": "less"}, {"search": "0", "descending": True}])
def test_a_page_of_many_leaves_little_for_the_garbage_collector(wanted: dict[str, Any]) -> None:
    """A tuple for each object would make it look at all of them, several times."""
    many = 50_000
    orders = {"less": lambda each: -each % 7}
    slices = in_order(range(many), many // 2, 100, Order(**wanted), orders, str, lambda each: each)
    gc.disable()
    try:
        before, most = gc.get_count()[0], 0
        for _ in slices:
            most = max(most, gc.get_count()[0] - before)
    finally:
        gc.enable()
    assert 0 < most < many // 5
