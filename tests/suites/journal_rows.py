"""Rows and batches for the tests of the journal: a layout of their own, unlike the broker's.

`Event` is what reading gives: (LSN, row, a string for each heap).
"""

import random
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final

from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.layout import RowLayout
from daybook.journal.disk import Disk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks

LAYOUT: Final = RowLayout(
    columns=(
        ("kind", "B", 0),
        ("weight", "H", 2),
        ("queue", "I", 4),
        ("message", "Q", 8),
        ("time", "q", 16),
    ),
    heaps=("note", "body"),
    row_bytes=32,
    lengths_offset=24,
    kind_column="kind",
    time_column="time",
    message_column="message",
    queue_column="queue",
)
ROW: Final = Struct("<BxHIQqII")
assert ROW.size == LAYOUT.row_bytes

DATA_ID: Final = bytes(range(16))
SEGMENT_BYTES: Final = 8192
"""The smallest that is allowed, so that few events fill several segments."""

Row = tuple[int, int, int, int, int]
Content = tuple[Row, bytes, bytes]
Event = tuple[Any, ...]


def make_batch(first_lsn: int, contents: Iterable[Content]) -> Batch:
    """A batch of these rows and strings."""
    rows: list[bytes] = []
    heaps: tuple[list[bytes], list[bytes]] = ([], [])
    time = 0
    for row, note, body in contents:
        rows.append(ROW.pack(*row, len(note), len(body)))
        time = row[4]
        for heap, text in zip(heaps, (note, body), strict=True):
            if text:
                heap.append(text)
    return Batch(first_lsn, rows, heaps, time)


def some_contents(first_lsn: int, count: int) -> list[Content]:
    """Rows and strings that differ from LSN to LSN, some strings empty."""
    return [
        (
            (lsn % 40, lsn % 7, lsn % 5, lsn // 2, 1_000_000 + lsn),
            b"" if lsn % 3 else b"note %d" % lsn,
            b"" if lsn % 4 == 1 else b"body of %d" % lsn,
        )
        for lsn in range(first_lsn, first_lsn + count)
    ]


def noise(count: int) -> bytes:
    """So many bytes that cannot be compressed, always the same."""
    return random.Random(count).randbytes(count)


def append_some(journal: Journal, blocks: int, count: int = 4) -> list[Event]:
    """Append so many blocks of so many events; answers the events as reading should give them."""
    appended: list[Event] = []
    for _ in range(blocks):
        first_lsn = journal.next_lsn
        contents = some_contents(first_lsn, count)
        journal.append(make_batch(first_lsn, contents))
        appended += [(first_lsn + i, *content) for i, content in enumerate(contents)]
    return appended


def create(disk: Disk, segment_bytes: int = SEGMENT_BYTES, device_block_bytes: int = 0) -> Journal:
    """A new journal of the test layout."""
    return Journal.create(
        disk, LAYOUT, data_id=DATA_ID, segment_bytes=segment_bytes,
        device_block_bytes=device_block_bytes,
    )  # fmt: skip


def reopen(disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> Journal:
    """The journal on the disk, opened again."""
    return Journal.open(disk, LAYOUT, segment_bytes=segment_bytes)[0]


def read_all(disk: Disk) -> list[Event]:
    """All events on the disk."""
    return list(all_events(disk))


def all_events(disk: Disk, from_lsn: int = 1) -> Iterator[Event]:
    """Events of all blocks from the one that holds the LSN."""
    for block in read_blocks(disk, LAYOUT, from_lsn=from_lsn):
        yield from block.events()


def file_bytes(disk: Disk, name: str) -> bytes:
    """Content of a file."""
    file = disk.open(name)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def overwrite(disk: Disk, name: str, offset: int, data: bytes) -> None:
    """Change bytes of a file behind the journal's back, durably."""
    file = disk.open_for_writing(name)
    try:
        assert file.pwrite(data, offset) == len(data)
        file.fdatasync()
    finally:
        file.close()
