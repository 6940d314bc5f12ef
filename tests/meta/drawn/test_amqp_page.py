"""The tables of docs/amqp.md are those of the code."""

import pytest

from tests.meta.drawn import amqp_page
from tests.meta.drawn.drawn_part import Drawn


@pytest.mark.parametrize("part", amqp_page.PARTS, ids=lambda part: part.name)
def test_a_table_is_as_it_is_drawn(part: Drawn) -> None:
    assert part.is_current(), "run `make map`"
