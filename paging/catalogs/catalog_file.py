"""The file of a catalog: tables of sorted pairs that say where in a run of blocks something is (ADR
64).

Pairs are stored in groups, each compressed and with a crc of its own, and behind them is a fence:
the first key of each group, and where the group is. So a question reads a group or two. Fault
model: the file may be missing, torn, or damaged anywhere; that raises Damage, and data that does
not match its crc is never used. Must never know the meaning of a key.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec
import zstandard
from crc32c import crc32c

from daybook.journal.blocks.format import Damage

MAGIC: Final = b"DAYBKCAT"
VERSION: Final = 1
GROUP_PAIRS: Final = 512
SUFFIX: Final = ".catalog"
_HEAD: Final = Struct("<8sIII")
"""Magic, version, bytes of the description, crc of the description."""
_HEAD_READ: Final = 1 << 13
DESCRIPTION_MAX: Final = 1 << 20
_MEMORY_MAX: Final = GROUP_PAIRS * 16
_STEP_GROUPS: Final = 64
_KEY_BYTES: Final = 8
_FENCE_BYTES: Final = 8 + 8 + 4
"""For each group: its first key, its end, its crc."""


class Table(msgspec.Struct, frozen=True, array_like=True):
    """Where a table is: offset and bytes of its groups, the number of groups, the fence's crc."""

    offset: int
    bytes: int
    groups: int
    fence_crc: int


class Description(msgspec.Struct, frozen=True, array_like=True):
    """The range of a catalog, and the places of its tables.

    The blocks lie in one segment from offset `begin` to `end`. `previous_hash` is the hash of the
    block before the first, `last_hash` that of the last one. `all_headers`: a header that is not in
    `left_out` and has no table does not occur. `all_bodies`: so with bodies. `choice` are
    the words by which the headers were chosen.
    """

    data_id: bytes
    first_lsn: int
    last_lsn: int
    begin: int
    end: int
    previous_hash: bytes
    last_hash: bytes
    whole: bool
    blocks: Table
    tables: dict[str, Table]
    headers: dict[str, Table]
    all_headers: bool
    left_out: tuple[str, ...]
    choice: str
    all_bodies: bool


_decoder: Final = msgspec.msgpack.Decoder(Description)


