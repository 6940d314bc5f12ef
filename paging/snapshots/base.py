"""The base: the state before the first live event, kept when retention takes segments away.

Without it an index could not be rebuilt from the remaining segments. It is a compact copy of an
index that ends with the last event removed, with a description that contains its SHA-256; except
for the journal it is the only part of a data directory that cannot be derived. Fault model:
whatever happens, the description names a complete copy, the new or the previous one; a copy that
does not match its hash is refused, and so is a description that does not match its copy. Must never
know when segments leave.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from daybook.errors import DaybookError
from daybook.journal.data_directory import BASE_DESCRIPTION, INDEX, TABLES
from daybook.journal.disk import Disk, sync_directory
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.checks.index_check import check
from daybook.paging.fold.batches import folded
from daybook.paging.fold.index import Index
from daybook.paging.fold.upgrade import upgrade
from daybook.paging.tables.checked import IndexDamaged
from daybook.paging.tables.tables import open_for_reading

_CHUNK_BYTES: Final = 1 << 20


class BaseDamaged(DaybookError):
    """The base cannot be used; the text names the fault and the way to restore it."""


class Base(msgspec.Struct, frozen=True):
    """The contents of the description: `lsn` is the last event in the copy in `file`."""

    lsn: int
    file: str
    bytes: int
    sha256: str
    data_id: str


def describe(directory: Path, data_id: bytes) -> Base | None:
    """Read the description of the base in a directory; None if there is none. BaseDamaged."""
    path = directory / BASE_DESCRIPTION
    try:
        base = msgspec.json.decode(path.read_bytes(), type=Base)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise BaseDamaged(_wrong(path, f"it cannot be read: {error}")) from error
    if base.data_id != data_id.hex():
        raise BaseDamaged(
            _wrong(path, f"it is of journal {base.data_id}, and this one is {data_id.hex()}")
        )
    if base.file != name_of(base.lsn):
        raise BaseDamaged(_wrong(path, f"it says event {base.lsn} and names file {base.file}"))
    return base


def name_of(lsn: int) -> str:
    """Return the name of the file with a copy of the tables at an event."""
    return f"{lsn:020d}.mdb"


def restore(directory: Path, data_id: bytes, index: Path, first_lsn: int) -> int:
    """Copy the base to the path of a new index; return its LSN. BaseDamaged, OSError.

    `first_lsn` is the first event of the journal, which must follow the last event of the base. A
    broker may replace the base meanwhile.
    """
    index.mkdir(mode=0o700, parents=True, exist_ok=True)
    base = describe(directory, data_id)
    while True:
        if base is None:
            raise BaseDamaged(_wrong(directory / BASE_DESCRIPTION, "it is missing"))
        wrong = restore_copy(directory, base, index)
        if not wrong:
            break
        before, base = base, describe(directory, data_id)
        if base == before:
            raise BaseDamaged(_wrong(directory / before.file, wrong))
    if base.lsn + 1 < first_lsn:
        raise BaseDamaged(
            _wrong(
                directory / BASE_DESCRIPTION,
                f"it ends with event {base.lsn}, and the journal begins with {first_lsn}",
            )
        )
    return base.lsn


def restore_copy(directory: Path, base: Base, index: Path) -> str:
    """Copy the file of a description; return its fault, empty without one.

    Raises OSError.
    """
    partial = index / f"{TABLES}.partial"
    try:
        found, size = _copy(directory / base.file, partial)
    except FileNotFoundError:
        return "it is missing"
    if found != base.sha256 or size != base.bytes:
        partial.unlink()
        return "its SHA-256 is not that of the description"
    return adopt(partial, index, bytes.fromhex(base.data_id), base.lsn)


def adopt(partial: Path, index: Path, data_id: bytes, told_lsn: int) -> str:
    """Make a copy, which must end with an event, the tables of a new index; return its fault, empty
    without one. Raises OSError.
    """
    partial.replace(index / TABLES)
    try:
        # An older release may have written it.
        upgrade(index)
        lsn = _lsn_of(index, data_id)
    except IndexDamaged as damage:
        return str(damage)
    return "" if lsn == told_lsn else f"it ends with event {lsn}, and its description says another"


def advance(directory: Path, disk: Disk, data_id: bytes, last_lsn: int, index: Path) -> str:
    """Bring the base up to an event that ends a segment; durable when this returns.

    A damaged base is rebuilt, from the journal if that is complete, else from the index, which is
    at least as far; in that case the returned sentence says so, otherwise it is empty. Raises
    BaseDamaged, OSError, and the errors of folding the journal.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    with _locked(directory):
        for left in directory.glob("work-*"):
            shutil.rmtree(left, ignore_errors=True)
        with TemporaryDirectory(prefix="work-", dir=directory) as folder:
            return _advance(directory, disk, data_id, last_lsn, index, Path(folder))


