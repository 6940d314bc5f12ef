"""The indexer: a process that follows the durable journal and updates the index (ADR 8).

Run by `paging.process` with the words FD DATA BROKER, the last of which is the broker's process id.
Data flow: blocks are read ahead as they appear; what the broker reports as durable is folded in
batches, each with one commit; every commit is reported. Fault model: it may be killed at any moment
(a commit is complete or absent), the disk may be full (it reports that and tries again), tables and
journal may be damaged (it reports which and ends). It ends when the broker does.
"""

import contextlib
import os
import resource
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final

from daybook.journal.block import Block
from daybook.journal.data_directory import INDEX, JOURNAL, TABLES
from daybook.journal.disk import RealDisk
from daybook.journal.errors import Corruption, JournalError
from daybook.journal.lifeline import end_with
from daybook.journal.reader import read_blocks
from daybook.journal.segment import data_id_of
from daybook.paging.batches import BATCH_BYTES
from daybook.paging.index import Index
from daybook.paging.layout import LAYOUT
from daybook.paging.messages import Damaged, Durable, Ended, Indexed, Line, Trouble
from daybook.paging.ownership import owning_index
from daybook.paging.tables import IndexDamaged, IndexUnwritable

COMMIT_SECONDS: Final = 1.0
"""How long an event waits for its commit when nothing is urgent."""
COMMIT_BYTES: Final = 16 * 1024 * 1024
"""Stored bytes that are worth a commit of their own."""
RETRY_SECONDS: Final = 1.0
MAPPED_BYTES_MAX: Final = 64 * 1024 * 1024
"""How many bytes of files may be mapped into the process before the tables are reopened: until
then, mapped pages that were read count as its memory."""
NICENESS: Final = 5
"""The broker has priority: the indexer may lag, and reports by how much."""


class Indexer:
    """One run of the process: which blocks were read, what is durable, and what was requested."""

    def __init__(self, line: Line, index: Index) -> None:
        self._line: Final = line
        self._index: Final = index
        self._blocks: Final[deque[Block]] = deque()
        self._bytes = 0
        self._durable_lsn = index.lsn
        self._urgent = False
        self._digest = False
        self._due = 0.0

    def run(self, disk: RealDisk) -> None:
        """Follow the journal until the broker closes the connection. Raises Ended and what reading
        raises."""
        self._tell()
        blocks = read_blocks(disk, LAYOUT, from_lsn=self._index.lsn + 1, follow=self._wait)
        for block in blocks:
            if block.last_lsn <= self._index.lsn:
                continue
            if block.count and not self._blocks and block.first_lsn > self._index.lsn + 1:
                raise IndexDamaged(
                    f"the index ends with event {self._index.lsn}, but the journal continues with "
                    f"{block.first_lsn}"
                )
            if not self._blocks:
                self._due = time.monotonic() + COMMIT_SECONDS
            self._blocks.append(block)
            self._bytes += block.header.block_bytes
            if self._bytes >= COMMIT_BYTES:
                self._listen(0.0)
                self._commit()

    def _wait(self) -> bool:
        """At the end of the readable journal: commit what is due, and wait for messages."""
        if self._is_due():
            self._commit()
            self._listen(0.0)
        else:
            left = self._due - time.monotonic() if self._blocks else COMMIT_SECONDS
            self._listen(min(max(left, 0.001), COMMIT_SECONDS))
        return True

    def _is_due(self) -> bool:
        if self._digest and self._durable_lsn == self._index.lsn:
            return True
        if not self._blocks or self._blocks[0].last_lsn > self._durable_lsn:
            return False
        return self._urgent or self._digest or time.monotonic() >= self._due

    def _listen(self, seconds: float) -> None:
        for message in self._line.hear(seconds):
            assert isinstance(message, Durable)
            self._durable_lsn = max(self._durable_lsn, message.lsn)
            self._urgent = self._urgent or message.urgent
            self._digest = self._digest or message.digest

    def _commit(self) -> None:
        """Fold what is durable, a batch at a time, and report each commit."""
        while self._blocks and self._blocks[0].last_lsn <= self._durable_lsn:
            batch: list[Block] = []
            size = 0
            while (
                self._blocks
                and self._blocks[0].last_lsn <= self._durable_lsn
                and size < BATCH_BYTES
            ):
                block = self._blocks.popleft()
                batch.append(block)
                size += block.header.block_bytes
            self._bytes -= size
            self._advance(batch)
            self._tell()
            if mapped_bytes() > MAPPED_BYTES_MAX:
                self._index.close()
        self._urgent = False
        self._due = time.monotonic() + COMMIT_SECONDS
        if self._digest and self._durable_lsn <= self._index.lsn:
            self._tell()

    def _advance(self, batch: list[Block]) -> None:
        """Commit a batch; retry as long as the disk has no room for it."""
        while True:
            try:
                self._index.advance(batch)
                return
            except IndexUnwritable as trouble:
                self._line.say(Trouble(str(trouble)))
                self._listen(RETRY_SECONDS)

    def _tell(self) -> None:
        digest = ""
        seconds = 0.0
        if self._digest and self._index.lsn >= self._durable_lsn:
            begun = time.monotonic()
            digest = self._index.digest()
            seconds = time.monotonic() - begun
            self._digest = False
        used = resource.getrusage(resource.RUSAGE_SELF)
        size = (self._index.path / TABLES).stat().st_size
        processor = used.ru_utime + used.ru_stime
        self._line.say(Indexed(self._index.lsn, digest, processor, size, seconds))


def mapped_bytes() -> int:
    """How many bytes of files are mapped into this process and count as its memory."""
    shared = int(Path("/proc/self/statm").read_text("ascii").split()[2])
    return shared * resource.getpagesize()


def main(arguments: list[str]) -> int:
    """Run the process; return its exit code."""
    descriptor, data, broker = int(arguments[0]), Path(arguments[1]), int(arguments[2])
    line = Line(socket.socket(fileno=descriptor))
    if not end_with(broker):
        return 0
    os.nice(NICENESS)
    try:
        with owning_index(data, lambda text: line.say(Trouble(text))):
            index = _open(line, data)
            try:
                Indexer(line, index).run(RealDisk(data / JOURNAL))
            finally:
                index.close()
    except (Ended, KeyboardInterrupt):
        return 0
    except (IndexDamaged, JournalError) as error:
        return _give_up(line, error)
    return 0


def _open(line: Line, data: Path) -> Index:
    """Open the tables; retry as long as the disk has no room for them."""
    data_id = data_id_of(RealDisk(data / JOURNAL))
    while True:
        try:
            return Index(data / INDEX, data_id)
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
