"""The decoder: splits of a plan become Arrow record batches, for whoever reads them.

Rows frames are decompressed and filtered as numpy arrays; a column that is not asked for is not
made, and a heap is decompressed only where a row that was selected needs it. What comes out is
exactly what is selected: see the invariants of ADR 14.

Fault model: a damaged block is Corruption with segment and offset; a segment that left, and a disk
that refuses to read, are a JournalError. Must never know who reads.
"""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine import events
from journal.block import Block, BlockCodec
from journal.disk import Disk
from journal.errors import Corruption
from journal.format import Damage
from journal.segment import Segment
from pipeline.ahead import in_order
from pipeline.arrays import Part, column, positions_of
from pipeline.naming import NameTables
from pipeline.planning import Plan, Split, open_planned, unreadable
from pipeline.schema import HEAP_COLUMNS, arrow_schema
from pipeline.selection import Selection

BATCH_ROWS: Final = 1 << 16
BATCH_BYTES: Final = 32 << 20
"""A batch ends when it has as many rows, or bytes in heaps."""

THREADS: Final = min(4, len(os.sched_getaffinity(0)))
"""How many splits are decoded at once where one process reads a plan."""

KINDS: Final = 256
_FAMILY: Final = np.zeros(KINDS, bool)
_FAMILY[[events.ROUTED, events.DEAD_LETTERED, events.EXPIRED]] = True
"""Kinds whose `related` is a message, too: the one it was made from, or went on as."""


