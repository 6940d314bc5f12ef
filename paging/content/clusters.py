"""Clusters: files with the content of messages in the order of their queues (ADR 12).

Fault model: everything in a cluster is also in the journal. A file may be missing, short, or
damaged at any byte. Opening such a file raises Damage or OSError; readers of many clusters skip it
and report it once. Must never know which messages are worth a cluster, or which are live.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from daybook.journal.blocks.format import Damage, frame_crc
from daybook.journal.disk import Disk, File, write_all
from daybook.paging.content.content import Content, DecodedCache
from daybook.paging.tables.pages import Ids

FORMAT: Final = 2
"""The format that is written. Format 1, which can be read, has four bytes for queue ids, not
eight."""
FORMATS: Final = (1, 2)
MAGIC: Final = b"DAYBKCLU"
SUFFIX: Final = ".cluster"

UNIT_BYTES: Final = 32 * 1024
"""Approximate content of a unit, which is decompressed to read its first message."""
OPEN_MAX: Final = 256
"""How many clusters a reader keeps open."""
ENTRY_BYTES: Final = 150
"""The approximate memory of an entry of a decoded unit in addition to its content."""
COMPRESSION_LEVEL: Final = 1

HEADER: Final = Struct("<8sI16sQQ")
"""Magic, format, data id, first and last LSN of the range."""
TRAILER: Final = Struct("<QII")
"""Offset of the directory, how many units it has, and the crc of header and directory."""


class Shape(NamedTuple):
    """The layout of the directory of a format, and of the columns of its units.

    For each unit the directory has its first queue and message, the place of its frame, and the
    frame's crc; a unit has queue, message, bytes of headers, and bytes of body.
    """

    directory: np.dtype[Any]
    columns: tuple[str, ...]

    @property
    def row_bytes(self) -> int:
        """The bytes of a message in a unit in addition to its content."""
        return sum(np.dtype(code).itemsize for code in self.columns)


def _shape(queue: str) -> Shape:
    directory = np.dtype(
        [("queue", queue), ("message", "<u8"), ("offset", "<u8"), ("stored", "<u4"), ("crc", "<u4")]
    )
    return Shape(directory, (queue, "<u8", "<u4", "<u4"))


SHAPES: Final = dict(zip(FORMATS, map(_shape, ("<u4", "<u8")), strict=True))
SHAPE: Final = SHAPES[FORMAT]
UNIT: Final = Struct("<I")
"""A unit begins with its number of messages, followed by the columns, and the content."""
U64_MASK: Final = (1 << 64) - 1


class Range(NamedTuple):
    """The range of LSNs of a cluster, the length of its file, and its uncompressed length.

    Both in bytes.
    """

    first: int
    last: int
    bytes: int
    content_bytes: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.first:020}-{self.last:020}{SUFFIX}"


class Gathered(NamedTuple):
    """The content for a cluster, sorted by queue and message; `strings` are headers and body."""

    queue: Ids
    message: NDArray[np.uint64]
    headers_bytes: NDArray[np.uint32]
    body_bytes: NDArray[np.uint32]
    strings: list[bytes]


# ---- writing


def write_cluster(disk: Disk, data_id: bytes, first: int, last: int, content: Gathered) -> Range:
    """Write the cluster of a range of LSNs, durably; if it raises OSError, it leaves no file."""
    name = Range(first, last, 0, 0).name
    try:
        file = disk.open_for_writing(name)
        try:
            size = _write(file, HEADER.pack(MAGIC, FORMAT, data_id, first, last), content)
            file.fdatasync()
        finally:
            file.close()
        disk.sync_directory()
    except OSError:
        remove_cluster(disk, name)
        raise
    content_bytes = content.headers_bytes.sum(dtype=np.int64) + content.body_bytes.sum(
        dtype=np.int64
    )
    return Range(first, last, size, int(content_bytes))


def merge_clusters(disk: Disk, data_id: bytes, parts: list[Range], first: int, last: int) -> Range:
    """Write one cluster for the range of several others, durably. Raises Damage, OSError."""
    columns: list[list[NDArray[Any]]] = [[] for _ in SHAPE.columns]
    strings: list[bytes] = []
    for known in parts:
        cluster = Cluster(disk, data_id, known)
        try:
            for number in range(cluster.units):
                unit = cluster.read(number)
                strings += unit.strings()
                for column, part in zip(columns, unit.columns, strict=True):
                    column.append(part)
        finally:
            cluster.close()
    queue, message, headers, bodies = [np.concatenate(column) for column in columns]
    order = np.lexsort((message, queue))
    content = Gathered(
        queue[order], message[order], headers[order], bodies[order],
        [strings[place] for place in order.tolist()],
    )  # fmt: skip
    return write_cluster(disk, data_id, first, last, content)


def remove_cluster(disk: Disk, name: str) -> None:
    """Remove a file that is no longer named; a file that remains does no harm."""
    try:
        disk.remove(name)
    except OSError:
        return


def _write(file: File, header: bytes, content: Gathered) -> int:
    compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
    file.truncate(0)
    offset = _append(file, header, 0)
    cuts = _cuts(content)
    directory: NDArray[Any] = np.zeros(len(cuts) - 1, SHAPE.directory)
    for number, (start, stop) in enumerate(pairwise(cuts)):
        frame = compressor.compress(_unit(content, start, stop))
        first = int(content.queue[start]), int(content.message[start])
        directory[number] = (*first, offset, len(frame), frame_crc(frame))
        offset = _append(file, frame, offset)
    packed = directory.tobytes()
    trailer = TRAILER.pack(offset, len(directory), frame_crc(header + packed))
    return _append(file, packed + trailer, offset)


def _append(file: File, data: bytes, offset: int) -> int:
    write_all(file, data, offset)
    return offset + len(data)


def _cuts(content: Gathered) -> list[int]:
    """Where units begin, and where the last one ends."""
    ends: NDArray[np.int64] = np.cumsum(content.headers_bytes, dtype=np.int64)
    ends += np.cumsum(content.body_bytes, dtype=np.int64)
    begins = np.flatnonzero(np.diff(ends // UNIT_BYTES, prepend=-1))
    return [*begins.tolist(), len(ends)]


def _unit(content: Gathered, start: int, stop: int) -> bytes:
    columns: list[NDArray[Any]] = [
        content.queue, content.message, content.headers_bytes, content.body_bytes,
    ]  # fmt: skip
    packed = [
        column[start:stop].astype(code).tobytes()
        for column, code in zip(columns, SHAPE.columns, strict=True)
    ]
    return b"".join((UNIT.pack(stop - start), *packed, *content.strings[start:stop]))


# ---- reading one


class DecodedUnit:
    """A unit, decompressed. `size` is its memory in bytes."""

    __slots__ = ("_ends", "_messages", "_middles", "_strings", "columns", "size")

    def __init__(self, raw: bytes, shape: Shape) -> None:
        """Parse a decompressed frame; raises Damage."""
        self.columns: list[NDArray[Any]] = []
        count = UNIT.unpack_from(raw)[0] if len(raw) >= UNIT.size else 0
        offset = UNIT.size
        if len(raw) < offset + count * shape.row_bytes:
            raise Damage("a unit is shorter than its number of messages")
        for code in shape.columns:
            column = np.frombuffer(raw, code, count, offset)
            offset += column.nbytes
            self.columns.append(column)
        _, message, headers, bodies = self.columns
        ends = np.zeros(count + 1, np.int64)
        (headers + bodies.astype(np.int64)).cumsum(out=ends[1:])
        ends += offset
        if int(ends[-1]) != len(raw):
            raise Damage("a unit has more or fewer bytes than its messages")
        self._strings = raw
        self._ends: list[int] = ends.tolist()
        self._middles: list[int] = (ends[:-1] + headers).tolist()
        self._messages: list[int] = message.tolist()
        self.size = len(raw) + count * ENTRY_BYTES

    def pick(self, queue_id: int, ids: list[int]) -> list[Content | None]:
        """Headers and bodies of messages of a queue; None for messages that are not here."""
        messages = self._messages
        count = len(ids)
        try:
            start = messages.index(ids[0])
        except ValueError:
            start = len(messages)
        of_queue = self.columns[0][start : start + count] == queue_id
        if messages[start : start + count] != ids or not of_queue.all():
            return [self._one(queue_id, message_id) for message_id in ids]
        # Adjacent messages, as nearly always: each begins where the one before ends.
        strings = self._strings
        ends = self._ends[start : start + count + 1]
        cuts = zip(ends, self._middles[start : start + count], ends[1:], strict=False)
        return [(strings[begin:middle], strings[middle:end]) for begin, middle, end in cuts]

    def _one(self, queue_id: int, message_id: int) -> Content | None:
        try:
            place = self._messages.index(message_id)
        except ValueError:
            return None
        if self.columns[0][place] != queue_id:
            return None
        middle = self._middles[place]
        return (
            self._strings[self._ends[place] : middle], self._strings[middle : self._ends[place + 1]]
        )  # fmt: skip

    def strings(self) -> list[bytes]:
        """Headers and body of every message as one string each."""
        return [self._strings[start:stop] for start, stop in pairwise(self._ends)]


class Cluster:
    """An open cluster and its directory."""

    def __init__(self, disk: Disk, data_id: bytes, known: Range) -> None:
        """Open the file and check its directory of units; raises Damage and OSError."""
        self._file: Final = disk.open(known.name)
        self._decompressor: Final = zstandard.ZstdDecompressor()
        self.known: Final = known
        self._shape = SHAPE
        try:
            directory = self._read_directory(data_id)
        except BaseException:
            self._file.close()
            raise
        self.units: Final = len(directory)
        self._directory: Final = directory
        firsts = zip(directory["queue"].tolist(), directory["message"].tolist(), strict=True)
        self._firsts: Final[list[int]] = [queue << 64 | message for queue, message in firsts]

    def _read_directory(self, data_id: bytes) -> NDArray[Any]:
        known = self.known
        header = self._file.pread(HEADER.size, 0)
        for number in FORMATS:
            if header == HEADER.pack(MAGIC, number, data_id, known.first, known.last):
                self._shape = SHAPES[number]
                break
        else:
            raise Damage("its header is not the one of this cluster")
        entry_bytes = self._shape.directory.itemsize
        trailer = self._file.pread(TRAILER.size, max(known.bytes - TRAILER.size, 0))
        if len(trailer) != TRAILER.size or self._file.size() != known.bytes:
            raise Damage(f"it has {self._file.size()} bytes of {known.bytes}")
        offset, count, crc = TRAILER.unpack(trailer)
        if offset + count * entry_bytes + TRAILER.size != known.bytes:
            raise Damage("its directory does not fit")
        packed = self._file.pread(count * entry_bytes, offset)
        if frame_crc(header + packed) != crc:
            raise Damage("the crc of its directory does not match")
        return np.frombuffer(packed, self._shape.directory)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def unit_of(self, queue_id: int, message_id: int) -> int:
        """Number of the unit that has a message of a queue, if any; -1 if none can have it."""
        return bisect_right(self._firsts, queue_id << 64 | message_id) - 1

    def reach(self, unit: int, queue_id: int) -> int | None:
        """The message of a queue with which the next unit begins; None if it is of another
        queue."""
        if unit + 1 == self.units or self._firsts[unit + 1] >> 64 != queue_id:
            return None
        return self._firsts[unit + 1] & U64_MASK

    def read(self, unit: int) -> DecodedUnit:
        """Read and decode a unit; raises Damage and OSError."""
        _, _, offset, stored, crc = self._directory[unit].item()
        frame = self._file.pread(stored, offset)
        if len(frame) != stored or frame_crc(frame) != crc:
            raise Damage(f"the crc of unit {unit} does not match")
        try:
            return DecodedUnit(self._decompressor.decompress(frame), self._shape)
        except zstandard.ZstdError as error:
            raise Damage(f"unit {unit} cannot be decompressed: {error}") from error


def check_cluster(disk: Disk, data_id: bytes, known: Range) -> None:
    """Read all of a cluster; raises Damage with the first thing that is wrong, and OSError."""
    cluster = Cluster(disk, data_id, known)
    try:
        last = (-1, -1)
        for number in range(cluster.units):
            queue, message, _, _ = cluster.read(number).columns
            for place in zip(queue.tolist(), message.tolist(), strict=True):
                if place <= last or not known.first <= place[1] <= known.last:
                    raise Damage(f"message {place[1]} of queue {place[0]} is out of its place")
                last = place
    finally:
        cluster.close()


# ---- reading many


class ClusterReader:
    """Content by queue and message from all clusters; None where no cluster has it.

    Not to be shared between threads.
    """

    def __init__(self, disk: Disk, data_id: bytes, cache: DecodedCache) -> None:
        self._disk: Final = disk
        self._data_id: Final = data_id
        self._cache: Final = cache
        self._ranges: list[Range] = []
        self._firsts: list[int] = []
        self._open: OrderedDict[int, Cluster] = OrderedDict()
        self._damaged: set[Range] = set()
        self._missing: set[Range] = set()
        self._notes: list[str] = []

    def know(self, ranges: list[Range]) -> None:
        """Set the clusters that exist, in order."""
        if ranges == self._ranges and not self._missing:
            return
        kept = set(ranges)
        self._damaged &= kept
        # A cluster that is missing because it is no longer needed is not reported.
        for known in self._missing & kept:
            self._note(known, "the file is missing")
        self._missing.clear()
        for first, cluster in list(self._open.items()):
            if cluster.known not in kept:
                del self._open[first]
                cluster.close()
        self._ranges = ranges
        self._firsts = [known.first for known in ranges]

    def take_notes(self) -> list[str]:
        """Return the faults of clusters found since the last call, in sentences."""
        notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    def fetch(self, queue_id: int, ids: list[int]) -> list[Content | None]:
        """Headers and bodies of messages of a queue, whose ids are sorted; None where not found."""
        found: list[Content | None] = []
        position, count = 0, len(ids)
        while position < count:
            at = bisect_right(self._firsts, ids[position]) - 1
            end = count
            if at + 1 < len(self._firsts):
                end = bisect_left(ids, self._firsts[at + 1], position)
            if at >= 0:
                known = self._ranges[at]
                within = bisect_right(ids, known.last, position, end)
                found += self._fetch(known, queue_id, ids[position:within])
                position = within
            found += [None] * (end - position)
            position = end
        return found

    def _fetch(self, known: Range, queue_id: int, ids: list[int]) -> list[Content | None]:
        """The messages of one cluster; a damaged one has none."""
        if ids and known not in self._damaged and known not in self._missing:
            try:
                return list(self._picked(known, queue_id, ids))
            except FileNotFoundError:
                self._missing.add(known)
            except (Damage, OSError) as error:
                self._note(known, str(error))
        return [None] * len(ids)

    def _note(self, known: Range, what: str) -> None:
        """Stop using a cluster, and report why."""
        self._damaged.add(known)
        self._notes.append(
            f"the cluster {known.name} of the index cannot be used: {what}. Its messages are read "
            "from the journal, which is slower and loses nothing"
        )

    def _picked(self, known: Range, queue_id: int, ids: list[int]) -> Iterator[Content | None]:
        cluster = self._opened(known)
        position, count = 0, len(ids)
        while position < count:
            number = cluster.unit_of(queue_id, ids[position])
            reach = cluster.reach(number, queue_id)
            end = count if reach is None else bisect_left(ids, reach, position)
            if number < 0:
                yield from [None] * (end - position)
            else:
                yield from self._unit(cluster, number).pick(queue_id, ids[position:end])
            position = end

    def _unit(self, cluster: Cluster, number: int) -> DecodedUnit:
        key = (cluster.known.first, cluster.known.last, number)
        unit = self._cache.get(key)
        if isinstance(unit, DecodedUnit):
            return unit
        unit = cluster.read(number)
        self._cache.put(key, unit)
        return unit

    def _opened(self, known: Range) -> Cluster:
        cluster = self._open.get(known.first)
        if cluster is not None:
            self._open.move_to_end(known.first)
            return cluster
        cluster = Cluster(self._disk, self._data_id, known)
        if len(self._open) >= OPEN_MAX:
            self._open.popitem(last=False)[1].close()
        self._open[known.first] = cluster
        return cluster
