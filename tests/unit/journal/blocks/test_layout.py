"""The row layout: derived values, JSON and back, and refusals."""

import msgspec
import pytest

from daybook.journal.blocks.layout import RowLayout, check_layout, decode_layout
from tests.suites.journal_rows import LAYOUT


def test_stored_columns_are_the_columns_and_the_lengths() -> None:
    assert LAYOUT.stored() == (
        *LAYOUT.columns,
        ("note_bytes", "I", 24),
        ("body_bytes", "I", 28),
    )
    assert LAYOUT.stored_row_bytes() == 1 + 2 + 4 + 8 + 8 + 4 + 4


def test_positions() -> None:
    assert LAYOUT.position("queue") == 2
    with pytest.raises(ValueError, match="nothing"):
        LAYOUT.position("nothing")


def test_the_way_through_json() -> None:
    assert decode_layout(LAYOUT.encode()) == LAYOUT
    with pytest.raises(ValueError, match="truncated"):
        decode_layout(b"{")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"columns": (("kind", "x", 0),)}, "column kind: code 'x'"),
        ({"columns": (("kind", "I", 2),)}, "column kind: offset 2"),
        ({"columns": (("kind", "I", 32),)}, "column kind: offset 32"),
        ({"columns": (("kind", "I", -4),)}, "column kind: offset -4"),
        ({"columns": (("kind", "I", 0), ("other", "B", 3))}, "column other: overlaps"),
        ({"row_bytes": 36}, "row_bytes is 36"),
        ({"queue_column": "line"}, "summary of 'line'"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], says: str) -> None:
    fields = msgspec.to_builtins(LAYOUT) | change
    layout = RowLayout(**fields)
    with pytest.raises(ValueError, match=says):
        check_layout(layout)
