"""Archived segments as a Disk, so that whatever reads a journal can also read an archive.

A segment is fetched whole into an unnamed temporary file when it is opened, and checked against its
manifest meanwhile, so readers get exactly the archived bytes. Only the last segment is kept, so the
temporary folder (TMPDIR) needs room for two.

Fault model: an object may be missing, changed, cut short or unreachable. That raises an
ArchiveError with the object's URL, or calls `note` for a report, as the caller chooses.

Must never know: what a column means.
"""

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Final, Protocol

from daybook.journal.archive.manifest import ArchiveEntry, describe
from daybook.journal.archive.ranges import RangedFile
from daybook.journal.archive.store import Store
from daybook.journal.blocks.format import Damage, manifest_name
from daybook.journal.confirmed import UNBOUNDED
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
    """Return the fault of an object of this size and hash, "" without one."""
    if count != entry.bytes:
        return (
            f"it has {count} bytes instead of {entry.bytes}, so it is not the archived object; "
            f"restore it from another copy"
        )
    if sha256 != entry.sha256:
        return (
            f"its SHA-256 is {sha256} instead of {entry.sha256}, so it was changed since it was "
            "archived; restore it from another copy"
        )
    return ""


class Spool:
    """Files that are made whole, when they are opened, in unnamed temporary files.

    The last `kept_most` are kept, so the temporary folder needs room for one more.
    """

    def __init__(self, kept_most: int) -> None:
        self._kept_most: Final = kept_most
        self._kept: Final[dict[str, IO[bytes]]] = {}

    def open(self, name: str, fill: Callable[[IO[bytes]], None]) -> File:
        """Open a file, which `fill` writes if it is not kept; one that raises is not kept."""
        file = self._kept.pop(name, None)
        if file is None:
            while len(self._kept) >= self._kept_most:
                self._kept.pop(next(iter(self._kept))).close()
            file = _temporary_file()
            try:
                fill(file)
                file.flush()
            except BaseException:
                file.close()
                raise
        self._kept[name] = file
        return FetchedFile(os.dup(file.fileno()))

    def close(self) -> None:
        """Close the temporary files; open files stay open."""
        while self._kept:
            self._kept.popitem()[1].close()


class SpooledDisk(ReadOnly):
    """Segments that a function yields in pieces, for reading only."""

    def __init__(
        self,
        names: Sequence[str],
        pieces: Callable[[str], Iterator[bytes]],
        kept_most: int,
        remade: Container[str] = (),
    ) -> None:
        """Up to `kept_most` segments are kept in temporary files.

        `remade` has the names of opened segments whose blocks have other hashes than they had.
        """
        self.remade: Final = remade
        self._names: Final = sorted(names)
        self._pieces: Final = pieces
        self._spool: Final = Spool(kept_most)

    def open(self, name: str) -> File:
        """Open a segment; raises FileNotFoundError if there is none, and as the function does."""
        if not self.holds(name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._spool.open(name, lambda into: self._fill(name, into))

    def _fill(self, name: str, into: IO[bytes]) -> None:
        for piece in self._pieces(name):
            _write(into, piece)

    def names(self) -> list[str]:
        """Return the names of all segments."""
        return self._names

    def holds(self, name: str) -> bool:
        """Whether a segment is there."""
        return name in self._names

    def close(self) -> None:
        """Close the temporary files; open files stay open."""
        self._spool.close()


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
        self._spool: Final = Spool(1)
        self._store: Final = store
        self._snapshots: Final = snapshots
        self._entries: Final = {entry.segment: entry for entry in entries}
        self._note: Final = note

    def open(self, name: str) -> File:
        """Fetch and check a segment; raises FileNotFoundError if it is not archived."""
        if name in self._snapshots:
            return RangedFile(self._store, name, self._snapshots[name])
        entry = self._entries.get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._spool.open(name, lambda into: self._fetch(entry, into))

    def _fetch(self, entry: ArchiveEntry, into: IO[bytes]) -> None:
        """Fetch a segment; if faults are only noted, as much of it as is readable."""
        try:
            for piece in pieces_of(self._store, entry):
                _write(into, piece)
            into.flush()
            self._check_manifest(entry, FetchedFile(os.dup(into.fileno())))
        except ArchiveError as error:
            into.flush()
            if self._note is None:
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
        self._spool.close()


class Archived(Disk, Protocol):
    """A Disk of archived segments."""

    def holds(self, name: str) -> bool:
        """Whether a segment is archived."""
        ...


class JoinedDisk(ReadOnly):
    """An archive and the live journal that continues it, as one read-only journal.

    Segments that both have are read from the archive if `archive_first` is set; `remade` are as in
    `SpooledDisk`.
    """

    def __init__(self, archived: Archived, live: Disk, *, archive_first: bool) -> None:
        self._archived: Final = archived
        self._live: Final = live
        self._archive_first: Final = archive_first
        self.remade: Final[Container[str]] = getattr(archived, "remade", ())

    @property
    def confirmed_lsn(self) -> int:
        """The last event of the live journal that counts (`journal.confirmed`). Raises OSError."""
        return int(getattr(self._live, "confirmed_lsn", UNBOUNDED))

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
