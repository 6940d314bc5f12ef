"""Columns of `events` as Arrow arrays, made of the selected rows of several blocks.

What is a column of the row is copied as a whole; only details, headers and lists of queues are
looked at one by one.

Fault model: a block that cannot be decompressed or decoded is Corruption with its segment and
offset. Must never know files, or which rows are selected.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine import events
from engine.events import HEAPS, PERSISTENT, QUEUE
from journal.block import Block
from journal.errors import Corruption
from journal.format import Damage
from paging.layout import LAYOUT
from pipeline.header_maps import header_maps
from pipeline.naming import NameTables
from pipeline.schema import BY_NAME, TIME_TYPE

DTYPES: Final = tuple(np.dtype("<" + code) for _, code, _ in LAYOUT.stored())
LENGTHS: Final = len(DTYPES) - len(HEAPS)
"""Position of the first length: that of details."""
DETAIL: Final = 0
HEADERS: Final = 1
BODY: Final = 2
_OFFSET_MAX: Final = (1 << 31) - 1

Positions: TypeAlias = NDArray[np.intp]


class Part:
    """The selected rows of one block; all of them if `positions` is None."""

    __slots__ = ("_arrays", "_heaps", "_wanted", "block", "positions")

    def __init__(
        self,
        block: Block,
        positions: Positions | None = None,
        wanted: tuple[int, ...] = (),
    ) -> None:
        """`wanted` are positions of columns that will be asked for, if it is known that few are."""
        self.block = block
        self.positions = positions
        self._wanted = wanted
        self._arrays: dict[int, NDArray[Any]] = {}
        self._heaps: list[memoryview] | None = None

    def corruption(self, what: str) -> Corruption:
        """The error that says what is wrong with the block."""
        return Corruption(self.block.segment, self.block.offset, self.block.first_lsn, what)

    def of(self, positions: Positions) -> "Part":
        """The same block with only these rows."""
        part = Part(self.block, positions, self._wanted)
        part._arrays = self._arrays
        part._heaps = self._heaps
        return part

    def held_bytes(self, heaps: bool) -> int:
        """How much memory the block takes, with its heap if that was or will be decompressed."""
        header = self.block.header
        heaps = heaps or self._heaps is not None
        return header.rows_raw_bytes + (header.heap_raw_bytes if heaps else 0)

    @property
    def count(self) -> int:
        """How many rows are selected."""
        return self.block.count if self.positions is None else len(self.positions)

    def raw(self, position: int) -> NDArray[Any]:
        """A column of the whole block, by its position in the layout. Raises Corruption.

        The rows are decompressed for the first column: who only counts needs none.
        """
        found = self._arrays.get(position)
        if found is None:
            try:
                self._load(position)
            except Damage as damage:
                raise self.corruption(str(damage)) from damage
            found = self._arrays[position]
        return found

    def _load(self, position: int) -> None:
        arrays = self._arrays
        if position in self._wanted:
            found = self.block.some_columns(self._wanted)
            for each, column in zip(self._wanted, found, strict=True):
                arrays[each] = np.frombuffer(column, DTYPES[each])
        else:
            arrays[position] = np.frombuffer(self.block.columns()[position], DTYPES[position])

    def chosen(self, position: int) -> NDArray[Any]:
        """The same of the selected rows."""
        whole = self.raw(position)
        return whole if self.positions is None else whole[self.positions]

    def lsns(self) -> NDArray[np.int64]:
        """LSNs of the selected rows."""
        first = self.block.first_lsn
        if self.positions is None:
            return np.arange(first, first + self.block.count, dtype=np.int64)
        return self.positions + first

    def strings(self, heap: int) -> pa.Array:
        """The strings of one heap, of the selected rows. Raises Corruption."""
        data = self._heap(heap)
        offsets = self._offsets(heap)
        if offsets[-1] > _OFFSET_MAX:
            raise self.corruption(f"the {HEAPS[heap]} of the block are longer than 2 GiB")
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        whole = pa.Array.from_buffers(pa.binary(), self.block.count, buffers)
        return whole if self.positions is None else whole.take(pa.array(self.positions))

    def _heap(self, heap: int) -> memoryview:
        if self._heaps is None:
            try:
                self._heaps = self.block.heaps()
            except Damage as damage:
                raise self.corruption(str(damage)) from damage
        return self._heaps[heap]

    def _offsets(self, heap: int) -> NDArray[np.int64]:
        """Where the strings of the whole block begin in a heap, and where the last one ends."""
        lengths = self.raw(LENGTHS + heap)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return offsets

    def routed_to_several(self) -> list[tuple[int, tuple[int, ...]]]:
        """Messages that went to more than one queue: position in the block, and the queues' ids.

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
        data = self._heap(DETAIL)
        found = []
        for position in positions.tolist():
            detail = self.detail(events.ROUTED, bytes(data[slice(*offsets[position:][:2])]))
            found.append((position, cast(events.RoutedDetail, detail).queues))
        return found

    def detail(self, kind: int, encoded: bytes) -> Any:
        """What a detail says; of a kind that this release does not know, as plain values.

        Raises Corruption.
        """
        try:
            detail = events.decode_detail(kind, encoded)
            return detail if detail is not None else msgspec.msgpack.decode(encoded)
        except msgspec.DecodeError as error:
            raise self.corruption(f"the detail of an event makes no sense: {error}") from error


