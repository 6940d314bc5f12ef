"""Limits reports that strangers can cause: the first of a kind is reported, others are counted.

Time is divided into spans. Within one, `note` returns whether a key is among the first, which are
reported individually; at the end of the span, `take` returns the number of others for each key.
Keys come from strangers, so a span has room for a bounded number of them; the rest is counted
together.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

SPAN_US: Final = 60_000_000


class Tally(Generic[Key]):
    """Counts by key within a span of time; times are microseconds."""

    def __init__(
        self,
        keys_max: int,
        *,
        first: int = 1,
        span_us: int = SPAN_US,
        share: tuple[Callable[[Key], str], int] | None = None,
    ) -> None:
        """Count up to `keys_max` keys in a span, and report the `first` of each.

        `share` returns the cause of a key, and limits the number of keys of one cause.
        """
        self._keys_max: Final = keys_max
        self._share: Final = share
        self._caused: Counter[str] = Counter()
        self._first: Final = first
        self._span_us: Final = span_us
        # Per key: how many were reported, and how many were not.
        self._counts: dict[Key, list[int]] = {}
        self._others = 0
        self._ends = 0

    def note(self, key: Key, now: int, *, unheard: bool = False) -> bool:
        """Count one; return whether to report it individually. An `unheard` one is only counted."""
        if not self._ends:
            self._ends = now + self._span_us
        counts = self._counts.get(key)
        if counts is None:
            if len(self._counts) >= self._keys_max or not self._has_share(key):
                self._others += 1
                return False
            counts = self._counts[key] = [0, 0]
        if unheard or counts[0] >= self._first:
            counts[1] += 1
            return False
        counts[0] += 1
        return True

    def _has_share(self, key: Key) -> bool:
        """Whether the cause of a key may have one more; it is counted then."""
        if self._share is None:
            return True
        cause_of, most = self._share
        cause = cause_of(key)
        if self._caused[cause] >= most:
            return False
        self._caused[cause] += 1
        return True

    def is_over(self, now: int) -> bool:
        """Return whether the span is over, also because the clock was set back."""
        return self._ends != 0 and not self._ends - self._span_us <= now < self._ends

    def take(self) -> tuple[dict[Key, int], int]:
        """End the span; return the unreported count of each key, and of keys beyond the limit."""
        more = {key: counts[1] for key, counts in self._counts.items() if counts[1]}
        others = self._others
        self._counts = {}
        self._caused.clear()
        self._others = 0
        self._ends = 0
        return more, others
