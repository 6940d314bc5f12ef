"""Cutting the power: synced writes of the black box stay, of the others any may.

Fault model: that of `tools.drills.disks.fault_model`, but that a change of size may be lost by
itself. The real disk did get everything (the processes were killed, not the machine), so the
folders are rebuilt from what the black box noted.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from daybook.tools.drills.disks.fault_model import LIKELIHOODS, sectors

LOCK_FILE: Final = "lock.mdb"
SOURCE: Final = Path(__file__).with_name("blackbox.c")
_RECORD: Final = Struct("=B3xIQQQ")
CREATE, WRITE, SYNC, SIZE, RENAME, REMOVE, SYNC_FOLDER, SYNCED_WRITE = range(1, 9)


class Record(NamedTuple):
    """One thing that happened to the folder, and in which process."""

    kind: int
    inode: int
    offset: int
    data: bytes
    process: int


def read_records(log: Path) -> Iterator[Record]:
    """The records of the black box, in order; the last one may be cut."""
    content = log.read_bytes() if log.exists() else b""
    position = 0
    while position + _RECORD.size <= len(content):
        kind, process, inode, offset, length = _RECORD.unpack_from(content, position)
        position += _RECORD.size
        data = content[position : position + length]
        if len(data) < length:
            return
        position += length
        yield Record(kind, inode, offset, data, process)


class PlatterFile:
    """A file as the platter has it, and what is on the way to it."""

    def __init__(self, content: bytes = b"") -> None:
        self.content: Final = bytearray(content)
        self.unsynced: Final[list[Record]] = []

    def change(self, record: Record) -> None:
        """Carry out a write or a change of size whole."""
        if record.kind == SIZE:
            self._resize(record.offset)
        else:
            self._put(record.data, record.offset)

    def sync(self) -> None:
        """Writes in flight arrive."""
        for record in self.unsynced:
            self.change(record)
        self.unsynced.clear()

    def cut(self, chance: random.Random, likely: float) -> None:
        """The power goes: each sector on the way has arrived with this likelihood."""
        for record in self.unsynced:
            if record.kind == SIZE:
                if chance.random() < likely:
                    self._resize(record.offset)
                continue
            for start, stop in sectors(record.offset, record.offset + len(record.data)):
                if chance.random() < likely:
                    self._put(record.data[start - record.offset : stop - record.offset], start)
        self.unsynced.clear()

    def copy(self) -> "PlatterFile":
        """The same file, to be cut by itself."""
        copy = PlatterFile(bytes(self.content))
        copy.unsynced.extend(self.unsynced)
        return copy

    def _put(self, data: bytes, offset: int) -> None:
        self._resize(max(offset + len(data), len(self.content)))
        self.content[offset : offset + len(data)] = data

    def _resize(self, size: int) -> None:
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))


class Platter:
    """Folders as the platter has them: `names` (with that of their folder) are durable."""

    def __init__(self, *folders: Path) -> None:
        """Begin with what is in the folders, all of it durable."""
        self.folders = folders
        self.files: dict[int, PlatterFile] = {}
        self.names: dict[str, int] = {}
        for folder in folders:
            for path in folder.rglob("*"):
                if path.name == LOCK_FILE or not path.is_file():
                    continue
                inode = path.stat().st_ino
                self.files[inode] = PlatterFile(path.read_bytes())
                self.names[path.relative_to(folder.parent).as_posix()] = inode
        self.unsynced: list[Record] = []

    def copy(self) -> "Platter":
        """The same platter, to be cut by itself."""
        copy = Platter.__new__(Platter)
        copy.folders = self.folders
        copy.files = {inode: file.copy() for inode, file in self.files.items()}
        copy.names = dict(self.names)
        copy.unsynced = list(self.unsynced)
        return copy

    def play(self, record: Record) -> None:
        """Take in what happened next."""
        if record.kind in (CREATE, RENAME, REMOVE):
            if record.kind == CREATE:
                # A file system gives the inode of a removed file to the next one.
                self.files[record.inode] = PlatterFile()
            self.unsynced.append(record)
        elif record.kind == SYNC_FOLDER:
            later = []
            for change in self.unsynced:
                if change.data.partition(b"\0")[0].rpartition(b"/")[0] == record.data:
                    self._rename(change)
                else:
                    later.append(change)
            self.unsynced = later
        elif record.kind == SYNC:
            self.files[record.inode].sync()
        elif record.kind == SYNCED_WRITE:
            file = self.files[record.inode]
            file.unsynced[:] = [other for other in file.unsynced if other.offset != record.offset]
            file.change(record)
        else:
            self.files[record.inode].unsynced.append(record)

    def cut(self, chance: random.Random) -> None:
        """The power goes: of what is on the way, anything may have arrived."""
        for change in self.unsynced[: chance.randint(0, len(self.unsynced))]:
            self._rename(change)
        for file in self.files.values():
            file.cut(chance, chance.choice((0.0, *LIKELIHOODS)))

    def lose(self) -> None:
        """The power goes, and nothing of what is on the way has arrived."""
        self.unsynced.clear()
        for file in self.files.values():
            file.unsynced.clear()

    def _rename(self, record: Record) -> None:
        if record.kind == RENAME:
            old, new, _ = record.data.decode().split("\0")
            # A folder takes its files along.
            inside = [name for name in self.names if name == old or name.startswith(f"{old}/")]
            for name in inside:
                self.names[new + name.removeprefix(old)] = self.names.pop(name)
        elif record.kind == CREATE:
            self.names[record.data.decode()] = record.inode
        else:
            self.names.pop(record.data.decode(), None)

    def write(self) -> None:
        """Make the folders hold what the platter has, and nothing else."""
        for folder in self.folders:
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir(parents=True)
        for name, inode in self.names.items():
            path = self.folders[0].parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.files[inode].content)
