"""Columns of `events` as Arrow arrays, made of the selected rows of several blocks.

Columns of the row are copied as a whole; only details, headers and lists of queues are processed
one by one.

Fault model: a block that cannot be decompressed or decoded is Corruption with its segment and
offset. Must never know files, or how rows were selected.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import HEAPS, PERSISTENT, QUEUE
from daybook.engine.messages.annotations import readable
from daybook.journal.blocks.block import Block, Buffer
from daybook.journal.blocks.format import Damage
from daybook.journal.blocks.leading_rows import leading_rows
from daybook.journal.errors import Corruption
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline.header_maps import header_maps
from daybook.pipeline.naming import NameTables, encoded
from daybook.pipeline.schema import (
    BY_NAME,
    DERIVED_COLUMNS,
    ENCODED_COLUMNS,
    HEAP_COLUMNS,
    TIME_TYPE,
)
from daybook.pipeline.typed_headers import DERIVED

LENGTHS: Final = len(LAYOUT.columns)
"""Position of the first length: that of details."""
ALL_LENGTHS: Final = tuple(range(LENGTHS, LENGTHS + len(HEAPS)))
DETAIL: Final = 0
HEADERS: Final = 1
BODY: Final = 2
_OFFSET_MAX: Final = (1 << 31) - 1

Positions: TypeAlias = NDArray[np.intp]


class Part:
    """The selected rows of one block; all of them if `positions` is None."""

    __slots__ = ("arrays", "block", "heaps", "positions", "wanted")

    def __init__(
        self,
        block: Block,
        positions: Positions | None = None,
        wanted: tuple[int, ...] = (),
    ) -> None:
        """`wanted` are positions of the columns that will be needed; other columns take longer."""
        self.block = block
        self.positions = positions
        self.wanted = wanted
        self.arrays: dict[int, NDArray[Any]] = {}
        self.heaps: Buffer | None = None

    def corruption(self, what: str) -> Corruption:
        """Return the error for a fault in the block."""
        return Corruption(self.block.segment, self.block.offset, self.block.first_lsn, what)

    def of(self, positions: Positions) -> "Part":
        """Return a part of the same block with only these rows."""
        part = Part(self.block, positions, self.wanted)
        part.arrays = self.arrays
        part.heaps = self.heaps
        return part

    @property
    def count(self) -> int:
        """How many rows are selected."""
        return self.block.count if self.positions is None else len(self.positions)

    def raw(self, position: int) -> NDArray[Any]:
        """Return a column of the whole block, by its position in the layout. Raises Corruption.

        The rows are decompressed when the first column is needed; counting needs none.
        """
        found = self.arrays.get(position)
        if found is None:
            try:
                self._load(position)
            except Damage as damage:
                raise self.corruption(str(damage)) from damage
            found = self.arrays[position]
        return found

    def _load(self, position: int) -> None:
        if position in self.wanted:
            load([self])
        else:
            column = self.block.columns()[position]
            self.arrays[position] = np.frombuffer(column, "<" + column.format)

    def chosen(self, position: int) -> NDArray[Any]:
        """Return a column of the selected rows. Raises Corruption."""
        whole = self.raw(position)
        return whole if self.positions is None else whole[self.positions]

    def lsns(self) -> NDArray[np.int64]:
        """Return the LSNs of the selected rows."""
        first = self.block.first_lsn
        if self.positions is None:
            return np.arange(first, first + self.block.count, dtype=np.int64)
        return self.positions + first

    def has_strings(self, heap: int) -> bool:
        """Return whether a selected row has a string in this heap. Raises Corruption."""
        return bool(self.chosen(LENGTHS + heap).any())

    def strings(self, heap: int) -> pa.Array:
        """Return the strings of one heap for the selected rows. Raises Corruption."""
        if not self.has_strings(heap):
            return pa.repeat(pa.scalar(b"", pa.binary()), self.count)
        whole = joined_strings([self], heap)
        return whole if self.positions is None else whole.take(pa.array(self.positions))

    def heap(self, heap: int) -> memoryview:
        """Return the strings of one heap of the whole block, concatenated. Raises Corruption."""
        sizes = [int(self.raw(LENGTHS + each).sum(dtype=np.int64)) for each in range(len(HEAPS))]
        if not sizes[heap]:
            return memoryview(b"")
        data = self.heaps
        if data is None:
            try:
                data = self.heaps = self.block.heap()
            except Damage as damage:
                raise self.corruption(str(damage)) from damage
        if sum(sizes) != len(data):
            raise self.corruption("the lengths in the rows do not add up to the size of the heap")
        start = sum(sizes[:heap])
        return memoryview(data)[start : start + sizes[heap]]

    def _offsets(self, heap: int) -> NDArray[np.int64]:
        """Return the start of each string of the block in a heap, and the end of the last one."""
        lengths = self.raw(LENGTHS + heap)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return offsets

    def routed_to_several(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return messages routed to several queues: position in the block, and ids of the queues.

        Raises Corruption.
        """
        several = (self.raw(events.KIND) == events.ROUTED) & (self.raw(QUEUE) == 0)
        if self.positions is not None:
            inside = np.zeros(self.block.count, bool)
            inside[self.positions] = True
            several &= inside
        positions = np.flatnonzero(several)
        if not len(positions):
            return []
        offsets = self._offsets(DETAIL)
        data = self.heap(DETAIL)
        found = []
        for position in positions.tolist():
            detail = self.detail(events.ROUTED, bytes(data[slice(*offsets[position:][:2])]))
            found.append((position, cast(details.RoutedDetail, detail).queues))
        return found

    def detail(self, kind: int, encoded: bytes) -> Any:
        """Decode a detail; of a kind that this release does not know, as plain values.

        Raises Corruption.
        """
        try:
            detail = events.decode_detail(kind, encoded)
            return detail if detail is not None else msgspec.msgpack.decode(encoded)
        except msgspec.DecodeError as error:
            raise self.corruption(f"the detail of an event cannot be decoded: {error}") from error


