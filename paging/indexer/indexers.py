"""How a broker has its index written and read: with an indexer beside it, or within it (ADR 42).

Must never know when an index is judged, started or read.
"""

from pathlib import Path
from typing import Protocol

from daybook.journal.data_directory import INDEX
from daybook.journal.disk import Disk
from daybook.paging.content.store import IndexStore
from daybook.paging.indexer.process import IndexerHandle, IndexerProcess
from daybook.paging.indexer.thread import IndexerThread
from daybook.paging.tables.tables import Tables, open_for_reading, open_for_writing


class Indexers(Protocol):
    """Starts the indexers of a data directory, one after the other, and opens their files.

    `snapshot_every` is the number of bytes between two snapshots while an indexer catches up
    (ADR 63), 0 for none.
    """

    snapshot_every: int

    def prepare(self, data: Path, data_id: bytes) -> None:
        """Create the index if there is none, as long as no store is open. Raises IndexDamaged and
        IndexUnwritable."""
        ...

    def start(self, data: Path, data_id: bytes) -> IndexerHandle:
        """Start an indexer, when the one before has ended. Raises IndexDamaged, IndexUnwritable and
        OSError."""
        ...

    def open_store(self, data: Path, data_id: bytes, disk: Disk) -> IndexStore:
        """Open the index to read it. Raises IndexDamaged, IndexUnwritable and StoreError."""
        ...

    def close(self) -> None:
        """Close the files opened here, after all indexers and stores were closed."""
        ...


class ProcessIndexers:
    """Indexers that are processes of their own."""

    def __init__(self, snapshot_every: int = 0) -> None:
        self.snapshot_every = snapshot_every

    def prepare(self, data: Path, data_id: bytes) -> None:
        """Create the tables if there are none."""
        open_for_writing(data / INDEX, data_id).close()

    def start(self, data: Path, data_id: bytes) -> IndexerHandle:
        """Start a process, which opens the tables."""
        return IndexerProcess(data)

    def open_store(self, data: Path, data_id: bytes, disk: Disk) -> IndexStore:
        """Open the tables of the other process."""
        return IndexStore(open_for_reading(data / INDEX, data_id), disk)

    def close(self) -> None:
        """Do nothing: stores close their own files."""


class ThreadIndexers:
    """Indexers that are threads of this process, and share their tables with the store."""

    def __init__(self, snapshot_every: int = 0) -> None:
        self.snapshot_every = snapshot_every
        self._tables: Tables | None = None

    def prepare(self, data: Path, data_id: bytes) -> None:
        """Open the tables, or create them."""
        self._opened(data, data_id)

    def start(self, data: Path, data_id: bytes) -> IndexerHandle:
        """Start a thread, which uses the open tables."""
        return IndexerThread(data, self._opened(data, data_id))

    def open_store(self, data: Path, data_id: bytes, disk: Disk) -> IndexStore:
        """Read the tables that the thread writes."""
        return IndexStore(self._opened(data, data_id), disk, map_bytes=0, owns_tables=False)

    def _opened(self, data: Path, data_id: bytes) -> Tables:
        if self._tables is None:
            self._tables = open_for_writing(data / INDEX, data_id, shared=True)
        return self._tables

    def close(self) -> None:
        """Close the tables."""
        if self._tables is not None:
            self._tables.close()
            self._tables = None
