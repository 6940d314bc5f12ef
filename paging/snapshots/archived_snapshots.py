"""Archived snapshots, restored from the Disk that has the archived segments (ADR 70).

Fault model: an object or a manifest may be missing, torn, damaged, foreign or unreachable; it is
never used then, and the reason is returned as a sentence. Must never know the use of the state, or
the archiver.
"""

import hashlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import IO, Final, cast

import zstandard

from daybook.journal.archive.manifest import MANIFEST_BYTES_MAX
from daybook.journal.archive.snapshots import SnapshotEntry, decode_entry, snapshots_in
from daybook.journal.blocks.format import manifest_name, segment_first_lsn, snapshot_name
from daybook.journal.data_directory import TABLES
from daybook.journal.disk import Disk, File
from daybook.journal.errors import ArchiveError
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.paging.checks.usability import why_not_of
from daybook.paging.snapshots.base import adopt
from daybook.paging.tables.structure import check_structure
from daybook.paging.tables.tables import IndexDamaged, open_for_writing

_PIECE_BYTES: Final = 1 << 20
_WINDOW_BYTES_MAX: Final = 1 << 27


def archived_lsns(disk: Disk) -> list[int]:
    """Return the events of the archived snapshots on a disk, newest first."""
    return snapshots_in(disk.names())


def archived_sizes(disk: Disk) -> list[int]:
    """Return the size in bytes of each archived snapshot on a disk, newest first. Raises OSError
    and ArchiveError."""
    sizes = []
    for lsn in archived_lsns(disk):
        with closing(disk.open(snapshot_name(lsn))) as file:
            sizes.append(file.size())
    return sizes


def archived_entry(disk: Disk, lsn: int) -> SnapshotEntry:
    """Read the manifest of an archived snapshot; the ValueError for a bad one says why. Raises
    ArchiveError."""
    try:
        with closing(disk.open(manifest_name(snapshot_name(lsn)))) as file:
            return decode_entry(file.pread(MANIFEST_BYTES_MAX + 1, 0), lsn)
    except OSError as error:
        raise ValueError(f"its manifest cannot be read: {error}") from error


def restore_archived(disk: Disk, lsn: int, data_id: bytes, index: Path) -> str:
    """Make an archived snapshot the tables of a new index of a data directory; return its fault,
    empty without one. The index must be deleted if anything is.

    Raises JournalError if the archived segments cannot be read, IndexUnwritable, and OSError if the
    new index cannot be written.
    """
    try:
        entry = archived_entry(disk, lsn)
    except (ValueError, ArchiveError) as error:
        return str(error)
    owner = bytes.fromhex(entry.data_id)
    if owner not in {data_id, _id_at(disk, lsn)}:
        return f"it is of data directory {entry.data_id}, and this one is {data_id.hex()}"
    wrong = why_not_of(disk, lsn, bytes.fromhex(entry.block_hash))
    if wrong:
        return wrong
    index.mkdir(mode=0o700, parents=True, exist_ok=True)
    wrong = _unpack(disk, entry, index / TABLES)
    if wrong:
        return wrong
    try:
        # It comes from far away, and LMDB would trust it.
        check_structure(index)
    except IndexDamaged as damage:
        return str(damage)
    wrong = adopt(index / TABLES, index, owner, lsn)
    if not wrong and owner != data_id:
        return _give(index, owner, data_id)
    return wrong


def _give(index: Path, owner: bytes, data_id: bytes) -> str:
    """Make tables those of a fork of their data directory; return their fault."""
    try:
        with closing(open_for_writing(index, owner)) as tables:
            tables.write(lambda txn: tables.set_data_id(txn, data_id))
    except IndexDamaged as damage:
        return str(damage)
    return ""


def _id_at(disk: Disk, lsn: int) -> bytes:
    """Return the data id of the segment with an event: before a fork it is that of the source."""
    names = [name for name in segment_names(disk) if (segment_first_lsn(name) or 0) <= lsn]
    if not names:
        return b""
    with closing(open_segment(disk, names[-1])) as segment:
        return segment.header.data_id


class _Packed:
    """The object of a snapshot as a stream, which is hashed while it is read."""

    def __init__(self, file: File) -> None:
        self._file: Final = file
        self._digest: Final = hashlib.sha256()
        self.count = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def read(self, size: int = -1) -> bytes:
        """Read on; an OSError of the file is an ArchiveError, for those of the target are not."""
        try:
            piece = self._file.pread(_PIECE_BYTES if size < 0 else size, self.count)
        except OSError as error:
            raise ArchiveError("snapshot", f"it cannot be read: {error}") from error
        self.count += len(piece)
        self._digest.update(piece)
        return piece


def _unpack(disk: Disk, entry: SnapshotEntry, target: Path) -> str:
    """Decompress an archived snapshot into a file; return its fault. Raises OSError."""
    try:
        file = disk.open(entry.snapshot)
    except OSError as error:
        return f"it cannot be read: {error}"
    with closing(file), target.open("wb") as written:
        packed = _Packed(file)
        digest = hashlib.sha256()
        count = 0
        try:
            for piece in _pieces(packed):
                digest.update(piece)
                count += len(piece)
                if count > entry.tables_bytes:
                    return "it has more than its manifest says"
                written.write(piece)
        except (zstandard.ZstdError, ArchiveError) as broken:
            return f"it cannot be decompressed: {broken}"
    if (packed.count, packed.sha256) != (entry.bytes, entry.sha256):
        return "its SHA-256 is not that of its manifest"
    if (count, digest.hexdigest()) != (entry.tables_bytes, entry.tables_sha256):
        return "the SHA-256 of its tables is not that of its manifest"
    return ""


def _pieces(packed: _Packed) -> Iterable[bytes]:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    reader = unpacker.stream_reader(cast("IO[bytes]", packed))
    while piece := reader.read(_PIECE_BYTES):
        yield piece
    while packed.read():
        # The bytes after the frame belong to the object, and to its hash.
        pass
