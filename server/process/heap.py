"""Gives freed memory back to the system.

The C library keeps memory that Python frees, since it expects to need it again: a broker that was
once full would always look full, and take memory from its neighbours. So when the account of memory
has fallen by much, the library is asked to give back free memory, and again after each step that
the account falls further, so that each call is short. A thread would not help: the
library locks its heap during the call, and the event loop would wait for that lock. Fault model: a
C library without that call keeps its memory. Must never know what used the memory.
"""

import ctypes
import time
from collections.abc import Callable
from typing import Any, Final

from daybook.server.process.machine_memory import resident

FALL_BYTES: Final = 16 << 20
"""How much must have been freed since the last time: it takes some milliseconds."""
FALL_PART: Final = 8
"""And this part of the largest amount used, to begin: a large broker is not asked for little."""
REST_TIMES: Final = 100
"""After a call nothing is given back for so many times as long as it took: 1 % of the time ..."""
CREDIT_US: Final = 20_000_000
"""... but calls may use the time of so many microseconds in which there were none."""
NS_PER_US: Final = 1000


def malloc_trim() -> Callable[[], bool] | None:
    """Return the function that gives memory back, None where the C library has none."""
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return None
    return lambda: bool(trim(0))


class Heap:
    """Decides when to give memory back, by the amount used. Times are in microseconds."""

    def __init__(
        self,
        give_back: Callable[[], bool] | None,
        *,
        meter: Callable[[], int] = time.perf_counter_ns,
        size: Callable[[], int] = resident,
    ) -> None:
        """`meter` returns nanoseconds, `size` the bytes of memory that the process has."""
        self._give_back: Final = give_back
        self._meter: Final = meter
        self._size: Final = size
        self._most = 0
        self._last = 0
        self._rest_until = 0
        self._is_giving = False
        self.times = 0
        self.returned = 0
        self.longest_us = 0

    def tick(self, used: int, now: int) -> None:
        """Give memory back if so much less is used than before; called ten times a second."""
        is_falling = used < self._last
        self._last = used
        self._most = max(self._most, used)
        if self._give_back is not None and now >= self._rest_until and self._is_much(is_falling):
            # A last fall of less than a step is given back when the fall ends.
            self._is_giving = is_falling
            self._call(self._give_back, now)
            self._most = used

    def _is_much(self, is_falling: bool) -> bool:
        """Return whether enough was freed for a call."""
        fallen = self._most - self._last
        if not self._is_giving:
            return fallen >= max(FALL_BYTES, self._most // FALL_PART)
        self._is_giving = is_falling or fallen > 0
        return fallen >= FALL_BYTES if is_falling else fallen > 0

    def _call(self, give_back: Callable[[], bool], now: int) -> None:
        before, begun = self._size(), self._meter()
        give_back()
        took_us = (self._meter() - begun) // NS_PER_US
        self.times += 1
        self.returned += max(0, before - self._size())
        self.longest_us = max(self.longest_us, took_us)
        self._rest_until = max(self._rest_until, now - CREDIT_US) + REST_TIMES * took_us

    def clock_stepped(self, now: int) -> None:
        """Handle a clock that was set: end a rest now at the latest."""
        self._rest_until = min(self._rest_until, now)

    def status(self) -> dict[str, int]:
        """Return the amount given back, for `daybook status`."""
        return {
            "memory_given_back_times": self.times,
            "memory_given_back_bytes": self.returned,
            "memory_given_back_us_longest": self.longest_us,
        }
