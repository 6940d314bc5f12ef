"""A disk that records unsynced writes for a power cut, that is slow, or that has little room.

Before each change a record of the former content is appended to a log beside the journal, and a
record after each sync. When the broker was killed, `cut_power` reads the log and undoes unsynced
writes: each sector of 512 bytes by chance, sizes and names in order. So the journal has the bytes
that a disk without its cache may have. Fault model: the process may be killed between any two
calls; a record that was cut short belongs to a change that was not made.

The index is not written through this disk. Must never know the meaning of the bytes.
"""

import errno
import os
import random
import time
from pathlib import Path
from typing import Final

import msgspec

from daybook.journal.disk import RealDisk, RealFile
from daybook.journal.spares import open_descriptor
from daybook.tools.drills.disks.fault_model import LIKELIHOODS, sectors

HEAD_BYTES: Final = 4
STALL_EVERY: Final = 40
STALL_TIMES: Final = 10
"""Every so many syncs on average takes so many times as long."""
HANG_STEP_SECONDS: Final = 0.01


class DiskPlan(msgspec.Struct, frozen=True):
    """The behaviour of a disk: `log` is the file of records, "" for none; each sync takes
    `delay_ms` more; `room` is a file with the number of bytes that all files may take, "" for no
    limit; no sync returns while there is a file `hang`, "" for none.
    """

    log: str = ""
    delay_ms: float = 0.0
    room: str = ""
    hang: str = ""


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """A change of a file that was about to be made, or a sync that was done."""

    what: str
    inode: int = 0
    offset: int = 0
    before: bytes = b""
    size: int = 0
    name: str = ""
    old_name: str = ""


class _Notes:
    """The log of a disk, shared by all processes that write to it."""

    def __init__(self, plan: DiskPlan) -> None:
        self.plan: Final = plan
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._descriptor: Final = os.open(plan.log, flags, 0o600) if plan.log else -1
        self._syncs = 0

    def note(self, record: _Record) -> None:
        """Append a record with one write."""
        if self._descriptor >= 0:
            packed = msgspec.msgpack.encode(record)
            os.write(self._descriptor, len(packed).to_bytes(HEAD_BYTES, "little") + packed)

    def delay(self) -> None:
        """Wait as long as a slow disk takes; sometimes far longer."""
        if self.plan.delay_ms:
            self._syncs += 1
            times = STALL_TIMES if self._syncs % STALL_EVERY == 0 else 1
            time.sleep(self.plan.delay_ms * times / 1000)
        while self.plan.hang and Path(self.plan.hang).exists():
            time.sleep(HANG_STEP_SECONDS)


class NotingFile(RealFile):
    """An open file whose changes are noted."""

    def __init__(self, descriptor: int, notes: _Notes, disk: "NotingDisk") -> None:
        super().__init__(descriptor)
        self._notes: Final = notes
        self._disk: Final = disk
        self._inode: Final = os.fstat(descriptor).st_ino

    def pwrite(self, data: bytes, offset: int) -> int:
        """Record the former content, and write."""
        before = self.pread(len(data), offset)
        self._notes.note(_Record("write", self._inode, offset, before, self.size()))
        return super().pwrite(data, offset)

    def fdatasync(self) -> None:
        """Wait as a slow disk does, sync, and note that."""
        self._notes.delay()
        super().fdatasync()
        self._notes.note(_Record("sync", self._inode))

    def truncate(self, size: int) -> None:
        """Note the end that is cut off, and cut or extend."""
        before = self.pread(max(0, self.size() - size), size).rstrip(b"\0")
        self._notes.note(_Record("size", self._inode, size, before, self.size()))
        super().truncate(size)

    def allocate(self, size: int) -> None:
        """Reserve space, if there is room."""
        self._disk.check_room(size - self.size())
        self._notes.note(_Record("size", self._inode, size, b"", self.size()))
        super().allocate(size)


