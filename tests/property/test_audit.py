"""The audit gives no false alarm: whatever a broker decides, its own rules allow."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.auditing import DoorWorld, judged
from tests.support.histories import some_history
from tests.support.scenario import RESTART, Step, play, steps


@given(scenario=steps, most=st.sampled_from((0, 4)))
def test_whatever_the_engine_decides_is_allowed(scenario: list[Step], most: int) -> None:
    world = DoorWorld(global_max_messages=most)
    play(world, scenario)
    world.turn()
    assert judged(world.journal, world.ends) == []


@pytest.mark.parametrize("seed", range(20))
def test_long_stories_are_allowed(seed: int) -> None:
    draw = random.Random(seed)
    world = DoorWorld()
    story: list[Step] = [
        (draw.randint(0, RESTART), draw.randint(0, 20), draw.randint(0, 20), draw.randint(0, 20))
        for _ in range(draw.randint(60, 200))
    ]
    play(world, story)
    assert judged(world.journal, world.ends) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_bit_of_everything_is_allowed(seed: int) -> None:
    assert [each for each in judged(some_history(seed, 150)) if each.rule != "requested"] == []
