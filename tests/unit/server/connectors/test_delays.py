"""The delays between attempts: they double, have a limit, and vary by chance."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.server.connectors.delays import Delays


def test_delays_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    delays = Delays(1.0, 30.0, lambda: 0.0)
    assert [delays.next() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    delays.reset()
    assert delays.next() == 1


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0.001, 10), st.floats(10, 100))
def test_chance_cuts_a_delay_by_up_to_a_half(
    attempts: int, chance: float, first: float, most: float
) -> None:
    whole, cut = Delays(first, most, lambda: 0.0), Delays(first, most, lambda: chance)
    for _ in range(attempts):
        longest, delay = whole.next(), cut.next()
        assert longest / 2 <= delay <= longest <= most