Parts: TypeAlias = Sequence[Part]


def load(parts: Parts) -> None:
    """Decompress the wanted columns of these parts together; all want the same. Raises Damage."""
    wanted = parts[0].wanted
    codec = parts[0].block.codec
    blocks = [(part.block.header, part.block.rows_frame) for part in parts]
    for part, rows in zip(parts, leading_rows(codec, blocks, wanted), strict=True):
        count = part.block.count
        starts = codec.order(part.block.header).starts
        codes = codec.codes(part.block.header)
        part.arrays = {
            each: np.frombuffer(rows, "<" + codes[each], count, count * starts[each])
            for each in wanted
        }


def load_heaps(parts: Parts, columns: Iterable[str]) -> None:
    """Decompress the heaps that these columns need together. Raises Corruption and Damage."""
    needed = {_RECIPES[name].heap for name in columns} - {None}
    missing = [
        part
        for part in parts
        if part.heaps is None and any(part.has_strings(cast("int", heap)) for heap in needed)
    ]
    if missing:
        blocks = [part.block for part in missing]
        frames = [(block.heap_frame, block.header.heap_raw_bytes) for block in blocks]
        for part, heaps in zip(missing, blocks[0].codec.decompress_all(frames), strict=True):
            part.heaps = heaps


Maker: TypeAlias = Callable[[Parts, NameTables], pa.Array]


class Recipe(NamedTuple):
    """How a column of `events` is made, and from which columns of the row (positions) and heap."""

    make: Maker
    reads: tuple[int, ...] = ()
    heap: int | None = None


def column(name: str, parts: Parts, names: NameTables, *, encoded: bool = False) -> pa.Array:
    """Make a column of `events` for all selected rows of these parts. Raises Corruption.

    With `encoded` the texts are dictionary-encoded as in `arrow_schema`.
    """
    made = _RECIPES[name].make(parts, names)
    return made if encoded or name not in ENCODED_COLUMNS else made.dictionary_decode()


