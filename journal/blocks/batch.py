"""A batch: the rows that become one block, and the byte strings that belong to them.

Must never know the meaning of a row. The broker has its own class with the same attributes; the
journal reads no others.
"""

from collections.abc import Sequence
from typing import Protocol

from daybook.levels import LEVEL_MIN


class BatchLike(Protocol):
    """The attributes that the journal needs of a batch.

    `rows` are packed rows, one or more in each item; `heaps[k]` has the non-empty strings of heap
    `k` in row order, one or more in each item; `time` is that of the last event, in microseconds
    since 1970 UTC; `raw_bytes` is the size in memory, for back-pressure. `level` is the feature
    level that the rows need (ADR 79).
    """

    first_lsn: int
    level: int
    rows: list[bytes]
    time: int

    @property
    def raw_bytes(self) -> int:
        """Bytes in memory, rows and heaps together."""
        ...

    @property
    def heaps(self) -> Sequence[list[bytes]]:
        """One list of non-empty strings for each heap of the layout."""
        ...


class Batch:
    """A plain batch, for tools and tests."""

    __slots__ = ("first_lsn", "heaps", "level", "raw_bytes", "rows", "time")

    def __init__(
        self,
        first_lsn: int,
        rows: list[bytes],
        heaps: Sequence[list[bytes]],
        time: int,
        level: int = LEVEL_MIN,
    ) -> None:
        self.first_lsn = first_lsn
        self.rows = rows
        self.heaps = heaps
        self.time = time
        self.level = level
        self.raw_bytes = sum(map(len, rows)) + sum(len(text) for heap in heaps for text in heap)
