"""A wall clock that runs faster, for the processes of a broker: a library below them.

Monotonic clocks stay as they are, so sleeps and timeouts take as long as ever; work by the time of
day (retention, expiry, the times of events) sees days pass in minutes.
"""

import os
import time
from pathlib import Path
from typing import Final

import msgspec

SOURCE: Final = Path(__file__).with_name("fast_clock.c")
HOUR_US: Final = 3_600_000_000


class FastClock(msgspec.Struct, frozen=True):
    """The time that a broker with `environment` sees: `speed` times the time since `origin_ns`.

    `origin_ns` is nanoseconds since 1970 UTC.
    """

    origin_ns: int
    speed: int

    def now_us(self) -> int:
        """Microseconds since 1970 UTC, as the broker sees them."""
        return (self.origin_ns + (time.time_ns() - self.origin_ns) * self.speed) // 1000

    def hours(self) -> float:
        """Simulated hours since the origin."""
        return (self.now_us() - self.origin_ns // 1000) / HOUR_US

    def environment(self, library: Path) -> dict[str, str]:
        """The environment of a process that sees this time."""
        before = os.environ.get("LD_PRELOAD", "")
        return {
            "LD_PRELOAD": f"{before}:{library}" if before else str(library),
            "FAST_CLOCK_ORIGIN": str(self.origin_ns),
            "FAST_CLOCK_SPEED": str(self.speed),
        }


def start_clock(speed: int) -> FastClock:
    """A clock that shows the right time now, and is fast from here on."""
    return FastClock(time.time_ns(), speed)