Parts: TypeAlias = Sequence[Part]
Maker: TypeAlias = Callable[[Parts, NameTables], pa.Array]


def column(name: str, parts: Parts, names: NameTables) -> pa.Array:
    """A column of `events` for all selected rows of these parts. Raises Corruption."""
    return _MAKERS[name](parts, names)


def _joined(parts: Parts, position: int) -> NDArray[Any]:
    return np.concatenate([part.chosen(position) for part in parts])


def _of_row(name: str, source: str = "") -> Maker:
    """Make a column as it is in the row."""
    position = LAYOUT.position(source or name)
    to = BY_NAME[name].type

    def make(parts: Parts, names: NameTables) -> pa.Array:
        values = _joined(parts, position)
        if to == TIME_TYPE:
            return pa.array(values, pa.int64()).view(to)
        return pa.array(values.astype(to.to_pandas_dtype()), to)

    return make


def _table(texts: Iterable[tuple[int, str]]) -> pa.Array:
    """Texts by number, for numbers that a byte can have."""
    found = {number: f"#{number}" for number in range(256)} | dict(texts)
    return pa.array([found[number] for number in range(256)], pa.string())


_KINDS: Final = _table((entry.number, entry.name) for entry in events.EVENT_TYPES)
_REASONS: Final = _table((number, name) for number, (name, _) in events.REASONS.items())


def _lsns(parts: Parts, names: NameTables) -> pa.Array:
    return pa.array(np.concatenate([part.lsns() for part in parts]), pa.int64())


def _kinds(parts: Parts, names: NameTables) -> pa.Array:
    return _KINDS.take(pa.array(_joined(parts, events.KIND)))


def _reasons(parts: Parts, names: NameTables) -> pa.Array:
    return _REASONS.take(pa.array(_joined(parts, events.REASON)))


def _addresses(parts: Parts, names: NameTables) -> pa.Array:
    return names.addresses.of(_joined(parts, events.ADDRESS))


def _queues(parts: Parts, names: NameTables) -> pa.Array:
    return names.queues.of(_joined(parts, QUEUE))


def _all_queues(parts: Parts, names: NameTables) -> pa.Array:
    """Lists of names: one for most rows, none for many, several for some messages."""
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
    values = names.queues.of(np.concatenate(ids))
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _spread(
    queue: NDArray[np.int64],
    count: NDArray[np.int64],
    places: list[int],
    found: list[tuple[int, ...]],
) -> NDArray[np.int64]:
    """The ids of all lists, one after the other."""
    spread = np.repeat(queue, count)
    starts = np.cumsum(count) - count
    for place, ids in zip(places, found, strict=True):
        spread[starts[place] : starts[place] + len(ids)] = ids
    return cast("NDArray[np.int64]", spread)


