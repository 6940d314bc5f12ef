"""Retention: whole segments leave the live set; queued messages stay.

This module begins the rounds, one at a time; `paging.retention.retention_round` defines a round,
and `server.history.retention_rounds` executes it. Fault model: a round may be interrupted anywhere,
and the next one repeats the unfinished part; segments are removed only after their archive and the
base are durable.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from daybook.engine.queues.queue import StoreError
from daybook.journal.archive.store import without_password
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.retention import Limits, SegmentTable
from daybook.journal.segments.segment import segment_names
from daybook.paging.content.store import IndexStore
from daybook.paging.retention.retention_round import Rounds
from daybook.paging.retention.retirement import Order
from daybook.server.configuration.config import JournalConfig
from daybook.server.history.retention_rounds import Performer, StepError
from daybook.server.hub.hub import Hub
from daybook.server.process import logs

REST_ROUNDS: Final = 2
"""The pause after rounds, as a multiple of the longest of the last rounds.

A round costs time for messages that are queued in the segments that could leave, and for a copy of
the index; so expensive rounds are run less often, with more segments each.
"""

log = logs.logger("retention")


class Retention:
    """Rounds of retention, one at a time, as long as the broker serves."""

    def __init__(
        self,
        hub: Hub,
        path: Path,
        store: Callable[[], IndexStore | None],
        config: JournalConfig,
    ) -> None:
        self.config = config
        self._hub: Final = hub
        self._path: Final = path
        self._disk: Final = RealDisk(path / JOURNAL)
        self._store: Final = store
        self._segments: Final = SegmentTable(self._disk)
        self._rounds: Final = Rounds()
        self._trouble = ""
        self._warned = False
        self._clock_note = ""

    @property
    def limits(self) -> Limits:
        """The configured limits of history."""
        return Limits(
            self.config.retention_max_age or None, self.config.retention_max_bytes or None
        )

    @property
    def is_wanted(self) -> bool:
        """Whether there is any limit."""
        return bool(self.config.retention_max_age or self.config.retention_max_bytes)

    @property
    def trouble(self) -> str:
        """Why retention cannot continue; "" if it can, or is not configured."""
        return self._trouble if self.is_wanted else ""

    def status(self) -> dict[str, Any]:
        """For `daybook status`."""
        names = segment_names(self._disk)
        first = {"history_from_lsn": segment_first_lsn(names[0]) if names else None}
        if not self.is_wanted:
            return first
        return first | {
            "archive": without_password(self.config.archive_directory),
            "retention_doing": self._rounds.doing,
            "retention_carried_messages": self._rounds.carried_messages,
            "retention_removed_segments": self._rounds.removed_segments,
            "retention_held_back": self._rounds.held_back,
            "retention_clock": self._rounds.clock_note,
            "retention_trouble": self._trouble,
        }

    async def run(self) -> None:
        """Run rounds until the broker stops; the next broker repeats an interrupted round."""
        rest = 0.0
        while True:
            await asyncio.sleep(max(self.config.retention_scan_period / 1000, rest))
            rest = 0.0
            if not self.is_wanted:
                self._rounds.held_back = self._rounds.clock_note = self._trouble = ""
                continue
            try:
                more = True
                while more:
                    began = time.monotonic()
                    more = await self.round()
                    rest = max(rest, REST_ROUNDS * (time.monotonic() - began))
                    self._no_trouble()
            except (StepError, JournalError, StoreError, OSError) as error:
                if str(error) != self._trouble:
                    log.error("history stays for now: retention cannot continue", why=str(error))
                self._trouble = str(error)
            self._rounds.doing = ""
            self._warn_once()

    def _no_trouble(self) -> None:
        if self._trouble:
            log.info("retention continues")
        self._trouble = ""

    def _warn_once(self) -> None:
        """Log once what operators should examine."""
        if self._rounds.clock_note and self._rounds.clock_note != self._clock_note:
            log.warning("the clock was wrong", why=self._rounds.clock_note)
        self._clock_note = self._rounds.clock_note
        if self._rounds.is_mostly_queued and not self._warned:
            log.warning("history stays for now", why=self._rounds.held_back)
        self._warned = self._rounds.is_mostly_queued

    async def round(self) -> bool:
        """Run one round; return whether another one should follow at once.

        Raises StepError, JournalError, StoreError and OSError; then no segment has left.
        """
        store = self._store()
        if store is None:
            return False
        archive = self.config.archive_directory
        order = Order(archive, self.config.archive_snapshot_every)
        performer = Performer(self._hub, self._path, store, self._segments, order)
        try:
            for step in self._rounds.round(self.limits, without_password(archive)):
                await performer.perform(step)
        finally:
            await performer.close()
        return self._rounds.more
