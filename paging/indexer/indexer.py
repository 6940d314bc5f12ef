"""The indexer: follows the durable journal and updates the index (ADR 8).

A process of its own, run by `paging.indexer.process` with the words FD DATA BROKER, the last of
which is the broker's process id; or a thread of the broker, run by `paging.indexer.thread` (ADR
42). Data flow: the broker asks for commits, and decides when (`server.hub.index_pacing`): the
events that it reports as durable are read, folded in batches, each with one commit, and every
commit is reported. Between requests it sleeps. Fault model: it may be killed at any moment (a
commit is complete or absent), the disk may be full (it reports that and tries again), tables and
journal may be damaged (it reports which and ends). It ends when the broker does.
"""

import contextlib
import ctypes
import os
import resource
import socket
import sys
import time
from pathlib import Path
from typing import Final

from daybook.journal.blocks.block import Block
from daybook.journal.data_directory import CATALOGS, INDEX, JOURNAL, SNAPSHOTS, TABLES
from daybook.journal.disk import RealDisk
from daybook.journal.errors import Corruption, JournalError
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of
from daybook.journal.writing.lifeline import end_with
from daybook.paging.catalogs.catalog_keeper import CatalogKeeper
from daybook.paging.fold.batches import BATCH_BYTES
from daybook.paging.fold.index import Index
from daybook.paging.indexer.ownership import owning_index
from daybook.paging.snapshots.snapshots import Snapshots
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.messages import Damaged, Durable, Ended, Indexed, Line, Trouble
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable, Tables

LOOK_SECONDS: Final = 0.05
"""The pause before a durable block that cannot be read yet is read again."""
RETRY_SECONDS: Final = 1.0
MAPPED_BYTES_MAX: Final = 64 * 1024 * 1024
"""How many bytes of files may be mapped into the process before the tables are reopened: until
then, mapped pages that were read count as its memory."""
TRIM_SECONDS: Final = 60.0
"""How often memory that commits left behind is given back to the system: LMDB takes and frees many
pages for each, and the gaps between those that stay would add up."""
NICENESS: Final = 5
"""The broker has priority: the indexer may lag, and reports by how much."""


class Indexer:
    """One run: the blocks read, and the requests."""

    def __init__(
        self,
        line: Line,
        index: Index,
        disk: RealDisk,
        snapshots: Snapshots,
        catalogs: CatalogKeeper,
        *,
        in_thread: bool = False,
    ) -> None:
        """`in_thread`: others use the tables, and the process does other things too."""
        self._disk: Final = disk
        self._snapshots: Final = snapshots
        self._catalogs: Final = catalogs
        self._snapshot_every = 0
        self._catalog_headers: str | None = None
        self._in_thread: Final = in_thread
        self._line: Final = line
        self._index: Final = index
        self._blocks: list[Block] = []
        self._bytes = 0
        self._durable_lsn = index.lsn
        self._digest = False
        # When the reading of the current batch began, and when memory is given back next.
        self._begun = 0.0
        self._trim_at = 0.0

    def run(self) -> None:
        """Follow the journal until the broker closes the connection.

        Raises Ended and the errors of reading.
        """
        self._tell()
        self._await_request(self._index.lsn + 1)
        blocks = read_blocks(self._disk, LAYOUT, from_lsn=self._index.lsn + 1, follow=self._wait)
        for block in blocks:
            if block.last_lsn <= self._index.lsn:
                continue
            if block.count and not self._blocks and block.first_lsn > self._index.lsn + 1:
                raise IndexDamaged(
                    f"the index ends with event {self._index.lsn}, but the journal continues with "
                    f"{block.first_lsn}"
                )
            if block.last_lsn > self._durable_lsn:
                # It was written meanwhile. It waits for the request after those before it.
                self._commit()
                self._await_request(block.last_lsn)
            self._blocks.append(block)
            self._bytes += block.header.block_bytes
            if block.last_lsn >= self._durable_lsn or self._bytes >= BATCH_BYTES:
                self._commit()
            if block.last_lsn >= self._durable_lsn:
                self._await_request(block.last_lsn + 1)

    def _await_request(self, lsn: int) -> None:
        """Sleep until a commit up to an LSN or a later one is requested."""
        while self._durable_lsn < lsn:
            if self._digest and self._durable_lsn <= self._index.lsn:
                self._tell()
            # In idle time.
            self._listen(self._catalogs.work())
        self._begun = time.monotonic()

    def _wait(self) -> bool:
        """At the end of the readable journal, before everything durable was read: wait."""
        self._commit()
        self._listen(LOOK_SECONDS)
        return True

    def _listen(self, seconds: float | None) -> None:
        for message in self._line.hear(seconds):
            assert isinstance(message, Durable)
            self._durable_lsn = max(self._durable_lsn, message.lsn)
            self._digest = self._digest or message.digest
            self._snapshot_every = message.snapshot_every
            self._catalog_headers = message.catalog_headers

    def _commit(self) -> None:
        """Fold the blocks read, and report the commit."""
        self._listen(0.0)
        if not self._blocks:
            return
        batch, self._blocks, size, self._bytes = self._blocks, [], self._bytes, 0
        self._advance(batch)
        self._tell(time.monotonic() - self._begun)
        # After the answer, for which others wait.
        if self._snapshots.follow(self._index, self._disk, size, self._snapshot_every):
            self._tell()
        self._catalogs.note(batch[-1], self._catalog_headers)
        self._begun = time.monotonic()
        if not self._in_thread and mapped_bytes() > MAPPED_BYTES_MAX:
            self._index.close()
        if not self._in_thread and self._begun >= self._trim_at:
            self._trim_at = self._begun + TRIM_SECONDS
            give_memory_back()

    def _advance(self, batch: list[Block]) -> None:
        """Commit a batch; retry as long as the disk has no room for it."""
        while True:
            try:
                self._index.advance(batch)
                return
            except IndexUnwritable as trouble:
                self._line.say(Trouble(str(trouble)))
                self._listen(RETRY_SECONDS)

    def _tell(self, commit_seconds: float = 0.0) -> None:
        digest = ""
        seconds = 0.0
        if self._digest and self._index.lsn >= self._durable_lsn:
            begun = time.monotonic()
            digest = self._index.digest()
            seconds = time.monotonic() - begun
            self._digest = False
        whose = resource.RUSAGE_THREAD if self._in_thread else resource.RUSAGE_SELF
        used = resource.getrusage(whose)
        size = (self._index.path / TABLES).stat().st_size
        processor = used.ru_utime + used.ru_stime
        self._line.say(
            Indexed(
                self._index.lsn, digest, processor, size, seconds, commit_seconds,
                self._snapshots.lsn, self._snapshots.trouble, self._catalogs.trouble,
            )
        )  # fmt: skip


