"""Content by LSN: headers, bodies and whole events, read from the segments of the journal.

Only durable events are read, so that a writer may append meanwhile. Blocks are found by hints, by
footers, and by following headers, never twice from the beginning of a segment; decoded blocks are
cached, bounded in bytes.

Fault model: the files may contain anything, segments may be missing, and the LSN may come from a
damaged index. So an event is returned only after a check that it is the right one: it has the
content of this message, or is this chunk after that one. Every failed check is a StoreError with
the remedy, and never a wrong body: StoreDamaged if the index named the wrong event, ContentError if
the journal cannot return it. Must never know: queues.
"""

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from daybook.engine.facts.events import CARRIED, CHUNK_RECEIVED, MESSAGE, RELATED, ROUTED, Row
from daybook.engine.queues.queue import PAST_ALL, ContentError, StoreDamaged
from daybook.journal.blocks.block import BlockCodec
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    BlockHeader,
    Damage,
    Footer,
    frame_crc,
    segment_first_lsn,
    segment_name,
    unpack_block_header,
)
from daybook.journal.blocks.layout import RowLayout
from daybook.journal.blocks.leading_rows import leading_rows
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, JournalError
from daybook.journal.segments.segment import Segment, has_fork, open_segment, segment_names
from daybook.journal.spares import OUT_OF_DESCRIPTORS

