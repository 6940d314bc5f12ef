"""Chooses where each block is written: in the broker's own process, or by the writer's (ADR 41).

A commit near by saves two hops to another process, but the event loop waits for it, so it is for
small blocks on a fast disk, when no other commit is under way. To change to it takes a
row of small blocks and quick syncs, to change back a large block or clearly slower syncs, so the
way does not change from block to block. Must never know how a block is written, nor the time.
"""

from typing import Final, Protocol

NEAR_BYTES: Final = 16 << 10
"""The largest batch that is committed near by: encoding it takes less time than two hops."""
CALM_BLOCKS: Final = 8
"""How many small blocks in a row it takes to change to commits near by."""
QUICK_SECONDS: Final = 0.002
"""The average time of a sync up to which a change to commits near by is possible."""
SLOW_SECONDS: Final = 0.004
"""The average time of a sync above which the event loop waits for none."""
_COUNTED_SECONDS: Final = 0.01
"""A sync counts as this at most: a single slow one says little of the next."""
_WEIGHT: Final = 1 / 16


class Choice(Protocol):
    """The choice that a writer makes for each block."""

    def choose(self, raw_bytes: int, *, is_alone: bool) -> bool:
        """Return whether to commit a block near by; `is_alone` if nothing else is under way."""
        ...

    def note(self, seconds: float) -> None:
        """A block has become durable; its sync took so long."""
        ...


class CommitChoice:
    """The choice for a broker, from its first block on."""

    def __init__(self) -> None:
        self._calm = 0
        self._average = 0.0
        self._is_near = False

    def choose(self, raw_bytes: int, *, is_alone: bool) -> bool:
        """Return whether to commit a block near by; `is_alone` if nothing else is under way."""
        if raw_bytes > NEAR_BYTES or not is_alone:
            self._calm = 0
            self._is_near = False
        elif not self._is_near:
            self._calm += 1
            self._is_near = self._calm > CALM_BLOCKS and self._average <= QUICK_SECONDS
        return self._is_near

    def note(self, seconds: float) -> None:
        """A block has become durable; its sync took so long."""
        self._average += _WEIGHT * (min(seconds, _COUNTED_SECONDS) - self._average)
        if self._average > SLOW_SECONDS:
            self._is_near = False
