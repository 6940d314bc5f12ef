"""The plain batch."""

from daybook.journal.blocks.batch import Batch


def test_raw_bytes_are_those_of_rows_and_strings() -> None:
    batch = Batch(7, [b"row1", b"row2"], ([b"abc"], [], [b"d", b"ef"]), 99)
    assert batch.raw_bytes == 8 + 3 + 3
    assert (batch.first_lsn, batch.time) == (7, 99)
