"""Proofs: prove the hash chain of a segment that was converted to Parquet.

A proof contains the header and the footer of the segment, and for each block its header as on disk,
its hash and the SHA-256 of its uncompressed rows and heap. docs/journal-format.md describes the
bytes. The frames of each block are rebuilt from the raw columns of the events. If that gives the
same bytes as in the journal, the hash of the block is computed from Parquet alone, and the segment
can be restored bit for bit.

Fault model: the input may be anything, and may have been changed by somebody who knows this module;
a mismatch raises Damage. Must never know where proofs and rows are stored.
"""

import hashlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from daybook.engine.facts.events import HEAPS
from daybook.journal.blocks import rows_frame
from daybook.journal.blocks.block import COMPRESSION_LEVEL, Block, BlockCodec, RawBlock
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    HASH_BYTES,
    PADDING_BYTES_MIN,
    PAGE_BYTES,
    BlockHeader,
    Damage,
    SegmentHeader,
    block_hash,
    frame_crc,
    header_salt,
    pack_block_header,
    pack_footer,
    pack_footer_entry,
    pack_padding,
    segment_name,
    unpack_block_header,
    unpack_footer,
    unpack_segment_header,
)
from daybook.journal.blocks.rows_frame import Order
from daybook.journal.errors import Corruption
from daybook.journal.segments.segment import CHUNK_BYTES, Segment
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline.arrays import Part, column
from daybook.pipeline.naming import NameTables
from daybook.pipeline.schema import ROW_COLUMNS, STORED_COLUMNS, arrow_schema

PROOF_VERSION: Final = 1
PROOF_MAGIC: Final = b"dbPROOF\n"
DIGEST_BYTES: Final = 32
PROOF_HEADER_FIELDS: Final = (
    ("magic", "8s"),
    ("format_version", "H"),
    ("reserved", "H"),
    ("header_bytes", "I"),
    ("block_count", "Q"),
    ("segment_bytes", "Q"),
    ("segment_sha256", "32s"),
    ("footer_bytes", "Q"),
)
PROOF_BLOCK_FIELDS: Final = (
    ("block_header", "72s"),
    ("block_hash", "16s"),
    ("content_sha256", "32s"),
)
_HEADER: Final = Struct("<" + "".join(code for _, code in PROOF_HEADER_FIELDS))
_BLOCK: Final = Struct("<" + "".join(code for _, code in PROOF_BLOCK_FIELDS))
assert _BLOCK.size == BLOCK_HEADER_BYTES + HASH_BYTES + DIGEST_BYTES

_HEAP_COLUMNS: Final = ("detail_raw", "headers_raw", "body")
assert len(_HEAP_COLUMNS) == len(HEAPS)


def _padded(heap: bytes, header: BlockHeader) -> bytes:
    """Pad a heap frame to the size in the header, if padding can explain the difference."""
    missing = header.heap_stored_bytes - len(heap)
    if PADDING_BYTES_MIN <= missing < PAGE_BYTES + PADDING_BYTES_MIN:
        return heap + pack_padding(missing)
    return heap


class BlockProof(NamedTuple):
    """The proof of a block: its header, packed and decoded, its hash, and its content's digest."""

    packed: bytes
    header: BlockHeader
    offset: int
    hash: bytes
    digest: bytes


class Proof(NamedTuple):
    """The proof of a segment; header and footer are as on disk, `sha256` is that of the file."""

    packed_header: bytes
    header: SegmentHeader
    blocks: tuple[BlockProof, ...]
    packed_footer: bytes
    segment_bytes: int
    sha256: bytes

    @property
    def segment(self) -> str:
        """Name of the segment."""
        return segment_name(self.header.first_lsn)

    @property
    def last_lsn(self) -> int:
        """LSN of the segment's last event."""
        return self.blocks[-1].header.next_lsn - 1 if self.blocks else self.header.first_lsn - 1

    @property
    def last_hash(self) -> bytes:
        """Hash of the segment's last block."""
        return self.blocks[-1].hash if self.blocks else self.header.previous_hash


