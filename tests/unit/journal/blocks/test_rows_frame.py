"""A rows frame begins with what is asked for most, and gives it without what comes behind."""

import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.blocks.layout import RowLayout
from daybook.journal.blocks.rows_frame import (
    PARTED_COUNT_MIN,
    ZSTD_BLOCK_BYTES,
    Order,
    compress,
    narrow_first,
    parts_with,
    plain,
    shortened,
    zstd_blocks,
)
from daybook.paging.tables.layout import LAYOUT
from tests.golden.make_v1 import LAYOUT as OTHER_LAYOUT

ORDER = narrow_first(LAYOUT)
ROW_BYTES = LAYOUT.stored_row_bytes()
LEVEL_1 = zstandard.ZstdCompressor(level=1)
PLAIN = zstandard.ZstdDecompressor()
EVERY = list(range(len(LAYOUT.stored())))
NAMES = [name for name, _, _ in LAYOUT.stored()]


def columns(count: int, seed: int = 1) -> bytes:
    """Columns of so many events that compress a little."""
    made = random.Random(seed)
    return bytes(made.choice(b"abcd") for _ in range(count * ROW_BYTES))


def first_parts(frame: bytes, count: int, parts: int) -> bytes | None:
    size = count * ORDER.part_ends[parts - 1]
    found = shortened(frame, zstd_blocks(ORDER, parts, count), size)
    return None if found is None else PLAIN.decompress(found)


def test_narrow_columns_lengths_and_the_time_come_first() -> None:
    assert [NAMES[position] for position in ORDER.positions] == [
        "kind", "reason", "delivery_count", "address", "queue", "priority", "flags",
        "detail_bytes", "headers_bytes", "body_bytes", "time",
        "message",
        "consumer", "connection", "related",
    ]  # fmt: skip
    assert ORDER.part_ends == (34, 42, 66)


@pytest.mark.parametrize("layout", [LAYOUT, OTHER_LAYOUT], ids=["events", "golden"])
def test_orders_have_every_column_once_without_gaps(layout: RowLayout) -> None:
    for order in (plain(layout), narrow_first(layout)):
        assert sorted(order.positions) == list(range(len(layout.stored())))
        places = [(order.starts[position], order.ends[position]) for position in order.positions]
        assert [start for start, _ in places] == [0, *(end for _, end in places[:-1])]
        assert places[-1][1] == layout.stored_row_bytes() == order.part_ends[-1]
    assert plain(layout).positions == tuple(range(len(layout.stored())))


def test_as_many_parts_as_columns_need() -> None:
    assert parts_with(ORDER, ()) == 1
    assert parts_with(ORDER, (0, 4, 11, 14)) == 1
    assert parts_with(ORDER, (0, 7)) == 2
    assert parts_with(ORDER, (8,)) == 3
    assert parts_with(plain(LAYOUT), (0,)) == 1


@given(st.integers(PARTED_COUNT_MIN, 400), st.integers(0, 9), st.integers(1, 2))
def test_the_first_parts_are_a_frame_of_their_own(count: int, seed: int, parts: int) -> None:
    raw = columns(count, seed)
    frame = compress(LEVEL_1, raw, count, ORDER)
    assert PLAIN.decompress(frame) == raw
    assert zstandard.frame_content_size(frame) == len(raw)
    assert first_parts(frame, count, parts) == raw[: count * ORDER.part_ends[parts - 1]]


@pytest.mark.parametrize("count", [3000, 4000, 9000, 20_000])
def test_parts_of_several_zstd_blocks(count: int) -> None:
    raw = columns(count)
    frame = compress(LEVEL_1, raw, count, ORDER)
    assert (34 * count > ZSTD_BLOCK_BYTES) == (count > 3855)
    assert first_parts(frame, count, 1) == raw[: 34 * count]
    assert first_parts(frame, count, 2) == raw[: 42 * count]


def test_few_events_are_in_one_piece() -> None:
    count = PARTED_COUNT_MIN - 1
    raw = columns(count)
    frame = compress(LEVEL_1, raw, count, ORDER)
    assert frame == LEVEL_1.compress(raw)
    assert first_parts(frame, count, 1) is None


@pytest.mark.parametrize("count", [100, 9000])
def test_a_frame_that_is_cut_otherwise_never_gives_something_else(count: int) -> None:
    raw = columns(count)
    whole = LEVEL_1.compress(raw)
    other = compress(LEVEL_1, raw, count, Order(LAYOUT, [[0, 7], list(range(1, 7)), EVERY[8:]]))
    for frame in (whole, other, *(whole[:length] for length in (0, 4, 5, 9, len(whole) // 2))):
        for parts in (1, 2):
            try:
                assert first_parts(frame, count, parts) is None
            except zstandard.ZstdError:
                continue


@given(st.integers(0, 1 << 30), st.integers(1, 255))
def test_a_changed_byte_is_an_error_or_as_many_bytes(place: int, change: int) -> None:
    frame = bytearray(compress(LEVEL_1, columns(100), 100, ORDER))
    frame[place % len(frame)] ^= change
    try:
        found = first_parts(bytes(frame), 100, 1)
    except zstandard.ZstdError:
        return
    assert found is None or len(found) == 34 * 100
