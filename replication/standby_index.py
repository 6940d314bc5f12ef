"""The index of a node that follows: as new as what is confirmed, so that a leader starts at once.

The same process that indexes for a broker is asked for commits here, by a thread that nothing waits
for. Only what is confirmed is indexed, so a cut never reaches what the index has. Fault model: the
indexer may die, hang, or find its tables damaged; the node follows nevertheless, a new index is
begun, and a leader would index the rest itself. Must never know how events come.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Final

from daybook.engine.queues.queue import StoreError
from daybook.errors import DaybookError
from daybook.journal.data_directory import BASE, INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.paging.indexer.process import IndexerFailed, IndexerHandle, IndexerProcess
from daybook.paging.snapshots.base import describe
from daybook.paging.tables.messages import Ended, Trouble
from daybook.recovery.checkpoint import begin_index

PERIOD_SECONDS: Final = 1.0
"""How often a commit is asked for."""
AGAIN_SECONDS: Final = 10.0
"""How long after a failure it is tried again."""


class StandbyIndex:
    """Keeps an index up to date until `stop`. `confirmed` is set by the owner, at any time."""

    def __init__(
        self,
        data: Path,
        notice: Callable[[str], None],
        *,
        snapshot_every: int = 0,
        catalog_headers: str | None = None,
        period_seconds: float = PERIOD_SECONDS,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        """`notice` gets a sentence about a fault, in another thread."""
        self.confirmed = 0
        self.indexed = 0
        self.trouble = ""
        self._data: Final = data
        self._notice: Final = notice
        self._snapshot_every: Final = snapshot_every
        self._catalog_headers: Final = catalog_headers
        self._period: Final = period_seconds
        self._again: Final = again_seconds
        self._stopping: Final = Event()
        self._indexer: IndexerHandle | None = None
        self._thread: Final = Thread(target=self._run, name="standby-index", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the indexer, and wait for that; call it in a thread that may wait."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        seconds = self._period
        while not self._stopping.wait(seconds):
            try:
                self._look()
                seconds = self._period
            except (DaybookError, StoreError, Ended, OSError) as error:
                self._fail(error)
                seconds = self._again
        self._end()

    def _look(self) -> None:
        """Ask for a commit up to what is confirmed."""
        if self._indexer is None:
            if not self.confirmed or not segment_names(RealDisk(self._data / JOURNAL)):
                return
            if not self._begin():
                return
        assert self._indexer is not None
        self._indexer.tell(
            self.confirmed, snapshot_every=self._snapshot_every,
            catalog_headers=self._catalog_headers,
        )  # fmt: skip
        for said in self._indexer.hear():
            if isinstance(said, Trouble):
                self.trouble = said.text
            else:
                self.indexed, self.trouble = said.lsn, ""

    def _begin(self) -> bool:
        """Start the indexer, if the journal reaches up to the base."""
        disk = RealDisk(self._data / JOURNAL)
        data_id = data_id_of(disk)
        base = describe(self._data / BASE, data_id)
        if base is not None and self.confirmed < base.lsn:
            return False
        begin_index(self._data, disk, data_id, self._notice)
        self._indexer = IndexerProcess(self._data)
        return True

    def _fail(self, error: Exception) -> None:
        if isinstance(error, Ended) and self._indexer is not None:
            error = self._indexer.fate(self._period) or error
        self._end()
        if isinstance(error, IndexerFailed) and error.index:
            # It can be made again from the journal.
            shutil.rmtree(self._data / INDEX, ignore_errors=True)
        text = str(error) or "the indexer has ended"
        if text != self.trouble:
            self._notice(f"the index of this standby is behind: {text}")
        self.trouble = text

    def _end(self) -> None:
        indexer, self._indexer = self._indexer, None
        if indexer is not None:
            indexer.close()
