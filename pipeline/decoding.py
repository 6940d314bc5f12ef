"""The decoder: turns the splits of a plan into Arrow record batches.

Rows frames are decompressed and filtered as numpy arrays; only requested columns are made, and a
heap is decompressed only if a selected row needs it. The batches contain exactly the selected
events: see the invariants of ADR 14.

Fault model: a damaged block is Corruption with segment and offset; a segment that was removed, or
that cannot be read, is a JournalError. Must never know who uses the batches.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybook.engine.facts import events
from daybook.engine.facts.kinds import OF_TWO_MESSAGES
from daybook.journal.blocks.block import Block, BlockCodec
from daybook.journal.blocks.format import Damage
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption
from daybook.journal.segments.segment import Segment
from daybook.pipeline.ahead import in_order
from daybook.pipeline.arrays import Part, Parts, column, load, load_heaps, positions_of
from daybook.pipeline.naming import NameTables
from daybook.pipeline.planning import Plan, Split, open_planned, unreadable
from daybook.pipeline.schema import HEAP_COLUMNS, arrow_schema
from daybook.pipeline.selection import EVERYTHING, Selection


class Limits(NamedTuple):
    """A batch ends at this many rows, or before decoding it would exceed this many bytes."""

    rows: int = 1 << 17
    bytes: int = 32 << 20


LIMITS: Final = Limits()

PROCESSORS: Final = min(4, len(os.sched_getaffinity(0)))
"""How many threads are useful for one process that reads a plan."""

KINDS: Final = 256
_FAMILY: Final = np.zeros(KINDS, bool)
_FAMILY[sorted(OF_TWO_MESSAGES)] = True
"""Kinds whose `related` is also a message: the original of a copy, or the copy."""


def read_plan(
    plan: Plan, columns: Sequence[str], *, encoded: bool = False, limits: Limits = LIMITS
) -> Iterator[pa.RecordBatch]:
    """All rows of a plan in the order of their LSNs. Raises JournalError.

    Batches have the schema of `arrow_schema`, with dictionary-encoded texts if `encoded`. The
    caller's thread reads the blocks; other threads decode them ahead.
    """
    disk = plan.source.disk()
    decoder = Decoder(plan.selection, columns, plan.names, encoded=encoded)
    runs = (run for split in plan.splits for run, _ in decoder.runs(disk, split, limits))
    for batch in in_order(runs, decoder.decode, decoder.threads):
        if batch is not None:
            yield batch


def read_split(
    disk: Disk,
    split: Split,
    selection: Selection,
    columns: Sequence[str],
    names: NameTables,
    *,
    limits: Limits = LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The selected rows of one split, in the order of their LSNs, in this thread.

    `names` must be those of the plan if the columns or the selection have names. Raises
    JournalError.
    """
    decoder = Decoder(selection, columns, names)
    gathered: list[Part] = []
    rows = size = 0
    for run, run_bytes in decoder.runs(disk, split, limits):
        parts = decoder.parts(run)
        if not parts:
            continue
        if gathered and (rows >= limits.rows or size + run_bytes > limits.bytes):
            yield decoder.batch(gathered)
            gathered, rows, size = [], 0, 0
        gathered += parts
        rows += sum(part.count for part in parts)
        size += run_bytes
    if gathered:
        yield decoder.batch(gathered)


Run: TypeAlias = tuple[list[Block], int]
"""Blocks that are decompressed together, and their size in bytes afterwards."""


