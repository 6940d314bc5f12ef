"""The file with the progress of a replay, for both replays (ADR 17, 68).

It is locked while a replay runs, and replaced as a whole, so a killed replay resumes from what it
saved last. Fault model: the file may be missing, of another version, or no such file at all; two
processes may use the same one; the disk may be full. Must never know what is replayed, or where to.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from daybook.errors import DaybookError


class Versioned(Protocol):
    """A struct with the version of its format."""

    version: int


Progress = TypeVar("Progress", bound=Versioned)


class ProgressFileError(DaybookError):
    """The file is in use, or does not have the progress of a replay."""


class NotSaved(DaybookError):
    """The file cannot be written."""


class ProgressFile(Generic[Progress]):
    """The file at a path; `hint` ends the sentence about a file that has no progress."""

    def __init__(self, path: Path, kind: type[Progress], version: int, hint: str) -> None:
        self.path: Final = path
        self._kind: Final = kind
        self._version: Final = version
        self._hint: Final = hint

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from running the same replay. Raises ProgressFileError, OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ProgressFileError(
                    f"another process runs this replay: {self.path} is in use; wait until it is "
                    "done"
                ) from None
            yield
        finally:
            os.close(lock)

    def load(self) -> Progress | None:
        """Load the progress, None if there is no file. Raises ProgressFileError and OSError."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        found: Progress | None = None
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found = msgspec.json.decode(text, type=self._kind)
        if found is None or found.version != self._version:
            raise ProgressFileError(
                f"{self.path} is not the state of a replay, or is that of another version of "
                f"Daybook: name another file, or {self._hint}"
            )
        return found

    def save(self, progress: Progress) -> None:
        """Replace the file, durably. Raises NotSaved."""
        made = self.path.with_name(self.path.name + ".new")
        try:
            with made.open("wb") as written:
                written.write(msgspec.json.format(msgspec.json.encode(progress), indent=2) + b"\n")
                written.flush()
                os.fsync(written.fileno())
            made.replace(self.path)
        except OSError as error:
            with suppress(OSError):
                made.unlink(missing_ok=True)
            raise NotSaved(
                f"{self.path}: {error.strerror}: the progress of the replay cannot be noted. Make "
                "room, or write access, and repeat the command: messages that are not noted are "
                "sent again, and dropped by an address that remembers their ids"
            ) from error
