"""The work that the engine may still do before others have their turn (ADR 27).

Work is counted, not timed: the engine knows no clock, and a run stays reproducible. A unit is what
a plain send costs; a function that touches several entries counts each of them. The caller of the
engine sets the budget. Long work asks `is_spent` between steps, stops, and is called again. A
budget is optional: without a limit all work is done at once, and leads to the same state.
"""

from typing import Final

NO_LIMIT: Final = 1 << 62
STEPS_SHIFT: Final = 4
"""A unit has 2 to this power of steps."""
_STEPS_MASK: Final = (1 << STEPS_SHIFT) - 1


class Budget:
    """Units spent so far, and how many may be spent before others have their turn."""

    __slots__ = ("_steps", "limit", "spent")

    def __init__(self) -> None:
        self.spent: int = 0
        self.limit: int = NO_LIMIT
        self._steps: int = 0

    def allow(self, units: int) -> None:
        """Allow so many more units."""
        self.limit = self.spent + units

    def step(self, steps: int) -> None:
        """Count work that is smaller than a unit, such as asking a filter."""
        steps += self._steps
        self.spent += steps >> STEPS_SHIFT
        self._steps = steps & _STEPS_MASK

    @property
    def left(self) -> int:
        """How many units are left, 0 if none."""
        return max(0, self.limit - self.spent)

    @property
    def is_spent(self) -> bool:
        """Whether it is time for others to have their turn."""
        return self.spent >= self.limit