def make_proof(segment: Segment) -> Proof:
    """Make the proof of a sealed segment; raises Damage."""
    footer = segment.footer()
    codec = segment.codec()
    blocks = []
    offset = segment.first_offset
    while offset < footer.footer_offset:
        raw = segment.block_at(offset, with_heap=True)
        digest = hashlib.sha256()
        if raw.header.event_count:
            codec.check_size(raw.header)
            digest.update(codec.decompress(raw.rows, raw.header.rows_raw_bytes))
            digest.update(codec.heap(raw.header, raw.heap))
        packed = pack_block_header(raw.header, segment.salt)
        blocks.append(BlockProof(packed, raw.header, offset, raw.hash, digest.digest()))
        offset += raw.header.block_bytes
    size = segment.file.size()
    proof = Proof(
        segment.file.pread(segment.header.header_bytes, 0), segment.header, tuple(blocks),
        segment.file.pread(size - footer.footer_offset, footer.footer_offset), size,
        _sha256(segment, size),
    )  # fmt: skip
    check_chain(proof)
    return proof


def _sha256(segment: Segment, size: int) -> bytes:
    digest = hashlib.sha256()
    for offset in range(0, size, CHUNK_BYTES):
        digest.update(segment.file.pread(CHUNK_BYTES, offset))
    return digest.digest()


def encode_proof(proof: Proof) -> bytes:
    """Encode a proof; it ends with the SHA-256 of the bytes before."""
    header = _HEADER.pack(
        PROOF_MAGIC, PROOF_VERSION, 0, len(proof.packed_header), len(proof.blocks),
        proof.segment_bytes, proof.sha256, len(proof.packed_footer),
    )  # fmt: skip
    blocks = [_BLOCK.pack(each.packed, each.hash, each.digest) for each in proof.blocks]
    content = b"".join((header, proof.packed_header, *blocks, proof.packed_footer))
    return content + hashlib.sha256(content).digest()


def decode_proof(packed: bytes) -> Proof:
    """Decode a proof and check its hash chain; raises Damage."""
    content, digest = packed[:-DIGEST_BYTES], packed[-DIGEST_BYTES:]
    if len(content) < _HEADER.size or content[: len(PROOF_MAGIC)] != PROOF_MAGIC:
        raise Damage("it is not a proof")
    if hashlib.sha256(content).digest() != digest:
        raise Damage("the proof was changed: its SHA-256 does not match")
    _, version, _, header_bytes, count, segment_bytes, sha256, footer_bytes = _HEADER.unpack_from(
        content
    )
    if version > PROOF_VERSION:
        raise Damage(f"the proof has format version {version}, this release reads {PROOF_VERSION}")
    blocks_at = _HEADER.size + header_bytes
    footer_at = blocks_at + count * _BLOCK.size
    if len(content) != footer_at + footer_bytes:
        raise Damage("the proof has another size than it says")
    packed_header = content[_HEADER.size : blocks_at]
    header = unpack_segment_header(packed_header)
    blocks = tuple(_blocks(header, memoryview(content)[blocks_at:footer_at]))
    proof = Proof(packed_header, header, blocks, content[footer_at:], segment_bytes, sha256)
    check_chain(proof)
    return proof


def _blocks(header: SegmentHeader, packed: memoryview) -> Iterator[BlockProof]:
    salt = header_salt(header.data_id)
    offset = header.header_bytes
    for block_header, its_hash, digest in _BLOCK.iter_unpack(packed):
        try:
            block = unpack_block_header(block_header, salt)
        except Damage as damage:
            raise Damage(f"the header of the block at offset {offset}: {damage}") from damage
        yield BlockProof(block_header, block, offset, its_hash, digest)
        offset += block.block_bytes