def positions_of(names: Iterable[str]) -> frozenset[int]:
    """Return the positions of the row's columns from which these columns are made."""
    return frozenset(position for name in names for position in _RECIPES[name].reads)


def _joined(parts: Parts, position: int, dtype: DTypeLike | None = None) -> NDArray[Any]:
    return np.concatenate([part.chosen(position) for part in parts], dtype=dtype)


def _of_row(name: str, source: str = "") -> Recipe:
    """Make a column as it is in the row."""
    position = LAYOUT.position(source or name)
    to = BY_NAME[name].type

    def make(parts: Parts, names: NameTables) -> pa.Array:
        if to == TIME_TYPE:
            return pa.array(_joined(parts, position, np.int64), pa.int64()).view(to)
        return pa.array(_joined(parts, position, to.to_pandas_dtype()), to)

    return Recipe(make, (position,))


def _of_table(position: int, texts: Iterable[tuple[int, str]]) -> Recipe:
    """Make texts from the numbers of a one-byte column."""
    found = {number: f"#{number}" for number in range(256)} | dict(texts)
    table = pa.array([found[number] for number in range(256)], pa.string())

    def make(parts: Parts, names: NameTables) -> pa.Array:
        return encoded(_joined(parts, position, np.int32), table)

    return Recipe(make, (position,))


def _lsns(parts: Parts, names: NameTables) -> pa.Array:
    return pa.array(np.concatenate([part.lsns() for part in parts]), pa.int64())


def _addresses(parts: Parts, names: NameTables) -> pa.Array:
    return names.addresses.encoded(_joined(parts, events.ADDRESS))


def _queues(parts: Parts, names: NameTables) -> pa.Array:
    return names.queues.encoded(_joined(parts, QUEUE))


def _all_queues(parts: Parts, names: NameTables) -> pa.Array:
    """Make lists of queue names: one for most rows, none for many, several for some messages."""
    ids: list[NDArray[Any]] = []
    counts: list[NDArray[np.int64]] = []
    for part in parts:
        queue = part.chosen(QUEUE).astype(np.int64)
        count = (queue != 0).astype(np.int64)
        several = part.routed_to_several()
        if several:
            found = [ids for _, ids in several]
            places = np.array([position for position, _ in several])
            if part.positions is not None:
                places = np.searchsorted(part.positions, places)
            count[places] = [len(each) for each in found]
            queue = _spread(queue, count, places.tolist(), found)
        else:
            queue = queue[queue != 0]
        ids.append(queue)
        counts.append(count)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int32)
    values = names.queues.encoded(np.concatenate(ids)).dictionary_decode()
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _spread(
    queue: NDArray[np.int64],
    count: NDArray[np.int64],
    places: list[int],
    found: list[tuple[int, ...]],
) -> NDArray[np.int64]:
    """Return the ids of all lists, concatenated."""
    spread = np.repeat(queue, count)
    starts = np.cumsum(count) - count
    for place, ids in zip(places, found, strict=True):
        spread[starts[place] : starts[place] + len(ids)] = ids
    return cast("NDArray[np.int64]", spread)


def _persistent(parts: Parts, names: NameTables) -> pa.Array:
    return pa.array((_joined(parts, events.FLAGS) & PERSISTENT) != 0, pa.bool_())


def joined_strings(parts: Parts, heap: int) -> pa.Array:
    """Return the strings of one heap for all rows of these blocks. Raises Corruption."""
    lengths = [part.raw(LENGTHS + heap) for part in parts]
    offsets = np.zeros(sum(map(len, lengths)) + 1, np.int64)
    np.cumsum(np.concatenate(lengths), out=offsets[1:])
    if offsets[-1] > _OFFSET_MAX:
        raise parts[0].corruption(f"the {HEAPS[heap]} of the block are longer than 2 GiB")
    data = [part.heap(heap) for part in parts]
    whole = data[0] if len(data) == 1 else b"".join(data)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(whole)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _strings(heap: int) -> Recipe:
    def make(parts: Parts, names: NameTables) -> pa.Array:
        if all(part.positions is None for part in parts):
            return joined_strings(parts, heap)
        return pa.concat_arrays([part.strings(heap) for part in parts])

    return Recipe(make, ALL_LENGTHS, heap)


