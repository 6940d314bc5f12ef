"""Decides when the index advances: rarely while nothing waits for it, at once when something does.

Between two commits most messages come and go, and those cost next to nothing; a commit itself has a
price, whatever it contains. So after each commit the indexer rests, for many times the duration of
the commit. Where cores are scarce, or the disk is slow, commits take longer, so they become rarer
and larger. The rest is cut short when an address pages, because its entries stay in memory until
they are indexed, and before so much is unindexed that senders would have to wait. Must never know
how the index is written.
"""

from typing import Final

PERIOD_US: Final = 1_000_000
"""How long an event waits for its commit when nothing is urgent."""
EARLY_BYTES: Final = 4 * 1024 * 1024
"""From this many unindexed bytes on, a commit is requested before the period is over."""
PRESSING_SHARE: Final = 0.5
"""No rest lasts longer than until this part of max-unindexed-bytes is reached."""
REST: Final = 20
"""The rest after a commit, as a multiple of its duration: the indexer works 5 % of the time."""
REST_MAX_US: Final = 5_000_000


class Pace:
    """Decides about the next commit; times are in microseconds, of a clock that is never set."""

    def __init__(self) -> None:
        # When events began to wait for a commit, 0 if none does.
        self._waiting_since = 0
        self._rest_until = 0
        self._last_bytes = 0

    def committed(self, now: int, seconds: float) -> None:
        """A commit ended, which took so long by the clock."""
        rest_us = min(int(REST * seconds * 1_000_000), REST_MAX_US)
        self._rest_until = max(self._rest_until, now + rest_us)

    def requested(self) -> None:
        """A commit of everything durable was requested."""
        self._waiting_since = 0

    def is_due(self, now: int, unindexed: int, limit: int, *, is_awaited: bool) -> bool:
        """Return whether to request a commit, now that events wait for one; called at each tick.

        `unindexed` bytes are journaled and not indexed, of `limit` that may be; `is_awaited` says
        that entries cannot leave memory before the commit.
        """
        if not self._waiting_since:
            self._waiting_since = now
        growth = max(0, unindexed - self._last_bytes)
        self._last_bytes = unindexed
        if unindexed + growth > limit * PRESSING_SHARE:
            return True
        is_period_over = now - self._waiting_since >= PERIOD_US
        if not is_period_over and unindexed <= EARLY_BYTES:
            return False
        return is_awaited or now >= self._rest_until
