"""Checking the structure of tables without LMDB, which trusts it: damage there ends a process.

Data flow: the newer of the two meta pages names the roots; each tree is read level by level, with
plain reads of the file, many pages at once. Every branch and leaf page must be where it is expected
and of the expected kind, its nodes must fill it, keys must ascend and lie between those of the
parents, no page may be used twice or also be free, and all must be counted. The values of rows are
not checked: rows have crcs (`paging.tables.checked`). So the cost is that of the pages with keys,
not of the entries: a hundredth of the file where the values are pages, all of it where they are
keys.

The layout is that of LMDB 0.9 (`mdb.c`: MDB_page, MDB_node, MDB_db, MDB_meta), little endian, 64
bit. Fault model: the file may contain anything. No writer may be active. Must never know the
meaning of keys and values, except how long the keys of a table are.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybook.journal.data_directory import TABLES
from daybook.paging.tables.checked import IndexDamaged
from daybook.paging.tables.tables import (
    ADDRESSES,
    ANNOTATION_KEY,
    ANNOTATIONS,
    BLOCKS,
    CARRIED,
    CLUSTERS,
    CONNECTIONS,
    CONSUMERS,
    FLIGHT_KEY,
    FLIGHTS,
    ID_KEY,
    IDS,
    IDS_KEY,
    LARGE,
    LARGE_KEY,
    LAST_VALUE_KEY,
    LAST_VALUES,
    NAMES,
    PAGE_KEY,
    PAGES,
    QUEUES,
    TIMER_KEY,
    TIMERS,
)

KEY_BYTES: Final[dict[bytes, int]] = {
    **dict.fromkeys(
        (ADDRESSES, QUEUES, CONNECTIONS, CONSUMERS, BLOCKS, CLUSTERS, CARRIED), ID_KEY.size
    ),
    PAGES: PAGE_KEY.size,
    FLIGHTS: FLIGHT_KEY.size,
    TIMERS: TIMER_KEY.size,
    LARGE: LARGE_KEY.size,
    IDS: IDS_KEY.size,
    LAST_VALUES: LAST_VALUE_KEY.size,
    ANNOTATIONS: ANNOTATION_KEY.size,
}
"""The length of the keys, for tables whose keys all have the same length."""

META: Final = Struct("<IIQQ48s48sQQ")
"""Magic, version, address, size of the map, databases of free pages and of names, last page, id
of the transaction. It follows the header of a page."""
DATABASE: Final = Struct("<IHHQQQQQ")
"""Size of pages (of the first), flags, depth, pages (branch, leaf, overflow), entries, root."""
MAGIC: Final = 0xBEEFC0DE
VERSION: Final = 1
HEADER_BYTES: Final = 16
NODE_BYTES: Final = 8
PAGE_NUMBER_BYTES: Final = 8
NO_PAGE: Final = (1 << 64) - 1
FIRST_PAGE: Final = 2
"""The pages before it are the meta pages."""
DEPTH_MAX: Final = 32
KEY_BYTES_MAX: Final = 511
PAGE_BYTES: Final = frozenset(1 << bits for bits in range(12, 17))

# Flags of pages, and of nodes.
BRANCH: Final = 1
LEAF: Final = 2
META_PAGE: Final = 8
BIG: Final = 1
TABLE: Final = 2

AT_ONCE: Final = 2048
"""How many pages are in memory at once."""
READ_BYTES_MAX: Final = 1 << 20

_Pages = NDArray[np.uint8]
_Numbers = NDArray[np.int64]


class _Wrong(Exception):
    """A fault; the report adds the directory."""


class _Tree(NamedTuple):
    """The description of a tree, and the length of its keys, 0 if they differ."""

    name: str
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int
    key_bytes: int
    ascends: bool


class _Nodes(NamedTuple):
    """The nodes of pages one after the other, of `counts` of each page; `data` is where it begins.

    `page` is the position of each node's page among those that were read, `low` the size of its
    data, or the page that it leads to.
    """

    counts: _Numbers
    page: _Numbers
    key: _Numbers
    key_bytes: _Numbers
    flags: _Numbers
    low: _Numbers


def check_structure(directory: Path) -> None:
    """Raise IndexDamaged if LMDB must not read the tables in a directory; also OSError."""
    path = directory / TABLES
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _File(descriptor).check()
    except _Wrong as wrong:
        raise IndexDamaged(f"the index in {directory} is damaged: {wrong}") from wrong
    finally:
        os.close(descriptor)


class _File:
    """A file of LMDB, according to its newer meta page."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._bytes: Final = os.fstat(descriptor).st_size
        first = self._meta(0, 0)
        self._page_bytes: Final = DATABASE.unpack(first[4])[0]
        if self._page_bytes not in PAGE_BYTES:
            raise _Wrong(f"its pages have {self._page_bytes} bytes")
        second = self._meta(1, self._page_bytes)
        meta = second if second[7] > first[7] else first
        self._free: Final = DATABASE.unpack(meta[4])
        self._names: Final = DATABASE.unpack(meta[5])
        self._last: Final = int(meta[6])
        if self._free[0] != DATABASE.unpack(second[4])[0]:
            raise _Wrong("its meta pages do not agree")
        if (self._last + 1) * self._page_bytes > self._bytes:
            wanted = (self._last + 1) * self._page_bytes
            raise _Wrong(f"{TABLES} has {self._bytes} bytes of {wanted}")
        self._used: Final = np.zeros(self._last + 1, np.bool_)
        self._used[:FIRST_PAGE] = True

    def _meta(self, number: int, offset: int) -> tuple[Any, ...]:
        data = os.pread(self._descriptor, HEADER_BYTES + META.size, offset)
        if len(data) < HEADER_BYTES + META.size:
            raise _Wrong(f"{TABLES} has {self._bytes} bytes")
        found = META.unpack_from(data, HEADER_BYTES)
        flags = int.from_bytes(data[10:12], "little")
        if flags != META_PAGE or found[0] != MAGIC or found[1] != VERSION:
            raise _Wrong(f"meta page {number} is none")
        return found

    def check(self) -> None:
        """Check all trees; raises _Wrong and OSError."""
        tables = []
        for name, described in self._tables():
            if name not in NAMES or len(described) != DATABASE.size:
                raise _Wrong(f"it has a table {name!r}")
            tables.append(_tree(name.decode(), DATABASE.unpack(described), KEY_BYTES.get(name, 0)))
        for tree in tables:
            for _ in self._leaves(tree):
                pass
        self._check_free()

    # ---- the trees

    def _tables(self) -> Iterator[tuple[bytes, bytes]]:
        """Name and description of each table."""
        for pages, nodes in self._leaves(_tree("names", self._names, 0)):
            for page, key, length, flags, size in _listed(nodes):
                if flags != TABLE:
                    raise _Wrong("the database of its tables has another entry")
                start = key + length
                yield (
                    pages[page, key:start].tobytes(),
                    pages[page, start : start + size].tobytes(),
                )

    def _check_free(self) -> None:
        """Free pages belong to no tree, and are listed once."""
        tree = _tree("free pages", self._free, PAGE_NUMBER_BYTES)._replace(ascends=False)
        last = 0
        lists: list[NDArray[np.uint64]] = []
        for pages, nodes in self._leaves(tree):
            for page, key, length, flags, size in _listed(nodes):
                name = int.from_bytes(pages[page, key : key + length].tobytes(), "little")
                start = key + length
                if name <= last:
                    raise _Wrong("the free pages are out of order")
                last = name
                if flags & BIG:
                    number = int.from_bytes(pages[page, start : start + 8].tobytes(), "little")
                    data = os.pread(
                        self._descriptor, size, number * self._page_bytes + HEADER_BYTES
                    )
                else:
                    data = pages[page, start : start + size].tobytes()
                lists.append(_free_list(data))
        for free in lists:
            self._use(free.astype(np.int64), "the list of free pages")

    # ---- walking

    def _leaves(self, tree: _Tree) -> Iterator[tuple[_Pages, _Nodes]]:
        """Check a tree from the top; yield its leaf pages and their nodes, some at a time."""
        if tree.root == NO_PAGE:
            if tree.depth or tree.entries:
                raise _Wrong(f"{tree.name}: it has no root, and {tree.entries} entries")
            return
        if not 0 < tree.depth <= DEPTH_MAX:
            raise _Wrong(f"{tree.name}: its depth is {tree.depth}")
        level = np.array([tree.root], np.uint64).astype(np.int64)
        bounds: list[bytes] = [b""]
        branches = 0
        for _ in range(tree.depth - 1):
            branches += len(level)
            level, bounds = self._branches(tree, level, bounds)
        walk = _Leaves(tree, bounds)
        for start in range(0, len(level), AT_ONCE):
            some = level[start : start + AT_ONCE]
            pages = self._read(some, tree.name)
            nodes = self._nodes(pages, some, LEAF, tree)
            walk.check(pages, nodes, start)
            self._check_big(pages, nodes, walk)
            yield pages, nodes
        told = (tree.branches, tree.leaves, tree.entries)
        found = (branches, len(level), walk.entries)
        # A value that became smaller keeps its pages.
        if told != found or walk.overflows > tree.overflows:
            raise _Wrong(f"{tree.name}: it counts {told}, and has {found}")

    def _branches(
        self, tree: _Tree, level: _Numbers, bounds: list[bytes]
    ) -> tuple[_Numbers, list[bytes]]:
        """Check a level of branch pages; return the pages below, and the least key of each."""
        below: list[_Numbers] = []
        least: list[bytes] = []
        for start in range(0, len(level), AT_ONCE):
            some = level[start : start + AT_ONCE]
            pages = self._read(some, tree.name)
            nodes = self._nodes(pages, some, BRANCH, tree)
            # In the list of free pages LMDB allows this.
            if int(nodes.counts.min()) < 2 and tree.ascends:
                raise _Wrong(f"{tree.name}: a page leads to one other alone")
            below.append(nodes.low)
            firsts = set((np.cumsum(nodes.counts) - nodes.counts).tolist())
            listed = enumerate(_listed(nodes))
            for at, (page, key, length, _, _) in listed:
                if at in firsts:
                    # The first key of a branch is not checked: its parent has it.
                    least.append(bounds[start + page])
                else:
                    least.append(pages[page, key : key + length].tobytes())
        if tree.ascends and not all(a < b for a, b in pairwise(least)):
            raise _Wrong(f"{tree.name}: the keys of its branches are out of order")
        return np.concatenate(below), least

    def _read(self, numbers: _Numbers, name: str) -> _Pages:
        """Read pages of a tree, which must not be used elsewhere."""
        self._use(numbers, name)
        size = self._page_bytes
        pages = np.empty((len(numbers), size), np.uint8)
        order = np.argsort(numbers, kind="stable")
        ascending = numbers[order]
        cuts = np.flatnonzero(np.diff(ascending) != 1) + 1
        starts = [0, *cuts.tolist()]
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            for part in range(start, stop, READ_BYTES_MAX // size):
                count = min(READ_BYTES_MAX // size, stop - part)
                data = os.pread(self._descriptor, count * size, int(ascending[part]) * size)
                if len(data) != count * size:
                    raise _Wrong(f"{TABLES} is shorter than it was")
                pages[order[part : part + count]] = np.frombuffer(data, np.uint8).reshape(-1, size)
        return pages

    def _use(self, numbers: _Numbers, name: str) -> None:
        """Record that pages are used; raises _Wrong if one is used twice, or does not exist."""
        if not len(numbers):
            return
        if int(numbers.min()) < FIRST_PAGE or int(numbers.max()) > self._last:
            raise _Wrong(f"{name}: it leads to a page that there is not")
        if self._used[numbers].any() or len(np.unique(numbers)) != len(numbers):
            raise _Wrong(f"{name}: it leads to a page that is used elsewhere")
        self._used[numbers] = True

    def _nodes(self, pages: _Pages, numbers: _Numbers, kind: int, tree: _Tree) -> _Nodes:
        """Check the headers of pages, and that their nodes fill them; return all nodes."""
        size = self._page_bytes
        words = pages.view("<u2")
        own = pages[:, :8].copy().view("<u8").reshape(-1)
        lower, upper = words[:, 6].astype(np.int64), words[:, 7].astype(np.int64)
        sound = own == numbers.astype(np.uint64)
        sound &= words[:, 5] == kind
        sound &= (lower > HEADER_BYTES) & (lower % 2 == 0) & (lower <= upper) & (upper <= size)
        if not sound.all():
            wrong = int(numbers[~sound][0])
            raise _Wrong(f"{tree.name}: page {wrong} is not the one that should be there")
        counts = (lower - HEADER_BYTES) // 2
        page = np.repeat(np.arange(len(numbers)), counts)
        starts = np.cumsum(counts) - counts
        place = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        at = words.reshape(-1)[page * (size // 2) + (place + HEADER_BYTES // 2)].astype(np.int64)
        if (at < upper[page]).any() or (at > size - NODE_BYTES).any() or (at % 2).any():
            raise _Wrong(f"{tree.name}: a node is not in its page")
        heads = _windows(pages, np.dtype("<u8"))[page * size + at]
        low = (heads & np.uint64(0xFFFFFFFF)).astype(np.int64)
        flags = (heads >> np.uint64(32) & np.uint64(0xFFFF)).astype(np.int64)
        key_bytes = (heads >> np.uint64(48)).astype(np.int64)
        taken = NODE_BYTES + key_bytes
        if kind == BRANCH:
            low |= flags << 32
        else:
            if (flags > TABLE).any():
                raise _Wrong(f"{tree.name}: a row has flags {int(flags.max())}")
            taken += np.where(flags & BIG, PAGE_NUMBER_BYTES, low)
        taken += taken % 2
        filled = np.bincount(page, weights=taken, minlength=len(numbers))
        if (at + taken > size).any() or (filled != size - upper).any():
            raise _Wrong(f"{tree.name}: the nodes of a page do not fill it")
        first = np.zeros(len(at), np.bool_)
        first[starts] = kind == BRANCH
        right = key_bytes == tree.key_bytes if tree.key_bytes else key_bytes <= KEY_BYTES_MAX
        if not (right & (key_bytes > 0) | first).all():
            raise _Wrong(f"{tree.name}: a key is too long, or too short")
        return _Nodes(counts, page, at + NODE_BYTES, key_bytes, flags, low)

    def _check_big(self, pages: _Pages, nodes: _Nodes, walk: "_Leaves") -> None:
        """Check that values with pages of their own are on pages that exist."""
        big = np.flatnonzero(nodes.flags & BIG)
        if not len(big):
            return
        at = nodes.key[big] + nodes.key_bytes[big]
        number = _windows(pages, np.dtype("<u8"))[nodes.page[big] * self._page_bytes + at]
        if int(number.max()) > self._last:
            raise _Wrong(f"{walk.tree.name}: a value is on a page that there is not")
        counts = -(-(nodes.low[big] + HEADER_BYTES) // self._page_bytes)
        if int(counts.max()) > self._last:
            raise _Wrong(f"{walk.tree.name}: a value is longer than the file")
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        self._use(np.repeat(number.astype(np.int64), counts) + offsets, walk.tree.name)
        walk.overflows += int(counts.sum())


class _Leaves:
    """The part of the leaf pages of a tree that was read so far, from the first on."""

    def __init__(self, tree: _Tree, bounds: list[bytes]) -> None:
        self.tree: Final = tree
        self._bounds: Final = bounds
        self._last = b""
        self.entries = 0
        self.overflows = 0

    def check(self, pages: _Pages, nodes: _Nodes, start: int) -> None:
        """Check that keys ascend, and agree with their parents; `start` is the first page."""
        self.entries += len(nodes.page)
        if not self.tree.ascends:
            return
        keys = _keys(pages, nodes, self.tree.key_bytes)
        if not bool((keys[1:] > keys[:-1]).all()):
            raise _Wrong(f"{self.tree.name}: its keys are out of order")
        firsts = np.cumsum(nodes.counts) - nodes.counts
        lasts = firsts + nodes.counts - 1
        width = self.tree.key_bytes
        for number, (first, last) in enumerate(zip(firsts.tolist(), lasts.tolist(), strict=True)):
            low, high = (_padded(bytes(keys[at]), width) for at in (first, last))
            bound = self._bounds[start + number]
            if not self._last < low or low < bound or (bound and self._last >= bound):
                raise _Wrong(f"{self.tree.name}: a key is not where its page should be")
            self._last = high


def _windows(pages: _Pages, kind: "np.dtype[Any]") -> NDArray[Any]:
    """The value that could begin at each byte of pages, read as this type."""
    count = pages.size - kind.itemsize + 1
    return np.ndarray((count,), kind, pages.reshape(-1).data, strides=(1,))


def _padded(key: bytes, width: int) -> bytes:
    """The original key: numpy drops zeros at the end of a string."""
    return key.ljust(width, b"\0")


def _keys(pages: _Pages, nodes: _Nodes, key_bytes: int) -> NDArray[np.bytes_]:
    """All keys, for comparison."""
    if key_bytes:
        keys: NDArray[np.bytes_] = _windows(pages, np.dtype(f"S{key_bytes}"))[
            nodes.page * pages.shape[1] + nodes.key
        ]
        return keys
    found = [
        pages[page, key : key + length].tobytes() for page, key, length, _, _ in _listed(nodes)
    ]
    return np.array(found, np.bytes_)


def _listed(nodes: _Nodes) -> Iterator[tuple[int, int, int, int, int]]:
    """(Page, where its key is, bytes of the key, flags, low) of each node."""
    columns = (nodes.page, nodes.key, nodes.key_bytes, nodes.flags, nodes.low)
    return zip(*[column.tolist() for column in columns], strict=True)


def _tree(name: str, described: Sequence[int], key_bytes: int) -> _Tree:
    _, _, depth, branches, leaves, overflows, entries, root = described
    return _Tree(name, depth, branches, leaves, overflows, entries, root, key_bytes, True)


def _free_list(data: bytes) -> NDArray[np.uint64]:
    """Parse a list of free pages: their number, and the pages, in descending order."""
    if len(data) < 8 or len(data) % 8:
        raise _Wrong(f"a list of free pages has {len(data)} bytes")
    numbers = np.frombuffer(data, "<u8")
    count = int(numbers[0])
    if count > len(numbers) - 1:
        raise _Wrong(f"a list of free pages has {len(numbers) - 1} of {count}")
    pages = numbers[1 : count + 1]
    if not bool((pages[1:] < pages[:-1]).all()):
        raise _Wrong("a list of free pages is out of order")
    return pages