def check_chain(proof: Proof) -> None:
    """Check that each block follows the one before it, up to the footer; raises Damage."""
    lsn, previous = proof.header.first_lsn, proof.header.previous_hash
    end = proof.header.header_bytes
    for block in proof.blocks:
        if block.header.first_lsn != lsn:
            raise Damage(f"a block begins with LSN {block.header.first_lsn} instead of {lsn}")
        if block.header.previous_hash != previous:
            raise Damage(f"the block of LSN {lsn} does not carry the hash of the block before it")
        lsn, previous = block.header.next_lsn, block.hash
        end += block.header.block_bytes
    footer = unpack_footer(proof.packed_footer, header_salt(proof.header.data_id))
    if (footer.last_lsn, footer.last_hash, footer.footer_offset) != (lsn - 1, previous, end):
        raise Damage("the footer ends with another block than the last")
    if footer.block_count != len(proof.blocks):
        raise Damage("the footer lists other blocks than there are")
    if proof.segment_bytes != end + len(proof.packed_footer):
        raise Damage("blocks and footer have another size than the segment")


class RowFault(msgspec.Struct, frozen=True):
    """Rows that do not match the proof: the first LSN concerned, and a description."""

    lsn: int
    what: str


class RebuiltBlock(NamedTuple):
    """A rebuilt block. `exact` says whether its bytes have the hash of the original block."""

    proof: BlockProof
    rows: bytes
    heap: bytes
    exact: bool


class Remaker:
    """Makes the bytes of a segment of its rebuilt blocks.

    Where a block is not exact, it and those behind it have other hashes: readers can read them, and
    `remade_lsn`, otherwise 0, is the first event of that block.
    """

    def __init__(self, proof: Proof) -> None:
        self.remade_lsn = 0
        self._proof: Final = proof
        self._salt: Final = header_salt(proof.header.data_id)
        self._offset = proof.header.header_bytes
        self._hash = proof.header.previous_hash

    def pieces(self, blocks: Iterator[RebuiltBlock]) -> Iterator[bytes]:
        """Yield header, blocks with the marks between them, and footer. Raises Damage."""
        yield self._proof.packed_header
        footer = unpack_footer(self._proof.packed_footer, self._salt)
        entries = b""
        for kept, entry in zip(self._proof.blocks, footer.entries(), strict=True):
            rebuilt = next(blocks) if kept.header.event_count else None
            rows, heap = (rebuilt.rows, rebuilt.heap) if rebuilt is not None else (b"", b"")
            packed = kept.packed
            if rebuilt is not None and not (rebuilt.exact or self.remade_lsn):
                self.remade_lsn = kept.header.first_lsn
            if self.remade_lsn:
                packed = self._sealed(kept.header, rows, heap)
            entries += pack_footer_entry(
                entry._replace(
                    offset=self._offset, rows_stored_bytes=len(rows), heap_stored_bytes=len(heap)
                )
            )
            self._offset += len(packed) + len(rows) + len(heap)
            self._hash = block_hash(packed, rows, heap)
            yield packed + rows + heap
        for _ in blocks:
            raise Damage("it has more blocks than its proof")
        if not self.remade_lsn:
            yield self._proof.packed_footer
            return
        yield pack_footer(
            entries, footer_offset=self._offset, last_lsn=footer.last_lsn, last_hash=self._hash,
            salt=self._salt,
        )  # fmt: skip

    def _sealed(self, header: BlockHeader, rows: bytes, heap: bytes) -> bytes:
        """Return the header of a block with these frames."""
        return pack_block_header(
            header._replace(
                rows_stored_bytes=len(rows), heap_stored_bytes=len(heap), rows_crc=frame_crc(rows),
                heap_crc=frame_crc(heap), previous_hash=self._hash,
            ),
            self._salt,
        )  # fmt: skip


