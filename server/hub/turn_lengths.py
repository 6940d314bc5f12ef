"""How much work a turn may have: less while a client that asks for little waits for others.

Long turns are for throughput: the fixed cost of a turn is spent less often. But everybody's latency
grows with the length of turns. So turns are short for a while once a light peer was heard beside
work that was left over for the next turn, and long again when there was none. A light peer used few
units in the period before and in the current one: clients that send or settle as fast as may be are
never light, and do not shorten turns for each other.

Must never know the work that units are spent on.
"""

from typing import Final

SLICE_UNITS: Final = 250
"""The units of a slice: work for one peer, or one piece of work, in one turn."""
SLICE_LEAST: Final = 50
"""The minimum for new input, even if other new input has used up the turn."""
TURN_UNITS: Final = 300
"""The units of a turn for input, and the same number again for unfinished commands and expiry."""
DELIVERY_UNITS: Final = 600
"""The units of a turn for deliveries."""
SHORT_PART: Final = 2
"""A short turn has this part of all of them."""
SHORT_US: Final = 200_000
"""How long turns stay short after a light peer was heard."""
PERIOD_US: Final = 100_000
LIGHT_UNITS: Final = 200
"""A peer that uses at most so many units in a period is light."""


class Usage:
    """The units that one peer used: `lately` since `since`, and `before` in the period before
    that."""

    __slots__ = ("before", "lately", "since")

    def __init__(self) -> None:
        self.before = 0
        self.lately = 0
        self.since = 0

    def add(self, units: int, now: int) -> bool:
        """Count what an input used; return whether the peer is light."""
        passed = now - self.since
        if not 0 <= passed < PERIOD_US:
            self.before = self.lately if 0 <= passed < 2 * PERIOD_US else 0
            self.lately = 0
            self.since = now
        self.lately += units
        return self.before <= LIGHT_UNITS and self.lately <= LIGHT_UNITS


class TurnLengths:
    """The units that the parts of a turn may have now."""

    __slots__ = ("_short_until", "delivery", "least", "slice", "turn")

    def __init__(self) -> None:
        self._short_until = 0
        self._divide(1)

    @property
    def are_short(self) -> bool:
        """Whether turns are short now."""
        return self._short_until > 0

    def shorten(self, now: int) -> None:
        """Make turns short for a while."""
        if not self.are_short:
            self._divide(SHORT_PART)
        self._short_until = now + SHORT_US

    def tick(self, now: int) -> None:
        """Make turns long again when it is time."""
        if self.are_short and not 0 < self._short_until - now <= SHORT_US:
            self._short_until = 0
            self._divide(1)

    def _divide(self, part: int) -> None:
        self.slice = SLICE_UNITS // part
        self.least = SLICE_LEAST // part
        self.turn = TURN_UNITS // part
        self.delivery = DELIVERY_UNITS // part
