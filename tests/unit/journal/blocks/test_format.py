"""Every structure on disk goes there and back, and no bit of it may change."""

from collections.abc import Callable

import pytest
from crc32c import crc32c

from daybook.journal.blocks.format import (
    FLAG_MARK,
    FLAG_NARROW_FIRST,
    NO_HASH,
    PAGE_BYTES,
    BlockHeader,
    Damage,
    Footer,
    FooterEntry,
    UnknownVersion,
    header_salt,
    pack_block_header,
    pack_footer,
    pack_footer_entry,
    pack_segment_header,
    peek_footer_offset,
    peek_segment_header_bytes,
    segment_first_lsn,
    segment_header_bytes,
    segment_name,
    unpack_block_header,
    unpack_footer,
    unpack_segment_header,
)
from daybook.levels import LEVEL

DATA_ID = b"0123456789abcdef"
SALT = header_salt(DATA_ID)
BLOCK = BlockHeader(0, 7, -5, 3, 93, 40, 100, 60, 11, 12, b"h" * 16)
ENTRY = FooterEntry(4096, 1, 2, 3, 4, 5, -6, 7, 8, 9, 10, 11)
ENTRIES = (ENTRY, ENTRY._replace(offset=4200))
FOOTER = Footer(5000, 77, b"l" * 16, b"".join(map(pack_footer_entry, ENTRIES)))
SEGMENT = pack_segment_header(
    first_lsn=9,
    data_id=DATA_ID,
    previous_hash=b"p" * 16,
    segment_bytes=8192,
    layout=b"{}",
    level=1,
)


def packed_footer(footer: Footer, salt: int) -> bytes:
    return pack_footer(
        footer.packed_entries,
        footer_offset=footer.footer_offset,
        last_lsn=footer.last_lsn,
        last_hash=footer.last_hash,
        salt=salt,
    )


def with_crc(header: bytearray) -> bytes:
    """A segment header with a crc that fits its content."""
    header[68:72] = bytes(4)
    header[68:72] = crc32c(header).to_bytes(4, "little")
    return bytes(header)


def test_names() -> None:
    assert segment_name(1) == "00000000000000000001.seg"
    assert segment_first_lsn(segment_name(2**63)) == 2**63
    for name in (
        "1.seg",
        segment_name(1) + ".new",
        segment_name(1)[:-4],
        "lock",
        "0" * 20 + ".seg",
    ):
        assert segment_first_lsn(name) is None
    assert segment_first_lsn("²" * 20 + ".seg") is None


def test_a_segment_header_there_and_back() -> None:
    header = unpack_segment_header(SEGMENT)
    assert header == (9, DATA_ID, b"p" * 16, 8192, PAGE_BYTES, b"{}", 0, 1)
    assert not header.is_fork
    assert len(SEGMENT) == PAGE_BYTES == peek_segment_header_bytes(SEGMENT[:72])


def test_a_long_layout_takes_more_pages() -> None:
    packed = pack_segment_header(
        first_lsn=1,
        data_id=DATA_ID,
        previous_hash=NO_HASH,
        segment_bytes=1,
        layout=b"x" * 5000,
        level=1,
    )
    assert len(packed) == 2 * PAGE_BYTES
    assert unpack_segment_header(packed).layout == b"x" * 5000


def test_a_block_header_there_and_back() -> None:
    packed = pack_block_header(BLOCK, SALT)
    assert unpack_block_header(packed, SALT) == BLOCK
    assert BLOCK.block_bytes == 72 + 40 + 60
    assert BLOCK.next_lsn == 10


def test_a_footer_there_and_back() -> None:
    packed = packed_footer(FOOTER, SALT)
    assert unpack_footer(packed, SALT) == FOOTER
    assert tuple(FOOTER.entries()) == ENTRIES
    assert [FOOTER.entry(position) for position in range(FOOTER.block_count)] == [*ENTRIES]
    assert peek_footer_offset(packed[-32:]) == 5000
    assert ENTRY.end == 4096 + 72 + 3 + 4


