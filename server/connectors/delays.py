"""The delays between the attempts of a connector. Must never know a clock."""

from collections.abc import Callable
from typing import Final

PART_BY_CHANCE: Final = 0.5
"""A delay is cut by up to this part, so that brokers do not all come back at one moment."""
DOUBLINGS_MAX: Final = 32


class Delays:
    """The first one is `first`, each further one twice as long, up to `most`; `chance` returns
    numbers from 0 to 1."""

    def __init__(self, first: float, most: float, chance: Callable[[], float]) -> None:
        self._first: Final = first
        self._most: Final = most
        self._chance: Final = chance
        self._doublings = 0

    def next(self) -> float:
        """Return how long to wait after one more failure, in seconds."""
        longest = min(self._first * (1 << self._doublings), self._most)
        self._doublings = min(self._doublings + 1, DOUBLINGS_MAX)
        return longest * (1 - PART_BY_CHANCE * self._chance())

    def reset(self) -> None:
        """Begin with the first one again, after a success."""
        self._doublings = 0