class Rebuilder:
    """Rebuilds the blocks of one segment from its rows, and compares them with the proof.

    Feed it all rows in the order of their LSNs, then call `finish`. `faults` collects the faults;
    `exact` counts blocks with the original hash, `alike` blocks of which only the content's digest
    is the same.
    """

    def __init__(self, proof: Proof, names: NameTables) -> None:
        self.faults: Final[list[RowFault]] = []
        self.exact = 0
        self.alike = 0
        self._names: Final = names
        self._proof: Final = proof
        self._codec: Final = BlockCodec(LAYOUT, proof.header.data_id)
        self._compressor: Final = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
        self._schema: Final = arrow_schema(STORED_COLUMNS)
        self._lsn = proof.header.first_lsn
        self._next = 0
        self._rest: pa.Table = self._schema.empty_table()

    def feed(self, rows: pa.Table) -> list[RebuiltBlock]:
        """Add rows; return the blocks that are complete now. Raises Damage if LSNs are missing."""
        if rows.schema != self._schema:
            raise Damage("it has other columns than events")
        self._check_lsns(rows)
        table = pa.concat_tables([self._rest, rows]).combine_chunks()
        cuts = self._complete(table.num_rows)
        if not cuts:
            self._rest = table
            return []
        raw = _RawRows(table)
        found = []
        for block, start, end in cuts:
            found.append(self._rebuilt(block, raw, start, end))
        self._compare(table, cuts, found)
        self._rest = table.slice(cuts[-1][2])
        return [each for each in found if each is not None]

    def finish(self) -> None:
        """Check that no row is missing at the end; raises Damage."""
        if self._lsn != self._proof.last_lsn + 1:
            raise Damage(f"its rows end before LSN {self._lsn}")
        # Check the marks after the last event.
        self._complete(0)

    def _check_lsns(self, rows: pa.Table) -> None:
        lsns = rows.column("lsn").to_numpy()
        expected = np.arange(self._lsn, self._lsn + len(lsns), dtype=np.int64)
        wrong = np.flatnonzero(lsns != expected)
        if len(wrong):
            place = int(wrong[0])
            raise Damage(f"LSN {expected[place]} should follow, but LSN {lsns[place]} does")
        self._lsn += len(lsns)
        if self._lsn > self._proof.last_lsn + 1:
            raise Damage(f"it continues after LSN {self._proof.last_lsn}, the segment's last")

    def _complete(self, count: int) -> list[tuple[BlockProof, int, int]]:
        """Return the blocks that `count` rows complete, and where their rows begin and end."""
        cuts = []
        start = 0
        while self._next < len(self._proof.blocks):
            block = self._proof.blocks[self._next]
            end = start + block.header.event_count
            if end > count:
                break
            self._next += 1
            if block.header.event_count:
                cuts.append((block, start, end))
                start = end
            else:
                padding = _padded(b"", block.header)
                self._count(block, block_hash(block.packed, b"", padding) == block.hash)
        return cuts

    def _count(self, block: BlockProof, exact: bool) -> None:
        if exact:
            self.exact += 1
        elif block.header.event_count:
            self.alike += 1
        else:
            self._fault(block, "the hash of a mark does not match the chain")

    def _fault(self, block: BlockProof, what: str) -> None:
        self.faults.append(RowFault(block.header.first_lsn, what))

    def _rebuilt(
        self, block: BlockProof, raw: "_RawRows", start: int, end: int
    ) -> RebuiltBlock | None:
        """Make a block again; None if its rows are not those that it had."""
        order, codes = self._codec.order(block.header), self._codec.codes(block.header)
        rows, heap = raw.rows(order, codes, start, end), raw.heap(start, end)
        digest = hashlib.sha256(rows)
        digest.update(heap)
        if digest.digest() != block.digest:
            first, last = block.header.first_lsn, block.header.next_lsn - 1
            self._fault(
                block, f"rows, details, headers or bodies of LSN {first} to {last} are not those "
                "that were archived: their SHA-256 differs",
            )  # fmt: skip
            return None
        if (len(rows), len(heap)) != (block.header.rows_raw_bytes, block.header.heap_raw_bytes):
            self._fault(block, "the header of the block has another number of bytes")
            return None
        stored_heap = _padded(self._compressor.compress(heap) if heap else b"", block.header)
        stored_rows, exact = b"", False
        for stored_rows in self._frames(order, rows, block.header.event_count):
            exact = block_hash(block.packed, stored_rows, stored_heap) == block.hash
            if exact:
                break
        self._count(block, exact)
        return RebuiltBlock(block, stored_rows, stored_heap, exact)

    def _frames(self, order: Order, rows: bytes, count: int) -> Iterator[bytes]:
        """Yield the rows frame as this version writes it, then undivided, as others may do."""
        yield rows_frame.compress(self._compressor, rows, count, order)
        yield self._compressor.compress(rows)

    def _compare(
        self,
        table: pa.Table,
        cuts: list[tuple[BlockProof, int, int]],
        found: list[RebuiltBlock | None],
    ) -> None:
        """Decode the blocks as if they were from the journal, and compare all columns."""
        if None not in found:
            parts = [self._part(each) for each in found if each is not None]
            self._compare_rows(table.slice(0, cuts[-1][2]), parts)
            return
        for (_, start, end), block in zip(cuts, found, strict=True):
            if block is not None:
                self._compare_rows(table.slice(start, end - start), [self._part(block)])

    def _part(self, block: RebuiltBlock) -> Part:
        proof = block.proof
        raw = RawBlock(proof.header, proof.offset, block.rows, block.heap, proof.hash)
        return Part(Block(self._codec, raw, self._proof.segment))

    def _compare_rows(self, table: pa.Table, parts: list[Part]) -> None:
        for name in STORED_COLUMNS:
            try:
                expected = column(name, parts, self._names)
            except Corruption as corruption:
                self.faults.append(RowFault(corruption.lsn, corruption.what))
                return
            there = table.column(name)
            if not pa.chunked_array([expected]).equals(there):
                place = _first_difference(expected, there)
                self.faults.append(
                    RowFault(
                        table.column("lsn")[place].as_py(),
                        f"column {name} is {_shown(there[place])}, its block says "
                        f"{_shown(expected[place])}",
                    )
                )


