"""A block: the rows and byte strings of one batch, as two compressed frames behind a header.

Rows are stored column by column, transposed once when the block is encoded. Decoding is lazy:
frames are decompressed only when needed, and a scan of columns never reads the heap.

Must never know: files, and what a column means beyond the summaries that the layout names.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from threading import local
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import zstandard

from daybook.journal.blocks import rows_frame
from daybook.journal.blocks.batch import BatchLike
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    FLAG_MARK,
    FLAG_NARROW_FIRST,
    FLAG_WIDE,
    FRAME_BYTES_MAX,
    PADDING_MAGIC,
    BlockHeader,
    Damage,
    block_hash,
    frame_crc,
    header_salt,
    pack_block_header,
    pack_padding,
)
from daybook.journal.blocks.layout import UPPER_CODE, WIDENED, WIDTHS, RowLayout
from daybook.journal.blocks.trust import too_large
from daybook.levels import LEVEL_MIN

COMPRESSION_LEVEL: Final = 1
KIND_BITS: Final = 64
BLOOM_FACTOR: Final = 0x9E3779B97F4A7C15
_Code: TypeAlias = Literal["B", "H", "I", "Q", "q"]
_U64: Final = (1 << 64) - 1

Buffer: TypeAlias = bytes | memoryview
Event: TypeAlias = tuple[Any, ...]
"""(LSN, row as a tuple of its columns, one byte string for each heap)."""


Padding: TypeAlias = Callable[[int], int]
"""Returns how many bytes of padding a block of some size needs."""


def no_padding(_: int) -> int:
    """Add no padding: blocks follow each other directly."""
    return 0


class Summary(NamedTuple):
    """A footer's summary of the events of a block; all zero for a mark."""

    time_min: int = 0
    time_max: int = 0
    message_min: int = 0
    message_max: int = 0
    kinds: int = 0
    queues: int = 0


class EncodedBlock(NamedTuple):
    """A block ready to be written."""

    header: BlockHeader
    data: bytes
    hash: bytes
    summary: Summary


class RawBlock(NamedTuple):
    """A block as read: checked against its crcs, not decompressed. `hash` is the block's hash."""

    header: BlockHeader
    offset: int
    rows: bytes
    heap: bytes
    hash: bytes


def kind_bit(kind: int) -> int:
    """Return the bit of a kind in a footer's set; all kinds from 63 on share the last bit."""
    return 1 << min(kind, KIND_BITS - 1)


def queue_bit(queue: int) -> int:
    """Return the bit of a queue in a footer's bloom filter; bit 0 is for none or several."""
    if queue == 0:
        return 1
    return 1 << (1 + ((queue * BLOOM_FACTOR & _U64) >> 32) % 63)


class Form(NamedTuple):
    """How a block stores its columns: (name, code, offset) of each, bytes of a row, and orders."""

    stored: tuple[tuple[str, str, int], ...]
    row_bytes: int
    plain: rows_frame.Order
    narrow_first: rows_frame.Order


def _form(layout: RowLayout) -> Form:
    plain, narrow_first = rows_frame.plain(layout), rows_frame.narrow_first(layout)
    return Form(layout.stored(), layout.stored_row_bytes(), plain, narrow_first)


