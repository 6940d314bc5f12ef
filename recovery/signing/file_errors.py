"""Errors of files: which one it is, and whether the disk is full.

Must never know the content of a file.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daybook.journal.errors import DiskFull


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a file in the errors of writing it: those of the operating system name none."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def is_full(error: BaseException | None) -> bool:
    """Return whether an error is, or comes from, a disk without space."""
    while error is not None:
        is_named = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if is_named or isinstance(error, DiskFull):
            return True
        error = error.__cause__
    return False