CACHE_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of decoded blocks are kept by default."""
FILES_MAX: Final = 16
"""How many segments are kept open."""
AWAKE_MAX: Final = 2
"""How many of the open segments keep their footer, which has 80 bytes for each block, and their
read-ahead.
"""
PLACE_SPACING_BYTES: Final = 16 * 1024
"""The least distance between remembered places of blocks where there is no footer."""
AHEAD_BYTES: Final = 256 * 1024
"""How much is read at once where consecutive blocks are read."""
BLOCK_OVERHEAD_BYTES: Final = 1024
"""The memory of a decoded block in addition to its strings and their ends."""

_MISPLACED: Final = (
    "event {lsn} of the journal is not {what}, although the index says so: the index is "
    "damaged. Stop the broker, delete the folder 'index' of the data directory, and start it "
    "again: the index is then rebuilt from the journal"
)

Ends: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

Locate: TypeAlias = Callable[[int], tuple[int, int] | None]
"""Returns for an LSN the place of a block that begins at it or before, the nearer the better: first
LSN of the segment, and offset. It is a hint: the block there is checked."""

Content: TypeAlias = tuple[bytes, bytes]
"""Headers and body of a message."""


class Event(NamedTuple):
    """Everything that the journal has about one event."""

    row: Row
    detail: bytes
    headers: bytes
    body: bytes


def nowhere(lsn: int) -> tuple[int, int] | None:
    """Return no place: the hint where there is no table of blocks."""
    return None


class DecodedBlock:
    """The strings of a block, decompressed, and the end of each.

    `size` is its memory. The rows stay compressed, because they are rarely needed.
    """

    __slots__ = (
        "_bodies", "_codec", "_details", "_header", "_headers", "_kinds", "_rows", "_strings",
        "first_lsn", "next_lsn", "size",
    )  # fmt: skip

    def __init__(self, codec: BlockCodec, header: BlockHeader, rows: bytes, heap: bytes) -> None:
        """Decode frames whose crcs were checked; raises Damage."""
        [leading] = leading_rows(codec, [(header, rows)], (codec.kind, *codec.lengths))
        self.first_lsn = header.first_lsn
        self.next_lsn = header.next_lsn
        self._codec = codec
        self._header = header
        self._rows = rows
        self._strings = codec.heap(header, heap)
        # Details, headers and bodies follow each other, so one sum gives all their places; the
        # string at a position ends where the next begins.
        count = header.event_count
        ends = np.zeros(3 * count + 1, np.int64)
        starts = codec.order(header).starts
        start = count * starts[codec.kind]
        self._kinds = bytes(leading[start : start + count])
        start = count * starts[codec.lengths[0]]
        lengths = np.frombuffer(leading, np.uint32, 3 * count, start)
        lengths.cumsum(dtype=np.int64, out=ends[1:])
        if int(ends[-1]) != len(self._strings):
            raise Damage("the rows claim more or fewer bytes than the heap has")
        self._details: Ends = ends
        self._headers: Ends = ends[count:]
        self._bodies: Ends = ends[2 * count :]
        self.size = len(self._strings) + len(rows) + ends.nbytes + count + BLOCK_OVERHEAD_BYTES

    def pick(self, lsns: Sequence[int], messages: Sequence[int]) -> list[Content]:
        """Headers and bodies of messages, which events of the block must contain; both are sorted.

        Raises StoreError.
        """
        first = lsns[0] - self.first_lsn
        count = len(lsns)
        # As nearly always: the content is at the Routed event itself.
        if messages is not lsns or self._kinds.count(ROUTED, first, first + count) != count:
            self._check(lsns, messages)
        if lsns[-1] - lsns[0] == count - 1:
            return self._run(first, first + count)
        places = np.array(lsns, np.int64)
        places -= self.first_lsn
        strings = self._strings
        cuts = zip(
            self._headers[places].tolist(),
            self._headers[places + 1].tolist(),
            self._bodies[places].tolist(),
            self._bodies[places + 1].tolist(),
            strict=True,
        )
        return [(strings[start:end], strings[begin:stop]) for start, end, begin, stop in cuts]

    def _check(self, lsns: Sequence[int], messages: Sequence[int]) -> None:
        """Raise StoreError if an event does not contain the content of its message."""
        carried: memoryview | None = None
        for lsn, message in zip(lsns, messages, strict=True):
            kind = self._kinds[lsn - self.first_lsn]
            if kind == ROUTED and lsn == message:
                continue
            if kind == CARRIED and carried is None:
                carried = self._codec.columns(self._header, self._rows)[MESSAGE]
            if kind != CARRIED or carried is None or carried[lsn - self.first_lsn] != message:
                raise StoreDamaged(_MISPLACED.format(lsn=lsn, what=f"the content of {message}"))

    def chunks(self, lsns: Sequence[int], before: int) -> list[bytes]:
        """Bodies of chunks that follow each other, the first one after chunk `before` (0: none).

        Raises StoreError if one is not a chunk, or follows another.
        """
        columns = self._codec.columns(self._header, self._rows)
        for lsn in lsns:
            place = lsn - self.first_lsn
            if self._kinds[place] != CHUNK_RECEIVED or columns[RELATED][place] != before:
                what = f"the chunk that follows {before}" if before else "a first chunk"
                raise StoreDamaged(_MISPLACED.format(lsn=lsn, what=what))
            before = lsn
        places = [lsn - self.first_lsn for lsn in lsns]
        return [self._run(place, place + 1)[0][1] for place in places]

    def _run(self, first: int, end: int) -> list[Content]:
        """Content of adjacent events: each begins where the one before ends."""
        strings = self._strings
        headers = pairwise(self._headers[first : end + 1].tolist())
        bodies = pairwise(self._bodies[first : end + 1].tolist())
        return [
            (strings[start:stop], strings[begin:finish])
            for (start, stop), (begin, finish) in zip(headers, bodies, strict=True)
        ]

    def event(self, lsn: int) -> Event:
        """Everything of one event of the block; decompresses the rows."""
        columns = self._codec.columns(self._header, self._rows)
        place = lsn - self.first_lsn
        row = cast(Row, tuple([column[place] for column in columns[: -self._codec.heap_count]]))
        [(headers, body)] = self._run(place, place + 1)
        return Event(row, self.detail(lsn)[1], headers, body)

    def detail(self, lsn: int) -> tuple[int, bytes]:
        """Kind and detail of one event of the block; the rows stay compressed."""
        place = lsn - self.first_lsn
        start, end = self._details[place : place + 2].tolist()
        return self._kinds[place], self._strings[start:end]


class _OpenSegment:
    """An open segment, and the known places (first LSN and offset) of its blocks.

    `following` is the place after the block that was read or skipped last.
    """

    __slots__ = (
        "_ahead", "_ahead_offset", "_footer", "_passed", "_places", "_segment", "following", "name",
    )  # fmt: skip

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._footer: Footer | None = None
        self._ahead = b""
        self._ahead_offset = 0
        self._passed = 0
        self.name = segment.name
        self.following = (segment.header.first_lsn, segment.first_offset)
        self._places = [self.following]

    def close(self) -> None:
        """Close the file."""
        self._segment.close()

    def rest(self) -> None:
        """Drop data that can be read again: the footer, and the read-ahead."""
        self._footer = None
        self._ahead = b""
        self._segment.window.refresh()

    def nearest(self, lsn: int) -> tuple[int, int]:
        """The nearest known place of a block that begins at or before an event."""
        found = self._places[bisect_right(self._places, (lsn, PAST_ALL)) - 1]
        return self.following if found[0] < self.following[0] <= lsn else found

    def remember(self, lsn: int, offset: int) -> None:
        """Note where a block begins, unless a place near it is known."""
        place = (lsn, offset)
        position = bisect_left(self._places, place)
        near = self._places[max(position - 1, 0) : position + 1]
        if all(abs(offset - other) >= PLACE_SPACING_BYTES for _, other in near):
            insort(self._places, place)

    def by_footer(self, lsn: int) -> int | None:
        """The offset of the block that has an event, from the footer; None without a footer."""
        try:
            if self._footer is None:
                self._footer = self._segment.footer()
                # The footer has the places of all blocks read.
                self._segment.window.refresh()
        except Damage:
            return None
        footer = self._footer
        behind = bisect_right(
            range(footer.block_count), lsn, key=lambda position: footer.entry(position).first_lsn
        )
        return footer.entry(behind - 1).offset if behind else None

    def holds(self, offset: int, lsn: int) -> bool:
        """Whether a sound block begins at an offset and contains an event."""
        try:
            header = self.header_at(offset)
        except Damage:
            return False
        return header.first_lsn <= lsn < header.next_lsn

    def is_before(self, offset: int, lsn: int) -> bool:
        """Whether a sound block begins at an offset, whose first event is not after another."""
        try:
            return self.header_at(offset).first_lsn <= lsn
        except Damage:
            return False

    def hop(self, offset: int, lsn: int) -> int:
        """Follow headers to the block that has an event; raises Corruption."""
        try:
            header = self.header_at(offset)
            while header.next_lsn <= lsn:
                offset += header.block_bytes
                self._pass(header, offset)
                header = self.header_at(offset)
                self.remember(header.first_lsn, offset)
        except Damage as damage:
            ends = self._footer is not None and self._footer.last_lsn < lsn
            what = "the segment that follows is missing" if ends else str(damage)
            raise Corruption(self.name, offset, lsn, what) from damage
        if header.first_lsn > lsn:
            what = f"the block begins with LSN {header.first_lsn}, which is too late"
            raise Corruption(self.name, offset, lsn, what)
        return offset

    def header_at(self, offset: int) -> BlockHeader:
        """Read the header of the block at an offset; raises Damage."""
        try:
            return self._header_at(offset)
        except Damage:
            # The bytes read ahead may be from before this block was written.
            self._ahead = b""
            return self._header_at(offset)

    def _header_at(self, offset: int) -> BlockHeader:
        return unpack_block_header(self._take(BLOCK_HEADER_BYTES, offset), self._segment.salt)

    def read(self, codec: BlockCodec, offset: int) -> DecodedBlock:
        """Read and decode the block at an offset; raises Damage."""
        try:
            return self._read(codec, offset)
        except Damage:
            self._ahead = b""
            return self._read(codec, offset)

    def _read(self, codec: BlockCodec, offset: int) -> DecodedBlock:
        header = self._header_at(offset)
        frames = self._take(header.block_bytes - BLOCK_HEADER_BYTES, offset + BLOCK_HEADER_BYTES)
        rows = frames[: header.rows_stored_bytes]
        heap = frames[header.rows_stored_bytes :]
        if len(rows) != header.rows_stored_bytes or frame_crc(rows) != header.rows_crc:
            raise Damage("the crc of the rows frame does not match")
        if len(heap) != header.heap_stored_bytes or frame_crc(heap) != header.heap_crc:
            raise Damage("the crc of the heap frame does not match")
        self._pass(header, offset + header.block_bytes)
        return DecodedBlock(codec, header, rows, heap)

    def _pass(self, header: BlockHeader, end: int) -> None:
        self.following = (header.next_lsn, end)
        self._passed = end

    def _take(self, count: int, offset: int) -> bytes:
        """Up to `count` bytes at an offset; reads ahead if that is where the last block ended.

        Elsewhere it reads only the requested bytes: when blocks are far apart, the bytes in
        between are not needed.
        """
        start = offset - self._ahead_offset
        if start >= 0 and start + count <= len(self._ahead):
            return self._ahead[start : start + count]
        if offset != self._passed or count > AHEAD_BYTES:
            return self._segment.file.pread(count, offset)
        self._ahead = self._segment.file.pread(AHEAD_BYTES, offset)
        self._ahead_offset = offset
        return self._ahead[:count]


class Decoded(Protocol):
    """An object that a cache keeps; `size` is its memory in bytes."""

    @property
    def size(self) -> int:
        """Bytes."""
        ...


class DecodedCache:
    """Decoded parts of files, bounded in bytes together; the least recently used are dropped.

    Blocks are found by any LSN in them, everything else by its key.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max: Final = bytes_max
        self.bytes = 0
        self._kept: OrderedDict[tuple[int, ...], Decoded] = OrderedDict()
        self._firsts: list[int] = []

    def block(self, lsn: int) -> DecodedBlock | None:
        """The block that has an event, None if it is not cached."""
        position = bisect_right(self._firsts, lsn)
        if position == 0:
            return None
        block = self.get((self._firsts[position - 1],))
        return block if isinstance(block, DecodedBlock) and lsn < block.next_lsn else None

    def put_block(self, block: DecodedBlock) -> None:
        """Add a block that is not cached."""
        insort(self._firsts, block.first_lsn)
        self.put((block.first_lsn,), block)

    def get(self, key: tuple[int, ...]) -> Decoded | None:
        """The object of a key, None if it is not cached."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: tuple[int, ...], decoded: Decoded) -> None:
        """Add an object that is not cached, and drop old ones: all others, if it is large.

        A key of one number is that of the block that begins with this LSN.
        """
        self._kept[key] = decoded
        self.bytes += decoded.size
        while self.bytes > self.bytes_max and len(self._kept) > 1:
            old_key, old = self._kept.popitem(last=False)
            self.bytes -= old.size
            if len(old_key) == 1:
                del self._firsts[bisect_left(self._firsts, old_key[0])]


class ContentReader:
    """Reads events of the journal by LSN. Not to be shared between threads."""

    def __init__(
        self,
        disk: Disk,
        layout: RowLayout,
        locate: Locate = nowhere,
        *,
        cache_bytes: int = CACHE_BYTES,
        cache: DecodedCache | None = None,
    ) -> None:
        """Read segments on a disk; `cache` may be shared with code that keeps other objects in it.

        Without one, decoded blocks use up to `cache_bytes`.
        """
        self._disk: Final = disk
        self._layout: Final = layout
        self._locate: Final = locate
        self._cache: Final = cache if cache is not None else DecodedCache(cache_bytes)
        self._names: list[int] = []
        self._open: OrderedDict[int, _OpenSegment] = OrderedDict()
        self._codec: BlockCodec | None = None
        self._has_fork: bool | None = None

    def fetch(self, lsns: Sequence[int], messages: Sequence[int] | None = None) -> list[Content]:
        """Headers and bodies of messages, from the events that contain them; the LSNs are sorted.

        Without `messages`, each content is at the message's own id. Raises StoreError, also if an
        event belongs to another message.
        """
        found: list[Content] = []
        position = 0
        while position < len(lsns):
            block = self._block(lsns[position])
            end = bisect_left(lsns, block.next_lsn, position)
            assert end > position, "LSNs must be sorted"
            some = lsns[position:end]
            found += block.pick(some, some if messages is None else messages[position:end])
            position = end
        return found

    def chunks(self, lsns: Sequence[int], before: int) -> list[bytes]:
        """Consecutive pieces of the body of a large message; their LSNs are sorted.

        `before` is the chunk before the first of them, 0 if there is none. Raises StoreError, also
        if one is not a chunk, or not the next one.
        """
        found: list[bytes] = []
        position = 0
        while position < len(lsns):
            block = self._block(lsns[position])
            end = bisect_left(lsns, block.next_lsn, position)
            assert end > position, "LSNs must be sorted"
            found += block.chunks(lsns[position:end], before)
            before = lsns[end - 1]
            position = end
        return found

    def event(self, lsn: int, message: int) -> Event:
        """Everything about the event with the content of a message; raises StoreError."""
        block = self._block(lsn)
        block.pick([lsn], [message])
        return block.event(lsn)

    def detail(self, lsn: int, message: int) -> tuple[int, bytes]:
        """Kind and detail of the event with the content of a message; raises StoreError."""
        block = self._block(lsn)
        block.pick([lsn], [message])
        return block.detail(lsn)

    def time_of(self, lsn: int) -> int:
        """Return when the block with an event was closed, in microseconds since 1970; that of the
        first block of the journal for an event before it. Raises StoreError."""
        with _as_content(lsn):
            if not self._names:
                self._names = self._names_of_segments()
            try:
                segment, offset = self._find(max([lsn, *self._names[:1]]))
            except (ContentError, FileNotFoundError):
                # The first segments may have left meanwhile.
                self._names = self._names_of_segments()
                if not self._names or lsn >= self._names[0]:
                    raise
                segment, offset = self._find(self._names[0])
            return segment.header_at(offset).time

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    def _block(self, lsn: int) -> DecodedBlock:
        block = self._cache.block(lsn)
        if block is None:
            block = self._read(lsn)
            self._cache.put_block(block)
        return block

    def _read(self, lsn: int) -> DecodedBlock:
        """Find, read and decode the block that has an event; raises ContentError."""
        with _as_content(lsn):
            segment, offset = self._find(lsn)
            return self._decode(segment, offset, lsn)

    def _find(self, lsn: int) -> tuple[_OpenSegment, int]:
        """The segment and the offset of the block that has an event. Raises JournalError."""
        segment: _OpenSegment | None = None
        try:
            segment = self._segment_of(lsn)
            return segment, self._offset_in(segment, lsn)
        except (Corruption, FileNotFoundError):
            # Since the names were read the journal may have begun another segment, and the last one
            # of them may have left.
            self._names = []
            again = self._segment_of(lsn)
            if again is segment:
                raise
        return again, self._offset_in(again, lsn)

    def _segment_of(self, lsn: int) -> _OpenSegment:
        """The segment that contains an event, by the names of segments."""
        position = bisect_right(self._names, lsn)
        if position == 0:
            self._names = self._names_of_segments()
            position = bisect_right(self._names, lsn)
        if position == 0:
            begins = f"it begins with event {self._names[0]}" if self._names else "it is empty"
            raise ContentError(
                f"event {lsn} is not in the journal: {begins}. Restore the segments before from a "
                "copy or from the archive."
            )
        return self._opened(self._names[position - 1])

    def _names_of_segments(self) -> list[int]:
        return [segment_first_lsn(name) or 0 for name in segment_names(self._disk)]

    def _opened(self, first_lsn: int) -> _OpenSegment:
        found = self._open.get(first_lsn)
        if found is not None:
            if next(reversed(self._open)) != first_lsn:
                self._open.move_to_end(first_lsn)
                self._let_others_rest()
            return found
        name = segment_name(first_lsn)
        try:
            segment = self._open_one(name)
        except FileNotFoundError:
            self._names = []
            raise
        if self._codec is None:
            self._codec = self._codec_of(segment)
        elif self._codec.salt != segment.salt and not self._is_of_fork():
            segment.close()
            raise Corruption(name, 0, first_lsn, "the segment belongs to another journal")
        if len(self._open) >= FILES_MAX:
            self._open.popitem(last=False)[1].close()
        opened = self._open[first_lsn] = _OpenSegment(segment)
        self._let_others_rest()
        return opened

    def _is_of_fork(self) -> bool:
        """Whether segments of two data directories belong here; a segment decodes with any
        codec."""
        if self._has_fork is None:
            self._has_fork = has_fork(self._disk)
        return self._has_fork

    def _let_others_rest(self) -> None:
        """Bound the memory of open segments: only the most recently used ones keep their
        read-ahead.
        """
        for segment in islice(reversed(self._open.values()), AWAKE_MAX, None):
            segment.rest()

    def _open_one(self, name: str) -> Segment:
        """Open a segment; if no descriptors are left, close others that are open first."""
        while True:
            try:
                return open_segment(self._disk, name, self._layout)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._open:
                    raise
            self._open.popitem(last=False)[1].close()

    def _codec_of(self, segment: Segment) -> BlockCodec:
        try:
            return segment.codec()
        except Damage as damage:
            segment.close()
            raise Corruption(segment.name, 0, segment.header.first_lsn, str(damage)) from damage

    def _offset_in(self, segment: _OpenSegment, lsn: int) -> int:
        """The offset of the block in a segment that contains an event: the cheapest way first."""
        start = segment.nearest(lsn)[1]
        if segment.holds(start, lsn):
            return start
        hint = self._locate(lsn)
        if hint is not None and segment_name(hint[0]) == segment.name and hint[1] > start:
            if segment.holds(hint[1], lsn):
                return hint[1]
            if segment.is_before(hint[1], lsn):
                start = hint[1]
        by_footer = segment.by_footer(lsn)
        if by_footer is not None and segment.holds(by_footer, lsn):
            return by_footer
        return segment.hop(start, lsn)

    def _decode(self, segment: _OpenSegment, offset: int, lsn: int) -> DecodedBlock:
        assert self._codec is not None
        try:
            return segment.read(self._codec, offset)
        except Damage as damage:
            raise Corruption(segment.name, offset, lsn, str(damage)) from damage


@contextmanager
def _as_content(lsn: int) -> Iterator[None]:
    """Turn what goes wrong when the journal is read into ContentError."""
    try:
        yield
    except (JournalError, Damage) as damage:
        raise ContentError(str(damage)) from damage
    except OSError as error:
        raise ContentError(
            f"event {lsn} cannot be read from the journal: {error}. See that the segments can be "
            "read, and run 'journal verify' on the data directory."
        ) from error
