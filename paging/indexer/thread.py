"""The indexer as a thread of the broker, for brokers of one process (ADR 42).

It runs the same code as the process, and talks over the same kind of line; the tables are shared
with the broker's store, because a process may open them only once. Fault model: as for the process,
but that it cannot be killed. One that waits for a disk stays until the disk answers, and no other
is started before; a damaged file of tables that ends a process ends the broker.
"""

import os
import socket
from pathlib import Path
from threading import Thread
from typing import Final

from daybook.journal.writing.lifeline import leave_signals_to_others
from daybook.paging.indexer.indexer import index_journal
from daybook.paging.indexer.process import IndexerHandle, used_seconds
from daybook.paging.tables.messages import Line
from daybook.paging.tables.tables import Tables

FAILED: Final = 1


class IndexerThread(IndexerHandle):
    """An indexer in a thread; the directory must have its journal and `data-id`."""

    def __init__(self, data: Path, tables: Tables) -> None:
        """`tables` are open for writing and shared; they must stay open until it has ended."""
        ours, theirs = socket.socketpair()
        super().__init__(Line(ours))
        self._code = FAILED
        self._thread: Final = Thread(
            target=self._run, args=(theirs, data, tables), name="indexer", daemon=True
        )
        self._thread.start()

    @property
    def pid(self) -> int:
        """Id of the broker's process."""
        return os.getpid()

    @property
    def name(self) -> str:
        """Its name in the log."""
        return "the indexer (a thread of the broker)"

    def processor_seconds(self) -> float:
        """Return the kernel's counters for the thread."""
        return used_seconds(Path(f"/proc/self/task/{self._thread.native_id}/stat"))

    def kill(self) -> None:
        """Do nothing: it ends by itself when the line is closed, or when its disk answers."""

    def _wait(self, seconds: float) -> int | None:
        self._thread.join(seconds)
        return None if self._thread.is_alive() else self._code

    def _run(self, end: socket.socket, data: Path, tables: Tables) -> None:
        leave_signals_to_others()
        with end:
            self._code = index_journal(Line(end), data, tables)
