"""Writing clusters while the index is folded, counting live entries in their ranges, removing them.

`paging.tables.plain_events` decides what is plain in a batch; this module looks at the entries that
stay, and leaves to the journal what could be read from there as fast. Fault model: if a file cannot
be written there is no cluster, and no failure; a file that the table does not name is a leftover.
Must never know the fate of messages.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybook.engine.facts import events
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import Damage
from daybook.journal.data_directory import CLUSTERS_DIRECTORY
from daybook.journal.disk import RealDisk
from daybook.journal.errors import Corruption
from daybook.paging.content.clusters import (
    Gathered,
    Range,
    merge_clusters,
    remove_cluster,
    write_cluster,
)
from daybook.paging.tables.checked import IndexDamaged, Transaction
from daybook.paging.tables.columns import BODY_BYTES, HEADERS_BYTES, Columns
from daybook.paging.tables.pages import U32, U64, Ids
from daybook.paging.tables.plain_events import Placed, ranks
from daybook.paging.tables.tables import CLUSTER_VALUE, CLUSTERS, ID_KEY, Tables

SPARSE: Final = 2
"""A queue is sparse if the blocks with its messages have more than this many times its own
bytes."""
CONTENT_BYTES_MAX: Final = 16 * 1024
"""Messages with more content stay in the journal alone: reading one brings little else along."""
CLUSTER_BYTES_MIN: Final = 64 * 1024
"""Less content does not justify a file."""
CLUSTER_BYTES_MAX: Final = 24 * 1024 * 1024
"""About how much content is gathered for a file; it is in memory meanwhile."""
FINAL_BYTES: Final = 12 * 1024 * 1024
"""A cluster with this much content is not merged with others."""
MERGED_BYTES: Final = 20 * 1024 * 1024
MERGED_COUNT: Final = 32
"""Small clusters in a row are merged when they have this much content, or there are this many."""
SHORT_RANKS: Final = 1 << 16

UNCLUSTERED_FLAGS: Final = events.LARGE | events.BODY_OMITTED


class Known(NamedTuple):
    """A range of LSNs, and how many entries of the pages have one of them.

    Without a file, its `bytes` are 0.
    """

    range: Range
    live: int


def ranges_of(tables: Tables, txn: Transaction) -> list[Range]:
    """Return the clusters that the table names, in order. Raises IndexDamaged."""
    return [known.range for known in known_of(tables, txn) if known.range.bytes]


def known_of(tables: Tables, txn: Transaction) -> list[Known]:
    """Return all ranges of the table, in order: each follows the one before. IndexDamaged."""
    found = []
    expected = 0
    for key, value in txn.rows(tables.db(CLUSTERS)):
        if len(key) != ID_KEY.size or len(value) != CLUSTER_VALUE.size:
            raise IndexDamaged(
                f"the index in {tables.path} is damaged: a cluster has {len(key)} and "
                f"{len(value)} bytes in its table"
            )
        first = ID_KEY.unpack(key)[0]
        last, size, content_bytes, live = CLUSTER_VALUE.unpack(value)
        if first != expected or last < first:
            raise IndexDamaged(
                f"the index in {tables.path} is damaged: its cluster from event {first} to {last} "
                f"does not follow event {expected - 1}"
            )
        expected = last + 1
        found.append(Known(Range(first, last, size, content_bytes), live))
    return found


def remove_leftovers(tables: Tables) -> None:
    """Remove files beside the tables that the table of clusters does not name."""
    disk = RealDisk(tables.path / CLUSTERS_DIRECTORY)
    with tables.read() as txn:
        named = {known.name for known in ranges_of(tables, txn)}
    for name in disk.names():
        if name not in named:
            remove_cluster(disk, name)


def forget_clusters(tables: Tables, txn: Transaction) -> None:
    """Name no cluster any more, for tables that were copied without their files.

    The count of live entries stays. Raises IndexDamaged.
    """
    known = known_of(tables, txn)
    table = tables.db(CLUSTERS)
    for each in known:
        txn.delete(ID_KEY.pack(each.range.first), db=table)
    if known:
        live = sum(each.live for each in known)
        value = CLUSTER_VALUE.pack(known[-1].range.last, 0, 0, live)
        txn.put(ID_KEY.pack(0), value, db=table)


class Clustering:
    """The clusters of an index that is open for writing."""

    def __init__(self, tables: Tables, txn: Transaction, live: int, *, makes: bool = True) -> None:
        """Load the existing clusters; without `makes` none is added.

        `live` is how many entries the pages have; if the table has no range yet, one range takes
        all of them. Raises IndexDamaged.
        """
        self._tables: Final = tables
        self._makes: Final = makes
        self._merges = makes
        self._disk: Final = RealDisk(tables.path / CLUSTERS_DIRECTORY)
        self._data_id: Final = tables.data_id(txn)
        saved = known_of(tables, txn)
        self._saved: dict[int, Known] = {known.range.first: known for known in saved}
        self._known = saved or [Known(Range(0, tables.position(txn)[0], 0, 0), live)]
        self._written: set[str] = {known.range.name for known in saved if known.range.bytes}

    def follow(
        self, columns: Columns, placed: Placed, moved: list[tuple[NDArray[np.uint64], int]]
    ) -> None:
        """Make clusters of the messages that stay, and count entries that entered or left pages.

        `placed` was appended during the fold; `moved` are ids of messages, with 1 for those that
        entered and -1 for those that left. Raises Corruption.
        """
        for last, content in gather(columns, placed) if self._makes else ():
            self._write(last, content)
        if self._end < columns.first_lsn + columns.count - 1:
            self._known.append(
                Known(Range(self._end + 1, columns.first_lsn + columns.count - 1, 0, 0), 0)
            )
        self._count(moved)

    @property
    def _end(self) -> int:
        return self._known[-1].range.last

    def _write(self, last: int, content: Gathered) -> None:
        try:
            self._disk.create()
            known = write_cluster(self._disk, self._data_id, self._end + 1, last, content)
        except OSError:
            # The journal has everything, and the commit itself reports faults of the disk.
            return
        self._written.add(known.name)
        self._known.append(Known(known, 0))

    def _count(self, moved: list[tuple[NDArray[np.uint64], int]]) -> None:
        if not moved:
            return
        live = np.array([known.live for known in self._known], np.int64)
        firsts = np.array([known.range.first for known in self._known], U64)
        for messages, sign in moved:
            live += sign * live_in(firsts, messages)
        if int(live.min()) < 0:
            wrong = self._known[int(live.argmin())].range
            raise IndexDamaged(
                f"the index in {self._tables.path} is damaged: more messages with ids from "
                f"{wrong.first} to {wrong.last} left than were there"
            )
        self._known = [
            Known(known.range, count)
            for known, count in zip(self._known, live.tolist(), strict=True)
        ]

    def save(self, txn: Transaction) -> None:
        """Merge small clusters, drop those without live entries, and write the changes to the
        table."""
        self._merge()
        self._known = _without_the_dead(self._known)
        table = self._tables.db(CLUSTERS)
        current = {known.range.first: known for known in self._known}
        for first in self._saved.keys() - current.keys():
            txn.delete(ID_KEY.pack(first), db=table)
        for first, known in current.items():
            if self._saved.get(first) != known:
                _, last, size, content_bytes = known.range
                value = CLUSTER_VALUE.pack(last, size, content_bytes, known.live)
                txn.put(ID_KEY.pack(first), value, db=table)
        self._saved = current

    def tidy(self) -> None:
        """Remove the files that the commit no longer names."""
        named = {known.range.name for known in self._known if known.range.bytes}
        for name in self._written - named:
            remove_cluster(self._disk, name)
        self._written = named

    def _merge(self) -> None:
        """Merge consecutive small clusters into one, if there are enough of them or of their
        content."""
        found = _mergeable(self._known) if self._merges else None
        if found is None:
            return
        parts = self._known[found.start : found.stop]
        files = [known.range for known in parts if known.range.bytes]
        try:
            merged = merge_clusters(
                self._disk, self._data_id, files, parts[0].range.first, parts[-1].range.last
            )
        except (Damage, OSError):
            # They stay as they are; their readers report faults.
            self._merges = False
            return
        self._written.add(merged.name)
        self._known[found.start : found.stop] = [Known(merged, sum(known.live for known in parts))]


def live_in(firsts: NDArray[np.uint64], messages: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many of these messages are in each of the ranges, which follow each other from 0
    on."""
    at = np.searchsorted(firsts, messages, "right") - 1
    return np.bincount(at, minlength=len(firsts)).astype(np.int64)