class Decoder:
    """Decodes runs of blocks into batches of a selection; threads may share it."""

    def __init__(
        self,
        selection: Selection,
        columns: Sequence[str],
        names: NameTables,
        *,
        encoded: bool = False,
    ) -> None:
        """Raises SelectionError for names that history does not have."""
        self._schema: Final = arrow_schema(columns, encoded=encoded)
        self._names: Final = names
        self._encoded: Final = encoded
        # For messages routed to several queues, the queues are in the heap.
        needed = {*HEAP_COLUMNS, "queues"}
        self._heaps: Final = bool(selection.queues) or not needed.isdisjoint(columns)
        self._wanted: Final = _wanted(selection, columns)
        self._filter: Final = Filter(selection, names)

    @property
    def threads(self) -> int:
        """How many threads decoding can use besides the reading thread.

        With heaps there is more to decompress, and that does not need the interpreter.
        """
        return PROCESSORS if self._heaps else max(1, PROCESSORS - 1)

    def runs(self, disk: Disk, split: Split, limits: Limits) -> Iterator[Run]:
        """Group the blocks of a split into runs, each for one batch. Raises JournalError."""
        return _runs(_blocks(disk, split, self._heaps), self._heaps, limits)

    def decode(self, run: list[Block]) -> pa.RecordBatch | None:
        """Make a batch of the selected events of these blocks, None if none. Raises Corruption."""
        parts = self.parts(run)
        return self.batch(parts) if parts else None

    def parts(self, run: list[Block]) -> list[Part]:
        """Return the selected parts of these blocks. Raises Corruption."""
        return self._filter.parts([Part(block, wanted=self._wanted) for block in run])

    def batch(self, parts: list[Part]) -> pa.RecordBatch:
        """Make the batch of these parts. Raises Corruption."""
        # Damage is reported later, when the damaged part itself is read.
        with suppress(Damage):
            load_heaps(parts, self._schema.names)
        arrays = [
            column(name, parts, self._names, encoded=self._encoded) for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _runs(blocks: Iterable[Block], heaps: bool, limits: Limits) -> Iterator[Run]:
    run: list[Block] = []
    rows = size = 0
    for block in blocks:
        header = block.header
        raw_bytes = header.rows_raw_bytes + (header.heap_raw_bytes if heaps else 0)
        if run and (rows >= limits.rows or size + raw_bytes > limits.bytes):
            yield run, size
            run, rows, size = [], 0, 0
        run.append(block)
        rows += block.count
        size += raw_bytes
    if run:
        yield run, size


def _blocks(disk: Disk, split: Split, heaps: bool) -> Iterator[Block]:
    """Blocks of a split that have events."""
    segment = open_planned(disk, split.segment)
    try:
        size = segment.file.size()
        codec = segment.codec()
        lsn = split.first_lsn
        for start, end in split.ranges:
            offset = start
            while offset < end:
                block = _block_at(segment, codec, offset, lsn, heaps)
                end_of_block = offset + block.header.block_bytes
                if end_of_block > size:
                    # A heap that is not needed is not read, but it must not be missing.
                    raise Corruption(segment.name, offset, lsn, "the file ends within the block")
                if offset > start and block.first_lsn != lsn:
                    what = f"the block begins with LSN {block.first_lsn} instead of {lsn}"
                    raise Corruption(segment.name, offset, lsn, what)
                offset = end_of_block
                lsn = block.first_lsn + block.count
                if block.count:
                    yield block
    finally:
        segment.close()


def _block_at(segment: Segment, codec: BlockCodec, offset: int, lsn: int, heaps: bool) -> Block:
    """Read the block at an offset; `lsn` is used only in error messages."""
    try:
        return Block(codec, segment.block_at(offset, heaps, with_hash=False), segment.name)
    except Damage as damage:
        raise Corruption(segment.name, offset, lsn, str(damage)) from damage
    except OSError as error:
        raise unreadable(segment.name, error) from error


def _wanted(selection: Selection, columns: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of all columns that the filters and the results need."""
    asked = set(positions_of(columns))
    if selection.kinds or selection.messages:
        asked.add(events.KIND)
    if selection.messages:
        asked.update((events.MESSAGE, events.RELATED))
    if selection.addresses:
        asked.add(events.ADDRESS)
    if selection.since is not None or selection.until is not None:
        asked.add(events.TIME)
    if selection.queues:
        asked.update(positions_of(("queues",)))
    return tuple(sorted(asked))


class Filter:
    """A selection as masks over the columns of a block."""

    def __init__(self, selection: Selection, names: NameTables) -> None:
        """Raises SelectionError for names that history does not have."""
        self._selection: Final = selection
        self._takes_all: Final = selection == EVERYTHING
        self._kinds: NDArray[np.bool_] | None = None
        if selection.kinds:
            self._kinds = np.zeros(KINDS, bool)
            self._kinds[[events.BY_NAME[name].number for name in selection.kinds]] = True
        self._queues = names.queues.ids_of(selection.queues, "queue")
        self._addresses = names.addresses.ids_of(selection.addresses, "address")
        self._messages = np.array(sorted(selection.messages), np.int64)

    def parts(self, parts: Parts) -> list[Part]:
        """Return the selected parts, without empty ones. Raises Corruption."""
        inside = (
            list(parts)
            if self._takes_all
            else [part for part in parts if self._has_lsns_of(part.block)]
        )
        if inside and inside[0].wanted:
            # Damage is reported later, when the damaged part itself is read.
            with suppress(Damage):
                load(inside)
        if self._takes_all:
            return inside
        return [found for part in inside if (found := self._part(part)) is not None]

    def _has_lsns_of(self, block: Block) -> bool:
        to_lsn = self._selection.to_lsn
        return self._selection.from_lsn <= block.last_lsn and (
            to_lsn is None or to_lsn >= block.first_lsn
        )

    def _part(self, part: Part) -> Part | None:
        first, count = part.block.first_lsn, part.block.count
        selection = self._selection
        start = max(selection.from_lsn - first, 0)
        stop = count if selection.to_lsn is None else min(selection.to_lsn - first + 1, count)
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
        """Return which rows pass the filters by column; None for all."""
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
