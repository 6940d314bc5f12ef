"""The layout of a row: the journal's whole knowledge of its content.

The layout is written into the header of every segment, so segments can be read without other
knowledge. This module must never know what a column means; the layout names the columns that
footers summarise.
"""

import sys
from typing import Final

import msgspec

WIDTHS: Final[dict[str, int]] = {"B": 1, "H": 2, "I": 4, "Q": 8, "q": 8}
"""Struct code to width in bytes of every kind of column."""

LENGTH_CODE: Final = "I"
"""Code of the length columns, one for each heap."""

WIDENED: Final = {"I": "Q"}
"""The codes of columns, but not of lengths, in a wide block."""
UPPER_CODE: Final = "H"
"""Code of the upper bits of a column in the row."""

# Columns are moved about as native integers. Every format on disk is little endian.
assert sys.byteorder == "little", "Daybook runs on little endian machines only"


class RowLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """Columns of a row and its heaps.

    `columns` are (name, struct code, offset in bytes); heap `i` has its length as u32 at
    `lengths_offset + 4 * i`. The four named columns are summarised in footers: kinds as a bit set,
    time and non-zero messages by lowest and highest, queues as a 64-bit bloom filter.

    `upper` says where a row in memory has the upper bits of columns of code `I`, in the same form
    as `columns`. Only writers need it, and no segment has it.
    """

    columns: tuple[tuple[str, str, int], ...]
    heaps: tuple[str, ...]
    row_bytes: int
    lengths_offset: int
    kind_column: str
    time_column: str
    message_column: str
    queue_column: str
    upper: tuple[tuple[str, str, int], ...] = ()

    def stored(self) -> tuple[tuple[str, str, int], ...]:
        """Return all stored columns in layout order: the columns of the row, then the lengths."""
        lengths = tuple(
            (f"{heap}_bytes", LENGTH_CODE, self.lengths_offset + 4 * position)
            for position, heap in enumerate(self.heaps)
        )
        return self.columns + lengths

    def stored_row_bytes(self) -> int:
        """Return the uncompressed bytes of one row in a rows frame: without unused bytes."""
        return sum(WIDTHS[code] for _, code, _ in self.stored())

    def position(self, column: str) -> int:
        """Return the position of a column in a row. Raises ValueError for an unknown column."""
        return [name for name, _, _ in self.columns].index(column)

    def on_disk(self) -> "RowLayout":
        """The layout without the parts that segments do not record."""
        return msgspec.structs.replace(self, upper=())

    def widened(self) -> "RowLayout":
        """The layout by which a wide block stores its columns; its offsets are meaningless."""
        columns = tuple(
            (name, WIDENED.get(code, code), offset) for name, code, offset in self.columns
        )
        return msgspec.structs.replace(self, columns=columns)

    def encode(self) -> bytes:
        """The layout as JSON, as it stands in a segment header."""
        return msgspec.json.encode(self.on_disk())


def decode_layout(encoded: bytes) -> RowLayout:
    """Decode a layout from a segment header; raises ValueError if it is invalid."""
    layout = msgspec.json.decode(encoded, type=RowLayout)
    check_layout(layout)
    return layout


def check_layout(layout: RowLayout) -> None:
    """Check that columns are inside the row, aligned and disjoint, and that summaries name columns.

    Raises ValueError for the first fault.
    """
    used = bytearray(layout.row_bytes)
    widened = {name for name, code, _ in layout.columns if code in WIDENED}
    for name, code, _ in layout.upper:
        if name not in widened or code != UPPER_CODE:
            raise ValueError(f"column {name}: it has no upper bits of code {code!r}")
    for name, code, offset in layout.stored() + layout.upper:
        width = WIDTHS.get(code)
        if width is None:
            raise ValueError(f"column {name}: code {code!r} is none of {' '.join(WIDTHS)}")
        if offset < 0 or offset % width or offset + width > layout.row_bytes:
            raise ValueError(f"column {name}: offset {offset} is not a place in the row")
        if any(used[offset : offset + width]):
            raise ValueError(f"column {name}: overlaps another column")
        used[offset : offset + width] = bytes([1]) * width
    if layout.row_bytes % 8:
        raise ValueError(f"row_bytes is {layout.row_bytes}, which is not a multiple of 8")
    names = {name for name, _, _ in layout.columns}
    for name in (
        layout.kind_column,
        layout.time_column,
        layout.message_column,
        layout.queue_column,
    ):
        if name not in names:
            raise ValueError(f"summary of {name!r}: there is no such column")
