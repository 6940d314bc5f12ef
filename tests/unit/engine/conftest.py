"""A world that is checked when the test ends: whatever it did, fold equals live."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.world import World


@pytest.fixture
def worlds() -> Iterator[Callable[..., World]]:
    """Make worlds with options of their own."""
    made: list[World] = []

    def make(**options: Any) -> World:
        made.append(World(**options))
        return made[-1]

    yield make
    for each in made:
        each.check()
        each.restart()
        each.check()


@pytest.fixture
def world(worlds: Callable[..., World]) -> World:
    return worlds()
