"""A journal whose blocks another machine made: the same bytes at the same places (ADR 118).

One block is in flight at a time, as in any journal, so only the newest can be torn; or a group of
them, where a mark says so (`journal.groups`). The footers of
segments come out as those of the other machine, since they follow from the blocks.

Fault model: bytes that arrive may be anything. What does not continue this journal, or is not
whole, is refused before it is written. Rows that cannot be decoded are noticed afterwards: they
are a mistake of the machine that made the block. Must never know who sent it, or why.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from daybook.journal.blocks.block import EncodedBlock, RawBlock, Summary
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    FIRST_LSN,
    NO_HASH,
    BlockHeader,
    Damage,
    block_hash,
    frame_crc,
    pack_footer_entry,
    unpack_block_header,
    unpack_segment_header,
)
from daybook.journal.blocks.layout import RowLayout
from daybook.journal.disk import Disk, write_all
from daybook.journal.journal import SEGMENT_BYTES, Journal, no_clock
from daybook.journal.segments.repair import check_link, footer_entry, summary_of
from daybook.journal.segments.segment import segment_names

_NOT_YET: Final = Summary()


class Cut(NamedTuple):
    """The bytes of a whole block, and their header, whose own crc is checked."""

    header: BlockHeader
    data: bytes


class Replica(Journal):
    """An open journal that gets whole blocks, and headers of segments.

    The entry of the newest block in the footer to be is made later, by `settle` at the latest when
    the next block comes: nobody who waits for the block needs it.
    """

    _late: RawBlock | None = None

    @classmethod
    def empty(
        cls, disk: Disk, layout: RowLayout, *, data_id: bytes, segment_bytes: int = SEGMENT_BYTES,
        device_block_bytes: int = 0, first_lsn: int = FIRST_LSN, previous_hash: bytes = NO_HASH,
    ) -> "Replica":  # fmt: skip
        """Return a journal without segments: the first one, which begins with an event and behind
        the block with a hash, comes by `begin`."""
        journal = cls(disk, layout, data_id, segment_bytes, no_clock, device_block_bytes)
        journal.next_lsn, journal._last_hash = first_lsn, previous_hash
        return journal

    @classmethod
    def open_or_empty(
        cls, disk: Disk, layout: RowLayout, *, data_id: bytes, segment_bytes: int = SEGMENT_BYTES,
        device_block_bytes: int = 0,
    ) -> "Replica":  # fmt: skip
        """Open what there is. Raises as `open`."""
        if not segment_names(disk):
            return cls.empty(
                disk, layout, data_id=data_id, segment_bytes=segment_bytes,
                device_block_bytes=device_block_bytes,
            )  # fmt: skip
        found, _ = cls.open(
            disk, layout, segment_bytes=segment_bytes, device_block_bytes=device_block_bytes
        )
        assert isinstance(found, cls)
        return found

    def begin(self, packed: bytes) -> None:
        """Begin the next segment, with the header that the other journal gave it.

        Raises Damage if it does not continue this journal, DiskFull and JournalFailed.
        """
        self.settle()
        header = unpack_segment_header(packed)
        if header.data_id != self.data_id:
            raise Damage(f"the segment is of the data directory {header.data_id.hex()}")
        if header.first_lsn != self.next_lsn or header.previous_hash != self._last_hash:
            raise Damage(f"the segment of LSN {header.first_lsn} does not follow this journal")
        try:
            self._begin_segment(packed, header.segment_bytes, header.level)
        except OSError as error:
            raise self.fail(error) from error
        self.reserve()

    def append_block(self, cut: Cut) -> None:
        """Write a block, and sync it. Raises Damage if it does not continue this journal here,
        and JournalFailed."""
        self.append_group([cut])

    def append_group(self, group: Sequence[Cut]) -> None:
        """Write blocks, and sync them at once. Raises as `append_block`, once those before the
        damaged one are synced. A crash may leave any part of them."""
        if not self._name:
            raise Damage("a block came, and no segment has begun")
        self._check_usable()
        try:
            for cut in group[:-1]:
                self._write_unsynced(self._checked(cut))
            block, raw = self._checked(group[-1])
        except Damage:
            self._sync()
            raise
        try:
            self.put(block)
            self.check_name()
        except OSError as error:
            raise self.fail(error) from error
        self._move(block)
        self._late = raw

    def _write_unsynced(self, checked: tuple[EncodedBlock, RawBlock]) -> None:
        block, raw = checked
        assert self._file is not None
        try:
            write_all(self._file, block.data, self._offset)
        except OSError as error:
            raise self.fail(error) from error
        self._move(block)
        self._late = raw

    def settle(self) -> None:
        """Make the entry of the newest block in the footer to be. Raises Damage if its rows cannot
        be decoded, and again whenever something is to follow it."""
        if self._late is not None:
            block = self._late
            entry = footer_entry(block, block.offset, summary_of(self._codec, block))
            self._entries += pack_footer_entry(entry)
            self._late = None

    def _sync(self) -> None:
        assert self._file is not None
        try:
            self._file.fdatasync()
        except OSError as error:
            raise self.fail(error) from error

    def _checked(self, cut: Cut) -> tuple[EncodedBlock, RawBlock]:
        self.settle()
        header, data = cut
        if self._sealed or not self._fits(len(data)):
            raise Damage(f"segment {self.segment} has no room for a block of {len(data):,} bytes")
        heap_at = BLOCK_HEADER_BYTES + header.rows_stored_bytes
        packed, rows, heap = (
            data[:BLOCK_HEADER_BYTES],
            data[BLOCK_HEADER_BYTES:heap_at],
            data[heap_at:],
        )
        if len(data) != header.block_bytes:
            raise Damage(f"the block has {len(data):,} bytes instead of {header.block_bytes:,}")
        if frame_crc(rows) != header.rows_crc or frame_crc(heap) != header.heap_crc:
            raise Damage("the crc of a frame does not match")
        hashed = block_hash(packed, rows, heap)
        raw = RawBlock(header, self._offset, rows, heap, hashed)
        check_link(raw, self.next_lsn, self._last_hash)
        return EncodedBlock(header, data, hashed, _NOT_YET), raw

    def cut_into_blocks(self, data: bytes) -> Iterator[Cut]:
        """Cut whole blocks, one behind the other, apart. Raises Damage."""
        at = 0
        while at < len(data):
            header = unpack_block_header(data[at : at + BLOCK_HEADER_BYTES], self._codec.salt)
            end = at + header.block_bytes
            yield Cut(header, data[at:end])
            at = end