def _advance(
    directory: Path, disk: Disk, data_id: bytes, last_lsn: int, index: Path, folder: Path
) -> str:
    first_lsn = first_lsn_of(disk)
    copied = folder / "copy"
    copied.mkdir()
    note = ""
    try:
        known = describe(directory, data_id)
        if known is not None and known.lsn >= last_lsn and _is_sound(directory, known):
            # The process that made it may have ended before its names were on the disk.
            sync_directory(directory)
            return ""
        if known is not None or first_lsn > 1:
            restore(directory, data_id, folder / INDEX, first_lsn)
    except BaseDamaged as damage:
        note = str(damage)
    if note and first_lsn > 1:
        lsn = _copy_index(index, data_id, copied)
    else:
        lsn = last_lsn
        _fold(disk, folder / INDEX, data_id, last_lsn, copied)
    publish(directory, copied / TABLES, lsn, data_id)
    return f"{note}. It was rebuilt" if note else ""


def _fold(disk: Disk, path: Path, data_id: bytes, last_lsn: int, copied: Path) -> None:
    """Bring the restored tables up to an event, and copy them."""
    index = Index(path, data_id, clusters=False)
    try:
        for _ in folded(index, disk, last_lsn):
            pass
        assert index.lsn == last_lsn, "a base ends where a segment ends"
        index.tables.copy_to(copied)
    finally:
        index.close()


def _copy_index(index: Path, data_id: bytes, copied: Path) -> int:
    """Copy the index as it is now; return the LSN of the copy. Raises IndexDamaged.

    There will be no other copy to compare it with, so the whole copy is read first.
    """
    tables = open_for_reading(index, data_id)
    try:
        tables.copy_to(copied)
    finally:
        tables.close()
    check(copied, clusters=False)
    return _lsn_of(copied, data_id)


def _lsn_of(path: Path, data_id: bytes) -> int:
    """The LSN of tables."""
    tables = open_for_reading(path, data_id)
    try:
        with tables.read() as txn:
            return tables.position(txn)[0]
    finally:
        tables.close()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Wait until no process that a killed broker left is working here."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def publish(directory: Path, copied: Path, lsn: int, data_id: bytes) -> None:
    """Make the description name a new copy of the tables, then remove the old one."""
    name = name_of(lsn)
    with copied.open("rb") as file:
        os.fsync(file.fileno())
    copied.replace(directory / name)
    found = sha256_of(directory / name)
    base = Base(lsn, name, (directory / name).stat().st_size, found, data_id.hex())
    partial = directory / f"{BASE_DESCRIPTION}.partial"
    with partial.open("wb") as described:
        described.write(msgspec.json.format(msgspec.json.encode(base)) + b"\n")
        described.flush()
        os.fsync(described.fileno())
    sync_directory(directory)
    partial.replace(directory / BASE_DESCRIPTION)
    sync_directory(directory)
    for other in directory.glob("*.mdb"):
        if other.name != name:
            other.unlink()


def _is_sound(directory: Path, base: Base) -> bool:
    """Whether the file of a base matches its description."""
    try:
        return sha256_of(directory / base.file) == base.sha256
    except OSError:
        return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(source: Path, target: Path) -> tuple[str, int]:
    hasher = hashlib.sha256()
    size = 0
    with source.open("rb") as read, target.open("wb") as written:
        while chunk := read.read(_CHUNK_BYTES):
            hasher.update(chunk)
            size += len(chunk)
            written.write(chunk)
    return hasher.hexdigest(), size


def _wrong(path: Path, what: str) -> str:
    return (
        f"the base {path} cannot be used: {what}. It is the state before the first remaining "
        "segment, and without it no index can be rebuilt. Restore the directory from a copy that "
        "was made since the last segment left; or, if the archive has everything from event 1 on, "
        "fetch all of it with `journal archive fetch` and put the segments back"
    )
