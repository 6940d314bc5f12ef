"""The errors of a journal; each text names the event, its place, and the remedy.

The tree of all errors that people see is in `daybook.errors`. Mistakes of our own code are not
here: they are AssertionErrors and stop the process.
"""

from daybook.errors import DaybookError


class JournalError(DaybookError):
    """Base of all errors that this package raises because of files, disks and operators."""


class NoJournal(JournalError):
    """There is no journal in the directory."""


class Locked(JournalError):
    """Another process holds the lock of the data directory; `pid` is 0 if it is not known."""

    def __init__(self, path: str, pid: int) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{path} is locked by {holder}: only one broker may use a data directory. "
            "Stop that process, or start with another data directory."
        )
        self.path = path
        self.pid = pid


class WrongLayout(JournalError):
    """The journal was written with a different row layout than the caller's."""


class NewerFormat(JournalError):
    """The segment's format version is newer than this release can read.

    `needs` says in words which release reads it; "" if that is not known.
    """

    def __init__(self, segment: str, version: int, known: int, needs: str) -> None:
        remedy = (
            f"it needs {needs}"
            if needs
            else "open the directory with the release that wrote it, or a later one"
        )
        super().__init__(
            f"segment {segment} has format version {version}, this release reads up to {known}: "
            f"{remedy}."
        )
        self.segment = segment
        self.version = version


class Corruption(JournalError):
    """Bytes that were once durable fail a check.

    `segment` is the file's name, `offset` the byte in it, `lsn` the first affected LSN.
    """

    def __init__(self, segment: str, offset: int, lsn: int, what: str) -> None:
        super().__init__(
            f"segment {segment}, offset {offset} (LSN {lsn}): {what}. Nothing was changed. "
            "Restore the segment from a copy; `journal verify` lists every damaged place."
        )
        self.segment = segment
        self.offset = offset
        self.lsn = lsn
        self.what = what


class ArchiveError(JournalError):
    """An archive, or one object in it, cannot be read or written, or is wrong.

    `url` says which; it never contains a password.
    """

    def __init__(self, url: str, what: str) -> None:
        super().__init__(f"{url}: {what}")
        self.url = url
        self.what = what


class DiskFull(JournalError):
    """No space for the next segment; the batch was not written and may be retried."""


class JournalFailed(JournalError):
    """A write or sync failed. The content of the disk is unknown; no more writes are accepted."""
