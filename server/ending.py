"""The stop of a broker: all decided events become durable, if that is still possible.

In order: the stop is decided and becomes durable, connections are closed, the writer ends, the
index is finished if that is quick, the indexer ends. Fault model: the disk may be full, then the
stop retries for a moment; writer and indexer may hang, then they are killed when most of the time
for a stop is over (the guard ends the rest). Killing them is always safe: no event was confirmed to
a client before it was durable.
"""

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from daybook.engine.queues.queue import StoreError
from daybook.journal.writing.process_writer import ProcessWriter
from daybook.server.history.indexing import Indexing
from daybook.server.history.signing import Signing
from daybook.server.hub.hub import Hub
from daybook.server.process import logs
from daybook.server.process.guard import Guard

STEP_SECONDS: Final = 0.1
INDEX_SECONDS: Final = 2.0
"""How long a stop waits for the index; the next start folds the remaining events."""
FULL_DISK_SECONDS: Final = 3.0
"""How long a stop waits for space on a full disk."""
RESERVED: Final = 0.25
"""The part of the time of a stop that is kept for killing processes that hang."""

log = logs.logger("service")


class Doors(Protocol):
    """An owner of connections: an acceptor, or all connectors."""

    def close_all(self) -> None:
        """Close what is still connected."""
        ...


class Ending:
    """Stops the parts of a broker. `on_closed` is called when the journal is closed after a clean
    stop; `why_not` says why the stop is not durable, if so."""

    def __init__(
        self,
        hub: Hub,
        writer: ProcessWriter,
        indexing: Indexing,
        signing: Signing,
        guard: Guard,
        *,
        on_closed: Callable[[ProcessWriter], None],
        on_unreadable: Callable[[StoreError], None],
        why_not: Callable[[], str],
    ) -> None:
        self._hub: Final = hub
        self._writer: Final = writer
        self._indexing: Final = indexing
        self._signing: Final = signing
        self._guard: Final = guard
        self._on_closed: Final = on_closed
        self._on_unreadable: Final = on_unreadable
        self._why_not: Final = why_not
        self.has_stopped = False
        """Whether the stop is durable; later failures do not matter."""

    async def run(self, doors: Sequence[Doors], now: int, *, has_begun: bool) -> bool:
        """End hub, writer and index; return whether the stop was clean."""
        stopped = asyncio.Event()
        if self._hub.failure is None and has_begun:
            try:
                self._hub.stop(lambda _: stopped.set())
                await self._wait_for(stopped)
            except StoreError as error:
                # The digest at a stop reads the whole index.
                self._on_unreadable(error)
        self._hub.say_goodbye()
        for each in doors:
            each.close_all()
        self.has_stopped = stopped.is_set()
        why_not = "" if self.has_stopped else self._why_not()
        if self.has_stopped:
            self._writer.mark(now)
        had_failed = self._hub.failure is not None
        asyncio.get_running_loop().remove_reader(self._writer.fileno())
        # Batches that wait because of a full disk are retried once, and then given up.
        self._writer.close(max(0.5, self._seconds_left()))
        if self.has_stopped:
            self._on_closed(self._writer)
            await self._finish_index()
        if self.has_stopped:
            await self._signing.finish(self._seconds_left())
        else:
            # A statement about an end that does not count would outlive it: a cluster may cut it.
            self._signing.drop()
        self._indexing.close()
        # The process ends, so garbage collection is not needed.
        gc.freeze()
        if self.has_stopped:
            return True
        # A writer that had to be killed just now has failed too, which says less.
        if not had_failed and has_begun:
            log.error("stopped without BrokerStopped in the journal", why=why_not)
        return not has_begun

    def _seconds_left(self) -> float:
        """Return how long to wait for a process that may hang."""
        return self._guard.seconds_left - RESERVED * self._guard.stop_seconds

    async def _wait_for(self, stopped: asyncio.Event) -> None:
        """Wait until the stop is durable, or cannot become durable."""
        patience = FULL_DISK_SECONDS
        while not stopped.is_set() and self._hub.failure is None and patience > 0:
            if self._seconds_left() <= 0:
                return
            if self._writer.stats().disk_full:
                patience -= STEP_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), STEP_SECONDS)

    async def _finish_index(self) -> None:
        """Finish the index if that is quick, so that the next start need not fold."""
        give_up = time.monotonic() + min(INDEX_SECONDS, self._seconds_left())
        while not self._indexing.hurry() and time.monotonic() < give_up:
            await asyncio.sleep(STEP_SECONDS / 10)
