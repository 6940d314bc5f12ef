"""How many connections the limit of open files leaves room for."""

from collections.abc import Iterator

import pytest

from daybook.journal.spares import SPARES
from daybook.server.process.descriptors import CONNECTIONS_MIN, RESERVE, Descriptors


@pytest.fixture(autouse=True)
def no_spares() -> Iterator[None]:
    """Leave the process without the descriptors that a broker holds in reserve."""
    yield
    SPARES.release()


def test_connections_that_are_not_counted_have_descriptors_of_their_own() -> None:
    uncounted = 0
    descriptors = Descriptors(lambda: 1 << 30, lambda: uncounted)
    alone = descriptors.connections_max
    assert alone == descriptors.limit - RESERVE
    uncounted = 10
    assert descriptors.connections_max == max(CONNECTIONS_MIN, alone - 10)
    assert str((1 << 30) + RESERVE + 10) in descriptors.advice()
    uncounted = descriptors.limit
    assert descriptors.connections_max == CONNECTIONS_MIN


def test_few_connections_need_no_advice() -> None:
    descriptors = Descriptors(lambda: 20, lambda: 64)
    assert descriptors.connections_max == 20
    assert descriptors.advice() == ""
