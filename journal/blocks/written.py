"""Writes of one process to the journal, for the copy of the journal in another process (ADR 41).

Must never know which process writes next.
"""

from struct import Struct
from typing import Final, NamedTuple

from daybook.journal.blocks.format import FOOTER_ENTRY_BYTES, HASH_BYTES

_FIXED: Final = Struct(f"<QQQQI?3x{HASH_BYTES}s")


class Written(NamedTuple):
    """Blocks that were written and synced, and the place of the next one.

    `segment_lsn` is the first LSN of the newest segment, `capacity` its size and `offset` the end
    of its blocks, `level` its feature level; `entries` are the packed footer entries of the blocks
    that are new in it.
    """

    segment_lsn: int
    capacity: int
    offset: int
    next_lsn: int
    level: int
    last_is_mark: bool
    last_hash: bytes
    entries: bytes


def pack_written(written: Written) -> bytes:
    """Return the bytes for the other process."""
    return _FIXED.pack(*written[:-1]) + written.entries


def unpack_written(packed: bytes) -> Written:
    """Read the writes of the other process."""
    entries = packed[_FIXED.size :]
    assert len(entries) % FOOTER_ENTRY_BYTES == 0, "only whole entries are sent"
    fixed = _FIXED.unpack_from(packed)
    return Written._make((*fixed, entries))
