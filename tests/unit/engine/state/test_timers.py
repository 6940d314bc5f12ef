"""Timers: merging memory and store, each given once, and heaps that stay bounded."""

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.queues.entry import READY
from daybook.engine.queues.queue import Due
from daybook.engine.state import timers as module
from daybook.engine.state.timers import AT_A_TIME, EXPIRY, NEVER, PRUNE_MIN, SIFTED, Timers
from tests.support.compiled import replaces_parts


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


def test_what_went_back_is_forgotten_a_part_at_a_time() -> None:
    found = Timers(EXPIRY)
    queues = Queues()
    sizes = [0]
    for number in range(12 * PRUNE_MIN):
        queues.add(number)
        found.add(1000, number, 1, queues)
        sizes.append(len(found._dropped))
    assert max(sizes) > PRUNE_MIN
    assert all(before - after <= SIFTED for before, after in pairwise(sizes))
    assert 0 in sizes[sizes.index(max(sizes)) :]


class Queues(dict[int, Any]):
    """One queue, with the entries that are ready."""

    def __init__(self) -> None:
        super().__init__({1: SimpleNamespace(entries={})})

    def add(self, message: int) -> None:
        self[1].entries[message] = SimpleNamespace(state=READY)

    def remove(self, message: int) -> None:
        self[1].entries.pop(message, None)


@replaces_parts
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "add", "add", "again", "remove", "due"]), st.integers(0, 9)
        ),
        min_size=40,
        max_size=200,
    )
)
def test_no_timer_of_an_entry_is_lost_while_others_are_pruned(steps: list[tuple[str, int]]) -> None:
    queues = Queues()
    waiting: dict[int, int] = {}
    found = Timers(EXPIRY)
    now = number = 0
    with patch.object(module, "PRUNE_MIN", 4):
        found._most = 4
        for step, value in steps:
            if step == "add":
                number += 1
                waiting[number] = now + 1 + value
                queues.add(number)
                found.add(now + 1 + value, number, 1, queues)
            elif step == "again" and waiting:
                again = list(waiting)[value % len(waiting)]
                found.add(waiting[again], again, 1, queues)
            elif step == "remove" and waiting:
                gone = list(waiting)[value % len(waiting)]
                del waiting[gone]
                queues.remove(gone)
            elif step == "due":
                now += value
                soonest = min(waiting.values(), default=NEVER)
                assert found.next(None) <= soonest
                given_now = {each[1] for each in found.due(None, now)}
                due = {each for each, time in waiting.items() if time <= now}
                assert due <= given_now
                for each in due:
                    del waiting[each]
                    queues.remove(each)
