"""The results of `journal verify` so far, in a separate file, so that it can be resumed.

A segment that was found sound is remembered with the SHA-256 of its whole file, a range of the fold
with the hashes of the blocks at its ends: changed parts are verified again. Faults are not
remembered. Fault model: the file may be missing, unreadable, torn, damaged, of another journal or
of another version; then all is verified, and `note` says why. It may be impossible to write; then
the verdict is the same, and `keep` says why. A file that does not begin as a state is something
else, and is left alone. It lies outside of the data directory.
"""

import hashlib
import os
import time
from pathlib import Path
from typing import Final

import click
import msgspec

from daybook.history.verification.verify_work import CheckedSegment, FoldedRange
from daybook.recovery.signing.file_errors import naming
from daybook.version import VERSION

MAGIC: Final = b"daybook verify state "
"""The file begins with it, so that no other file is ever replaced."""
FORMAT: Final = 2
SAVE_SECONDS: Final = 1.0
"""The least time between two writes, so that they cost nothing; the last one is at the end."""


class Verified(msgspec.Struct):
    """The content of the file."""

    format: int
    version: str
    data_id: str
    segments: dict[str, CheckedSegment] = {}
    ranges: dict[str, FoldedRange] = {}


def default_path(data_id: str) -> Path:
    """Return where the state of a journal is kept unless a file is named. Raises UsageError."""
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    except RuntimeError as error:
        raise click.UsageError(
            "this user has no home directory to keep the state in; name a file with --state"
        ) from error
    return Path(cache) / "daybook" / f"verify-{data_id}.state"


def _no_state(path: Path) -> click.UsageError:
    return click.UsageError(
        f"{path} is not a state of `journal verify`, and was not changed; name another file with "
        "--state"
    )


class VerifyState:
    """The file of one journal. `note` says why an existing one is not used, "" if it is."""

    def __init__(self, path: Path, data: Path, data_id: str) -> None:
        """Read the file if there is one. Raises UsageError if it lies in `data` or is something
        else."""
        if path.resolve().is_relative_to(data.resolve()):
            raise click.UsageError(
                f"the state must not lie in the directory that is verified: {path}; name a file "
                "elsewhere with --state"
            )
        self.path: Final = path
        self.note = ""
        self._saved = time.monotonic()
        self._kept = Verified(FORMAT, VERSION, data_id)
        try:
            self._read()
        except FileNotFoundError:
            return
        except OSError as error:
            self.note = (
                f"the state in {path} cannot be read ({error.strerror}); everything is verified "
                "again"
            )

    def _read(self) -> None:
        if not self.path.is_file() and self.path.exists():
            raise _no_state(self.path)
        with self.path.open("rb") as file:
            begin = file.read(len(MAGIC))
            if not MAGIC.startswith(begin) and begin.strip(b"\0"):
                raise _no_state(self.path)
            digest, _, content = file.read().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() != digest:
            self.note = f"the state in {self.path} is damaged; everything is verified again"
            return
        try:
            found = msgspec.json.decode(content, type=Verified)
        except (msgspec.MsgspecError, ValueError):
            found = Verified(0, "?", "")
        if (found.format, found.version) != (FORMAT, VERSION):
            self.note = (
                f"the state in {self.path} is of another version of Daybook; everything is "
                "verified again"
            )
        elif found.data_id != self._kept.data_id:
            self.note = f"the state in {self.path} is of another journal and is replaced"
        else:
            self._kept = found

    def segment(self, name: str) -> CheckedSegment | None:
        """Return the remembered check of a segment."""
        return self._kept.segments.get(name)

    def range(self, key: str) -> FoldedRange | None:
        """Return the remembered fold of a range."""
        return self._kept.ranges.get(key)

    @property
    def range_count(self) -> int:
        """How many ranges of the fold are remembered."""
        return len(self._kept.ranges)

    def keep_segment(self, name: str, checked: CheckedSegment) -> None:
        """Remember a segment if it is sound."""
        if checked.check.faults or checked.check.tail is not None:
            self._kept.segments.pop(name, None)
        else:
            self._kept.segments[name] = checked
        self._save_now_and_then()

    def keep_range(self, key: str, folded: FoldedRange) -> None:
        """Remember the fold of a range if it has no faults."""
        if not (folded.wrong or folded.unusable or folded.broken):
            self._kept.ranges[key] = folded
            self._save_now_and_then()

    def forget_others(self, names: set[str], keys: set[str]) -> None:
        """Forget segments and ranges that the journal no longer has."""
        for kept, current in ((self._kept.segments, names), (self._kept.ranges, keys)):
            for each in set(kept) - current:
                del kept[each]

    def _save_now_and_then(self) -> None:
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            # The verdict does not depend on it; the last attempt is reported.
            self.keep()

    def keep(self) -> str:
        """Write the file, whole or not at all; return why that failed, "" if it did not."""
        try:
            self.save()
        except OSError as error:
            self._saved = time.monotonic()
            return f"the results could not be kept for the next time: {self.path}: {error.strerror}"
        return ""

    def save(self) -> None:
        """Write the file, whole or not at all. Raises OSError."""
        content = msgspec.json.encode(self._kept)
        digest = hashlib.sha256(content).hexdigest().encode()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with naming(self.path), os.fdopen(descriptor, "wb") as file:
                file.write(MAGIC + digest + b"\n" + content)
            partial.replace(self.path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        self._saved = time.monotonic()
