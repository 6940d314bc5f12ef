"""Writes a golden journal of format version 1; every release must read it.

`v1` was written when blocks had the order of the layout, `v1-narrow-first` with that flag,
`v1-padded` with blocks that end with a device block of 512 bytes, `v1-wide` with queues whose ids
need more than four bytes in some blocks.

Run once:

    python -m tests.golden.make_v1

Refuses to write over files that exist: a golden journal that changes with the code proves nothing.
"""

import random
from pathlib import Path
from struct import Struct
from typing import Any, Final

import msgspec

from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.format import RESERVE_NAME
from daybook.journal.blocks.layout import RowLayout
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal

FOLDER: Final = Path(__file__).parent / "v1-wide"
DATA_ID: Final = b"golden journal 1"
LAYOUT: Final = RowLayout(
    columns=(
        ("kind", "B", 0),
        ("reason", "B", 1),
        ("attempt", "H", 2),
        ("queue", "I", 4),
        ("message", "Q", 8),
        ("time", "q", 16),
    ),
    heaps=("detail", "headers", "body"),
    row_bytes=40,
    lengths_offset=24,
    kind_column="kind",
    time_column="time",
    message_column="message",
    queue_column="queue",
)
WIDE: Final = msgspec.structs.replace(LAYOUT, upper=(("queue", "H", 36),))
ROW: Final = Struct("<BBHIQqIIIH2x")
WIDE_FROM: Final = 5
"""Number of the first block with such queues, if there are any."""
BLOCKS: Final = 14


LONG: Final = 9
"""Number of the block that may be long."""


def block(
    number: int, first_lsn: int, count: int, upper: int = 0
) -> list[tuple[tuple[int, ...], list[bytes]]]:
    """Rows and strings of a block: some empty, some compressible, some not.

    Every other queue has these upper bits.
    """
    chance = random.Random(number)
    events: list[tuple[tuple[int, ...], list[bytes]]] = []
    for position in range(count):
        lsn = first_lsn + position
        row = (
            lsn % 70,
            number % 9,
            lsn % 3,
            lsn % 4 | upper * (lsn % 2) << 32,
            lsn // 2,
            1_760_000_000_000_000 + lsn,
        )
        detail = b"" if lsn % 3 else msgspec.msgpack.encode({"lsn": lsn})
        headers = b"content-type:text/plain\n" * (lsn % 2)
        body = chance.randbytes(700) if lsn % 4 == 0 else b"body %d " % lsn * (lsn % 5)
        events.append((row, [detail, headers, body]))
    return events


def packed(row: tuple[int, ...], strings: list[bytes]) -> bytes:
    """A row as writers have it in memory."""
    kind, reason, attempt, queue, *rest = row
    lengths = map(len, strings)
    return ROW.pack(kind, reason, attempt, queue & (1 << 32) - 1, *rest, *lengths, queue >> 32)


def write(folder: Path, longest: int, device_block_bytes: int, upper: int = 0) -> dict[str, Any]:
    """Write the journal, one block with so many events; answers what reading it must give."""
    disk = RealDisk(folder)
    journal = Journal.create(
        disk, WIDE, data_id=DATA_ID, segment_bytes=8192, device_block_bytes=device_block_bytes
    )
    expected: list[Any] = []
    for number in range(BLOCKS):
        count = longest if number == LONG else 1 + number % 5
        events = block(number, journal.next_lsn, count, upper * (number >= WIDE_FROM))
        rows = [packed(row, strings) for row, strings in events]
        heaps = [[strings[k] for _, strings in events if strings[k]] for k in range(3)]
        for position, (row, strings) in enumerate(events):
            hexadecimal = [text.hex() for text in strings]
            expected.append([journal.next_lsn + position, row, *hexadecimal])
        journal.append(Batch(journal.next_lsn, rows, heaps, events[-1][0][5]))
        if number in (6, BLOCKS - 1):
            journal.mark(1_760_000_001_000_000 + number)
    journal.close()
    disk.remove(RESERVE_NAME)
    return {
        "layout": LAYOUT,
        "data_id": DATA_ID.hex(),
        "segments": [name for name in disk.names() if name.endswith(".seg")],
        "last_hash": journal.last_hash.hex(),
        "marks": 2,
        "events": expected,
    }


VARIANTS: Final = {
    "v1": (5, 0), "v1-narrow-first": (200, 0), "v1-padded": (200, 512), "v1-wide": (200, 0, 789),
}  # fmt: skip
"""Of each golden journal the events of its longest block, which is in parts from 64 on, the size of
the device blocks that its blocks end with, and upper bits of queues."""


def main() -> None:
    """Write the golden files."""
    FOLDER.mkdir()
    expected = write(FOLDER, *VARIANTS[FOLDER.name])
    lines = ",\n".join(msgspec.json.encode(event).decode() for event in expected.pop("events"))
    head = msgspec.json.encode(expected).decode().removesuffix("}")
    (FOLDER / "expected.json").write_text(f'{head},\n"events": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