@pytest.mark.parametrize(
    ("packed", "unpack"),
    [
        (SEGMENT, unpack_segment_header),
        (pack_block_header(BLOCK, SALT), lambda packed: unpack_block_header(packed, SALT)),
        (packed_footer(FOOTER, SALT), lambda packed: unpack_footer(packed, SALT)),
    ],
    ids=["segment", "block", "footer"],
)
def test_no_bit_may_change(packed: bytes, unpack: Callable[[bytes], object]) -> None:
    bits = range(len(packed) * 8)
    # Padding is under the same crc as the rest; every eighth bit of it will do.
    for bit in [*bits[:1024], *bits[1024::9]]:
        changed = bytearray(packed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damage):
            unpack(bytes(changed))
    for size in {0, 1, 16, len(packed) - 1}:
        with pytest.raises(Damage):
            unpack(packed[:size])


def test_blocks_of_another_journal_are_not_ours() -> None:
    other = header_salt(b"another journal!")
    with pytest.raises(Damage, match="crc of the block header"):
        unpack_block_header(pack_block_header(BLOCK, SALT), other)
    with pytest.raises(Damage, match="crc of the footer"):
        unpack_footer(packed_footer(FOOTER, SALT), other)


@pytest.mark.parametrize(
    "header",
    [
        BLOCK._replace(flags=4),
        BLOCK._replace(flags=FLAG_MARK),
        BLOCK._replace(flags=FLAG_MARK | FLAG_NARROW_FIRST),
        BLOCK._replace(event_count=0),
        BLOCK._replace(event_count=0, flags=FLAG_NARROW_FIRST),
    ],
)
def test_impossible_block_headers_are_damage(header: BlockHeader) -> None:
    with pytest.raises(Damage, match="impossible"):
        unpack_block_header(pack_block_header(header, SALT), SALT)


def test_a_newer_version_is_told_apart_from_damage() -> None:
    newer = bytearray(SEGMENT)
    newer[8] = LEVEL + 1
    with pytest.raises(Damage):
        unpack_segment_header(bytes(newer))
    with pytest.raises(UnknownVersion, match=str(LEVEL + 1)) as raised:
        unpack_segment_header(with_crc(newer))
    assert raised.value.needs == ""


def header_of_level(level: int) -> bytes:
    return pack_segment_header(
        first_lsn=9, data_id=DATA_ID, previous_hash=NO_HASH, segment_bytes=8192, layout=b"{}",
        level=level,
    )  # fmt: skip


@pytest.mark.parametrize("level", range(1, LEVEL + 1))
def test_a_header_has_the_level_of_its_segment(level: int) -> None:
    packed = header_of_level(level)
    assert packed[8:10] == level.to_bytes(2, "little")
    assert unpack_segment_header(packed).level == level
    assert unpack_segment_header(packed).layout == b"{}"
    assert len(packed) == segment_header_bytes(len(b"{}"), level)


def test_a_header_of_level_1_is_that_of_the_first_release() -> None:
    """So journals without newer features stay readable by it."""
    assert header_of_level(1)[72:].strip(b"\0") == b"{}"


def test_a_later_release_says_in_the_header_which_release_is_needed() -> None:
    newer = bytearray(header_of_level(LEVEL))
    newer[8] = LEVEL + 1
    needs = b'{}\n{"release":"9.1.0","features":["time travel"],"more":[1]}'
    newer[72:] = needs.ljust(len(newer) - 72, b"\0")
    with pytest.raises(UnknownVersion) as raised:
        unpack_segment_header(with_crc(newer))
    assert raised.value.needs == "Daybook 9.1.0 or later (time travel)"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"release":5}', b"\xff\xfe"])
def test_what_cannot_be_read_of_a_later_header_says_nothing(text: bytes) -> None:
    newer = bytearray(header_of_level(1))
    newer[8] = LEVEL + 1
    newer[74 : 74 + len(text)] = text
    with pytest.raises(UnknownVersion) as raised:
        unpack_segment_header(with_crc(newer))
    assert raised.value.needs == ""


@pytest.mark.parametrize(("offset", "value"), [(8, 0), (10, 2), (67, 1)])
def test_impossible_segment_headers_are_damage(offset: int, value: int) -> None:
    changed = bytearray(SEGMENT)
    changed[offset] = value
    with pytest.raises(Damage, match="impossible"):
        unpack_segment_header(with_crc(changed))


def test_impossible_header_sizes_are_damage() -> None:
    for size in (0, 100, 1 << 21):
        changed = bytearray(SEGMENT)
        changed[12:16] = size.to_bytes(4, "little")
        with pytest.raises(Damage, match="claims a size"):
            peek_segment_header_bytes(bytes(changed))


def test_a_trailer_is_needed() -> None:
    with pytest.raises(Damage, match="does not end in a trailer"):
        peek_footer_offset(bytes(32))
