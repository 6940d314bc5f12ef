"""Keeps an indexer running beside the broker, and reports its progress to the hub (ADR 8).

The indexer sleeps until a commit is requested, which is when one is due
(`server.hub.index_pacing`); after its commits entries can leave memory. The event loop never waits
for it. Fault model: the indexer may

- die: another is started, after growing delays until one makes progress;
- hang, because it is stopped or its disk does not answer: that is logged once, and after a while it
  is killed; one that uses the processor does not hang, a large commit takes long;
- find no space on the disk: it retries, and the hub blocks senders when too much is not indexed;
- find its tables damaged: the broker stops, because entries that are not in memory cannot be read
  otherwise, and the next start rebuilds the index;
- find the journal damaged: that is logged once, senders are refused or the broker stops, as
  configured (ADR 21), and it retries now and then, because somebody may restore the segment.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from daybook.engine.commands import Checkpoint, Command
from daybook.engine.queues.queue import StoreError
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.paging.content.store import IndexStore
from daybook.paging.indexer.indexers import Indexers
from daybook.paging.indexer.process import IndexerFailed, IndexerHandle
from daybook.paging.tables.messages import Ended, Indexed, Trouble
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable
from daybook.recovery.last_words import distrust, trust
from daybook.server.configuration.config import JournalConfig
from daybook.server.hub.hub import Hub
from daybook.server.hub.index_pacing import EARLY_BYTES, Pace
from daybook.server.hub.turns import Answer
from daybook.server.process import logs

RESTART_US: Final = 1_000_000
RESTART_MAX_US: Final = 60_000_000
TRUSTED_US: Final = 10_000_000
"""How long the index must serve before it counts as one that does not kill brokers."""
SILENT_US: Final = 10_000_000
"""How long the indexer may not answer before that is logged."""
LOOK_US: Final = 1_000_000
"""How long it may not answer before it is asked how much processor time it has used."""
BUSY_TIMES: Final = 30
"""It may work for so many times `indexer-timeout` without an answer; then it counts as stuck."""
STEP_US_MAX: Final = 1_000_000
"""The most that one tick adds to a silence: while the event loop hangs, no answer can be read."""
DIGEST_REST: Final = 100
"""The pause after a digest, as a multiple of its duration: digests take at most 1 % of the time."""

log = logs.logger("indexing")


def _ignore(lsn: int, digest: str) -> None:
    """Do nothing at a checkpoint."""


class Loop(Protocol):
    """The interface to an event loop."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> Any:
        """Call when the descriptor is readable."""
        ...

    def remove_reader(self, fd: int) -> Any:
        """Stop calling."""
        ...


def catalog_headers_of(config: JournalConfig) -> str | None:
    """Return the headers that are to be catalogued, None if there are to be no catalogs."""
    return config.catalog_headers if config.catalogs else None