def _persistent(parts: Parts, names: NameTables) -> pa.Array:
    return pa.array((_joined(parts, events.FLAGS) & PERSISTENT) != 0, pa.bool_())


def _strings(heap: int) -> Maker:
    def make(parts: Parts, names: NameTables) -> pa.Array:
        return pa.concat_arrays([part.strings(heap) for part in parts])

    return make


def _lengths(heap: int) -> Maker:
    def make(parts: Parts, names: NameTables) -> pa.Array:
        return pa.array(_joined(parts, LENGTHS + heap).astype(np.int64), pa.int64())

    return make


def _details(parts: Parts, names: NameTables) -> pa.Array:
    texts: list[str | None] = []
    for part in parts:
        of_part: list[str | None] = [None] * part.count
        filled = np.flatnonzero(part.chosen(LENGTHS + DETAIL))
        if len(filled):
            kinds = part.chosen(events.KIND)[filled].tolist()
            details = part.strings(DETAIL).take(pa.array(filled)).to_pylist()
            for place, kind, detail in zip(filled.tolist(), kinds, details, strict=True):
                of_part[place] = msgspec.json.encode(part.detail(kind, detail)).decode()
        texts += of_part
    return pa.array(texts, pa.string())


def _headers(parts: Parts, names: NameTables) -> pa.Array:
    return header_maps(_strings(HEADERS)(parts, names))


def _segments(parts: Parts, names: NameTables) -> pa.Array:
    segments = [pa.array([part.block.segment], pa.string()) for part in parts]
    counts = [part.count for part in parts]
    return pa.concat_arrays(segments).take(pa.array(np.repeat(np.arange(len(parts)), counts)))


def _offsets(parts: Parts, names: NameTables) -> pa.Array:
    counts = [part.count for part in parts]
    return pa.array(np.repeat([part.block.offset for part in parts], counts), pa.int64())


_MAKERS: Final[dict[str, Maker]] = {
    "lsn": _lsns,
    "time": _of_row("time"),
    "kind": _kinds,
    "reason": _reasons,
    "address": _addresses,
    "queue": _queues,
    "queues": _all_queues,
    "message": _of_row("message"),
    "consumer": _of_row("consumer"),
    "connection": _of_row("connection"),
    "related": _of_row("related"),
    "delivery_count": _of_row("delivery_count"),
    "priority": _of_row("priority"),
    "persistent": _persistent,
    "detail": _details,
    "headers": _headers,
    "body": _strings(BODY),
    "headers_bytes": _lengths(HEADERS),
    "body_bytes": _lengths(BODY),
    "kind_id": _of_row("kind_id", "kind"),
    "reason_id": _of_row("reason_id", "reason"),
    "address_id": _of_row("address_id", "address"),
    "queue_id": _of_row("queue_id", "queue"),
    "flags": _of_row("flags"),
    "detail_raw": _strings(DETAIL),
    "headers_raw": _strings(HEADERS),
    "segment": _segments,
    "block_offset": _offsets,
}
assert _MAKERS.keys() == BY_NAME.keys()

_READS: Final[dict[str, int]] = {
    **{column.name: LAYOUT.position(column.name) for column in events.COLUMNS},
    "kind_id": events.KIND,
    "reason_id": events.REASON,
    "address_id": events.ADDRESS,
    "queue_id": QUEUE,
    "persistent": events.FLAGS,
    "headers_bytes": LENGTHS + HEADERS,
    "body_bytes": LENGTHS + BODY,
}
"""The column of the row that a column of `events` is made of, of those that are made of one."""


def positions_of(names: Iterable[str]) -> frozenset[int]:
    """Positions of the columns of the row that these columns are made of, heaps left out."""
    return frozenset(_READS[name] for name in names if name in _READS)
