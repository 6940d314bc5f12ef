"""The end of a broker: what was decided becomes durable, if that is still possible, and all ends.

In order: the stop is decided and waited for, connections are closed, the writer ends, the index is
finished if that takes no time to speak of, the indexer ends. Fault model: the disk may be full,
and then it is tried for a moment; writer and indexer may hang, and then they are killed when most
of the time that a stop may take is gone (the guard ends what is left of it). Killing them is always
safe: what is not durable was never spoken of.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final

from daybook.engine.queues import StoreError
from daybook.journal.process_writer import ProcessWriter
from daybook.server import logs
from daybook.server.guard import Guard
from daybook.server.hub import Hub
from daybook.server.indexing import Indexing
from daybook.server.listeners import Acceptor

STEP_SECONDS: Final = 0.1
INDEX_SECONDS: Final = 5.0
"""How long a stop waits for the index; what is missing then is folded by the next start."""
FULL_DISK_SECONDS: Final = 3.0
"""How long a stop waits for room on a full disk."""
RESERVED: Final = 0.25
"""Part of the time of a stop that is kept for ending what hangs."""

log = logs.logger("service")


class Ending:
    """What is needed to end. `why_not` says why the stop is not durable, if it is not."""

    def __init__(
        self,
        hub: Hub,
        writer: ProcessWriter,
        indexing: Indexing,
        guard: Guard,
        *,
        on_unreadable: Callable[[StoreError], None],
        why_not: Callable[[], str],
    ) -> None:
        self._hub: Final = hub
        self._writer: Final = writer
        self._indexing: Final = indexing
        self._guard: Final = guard
        self._on_unreadable: Final = on_unreadable
        self._why_not: Final = why_not
        self.has_stopped = False
        """Whether the stop is durable; what goes wrong from then on matters to nobody."""

    async def run(self, acceptors: Sequence[Acceptor], now: int, *, has_begun: bool) -> bool:
        """End hub, writer and index; answers whether that went as it should."""
        stopped = asyncio.Event()
        if self._hub.failure is None and has_begun:
            try:
                self._hub.stop(lambda _: stopped.set())
                await self._wait_for(stopped)
            except StoreError as error:
                # The digest of the stop reads all of the index.
                self._on_unreadable(error)
        for acceptor in acceptors:
            acceptor.close_all()
        self.has_stopped = stopped.is_set()
        why_not = "" if self.has_stopped else self._why_not()
        if self.has_stopped:
            self._writer.mark(now)
        asyncio.get_running_loop().remove_reader(self._writer.fileno())
        # What a full disk kept waiting is tried once more, and then given up.
        self._writer.close(max(0.5, self._seconds_left()))
        if self.has_stopped:
            await self._finish_index()
        self._indexing.close()
        if self.has_stopped:
            return True
        if self._hub.failure is None and has_begun:
            log.error("stopped without BrokerStopped in the journal", why=why_not)
        return not has_begun

    def _seconds_left(self) -> float:
        """How long may be waited for what may hang."""
        return self._guard.seconds_left - RESERVED * self._guard.stop_seconds

    async def _wait_for(self, stopped: asyncio.Event) -> None:
        """Until the stop is durable, or cannot become so."""
        patience = FULL_DISK_SECONDS
        while not stopped.is_set() and self._hub.failure is None and patience > 0:
            if self._seconds_left() <= 0:
                return
            if self._writer.stats().disk_full:
                patience -= STEP_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), STEP_SECONDS)

    async def _finish_index(self) -> None:
        """Have the next start fold nothing, if that takes no time to speak of."""
        give_up = time.monotonic() + min(INDEX_SECONDS, self._seconds_left())
        while not self._indexing.hurry() and time.monotonic() < give_up:
            await asyncio.sleep(STEP_SECONDS / 10)