class Indexing:
    """The indexer of a broker, from its start to its end."""

    def __init__(
        self,
        hub: Hub,
        loop: Loop,
        path: Path,
        data_id: bytes,
        *,
        indexers: Indexers,
        store: IndexStore | None,
        process: IndexerHandle | None,
        checkpoint_us: int,
        snapshot_every: int,
        catalog_headers: str | None,
        timeout_us: int,
        on_failure: Callable[[Exception], None],
        on_damage: Callable[[str], None],
    ) -> None:
        """`on_failure` is called when the index cannot be read any more, `on_damage` with a
        sentence when the journal is found damaged, and with "" when it no longer is.
        """
        self._hub: Final = hub
        self._loop: Final = loop
        self._path: Final = path
        self._data_id: Final = data_id
        self._indexers: Final = indexers
        self._store = store
        self._process: IndexerHandle | None = None
        self._on_failure: Final = on_failure
        self._on_damage: Final = on_damage
        self.on_checkpoint: Callable[[int, str], None] = _ignore
        self.checkpoint_us = checkpoint_us
        self.snapshot_every = snapshot_every
        self.catalog_headers = catalog_headers
        self.timeout_us = timeout_us
        # An indexer that was dropped or killed, and has not ended yet: no other may begin before.
        self._ending: IndexerHandle | None = None
        self._has_said_why = False
        # How long it has not answered, counted in ticks; its position when that began.
        self._ticked = 0
        self._silent_us = self._busy_us = 0
        self._worked = 0.0
        self._was_heard = False
        self._begun_lsn = 0
        self._damage = ""
        self._told_lsn = -1
        self._told: Final[deque[tuple[int, int]]] = deque()
        self._pace: Final = Pace()
        self._is_asked = False
        self._digest_lsn = -1
        self._next_digest = 0
        self._next_start = 0
        self._wait_us = RESTART_US
        self._restarts = 0
        self._trouble = ""
        self._trust_at = 0
        self._last = Indexed(store.indexed_lsn if store is not None else 0)
        if process is not None:
            self._adopt(process)

    def _adopt(self, process: IndexerHandle) -> None:
        self._process = process
        self._told_lsn = -1
        self._is_asked = False
        self._silent_us = 0
        self._begun_lsn = self._last.lsn
        self._loop.add_reader(process.fileno(), self._receive)

    # ---- called by the service

    def tick(self, now: int) -> None:
        """Request a commit if one is due, and start an indexer if there is none; ten times a
        second.
        """
        if self._trust_at == 0:
            self._trust_at = now + TRUSTED_US
        elif 0 < self._trust_at <= now:
            trust(self._path)
            self._trust_at = -1
        step = min(now - self._ticked, STEP_US_MAX)
        self._ticked = now
        if self._ending is not None:
            self._await_end(step)
        if self._ending is not None:
            return
        self._watch(step)
        if self._process is None:
            if now >= self._next_start:
                self._start(now)
            return
        durable = self._hub.outbox.durable_lsn
        wants_digest = self._wants_digest(now, durable)
        is_due = durable > max(self._told_lsn, self._last.lsn) and self._is_due(now)
        if is_due or wants_digest:
            self._tell(now, durable, wants_digest)
        else:
            self._process.flush()

    def _is_due(self, now: int) -> bool:
        """Return whether the events since the last request are worth a commit."""
        hub = self._hub
        size = hub.unindexed.journaled - self._told[-1][1] if self._told else hub.unindexed_bytes
        # That an address pages is found by a walk over all, which only much to index is worth.
        return self._pace.is_due(
            now, size, hub.options.max_unindexed_bytes,
            is_awaited=size > EARLY_BYTES and any(
                address.paging for address in hub.broker.state.addresses.values()
            ),
        )  # fmt: skip

    def _watch(self, step: int) -> None:
        """Detect an indexer that does not answer, log it, and finally kill it."""
        process = self._process
        is_owing = self._is_asked or self._told_lsn > self._last.lsn
        if process is None or self._was_heard or not is_owing:
            self._silent_us = self._busy_us = 0
            self._was_heard = False
            return
        before = self._silent_us
        self._silent_us += step
        if self._silent_us >= LOOK_US and self._works(process):
            return
        if before < SILENT_US <= self._silent_us:
            self._trouble = f"{process.name} does not answer: it is stopped, or its disk hangs"
            log.error(
                "the index stands still; the broker continues, and blocks senders at "
                "max-unindexed-bytes",
                why=self._trouble,
                killed_after_seconds=self.timeout_us // 1_000_000,
            )
        if self._silent_us >= self.timeout_us:
            log.error("the indexer did not answer and is killed", pid=process.pid)
            process.kill()
            self._hang_up()

    def _works(self, process: IndexerHandle) -> bool:
        """Return whether the indexer got on since it was last asked; then it is not silent."""
        worked, self._worked = self._worked, process.processor_seconds()
        self._busy_us += self._silent_us
        if self._worked <= worked or self._busy_us >= BUSY_TIMES * self.timeout_us:
            return False
        self._silent_us = 0
        return True

    def _hang_up(self) -> None:
        """Stop listening to an indexer that ends or must end, and wait for its end."""
        assert self._process is not None
        self._loop.remove_reader(self._process.fileno())
        self._process.hang_up()
        self._ending, self._process = self._process, None
        self._has_said_why = False
        self._silent_us = 0

    def _await_end(self, step: int) -> None:
        """Check whether the indexer has ended, and kill it if it does not."""
        assert self._ending is not None
        failed = self._ending.fate()
        before = self._silent_us
        self._silent_us += step
        if failed is not None:
            self._ending = None
            if not self._has_said_why:
                self._ended(failed)
        elif before < SILENT_US <= self._silent_us:
            self._ending.kill()
            self._trouble = (
                f"{self._ending.name} does not end: it waits for a disk that does not answer"
            )
            log.error("no other indexer can be started yet", why=self._trouble)

    def _wants_digest(self, now: int, durable: int) -> bool:
        if self._is_asked or self.checkpoint_us <= 0 or now < self._next_digest:
            return False
        # The event of the checkpoint itself does not count as new.
        return durable > self._digest_lsn

    def _tell(self, now: int, durable: int, wants_digest: bool) -> None:
        assert self._process is not None
        self._pace.requested()
        if durable != self._told_lsn:
            self._told.append((durable, self._hub.unindexed.journaled))
            self._told_lsn = durable
        if wants_digest:
            self._is_asked = True
            self._next_digest = now + self.checkpoint_us
        self._process.tell(
            durable, digest=wants_digest, snapshot_every=self.snapshot_every,
            catalog_headers=self.catalog_headers,
        )  # fmt: skip

    def hurry(self) -> bool:
        """Request that all durable events are indexed now; return whether they already are."""
        durable = self._hub.outbox.durable_lsn
        if self._process is None or self._trouble or self._last.lsn >= durable:
            return True
        if self._told_lsn != durable:
            self._tell(0, durable, False)
        return False

    @property
    def store(self) -> IndexStore | None:
        """The index to read, None as long as there is none."""
        return self._store

    def status(self) -> dict[str, Any]:
        """For `daybook status`."""
        return {
            "indexed_lsn": self._last.lsn,
            "unindexed_bytes": self._hub.unindexed_bytes,
            "indexer_pid": self._process.pid if self._process is not None else None,
            "indexer_processor_seconds": round(self._last.processor_seconds, 2),
            "indexer_restarts": self._restarts,
            "index_bytes": self._last.map_bytes,
            "snapshot_lsn": self._last.snapshot_lsn,
            "snapshot_trouble": self._last.snapshot_trouble,
            "catalog_trouble": self._last.catalog_trouble,
            "indexer_silent_seconds": round(self._silent_us / 1_000_000, 1),
            "index_trouble": self._trouble,
            "journal_damage": self._damage,
        }

    def close(self) -> None:
        """Kill the indexer, and close."""
        if self._process is not None:
            self._hang_up()
        if self._ending is not None and not self._ending.close():
            log.warning("the indexer does not end; its disk hangs", pid=self._ending.pid)
        self._ending = None

    # ---- called by the indexer

    def _receive(self) -> None:
        assert self._process is not None
        self._was_heard = True
        try:
            for message in self._process.hear():
                if isinstance(message, Trouble):
                    self._in_trouble(message.text)
                else:
                    self._indexed(message)
        except Ended:
            self._hang_up()
        except IndexerFailed as failed:
            self._hang_up()
            self._has_said_why = True
            self._ended(failed)
        except (StoreError, IndexDamaged, IndexUnwritable) as error:
            self._on_failure(error)

    def _indexed(self, message: Indexed) -> None:
        self._last = message
        self._pace.committed(self._ticked, message.seconds)
        gets_on = message.lsn > self._begun_lsn
        if gets_on:
            # Reset only now: an indexer that always ends earlier must not be restarted without a
            # delay.
            self._wait_us = RESTART_US
            self._heal()
        if self._trouble and (gets_on or message.lsn >= self._hub.outbox.durable_lsn):
            log.info("the index is being written again", lsn=message.lsn)
            self._trouble = ""
        indexed_bytes = None
        while self._told and self._told[0][0] <= message.lsn:
            indexed_bytes = self._told.popleft()[1]
        if self._store is None:
            self._open_store()
        else:
            self._store.refresh(message.lsn)
            for note in self._store.take_notes():
                log.warning("reading back is slower", why=note)
        self._hub.indexed(message.lsn, indexed_bytes)
        if message.digest:
            self._is_asked = False
            rest_us = int(DIGEST_REST * message.digest_seconds * 1_000_000)
            self._next_digest = max(self._next_digest, self._ticked + rest_us)
            if not self._hub.stopping:
                self._checkpoint(message)

    def record(self, command: Command, callback: Answer) -> None:
        """Journal the events of a checkpoint, which are not a reason for another one."""
        is_news = self._hub.broker.lsn > self._digest_lsn
        self._hub.request(command, callback)
        if not is_news:
            self._digest_lsn = self._hub.broker.lsn

    def _open_store(self) -> None:
        """Open the store after the first commit of a start without an index."""
        disk = RealDisk(self._path / JOURNAL)
        self._store = self._indexers.open_store(self._path, self._data_id, disk)
        self._hub.attach_store(self._store)

    def _checkpoint(self, message: Indexed) -> None:
        self._hub.request(Checkpoint(message.lsn, message.digest))
        # Only events after that of the checkpoint itself count as new.
        self._digest_lsn = self._hub.broker.lsn
        self.on_checkpoint(message.lsn, message.digest)

    def _in_trouble(self, text: str) -> None:
        if not self._trouble:
            log.error("the index cannot be written; the broker continues", why=text)
        self._trouble = text

    def _ended(self, failed: IndexerFailed) -> None:
        """Handle the end of the indexer: start another, unless its tables are damaged."""
        if failed.index:
            distrust(self._path, str(failed))
            self._on_failure(
                StoreError(
                    f"{failed}. The next start reads the whole index, and rebuilds it if it is "
                    "damaged"
                )
            )
            return
        text = str(failed)
        if failed.corrupt:
            self._damaged(text)
        elif not self._damage and self._trouble != text:
            log.error("the indexer ended and is started again", why=text)
        self._trouble = text

    def _damaged(self, text: str) -> None:
        """Report once that the journal is damaged at the point of indexing."""
        if text != self._damage:
            self._damage = text
            self._on_damage(text)

    def _heal(self) -> None:
        if self._damage:
            self._damage = ""
            self._on_damage("")

    def _start(self, now: int) -> None:
        self._next_start = now + self._wait_us
        self._wait_us = min(2 * self._wait_us, RESTART_MAX_US)
        try:
            if self._store is None:
                self._indexers.prepare(self._path, self._data_id)
            process = self._indexers.start(self._path, self._data_id)
        except (IndexDamaged, IndexUnwritable, OSError) as error:
            self._in_trouble(str(error))
            return
        self._restarts += 1
        self._adopt(process)
