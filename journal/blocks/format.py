"""Every byte of the journal on disk. The only module that knows an offset.

docs/journal-format.md explains the format; a test compares its tables with the fields here. All
integers are little endian. Must never know: files, and what a column means.

A structure that fails a check raises Damage with the reason; callers, who know the segment and the
offset, report it as Corruption or treat it as a torn tail.
"""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from daybook.errors import DaybookError
from daybook.journal.data_directory import MANIFEST_SUFFIX, SEGMENT_SUFFIX, SNAPSHOT_SUFFIX
from daybook.levels import LEVEL, LEVEL_MIN, names_of, release_of

FORMAT_VERSION: Final = LEVEL
"""The highest format version of a segment that this release reads: a feature level (ADR 79)."""
RESERVE_NAME: Final = "next.reserve"
NAME_DIGITS: Final = 20
HASH_BYTES: Final = 16
DATA_ID_BYTES: Final = 16
NO_HASH: Final = bytes(HASH_BYTES)
"""The previous hash in the first block of a journal."""
FIRST_LSN: Final = 1
PAGE_BYTES: Final = 4096
NEEDS_NAMED_MAX: Final = 3
"""A header names so many features of its level; more belong to level 2 alone."""

SEGMENT_MAGIC: Final = b"DAYBOOK\n"
BLOCK_MAGIC: Final = b"dbBL"
FOOTER_MAGIC: Final = b"dbFT"
TRAILER_MAGIC: Final = b"dbTR"

PADDING_MAGIC: Final = b"\x50\x2a\x4d\x18"
"""Begins a frame that zstd decompressors skip; then come the size of the rest (u32) and zeros."""
PADDING_BYTES_MIN: Final = 8
DEVICE_BLOCKS: Final = (0, 512, PAGE_BYTES)
"""Sizes of device blocks that blocks may be padded to; 0 stands for no padding."""

FLAG_FORK: Final = 1
"""Flag of a segment header: the journal was forked before this segment, and has another data id
from here on (ADR 67)."""

FLAG_MARK: Final = 1
"""Flag of a block without events."""
FLAG_NARROW_FIRST: Final = 2
"""Flag of a block whose rows frame begins with the columns that most queries need."""
FLAG_WIDE: Final = 4
"""Flag of a block, beside the one before, whose columns of four bytes have eight (ADR 36)."""
BLOCK_FLAGS: Final = (0, FLAG_MARK, FLAG_NARROW_FIRST, FLAG_NARROW_FIRST | FLAG_WIDE)

SEGMENT_HEADER_FIELDS: Final = (
    ("magic", "8s"),
    ("format_version", "H"),
    ("flags", "H"),
    ("header_bytes", "I"),
    ("first_lsn", "Q"),
    ("data_id", "16s"),
    ("previous_hash", "16s"),
    ("segment_bytes", "Q"),
    ("layout_bytes", "I"),
    ("header_crc", "I"),
)
BLOCK_HEADER_FIELDS: Final = (
    ("magic", "4s"),
    ("flags", "H"),
    ("reserved", "H"),
    ("first_lsn", "Q"),
    ("time", "q"),
    ("event_count", "I"),
    ("rows_raw_bytes", "I"),
    ("rows_stored_bytes", "I"),
    ("heap_raw_bytes", "I"),
    ("heap_stored_bytes", "I"),
    ("rows_crc", "I"),
    ("heap_crc", "I"),
    ("previous_hash", "16s"),
    ("header_crc", "I"),
)
FOOTER_HEADER_FIELDS: Final = (
    ("magic", "4s"),
    ("block_count", "I"),
    ("last_lsn", "Q"),
)
FOOTER_ENTRY_FIELDS: Final = (
    ("offset", "Q"),
    ("first_lsn", "Q"),
    ("event_count", "I"),
    ("rows_stored_bytes", "I"),
    ("heap_stored_bytes", "I"),
    ("heap_raw_bytes", "I"),
    ("time_min", "q"),
    ("time_max", "q"),
    ("message_min", "Q"),
    ("message_max", "Q"),
    ("kinds", "Q"),
    ("queues", "Q"),
)
TRAILER_FIELDS: Final = (
    ("footer_offset", "Q"),
    ("last_hash", "16s"),
    ("footer_crc", "I"),
    ("magic", "4s"),
)


