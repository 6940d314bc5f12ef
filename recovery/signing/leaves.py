"""The signed contents of blocks, so that an export can leave out parts of them and is still proven
(ADR 66).

A leaf stands for a block: its hash, header and rows, the details of its events, and the hash of
each string of headers and each body. Must never know the meaning of a detail or a header.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import pack_block_header
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT

LEAF: Final = b"\x00"
CONTENTS: Final = b"\x01"
DETAILS, HEADERS, BODIES = range(3)
"""Positions of the heaps."""
assert LAYOUT.heaps == ("detail", "headers", "body")


class Leaf(msgspec.Struct, frozen=True):
    """The parts of a leaf; `frame` is the hash of header and rows frame as stored."""

    block_hash: bytes
    frame: bytes
    details: bytes
    headers: bytes
    bodies: bytes

    def hash(self) -> bytes:
        """Return the leaf itself."""
        parts = LEAF, self.block_hash, self.frame, self.details, self.headers, self.bodies
        return hashlib.sha256(b"".join(parts)).digest()


def hash_of(content: bytes | memoryview) -> bytes:
    """Return the hash of a string, 32 bytes."""
    return hashlib.sha256(content).digest()


def hash_of_all(hashes: Iterable[bytes]) -> bytes:
    """Return the hash of a list of strings, of which the hashes are given."""
    return hash_of(b"".join(hashes))


def packed_header(block: Block) -> bytes:
    """Return the header of a block, as stored."""
    return pack_block_header(block.header, block.codec.salt)


def string_hashes(block: Block, heap: int) -> Iterator[bytes]:
    """Yield the hashes of the strings of a heap that are not empty."""
    return (hash_of(each) for each in block.strings(heap) if each)


def leaf_of(block: Block) -> Leaf:
    """Return the leaf of a block that was read with its heap. Raises Damage."""
    return Leaf(
        block.hash,
        hash_of(packed_header(block) + block.rows_frame),
        hash_of(block.heaps()[DETAILS]),
        hash_of_all(string_hashes(block, HEADERS)),
        hash_of_all(string_hashes(block, BODIES)),
    )


class Contents:
    """The hash over the leaves of consecutive blocks; marks do not count."""

    def __init__(self) -> None:
        self._digest: Final = hashlib.sha256(CONTENTS)

    def add(self, leaf: bytes) -> None:
        """Add the leaf of the next block."""
        self._digest.update(leaf)

    def hex(self) -> str:
        """Return the hash of all added blocks, in hexadecimal."""
        return self._digest.hexdigest()


def blocks_between(disk: Disk, after: int, lsn: int) -> Iterator[Block]:
    """Yield the blocks with events behind event `after`, up to the one with event `lsn`.

    Raises JournalError.
    """
    for block in read_blocks(disk, LAYOUT, from_lsn=after + 1, to_lsn=lsn):
        if block.count and block.first_lsn > after:
            yield block