class _RawRows:
    """The raw columns of a table, as the journal stored them."""

    def __init__(self, table: pa.Table) -> None:
        """Raises Damage if a column has nulls that must not have any."""
        for name in (*ROW_COLUMNS, *_HEAP_COLUMNS):
            if table.column(name).null_count:
                raise Damage(f"column {name} has nulls, which it must not have")
        self._columns: Final = [_integers(table.column(name)) for name in ROW_COLUMNS]
        self._heaps: Final = [_Strings(table.column(name)) for name in _HEAP_COLUMNS]

    def rows(self, order: Order, codes: list[str], start: int, end: int) -> bytes:
        """The rows frame of these rows, uncompressed, with columns of these struct codes."""
        parts = [
            each[start:end].astype("<" + code, copy=False).tobytes()
            for each, code in zip(self._columns, codes, strict=False)
        ]
        parts += [each.lengths(start, end).tobytes() for each in self._heaps]
        return b"".join([parts[position] for position in order.positions])

    def heap(self, start: int, end: int) -> bytes:
        """Return the heap frame of these rows, uncompressed."""
        return b"".join([each.joined(start, end) for each in self._heaps])


class _Strings:
    """A column of byte strings, accessed by its Arrow buffers."""

    def __init__(self, strings: pa.ChunkedArray) -> None:
        assert strings.num_chunks == 1, "chunks are combined, and a row group is below 2 GiB"
        whole = strings.chunk(0)
        _, offsets, data = whole.buffers()
        found = np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + len(whole) + 1]
        self._offsets: Final = found.astype(np.int64)
        self._data: Final = memoryview(data) if data is not None else memoryview(b"")

    def lengths(self, start: int, end: int) -> NDArray[np.uint32]:
        return np.diff(self._offsets[start : end + 1]).astype("<u4")

    def joined(self, start: int, end: int) -> memoryview:
        return self._data[self._offsets[start] : self._offsets[end]]


def _integers(values: pa.ChunkedArray) -> NDArray[Any]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    found: NDArray[Any] = values.to_numpy()
    return found


def _first_difference(expected: pa.Array, there: pa.ChunkedArray) -> int:
    pairs = zip(expected.to_pylist(), there.to_pylist(), strict=True)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), 0)


def _shown(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 60 else text[:57] + "..."


def zstd_version() -> str:
    """Return the version of the installed zstd: the same version gives the same frames."""
    return ".".join(map(str, zstandard.ZSTD_VERSION))
