"""Single columns equal those of the whole frame, whatever compressed it."""

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.blocks.block import Block, BlockCodec, RawBlock
from daybook.journal.blocks.format import FLAG_NARROW_FIRST, NO_HASH, BlockHeader, Damage
from daybook.journal.blocks.leading_rows import Stored, leading_rows
from daybook.journal.blocks.rows_frame import PARTED_COUNT_MIN
from tests.suites.journal_rows import LAYOUT, make_batch, some_contents
from tests.support.stored.older import as_before

CODEC = BlockCodec(LAYOUT, bytes(16))
ALL = tuple(range(len(LAYOUT.stored())))


def stored(count: int, seed: int) -> Stored:
    encoded = CODEC.encode(make_batch(1, some_contents(1 + seed, count)), NO_HASH)
    end = 72 + encoded.header.rows_stored_bytes
    return encoded.header, encoded.data[72:end]


def before(block: Stored) -> Stored:
    """The same block as it was written once: in the order of the layout, in one piece."""
    raw = as_before(CODEC, RawBlock(block[0], 0, block[1], b"", b""))
    return raw.header, raw.rows


def in_one_piece(block: Stored) -> Stored:
    """The same block from a writer that does not know parts."""
    header, rows = block
    return header, zstandard.ZstdCompressor().compress(zstandard.decompress(rows))


def columns_of(block: Stored) -> list[memoryview]:
    header, rows = block
    return Block(CODEC, RawBlock(header, 0, rows, b"", b""), "").columns()


def cut(header: BlockHeader, raw: bytes | memoryview, position: int) -> bytes:
    order = CODEC.order(header)
    count = header.event_count
    return bytes(raw[count * order.starts[position] : count * order.ends[position]])


@given(
    st.lists(st.integers(1, 3 * PARTED_COUNT_MIN), min_size=1, max_size=5),
    st.sets(st.sampled_from(ALL)),
    st.data(),
)
def test_leading_rows_are_those_of_the_whole(
    counts: list[int], chosen: set[int], data: st.DataObject
) -> None:
    shape = st.sampled_from([lambda block: block, before, in_one_piece])
    blocks = [data.draw(shape)(stored(count, seed)) for seed, count in enumerate(counts)]
    positions = tuple(sorted(chosen))
    for block, raw in zip(blocks, leading_rows(CODEC, blocks, positions), strict=True):
        expected = columns_of(block)
        for position in positions:
            assert cut(block[0], raw, position) == bytes(expected[position])


def test_what_is_not_needed_stays_compressed() -> None:
    block = stored(200, 1)
    assert block[0].flags == FLAG_NARROW_FIRST
    order = CODEC.order(block[0])
    assert len(order.part_ends) > 1
    [raw] = leading_rows(CODEC, [block], (CODEC.kind, *CODEC.lengths))
    assert len(raw) == 200 * order.part_ends[0]
    [raw] = leading_rows(CODEC, [block], (CODEC.message,))
    assert len(raw) == 200 * order.part_ends[1]
    [raw] = leading_rows(CODEC, [before(block)], (CODEC.kind,))
    assert len(raw) == block[0].rows_raw_bytes


@pytest.mark.parametrize("others", [0, 2])
def test_damage_is_told(others: int) -> None:
    header, rows = stored(200, 1)
    sound = [stored(100, seed) for seed in range(others)]
    other = in_one_piece(stored(150, 1))[1]
    for damaged in (b"", b"junk", rows[:-1], rows[: len(rows) // 2], other):
        with pytest.raises(Damage):
            leading_rows(CODEC, [*sound, (header, damaged)], ALL)
    with pytest.raises(Damage, match="wrong size"):
        leading_rows(CODEC, [*sound, (header._replace(event_count=7), rows)], (0,))


def test_a_library_without_the_call_for_many_does_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [stored(100, seed) for seed in range(3)]
    expected = [bytes(raw) for raw in leading_rows(CODEC, blocks, ALL)]

    class OneByOne:
        def decompress(self, frame: bytes) -> bytes:
            return zstandard.decompress(frame)

    monkeypatch.setattr(CODEC._of_thread, "decompressor", OneByOne())
    assert [bytes(raw) for raw in leading_rows(CODEC, blocks, ALL)] == expected
