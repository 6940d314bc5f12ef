"""A Parquet archive: its files, and the manifests that describe them.

    day=2026-11-20/FIRST-LAST.parquet   events of one segment and one day (UTC), in LSN order
    _daybook/FIRST.seg.json             manifest of a segment: written last, lists its files
    _daybook/FIRST.seg.proof            the segment's proof (`pipeline.proof`)
    _daybook/names.json                 what ids of addresses and queues stand for

A file that no manifest lists is not in the archive: it is left from an interrupted attempt, and the
next attempt replaces it. Listed files are never changed.

Fault model: as `journal.archive.store`; files are checked against the manifest when they are read.
Must never know Arrow, or which events are selected.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from daybook.journal.archive.store import Content, Store, open_store, without_password
from daybook.journal.blocks.format import NAME_DIGITS, segment_first_lsn, segment_name
from daybook.journal.errors import ArchiveError
from daybook.pipeline.naming import NameTable, NameTables

MANIFEST_FORMAT: Final = 1
ABOUT: Final = "_daybook"
NAMES: Final = "names.json"
MANIFEST_SUFFIX: Final = ".json"
PROOF_SUFFIX: Final = ".proof"
FILE_SUFFIX: Final = ".parquet"
FOLDER_PREFIX: Final = "day="
CHUNK_BYTES: Final = 1 << 20


class ParquetFile(msgspec.Struct, frozen=True):
    """A file of an archive: its path, the span of its events, and its SHA-256 (hex).

    Times are microseconds since 1970 UTC.
    """

    path: str
    first_lsn: int
    last_lsn: int
    time_min: int
    time_max: int
    bytes: int
    sha256: str

    @property
    def day(self) -> str:
        """The day of its events."""
        return self.path.partition("/")[0].removeprefix(FOLDER_PREFIX)


class ArchivedSegment(msgspec.Struct, frozen=True):
    """A segment that became Parquet, as its manifest describes it; hashes are hexadecimal.

    `exact` of its `blocks` could be rebuilt from Parquet with the same hash, with this version of
    zstd.
    """

    format: int
    segment: str
    first_lsn: int
    last_lsn: int
    data_id: str
    previous_hash: str
    last_hash: str
    proof_sha256: str
    blocks: int
    exact: int
    zstd: str
    files: tuple[ParquetFile, ...]

    @property
    def bytes(self) -> int:
        """Size of its files."""
        return sum(file.bytes for file in self.files)


class ArchivedNames(msgspec.Struct):
    """Names by id."""

    addresses: dict[int, str] = {}
    queues: dict[int, str] = {}


class Gap(msgspec.Struct, frozen=True):
    """Events that are missing between archived segments."""

    first_lsn: int
    last_lsn: int


def file_path(day: str, first_lsn: int, last_lsn: int) -> str:
    """Path of a file in an archive."""
    name = f"{first_lsn:0{NAME_DIGITS}d}-{last_lsn:0{NAME_DIGITS}d}{FILE_SUFFIX}"
    return f"{FOLDER_PREFIX}{day}/{name}"


def gaps_between(segments: Sequence[ArchivedSegment]) -> list[Gap]:
    """Return the gaps between segments that are sorted by LSN."""
    return [
        Gap(one.last_lsn + 1, other.first_lsn - 1)
        for one, other in pairwise(segments)
        if other.first_lsn != one.last_lsn + 1
    ]


def local_path(url: str) -> str:
    """Return the absolute path of a local URL or path, "" for any other URL."""
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # noqa: PLC0415
    from fsspec.implementations.local import (  # type: ignore[import-untyped]  # noqa: PLC0415
        LocalFileSystem,
    )

    files, path = url_to_fs(url)
    return str(path) if isinstance(files, LocalFileSystem) else ""


class ParquetArchive:
    """A Parquet archive at a local path or any URL that fsspec knows.

    Must not be shared between threads, nor used in a process that was forked after using one.
    """

    def __init__(self, url: str) -> None:
        """Raises ArchiveError if the URL is invalid or the package for it is missing."""
        self._base: Final = url.rstrip("/") or url
        self._stores: Final[dict[str, Store]] = {}
        self._folder(ABOUT)

    @property
    def url(self) -> str:
        """The URL, without passwords."""
        return without_password(self._base)

    @property
    def base(self) -> str:
        """The URL as it was given, for libraries that read the files themselves."""
        return self._base

    def url_of(self, path: str) -> str:
        """Return the URL of an object, without passwords."""
        return f"{self.url}/{path}"

    def _folder(self, name: str) -> Store:
        store = self._stores.get(name)
        if store is None:
            store = self._stores[name] = open_store(f"{self._base}/{name}", {})
        return store

    def _placed(self, path: str) -> tuple[Store, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def segments(self) -> tuple[ArchivedSegment, ...]:
        """Return all archived segments in the order of their LSNs; raises ArchiveError."""
        segments, faults = self.judged_segments()
        if faults:
            raise faults[0]
        return segments

    def judged_segments(self) -> tuple[tuple[ArchivedSegment, ...], list[ArchiveError]]:
        """Return all archived segments that have a sound manifest, and the faults of the others."""
        about = self._folder(ABOUT)
        segments, faults = [], []
        for name, content in about.read_small(sorted(filter(_is_manifest, about.sizes()))):
            try:
                segments.append(self._manifest(name, content))
            except ArchiveError as error:
                faults.append(error)
        return tuple(segments), faults

    def _manifest(self, name: str, content: Content) -> ArchivedSegment:
        if isinstance(content, ArchiveError):
            raise content
        url = self.url_of(f"{ABOUT}/{name}")
        try:
            found = msgspec.json.decode(content, type=ArchivedSegment)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ArchiveError(url, f"it is not a manifest of a segment: {error}") from error
        if found.format > MANIFEST_FORMAT:
            raise ArchiveError(
                url, f"it has manifest format {found.format}, this release reads {MANIFEST_FORMAT}"
            )
        if found.segment + MANIFEST_SUFFIX != name or not _adds_up(found):
            raise ArchiveError(url, f"its description of segment {found.segment} is inconsistent")
        return found

    def names(self) -> ArchivedNames:
        """Return the names by id; raises ArchiveError."""
        about = self._folder(ABOUT)
        if NAMES not in about.sizes():
            return ArchivedNames()
        try:
            return msgspec.json.decode(b"".join(about.read(NAMES)), type=ArchivedNames)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            url = about.url_of(NAMES)
            raise ArchiveError(url, f"it is not a table of names: {error}") from error

    def name_tables(self) -> NameTables:
        """Return the names as tables; raises ArchiveError."""
        names = self.names()
        return NameTables(names.addresses, names.queues)

    def add_names(self, tables: NameTables) -> None:
        """Add names to the archive; only one process at a time may. Raises ArchiveError."""
        known = self.names()
        joined = ArchivedNames(
            _joined(known.addresses, tables.addresses), _joined(known.queues, tables.queues)
        )
        if joined != known or not (known.addresses or known.queues):
            self._folder(ABOUT).write(NAMES, iter([msgspec.json.encode(joined)]))

    def put(self, path: str, content: Path) -> None:
        """Upload a local file, and verify it by reading it back. Raises ArchiveError."""
        store, name = self._placed(path)
        store.write(name, _pieces(content))
        with content.open("rb") as file:
            expected = hashlib.file_digest(file, "sha256").hexdigest()
        self._check(store, name, expected, "it differs from what was written when it is read back")

    def record(self, segment: ArchivedSegment, proof: bytes) -> None:
        """Write proof and manifest of a segment whose files are uploaded. Raises ArchiveError."""
        about = self._folder(ABOUT)
        name = segment.segment + PROOF_SUFFIX
        about.write(name, iter([proof]))
        self._check(
            about,
            name,
            segment.proof_sha256,
            "it differs from what was written when it is read back",
        )
        encoded = msgspec.json.format(msgspec.json.encode(segment), indent=1) + b"\n"
        about.write(segment.segment + MANIFEST_SUFFIX, iter([encoded]))

    def _check(self, store: Store, name: str, sha256: str, what: str) -> None:
        digest = hashlib.sha256()
        for piece in store.read(name):
            digest.update(piece)
        if digest.hexdigest() != sha256:
            raise ArchiveError(store.url_of(name), what)

    def proof(self, segment: ArchivedSegment) -> bytes:
        """Read the proof of a segment; raises ArchiveError if it was changed."""
        about = self._folder(ABOUT)
        name = segment.segment + PROOF_SUFFIX
        content = b"".join(about.read(name))
        if hashlib.sha256(content).hexdigest() != segment.proof_sha256:
            raise ArchiveError(about.url_of(name), _CHANGED)
        return content

    def fetch(self, file: ParquetFile, into: Path) -> None:
        """Copy a file; raises ArchiveError at its end if it was changed."""
        store, name = self._placed(file.path)
        digest = hashlib.sha256()
        with into.open("wb") as target:
            for piece in store.read(name):
                digest.update(piece)
                target.write(piece)
        if digest.hexdigest() != file.sha256:
            raise ArchiveError(store.url_of(name), _CHANGED)

    def misfits(self, files: Iterable[ParquetFile]) -> dict[str, ArchiveError]:
        """Return the files that are missing or have another size, by path.

        Raises ArchiveError if a folder cannot be listed.
        """
        folders: dict[str, dict[str, int]] = {}
        found = {}
        for file in files:
            folder, _, name = file.path.rpartition("/")
            if folder not in folders:
                folders[folder] = self._folder(folder).sizes()
            size = folders[folder].get(name)
            if size is None:
                found[file.path] = ArchiveError(self.url_of(file.path), "there is no such file")
            elif size != file.bytes:
                what = f"it has {size} bytes instead of the {file.bytes} that were written"
                found[file.path] = ArchiveError(self.url_of(file.path), what)
        return found

    def not_whole(self, segments: Iterable[ArchivedSegment]) -> dict[str, ArchiveError]:
        """Return the first fault of each segment with missing or resized files, by name.

        The content of files is not checked. Raises ArchiveError if a folder cannot be listed.
        """
        there = tuple(segments)
        sizes = self._folder(ABOUT).sizes()
        misfits = self.misfits(file for segment in there for file in segment.files)
        found = {}
        for segment in there:
            faults = [misfits[file.path] for file in segment.files if file.path in misfits]
            proof = segment.segment + PROOF_SUFFIX
            if not sizes.get(proof):
                faults.append(ArchiveError(self.url_of(f"{ABOUT}/{proof}"), "there is no proof"))
            if faults:
                found[segment.segment] = faults[0]
        return found

    def check(self, files: Sequence[ParquetFile]) -> None:
        """Raise ArchiveError if the content of a file was changed.

        A process reads each file only once, as long as its size and time of change stay the same;
        behind other URLs, which have no such time, as long as the size stays the same.
        """
        try:
            for fault in self.misfits(files).values():
                raise fault
            base = local_path(self._base)
            for file in files:
                place = f"{base}/{file.path}" if base else self.url_of(file.path)
                seen = (place, file.sha256, Path(place).stat().st_mtime_ns if base else 0)
                if seen not in _CHECKED:
                    self._check(*self._placed(file.path), file.sha256, _CHANGED)
                    _CHECKED.add(seen)
        except FileNotFoundError as error:
            raise ArchiveError(str(error.filename), f"there is no such file; {_MENDED}") from error
        except ArchiveError as error:
            raise ArchiveError(error.url, f"{error.what}; {_MENDED}") from error

    def unlisted(self, segments: Iterable[ArchivedSegment]) -> list[str]:
        """Return the paths of Parquet files that no manifest lists."""
        listed = {file.path for segment in segments for file in segment.files}
        folders = {path.rpartition("/")[0] for path in listed}
        there = {
            f"{folder}/{name}"
            for folder in folders
            for name in self._folder(folder).sizes()
            if name.endswith(FILE_SUFFIX)
        }
        return sorted(there - listed)


_CHANGED: Final = "it was changed since it was written: its SHA-256 differs from the manifest's"
_MENDED: Final = (
    "`daybook pipeline archive --verify` lists all faults; remove damaged files, and `daybook "
    "pipeline archive` writes them again from the segments"
)
_CHECKED: Final[set[tuple[str, str, int]]] = set()
"""Files that this process found unchanged: place, SHA-256, time of change."""


def _is_manifest(name: str) -> bool:
    segment = name.removesuffix(MANIFEST_SUFFIX)
    return segment != name and segment_first_lsn(segment) is not None


def _adds_up(segment: ArchivedSegment) -> bool:
    """Return whether the files cover all events of the segment, in order."""
    lsn = segment.first_lsn
    for file in segment.files:
        if file.first_lsn != lsn or file.path != file_path(file.day, lsn, file.last_lsn):
            return False
        lsn = file.last_lsn + 1
    return lsn == segment.last_lsn + 1 and segment.segment == segment_name(segment.first_lsn)


def _joined(known: dict[int, str], table: NameTable) -> dict[int, str]:
    """Return the names of both, sorted by id."""
    found = zip(table.ids.tolist(), table.names, strict=True)
    return dict(sorted((known | dict(found)).items()))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
