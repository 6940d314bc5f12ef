"""How much the engine may still do before others have their turn (ADR 27).

Work is counted, not timed: the engine knows no clock, and a run stays reproducible. A unit is what
a plain send costs; whatever touches more than one entry counts each. Who calls the engine says how
much it may do; whoever works long asks `is_spent` between steps, stops, and is called again. Nobody
has to: without a limit all is done at once, and the state that it leads to is the same.
"""

from typing import Final

NO_LIMIT: Final = 1 << 62


class Budget:
    """Units that were ever spent, and how many may be before others have their turn."""

    __slots__ = ("limit", "spent")

    def __init__(self) -> None:
        self.spent: int = 0
        self.limit: int = NO_LIMIT

    def allow(self, units: int) -> None:
        """Allow so many more from here on."""
        self.limit = self.spent + units

    @property
    def left(self) -> int:
        """How many units are left, 0 if none."""
        return max(0, self.limit - self.spent)

    @property
    def is_spent(self) -> bool:
        """Whether others are to have their turn."""
        return self.spent >= self.limit
