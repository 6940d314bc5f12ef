"""Segments: opening, reading and checking them.

Fault model: a file may contain anything. Structures that fail a check raise Damage; `look_behind`
decides from the later bytes whether the place is unfinished, torn or corrupt.

Must never know: what a column means; when to append (`journal.journal` does that).
"""

from typing import Final, NamedTuple

from daybook.journal.blocks.block import BlockCodec, RawBlock
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    FOOTER_HEADER_BYTES,
    FOOTER_MAGIC,
    FORMAT_VERSION,
    RESERVE_NAME,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    TRAILER_BYTES,
    Damage,
    Footer,
    SegmentHeader,
    UnknownVersion,
    block_hash,
    frame_crc,
    header_salt,
    peek_footer_bytes,
    peek_footer_offset,
    peek_segment_header_bytes,
    segment_first_lsn,
    unpack_block_header,
    unpack_footer,
    unpack_segment_header,
)
from daybook.journal.blocks.layout import RowLayout, decode_layout
from daybook.journal.disk import Disk, File
from daybook.journal.errors import Corruption, JournalError, NewerFormat, NoJournal, WrongLayout

CHUNK_BYTES: Final = 1 << 18
HEAP_SKIPPED_MIN: Final = 1 << 14
"""It is cheaper to skip a heap of at least this size than to read it with its surroundings."""
_ZEROS: Final = bytes(CHUNK_BYTES)


NEXT_IS_MISSING: Final = (
    "the segment is sealed, so another segment followed it, but that one is missing"
)


class Window:
    """Reads a file in chunks, so that many small blocks need few calls and little memory."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._start = 0
        self._chunk = b""

    def take(self, count: int, offset: int, ahead: int = CHUNK_BYTES) -> bytes:
        """Return up to `count` bytes at `offset`; fewer only at the end of the file.

        A read fetches at least `ahead` bytes, because the following bytes are probably needed next.
        """
        start = offset - self._start
        if start < 0 or start + count > len(self._chunk):
            if count > CHUNK_BYTES:
                return self._file.pread(count, offset)
            self._chunk = self._file.pread(max(count, ahead), offset)
            self._start = offset
            start = 0
        return self._chunk[start : start + count]

    def refresh(self) -> None:
        """Discard the cached chunk, because the file may have changed."""
        self._chunk = b""


class Segment:
    """An open segment, for reading. `name` is the file's."""

    def __init__(self, file: File, name: str, header: SegmentHeader) -> None:
        self.file: Final = file
        self.name: Final = name
        self.header: Final = header
        self.salt: Final = header_salt(header.data_id)
        self.window: Final = Window(file)
        self._ahead = CHUNK_BYTES

    @property
    def first_offset(self) -> int:
        """Offset of the first block."""
        return self.header.header_bytes

    def block_at(self, offset: int, with_heap: bool, with_hash: bool = True) -> RawBlock:
        """Read and check the block at this offset; raises Damage.

        Without the heap neither its crc nor the block's hash can be checked; the hash is empty.
        """
        take = self.window.take
        ahead = self._ahead
        packed = take(BLOCK_HEADER_BYTES, offset, ahead)
        header = unpack_block_header(packed, self.salt)
        offset_rows = offset + BLOCK_HEADER_BYTES
        rows = take(header.rows_stored_bytes, offset_rows, ahead)
        if not with_heap and header.heap_stored_bytes > HEAP_SKIPPED_MIN:
            # The next block is probably like this one.
            self._ahead = BLOCK_HEADER_BYTES + 2 * header.rows_stored_bytes
        else:
            self._ahead = CHUNK_BYTES
        if len(rows) != header.rows_stored_bytes or frame_crc(rows) != header.rows_crc:
            raise Damage("the crc of the rows frame does not match")
        if not with_heap:
            return RawBlock(header, offset, rows, b"", b"")
        heap = take(header.heap_stored_bytes, offset_rows + header.rows_stored_bytes)
        if len(heap) != header.heap_stored_bytes or frame_crc(heap) != header.heap_crc:
            raise Damage("the crc of the heap frame does not match")
        hashed = block_hash(packed, rows, heap) if with_hash else b""
        return RawBlock(header, offset, rows, heap, hashed)

    def is_blank_at(self, offset: int) -> bool:
        """Return whether no block was ever begun here: zeros, or the end of the file."""
        return not any(self.window.take(BLOCK_HEADER_BYTES, offset))

    def footer_at(self, offset: int) -> Footer:
        """Read the footer that begins here; raises Damage."""
        size = peek_footer_bytes(self.window.take(FOOTER_HEADER_BYTES, offset))
        if offset + size > self.file.size():
            raise Damage("the file ends within the footer")
        footer = unpack_footer(self.window.take(size, offset), self.salt)
        if footer.footer_offset != offset:
            raise Damage("the footer has another offset than it says")
        return footer

    def begins_footer_at(self, offset: int) -> bool:
        """Return whether the magic of a footer is at this offset."""
        return self.window.take(len(FOOTER_MAGIC), offset) == FOOTER_MAGIC

    def footer(self) -> Footer:
        """Read the footer from the end of the file, without reading blocks; raises Damage."""
        size = self.file.size()
        trailer = self.file.pread(TRAILER_BYTES, max(0, size - TRAILER_BYTES))
        offset = peek_footer_offset(trailer)
        if not self.first_offset <= offset < size:
            raise Damage("the trailer points outside of the segment")
        footer = self.footer_at(offset)
        return footer

    def codec(self) -> BlockCodec:
        """Return a codec for the layout in the header; raises Damage if the layout is invalid."""
        return BlockCodec(_layout_of(self.header), self.header.data_id, self.header.level)

    @property
    def is_cut_short(self) -> bool:
        """Whether the file is smaller than its reserved size, so it is either sealed or damaged."""
        return self.file.size() < self.header.segment_bytes

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _layout_of(header: SegmentHeader) -> RowLayout:
    """Decode the layout in a segment header; raises Damage."""
    try:
        return decode_layout(header.layout)
    except ValueError as error:
        raise Damage(f"the layout in the segment header is invalid: {error}") from error


