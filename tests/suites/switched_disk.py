"""A directory whose faults are switched on and off by files beside it: also from another process.

The parent of a forked writer does not see its changes to objects, but it sees files.
"""

import errno
import os
from pathlib import Path
from typing import Final

from daybook.journal.disk import File, RealDisk


class SwitchedFile:
    """An open file of a SwitchedDisk."""

    def __init__(self, disk: "SwitchedDisk", file: File) -> None:
        self._disk: Final = disk
        self._file: Final = file

    def pread(self, count: int, offset: int) -> bytes:
        return self._file.pread(count, offset)

    def pwrite(self, data: bytes, offset: int) -> int:
        self._disk.may_fail("pwrite")
        return self._file.pwrite(data, offset)

    def fdatasync(self) -> None:
        self._disk.may_fail("fdatasync")
        self._file.fdatasync()

    def forget(self) -> None:
        self._file.forget()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def allocate(self, size: int) -> None:
        self._disk.may_fail("allocate")
        self._disk.check_room()
        self._file.allocate(size)

    def size(self) -> int:
        return self._file.size()

    def links(self) -> int:
        return self._file.links()

    def close(self) -> None:
        self._file.close()


class SwitchedDisk:
    """The disk `journal` in a directory, and the switches in `switches`."""

    def __init__(self, directory: Path) -> None:
        self._disk: Final = RealDisk(directory / "journal")
        self._switches: Final = directory / "switches"
        self._disk.create()
        self._switches.mkdir()

    def fail_next(self, call: str) -> None:
        """Let the next call of this name end in EIO."""
        (self._switches / call).touch()

    def fill(self) -> None:
        """Let there be no room for anything more."""
        (self._switches / "full").touch()

    def free(self) -> None:
        """Let there be room again."""
        (self._switches / "full").unlink()

    def refusals(self) -> int:
        """How often there was no room."""
        refused = self._switches / "refused"
        return refused.stat().st_size if refused.exists() else 0

    def may_fail(self, call: str) -> None:
        switch = self._switches / call
        if switch.exists():
            switch.unlink()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def check_room(self) -> None:
        if (self._switches / "full").exists():
            with (self._switches / "refused").open("ab") as refused:
                refused.write(b".")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, name: str) -> SwitchedFile:
        return SwitchedFile(self, self._disk.open(name))

    def open_for_writing(self, name: str) -> SwitchedFile:
        return SwitchedFile(self, self._disk.open_for_writing(name))

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(old, new)

    def remove(self, name: str) -> None:
        self._disk.remove(name)

    def names(self) -> list[str]:
        return self._disk.names()

    def sync_directory(self) -> None:
        self._disk.sync_directory()