def _struct(fields: tuple[tuple[str, str], ...]) -> Struct:
    return Struct("<" + "".join(code for _, code in fields))


SEGMENT_HEADER: Final = _struct(SEGMENT_HEADER_FIELDS)
BLOCK_HEADER: Final = _struct(BLOCK_HEADER_FIELDS)
FOOTER_HEADER: Final = _struct(FOOTER_HEADER_FIELDS)
FOOTER_ENTRY: Final = _struct(FOOTER_ENTRY_FIELDS)
TRAILER: Final = _struct(TRAILER_FIELDS)
_CRC: Final = Struct("<I")
_STORED_BYTES: Final = tuple(
    number
    for number, (name, _) in enumerate(BLOCK_HEADER_FIELDS)
    if name in ("rows_stored_bytes", "heap_stored_bytes")
)

SEGMENT_HEADER_BYTES: Final = 72
SEGMENT_CRC_OFFSET: Final = 68
BLOCK_HEADER_BYTES: Final = 72
BLOCK_CRC_OFFSET: Final = 68
FOOTER_HEADER_BYTES: Final = 16
FOOTER_ENTRY_BYTES: Final = 80
TRAILER_BYTES: Final = 32
TRAILER_CRC_OFFSET: Final = 24
FRAME_BYTES_MAX: Final = (1 << 32) - 1

assert SEGMENT_HEADER.size == SEGMENT_HEADER_BYTES == SEGMENT_CRC_OFFSET + _CRC.size
assert BLOCK_HEADER.size == BLOCK_HEADER_BYTES == BLOCK_CRC_OFFSET + _CRC.size
assert FOOTER_HEADER.size == FOOTER_HEADER_BYTES
assert FOOTER_ENTRY.size == FOOTER_ENTRY_BYTES
assert TRAILER.size == TRAILER_BYTES == TRAILER_CRC_OFFSET + _CRC.size + len(TRAILER_MAGIC)
assert len(BLOCK_MAGIC) == len(FOOTER_MAGIC) == len(TRAILER_MAGIC) == 4
assert len(SEGMENT_MAGIC) == 8


class Damage(DaybookError):
    """A structure fails a check; the text says why."""


class UnknownVersion(DaybookError):
    """A sound segment header of a newer format version than this release knows.

    `needs` says which release and features it names; "" if it names none.
    """

    def __init__(self, version: int, needs: str) -> None:
        super().__init__(f"format version {version}")
        self.version = version
        self.needs = needs


class Needs(msgspec.Struct, frozen=True):
    """Which release knows the level of a segment, and features of it; for older releases."""

    release: str
    features: tuple[str, ...] = ()


class SegmentHeader(NamedTuple):
    """The header of a segment. `layout` is the JSON of the row layout; `level` is the feature level
    of its events, which is the format version."""

    first_lsn: int
    data_id: bytes
    previous_hash: bytes
    segment_bytes: int
    header_bytes: int
    layout: bytes
    flags: int = 0
    level: int = LEVEL_MIN

    @property
    def is_fork(self) -> bool:
        """Whether the segments before it may be of another data directory."""
        return bool(self.flags & FLAG_FORK)


class BlockHeader(NamedTuple):
    """The header of a block: the fields of the table, without magic and crc."""

    flags: int
    first_lsn: int
    time: int
    event_count: int
    rows_raw_bytes: int
    rows_stored_bytes: int
    heap_raw_bytes: int
    heap_stored_bytes: int
    rows_crc: int
    heap_crc: int
    previous_hash: bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of the whole block on disk."""
        return BLOCK_HEADER_BYTES + self.rows_stored_bytes + self.heap_stored_bytes

    @property
    def next_lsn(self) -> int:
        """First LSN of the block that follows."""
        return self.first_lsn + self.event_count


class FooterEntry(NamedTuple):
    """A footer's entry for one block: the fields of the table."""

    offset: int
    first_lsn: int
    event_count: int
    rows_stored_bytes: int
    heap_stored_bytes: int
    heap_raw_bytes: int
    time_min: int
    time_max: int
    message_min: int
    message_max: int
    kinds: int
    queues: int

    @property
    def end(self) -> int:
        """Offset of the first byte after the block."""
        return self.offset + BLOCK_HEADER_BYTES + self.rows_stored_bytes + self.heap_stored_bytes