def left_meanwhile(name: str) -> JournalError:
    """Return the error for a segment that was removed while the journal was read."""
    return JournalError(
        f"segment {name} was removed while the journal was read, by retention or by hand: start "
        "again; retention waits for readers that may write to the data directory."
    )


def segment_names(disk: Disk) -> list[str]:
    """Names of all segments, oldest first."""
    return [name for name in disk.names() if segment_first_lsn(name) is not None]


def first_lsn_of(disk: Disk) -> int:
    """Return the first LSN of a journal; 1 if it has no segment yet."""
    names = segment_names(disk)
    return (segment_first_lsn(names[0]) or 1) if names else 1


def data_id_of(disk: Disk) -> bytes:
    """Return the id of the data directory of a journal, from its newest segment.

    A fork begins with segments of the data directory that it was forked from, so an older segment
    is asked only if the newer ones are damaged. Raises NoJournal, Corruption and OSError.
    """
    damaged: Corruption | None = None
    for name in reversed(segment_names(disk)):
        try:
            segment = open_segment(disk, name)
        except Corruption as corruption:
            damaged = damaged or corruption
            continue
        segment.close()
        return segment.header.data_id
    raise damaged or NoJournal("there is no journal in the directory")


def has_fork(disk: Disk) -> bool:
    """Return whether a journal was forked, so that its older segments have another data id.

    Raises JournalError and OSError.
    """
    for name in reversed(segment_names(disk)):
        segment = open_segment(disk, name)
        segment.close()
        if segment.header.is_fork:
            return True
    return False


