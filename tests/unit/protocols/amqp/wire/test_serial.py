"""Numbers that begin again at 0."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.protocols.amqp.wire.serial import HALF, MODULUS, after, distance

numbers = st.integers(0, MODULUS - 1) | st.sampled_from((0, 1, MODULUS - 1, HALF, HALF - 1))


@pytest.mark.parametrize(
    ("start", "end", "steps"),
    [(0, 0, 0), (0, 1, 1), (1, 0, -1), (MODULUS - 1, 0, 1), (0, MODULUS - 1, -1), (0, HALF, -HALF),
     (0, HALF - 1, HALF - 1)],
)  # fmt: skip
def test_the_distance_of_two_numbers(start: int, end: int, steps: int) -> None:
    assert distance(start, end) == steps
    assert after(start, steps) == end


@given(numbers, st.integers(-HALF, HALF - 1))
def test_a_distance_is_the_steps_that_were_taken(start: int, steps: int) -> None:
    assert 0 <= after(start, steps) < MODULUS
    assert distance(start, after(start, steps)) == steps
