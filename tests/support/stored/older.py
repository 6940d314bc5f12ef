"""Journals of earlier versions: rows frames in the order of the layout, undivided."""

from pathlib import Path

import zstandard

from daybook.journal.blocks.block import COMPRESSION_LEVEL, BlockCodec, RawBlock
from daybook.journal.blocks.format import (
    FOOTER_ENTRY_BYTES,
    NO_HASH,
    Damage,
    Footer,
    block_hash,
    frame_crc,
    pack_block_header,
    pack_footer,
    pack_footer_entry,
    pack_segment_header,
)
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import Segment, open_segment, segment_names


def as_before(codec: BlockCodec, raw: RawBlock) -> RawBlock:
    """Return the block in the old form; its hash is that of the original block."""
    header = raw.header
    if not header.event_count:
        return raw
    plain = b"".join(bytes(column) for column in codec.columns(header, raw.rows))
    rows = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress(plain)
    older = header._replace(flags=0, rows_stored_bytes=len(rows), rows_crc=frame_crc(rows))
    return raw._replace(header=older, rows=rows)


def write_as_before(journal: Path, segments: int) -> None:
    """Rewrite the blocks of the first segments in the old form; the hash chain stays intact."""
    disk = RealDisk(journal)
    last_hash = NO_HASH
    for number, name in enumerate(segment_names(disk)):
        segment = open_segment(disk, name)
        content, last_hash = _rewritten(segment, last_hash, older=number < segments)
        segment.close()
        (journal / name).write_bytes(content)


def _rewritten(segment: Segment, last_hash: bytes, *, older: bool) -> tuple[bytes, bytes]:
    header, codec = segment.header, segment.codec()
    content = bytearray(
        pack_segment_header(
            first_lsn=header.first_lsn, data_id=header.data_id, previous_hash=last_hash,
            segment_bytes=header.segment_bytes, layout=header.layout, level=header.level,
        )
    )  # fmt: skip
    footer = _footer_of(segment)
    entries = bytearray()
    offset = segment.first_offset
    while footer.footer_offset > offset if footer else not segment.is_blank_at(offset):
        raw = segment.block_at(offset, with_heap=True)
        offset += raw.header.block_bytes
        found = as_before(codec, raw) if older else raw
        packed = pack_block_header(found.header._replace(previous_hash=last_hash), segment.salt)
        last_hash = block_hash(packed, found.rows, found.heap)
        if footer:
            entry = footer.entry(len(entries) // FOOTER_ENTRY_BYTES)
            entries += pack_footer_entry(
                entry._replace(offset=len(content), rows_stored_bytes=len(found.rows))
            )
        content += packed + found.rows + found.heap
    if footer is None:
        return bytes(content).ljust(segment.file.size(), b"\0"), last_hash
    content += pack_footer(
        entries, footer_offset=len(content), last_lsn=footer.last_lsn, last_hash=last_hash,
        salt=segment.salt,
    )  # fmt: skip
    return bytes(content), last_hash


def _footer_of(segment: Segment) -> Footer | None:
    try:
        return segment.footer()
    except Damage:
        return None
