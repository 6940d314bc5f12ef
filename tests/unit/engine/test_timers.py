"""Timers: merging memory and store, each given once, and heaps that do not grow for ever."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.queues import Due
from daybook.engine.timers import AT_A_TIME, EXPIRY, NEVER, PRUNE_MIN, Timers


class Stored:
    """A store that has timers and nothing else; counts how often it is asked."""

    def __init__(self, timers: Sequence[Due]) -> None:
        self.timers = sorted(timers)
        self.asked = 0

    def due(self, reason: int, after: Due, until: int, limit: int) -> list[Due]:
        assert reason == EXPIRY
        self.asked += 1
        return [each for each in self.timers if after < each and each[0] <= until][:limit]


times = st.integers(1, 30)
timers = st.lists(st.tuples(times, st.integers(1, 50), st.integers(1, 3)), unique=True)


@given(in_memory=timers, in_store=timers, now=times)
def test_everything_due_is_given_once_and_in_order(
    in_memory: list[Due], in_store: list[Due], now: int
) -> None:
    store: Any = Stored(in_store)
    found = Timers(EXPIRY)
    for time, message, queue in in_memory:
        found.add(time, message, queue, {})
    expected = sorted([*in_memory, *in_store])
    given_now = list(found.due(store, now))
    assert given_now == [each for each in expected if each[0] <= now]
    later = [each[0] for each in expected if each[0] > now]
    assert found.next(store) == (later[0] if later else NEVER)
    assert list(found.due(store, now)) == []
    assert given_now + list(found.due(store, 99)) == expected


def test_the_store_is_asked_a_part_at_a_time() -> None:
    store: Any = Stored([(1, number, 1) for number in range(1, 2 * AT_A_TIME + 2)])
    found = Timers(EXPIRY)
    assert len(list(found.due(store, 5))) == 2 * AT_A_TIME + 1
    assert store.asked == 3


def test_what_is_put_back_is_given_again() -> None:
    found = Timers(EXPIRY)
    found.add(1, 2, 3, {})
    (item,) = found.due(None, 1)
    found.put_back(item)
    assert list(found.due(None, 1)) == [item]


def test_timers_of_what_is_gone_are_pruned() -> None:
    found = Timers(EXPIRY)
    for number in range(3 * PRUNE_MIN):
        found.add(1000, number + 1, 1, {})
    assert len(found.heap) <= PRUNE_MIN + 1