class Footer(NamedTuple):
    """The footer of a sealed segment; entries stay packed until they are needed."""

    footer_offset: int
    last_lsn: int
    last_hash: bytes
    packed_entries: bytes

    @property
    def block_count(self) -> int:
        """Number of entries."""
        return len(self.packed_entries) // FOOTER_ENTRY_BYTES

    def entry(self, position: int) -> FooterEntry:
        """Return the entry of one block."""
        return FooterEntry(
            *FOOTER_ENTRY.unpack_from(self.packed_entries, position * FOOTER_ENTRY_BYTES)
        )

    def entries(self) -> Iterator[FooterEntry]:
        """Return all entries in order."""
        return map(FooterEntry._make, FOOTER_ENTRY.iter_unpack(self.packed_entries))


def segment_name(first_lsn: int) -> str:
    """Return the name of the segment that begins with this LSN."""
    assert first_lsn >= FIRST_LSN
    return f"{first_lsn:0{NAME_DIGITS}d}{SEGMENT_SUFFIX}"


@lru_cache(maxsize=64)
def segment_first_lsn(name: str) -> int | None:
    """Return the first LSN of the segment with this name; None if it is not a segment's name."""
    return _lsn_in(name, SEGMENT_SUFFIX)


def snapshot_name(lsn: int) -> str:
    """Return the name that the snapshot at this LSN has in an archive."""
    assert lsn >= FIRST_LSN
    return f"{lsn:0{NAME_DIGITS}d}{SNAPSHOT_SUFFIX}"


def snapshot_lsn(name: str) -> int | None:
    """Return the LSN of the archived snapshot with this name; None if it is not such a name."""
    return _lsn_in(name, SNAPSHOT_SUFFIX)


def _lsn_in(name: str, wanted: str) -> int | None:
    digits, suffix = name[:NAME_DIGITS], name[NAME_DIGITS:]
    if suffix != wanted or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) or None


def manifest_name(archived: str) -> str:
    """Return the name of the manifest of a segment or a snapshot in an archive."""
    return archived + MANIFEST_SUFFIX


def header_salt(data_id: bytes) -> int:
    """Return the start value of the crcs of block headers and footers.

    It makes blocks of other journals invalid here, for example a segment that was sent as a
    message.
    """
    assert len(data_id) == DATA_ID_BYTES
    return int(crc32c(data_id))


def block_hash(header: bytes, rows: bytes | memoryview, heap: bytes | memoryview) -> bytes:
    """Return the hash of a block, which the next block carries."""
    digest = hashlib.sha256(header)
    digest.update(rows)
    digest.update(heap)
    return digest.digest()[:HASH_BYTES]


