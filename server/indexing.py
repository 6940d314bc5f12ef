"""Keeping an indexer running beside the broker, and telling the hub how far it is (ADR 8).

Ten times a second it is told what is durable; what it commits lets entries leave memory. Fault
model: the indexer may die (another is started, later each time), may have no room on the disk (it
tries again, and the hub slows producers when too much is not indexed), or may find its tables
damaged (the broker stops: what is not in memory cannot be had from anywhere else while it runs; the
next start makes the index anew).
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from engine.commands import Checkpoint
from engine.queues import StoreError
from journal.disk import RealDisk
from paging.messages import Indexed, Trouble
from paging.process import IndexerFailed, IndexerProcess
from paging.store import IndexStore
from paging.tables import (
    IndexDamaged,
    IndexUnwritable,
    open_for_reading,
    open_for_writing,
)
from recovery.checkpoint import INDEX, discard, trust
from recovery.directory import JOURNAL
from server import logs
from server.hub import Hub

RESTART_US: Final = 1_000_000
RESTART_MAX_US: Final = 60_000_000
TRUSTED_US: Final = 10_000_000
"""How long the index serves before a death of the broker does not make it suspect."""
URGENT_BYTES: Final = 4 * 1024 * 1024
"""How much may be in memory because it is not indexed, before a commit is asked for at once."""

log = logs.logger("indexing")


class Loop(Protocol):
    """What is needed of an event loop."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> Any:
        """Call when there is something to be read."""
        ...

    def remove_reader(self, fd: int) -> Any:
        """Call no more."""
        ...


class Indexing:
    """The indexer of a broker, from its start to its end."""

    def __init__(
        self,
        hub: Hub,
        loop: Loop,
        path: Path,
        data_id: bytes,
        *,
        store: IndexStore | None,
        process: IndexerProcess | None,
        checkpoint_us: int,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._hub: Final = hub
        self._loop: Final = loop
        self._path: Final = path
        self._data_id: Final = data_id
        self._store = store
        self._process: IndexerProcess | None = None
        self._on_failure: Final = on_failure
        self.checkpoint_us = checkpoint_us
        self._told_lsn = -1
        self._told: Final[deque[tuple[int, int]]] = deque()
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

    def _adopt(self, process: IndexerProcess) -> None:
        self._process = process
        self._told_lsn = -1
        self._is_asked = False
        self._loop.add_reader(process.fileno(), self._receive)

    # ---- told by the service

    def tick(self, now: int) -> None:
        """Tell what is durable, and start an indexer if there is none; ten times a second."""
        if self._trust_at == 0:
            self._trust_at = now + TRUSTED_US
        elif 0 < self._trust_at <= now:
            trust(self._path)
            self._trust_at = -1
        if self._process is None:
            if now >= self._next_start:
                self._start(now)
            return
        durable = self._hub.outbox.durable_lsn
        wants_digest = self._wants_digest(now, durable)
        is_pressing = self._hub.unindexed_bytes > URGENT_BYTES
        if durable == self._told_lsn and not wants_digest:
            return
        self._tell(now, durable, is_pressing, wants_digest)

    def _wants_digest(self, now: int, durable: int) -> bool:
        if self._is_asked or self.checkpoint_us <= 0 or now < self._next_digest:
            return False
        # The checkpoint itself is an event, which is no news.
        return durable > self._digest_lsn

    def _tell(self, now: int, durable: int, is_pressing: bool, wants_digest: bool) -> None:
        assert self._process is not None
        if durable != self._told_lsn:
            self._told.append((durable, self._hub.journaled_bytes))
            self._told_lsn = durable
        if wants_digest:
            self._is_asked = True
            self._next_digest = now + self.checkpoint_us
        try:
            self._process.tell(durable, urgent=is_pressing, digest=wants_digest)
        except IndexerFailed as failed:
            self._ended(failed)

    def hurry(self) -> bool:
        """Have all that is durable indexed now; answers whether there is nothing to wait for."""
        durable = self._hub.outbox.durable_lsn
        if self._process is None or self._trouble or self._last.lsn >= durable:
            return True
        if self._told_lsn != durable:
            self._tell(0, durable, True, False)
        return False

    @property
    def store(self) -> IndexStore | None:
        """The index to be read, None as long as there is none."""
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
            "index_trouble": self._trouble,
        }

    def close(self) -> None:
        """Let go of the indexer; it ends by itself."""
        if self._process is not None:
            self._loop.remove_reader(self._process.fileno())
            self._process.close()
            self._process = None
        if self._hub.failure is None:
            trust(self._path)

    # ---- told by the indexer

    def _receive(self) -> None:
        assert self._process is not None
        try:
            for message in self._process.hear():
                if isinstance(message, Trouble):
                    self._in_trouble(message.text)
                else:
                    self._indexed(message)
        except IndexerFailed as failed:
            self._ended(failed)
        except (StoreError, IndexDamaged, IndexUnwritable) as error:
            self._on_failure(error)

    def _indexed(self, message: Indexed) -> None:
        if self._trouble:
            log.info("the index is being written again", lsn=message.lsn)
            self._trouble = ""
        self._last = message
        self._wait_us = RESTART_US
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
            if not self._hub.stopping:
                self._checkpoint(message)

    def _open_store(self) -> None:
        """The first commit after a start without an index: from here on entries can leave."""
        tables = open_for_reading(self._path / INDEX, self._data_id)
        self._store = IndexStore(tables, RealDisk(self._path / JOURNAL))
        self._hub.attach_store(self._store)

    def _checkpoint(self, message: Indexed) -> None:
        self._hub.request(Checkpoint(message.lsn, message.digest))
        # Only what comes after the checkpoint's own event is news.
        self._digest_lsn = self._hub.broker.lsn

    def _in_trouble(self, text: str) -> None:
        if not self._trouble:
            log.error("the index cannot be written; the broker goes on", why=text)
        self._trouble = text

    def _ended(self, failed: IndexerFailed) -> None:
        """The indexer is gone: start another after a while, unless its tables are at fault."""
        assert self._process is not None
        self._loop.remove_reader(self._process.fileno())
        self._process.close()
        self._process = None
        if failed.index:
            discard(self._path)
            self._on_failure(
                StoreError(f"{failed}. The index is made anew when the broker is started again")
            )
            return
        self._trouble = str(failed)
        log.error("the indexer ended and is started again", why=str(failed))

    def _start(self, now: int) -> None:
        self._next_start = now + self._wait_us
        self._wait_us = min(2 * self._wait_us, RESTART_MAX_US)
        try:
            if self._store is None:
                open_for_writing(self._path / INDEX, self._data_id).close()
            process = IndexerProcess(self._path)
        except (IndexDamaged, IndexUnwritable, OSError) as error:
            self._in_trouble(str(error))
            return
        self._restarts += 1
        self._adopt(process)