def mapped_bytes() -> int:
    """How many bytes of files are mapped into this process and count as its memory."""
    shared = int(Path("/proc/self/statm").read_text("ascii").split()[2])
    return shared * resource.getpagesize()


def give_memory_back() -> None:
    """Give free memory of the process back to the system, where the C library can do that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def yield_to_others() -> None:
    """Let the broker and its writer have the cores first; where that is not permitted, do not."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(OSError):
        # A process of this class does not take the core from another when it wakes up.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main(arguments: list[str]) -> int:
    """Run the process; return its exit code."""
    descriptor, data, broker = int(arguments[0]), Path(arguments[1]), int(arguments[2])
    line = Line(socket.socket(fileno=descriptor))
    if not end_with(broker):
        return 0
    yield_to_others()
    with contextlib.suppress(KeyboardInterrupt):
        return index_journal(line, data)
    return 0


def index_journal(line: Line, data: Path, tables: Tables | None = None) -> int:
    """Index the journal of a data directory until the broker closes the line; return an exit code.

    With `tables` this is a thread: they are shared with the broker.
    """
    try:
        with owning_index(data, lambda text: line.say(Trouble(text))):
            index = _open(line, data, tables)
            try:
                disk = RealDisk(data / JOURNAL)
                snapshots = Snapshots(data / SNAPSHOTS, data_id_of(disk))
                catalogs = CatalogKeeper(data / CATALOGS, disk, data_id_of(disk))
                in_thread = tables is not None
                Indexer(line, index, disk, snapshots, catalogs, in_thread=in_thread).run()
            finally:
                index.close()
    except Ended:
        return 0
    except (IndexDamaged, JournalError) as error:
        return _give_up(line, error)
    return 0


def _open(line: Line, data: Path, tables: Tables | None) -> Index:
    """Open the tables; retry as long as the disk has no room for them."""
    data_id = data_id_of(RealDisk(data / JOURNAL))
    while True:
        try:
            return Index(data / INDEX, data_id, tables=tables)
        except IndexUnwritable as trouble:
            line.say(Trouble(str(trouble)))
            line.hear(RETRY_SECONDS)


def _give_up(line: Line, error: Exception) -> int:
    with contextlib.suppress(Ended):
        corrupt = isinstance(error, Corruption)
        line.say(Damaged(str(error), isinstance(error, IndexDamaged), corrupt))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
