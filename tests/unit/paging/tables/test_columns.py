"""The events of several blocks, as columns and one by one."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts import events
from daybook.journal.blocks.block import Block, RawBlock
from daybook.journal.blocks.format import FLAG_WIDE
from daybook.journal.errors import Corruption
from daybook.paging.tables.columns import DETAIL_BYTES, Columns
from tests.support.scenario import Step, play, steps
from tests.support.stored.blocks import Chain, blocks_of
from tests.support.world import World
from tests.support.worlds.wide import ids_from


@given(scenario=steps, cuts=st.lists(st.integers(1, 300), max_size=8))
def test_columns_are_those_of_all_blocks(scenario: list[Step], cuts: list[int]) -> None:
    world = World()
    play(world, scenario)
    world.turn()
    chain = Chain()
    columns = Columns([chain.mark(1), *blocks_of(world.journal, cuts, chain)])
    assert columns.count == len(world.journal)
    assert columns.first_lsn == 1
    for position in range(len(events.COLUMNS)):
        assert columns.column(position).tolist() == [e.row[position] for e in world.journal]
    everything = np.arange(columns.count)
    assert list(columns.events(everything)) == [
        (e.lsn, e.row, e.detail, len(e.headers), len(e.body)) for e in world.journal
    ]
    assert list(columns.details(everything[::-1])) == [e.detail for e in world.journal[::-1]]
    assert columns.sizes(everything).tolist() == [
        len(e.headers) + len(e.body) for e in world.journal
    ]


def spoiled(tmp_path: Path, *, heap: bool) -> Block:
    """A block whose frame is nonsense, as only a crc that happens to fit would let through."""
    world = World()
    world.send("orders", b"body")
    world.turn()
    sound = Chain().block(world.journal)
    raw = sound._raw
    broken = RawBlock(
        raw.header,
        7,
        raw.rows if heap else b"nonsense",
        b"nonsense" if heap else raw.heap,
        raw.hash,
    )
    return Block(sound.codec, broken, "00000000000000000001.seg")


def test_a_frame_that_cannot_be_read_is_corruption_with_its_place(tmp_path: Path) -> None:
    where = "segment 00000000000000000001.seg, offset 7"
    with pytest.raises(Corruption, match=where):
        Columns([spoiled(tmp_path, heap=False)])
    columns = Columns([spoiled(tmp_path, heap=True)])
    with_detail = np.flatnonzero(columns.column(DETAIL_BYTES))
    with pytest.raises(Corruption, match=where):
        list(columns.details(with_detail))


def test_blocks_of_all_forms_and_sizes_come_together() -> None:
    """Small ones of the same size are taken apart at once, wherever they are, wide ones apart."""
    with ids_from():
        world = World()
        for number in range(40):
            world.send(f"queue{number % 4}", b"body %d" % number)
            world.turn()
    cuts = [*range(0, 30), 37, 50]
    blocks = blocks_of(world.journal, cuts)
    forms = {block.header.flags & FLAG_WIDE for block in blocks}
    assert len(forms) == 2, "there must be wide blocks and others"
    columns = Columns(blocks)
    for position in range(len(events.COLUMNS)):
        assert columns.column(position).tolist() == [e.row[position] for e in world.journal]
    everything = np.arange(columns.count)
    assert list(columns.details(everything)) == [e.detail for e in world.journal]