def _lengths(heap: int) -> Recipe:
    def make(parts: Parts, names: NameTables) -> pa.Array:
        return pa.array(_joined(parts, LENGTHS + heap, np.int64), pa.int64())

    return Recipe(make, (LENGTHS + heap,))


def _details(parts: Parts, names: NameTables) -> pa.Array:
    texts: list[str | None] = []
    for part in parts:
        of_part: list[str | None] = [None] * part.count
        filled = np.flatnonzero(part.chosen(LENGTHS + DETAIL))
        if len(filled):
            kinds = part.chosen(events.KIND)[filled].tolist()
            details = part.strings(DETAIL).take(pa.array(filled)).to_pylist()
            for place, kind, detail in zip(filled.tolist(), kinds, details, strict=True):
                found = readable(part.detail(kind, detail))
                of_part[place] = msgspec.json.encode(found).decode()
        texts += of_part
    return pa.array(texts, pa.string())


def _headers(parts: Parts, names: NameTables) -> pa.Array:
    return header_maps(_HEADERS.make(parts, names), _joined(parts, events.FLAGS))


def _derived(name: str) -> Recipe:
    make_of = DERIVED[name]

    def make(parts: Parts, names: NameTables) -> pa.Array:
        return make_of(_HEADERS.make(parts, names), pa.array(_joined(parts, events.FLAGS)))

    return Recipe(make, (events.FLAGS, *ALL_LENGTHS), HEADERS)


def _segments(parts: Parts, names: NameTables) -> pa.Array:
    segments = [pa.array([part.block.segment], pa.string()) for part in parts]
    counts = [part.count for part in parts]
    return pa.concat_arrays(segments).take(pa.array(np.repeat(np.arange(len(parts)), counts)))


def _offsets(parts: Parts, names: NameTables) -> pa.Array:
    counts = [part.count for part in parts]
    return pa.array(np.repeat([part.block.offset for part in parts], counts), pa.int64())


_HEADERS: Final = _strings(HEADERS)
_RECIPES: Final[dict[str, Recipe]] = {
    "lsn": Recipe(_lsns),
    "time": _of_row("time"),
    "kind": _of_table(events.KIND, ((entry.number, entry.name) for entry in events.EVENT_TYPES)),
    "reason": _of_table(events.REASON, ((n, name) for n, (name, _) in reasons.REASONS.items())),
    "address": Recipe(_addresses, (events.ADDRESS,)),
    "queue": Recipe(_queues, (QUEUE,)),
    "queues": Recipe(_all_queues, (events.KIND, QUEUE, *ALL_LENGTHS)),
    "message": _of_row("message"),
    "consumer": _of_row("consumer"),
    "connection": _of_row("connection"),
    "related": _of_row("related"),
    "delivery_count": _of_row("delivery_count"),
    "priority": _of_row("priority"),
    "persistent": Recipe(_persistent, (events.FLAGS,)),
    "detail": Recipe(_details, (events.KIND, *ALL_LENGTHS), DETAIL),
    "headers": Recipe(_headers, (events.FLAGS, *ALL_LENGTHS), HEADERS),
    **{name: _derived(name) for name in DERIVED_COLUMNS},
    "body": _strings(BODY),
    "headers_bytes": _lengths(HEADERS),
    "body_bytes": _lengths(BODY),
    "kind_id": _of_row("kind_id", "kind"),
    "reason_id": _of_row("reason_id", "reason"),
    "address_id": _of_row("address_id", "address"),
    "queue_id": _of_row("queue_id", "queue"),
    "flags": _of_row("flags"),
    "detail_raw": _strings(DETAIL),
    "headers_raw": _HEADERS,
    "segment": Recipe(_segments),
    "block_offset": Recipe(_offsets),
}
assert _RECIPES.keys() == BY_NAME.keys()
assert {name for name, recipe in _RECIPES.items() if recipe.heap is not None} == HEAP_COLUMNS
