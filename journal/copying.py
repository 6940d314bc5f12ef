"""Writing a journal with the blocks of another one: for forks and salvages.

A copied block keeps its frames, and with them its events, crcs and sizes; its header gets the data
id of the new journal and the hash of the block before it. The copy is synced only by `finish`, so
one that was cut short must be thrown away. Must never know what a column means.
"""

import os
from pathlib import Path

from daybook.journal.blocks.block import Block, EncodedBlock, Summary
from daybook.journal.blocks.format import (
    FIRST_LSN,
    FLAG_FORK,
    NO_HASH,
    block_hash,
    pack_block_header,
)
from daybook.journal.blocks.layout import RowLayout
from daybook.journal.disk import RealDisk, RealFile, sync_directory
from daybook.journal.journal import SEGMENT_BYTES, SEGMENT_BYTES_MIN, Journal, no_clock
from daybook.levels import LEVEL_MIN


class _LaterFile(RealFile):
    def fdatasync(self) -> None:
        """Leave it to `CopyDisk.sync_all`."""


class CopyDisk(RealDisk):
    """A directory whose files become durable all together, by `sync_all`."""

    def open_for_writing(self, name: str) -> RealFile:
        """Open a file for reading and writing, creating it if need be."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        return _LaterFile(os.open(self.path / name, flags, 0o600))

    def sync_directory(self) -> None:
        """Leave it to `sync_all`."""

    def sync_all(self) -> None:
        """Make all files and their names durable. Raises OSError."""
        for name in self.names():
            sync_file(self.path / name)
        sync_directory(self.path)


def sync_file(path: Path) -> None:
    """Make the content of a file durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class JournalCopy(Journal):
    """A journal that is written from blocks of another one, and may begin at any event."""

    @classmethod
    def begin(
        cls,
        disk: CopyDisk,
        layout: RowLayout,
        *,
        data_id: bytes,
        first_lsn: int = FIRST_LSN,
        previous_hash: bytes = NO_HASH,
        segment_bytes: int = SEGMENT_BYTES,
        is_fork: bool = False,
        level: int = LEVEL_MIN,
    ) -> "JournalCopy":
        """Begin a journal at an event, behind the block with a hash, with a feature level.

        With `is_fork` older segments of another data directory lie beside it. Raises DiskFull and
        JournalFailed.
        """
        journal = cls(disk, layout, data_id, max(segment_bytes, SEGMENT_BYTES_MIN), no_clock, 0)
        journal.next_lsn = first_lsn
        journal._last_hash = previous_hash
        journal._segment_flags = FLAG_FORK if is_fork else 0
        try:
            journal._roll(0, level)
        except OSError as error:
            raise journal.fail(error) from error
        return journal

    def copy(self, block: Block) -> None:
        """Append the events, or the mark, of a block of another journal.

        It must begin with the next LSN. Raises as `append`, and Damage if it cannot be decoded.
        """
        self._check_usable()
        assert block.first_lsn == self.next_lsn
        header = block.header._replace(previous_hash=self._last_hash)
        packed = pack_block_header(header, self._codec.salt)
        rows, heap = block.rows_frame, block.heap_frame
        data = b"".join((packed, rows, heap))
        assert len(data) == header.block_bytes, "the block was read with its heap"
        summary = Summary() if block.is_mark else block.codec.summarise(block.columns())
        hashed = block_hash(packed, rows, heap)
        self._write(EncodedBlock(header, data, hashed, summary), block.codec.level)

    def finish(self, time: int) -> None:
        """End with a mark, and make everything durable. Raises as `append`, and OSError."""
        self.mark(time)
        self.close()
        disk = self._disk
        assert isinstance(disk, CopyDisk)
        disk.sync_all()