class Writer:
    """Puts the content of a catalog together."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._compressor: Final = zstandard.ZstdCompressor(level=1)

    def add(self, groups: Iterator[tuple[int, bytes]]) -> Generator[None, None, Table]:
        """Add a table of groups, in steps: the first key of each, its differences and numbers."""
        offset = self._size
        firsts, ends, crcs = [], [], []
        for first, raw in groups:
            packed = self._compressor.compress(raw)
            self._put(packed)
            firsts.append(first)
            ends.append(self._size - offset)
            crcs.append(crc32c(packed))
            if len(firsts) % _STEP_GROUPS == 0:
                yield
        count = len(firsts)
        fence = Struct(f"<{count}Q{count}Q{count}I").pack(*firsts, *ends, *crcs)
        self._put(fence)
        return Table(offset, self._size - offset - len(fence), count, crc32c(fence))

    def add_plain(self, raw: bytes) -> Table:
        """Add bytes that are read as they are."""
        offset = self._size
        self._put(raw)
        return Table(offset, len(raw), 0, crc32c(raw))

    def _put(self, raw: bytes) -> None:
        self._pieces.append(raw)
        self._size += len(raw)

    def content(self, described: Description) -> bytes:
        """Return the whole file."""
        packed = msgspec.msgpack.encode(described)
        head = _HEAD.pack(MAGIC, VERSION, len(packed), crc32c(packed))
        return b"".join((head, packed, *self._pieces))


class CatalogFile:
    """A catalog for readers. Every question raises Damage if the place of the answer is damaged.

    The file is opened for each question: a history has thousands of them.
    """

    def __init__(self, path: Path) -> None:
        """Read the description; raises Damage, also if the file cannot be read."""
        self.path: Final = path
        head = self._read(0, _HEAD_READ)
        if len(head) < _HEAD.size:
            raise Damage("it is too short")
        magic, version, size, crc = _HEAD.unpack_from(head)
        if magic != MAGIC or version != VERSION or size > DESCRIPTION_MAX:
            raise Damage("it is not a catalog of this version")
        self._start: Final[int] = _HEAD.size + size
        packed = head[_HEAD.size : self._start]
        if self._start > len(head):
            packed = self._read(_HEAD.size, size)
        if len(packed) != size or crc32c(packed) != crc:
            raise Damage("the crc of its description does not match")
        try:
            self.told: Final[Description] = _decoder.decode(packed)
        except msgspec.MsgspecError as error:
            raise Damage(f"its description cannot be decoded: {error}") from error
        self._fences: dict[int, tuple[memoryview, memoryview, memoryview]] = {}
        self._places: tuple[memoryview, memoryview] | None = None
        self._decompressor: Final = zstandard.ZstdDecompressor()

    def _read(self, offset: int, size: int) -> bytes:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(descriptor, size, offset)
            finally:
                os.close(descriptor)
        except (OSError, OverflowError) as error:
            raise Damage(f"it cannot be read: {error}") from error

    def numbers(self, table: Table | None, key: int) -> list[int]:
        """Return the numbers of a key in a table, sorted; none if there is no such table."""
        if table is None or not table.groups:
            return []
        firsts, ends, crcs = self._fence(table)
        group = max(bisect_left(firsts, key) - 1, 0)
        found: list[int] = []
        while group < table.groups and firsts[group] <= key:
            start = ends[group - 1] if group else 0
            keys, numbers = self._group(table, start, ends[group], crcs[group], firsts[group])
            begin, end = bisect_left(keys, key), bisect_right(keys, key)
            found += numbers[begin:end].tolist()
            if end < len(keys):
                break
            group += 1
        return found

    def _fence(self, table: Table) -> tuple[memoryview, memoryview, memoryview]:
        known = self._fences.get(table.offset)
        if known is not None:
            return known
        raw = self._at(table.offset + table.bytes, table.groups * _FENCE_BYTES)
        if crc32c(raw) != table.fence_crc:
            raise Damage("the crc of a fence does not match")
        view, count = memoryview(raw), table.groups
        known = (
            view[: 8 * count].cast("Q"),
            view[8 * count : 16 * count].cast("Q"),
            view[16 * count :].cast("I"),
        )
        self._fences[table.offset] = known
        return known

    def _group(
        self, table: Table, start: int, end: int, crc: int, first: int
    ) -> tuple[list[int], memoryview]:
        packed = self._at(table.offset + start, end - start)
        if crc32c(packed) != crc:
            raise Damage("the crc of a group does not match")
        try:
            raw = memoryview(self._decompressor.decompress(packed, max_output_size=_MEMORY_MAX))
        except zstandard.ZstdError as error:
            raise Damage(f"a group cannot be decompressed: {error}") from error
        count = len(raw) // (_KEY_BYTES + 4)
        steps = raw[: _KEY_BYTES * count].cast("Q")
        return list(accumulate(steps.tolist(), initial=first))[1:], raw[_KEY_BYTES * count :].cast(
            "I"
        )

    def _at(self, offset: int, size: int) -> bytes:
        found = self._read(self._start + offset, size)
        if len(found) != size:
            raise Damage("it ends within a table")
        return found

    def pairs(self, table: Table) -> Iterator[tuple[int, int]]:
        """Yield all keys of a table with their numbers."""
        if not table.groups:
            return
        firsts, ends, crcs = self._fence(table)
        for group in range(table.groups):
            start = ends[group - 1] if group else 0
            keys, numbers = self._group(table, start, ends[group], crcs[group], firsts[group])
            yield from zip(keys, numbers.tolist(), strict=True)

    @property
    def end(self) -> int:
        """The bytes of a complete file."""
        told = self.told
        tables = (*told.tables.values(), *told.headers.values())
        ends = (each.offset + each.bytes + each.groups * _FENCE_BYTES for each in tables)
        return self._start + max(told.blocks.offset + told.blocks.bytes, *ends)

    def check(self) -> None:
        """Read the whole file, and compare each crc. Raises Damage."""
        for table in (*self.told.tables.values(), *self.told.headers.values()):
            if table.groups:
                _, ends, crcs = self._fence(table)
                start = 0
                for end, crc in zip(ends, crcs, strict=True):
                    if crc32c(self._at(table.offset + start, end - start)) != crc:
                        raise Damage("the crc of a group does not match")
                    start = end
        if self.told.blocks.bytes:
            self.block(0)

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield the first event and the offset of each block."""
        for number in range(self.told.blocks.bytes // 16):
            yield self.block(number)

    def block(self, number: int) -> tuple[int, int]:
        """Return the first event and the offset of a block."""
        if self._places is None:
            table = self.told.blocks
            raw = self._at(table.offset, table.bytes)
            if crc32c(raw) != table.fence_crc:
                raise Damage("the crc of its list of blocks does not match")
            view = memoryview(raw).cast("Q")
            count = len(view) // 2
            self._places = view[:count], view[count:]
        lsns, offsets = self._places
        if number >= len(lsns):
            raise Damage("it names a block that it does not list")
        return lsns[number], offsets[number]

    def number_at(self, lsn: int) -> int:
        """Return the number of the block with an event. Raises Damage."""
        count = self.told.blocks.bytes // 16
        return bisect_right(range(count), lsn, key=lambda each: self.block(each)[0]) - 1


def catalog_name(first_lsn: int) -> str:
    """Return the name of the file of the catalog that begins with an event."""
    return f"{first_lsn:020d}{SUFFIX}"
