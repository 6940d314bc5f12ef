"""Percentiles of many values in little memory: counts by the first three digits of a value.

Engines count the values, so the result is small for any history; DuckDB and Spark give the same
counts, because only integers are used. A percentile is exact to three digits, rounded down; the
maximum is exact. Must never know what is measured.
"""

from collections.abc import Iterator
from itertools import accumulate
from math import ceil
from typing import Final

DIGITS: Final = 3
_LARGEST: Final = 16
"""Digits of the largest possible value: microseconds of some hundred years."""


def bucket(value: str) -> str:
    """Return SQL for the bucket of an integer expression: its first three digits, then zeros."""
    cases = "".join(
        f"WHEN {value} < {10**digits} THEN {value} // {10 ** (digits - DIGITS)} "
        f"* {10 ** (digits - DIGITS)} "
        for digits in range(DIGITS + 1, _LARGEST + 1)
    )
    return f"CASE WHEN {value} < {10**DIGITS} THEN {value} {cases}ELSE {value} END"


class Spread:
    """A histogram; histograms can be added."""

    __slots__ = ("count", "counts", "most")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.count = 0
        self.most = 0

    def add(self, bucket: int, count: int, most: int) -> None:
        """Add `count` values of a bucket, the largest of which is `most`."""
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.count += count
        self.most = max(self.most, most)

    def include(self, other: "Spread") -> None:
        """Add another histogram."""
        for value, count in other.counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        self.count += other.count
        self.most = max(self.most, other.most)

    def percentiles(self, *wanted: float) -> list[int]:
        """Return percentiles; 0 if there are no values."""
        ordered = sorted(self.counts.items())
        sums = list(accumulate(count for _, count in ordered))
        found = []
        for percent in wanted:
            rank = max(ceil(percent * self.count / 100), 1)
            at = next((at for at, total in enumerate(sums) if total >= rank), None)
            found.append(ordered[at][0] if at is not None else 0)
        return found

    def buckets(self) -> Iterator[tuple[int, int]]:
        """Return values with their counts, in order."""
        return iter(sorted(self.counts.items()))
