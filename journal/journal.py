"""The journal: appending blocks to the newest segment, and rolling over to the next one.

Synchronous: `append` returns when the block is durable; `journal.writing.process_writer` runs it in
another process. Only one thread at a time may change the journal; `next_lsn` and `durable_lsn` may
be read from any thread.

Fault model: an error of a write or sync is fatal and never retried, because the content of the disk
is unknown. A full disk can only appear when space for a segment is reserved, before anything
depends on it. One segment is always reserved ahead, so one more segment of events can be written
after the disk is full.

Must never know: what a column means, what time it is, randomness.
"""

import errno
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from daybook.journal.blocks.batch import BatchLike
from daybook.journal.blocks.block import BlockCodec, EncodedBlock, no_padding
from daybook.journal.blocks.format import (
    DEVICE_BLOCKS,
    FIRST_LSN,
    FOOTER_ENTRY_BYTES,
    NO_HASH,
    RESERVE_NAME,
    footer_bytes,
    pack_footer,
    pack_footer_entry,
    pack_segment_header,
    padding_bytes,
    segment_first_lsn,
    segment_header_bytes,
    segment_name,
)
from daybook.journal.blocks.layout import RowLayout, check_layout
from daybook.journal.blocks.written import Written
from daybook.journal.disk import Disk, File, write_all
from daybook.journal.errors import Corruption, DiskFull, JournalError, JournalFailed, NoJournal
from daybook.journal.places import Place
from daybook.journal.segments.repair import Repair, Tail, find_tail, footer_entry
from daybook.journal.segments.segment import (
    NEXT_IS_MISSING,
    Segment,
    check_segment,
    reserve_is_begun,
    segment_names,
)
from daybook.journal.segments.succession import check_succession
from daybook.journal.spares import OUT_OF_DESCRIPTORS
from daybook.levels import LEVEL_MIN

SEGMENT_BYTES: Final = 64 << 20
SEGMENT_BYTES_MIN: Final = 8192
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, *OUT_OF_DESCRIPTORS)


@lru_cache(maxsize=8)
def _first_lsn(name: str) -> int:
    """Return the first event of a segment, 0 without one: asked for each block."""
    return segment_first_lsn(name) or 0


def no_clock() -> float:
    """Return 0: the clock of a journal whose syncs are not measured."""
    return 0.0