def read_plan(plan: Plan, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All rows of a plan in the order of their LSNs. Raises JournalError.

    Splits are decoded ahead, in threads; smaller ones than Spark's keep these busy evenly.
    """
    disk = plan.source.disk()
    works = (
        partial(read_split, disk, split, plan.selection, columns, plan.names)
        for split in plan.splits
    )
    # A store of objects is not to be shared between threads.
    threads = 1 if plan.source.archive else min(THREADS, len(plan.splits))
    if threads > 1:
        yield from in_order(works, threads)
        return
    for work in works:
        yield from work()


def read_split(
    disk: Disk, split: Split, selection: Selection, columns: Sequence[str], names: NameTables
) -> Iterator[pa.RecordBatch]:
    """The selected rows of one split, in the order of their LSNs.

    `names` must be those of the plan if the columns or the selection have names. Raises
    JournalError.
    """
    schema = arrow_schema(columns)
    heaps = not HEAP_COLUMNS.isdisjoint(columns)
    # Of messages routed to several queues the names are in the heap.
    reads_heaps = heaps or "queues" in columns or bool(selection.queues)
    wanted = () if reads_heaps else _wanted(selection, columns)
    filtering = Filter(selection, names, wanted)
    gathered: list[Part] = []
    rows = size = 0
    for block in _blocks(disk, split, reads_heaps):
        part = filtering.part(block)
        if part is None:
            continue
        gathered.append(part)
        rows += part.count
        size += part.held_bytes(heaps)
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(schema, gathered, names)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield _batch(schema, gathered, names)


def _batch(schema: pa.Schema, parts: list[Part], names: NameTables) -> pa.RecordBatch:
    arrays = [column(name, parts, names) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _blocks(disk: Disk, split: Split, heaps: bool) -> Iterator[Block]:
    """Blocks of a split that have events."""
    segment = open_planned(disk, split.segment)
    try:
        codec = segment.codec()
        lsn = split.first_lsn
        for start, end in split.ranges:
            offset = start
            while offset < end:
                block = _block_at(segment, codec, offset, lsn, heaps)
                if offset > start and block.first_lsn != lsn:
                    what = f"the block begins with LSN {block.first_lsn} instead of {lsn}"
                    raise Corruption(segment.name, offset, lsn, what)
                offset += block.header.block_bytes
                lsn = block.first_lsn + block.count
                if block.count:
                    yield block
    finally:
        segment.close()


def _block_at(segment: Segment, codec: BlockCodec, offset: int, lsn: int, heaps: bool) -> Block:
    """The block at an offset, in which events from about this LSN on are expected."""
    try:
        raw = segment.block_at(offset, heaps)
        if offset + raw.header.block_bytes > segment.file.size():
            # A heap that is not asked for is not read; that it is not there shows all the same.
            raise Damage("the file ends within the block")
        return Block(codec, raw, segment.name)
    except Damage as damage:
        raise Corruption(segment.name, offset, lsn, str(damage)) from damage
    except OSError as error:
        raise unreadable(segment.name, error) from error


def _wanted(selection: Selection, columns: Sequence[str]) -> tuple[int, ...]:
    """Positions of all columns that filters and rows are made of, where no heap is needed."""
    asked = set(positions_of(columns))
    if selection.kinds or selection.messages:
        asked.add(events.KIND)
    if selection.messages:
        asked.update((events.MESSAGE, events.RELATED))
    if selection.addresses:
        asked.add(events.ADDRESS)
    if selection.since is not None or selection.until is not None:
        asked.add(events.TIME)
    return tuple(sorted(asked))


class Filter:
    """A selection as masks over the columns of a block."""

    def __init__(
        self, selection: Selection, names: NameTables, wanted: tuple[int, ...] = ()
    ) -> None:
        """`wanted`: see `Part`. Raises SelectionError for names that history does not have."""
        self._selection: Final = selection
        self._wanted: Final = wanted
        self._kinds: NDArray[np.bool_] | None = None
        if selection.kinds:
            self._kinds = np.zeros(KINDS, bool)
            self._kinds[[events.BY_NAME[name].number for name in selection.kinds]] = True
        self._queues = names.queues.ids_of(selection.queues, "queue")
        self._addresses = names.addresses.ids_of(selection.addresses, "address")
        self._messages = np.array(sorted(selection.messages), np.int64)

    def part(self, block: Block) -> Part | None:
        """The selected rows of a block, None if there are none. Raises Corruption."""
        part = Part(block, wanted=self._wanted)
        first, count = block.first_lsn, block.count
        selection = self._selection
        start = max(selection.from_lsn - first, 0)
        stop = count if selection.to_lsn is None else min(selection.to_lsn - first + 1, count)
        if start >= stop:
            return None
        mask = self._mask(part)
        if start > 0 or stop < count:
            inside = np.zeros(count, bool)
            inside[start:stop] = True
            mask = inside if mask is None else mask & inside
        if mask is None or bool(mask.all()):
            return part
        chosen = np.flatnonzero(mask)
        return part.of(chosen) if len(chosen) else None

    def _mask(self, part: Part) -> NDArray[np.bool_] | None:
        """Which rows the filters by column let through; None for all."""
        masks = []
        selection = self._selection
        if self._kinds is not None:
            masks.append(self._kinds[part.raw(events.KIND)])
        if selection.since is not None:
            masks.append(part.raw(events.TIME) >= selection.since)
        if selection.until is not None:
            masks.append(part.raw(events.TIME) <= selection.until)
        if selection.addresses:
            masks.append(np.isin(part.raw(events.ADDRESS), self._addresses))
        if len(self._messages):
            related = np.isin(part.raw(events.RELATED).astype(np.int64), self._messages)
            related &= _FAMILY[part.raw(events.KIND)]
            masks.append(np.isin(part.raw(events.MESSAGE).astype(np.int64), self._messages))
            masks[-1] |= related
        if selection.queues:
            masks.append(self._of_queues(part))
        return cast("NDArray[np.bool_] | None", np.logical_and.reduce(masks) if masks else None)

    def _of_queues(self, part: Part) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = np.isin(part.raw(events.QUEUE), self._queues)
        wanted = set(self._queues.tolist())
        for position, queues in part.routed_to_several():
            mask[position] = not wanted.isdisjoint(queues)
        return mask
