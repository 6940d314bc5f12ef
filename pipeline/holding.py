"""Protects segments while Spark reads them: a lease that one process takes and others renew.

Spark plans in one process, reads in others, and does not notify them at the end; so the protection
has an end, which readers extend (ADR 13). If no lease can be taken, reading continues without one,
and a segment that is removed meanwhile is reported as an error. Must never know what is read.
"""

import time
import uuid
from typing import Final

from daybook.journal.pins import Lease
from daybook.pipeline.planning import Plan, Source

RENEWALS: Final = 4
"""How often a reader renews a lease during its time."""


class Hold:
    """A lease on a source's data directory, if it has one; can be pickled."""

    def __init__(self, source: Source, seconds: int) -> None:
        self._directory: Final = source.directory
        self._seconds: Final = seconds
        self._name: Final = uuid.uuid4().hex
        self._renewed = 0.0

    def take(self, lsn: int) -> None:
        """Protect the journal from the LSN on, and nothing before it."""
        if self._directory:
            self._renewed = time.monotonic()
            Lease(self._directory, self._name).take(lsn, self._until())

    def take_for(self, plan: Plan) -> None:
        """Protect the events of a plan."""
        self.take(plan.splits[0].first_lsn if plan.splits else plan.last_lsn + 1)

    def renew(self) -> None:
        """Extend the lease; cheap, so call it often."""
        now = time.monotonic()
        if self._directory and now - self._renewed >= self._seconds / RENEWALS:
            self._renewed = now
            Lease(self._directory, self._name).renew(self._until())

    def release(self) -> None:
        """End the lease."""
        if self._directory:
            Lease(self._directory, self._name).release()

    def __getstate__(self) -> dict[str, object]:
        """Omit the time of the last renewal: clocks of other processes differ."""
        return {**self.__dict__, "_renewed": 0.0}

    def _until(self) -> int:
        return time.time_ns() // 1000 + self._seconds * 1_000_000
