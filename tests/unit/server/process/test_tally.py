"""Counts of events that strangers cause: the first is logged, the others are counted."""

from daybook.server.process.tally import SPAN_US, Tally


def test_the_first_of_a_key_is_told_and_the_others_are_counted() -> None:
    tally: Tally[str] = Tally(10, first=2)
    assert [tally.note("a", 1) for _ in range(5)] == [True, True, False, False, False]
    assert tally.note("b", 2)
    assert not tally.is_over(SPAN_US)
    assert tally.is_over(1 + SPAN_US)
    assert tally.take() == ({"a": 3}, 0)
    assert not tally.is_over(10 * SPAN_US)
    assert tally.note("a", 10 * SPAN_US)


def test_keys_without_room_share_a_count() -> None:
    tally: Tally[int] = Tally(2)
    assert [tally.note(key, 1) for key in range(5)] == [True, True, False, False, False]
    assert tally.take() == ({}, 3)


def test_what_nobody_hears_is_counted_and_the_first_after_it_is_told() -> None:
    tally: Tally[str] = Tally(2)
    assert not tally.note("a", 1, unheard=True)
    assert tally.note("a", 1)
    assert tally.take() == ({"a": 1}, 0)


def test_a_clock_that_was_set_back_ends_the_span() -> None:
    tally: Tally[str] = Tally(2)
    tally.note("a", 10 * SPAN_US)
    assert not tally.is_over(10 * SPAN_US)
    assert tally.is_over(5 * SPAN_US)
