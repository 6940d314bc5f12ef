"""The writing methods of a read-only Disk: all are refused.

Must never know why the Disk is read-only.
"""

import errno
import os
from typing import NoReturn

from daybook.journal.disk import File


class ReadOnly:
    """The writing methods of a Disk, refused; only `Archive.put` writes archives."""

    def open_for_writing(self, name: str) -> File:
        """Always raises OSError (EROFS)."""
        refuse(name)

    def rename(self, old: str, new: str) -> None:
        """Always raises OSError (EROFS)."""
        refuse(old)

    def remove(self, name: str) -> None:
        """Always raises OSError (EROFS)."""
        refuse(name)

    def sync_directory(self) -> None:
        """Nothing to do: the disk is read-only."""


def refuse(name: str) -> NoReturn:
    """Raise the OSError of a file system that is mounted read-only."""
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)
