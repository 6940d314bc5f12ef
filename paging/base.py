"""The base: the state before the first live event, kept when retention takes segments away.

Without it an index could not be made anew from the segments that are left. It is a compact copy of
an index that ends with the last event removed, beside a description with its SHA-256; it is the
one part of a data directory besides the journal that is not derived from what is there. Fault
model: whatever happens, the description names a whole copy or the one before; what does not agree
with its hash is refused. Must never know when segments leave.
"""

import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from journal.block import Block
from journal.disk import Disk
from journal.reader import read_blocks
from paging.index import Index
from paging.layout import LAYOUT
from paging.tables import DATA_FILE

DESCRIPTION: Final = "base.json"
BATCH_BYTES: Final = 16 * 1024 * 1024
_CHUNK_BYTES: Final = 1 << 20


class BaseDamaged(Exception):
    """The base cannot be used; the text says what is wrong and where it can be had from."""


class Base(msgspec.Struct, frozen=True):
    """What the description says: `lsn` is the last event that the copy in `file` stands for."""

    lsn: int
    file: str
    bytes: int
    sha256: str
    data_id: str


def describe(directory: Path, data_id: bytes) -> Base | None:
    """Read the description of the base in a directory; None if there is none. BaseDamaged."""
    path = directory / DESCRIPTION
    try:
        base = msgspec.json.decode(path.read_bytes(), type=Base)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise BaseDamaged(_wrong(path, f"it cannot be read: {error}")) from error
    if base.data_id != data_id.hex():
        raise BaseDamaged(
            _wrong(path, f"it is of journal {base.data_id}, and this one is {data_id.hex()}")
        )
    return base


def restore(directory: Path, data_id: bytes, index: Path) -> int:
    """Put the base where an index is to be made; return its LSN. BaseDamaged, OSError."""
    base = describe(directory, data_id)
    if base is None:
        raise BaseDamaged(_wrong(directory / DESCRIPTION, "it is missing"))
    source = directory / base.file
    index.mkdir(mode=0o750, parents=True, exist_ok=True)
    partial = index / f"{DATA_FILE}.partial"
    try:
        found, size = _copy(source, partial)
    except FileNotFoundError as error:
        raise BaseDamaged(_wrong(source, "it is missing")) from error
    if found != base.sha256 or size != base.bytes:
        partial.unlink()
        raise BaseDamaged(_wrong(source, "its SHA-256 is not that of the description"))
    partial.replace(index / DATA_FILE)
    return base.lsn


def advance(directory: Path, disk: Disk, data_id: bytes, last_lsn: int) -> None:
    """Bring the base up to an event that ends a segment; durable when this returns.

    Raises BaseDamaged, OSError, and what folding the journal raises.
    """
    directory.mkdir(mode=0o750, exist_ok=True)
    known = describe(directory, data_id)
    if known is not None and known.lsn >= last_lsn:
        return
    with TemporaryDirectory(prefix="work-", dir=directory) as folder:
        work = Path(folder) / "index"
        if known is not None:
            restore(directory, data_id, work)
        index = Index(work, data_id, clusters=False)
        try:
            for batch in _batches(disk, index.lsn, last_lsn):
                index.advance(batch)
            assert index.lsn == last_lsn, "a base ends where a segment ends"
            copied = Path(folder) / "copy"
            copied.mkdir()
            index.tables.env.copy(str(copied), compact=True)
        finally:
            index.close()
        _publish(directory, copied / DATA_FILE, last_lsn, data_id)


def _batches(disk: Disk, after_lsn: int, last_lsn: int) -> Iterator[list[Block]]:
    batch: list[Block] = []
    size = 0
    for block in read_blocks(disk, LAYOUT, from_lsn=after_lsn + 1, to_lsn=last_lsn):
        if block.last_lsn <= after_lsn:
            continue
        batch.append(block)
        size += block.header.block_bytes
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _publish(directory: Path, copied: Path, lsn: int, data_id: bytes) -> None:
    """Have the description name the new copy, then let go of the old one."""
    name = f"{lsn:020d}.mdb"
    with copied.open("rb") as file:
        os.fsync(file.fileno())
    copied.replace(directory / name)
    found, size = _hash(directory / name)
    base = Base(lsn, name, size, found, data_id.hex())
    partial = directory / f"{DESCRIPTION}.partial"
    with partial.open("wb") as described:
        described.write(msgspec.json.format(msgspec.json.encode(base)) + b"\n")
        described.flush()
        os.fsync(described.fileno())
    _sync(directory)
    partial.replace(directory / DESCRIPTION)
    _sync(directory)
    for other in directory.glob("*.mdb"):
        if other.name != name:
            other.unlink()
    for left in directory.glob("work-*"):
        if left.name != copied.parent.parent.name:
            shutil.rmtree(left, ignore_errors=True)


def _sync(directory: Path) -> None:
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _copy(source: Path, target: Path) -> tuple[str, int]:
    hasher = sha256()
    size = 0
    with source.open("rb") as read, target.open("wb") as written:
        while chunk := read.read(_CHUNK_BYTES):
            hasher.update(chunk)
            size += len(chunk)
            written.write(chunk)
    return hasher.hexdigest(), size


def _hash(path: Path) -> tuple[str, int]:
    hasher = sha256()
    size = 0
    with path.open("rb") as read:
        while chunk := read.read(_CHUNK_BYTES):
            hasher.update(chunk)
            size += len(chunk)
    return hasher.hexdigest(), size


def _wrong(path: Path, what: str) -> str:
    return (
        f"the base {path} cannot be used: {what}. It is the state before the first segment that is "
        "left, and needed only when the index must be made anew; restore it from a copy, or fetch "
        "the segments before with `journal archive fetch`"
    )
