"""A rows frame gives its first columns without the others, and is a frame like all others."""

import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from journal.format import Damage
from journal.rows_frame import PARTED_COUNT_MIN, compress, leading, part_ends
from paging.layout import LAYOUT

ENDS = part_ends(LAYOUT)
ROW_BYTES = LAYOUT.stored_row_bytes()
LEVEL_1 = zstandard.ZstdCompressor(level=1)
PLAIN = zstandard.ZstdDecompressor()


def columns(count: int, seed: int = 1) -> bytes:
    """Columns of so many events that compress a little."""
    made = random.Random(seed)
    return bytes(made.choice(b"abcd") for _ in range(count * ROW_BYTES))


def test_parts_end_around_the_message() -> None:
    assert ENDS == (14, 22)


@given(st.integers(1, 400), st.integers(0, 400 * 70), st.integers(0, 9))
def test_whatever_is_wanted_comes_first(count: int, wanted: int, seed: int) -> None:
    raw = columns(count, seed)
    wanted = min(wanted, len(raw))
    for frame in (compress(LEVEL_1, raw, count, ENDS), LEVEL_1.compress(raw)):
        assert PLAIN.decompress(frame) == raw
        assert zstandard.frame_content_size(frame) == len(raw)
        found = leading(PLAIN, frame, wanted)
        assert len(found) >= wanted
        assert raw.startswith(found)


def test_what_is_behind_stays_compressed() -> None:
    count = 2000
    raw = columns(count)
    parted = compress(LEVEL_1, raw, count, ENDS)
    assert len(leading(PLAIN, parted, 12 * count)) == 14 * count
    assert len(leading(PLAIN, parted, 14 * count)) == 14 * count
    assert len(leading(PLAIN, parted, 22 * count)) == 22 * count
    assert len(leading(PLAIN, LEVEL_1.compress(raw), 12 * count)) > 22 * count


def test_few_events_are_in_one_piece() -> None:
    raw = columns(PARTED_COUNT_MIN - 1)
    assert compress(LEVEL_1, raw, PARTED_COUNT_MIN - 1, ENDS) == LEVEL_1.compress(raw)


def test_a_frame_that_ends_early_is_damage() -> None:
    raw = columns(200)
    frame = compress(LEVEL_1, raw, 200, ENDS)
    for length in (0, 4, 5, 9, len(frame) // 2, len(frame) - 1):
        with pytest.raises(Damage):
            leading(PLAIN, frame[:length], len(raw))
    with pytest.raises(Damage, match="fewer bytes than"):
        leading(PLAIN, frame, len(raw) + 1)


@given(st.integers(0, 1 << 30), st.integers(1, 255))
def test_a_changed_byte_is_damage_or_other_bytes(place: int, change: int) -> None:
    raw = columns(100)
    frame = bytearray(compress(LEVEL_1, raw, 100, ENDS))
    frame[place % len(frame)] ^= change
    try:
        found = leading(PLAIN, bytes(frame), 12 * 100)
    except Damage:
        return
    assert len(found) >= 12 * 100
