"""Blocks: encoding, lazy decoding, summaries, and what does not fit together."""

import pytest
import zstandard

from daybook.journal.blocks.block import Block, BlockCodec, RawBlock, Summary, kind_bit, queue_bit
from daybook.journal.blocks.format import BLOCK_HEADER_BYTES, NO_HASH, Damage, frame_crc
from tests.suites.journal_rows import DATA_ID, LAYOUT, ROW, make_batch, some_contents


@pytest.fixture
def codec() -> BlockCodec:
    return BlockCodec(LAYOUT, DATA_ID)


def raw_block(codec: BlockCodec, first_lsn: int = 1, count: int = 5) -> RawBlock:
    encoded = codec.encode(make_batch(first_lsn, some_contents(first_lsn, count)), NO_HASH)
    header = encoded.header
    end_rows = BLOCK_HEADER_BYTES + header.rows_stored_bytes
    return RawBlock(
        header,
        4096,
        encoded.data[BLOCK_HEADER_BYTES:end_rows],
        encoded.data[end_rows:],
        encoded.hash,
    )


def test_there_and_back(codec: BlockCodec) -> None:
    block = Block(codec, raw_block(codec, 11), "a.seg")
    contents = some_contents(11, 5)
    assert list(block.events()) == [(11 + i, *each) for i, each in enumerate(contents)]
    assert list(block.rows()) == [row for row, _, _ in contents]
    assert list(block.strings(0)) == [note for _, note, _ in contents]
    assert (block.first_lsn, block.last_lsn, block.count) == (11, 15, 5)
    assert (block.segment, block.offset, block.time) == ("a.seg", 4096, 1_000_015)
    assert not block.is_mark
    assert len(block.hash) == 16
    assert block.header.event_count == 5


def test_columns_are_typed_and_kept(codec: BlockCodec) -> None:
    block = Block(codec, raw_block(codec), "a.seg")
    columns = block.columns()
    assert [column.format for column in columns] == ["B", "H", "I", "Q", "q", "I", "I"]
    assert block.columns() is columns


def test_strings_of_no_bytes_take_no_heap(codec: BlockCodec) -> None:
    encoded = codec.encode(make_batch(1, [((1, 2, 3, 4, 5), b"", b"")] * 3), NO_HASH)
    assert (encoded.header.heap_raw_bytes, encoded.header.heap_stored_bytes) == (0, 0)
    raw = RawBlock(encoded.header, 0, encoded.data[BLOCK_HEADER_BYTES:], b"", encoded.hash)
    assert [event[2:] for event in Block(codec, raw, "").events()] == [(b"", b"")] * 3


def test_a_mark_has_nothing(codec: BlockCodec) -> None:
    encoded = codec.encode_mark(9, 77, NO_HASH)
    assert len(encoded.data) == BLOCK_HEADER_BYTES
    assert encoded.summary == Summary()
    block = Block(codec, RawBlock(encoded.header, 0, b"", b"", encoded.hash), "")
    assert block.is_mark
    assert (block.first_lsn, block.last_lsn, block.time) == (9, 8, 77)
    assert list(block.rows()) == []
    assert list(block.events()) == []
    assert list(block.strings(1)) == []
    assert [len(column) for column in block.columns()] == [0] * 7
    assert [bytes(heap) for heap in block.heaps()] == [b"", b""]


def test_summaries(codec: BlockCodec) -> None:
    rows = [(3, 0, 0, 0, 50), (70, 0, 5, 12, -4), (3, 0, 6, 9, 20)]
    encoded = codec.encode(make_batch(1, [(row, b"", b"") for row in rows]), NO_HASH)
    assert encoded.summary == Summary(
        time_min=-4,
        time_max=50,
        message_min=9,
        message_max=12,
        kinds=1 << 3 | 1 << 63,
        queues=1 | queue_bit(5) | queue_bit(6),
    )
    none = codec.encode(make_batch(1, [((0, 0, 0, 0, 0), b"", b"")]), NO_HASH)
    assert none.summary == Summary(kinds=kind_bit(0), queues=queue_bit(0))


def test_queues_spread_over_the_bloom_filter() -> None:
    bits = [queue_bit(queue) for queue in range(1, 1000)]
    assert len(set(bits)) == 63
    assert queue_bit(0) not in bits
    assert max(bits.count(bit) for bit in set(bits)) < 40


def test_rows_of_the_wrong_size_are_our_mistake(codec: BlockCodec) -> None:
    batch = make_batch(1, some_contents(1, 2))
    batch.rows[1] += b"x"
    with pytest.raises(AssertionError, match="rows of the wrong size"):
        codec.encode(batch, NO_HASH)
    batch.rows.clear()
    with pytest.raises(AssertionError):
        codec.encode(batch, NO_HASH)


def test_strings_that_the_rows_do_not_know_are_our_mistake(codec: BlockCodec) -> None:
    batch = make_batch(1, some_contents(1, 2))
    batch.heaps[1].append(b"more")
    with pytest.raises(AssertionError, match="lengths in the rows do not match"):
        codec.encode(batch, NO_HASH)
    batch.heaps = batch.heaps[:1]
    with pytest.raises(AssertionError, match="a list of strings"):
        codec.encode(batch, NO_HASH)


def test_a_frame_of_another_size_than_claimed_is_damage(codec: BlockCodec) -> None:
    raw = raw_block(codec)
    other = raw._replace(header=raw.header._replace(heap_raw_bytes=1))
    with pytest.raises(Damage, match="another size"):
        Block(codec, other, "").heaps()
    other = raw._replace(header=raw.header._replace(event_count=6))
    with pytest.raises(Damage, match="wrong size"):
        Block(codec, other, "").columns()


def test_a_frame_that_is_none_is_damage(codec: BlockCodec) -> None:
    raw = raw_block(codec)
    with pytest.raises(Damage, match="cannot be decompressed"):
        Block(codec, raw._replace(heap=b"junk"), "").heaps()
    truncated = raw.rows[:-3]
    with pytest.raises(Damage, match="decompressed"):
        Block(codec, raw._replace(rows=truncated), "").columns()


def test_a_heap_that_the_rows_do_not_know_is_damage(codec: BlockCodec) -> None:
    raw = raw_block(codec)
    heap = zstandard.ZstdCompressor().compress(b"short")
    header = raw.header._replace(
        heap_raw_bytes=5, heap_stored_bytes=len(heap), heap_crc=frame_crc(heap)
    )
    with pytest.raises(Damage, match="lengths in the rows do not add up"):
        Block(codec, raw._replace(header=header, heap=heap), "").heaps()


def test_the_row_struct_of_the_tests_is_that_of_the_layout() -> None:
    packed = ROW.pack(1, 2, 3, 4, 5, 6, 7)
    values = [
        int.from_bytes(packed[offset : offset + {"B": 1, "H": 2, "I": 4}.get(code, 8)], "little")
        for _, code, offset in LAYOUT.stored()
    ]
    assert values == [1, 2, 3, 4, 5, 6, 7]