class BlockCodec:
    """Encodes and decodes blocks of one layout; threads may share one for decoding.

    `level` is that of the segment being read.
    """

    def __init__(self, layout: RowLayout, data_id: bytes, level: int = LEVEL_MIN) -> None:
        self.layout: Final = layout
        self.level: Final = level
        self.salt: Final = header_salt(data_id)
        self._usual: Final = _form(layout)
        self._wide: Final = _form(layout.widened())
        # Where batches have the columns, and the upper bits of some, by position: start and step.
        self._places: Final = [
            (code, offset // WIDTHS[code], layout.row_bytes // WIDTHS[code])
            for _, code, offset in layout.stored()
        ]
        self._uppers: Final = [
            (layout.position(name), offset // WIDTHS[code], layout.row_bytes // WIDTHS[code])
            for name, code, offset in layout.upper
        ]
        self.heap_count: Final = len(layout.heaps)
        # Positions of the lengths of heaps.
        self.lengths: Final = tuple(range(len(layout.columns), len(self._usual.stored)))
        self.kind: Final = layout.position(layout.kind_column)
        self.time: Final = layout.position(layout.time_column)
        self.message: Final = layout.position(layout.message_column)
        self.queue: Final = layout.position(layout.queue_column)
        self._compressor: Final = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
        self._of_thread: Final = local()

    def encode(
        self, batch: BatchLike, previous_hash: bytes, padding: Padding = no_padding
    ) -> EncodedBlock:
        """Encode a batch; raises AssertionError if rows and heaps do not match."""
        joined = b"".join(batch.rows)
        count = len(joined) // self.layout.row_bytes
        columns, form = self._transpose(joined)
        heaps = [b"".join(strings) for strings in batch.heaps]
        assert len(heaps) == self.heap_count, "a list of strings is needed for each heap"
        lengths = columns[len(columns) - self.heap_count :]
        for heap, column in zip(heaps, lengths, strict=True):
            assert len(heap) == sum(column), "lengths in the rows do not match their strings"
        order = form.narrow_first
        raw_rows = b"".join([columns[position] for position in order.positions])
        raw_heap = b"".join(heaps)
        assert len(raw_rows) == count * form.row_bytes <= FRAME_BYTES_MAX
        assert len(raw_heap) <= FRAME_BYTES_MAX, "a batch is limited to 4 GiB"
        rows = rows_frame.compress(self._compressor, raw_rows, count, order)
        heap = self._compressor.compress(raw_heap) if raw_heap else b""
        heap += pack_padding(padding(BLOCK_HEADER_BYTES + len(rows) + len(heap)))
        flags = FLAG_NARROW_FIRST | FLAG_WIDE if form is self._wide else FLAG_NARROW_FIRST
        header = BlockHeader(
            flags, batch.first_lsn, batch.time, count,
            len(raw_rows), len(rows), len(raw_heap), len(heap),
            frame_crc(rows), frame_crc(heap), previous_hash,
        )  # fmt: skip
        return self._finish(header, rows, heap, self.summarise(columns))

    def encode_mark(
        self, next_lsn: int, time: int, previous_hash: bytes, padding: Padding = no_padding
    ) -> EncodedBlock:
        """Encode a mark, a block without events. `time` is microseconds since 1970 UTC."""
        heap = pack_padding(padding(BLOCK_HEADER_BYTES))
        header = BlockHeader(
            FLAG_MARK, next_lsn, time, 0, 0, 0, 0, len(heap),
            frame_crc(b""), frame_crc(heap), previous_hash,
        )  # fmt: skip
        return self._finish(header, b"", heap, Summary())

    def _finish(
        self, header: BlockHeader, rows: bytes, heap: bytes, summary: Summary
    ) -> EncodedBlock:
        packed = pack_block_header(header, self.salt)
        data = b"".join((packed, rows, heap))
        assert len(data) == header.block_bytes
        return EncodedBlock(header, data, block_hash(packed, rows, heap), summary)

    def _transpose(self, joined: bytes) -> tuple[list[memoryview], Form]:
        """Turn rows into columns, one strided copy for each, and say in which form they are."""
        assert len(joined) > 0, "a block without events is a mark"
        assert len(joined) % self.layout.row_bytes == 0, "rows of the wrong size"
        whole = memoryview(joined)
        views = {code: typed(whole, code) for code in WIDTHS}
        columns = [
            typed(memoryview(views[code][start::step].tobytes()), code)
            for code, start, step in self._places
        ]
        uppers = {
            position: views[UPPER_CODE][start::step].tobytes()
            for position, start, step in self._uppers
        }
        if not any(upper.strip(b"\0") for upper in uppers.values()):
            return columns, self._usual
        for position, (_, code, _) in enumerate(self.layout.columns):
            if code in WIDENED:
                columns[position] = _widened(columns[position], uppers.get(position))
        return columns, self._wide

    def columns(self, header: BlockHeader, rows: bytes) -> list[memoryview]:
        """Decompress a rows frame; one view for each column, lengths last. Raises Damage."""
        self.check_size(header)
        count = header.event_count
        raw = memoryview(self.decompress(rows, header.rows_raw_bytes))
        order = self.order(header)
        return [
            typed(raw[count * start : count * end], code)
            for code, start, end in zip(self.codes(header), order.starts, order.ends, strict=True)
        ]

    def summary(self, header: BlockHeader, rows: bytes) -> Summary:
        """Compute the footer's summary of a rows frame, whose other columns are left alone. Raises
        Damage."""
        self.check_size(header)
        count, codes, order = header.event_count, self.codes(header), self.order(header)
        raw = memoryview(self.decompress(rows, header.rows_raw_bytes))
        return self.summarise(
            {
                each: typed(raw[count * order.starts[each] : count * order.ends[each]], codes[each])
                for each in (self.time, self.message, self.kind, self.queue)
            }
        )

    def _form_of(self, header: BlockHeader) -> Form:
        return self._wide if header.flags & FLAG_WIDE else self._usual

    def codes(self, header: BlockHeader) -> list[str]:
        """Struct codes of the columns of a block, in the order of the layout, lengths last."""
        return [code for _, code, _ in self._form_of(header).stored]

    def order(self, header: BlockHeader) -> rows_frame.Order:
        """In which order the rows frame of a block has the columns."""
        form = self._form_of(header)
        return form.narrow_first if header.flags & FLAG_NARROW_FIRST else form.plain

    def check_size(self, header: BlockHeader) -> None:
        """Raise Damage if rows and events of a block do not fit together."""
        if header.rows_raw_bytes != header.event_count * self._form_of(header).row_bytes:
            raise Damage("the rows frame has the wrong size for its number of events")

    def heap(self, header: BlockHeader, heap: bytes) -> bytes:
        """Decompress a heap frame: strings of the first heap, then of the next. Raises Damage."""
        return self.decompress(heap, header.heap_raw_bytes)

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        """Return this thread's decompressor: threads must not use one at the same time."""
        found = getattr(self._of_thread, "decompressor", None)
        if found is None:
            found = self._of_thread.decompressor = zstandard.ZstdDecompressor()
        return cast("zstandard.ZstdDecompressor", found)

    def decompress_all(self, frames: Sequence[tuple[bytes, int]]) -> Sequence[Buffer]:
        """Decompress frames, given with their expected sizes in bytes. Raises Damage.

        One call for all frames releases the interpreter for longer; with a call for each frame,
        threads would wait for each other more than they work.
        """
        together = getattr(self._decompressor(), "multi_decompress_to_buffer", None)
        together_bytes = sum(size for _, size in frames)
        if together is not None and len(frames) > 1 and not too_large(together_bytes):
            with suppress(zstandard.ZstdError, ValueError):
                if all(zstandard.frame_content_size(frame) == size for frame, size in frames):
                    return [memoryview(each) for each in together([frame for frame, _ in frames])]
        # Frame by frame, so that the faulty frame is found.
        return [self.decompress(frame, size) for frame, size in frames]

    def decompress(self, frame: bytes, raw_bytes: int) -> bytes:
        """Decompress a frame to exactly `raw_bytes` bytes. Raises Damage."""
        if not raw_bytes and (not frame or frame.startswith(PADDING_MAGIC)):
            return b""
        try:
            if zstandard.frame_content_size(frame) != raw_bytes:
                raise Damage("a frame has another size than the block header says")
            wrong = too_large(raw_bytes)
            if wrong:
                raise Damage(wrong)
            raw = self._decompressor().decompress(frame)
        except zstandard.ZstdError as error:
            raise Damage(f"a frame cannot be decompressed: {error}") from error
        if len(raw) != raw_bytes:
            raise Damage("a frame decompressed to another size than the block header says")
        return raw

    def summarise(self, columns: list[memoryview] | dict[int, memoryview]) -> Summary:
        """Compute the footer's summary of these columns, by their positions."""
        times = columns[self.time]
        messages = set(columns[self.message])
        messages.discard(0)
        kinds = 0
        for kind in set(columns[self.kind]):
            kinds |= kind_bit(kind)
        queues = 0
        for queue in set(columns[self.queue]):
            queues |= queue_bit(queue)
        return Summary(
            min(times),
            max(times),
            min(messages, default=0),
            max(messages, default=0),
            kinds,
            queues,
        )


class Block:
    """A block for readers, decoded only as far as needed.

    `segment` and `offset` are its place, `time` is microseconds since 1970 UTC. A mark has a
    `count` of 0 and no events.
    """

    __slots__ = ("_columns", "_raw", "codec", "count", "first_lsn", "segment", "time")

    def __init__(self, codec: BlockCodec, raw: RawBlock, segment: str) -> None:
        self.codec = codec
        self._raw = raw
        self._columns: list[memoryview] | None = None
        self.segment = segment
        self.first_lsn = raw.header.first_lsn
        self.count = raw.header.event_count
        self.time = raw.header.time

    @property
    def offset(self) -> int:
        """Offset in the segment in bytes."""
        return self._raw.offset

    @property
    def header(self) -> BlockHeader:
        """The header as stored on disk."""
        return self._raw.header

    @property
    def rows_frame(self) -> bytes:
        """The rows frame, compressed as on disk."""
        return self._raw.rows

    @property
    def heap_frame(self) -> bytes:
        """The heap frame, compressed as on disk; empty if read without heap."""
        return self._raw.heap

    @property
    def hash(self) -> bytes:
        """The block's hash, which the next block carries; empty if read without heap."""
        return self._raw.hash

    @property
    def is_mark(self) -> bool:
        """Whether this is a block without events."""
        return self.count == 0

    @property
    def last_lsn(self) -> int:
        """LSN of the last event; of a mark, of the event before it."""
        return self.first_lsn + self.count - 1

    def columns(self) -> list[memoryview]:
        """Return a typed view of each column in layout order, then of the lengths of each heap."""
        if self._columns is None:
            self._columns = (
                [typed(memoryview(b""), code) for code in self.codec.codes(self._raw.header)]
                if self.is_mark
                else self.codec.columns(self._raw.header, self._raw.rows)
            )
        return self._columns

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Return the rows as tuples of their columns, without the lengths."""
        columns = self.columns()
        shared = columns[: len(columns) - self.codec.heap_count]
        return zip(*[column.tolist() for column in shared], strict=True)

    def heap(self) -> bytes:
        """Return all strings of the first heap, then of the next; needs a block with its heap."""
        return self.codec.heap(self._raw.header, self._raw.heap)

    def heaps(self) -> list[memoryview]:
        """Return the strings of each heap, concatenated. Raises Damage."""
        raw = memoryview(self.heap())
        lengths = self.columns()[-self.codec.heap_count :]
        ends = list(accumulate((sum(column) for column in lengths), initial=0))
        if ends[-1] != len(raw):
            raise Damage("the lengths in the rows do not add up to the size of the heap")
        return [raw[start:end] for start, end in pairwise(ends)]

    def strings(self, position: int) -> Iterator[bytes]:
        """Return the strings of one heap, one for each event; most are often empty."""
        heap = bytes(self.heaps()[position])
        return _cut(heap, self.columns()[position - self.codec.heap_count])

    def events(self) -> Iterator[Event]:
        """Yield (LSN, row, one byte string for each heap) for each event."""
        lengths = self.columns()[-self.codec.heap_count :]
        strings = [
            _cut(bytes(heap), column) for heap, column in zip(self.heaps(), lengths, strict=True)
        ]
        lsns = range(self.first_lsn, self.first_lsn + self.count)
        return zip(lsns, self.rows(), *strings, strict=True)


def _widened(lower: memoryview, upper: bytes | None) -> memoryview:
    """A column of eight bytes, of one of four and its upper bits, if it has any."""
    whole = memoryview(bytearray(8 * len(lower)))
    typed(whole, lower.format)[::2] = lower
    if upper is not None:
        typed(whole, UPPER_CODE)[2::4] = typed(memoryview(upper), UPPER_CODE)
    return typed(whole.toreadonly(), WIDENED[lower.format])


def typed(view: memoryview, code: str) -> memoryview:
    """View bytes as native integers."""
    return view.cast(cast(_Code, code))


def _cut(heap: bytes, lengths: memoryview) -> Iterator[bytes]:
    """Cut a heap into its strings."""
    start = 0
    for length in lengths.tolist():
        if length:
            end = start + length
            yield heap[start:end]
            start = end
        else:
            yield b""