def reserve_is_begun(disk: Disk) -> bool:
    """Return whether the reserve file has a segment header, so only its renaming is missing."""
    try:
        file = disk.open(RESERVE_NAME)
    except FileNotFoundError:
        return False
    try:
        return file.pread(len(SEGMENT_MAGIC), 0) == SEGMENT_MAGIC
    finally:
        file.close()


def read_segment_header(file: File) -> SegmentHeader:
    """Read the header of an open segment; raises Damage or UnknownVersion."""
    size = peek_segment_header_bytes(file.pread(SEGMENT_HEADER_BYTES, 0))
    return unpack_segment_header(file.pread(size, 0))


def newer_format(name: str, unknown: UnknownVersion) -> NewerFormat:
    """Return the error for a segment of a feature level that this release does not know."""
    return NewerFormat(name, unknown.version, FORMAT_VERSION, unknown.needs)


def open_segment(disk: Disk, name: str, layout: RowLayout | None = None) -> Segment:
    """Open a segment for reading.

    Raises Corruption, NewerFormat, and WrongLayout if its layout differs from the given one.
    """
    return check_segment(disk.open(name), name, layout)


def check_segment(file: File, name: str, layout: RowLayout | None = None) -> Segment:
    """As `open_segment`, for an open file; closes the file on failure."""
    first_lsn = segment_first_lsn(name)
    assert first_lsn is not None
    try:
        header = read_segment_header(file)
        if header.first_lsn != first_lsn:
            raise Damage(f"the segment header says LSN {header.first_lsn}, the name {first_lsn}")
        if layout is not None and _layout_of(header) != layout.on_disk():
            raise WrongLayout(
                f"segment {name} has other columns than this program expects: open it with the "
                "release that wrote it, or name another directory."
            )
        return Segment(file, name, header)
    except Damage as damage:
        file.close()
        raise Corruption(name, 0, first_lsn, str(damage)) from damage
    except UnknownVersion as unknown:
        file.close()
        raise newer_format(name, unknown) from unknown
    except (WrongLayout, OSError):
        file.close()
        raise


class Behind(NamedTuple):
    """The bytes behind a damaged place.

    `evidence_offset` is the offset of a sound later block or footer, 0 for none; `end` is the end
    of the last byte that is not zero.
    """

    evidence_offset: int
    end: int


def look_behind(segment: Segment, offset: int, expected_lsn: int) -> Behind:
    """Search everything after `offset` for a sound block or footer.

    A header counts if its crc matches (it is salted with the data id, so blocks of other journals
    do not match) and its LSN is not below the expected one. Such a block is begun only after the
    damaged place was durable.
    """
    try:
        footer = segment.footer()
        if footer.footer_offset >= offset:
            return Behind(footer.footer_offset, segment.file.size())
    except Damage:
        pass
    end = offset
    position = offset
    while True:
        chunk = segment.file.pread(CHUNK_BYTES, position)
        if not chunk:
            return Behind(0, end)
        if chunk != _ZEROS[: len(chunk)]:
            found = _sound_header(segment, chunk, position, offset, expected_lsn)
            if found:
                return Behind(found, segment.file.size())
            used = len(chunk.rstrip(b"\0"))
            end = position + used if used else end
        if len(chunk) < CHUNK_BYTES:
            return Behind(0, end)
        # A header may cross the border between two chunks.
        position += CHUNK_BYTES - BLOCK_HEADER_BYTES


def _sound_header(
    segment: Segment, chunk: bytes, position: int, damaged_offset: int, expected_lsn: int
) -> int:
    """Return the offset of the first sound header after the damaged place; 0 for none."""
    start = chunk.find(BLOCK_MAGIC)
    while start >= 0:
        if position + start > damaged_offset:
            try:
                header = unpack_block_header(
                    chunk[start : start + BLOCK_HEADER_BYTES], segment.salt
                )
                if header.first_lsn >= expected_lsn:
                    return position + start
            except Damage:
                pass
        start = chunk.find(BLOCK_MAGIC, start + 1)
    return 0