class Journal:
    """An open journal, made by `create` or `open`.

    `next_lsn` is the LSN of the next event, `durable_lsn` the highest LSN that survives a power
    cut. `disk_full` is set while no segment can be reserved. `sync_seconds` is the duration of the
    last fdatasync by the given clock.
    """

    def __init__(
        self,
        disk: Disk,
        layout: RowLayout,
        data_id: bytes,
        segment_bytes: int,
        clock: Callable[[], float],
        device_block_bytes: int,
    ) -> None:
        check_layout(layout)
        if segment_bytes < SEGMENT_BYTES_MIN:
            raise ValueError(
                f"segment_bytes is {segment_bytes}, it must be at least {SEGMENT_BYTES_MIN}"
            )
        assert device_block_bytes in DEVICE_BLOCKS
        self.layout: Final = layout
        self.data_id: Final = data_id
        self.next_lsn = FIRST_LSN
        self.disk_full: DiskFull | None = None
        self.sync_seconds = 0.0
        # Called by `put` with the place behind a block that is written and not synced.
        self.on_unsynced: Callable[[Place], None] | None = None
        self._disk: Final = disk
        self._clock: Final = clock
        self._codec: Final = BlockCodec(layout, data_id)
        self._segment_bytes: Final = segment_bytes
        self._device_block_bytes: Final = device_block_bytes
        self._padding: Final = self._pad if device_block_bytes else no_padding
        self._file: File | None = None
        self._name = ""
        self._offset = 0
        self._capacity = 0
        # The feature level of the newest segment, and at least that of the next one.
        self._level = LEVEL_MIN
        # Packed, because a segment may have very many small blocks.
        self._entries = bytearray()
        # How many bytes of the entries the copy in the other process has.
        self._shared = 0
        self._last_hash = NO_HASH
        self._last_is_mark = False
        self._sealed = True
        # Of the next segment that begins; all others have none.
        self._segment_flags = 0
        self._failure: OSError | None = None

    @classmethod
    def create(
        cls,
        disk: Disk,
        layout: RowLayout,
        *,
        data_id: bytes,
        segment_bytes: int = SEGMENT_BYTES,
        clock: Callable[[], float] = no_clock,
        device_block_bytes: int = 0,
    ) -> "Journal":
        """Create a journal in an empty directory. `data_id` is 16 random bytes.

        With `device_block_bytes` (one of DEVICE_BLOCKS) each block is padded to the end of a device
        block, so that no later write touches the device block of its end (ADR 20).

        Raises JournalError if the directory has a journal, DiskFull, JournalFailed.
        """
        if segment_names(disk):
            raise JournalError("the directory already has a journal: open that one")
        journal = cls(disk, layout, data_id, segment_bytes, clock, device_block_bytes)
        try:
            journal._roll(0)
        except OSError as error:
            raise journal.fail(error) from error
        return journal

    @classmethod
    def open(
        cls,
        disk: Disk,
        layout: RowLayout,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        known_durable_lsn: int = 0,
        clock: Callable[[], float] = no_clock,
        device_block_bytes: int = 0,
    ) -> "tuple[Journal, Repair]":
        """Open the journal of a directory, cutting a torn tail.

        `known_durable_lsn` is the LSN that a checkpoint proves durable. `device_block_bytes` is as
        for `create`; existing blocks may be padded differently. Raises NoJournal, Corruption,
        NewerFormat, WrongLayout, JournalFailed.
        """
        names = segment_names(disk)
        if not names:
            raise NoJournal("there is no journal in the directory: create one, or name another")
        segment: Segment | None = None
        try:
            segment = check_segment(disk.open_for_writing(names[-1]), names[-1], layout)
            check_succession(disk, names)
            data_id = segment.header.data_id
            journal = cls(disk, layout, data_id, segment_bytes, clock, device_block_bytes)
            if device_block_bytes:
                # Rewriting the last block could damage it, so read what the disk has of it instead.
                segment.file.fdatasync()
                segment.file.forget()
            tail = find_tail(
                segment, journal._codec, known_durable_lsn, writes_again=not device_block_bytes
            )
            if tail.sealed and not reserve_is_begun(disk):
                raise Corruption(segment.name, tail.offset, tail.next_lsn, NEXT_IS_MISSING)
            # Writes of a killed process may still be only in the page cache; from here on they must
            # be durable.
            segment.file.fdatasync()
            # The same holds for file names.
            disk.sync_directory()
        except (OSError, JournalError) as error:
            if segment is not None:
                segment.close()
            if isinstance(error, JournalError):
                raise
            raise JournalFailed(f"the journal cannot be opened: {error}") from error
        journal._continue_at(segment, tail)
        journal.reserve()
        return journal, tail.repair

    def _continue_at(self, segment: Segment, tail: Tail) -> None:
        self._file = segment.file
        self._name = segment.name
        self._entries = tail.entries
        self._offset = tail.offset
        self._capacity = segment.file.size()
        self._level = segment.header.level
        self._last_hash = tail.last_hash
        self._last_is_mark = tail.last_is_mark
        self._sealed = tail.sealed
        self.next_lsn = tail.next_lsn

    @property
    def durable_lsn(self) -> int:
        """The highest LSN that survives a power cut; 0 if none."""
        return self.next_lsn - 1

    @property
    def place(self) -> Place:
        """Where the next block begins; BEFORE_ALL if there is no segment."""
        return Place(_first_lsn(self._name), self._offset)

    @property
    def segment(self) -> str:
        """Name of the newest segment."""
        return self._name

    @property
    def level(self) -> int:
        """Feature level of the newest segment."""
        return self._level

    @property
    def last_hash(self) -> bytes:
        """Hash of the last block, which depends on all blocks before it."""
        return self._last_hash

    def append(self, batch: BatchLike) -> None:
        """Write a batch as one block and sync it.

        Raises DiskFull (the batch was not written and may be retried) and JournalFailed (fatal).
        """
        self._check_usable()
        self._write(self._encode(batch), batch.level)

    def _encode(self, batch: BatchLike) -> EncodedBlock:
        assert batch.first_lsn == self.next_lsn, "a batch must begin with the next LSN"
        return self._codec.encode(batch, self._last_hash, self._padding)

    def mark(self, time: int) -> None:
        """Append a block without events, unless the last block is one. Raises as `append` does.

        A mark proves that the block before it was durable, so damage there is never taken for a
        torn tail. A new segment proves that too. A segment never begins with a mark, because it may
        be replaced by a larger one of the same name before its first event.
        """
        self._check_usable()
        if self._last_is_mark or not self._entries:
            return
        block = self._codec.encode_mark(self.next_lsn, time, self._last_hash, self._padding)
        if self._fits(len(block.data)):
            self._write(block, self._level)
            return
        try:
            self._roll(0)
        except OSError as error:
            raise self.fail(error) from error

    def reserve(self) -> bool:
        """Reserve space for the next segment; return False if there is none (see `disk_full`)."""
        self._check_usable()
        try:
            self._reserve_file(self._segment_bytes).close()
        except DiskFull:
            return False
        except OSError as error:
            raise self.fail(error) from error
        return True

    # ---- two processes with a copy each, of which one at a time writes (ADR 41)

    def twin(self) -> "Journal":
        """Return a copy for another process, at the same place and without an open file.

        From then on each copy gets the writes of the other one by `follow`, before it writes.
        """
        twin = Journal(
            self._disk,
            self.layout,
            self.data_id,
            self._segment_bytes,
            self._clock,
            self._device_block_bytes,
        )
        twin._name, twin._offset, twin._capacity = self._name, self._offset, self._capacity
        twin._entries = bytearray(self._entries)
        twin._last_hash, twin._last_is_mark = self._last_hash, self._last_is_mark
        twin._sealed, twin._level = self._sealed, self._level
        twin.next_lsn = self.next_lsn
        self._shared = twin._shared = len(self._entries)
        return twin

    @property
    def unshared_bytes(self) -> int:
        """Bytes of the footer entries of blocks that the other copy does not know."""
        return len(self._entries) - self._shared

    def take_written(self) -> Written:
        """Return the writes that the other copy needs before its own; they count as known there."""
        segment_lsn = segment_first_lsn(self._name)
        assert segment_lsn is not None
        entries = bytes(self._entries[self._shared :])
        self._shared = len(self._entries)
        return Written(
            segment_lsn, self._capacity, self._offset, self.next_lsn, self._level,
            self._last_is_mark, self._last_hash, entries,
        )  # fmt: skip

    def follow(self, written: Written) -> None:
        """Move to the end of blocks that the other copy has written."""
        assert self.unshared_bytes == 0, "both copies have written at the same time"
        assert written.next_lsn >= self.next_lsn
        name = segment_name(written.segment_lsn)
        # A segment without events may be replaced by another one of the same name.
        if (name, written.capacity, written.level) != (self._name, self._capacity, self._level):
            self.close()
            self._name, self._entries, self._sealed = name, bytearray(), False
            self._level = written.level
        self._capacity, self._offset = written.capacity, written.offset
        self._last_hash, self._last_is_mark = written.last_hash, written.last_is_mark
        self._entries += written.entries
        self._shared = len(self._entries)
        self.next_lsn = written.next_lsn

    def prepare(self, batch: BatchLike) -> EncodedBlock | None:
        """Encode a batch for `put`; return None if the newest segment has no room for it.

        Raises JournalFailed if the segment is gone.
        """
        if self._sealed or batch.level > self._level:
            return None
        block = self._encode(batch)
        if not self._fits(len(block.data)):
            return None
        if self._file is None:
            try:
                self._file = self._open_newest()
            except FileNotFoundError as error:
                raise self.fail(error) from error
            except OSError:
                # The other process has the file open.
                return None
        return block

    def _open_newest(self) -> File:
        """Open the newest segment, and never create it; raises OSError."""
        self._disk.open(self._name).close()
        file = self._disk.open_for_writing(self._name)
        if file.size() != self._capacity:
            file.close()
            raise FileNotFoundError(errno.ENOENT, "the segment was replaced under the broker")
        return file

    def close(self) -> None:
        """Close the files. For a clean stop, call `mark` first."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise JournalFailed(f"the journal has already failed: {self._failure}")
        assert self._file is not None, "the journal is closed"

    def fail(self, error: OSError) -> JournalFailed:
        """Refuse to write from now on; return the error to raise."""
        self._failure = error
        return JournalFailed(
            f"writing the journal failed in segment {self._name or 'one'} at offset "
            f"{self._offset}: {error}. The content of the disk is unknown; stop, check the "
            f"disk, start again."
        )

    def _write(self, block: EncodedBlock, level: int) -> None:
        """Write a block whose events need a feature level, sync it, and move to its end."""
        try:
            if level > self._level or not self._fits(len(block.data)):
                self._roll(len(block.data), level)
            self.put(block)
            self.check_name()
        except OSError as error:
            raise self.fail(error) from error
        self.advance(block, self.entry_of(block))

    def put(self, block: EncodedBlock) -> None:
        """Write and sync a block that fits, without moving to its end; raises OSError."""
        assert self._file is not None
        assert not self._sealed
        assert block.header.first_lsn == self.next_lsn
        assert block.header.previous_hash == self._last_hash
        write_all(self._file, block.data, self._offset)
        if self.on_unsynced is not None:
            place = self.place
            self.on_unsynced(place._replace(offset=place.offset + len(block.data)))
        begun = self._clock()
        self._file.fdatasync()
        self.sync_seconds = self._clock() - begun

    def check_name(self) -> None:
        """Raise FileNotFoundError if the newest segment was deleted."""
        assert self._file is not None
        if self._file.links() == 0:
            raise FileNotFoundError(errno.ENOENT, "the segment was deleted under the broker")

    def entry_of(self, block: EncodedBlock) -> bytes:
        """Return the packed footer entry of the block that comes next, for `advance`."""
        return pack_footer_entry(footer_entry(block, self._offset, block.summary))

    def advance(self, block: EncodedBlock, entry: bytes) -> None:
        """Move to the end of a block that is durable, and whose footer entry this is."""
        self._entries += entry
        self._move(block)

    def _move(self, block: EncodedBlock) -> None:
        self._last_is_mark = block.header.event_count == 0
        self._offset += len(block.data)
        self._last_hash = block.hash
        self.next_lsn = block.header.next_lsn
        assert self._offset + self._footer_bytes(0) <= self._capacity

    def _pad(self, block_bytes: int) -> int:
        """Return the padding for a block of this size, in this segment or else the next one."""
        padding = padding_bytes(self._offset + block_bytes, self._device_block_bytes)
        if self._fits(block_bytes + padding):
            return padding
        # A segment header fills whole device blocks.
        return padding_bytes(block_bytes, self._device_block_bytes)

    def _fits(self, block_bytes: int) -> bool:
        """Return whether the segment has space for one more block and then its footer."""
        return self._offset + block_bytes + self._footer_bytes(1) <= self._capacity

    def _footer_bytes(self, more_blocks: int) -> int:
        """Return the size of the segment's footer after `more_blocks` more blocks."""
        return footer_bytes(len(self._entries) // FOOTER_ENTRY_BYTES + more_blocks)

    def _roll(self, block_bytes: int, level: int = LEVEL_MIN) -> None:
        """Seal the newest segment and begin one that has space for a block of this size.

        Its feature level is this one, or that of the segment before if that is higher. A newest
        segment without events is replaced. A segment gets its name after its header is durable, so
        a bad header is always damage, never a torn write.
        """
        layout = self.layout.encode()
        level = max(level, self._level)
        header_bytes = segment_header_bytes(len(layout), level)
        size = max(self._segment_bytes, header_bytes + block_bytes + footer_bytes(1))
        header = pack_segment_header(
            first_lsn=self.next_lsn,
            data_id=self.data_id,
            previous_hash=self._last_hash,
            segment_bytes=size,
            layout=layout,
            level=level,
            flags=self._segment_flags,
        )
        assert len(header) == header_bytes
        self._begin_segment(header, size, level)

    def _begin_segment(self, header: bytes, size: int, level: int) -> None:
        """Seal the newest segment and begin the next one, with this header."""
        file = self._reserve_file(size)
        write_all(file, header, 0)
        file.fdatasync()
        if not self._sealed:
            # The reserve's name must be durable too: a sealed segment without a successor counts as
            # damage.
            self._disk.sync_directory()
            self._seal(self._footer())
        name = segment_name(self.next_lsn)
        self._disk.rename(RESERVE_NAME, name)
        self._disk.sync_directory()
        if self._file is not None:
            self._file.close()
        self._file, self._name, self._capacity = file, name, file.size()
        self._offset, self._entries, self._sealed = len(header), bytearray(), False
        self._shared = 0
        self._level = level
        self._segment_flags = 0
        self.reserve()

    def _reserve_file(self, size: int) -> File:
        """Open the reserve file with at least this size; raises DiskFull."""
        try:
            file = self._disk.open_for_writing(RESERVE_NAME)
            try:
                if file.size() < size:
                    file.allocate(size)
            except OSError:
                file.close()
                raise
        except OSError as error:
            if error.errno in _NO_ROOM:
                self.disk_full = DiskFull(
                    f"no space for the next segment of {size} bytes ({error}): {_remedy(error)}"
                )
                raise self.disk_full from error
            raise
        self.disk_full = None
        return file

    def _footer(self) -> bytes:
        """Return the footer of the newest segment."""
        packed = pack_footer(
            self._entries,
            footer_offset=self._offset,
            last_lsn=self.next_lsn - 1,
            last_hash=self._last_hash,
            salt=self._codec.salt,
        )
        assert len(packed) == self._footer_bytes(0)
        return packed

    def _seal(self, packed: bytes) -> None:
        """Write the footer into the space kept for it, and truncate the file behind it."""
        assert self._file is not None
        assert self._offset + len(packed) <= self._capacity
        write_all(self._file, packed, self._offset)
        # Sync before the file gets shorter: a short file without a footer is then always damage.
        self._file.fdatasync()
        self._file.truncate(self._offset + len(packed))
        self._file.fdatasync()
        self._sealed = True


def _remedy(error: OSError) -> str:
    """Return the remedy for a segment that cannot be reserved."""
    if error.errno in OUT_OF_DESCRIPTORS:
        return "close files of other programs, or raise the limit of open files"
    return "free disk space or raise the quota"
