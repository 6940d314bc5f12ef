"""The file `tag-key`: the secret by which the broker recognises tags that it gave to deliveries.

It is made when it is missing or not as long as it should be, by whatever accident. Older tags
mean nothing then, and their messages are delivered again. So no copy and no backup needs it. A
reader of the file with the right to receive could settle messages of others. Fault model: the file
may be missing, may contain anything, and there may be no room for it; then the key lasts as long as
the process. Must never know what a tag is of.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import TAG_KEY

KEY_BYTES: Final = 32
_NEW: Final = f"{TAG_KEY}.new"


def tag_key(path: Path) -> bytes:
    """Return the key of a data directory, which only its broker may ask for."""
    with suppress(OSError):
        key = _read(path / TAG_KEY)
        if len(key) == KEY_BYTES:
            return key
    key = secrets.token_bytes(KEY_BYTES)
    with suppress(OSError):
        _write(path / _NEW, key)
        (path / _NEW).replace(path / TAG_KEY)
    return key


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(KEY_BYTES + 1)


def _write(path: Path, key: bytes) -> None:
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
