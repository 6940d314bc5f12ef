"""The loop that knows no rules chooses as the one that knows all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given

from daybook.engine.dispatch import consumer_choice
from tests.support.scenario import Step, play, steps
from tests.support.world import World


@contextmanager
def by_rules_alone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer_choice, "choose_in_turn", consumer_choice.choose_by_rules)
        yield


@given(scenario=steps)
def test_both_loops_choose_alike(scenario: list[Step]) -> None:
    usual = World()
    play(usual, scenario)
    with by_rules_alone():
        other = World()
        play(other, scenario)
    assert other.deliveries == usual.deliveries
    assert other.journal == usual.journal
