"""Archived segments as a Disk, so that whatever reads a journal can also read an archive.

A segment is fetched whole into an unnamed temporary file when it is opened, and checked against its
manifest meanwhile, so readers get exactly what was archived. Only the last segment is kept, so the
temporary folder (TMPDIR) needs room for two.

Fault model: an object may be missing, changed, cut short or unreachable. That raises an
ArchiveError with the object's URL, or calls `note` for a report, as the caller chooses.

Must never know: what a column means.
"""

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Final, Protocol

from daybook.journal.archive.manifest import ArchiveEntry, describe
from daybook.journal.archive.ranges import RangedFile
from daybook.journal.archive.store import Store
from daybook.journal.blocks.format import Damage, manifest_name
from daybook.journal.disk import Disk, File, RealFile
from daybook.journal.errors import ArchiveError, JournalError
from daybook.journal.read_only import ReadOnly
from daybook.journal.segments.segment import check_segment


class FetchedFile(RealFile):
    """A fetched object; its file has no name, although it was not deleted."""

    def forget(self) -> None:
        """Nothing to do: archived objects do not change."""

    def links(self) -> int:
        """One, as long as it is open."""
        return 1


def pieces_of(store: Store, entry: ArchiveEntry) -> Iterator[bytes]:
    """Read an archived segment in pieces; raises ArchiveError at the end if its content changed."""
    digest = hashlib.sha256()
    count = 0
    for piece in store.read(entry.segment):
        digest.update(piece)
        count += len(piece)
        yield piece
    wrong = difference(entry, count, digest.hexdigest())
    if wrong:
        raise ArchiveError(store.url_of(entry.segment), wrong)


def difference(entry: ArchiveEntry, count: int, sha256: str) -> str:
    """Return what is wrong with an object of this size and hash, "" if nothing is."""
    if count != entry.bytes:
        return (
            f"it has {count} bytes instead of {entry.bytes}, so it is not what was archived; "
            "restore it from another copy"
        )
    if sha256 != entry.sha256:
        return (
            f"its SHA-256 is {sha256} instead of {entry.sha256}, so it was changed since it was "
            "archived; restore it from another copy"
        )
    return ""


class ArchiveDisk(ReadOnly):
    """Archived segments and snapshots, and their manifests, by name; for reading only."""

    def __init__(
        self,
        store: Store,
        entries: Sequence[ArchiveEntry],
        note: Callable[[str, str], None] | None = None,
        snapshots: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`note(segment, what)` is called for a faulty object; None raises ArchiveError instead.

        `snapshots` are the sizes of snapshots and their manifests by name; readers must check
        them.
        """
        self._store: Final = store
        self._snapshots: Final = snapshots
        self._entries: Final = {entry.segment: entry for entry in entries}
        self._note: Final = note
        self._kept_name = ""
        self._kept: IO[bytes] | None = None

    def open(self, name: str) -> File:
        """Fetch and check a segment; raises FileNotFoundError if it is not archived."""
        if name in self._snapshots:
            return RangedFile(self._store, name, self._snapshots[name])
        entry = self._entries.get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        if self._kept is None or self._kept_name != name:
            self.close()
            self._kept = _temporary_file()
            self._kept_name = name
            self._fetch(entry, self._kept)
        return FetchedFile(os.dup(self._kept.fileno()))

    def _fetch(self, entry: ArchiveEntry, into: IO[bytes]) -> None:
        """Fetch a segment; if faults are only noted, as much of it as can be read."""
        try:
            for piece in pieces_of(self._store, entry):
                _write(into, piece)
            into.flush()
            self._check_manifest(entry, FetchedFile(os.dup(into.fileno())))
        except ArchiveError as error:
            into.flush()
            if self._note is None:
                self.close()
                raise
            self._note(entry.segment, error.what)

    def _check_manifest(self, entry: ArchiveEntry, file: File) -> None:
        """Check that the manifest agrees with the segment's own header and footer."""
        try:
            segment = check_segment(file, entry.segment)
            try:
                found = describe(
                    segment, sha256=entry.sha256, archived_at=entry.archived_at,
                    owner=bytes.fromhex(entry.owner),
                )  # fmt: skip
            finally:
                segment.close()
        except (JournalError, Damage):
            # Readers of the blocks report that damage, with the offset.
            return
        if found != entry:
            url = self._store.url_of(manifest_name(entry.segment))
            raise ArchiveError(
                self._store.url_of(entry.segment),
                f"its manifest {url} does not agree with the segment's header and footer; "
                "restore the manifest from another copy",
            )

    def names(self) -> list[str]:
        """Return the names of all segments and snapshots, and of their manifests."""
        return sorted([*self._entries, *map(manifest_name, self._entries), *self._snapshots])

    def holds(self, name: str) -> bool:
        """Whether a segment is archived."""
        return name in self._entries

    def close(self) -> None:
        """Close the temporary file of the segment that was opened last; open files stay open."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None


class Archived(Disk, Protocol):
    """A Disk of archived segments."""

    def holds(self, name: str) -> bool:
        """Whether a segment is archived."""
        ...


class JoinedDisk(ReadOnly):
    """An archive and the live journal that continues it, as one read-only journal.

    Segments that both have are read from the archive if `archive_first` is set.
    """

    def __init__(self, archived: Archived, live: Disk, *, archive_first: bool) -> None:
        self._archived: Final = archived
        self._live: Final = live
        self._archive_first: Final = archive_first

    def open(self, name: str) -> File:
        """Open a segment from either place; raises FileNotFoundError if neither has it."""
        if self._archive_first and self._archived.holds(name):
            return self._archived.open(name)
        try:
            return self._live.open(name)
        except FileNotFoundError:
            return self._archived.open(name)

    def names(self) -> list[str]:
        """Return the names of all files in both."""
        return sorted({*self._archived.names(), *self._live.names()})


def _temporary_file() -> IO[bytes]:
    """Create an unnamed file; raises JournalError."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise _no_room(error) from error


def _write(into: IO[bytes], piece: bytes) -> None:
    try:
        into.write(piece)
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> JournalError:
    return JournalError(
        f"a segment of the archive cannot be stored for reading: {error}; set TMPDIR to a folder "
        "that has room for it"
    )
