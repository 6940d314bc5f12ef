"""A reader of format version 1 written from docs/journal-format.md alone.

Shares no code with `journal`, so that the page and the golden files are checked by a second
opinion. It reads whole sealed or newest segments, checks everything, and stops where no block
begins.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard
from crc32c import crc32c

CODES = {"B": 1, "H": 2, "I": 4, "Q": 8, "q": 8}


def read_segment(path: Path, previous_hash: bytes) -> Iterator[tuple[bytes, list[Any]]]:
    """(hash of the block, its events) for each block; an event is [LSN, row, strings in hex]."""
    data = path.read_bytes()
    assert data[:8] == b"DAYBOOK\n"
    header_bytes = struct.unpack_from("<I", data, 12)[0]
    header_crc = struct.unpack_from("<I", data, 68)[0]
    assert crc32c(data[:68] + bytes(4) + data[72:header_bytes]) == header_crc
    assert struct.unpack_from("<H", data, 8)[0] == 1
    lsn = struct.unpack_from("<Q", data, 16)[0]
    assert path.name == f"{lsn:020}.seg"
    data_id = data[24:40]
    assert data[40:56] == previous_hash
    layout = json.loads(data[72 : 72 + struct.unpack_from("<I", data, 64)[0]])
    offset = header_bytes
    while data[offset : offset + 4] == b"dbBL":
        head = struct.unpack_from("<4sHHQqIIIIIII16sI", data, offset)
        _, flags, _, first_lsn, _, count, rows_raw, rows_stored, heap_raw, heap_stored = head[:10]
        assert crc32c(data_id + data[offset : offset + 68]) == head[13]
        assert (first_lsn, head[12], flags == 1) == (lsn, previous_hash, count == 0)
        assert flags in (0, 1, 2, 6)
        rows_end = offset + 72 + rows_stored
        end = rows_end + heap_stored
        rows, heap = data[offset + 72 : rows_end], data[rows_end:end]
        assert (crc32c(rows), crc32c(heap)) == head[10:12]
        previous_hash = hashlib.sha256(data[offset:end]).digest()[:16]
        rows = zstandard.decompress(rows) if rows else b""
        heap = zstandard.decompress(heap) if heap_raw else b""
        assert (len(rows), len(heap)) == (rows_raw, heap_raw)
        stored = widened(layout) if flags & 4 else layout
        order = narrow_first(stored) if flags & 2 else None
        yield previous_hash, events_of(stored, order, first_lsn, count, rows, heap)
        lsn += count
        offset = end
    if any(data[offset:]):
        check_footer(data, offset, data_id, previous_hash, lsn - 1)


def widened(layout: Any) -> Any:
    """The layout of a wide block."""
    columns = [(name, "Q" if code == "I" else code, at) for name, code, at in layout["columns"]]
    return {**layout, "columns": columns}


def codes_of(layout: Any) -> list[str]:
    """Codes of the columns, then those of the lengths."""
    return [code for _, code, _ in layout["columns"]] + ["I"] * len(layout["heaps"])


def narrow_first(layout: Any) -> list[int]:
    """Places of the columns in the order of a block with that flag."""
    names = [name for name, _, _ in layout["columns"]] + [None] * len(layout["heaps"])
    message, time = names.index(layout["message_column"]), names.index(layout["time_column"])
    narrow, wide = [], []
    for place, code in enumerate(codes_of(layout)):
        if place not in (message, time):
            (narrow if CODES[code] < 8 else wide).append(place)
    return [*narrow, time, message, *wide]


def events_of(
    layout: Any, order: list[int] | None, first_lsn: int, count: int, rows: bytes, heap: bytes
) -> list[Any]:
    """The events of a block."""
    codes = codes_of(layout)
    columns: list[Any] = [None] * len(codes)
    start = 0
    for place in order or range(len(codes)):
        columns[place] = struct.unpack_from(f"<{count}{codes[place]}", rows, start)
        start += count * CODES[codes[place]]
    assert start == len(rows)
    width = len(layout["columns"])
    strings: list[list[str]] = []
    start = 0
    for lengths in columns[width:]:
        cut = []
        for length in lengths:
            cut.append(heap[start : start + length].hex())
            start += length
        strings.append(cut)
    assert start == len(heap)
    return [
        [
            first_lsn + position,
            [column[position] for column in columns[:width]],
            *(cut[position] for cut in strings),
        ]
        for position in range(count)
    ]


def check_footer(data: bytes, offset: int, data_id: bytes, last_hash: bytes, last_lsn: int) -> None:
    """Check that the rest of the file is the right footer."""
    magic, block_count, footer_last_lsn = struct.unpack_from("<4sIQ", data, offset)
    assert (magic, footer_last_lsn) == (b"dbFT", last_lsn)
    assert len(data) == offset + 16 + 80 * block_count + 32
    footer_offset, footer_hash, crc, end_magic = struct.unpack("<Q16sI4s", data[-32:])
    assert (footer_offset, footer_hash, end_magic) == (offset, last_hash, b"dbTR")
    assert crc32c(data_id + data[offset:-8]) == crc
