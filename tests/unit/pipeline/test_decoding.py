"""Batches are bounded, and damage within one is told of the block that has it."""

from pathlib import Path

import pyarrow as pa
import pytest

from journal.block import Block
from journal.disk import RealDisk
from journal.errors import Corruption
from journal.format import BLOCK_HEADER_BYTES, Damage
from journal.reader import read_blocks
from pipeline import decoding
from pipeline.decoding import read_plan
from pipeline.planning import Plan, Source, make_plan
from pipeline.selection import EVERYTHING, Selection
from tests.support.histories import some_history, write_history


@pytest.fixture
def data(tmp_path: Path) -> Path:
    journal = some_history(2, 400)
    cuts = range(40, len(journal), 40)
    return write_history(tmp_path, journal, cuts=cuts, segment_bytes=1 << 14)


def plan_of(data: Path, selection: Selection = EVERYTHING) -> Plan:
    return make_plan(Source(str(data)), selection)


def blocks_of(data: Path) -> list[Block]:
    return [block for block in read_blocks(RealDisk(data / "journal")) if block.count]


def test_batches_end_by_rows_and_by_bytes(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(data)
    blocks = len(blocks_of(data))
    together = list(read_plan(plan, ["lsn", "body"]))
    assert len(together) == len(plan.splits) < blocks
    monkeypatch.setattr(decoding, "BATCH_ROWS", 1)
    by_rows = list(read_plan(plan, ["lsn", "body"]))
    monkeypatch.setattr(decoding, "BATCH_ROWS", 1 << 16)
    monkeypatch.setattr(decoding, "BATCH_BYTES", 1)
    by_bytes = list(read_plan(plan, ["lsn", "body"]))
    assert len(by_rows) == len(by_bytes) == blocks
    assert pa.Table.from_batches(by_rows) == pa.Table.from_batches(together)
    assert pa.Table.from_batches(by_bytes) == pa.Table.from_batches(together)


def test_what_a_filter_decompressed_counts_although_nobody_asked_for_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(data, Selection(queues=("archive",)))
    rows = sum(batch.num_rows for batch in read_plan(plan, ["lsn"]))
    monkeypatch.setattr(
        decoding, "BATCH_BYTES", max(block.header.rows_raw_bytes for block in blocks_of(data)) + 1
    )
    bounded = list(read_plan(plan, ["lsn"]))
    assert sum(batch.num_rows for batch in bounded) == rows
    assert len(bounded) > len(plan.splits)


@pytest.mark.parametrize("columns", [["lsn"], ["lsn", "body"], ["detail"], ["headers"]])
def test_damage_is_told_of_its_block(data: Path, columns: list[str]) -> None:
    plan = plan_of(data)
    first, block = [block for block in blocks_of(data) if block.segment == plan.splits[1].segment][
        :2
    ]
    path = data / "journal" / block.segment
    content = bytearray(path.read_bytes())
    content[block.offset + BLOCK_HEADER_BYTES + 5] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(Corruption) as caught:
        list(read_plan(plan, columns))
    found = caught.value
    assert (found.segment, found.offset, found.lsn) == (
        block.segment,
        block.offset,
        block.first_lsn,
    )
    assert first.offset < block.offset


def test_a_heap_that_cannot_be_decompressed_is_told_of_its_block(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sound crc over a frame that is none: only a broker with a bug writes such a block."""
    second = blocks_of(data)[1]
    heaps = Block.heaps

    def fail(block: Block) -> list[memoryview]:
        if block.first_lsn == second.first_lsn:
            raise Damage("a frame cannot be decompressed")
        return heaps(block)

    monkeypatch.setattr(Block, "heaps", fail)
    with pytest.raises(Corruption, match="cannot be decompressed") as caught:
        list(read_plan(plan_of(data, Selection(from_lsn=200)), ["body"]))
    assert caught.value.lsn == second.first_lsn


def test_a_block_in_the_wrong_place_is_told(data: Path) -> None:
    plan = plan_of(data)
    first, block, third = [b for b in blocks_of(data) if b.segment == plan.splits[0].segment][:3]
    path = data / "journal" / block.segment
    content = path.read_bytes()
    swapped = (
        content[: block.offset] + content[third.offset : third.offset + third.header.block_bytes]
    )
    path.write_bytes(swapped + content[len(swapped) :])
    what = f"the block begins with LSN {third.first_lsn} instead of {block.first_lsn}"
    with pytest.raises(Corruption, match=what) as caught:
        list(read_plan(plan, ["lsn"]))
    assert caught.value.offset == block.offset > first.offset