def _without_the_dead(ranges: list[Known]) -> list[Known]:
    """Ranges without live entries lose their file, and adjacent ranges without a file become
    one."""
    found: list[Known] = []
    for known in ranges:
        if not known.live and known.range.bytes:
            known = Known(known.range._replace(bytes=0, content_bytes=0), 0)
        if found and not known.range.bytes and not found[-1].range.bytes:
            before = found.pop()
            joined = Range(before.range.first, known.range.last, 0, 0)
            known = Known(joined, before.live + known.live)
        found.append(known)
    return found


def _mergeable(ranges: list[Known]) -> slice | None:
    """The first consecutive small clusters that are worth merging, with the ranges between them."""
    start, stop, count, size = 0, 0, 0, 0
    for place, known in enumerate(ranges):
        if known.range.content_bytes >= FINAL_BYTES:
            if count > 1:
                break
            count = size = 0
        elif known.range.bytes:
            if not count:
                start = place
            stop = place + 1
            count += 1
            size += known.range.content_bytes
            if count >= MERGED_COUNT or size >= MERGED_BYTES:
                break
    else:
        return None
    return slice(start, stop) if count > 1 else None


# ---- choosing content


def gather(columns: Columns, placed: Placed) -> Iterator[tuple[int, Gathered]]:
    """Yield the content of each cluster worth writing, and the last LSN of its range.

    A range begins after the one before. Raises Corruption.
    """
    queue, position = _eligible(columns, placed)
    if not len(queue):
        return
    blocks = np.searchsorted(columns.starts, position, "right") - 1
    sizes = columns.sizes(position)
    sparse = _is_sparse(columns, queue, blocks, sizes)
    if int(sizes[sparse].sum()) < CLUSTER_BYTES_MIN:
        return
    queue, position, blocks, sizes = (
        queue[sparse], position[sparse], blocks[sparse], sizes[sparse],
    )  # fmt: skip
    # All messages of a block go into one cluster.
    parts = (np.cumsum(sizes) - sizes) // CLUSTER_BYTES_MAX
    bounds = [*np.flatnonzero(np.diff(parts)).tolist(), len(blocks) - 1]
    start = 0
    for bound in bounds:
        stop = int(np.searchsorted(blocks, blocks[bound], "right"))
        if stop <= start:
            continue
        block = columns.blocks[int(blocks[bound])]
        yield block.last_lsn, _content(columns, queue[start:stop], position[start:stop])
        start = stop