class NotingDisk(RealDisk):
    """A directory whose changes are noted."""

    def __init__(self, path: Path | str, plan: DiskPlan) -> None:
        super().__init__(path)
        self._notes: Final = _Notes(plan)

    def open_for_writing(self, name: str) -> NotingFile:
        """Open a file for reading and writing, creating it if need be."""
        path = self.path / name
        if not path.exists():
            self._notes.note(_Record("create", name=name))
        descriptor = open_descriptor(path, os.O_RDWR | os.O_CREAT, 0o600)
        return NotingFile(descriptor, self._notes, self)

    def rename(self, old: str, new: str) -> None:
        """Rename a file."""
        self._notes.note(_Record("rename", name=new, old_name=old))
        super().rename(old, new)

    def sync_directory(self) -> None:
        """Make names durable, and note that."""
        super().sync_directory()
        self._notes.note(_Record("names"))

    def check_room(self, count: int) -> None:
        """Raise OSError (ENOSPC) if so many more bytes do not fit."""
        if not self._notes.plan.room:
            return
        room = int(Path(self._notes.plan.room).read_text("ascii"))
        used = sum(path.stat().st_size for path in self.path.iterdir())
        if used + count > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


class Lost(msgspec.Struct):
    """The losses of a power cut."""

    sectors: int = 0
    sizes: int = 0
    names: int = 0


def cut_power(journal: Path, log: Path, chance: random.Random) -> Lost:
    """Undo unsynced writes by chance in a journal whose broker is dead; empty the log."""
    changes: dict[int, list[_Record]] = {}
    names: list[_Record] = []
    for record in _records(log):
        if record.what == "sync":
            changes.pop(record.inode, None)
        elif record.what == "names":
            names.clear()
        elif record.inode:
            changes.setdefault(record.inode, []).append(record)
        else:
            names.append(record)
    lost = Lost()
    files = {path.stat().st_ino: path for path in journal.iterdir()} if journal.exists() else {}
    for inode, records in changes.items():
        if inode in files:
            _undo(files[inode], records, chance, lost)
    kept = chance.randint(0, len(names))
    for record in reversed(names[kept:]):
        _undo_name(journal, record, lost)
    log.write_bytes(b"")
    return lost


def _records(log: Path) -> list[_Record]:
    content = log.read_bytes() if log.exists() else b""
    found = []
    position = 0
    while position + HEAD_BYTES <= len(content):
        size = int.from_bytes(content[position : position + HEAD_BYTES], "little")
        position += HEAD_BYTES
        if position + size > len(content):
            break
        found.append(msgspec.msgpack.decode(content[position : position + size], type=_Record))
        position += size
    return found


def _undo(path: Path, records: list[_Record], chance: random.Random, lost: Lost) -> None:
    """Undo changes of a file that were not synced, the last one first."""
    likely = chance.choice(LIKELIHOODS)
    with path.open("r+b") as file:
        for record in reversed(records):
            if record.what == "write":
                _undo_sectors(file.fileno(), record, chance, likely, lost)
            elif chance.random() < likely:
                # Reserved space stays: losing a size needs the sizes after it lost, too.
                if record.size > record.offset:
                    file.truncate(record.size)
                    os.pwrite(file.fileno(), record.before, record.offset)
                    lost.sizes += 1
                else:
                    break


def _undo_sectors(
    descriptor: int, record: _Record, chance: random.Random, likely: float, lost: Lost
) -> None:
    for start, stop in sectors(record.offset, record.offset + len(record.before)):
        if chance.random() < likely:
            before = record.before[start - record.offset : stop - record.offset]
            if os.pread(descriptor, len(before), start) != before:
                os.pwrite(descriptor, before, start)
                lost.sectors += 1


def _undo_name(journal: Path, record: _Record, lost: Lost) -> None:
    path = journal / record.name
    if not path.exists():
        return
    lost.names += 1
    if record.what == "create":
        path.unlink()
    else:
        path.rename(journal / record.old_name)
