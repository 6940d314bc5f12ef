"""Segments held in place while Spark reads them: a lease that one process takes and others renew.

Spark plans in one process, reads in others, and tells none of them when it is done; so what is held
has an end, which moves on while somebody reads (ADR 13). Where no lease can be had, reading goes on
without one, and a segment that leaves is told as such. Must never know what is read.
"""

import time
import uuid
from typing import Final

from daybook.journal.pins import Lease
from daybook.pipeline.planning import Plan, Source

RENEWALS: Final = 4
"""How often a reader renews within the time that a lease has."""


class Hold:
    """A lease on a source's data directory, nothing if it has none; can be pickled."""

    def __init__(self, source: Source, seconds: int) -> None:
        self._directory: Final = source.directory
        self._seconds: Final = seconds
        self._name: Final = uuid.uuid4().hex
        self._renewed = 0.0

    def take(self, lsn: int) -> None:
        """Hold what lies from the LSN on, and nothing before it."""
        if self._directory:
            self._renewed = time.monotonic()
            Lease(self._directory, self._name).take(lsn, self._until())

    def take_for(self, plan: Plan) -> None:
        """Hold what a plan needs."""
        self.take(plan.splits[0].first_lsn if plan.splits else plan.last_lsn + 1)

    def renew(self) -> None:
        """Hold the same for longer; cheap, to be called again and again."""
        now = time.monotonic()
        if self._directory and now - self._renewed >= self._seconds / RENEWALS:
            self._renewed = now
            Lease(self._directory, self._name).renew(self._until())

    def release(self) -> None:
        """Hold nothing any more."""
        if self._directory:
            Lease(self._directory, self._name).release()

    def __getstate__(self) -> dict[str, object]:
        """All but when this process renewed it: clocks of other processes differ."""
        return {**self.__dict__, "_renewed": 0.0}

    def _until(self) -> int:
        return time.time_ns() // 1000 + self._seconds * 1_000_000