def _eligible(columns: Columns, placed: Placed) -> tuple[Ids, NDArray[np.intp]]:
    """Queue and position of the messages that a cluster may contain, in the order of the
    journal."""
    message = placed.rows.message
    if not len(message):
        return placed.queue, np.empty(0, np.intp)
    recent = message >= np.uint64(columns.first_lsn)
    queue = placed.queue[recent]
    position = (message[recent] - np.uint64(columns.first_lsn)).astype(np.intp)
    alone = columns.column(events.QUEUE)[position] == queue
    alone &= (columns.column(events.FLAGS)[position] & UNCLUSTERED_FLAGS) == 0
    alone &= columns.sizes(position) <= CONTENT_BYTES_MAX
    queue, position = queue[alone], position[alone]
    if bool((position[1:] > position[:-1]).all()):
        return queue, position
    order = np.argsort(position, kind="stable")
    return queue[order], position[order]


def _by_queue(queue: Ids) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The queue of each message as a small number, and the order by queue."""
    distinct, rank = ranks(queue)
    short = rank.astype(np.uint16) if len(distinct) < SHORT_RANKS else rank
    return rank, np.argsort(short, kind="stable")


def _is_sparse(
    columns: Columns,
    queue: Ids,
    blocks: NDArray[np.intp],
    sizes: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which messages are of queues whose blocks contain much else."""
    rank, order = _by_queue(queue)
    ranked, block = rank[order], blocks[order]
    touches = np.ones(len(order), bool)
    touches[1:] = (ranked[1:] != ranked[:-1]) | (block[1:] != block[:-1])
    raw = np.array([block.header.heap_raw_bytes for block in columns.blocks], np.float64)
    touched = np.bincount(ranked[touches], weights=raw[block[touches]])
    own = np.bincount(rank, weights=sizes.astype(np.float64))
    sparse: NDArray[np.bool_] = (touched > SPARSE * own)[rank]
    return sparse


def _content(columns: Columns, queue: Ids, position: NDArray[np.intp]) -> Gathered:
    _, order = _by_queue(queue)
    strings = list(_strings(columns, position))
    sorted_position = position[order]
    return Gathered(
        queue[order],
        (sorted_position + columns.first_lsn).astype(U64),
        columns.column(HEADERS_BYTES)[sorted_position].astype(U32),
        columns.column(BODY_BYTES)[sorted_position].astype(U32),
        [strings[place] for place in order.tolist()],
    )


def _strings(columns: Columns, position: NDArray[np.intp]) -> Iterator[bytes]:
    """Headers and body of each message, as one string."""
    bounds = np.searchsorted(position, [*columns.starts.tolist(), columns.count])
    for number, block in enumerate(columns.blocks):
        within = position[bounds[number] : bounds[number + 1]]
        if not len(within):
            continue
        _, headers, bodies = _heaps(block)
        start = int(columns.starts[number])
        cuts = []
        for column in (HEADERS_BYTES, BODY_BYTES):
            lengths = columns.column(column)[start : start + block.count]
            ends = np.cumsum(lengths, dtype=np.int64)[within - start]
            cuts += [(ends - lengths[within - start]).tolist(), ends.tolist()]
        for begin, middle, start_body, end in zip(*cuts, strict=True):
            yield headers[begin:middle] + bodies[start_body:end]


def _heaps(block: Block) -> list[bytes]:
    try:
        return [bytes(heap) for heap in block.heaps()]
    except Damage as damage:
        raise Corruption(block.segment, block.offset, block.first_lsn, str(damage)) from damage
