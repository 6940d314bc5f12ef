"""What a Disk says that is for reading only: everything that would change it is refused.

Must never know why it is for reading only.
"""

import errno
import os
from typing import NoReturn

from daybook.journal.disk import File


class ReadOnly:
    """The part of a Disk that writes, refused; archives are written by `Archive.put` alone."""

    def open_for_writing(self, name: str) -> File:
        """Refuse. Raises OSError."""
        refuse(name)

    def rename(self, old: str, new: str) -> None:
        """Refuse. Raises OSError."""
        refuse(old)

    def remove(self, name: str) -> None:
        """Refuse. Raises OSError."""
        refuse(name)

    def sync_directory(self) -> None:
        """Nothing to do: nothing is written."""


def refuse(name: str) -> NoReturn:
    """Raise what a file system raises that is mounted for reading only."""
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)
