"""Paging is invisible: with next to nothing in memory, everything happens as with all in memory."""

import random

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import READY
from daybook.engine.queues.level_scan import oldest_known, oldest_ready
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from daybook.engine.state.state import State
from tests.support.paged_world import PagedWorld
from tests.support.scenario import RESTART, Step, play, steps
from tests.support.world import World, fold


def oldest(state: State) -> dict[int, int]:
    """The oldest ready message of each queue: it remembers the one that a look at it finds, and
    afterwards that is known without the store."""
    remembered = {queue.id: oldest_ready(queue) for queue in state.queues.values()}
    for queue in state.queues.values():
        queue.oldest = 0
    found = {queue.id: oldest_ready(queue) for queue in state.queues.values()}
    assert found == remembered
    assert {queue.id: oldest_known(queue) for queue in state.queues.values()} == found
    return found


def in_memory(state: State) -> dict[int, int]:
    """The same, of queues that have all in memory."""
    return {
        queue.id: min(
            (
                each.position
                for each in queue.entries.values()
                if each.state == READY and each.level < PRIORITIES
            ),
            default=0,
        )
        for queue in state.queues.values()
    }


@given(scenario=steps, window=st.integers(0, 3), lag=st.integers(0, 12))
def test_a_tiny_window_and_an_unbounded_one_do_the_same(
    scenario: list[Step], window: int, lag: int
) -> None:
    whole = World()
    play(whole, scenario)
    paged = PagedWorld(window, lag)

    def consistent() -> None:
        assert check(paged.state) == []
        folded = fold(paged.journal)
        assert digest(paged.state) == digest(folded)
        assert oldest(paged.state) == in_memory(folded)

    play(paged, scenario, consistent)
    assert paged.journal == whole.journal
    assert paged.deliveries == whole.deliveries
    assert digest(paged.state) == digest(whole.state)


def test_long_scenarios_with_much_traffic() -> None:
    """Scenarios that hypothesis seldom draws: hundreds of steps, mostly sends and settlements."""
    paged_out = 0
    for seed in range(40):
        draw = random.Random(seed)
        scenario = []
        for _ in range(draw.choice((40, 100, 300))):
            number = draw.randrange(RESTART + 1) if draw.random() < 0.6 else draw.randrange(24)
            number = 0 if number == RESTART and draw.random() < 0.7 else number
            scenario.append((number, *(draw.randint(0, 20) for _ in range(3))))
        whole = World()
        play(whole, scenario)
        paged = PagedWorld(draw.randint(0, 3), draw.choice((0, 1, 3, 10, 40)))
        play(paged, scenario)
        assert paged.journal == whole.journal, f"seed {seed}"
        assert paged.deliveries == whole.deliveries, f"seed {seed}"
        folded = fold(paged.journal)
        assert digest(paged.state) == digest(folded)
        assert oldest(paged.state) == in_memory(folded)
        paged_out += paged.paged
    assert paged_out > 100
