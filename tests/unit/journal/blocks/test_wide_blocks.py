"""Wide blocks: columns of four bytes have eight where a row needs it, and nowhere else."""

from struct import Struct

import msgspec
import pytest

from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.block import Block, BlockCodec, RawBlock, queue_bit
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    FLAG_NARROW_FIRST,
    FLAG_WIDE,
    NO_HASH,
    Damage,
)
from daybook.journal.blocks.layout import RowLayout, check_layout, decode_layout
from daybook.journal.blocks.leading_rows import leading_rows

LAYOUT = RowLayout(
    columns=(("kind", "B", 0), ("queue", "I", 4), ("other", "I", 8), ("message", "Q", 16),
             ("time", "q", 24)),
    heaps=("body",), row_bytes=40, lengths_offset=32,
    kind_column="kind", time_column="time", message_column="message", queue_column="queue",
    upper=(("queue", "H", 2),),
)  # fmt: skip
ROW = Struct("<BxHII4xQqI4x")
WIDEST = (1 << 48) - 1


def encoded(queues: list[int]) -> tuple[BlockCodec, RawBlock, int]:
    codec = BlockCodec(LAYOUT, bytes(16))
    rows = [
        ROW.pack(7, queue >> 32, queue & 0xFFFFFFFF, 5, number, number, 0)
        for number, queue in enumerate(queues)
    ]
    block = codec.encode(Batch(1, rows, [[]], 9), NO_HASH)
    end = BLOCK_HEADER_BYTES + block.header.rows_stored_bytes
    raw = RawBlock(block.header, 0, block.data[BLOCK_HEADER_BYTES:end], b"", block.hash)
    return codec, raw, block.summary.queues


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("queue", [1 << 32, WIDEST])
def test_there_and_back(count: int, queue: int) -> None:
    queues = [queue, *range(1, count)]
    codec, raw, bits = encoded(queues)
    assert raw.header.flags == FLAG_NARROW_FIRST | FLAG_WIDE
    # A reader knows the layout of the segment, which does not mention upper bits.
    for reader in (codec, BlockCodec(decode_layout(LAYOUT.encode()), bytes(16))):
        rows = list(Block(reader, raw, "a.seg").rows())
        assert rows == [(7, each, 5, place, place) for place, each in enumerate(queues)]
    assert bits & queue_bit(queue)
    [leading] = leading_rows(codec, [(raw.header, raw.rows)], (0,))
    start = codec.order(raw.header).starts[0] * count
    assert bytes(leading[start : start + count]) == bytes([7] * count)


def test_a_block_that_needs_it_not_is_as_ever() -> None:
    codec, raw, _ = encoded([(1 << 32) - 1, 3])
    assert raw.header.flags == FLAG_NARROW_FIRST
    assert raw.header.rows_raw_bytes == 2 * LAYOUT.stored_row_bytes()
    assert codec.codes(raw.header)[1] == "I"


def test_a_block_with_the_wrong_flag_is_damage() -> None:
    codec, raw, _ = encoded([1 << 40])
    header = raw.header._replace(flags=FLAG_NARROW_FIRST)
    with pytest.raises(Damage, match="wrong size"):
        codec.columns(header, raw.rows)


def test_segments_say_nothing_of_upper_bits() -> None:
    assert decode_layout(LAYOUT.encode()) == LAYOUT.on_disk() != LAYOUT
    assert b"upper" not in LAYOUT.encode()


@pytest.mark.parametrize(
    ("upper", "says"),
    [
        ((("queue", "I", 36),), "column queue: it has no upper bits of code 'I'"),
        ((("kind", "H", 2),), "column kind: it has no upper bits"),
        ((("nothing", "H", 2),), "column nothing: it has no upper bits"),
        ((("queue", "H", 4),), "overlaps another column"),
        ((("queue", "H", 3),), "offset 3"),
    ],
)
def test_upper_bits_that_cannot_be_are_refused(upper: object, says: str) -> None:
    fields = {**msgspec.structs.asdict(LAYOUT), "upper": upper}
    with pytest.raises(ValueError, match=says):
        check_layout(RowLayout(**fields))
