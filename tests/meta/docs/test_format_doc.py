"""docs/journal-format.md says what journal/blocks/format.py does, byte for byte."""

import re
from struct import calcsize

import pytest

from daybook.journal.blocks import format as journal_format
from daybook.journal.blocks.block import kind_bit, queue_bit
from tests.meta import tree

PAGE = (tree.ROOT / "docs" / "journal-format.md").read_text("utf-8")
STRUCTURES = {
    "SEGMENT_HEADER": journal_format.SEGMENT_HEADER_FIELDS,
    "BLOCK_HEADER": journal_format.BLOCK_HEADER_FIELDS,
    "FOOTER_HEADER": journal_format.FOOTER_HEADER_FIELDS,
    "FOOTER_ENTRY": journal_format.FOOTER_ENTRY_FIELDS,
    "TRAILER": journal_format.TRAILER_FIELDS,
}
TYPES = {"H": "u16", "I": "u32", "Q": "u64", "q": "i64"}
MAGICS = {
    "SEGMENT_HEADER": journal_format.SEGMENT_MAGIC,
    "BLOCK_HEADER": journal_format.BLOCK_MAGIC,
    "FOOTER_HEADER": journal_format.FOOTER_MAGIC,
    "TRAILER": journal_format.TRAILER_MAGIC,
}


def documented(structure: str) -> list[tuple[int, int, str, str]]:
    """Offset, bytes, type and name of each field, as the page has them."""
    table = PAGE.split(f"<!-- fields: {structure} -->", 1)[1].split("\n\n", 2)[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert rows[0] == ["offset", "bytes", "type", "field", "meaning"]
    return [(int(row[0]), int(row[1]), row[2], row[3].strip("`")) for row in rows[2:]]


def coded(structure: str) -> list[tuple[int, int, str, str]]:
    """The same from the code."""
    fields = []
    offset = 0
    for name, code in STRUCTURES[structure]:
        size = calcsize("<" + code)
        fields.append((offset, size, TYPES.get(code, f"bytes[{size}]"), name))
        offset += size
    return fields


def test_the_page_describes_exactly_the_structures() -> None:
    assert re.findall(r"<!-- fields: (\w+) -->", PAGE) == list(STRUCTURES)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_fields(structure: str) -> None:
    assert documented(structure) == coded(structure)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_sizes(structure: str) -> None:
    offset, size, _, _ = documented(structure)[-1]
    assert offset + size == getattr(journal_format, structure).size


@pytest.mark.parametrize("structure", MAGICS)
def test_magics(structure: str) -> None:
    table = PAGE.split(f"<!-- fields: {structure} -->", 1)[1]
    magic = MAGICS[structure].decode().strip()
    found = re.search(r"\| `magic` \| `(\w+)`", table)
    assert found is not None
    assert found[1] == magic


def test_numbers_in_the_prose() -> None:
    assert f"Format versions 1 to {journal_format.FORMAT_VERSION}." in PAGE
    assert f"a multiple of {journal_format.PAGE_BYTES}" in PAGE
    assert f"takes {journal_format.BLOCK_HEADER_BYTES} + `rows_stored_bytes`" in PAGE
    assert f"From offset {journal_format.SEGMENT_HEADER_BYTES} stands the **layout**" in PAGE
    assert f"followed by the {journal_format.BLOCK_CRC_OFFSET} bytes before this field" in PAGE
    assert journal_format.RESERVE_NAME in PAGE
    assert journal_format.segment_name(1) in PAGE
    assert journal_format.frame_crc(b"123456789") == 0xE3069283


@pytest.mark.parametrize("queue", [1, 2, 3, 77, 2**32 - 1])
def test_the_bloom_filter_is_as_the_page_says(queue: int) -> None:
    product = queue * 0x9E3779B97F4A7C15 % 2**64
    assert queue_bit(queue) == 1 << (1 + (product >> 32) % 63)
    assert "1 + ((q * `0x9E3779B97F4A7C15` mod 2^64) >> 32) mod 63" in PAGE


def test_the_kinds_are_as_the_page_says() -> None:
    assert [kind_bit(kind) for kind in (0, 5, 62, 63, 64, 255)] == [
        1, 1 << 5, 1 << 62, 1 << 63, 1 << 63, 1 << 63,
    ]  # fmt: skip
