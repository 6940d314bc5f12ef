"""The laws of a level by itself: order, tombstones, what comes back, and what the paged range
takes."""

from collections import deque
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from daybook.engine.messages.message import Message
from daybook.engine.queues import level as levels
from daybook.engine.queues.entry import GONE, IN_FLIGHT, READY, Entry
from daybook.engine.queues.level import COMPACT_PART, COMPACT_TOMBSTONES_MIN, NONE_BACK, Level
from tests.support.compiled import replaces_parts


def entry(number: int) -> Entry:
    return Entry(Message(number, 1, 4, 1, 0, b"", b""))


def positions(level: Level) -> list[int]:
    """The READY entries in memory, in the order of the level."""
    islands = level.paged.islands if level.paged is not None else []
    found = [each.position for each in level.ready()]
    found += sorted(each.position for each in islands if each.state == READY)
    if level.paged is not None:
        found += [each.position for each in level.end.ready()]
    return found


class Levels(RuleBasedStateMachine):
    """A level against a set of positions; a stand-in for the store keeps the paged range."""

    def __init__(self) -> None:
        super().__init__()
        self.level = Level()
        self.resident: dict[int, Entry] = {}
        self.out: dict[int, Entry] = {}
        self.stored: dict[int, Entry] = {}
        self.last = 0

    @rule(step=st.integers(1, 3))
    def put(self, step: int) -> None:
        self.last += step
        new = entry(self.last)
        self.level.put(new)
        self.resident[self.last] = new

    @precondition(lambda self: self.resident)
    @rule(pick=st.integers(0, 1000), state=st.sampled_from((IN_FLIGHT, GONE)))
    def withdraw(self, pick: int, state: int) -> None:
        number = sorted(self.resident)[pick % len(self.resident)]
        taken = self.resident.pop(number)
        taken.state = state
        self.level.withdraw(taken)
        if state == IN_FLIGHT:
            self.out[number] = taken

    @precondition(lambda self: self.out)
    @rule(pick=st.integers(0, 1000))
    def put_back(self, pick: int) -> None:
        number = sorted(self.out)[pick % len(self.out)]
        back = self.out.pop(number)
        back.state = READY
        back.changed = self.last
        self.level.put_back(back)
        self.resident[number] = back

    @rule(pick=st.integers(0, 1000))
    def remove(self, pick: int) -> None:
        if self.resident:
            number = sorted(self.resident)[pick % len(self.resident)]
            self.level.remove(self.resident.pop(number))

    @rule(keep=st.integers(0, 3), most=st.integers(1, 20), behind=st.integers(0, 4))
    def leave_memory(self, keep: int, most: int, behind: int) -> None:
        indexed = self.last - behind
        left = self.level.shorten_head(indexed, keep, most)
        if self.level.paged is not None:
            left += self.level.shorten_tail(indexed, most)
        for each in left:
            assert each.position <= indexed
            assert each.changed <= indexed
            self.stored[each.position] = self.resident.pop(each.position)

    @precondition(lambda self: self.level.paged is not None and self.level.first() is None)
    @rule(most=st.integers(1, 3))
    def come_into_memory(self, most: int) -> None:
        paged = self.level.paged
        assert paged is not None
        numbers = sorted(self.stored)[:most]
        loaded = [self.stored.pop(number) for number in numbers]
        for each in loaded:
            paged.subtract(each.message)
            self.resident[each.position] = each
        self.level.join(loaded, numbers[-1] if self.stored else paged.until)
        if paged.count == 0 and not paged.islands:
            self.level.close_paged()

    @rule()
    def first(self) -> None:
        first = self.level.first()
        before_paged = [
            n for n in self.resident if self.level.paged is None or n <= self.level.paged.after
        ]
        assert (first.position if first else None) == min(before_paged, default=None)

    @invariant()
    def order(self) -> None:
        assert positions(self.level) == sorted(self.resident)

    @invariant()
    def paged_counts(self) -> None:
        paged = self.level.paged
        assert (paged.count if paged is not None else 0) == len(self.stored)
        if paged is not None:
            assert all(paged.after < number <= paged.until for number in self.stored)

    @invariant()
    def tombstones(self) -> None:
        assert self.level.linked_count == len(self.resident) + self.level.tombstones
        most = max(COMPACT_TOMBSTONES_MIN, len(self.resident))
        assert self.level.tombstones <= most + len(self.stored)

    @invariant()
    def empty_second_line(self) -> None:
        """All levels share it."""
        assert not NONE_BACK


