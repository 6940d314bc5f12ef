"""The files of a node in its data directory: while it follows it holds the lock, indexes, and lets
leave what has left the leader.

Before a broker opens the directory, everything is let go of. Must never know who leads.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import BASE, CUT, JOURNAL, NOTARY
from daybook.journal.disk import RealDisk, RealFile
from daybook.journal.lock import DirectoryLock
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.directory import take_lock
from daybook.replication.replica_files import ReplicaFiles
from daybook.replication.standby_index import StandbyIndex
from daybook.replication.standby_retention import StandbyRetention
from daybook.server.configuration.config import Config
from daybook.server.history.indexing import catalog_headers_of
from daybook.server.standbys.cut_tails import CutTails, Limits


class BaseDisk(RealDisk):
    """The folder of the base, which is there only if segments have left."""

    def open_for_writing(self, name: str) -> RealFile:
        """Open a file for reading and writing, creating it and the folder if need be."""
        self.create()
        return super().open_for_writing(name)


class NodeFiles:
    """Opens and closes the journal of a node. `notice` gets sentences, in other threads too."""

    def __init__(self, config: Config, notice: Callable[[str], None]) -> None:
        self.data: Final = Path(config.broker.data_directory)
        self.journal: Final = RealDisk(self.data / JOURNAL)
        self.base: Final = BaseDisk(self.data / BASE)
        assert config.replication is not None
        limits = Limits(config.replication.cut_max_bytes, config.replication.cut_max_age * 1_000)
        self.cut: Final = CutTails(self.data / CUT, limits, notice, _now)
        self._config: Final = config.journal
        self._notice: Final = notice
        self._lock: DirectoryLock | None = None
        self.index: StandbyIndex | None = None
        self._retention: StandbyRetention | None = None

    def open(self) -> ReplicaFiles:
        """Take the lock, and open the journal. Raises Locked, JournalError and OSError."""
        self._lock = take_lock(self.data, self.journal)
        try:
            self.cut.create()
            files = ReplicaFiles(
                self.journal, self.cut.kept, LAYOUT, segment_bytes=self._config.segment_bytes,
                device_block_bytes=self._config.device_block_size, base=self.base,
                quiet=self._quiet, on_kept=self._keep_tail,
            )  # fmt: skip
        except BaseException:
            self._lock.release()
            raise
        self._begin_work()
        return files

    def _keep_tail(self) -> None:
        self.cut.keep(self.data / NOTARY)

    def follow(self, *, confirmed: int, first: int) -> None:
        """Let the index follow what is confirmed, and segments leave before an event."""
        index, retention = self.index, self._retention
        if index is not None and retention is not None:
            index.confirmed = confirmed
            retention.first, retention.indexed = first, index.indexed

    def _begin_work(self) -> None:
        self.index = StandbyIndex(
            self.data, self._notice, snapshot_every=self._config.snapshot_every,
            catalog_headers=catalog_headers_of(self._config),
        )  # fmt: skip
        self.index.start()
        self._retention = StandbyRetention(self.data, self._notice, _now)
        self._retention.start()

    def _end_work(self) -> None:
        retention, self._retention = self._retention, None
        if retention is not None:
            retention.stop()
        index, self.index = self.index, None
        if index is not None:
            index.stop()

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Let nothing else use the journal while it is replaced."""
        self._end_work()
        self._notice(
            "this node lacks segments that left the leader: its journal is replaced by the base"
        )
        yield
        self._begin_work()

    def close(self, files: ReplicaFiles) -> None:
        """Let go of everything: those first that read the journal."""
        self._end_work()
        files.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def _now() -> int:
    """The time, in microseconds since 1970."""
    return time.time_ns() // 1000
