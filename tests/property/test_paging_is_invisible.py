"""Paging is invisible: with next to nothing in memory, everything happens as with all in memory."""

from hypothesis import given
from hypothesis import strategies as st

from engine.digest import digest
from engine.invariants import check
from tests.support.paged_world import PagedWorld
from tests.support.scenario import Step, play, steps
from tests.support.world import World, fold


@given(scenario=steps, window=st.integers(0, 3), lag=st.integers(0, 12))
def test_a_tiny_window_and_an_unbounded_one_do_the_same(
    scenario: list[Step], window: int, lag: int
) -> None:
    whole = World()
    play(whole, scenario)
    paged = PagedWorld(window, lag)

    def consistent() -> None:
        assert check(paged.state) == []
        assert digest(paged.state) == digest(fold(paged.journal))

    play(paged, scenario, consistent)
    assert paged.journal == whole.journal
    assert paged.deliveries == whole.deliveries
    assert digest(paged.state) == digest(whole.state)