TestLevels = Levels.TestCase


class LongLevels(Levels):
    """A level that is long from the first entry on, and has its tombstones removed in parts."""

    def __init__(self) -> None:
        super().__init__()
        self.patched = patch.multiple(levels, COMPACT_TOMBSTONES_MIN=1, COMPACT_PART=4)
        self.patched.start()

    def teardown(self) -> None:
        self.patched.stop()

    @rule(count=st.integers(2, 9))
    def put_some(self, count: int) -> None:
        for _ in range(count):
            self.put(1)


TestLongLevels = replaces_parts(LongLevels.TestCase)


@replaces_parts
def test_tombstones_of_a_long_level_are_removed_in_parts() -> None:
    """However long it is, no entry that leaves costs more than a part of it."""
    level = Level()
    entries = [entry(number) for number in range(1, 100_001)]
    for each in entries:
        level.put(each)
    looked: list[int] = []

    def clear(part: deque[Entry], begin: int, most: int) -> int:
        looked.append(min(most, len(part) - begin))
        return cleared(part, begin, most)

    cleared = levels._clear
    with patch.object(levels, "_clear", clear):
        for each in entries[10_000:]:
            each.state = IN_FLIGHT
            level.withdraw(each)
            assert looked[1:] == []
            assert max(looked, default=0) <= COMPACT_PART
            looked.clear()
            assert level.tombstones <= level.linked_count / 2 + 4 * COMPACT_PART
    assert level.linked_count < 50_000
    for each in reversed(entries[10_000:]):
        each.state = READY
        level.put_back(each)
    assert positions(level) == list(range(1, 100_001))


@given(st.permutations(range(1, 40)))
def test_what_comes_back_in_any_order_is_in_order(order: list[int]) -> None:
    level = Level()
    entries = {number: entry(number) for number in range(1, 42)}
    for each in entries.values():
        level.put(each)
    for number in order:
        entries[number].state = IN_FLIGHT
        level.withdraw(entries[number])
    level.compact()
    for number in order:
        entries[number].state = READY
        level.put_back(entries[number])
    assert positions(level) == list(range(1, 42))
    assert [each.position for each in level.head.all()] == list(range(1, 42))


def test_what_comes_back_costs_nothing_of_the_length() -> None:
    """Each turn one entry goes and comes back, and the line is as it was."""
    level = Level()
    entries = [entry(number) for number in range(1, 10_001)]
    for each in entries:
        level.put(each)
    for _ in range(100):
        first = level.first()
        assert first is entries[0]
        first.state = IN_FLIGHT
        level.withdraw(first)
        line = level.head.line
        second = level.first()
        assert second is not None
        second.state = IN_FLIGHT
        level.withdraw(second)
        for each in (second, first):
            each.state = READY
            level.put_back(each)
        # Neither sorted again nor moved: returned entries are beside it.
        assert level.head.line is line
        assert len(level.head.back) == 2
        assert len(line) == 9_998


def test_a_tombstone_and_who_took_its_place_may_both_have_come_back() -> None:
    level = Level()
    entries = [entry(number) for number in range(1, 5)]
    for each in entries:
        level.put(each)
    for each in entries[:2]:
        each.state = IN_FLIGHT
        level.withdraw(each)
    for each in entries[:2]:
        each.state = READY
        level.put_back(each)
    taken = entries[1]
    taken.state = GONE
    level.withdraw(taken)
    follower = taken.moved_to(4, 9)
    level.put_back(follower)
    assert positions(level) == [1, 2, 3, 4]
    assert level.tombstones == 1


@pytest.mark.parametrize("indexed", [0, 2])
def test_nothing_leaves_that_the_store_does_not_have(indexed: int) -> None:
    level = Level()
    for number in range(1, 5):
        level.put(entry(number))
    left = level.shorten_head(indexed, 0, 100)
    assert [each.position for each in left] == list(range(1, indexed + 1))
