"""Batches are bounded, and an error about damage names its block."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    frame_crc,
    header_salt,
    pack_block_header,
)
from daybook.journal.disk import RealDisk
from daybook.journal.errors import Corruption
from daybook.journal.segments.reader import read_blocks
from daybook.pipeline.decoding import Limits, read_plan
from daybook.pipeline.planning import Plan, Source, make_plan
from daybook.pipeline.selection import EVERYTHING, Selection
from tests.support.histories import HISTORY_ID, some_history, write_history


@pytest.fixture
def data(tmp_path: Path) -> Path:
    journal = some_history(2, 400)
    cuts = range(40, len(journal), 40)
    return write_history(tmp_path, journal, cuts=cuts, segment_bytes=1 << 14)


def plan_of(data: Path, selection: Selection = EVERYTHING) -> Plan:
    return make_plan(Source(str(data)), selection)


def blocks_of(data: Path) -> list[Block]:
    return [block for block in read_blocks(RealDisk(data / "journal")) if block.count]


def test_batches_end_by_rows_and_by_bytes(data: Path) -> None:
    plan = plan_of(data)
    blocks = len(blocks_of(data))
    together = list(read_plan(plan, ["lsn", "body"]))
    assert len(together) == len(plan.splits) < blocks
    by_rows = list(read_plan(plan, ["lsn", "body"], limits=Limits(rows=1)))
    by_bytes = list(read_plan(plan, ["lsn", "body"], limits=Limits(bytes=1)))
    assert len(by_rows) == len(by_bytes) == blocks
    assert pa.Table.from_batches(by_rows) == pa.Table.from_batches(together)
    assert pa.Table.from_batches(by_bytes) == pa.Table.from_batches(together)


def test_what_a_filter_decompressed_counts_although_nobody_asked_for_it(data: Path) -> None:
    plan = plan_of(data, Selection(queues=("archive",)))
    rows = sum(batch.num_rows for batch in read_plan(plan, ["lsn"]))
    rows_bytes: Counter[str] = Counter()
    for block in blocks_of(data):
        rows_bytes[block.segment] += block.header.rows_raw_bytes
    limits = Limits(bytes=max(rows_bytes.values()))
    bounded = list(read_plan(plan, ["lsn"], limits=limits))
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


def spoil(data: Path, block: Block, *, heap: bool) -> None:
    """Put a frame that is none under a sound crc: only a broker with a bug writes such a block."""
    header = block.header
    size = header.heap_stored_bytes if heap else header.rows_stored_bytes
    junk = b"no frame of zstd".ljust(size, b".")
    crc = {"heap_crc" if heap else "rows_crc": frame_crc(junk)}
    frame = block.offset + BLOCK_HEADER_BYTES + (header.rows_stored_bytes if heap else 0)
    with (data / "journal" / block.segment).open("r+b") as file:
        file.seek(frame)
        file.write(junk)
        file.seek(block.offset)
        file.write(pack_block_header(header._replace(**crc), header_salt(HISTORY_ID)))


@pytest.mark.parametrize("heap", [False, True])
def test_a_frame_that_cannot_be_decompressed_is_told_of_its_block(data: Path, heap: bool) -> None:
    second = blocks_of(data)[1]
    plan = plan_of(data)
    spoil(data, second, heap=heap)
    with pytest.raises(Corruption, match="cannot be decompressed") as caught:
        list(read_plan(plan, ["body" if heap else "kind"]))
    assert (caught.value.offset, caught.value.lsn) == (second.offset, second.first_lsn)


def test_heaps_that_no_row_needs_stay_compressed(data: Path) -> None:
    selection = Selection(kinds=("Delivered", "Acknowledged"))
    plan = plan_of(data, selection)
    for block in blocks_of(data):
        if block.header.heap_stored_bytes > 20:
            spoil(data, block, heap=True)
    found = pa.Table.from_batches(read_plan(plan, ["kind", "body", "body_bytes"]))
    assert found.num_rows > 100
    assert set(found["body"].to_pylist()) == {b""}


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