def segment_header_bytes(layout_bytes: int, level: int) -> int:
    """Return the size of a segment header with a layout of that size: whole pages."""
    fixed_bytes = SEGMENT_HEADER_BYTES + layout_bytes + len(_pack_needs(level))
    return -(-fixed_bytes // PAGE_BYTES) * PAGE_BYTES


def _pack_needs(level: int) -> bytes:
    """Return the text of a header, behind the layout, for releases that do not know its level."""
    if level == LEVEL_MIN:
        return b""
    needs = Needs(release_of(level), names_of(level)[:NEEDS_NAMED_MAX])
    return b"\n" + msgspec.json.encode(needs)


def _unpack_needs(text: bytes) -> str:
    """Return the text from `_pack_needs` of a later release; "" if it cannot be read."""
    try:
        needs = msgspec.json.decode(text.rstrip(b"\0"), type=Needs)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    features = f" ({', '.join(needs.features)})" if needs.features else ""
    return f"Daybook {needs.release} or later{features}"


def pack_segment_header(
    *,
    first_lsn: int,
    data_id: bytes,
    previous_hash: bytes,
    segment_bytes: int,
    layout: bytes,
    level: int,
    flags: int = 0,
) -> bytes:
    """Return the bytes of a segment header, padded with zeros to whole pages.

    `level` is the feature level that its events need, or a higher one.
    """
    assert LEVEL_MIN <= level <= LEVEL
    assert len(data_id) == DATA_ID_BYTES
    assert len(previous_hash) == HASH_BYTES
    size = segment_header_bytes(len(layout), level)
    fixed = SEGMENT_HEADER.pack(
        SEGMENT_MAGIC, level, flags, size, first_lsn, data_id, previous_hash,
        segment_bytes, len(layout), 0,
    )  # fmt: skip
    packed = bytearray((fixed + layout + _pack_needs(level)).ljust(size, b"\0"))
    _CRC.pack_into(packed, SEGMENT_CRC_OFFSET, crc32c(packed))
    return bytes(packed)


def peek_segment_header_bytes(start: bytes) -> int:
    """Return the size of the whole header from its first bytes. Raises Damage."""
    if len(start) < SEGMENT_HEADER_BYTES:
        raise Damage("the file is too short for a segment header")
    fields = SEGMENT_HEADER.unpack_from(start)
    size: int = fields[3]
    if fields[0] != SEGMENT_MAGIC:
        raise Damage("the segment header does not begin with the magic of a segment")
    if size % PAGE_BYTES or not PAGE_BYTES <= size <= 1 << 20:
        raise Damage(f"the segment header claims a size of {size} bytes")
    return size


def unpack_segment_header(packed: bytes) -> SegmentHeader:
    """Read a whole segment header; raises Damage or UnknownVersion.

    The place of the crc, the bytes that it covers, and the place of what a version needs are the
    same in every version.
    """
    size = peek_segment_header_bytes(packed)
    if len(packed) != size:
        raise Damage("the file is too short for its segment header")
    (
        _, version, flags, _, first_lsn, data_id, previous_hash, segment_bytes, layout_bytes, crc,
    ) = SEGMENT_HEADER.unpack_from(packed)  # fmt: skip
    blank = bytearray(packed)
    _CRC.pack_into(blank, SEGMENT_CRC_OFFSET, 0)
    if crc32c(blank) != crc:
        raise Damage("the crc of the segment header does not match")
    if version > FORMAT_VERSION:
        raise UnknownVersion(version, _unpack_needs(packed[SEGMENT_HEADER_BYTES + layout_bytes :]))
    if version == 0 or flags & ~FLAG_FORK or layout_bytes > size - SEGMENT_HEADER_BYTES:
        raise Damage("the segment header has impossible fields")
    layout = packed[SEGMENT_HEADER_BYTES : SEGMENT_HEADER_BYTES + layout_bytes]
    return SegmentHeader(
        first_lsn, data_id, previous_hash, segment_bytes, size, layout, flags, version
    )


def pack_block_header(header: BlockHeader, salt: int) -> bytes:
    """Return the bytes of a block header, with its crc."""
    fixed = BLOCK_HEADER.pack(BLOCK_MAGIC, header[0], 0, *header[1:], 0)[:BLOCK_CRC_OFFSET]
    return fixed + _CRC.pack(crc32c(fixed, salt))


def unpack_block_header(packed: bytes, salt: int) -> BlockHeader:
    """Read a block header; raises Damage."""
    if len(packed) < BLOCK_HEADER_BYTES:
        raise Damage("the file ends within a block header")
    fields = BLOCK_HEADER.unpack(packed)
    if fields[0] != BLOCK_MAGIC:
        raise Damage("no block begins here")
    if crc32c(packed[:BLOCK_CRC_OFFSET], salt) != fields[-1]:
        raise Damage("the crc of the block header does not match")
    header = BlockHeader._make(fields[1:2] + fields[3:13])
    if (
        header.flags not in BLOCK_FLAGS
        or fields[2]
        or (header.event_count == 0) != (header.flags == FLAG_MARK)
    ):
        raise Damage("the block header has impossible fields")
    return header


def block_bytes(start: bytes) -> int:
    """Return the size of the block that begins with these bytes, as its header says, unchecked."""
    fields = BLOCK_HEADER.unpack_from(start)
    return BLOCK_HEADER_BYTES + sum(int(fields[number]) for number in _STORED_BYTES)


def whole_blocks_bytes(data: bytes) -> int:
    """Return how many of these bytes, which begin with a block, are whole blocks; unchecked."""
    end = 0
    while end + BLOCK_HEADER_BYTES <= len(data):
        next_end = end + block_bytes(data[end : end + BLOCK_HEADER_BYTES])
        if next_end > len(data):
            break
        end = next_end
    return end


def padding_bytes(end: int, device_block_bytes: int) -> int:
    """Return the padding that extends a block to the end of a device block."""
    missing = -end % device_block_bytes
    return missing + device_block_bytes if 0 < missing < PADDING_BYTES_MIN else missing


def pack_padding(count: int) -> bytes:
    """Return a skippable frame of `count` bytes, to be put after the heap; b"" for 0."""
    if not count:
        return b""
    assert count >= PADDING_BYTES_MIN
    return PADDING_MAGIC + _CRC.pack(count - PADDING_BYTES_MIN) + bytes(count - PADDING_BYTES_MIN)


def frame_crc(frame: bytes | memoryview) -> int:
    """Return the crc of a stored frame."""
    return int(crc32c(frame))


def footer_bytes(block_count: int) -> int:
    """Return the size of a footer for that many blocks."""
    return FOOTER_HEADER_BYTES + block_count * FOOTER_ENTRY_BYTES + TRAILER_BYTES


def pack_footer_entry(entry: FooterEntry) -> bytes:
    """Return the bytes of the entry of one block."""
    return FOOTER_ENTRY.pack(*entry)


def pack_footer(
    entries: bytes | bytearray, *, footer_offset: int, last_lsn: int, last_hash: bytes, salt: int
) -> bytes:
    """Return the bytes of a footer, from magic to trailer; `entries` are packed entries."""
    block_count, rest = divmod(len(entries), FOOTER_ENTRY_BYTES)
    assert rest == 0
    header = FOOTER_HEADER.pack(FOOTER_MAGIC, block_count, last_lsn)
    trailer = TRAILER.pack(footer_offset, last_hash, 0, TRAILER_MAGIC)
    covered = b"".join((header, entries, trailer[:TRAILER_CRC_OFFSET]))
    return covered + _CRC.pack(crc32c(covered, salt)) + TRAILER_MAGIC


def peek_footer_bytes(start: bytes) -> int:
    """Return the size of the footer that begins with these bytes; raises Damage if none does."""
    if len(start) < FOOTER_HEADER_BYTES or start[:4] != FOOTER_MAGIC:
        raise Damage("no footer begins here")
    return footer_bytes(FOOTER_HEADER.unpack_from(start)[1])


def peek_footer_offset(trailer: bytes) -> int:
    """Return the offset of the footer that ends with these bytes; raises Damage if none does."""
    if len(trailer) != TRAILER_BYTES or trailer[-4:] != TRAILER_MAGIC:
        raise Damage("the segment does not end in a trailer")
    offset: int = TRAILER.unpack(trailer)[0]
    return offset


def peek_trailer_hash(trailer: bytes) -> bytes:
    """Return the hash of the last block of the segment that ends with these bytes; raises Damage if
    none does. The crc of the footer is not checked."""
    peek_footer_offset(trailer)
    last_hash: bytes = TRAILER.unpack(trailer)[1]
    return last_hash


def unpack_footer(packed: bytes, salt: int) -> Footer:
    """Read a whole footer; raises Damage."""
    if peek_footer_bytes(packed) != len(packed):
        raise Damage("the footer has the wrong size")
    _, block_count, last_lsn = FOOTER_HEADER.unpack_from(packed)
    offset, last_hash, crc, magic = TRAILER.unpack(packed[-TRAILER_BYTES:])
    end_covered = len(packed) - TRAILER_BYTES + TRAILER_CRC_OFFSET
    if magic != TRAILER_MAGIC or crc32c(packed[:end_covered], salt) != crc:
        raise Damage("the crc of the footer does not match")
    entries = packed[FOOTER_HEADER_BYTES : FOOTER_HEADER_BYTES + block_count * FOOTER_ENTRY_BYTES]
    return Footer(
        offset,
        last_lsn,
        last_hash,
        entries,
    )
