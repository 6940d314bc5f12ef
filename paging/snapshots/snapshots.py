"""Snapshots: copies of the tables at earlier events, so that a fold need not begin at the first one
(ADR 63).

Each is a compact copy and a description, as the base is. They are derived, written without a sync
by the owner of the index, and may be deleted at any time. Fault model: files may be missing, torn,
damaged, or of another journal; such a snapshot is passed over. A failure to write one removes its
files. Must never know the use of the state.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from daybook.journal.blocks.format import snapshot_name
from daybook.journal.data_directory import TABLES
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.checks.usability import why_not_of
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.archived_snapshots import archived_lsns, restore_archived
from daybook.paging.snapshots.base import Base, name_of, restore_copy, sha256_of
from daybook.paging.tables.tables import IndexUnwritable

SHARE: Final = 5
"""So many bytes are journaled for each byte of a snapshot: all take a fifth of the journal."""
FREE_TIMES: Final = 10
"""A snapshot needs so many times its size of free space: the disk is for messages first."""
EVENT_BYTES: Final = 24
"""An event counts as so many bytes of the journal at least: blocks of events that are alike take
less, but a fold takes as long."""
SUFFIX: Final = ".json"
_UNFINISHED: Final = "work-"


class Snapshot(Base, frozen=True):
    """The content of a description; `block_hash` is that of the block that ends at the event."""

    block_hash: str


class Snapshots:
    """The snapshots of a data directory, for the owner of its index.

    `trouble` says why the last one could not be written; "" if it could.
    """

    def __init__(self, directory: Path, data_id: bytes) -> None:
        self._directory: Final = directory
        self._data_id: Final = data_id
        self._is_ready = False
        self._bytes = 0
        self._noted = 0
        self._size = 0
        self.lsn = 0
        self.trouble = ""

    def follow(self, index: Index, disk: Disk, journaled: int, every: int) -> bool:
        """Note so many bytes of journal that a commit indexed, and take a snapshot if one is due.

        Return whether one was due. `every` is the number of bytes between two snapshots, 0 for
        none. Raises IndexDamaged.
        """
        if not self._is_ready:
            self._begin(index, disk)
        self._bytes += max(journaled, (index.lsn - self._noted) * EVENT_BYTES)
        self._noted = index.lsn
        if not every or self._bytes < max(every, SHARE * self._size) or index.lsn <= self.lsn:
            return False
        self._bytes = 0
        try:
            self._take(index)
            self.trouble = ""
        except (OSError, IndexUnwritable) as error:
            self.trouble = str(error)
        with suppress(OSError):
            remove_before(self._directory, first_lsn_of(disk) - 1)
        return True

    def _begin(self, index: Index, disk: Disk) -> None:
        """Find the newest snapshot; remove leftovers of a killed process, and foreign snapshots."""
        self._is_ready = True
        for left in self._directory.glob(_UNFINISHED + "*"):
            shutil.rmtree(left, ignore_errors=True)
        for known in known_snapshots(self._directory, self._data_id):
            if known.lsn <= index.lsn:
                self.lsn = known.lsn
                self._size = known.bytes
                break
            if _why_not_of(disk, known):
                _remove(self._directory, known.lsn)
        self._noted = self.lsn

    def _take(self, index: Index) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        with TemporaryDirectory(prefix=_UNFINISHED, dir=self._directory) as folder:
            # Before the copy, which would take the room: as large as the last one.
            self._check_room(self._size)
            index.tables.copy_to(Path(folder))
            copied = Path(folder) / TABLES
            size = copied.stat().st_size
            self._check_room(size)
            name = name_of(index.lsn)
            told = Snapshot(
                index.lsn, name, size, sha256_of(copied), self._data_id.hex(),
                index.last_hash.hex(),
            )  # fmt: skip
            described = Path(folder) / SUFFIX
            described.write_bytes(msgspec.json.encode(told) + b"\n")
            copied.replace(self._directory / name)
            described.replace(_description(self._directory, index.lsn))
        self.lsn = index.lsn
        self._size = size

    def _check_room(self, size: int) -> None:
        free = shutil.disk_usage(self._directory).free
        if free < FREE_TIMES * size:
            raise OSError(
                f"a snapshot of {size} bytes needs {FREE_TIMES} times its size of free space, and "
                f"{free} bytes are free"
            )


def known_snapshots(directory: Path, data_id: bytes) -> Iterator[Snapshot]:
    """Yield the descriptions of the snapshots in a directory that can be read, newest first."""
    for path in sorted(directory.glob("*" + SUFFIX), reverse=True):
        try:
            told = msgspec.json.decode(path.read_bytes(), type=Snapshot)
            bytes.fromhex(told.block_hash)
        except (OSError, ValueError):
            continue
        is_ours = told.data_id == data_id.hex() and told.file == name_of(told.lsn)
        if is_ours and path == _description(directory, told.lsn):
            yield told


def unusable(directory: Path, data_id: bytes) -> list[Path]:
    """Return the descriptions in a directory that cannot be read or are of another journal."""
    known = {_description(directory, each.lsn) for each in known_snapshots(directory, data_id)}
    return sorted(set(directory.glob("*" + SUFFIX)) - known)


def restore_nearest(
    directory: Path,
    disk: Disk,
    data_id: bytes,
    lsn: int,
    index: Path,
    note: Callable[[str], None],
    *,
    after: int = 0,
) -> int:
    """Copy the newest sound snapshot at or before an event to the path of a new index.

    It may be in the directory, or archived on the disk, and must be after the event `after`. Return
    its LSN, 0 if there is none. `note` is called with a sentence about each that is damaged.
    Raises JournalError, IndexUnwritable and OSError.
    """
    first = first_lsn_of(disk)
    local = {known.lsn: known for known in known_snapshots(directory, data_id)}
    for place in sorted({*local, *archived_lsns(disk)}, reverse=True):
        if not max(first - 1, after + 1) <= place <= lsn:
            continue
        for what, wrong in _restored(directory, disk, data_id, place, local.get(place), index):
            if not wrong:
                return place
            shutil.rmtree(index, ignore_errors=True)
            note(f"{what} is passed over: {wrong}")
    return 0


def _restored(
    directory: Path, disk: Disk, data_id: bytes, lsn: int, known: Snapshot | None, index: Path
) -> Iterator[tuple[str, str]]:
    """Restore the snapshots at an event, in order; yield the name and the fault of each."""
    if known is not None:
        wrong = _why_not_of(disk, known)
        if not wrong:
            index.mkdir(mode=0o700, parents=True, exist_ok=True)
            wrong = restore_copy(directory, known, index)
        yield f"the snapshot {directory / known.file}", wrong
    if lsn in archived_lsns(disk):
        wrong = restore_archived(disk, lsn, data_id, index)
        yield f"the archived snapshot {snapshot_name(lsn)}", wrong


def remove_before(directory: Path, lsn: int) -> None:
    """Remove the snapshots of states before an event. Raises OSError."""
    for path in directory.glob("*" + SUFFIX):
        if path.stem.isdigit() and int(path.stem) < lsn:
            _remove(directory, int(path.stem))


def _why_not_of(disk: Disk, known: Snapshot) -> str:
    return why_not_of(disk, known.lsn, bytes.fromhex(known.block_hash))


def _remove(directory: Path, lsn: int) -> None:
    _description(directory, lsn).unlink(missing_ok=True)
    (directory / name_of(lsn)).unlink(missing_ok=True)


def _description(directory: Path, lsn: int) -> Path:
    return directory / f"{lsn:020d}{SUFFIX}"
