"""Judging the newest segment at open: where the journal ends, and whether a tail was torn.

Fault model: the process or the machine may have died at any moment. One block is in flight at a
time, so only the last block can be torn. Damage is a torn tail only without proof that it was once
durable: no sound block or footer follows it, and no checkpoint knows an LSN in it. A torn tail is
cut. Any other damage is Corruption, and the files stay unchanged.

Must never know: what a column means.
"""

from typing import Final, NamedTuple

import msgspec

from daybook.journal.blocks.block import BlockCodec, EncodedBlock, RawBlock, Summary
from daybook.journal.blocks.format import (
    FOOTER_ENTRY_BYTES,
    Damage,
    FooterEntry,
    footer_bytes,
    pack_footer_entry,
)
from daybook.journal.disk import write_all
from daybook.journal.errors import Corruption
from daybook.journal.segments.segment import Behind, Segment, look_behind

_ZERO_BYTES: Final = 1 << 20


def cut_short(segment: Segment) -> str:
    """Return the error text for a segment that is shorter than its reserved size."""
    return (
        f"the file ends here, but {segment.header.segment_bytes} bytes were reserved for it: it "
        f"was truncated, and its later blocks are unknown"
    )


class Repair(msgspec.Struct, frozen=True):
    """The repairs of opening in the newest segment. `cut_bytes` is 0 without a cut."""

    segment: str
    cut_offset: int = 0
    cut_bytes: int = 0
    reason: str = ""


class Tail(NamedTuple):
    """The end of the journal: the state from which appending continues.

    `entries` are the packed entries of the segment's future footer.
    """

    entries: bytearray
    offset: int
    next_lsn: int
    last_hash: bytes
    last_is_mark: bool
    sealed: bool
    repair: Repair


def footer_entry(block: RawBlock | EncodedBlock, offset: int, summary: Summary) -> FooterEntry:
    """Return the entry of a block for the footer of its segment."""
    header = block.header
    return FooterEntry(
        offset,
        header.first_lsn,
        header.event_count,
        header.rows_stored_bytes,
        header.heap_stored_bytes,
        header.heap_raw_bytes,
        *summary,
    )


def summary_of(codec: BlockCodec, block: RawBlock) -> Summary:
    """Return the summary of a block; raises Damage if its rows cannot be decoded."""
    if block.header.event_count == 0:
        return Summary()
    return codec.summary(block.header, block.rows)


def check_link(block: RawBlock, expected_lsn: int, last_hash: bytes) -> None:
    """Check that a sound block continues the journal here; raises Damage."""
    header = block.header
    if header.first_lsn != expected_lsn:
        raise Damage(f"the block begins with LSN {header.first_lsn} instead of {expected_lsn}")
    if header.previous_hash != last_hash:
        raise Damage("the block does not carry the hash of the block before it")


def find_tail(
    segment: Segment, codec: BlockCodec, known_durable_lsn: int, *, writes_again: bool = True
) -> Tail:
    """Walk the newest segment, cut a torn tail, and return the end. Raises Corruption.

    With `writes_again` the last block is written again, to be synced by the caller.
    `known_durable_lsn` is the LSN that a checkpoint proves durable.
    """
    entries = bytearray()
    offset = segment.first_offset
    lsn = segment.header.first_lsn
    last_hash = segment.header.previous_hash
    last_is_mark = False
    newest_offset = offset
    while True:
        try:
            block = segment.block_at(offset, with_heap=True)
        except Damage as damage:
            reason = str(damage)
            break
        try:
            # The block is sound, so it is not torn: if it does not belong here, that is damage.
            check_link(block, lsn, last_hash)
            entries += pack_footer_entry(footer_entry(block, offset, summary_of(codec, block)))
        except Damage as damage:
            raise Corruption(segment.name, offset, lsn, str(damage)) from damage
        newest_offset = offset
        offset += block.header.block_bytes
        lsn = block.header.next_lsn
        last_hash = block.hash
        last_is_mark = block.header.event_count == 0
    sealed = _is_sealed(segment, offset)
    repair = Repair(segment.name)
    end = offset
    if not sealed:
        repair = _cut(segment, offset, lsn, known_durable_lsn, reason)
    elif lsn - 1 < known_durable_lsn:
        raise Corruption(segment.name, offset, lsn, _missing(known_durable_lsn))
    else:
        end += footer_bytes(len(entries) // FOOTER_ENTRY_BYTES)
    if writes_again:
        _write_again(segment, newest_offset, end)
    if sealed and segment.file.size() > end:
        # It died after the footer was written and before the file was truncated; maybe before the
        # footer was synced, so sync first, as sealing does.
        segment.file.fdatasync()
        segment.file.truncate(end)
    return Tail(entries, offset, lsn, last_hash, last_is_mark, sealed, repair)


def _write_again(segment: Segment, offset: int, end: int) -> None:
    """Write the last block again, so that the following sync covers it.

    After a failed sync the kernel may treat pages as clean that never reached the disk: they can be
    read here, no later sync would write them, and the next power cut would lose them. Earlier
    blocks need no rewrite, because each was synced before the next was begun.
    """
    write_all(segment.file, segment.file.pread(end - offset, offset), offset)


def _is_sealed(segment: Segment, offset: int) -> bool:
    try:
        segment.footer_at(offset)
    except Damage:
        return False
    return True


def _missing(known_durable_lsn: int) -> str:
    return f"the journal ends here although LSN {known_durable_lsn} is known to have been durable"


def _cut(segment: Segment, offset: int, lsn: int, known_durable_lsn: int, reason: str) -> Repair:
    """Overwrite a torn tail with zeros, or raise Corruption if the damage is not a torn tail."""
    behind = look_behind(segment, offset, lsn)
    if behind.evidence_offset:
        what = f"{reason}, although the data at offset {behind.evidence_offset} behind it is sound"
        raise Corruption(segment.name, offset, lsn, what)
    if lsn - 1 < known_durable_lsn:
        raise Corruption(segment.name, offset, lsn, _missing(known_durable_lsn))
    if segment.is_cut_short:
        raise Corruption(segment.name, segment.file.size(), lsn, cut_short(segment))
    cut_bytes = behind.end - offset
    assert cut_bytes >= 0
    if cut_bytes == 0:
        return Repair(segment.name)
    _overwrite_with_zeros(segment, offset, behind)
    return Repair(segment.name, offset, cut_bytes, reason)


def _overwrite_with_zeros(segment: Segment, offset: int, behind: Behind) -> None:
    """Zero the torn bytes. Truncating the file instead would give up reserved space."""
    position = offset
    while position < behind.end:
        count = min(_ZERO_BYTES, behind.end - position)
        write_all(segment.file, bytes(count), position)
        position += count
    segment.window.refresh()
    assert look_behind(segment, offset, 1) == Behind(0, offset)
