"""The archive: sealed segments that leave the live journal, kept as objects with manifests.

Each segment is one object under its own name, and beside it lies a manifest, a small JSON object.
The manifest is written last, after the segment's object has been proven durable and complete: a
segment without a manifest is not in the archive. Objects are never changed or removed, so a segment
that is archived again must be the same.

Fault model: the process may die, and the store may fail or report a wrong size, between any two
calls. Archiving the segment again completes what such a failure leaves (an object without a
manifest, or part of one). Every failure is an ArchiveError with the object's URL.

Must never know: what a column means, what time it is, when a segment may leave (that is
`journal.retention`).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import msgspec

from daybook.journal.archive.disk import ArchiveDisk, JoinedDisk, difference, pieces_of
from daybook.journal.archive.joint import Joint, joint, misfit
from daybook.journal.archive.manifest import (
    MANIFEST_BYTES_MAX,
    ArchiveEntry,
    decode_manifest,
    describe,
    encode_manifest,
)
from daybook.journal.archive.ranges import RangedDisk
from daybook.journal.archive.snapshots import ArchivedSnapshots, missing_objects, snapshots_in
from daybook.journal.archive.store import CHUNK_BYTES, LocalStore, Store, open_store, reason_of
from daybook.journal.blocks.format import (
    Damage,
    manifest_name,
    segment_first_lsn,
    snapshot_lsn,
    snapshot_name,
)
from daybook.journal.data_directory import MANIFEST_SUFFIX
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.errors import ArchiveError, Corruption, JournalError
from daybook.journal.segments.segment import data_id_of, open_segment, segment_names
from daybook.journal.segments.verify import Report, verify, verify_segment


class ArchiveFault(msgspec.Struct, frozen=True):
    """A fault in an archive: the object's URL, byte and LSN as far as known, and the fault."""

    url: str
    offset: int
    lsn: int
    what: str


class ArchiveReport(msgspec.Struct):
    """The result of `Archive.verify`.

    `archived` and `archived_bytes` count the segments in the archive; `report` is about all blocks,
    including those of the live journal if one was given. `unlisted` are segments and snapshots
    without a manifest: interrupted uploads, which the next attempt completes. `snapshots` counts
    the archived snapshots, which only readers of tables can check. `owner` is the id of the data
    directory whose archive this is. `followed` is set if the check continued in a live journal.
    """

    url: str
    archived: int
    archived_bytes: int
    first_lsn: int
    last_lsn: int
    report: Report
    faults: list[ArchiveFault] = []
    unlisted: list[str] = []
    snapshots: int = 0
    owner: str = ""
    followed: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.faults


class Archive:
    """An archive at a local path or any URL that fsspec knows.

    `storage_options` are fsspec's options for the URL's protocol. An Archive must not be shared
    between threads, nor used in a process that was forked after using one.
    """

    def __init__(self, url: str | Store, **storage_options: Any) -> None:
        """Raises ArchiveError if the URL is invalid or the package for it is missing."""
        self._store: Final[Store] = (
            open_store(url, storage_options) if isinstance(url, str) else url
        )

    @property
    def url(self) -> str:
        """The URL or path of the archive, without passwords."""
        return self._store.url

    def put(self, disk: Disk, name: str, *, now: int) -> ArchiveEntry:
        """Archive a sealed segment; when this returns, it is durable, verified and has a manifest.

        `now` is microseconds since 1970 UTC. The segment is verified first. Archiving it again only
        repairs an object that was lost or damaged meanwhile. Raises Corruption if the segment is
        damaged, ArchiveError if the archive cannot store it or has another segment under its name,
        JournalError if it is not sealed or cannot be read.
        """
        entry = _entry_of(disk, name, now)
        sizes = self._store.sizes()
        listed = self._listed(entry, sizes)
        if listed is None:
            self._check_neighbours(entry, sizes)
        whole = name in sizes and not self._wrong(entry)
        if not whole:
            if listed is None and name in sizes:
                self._check_remains(disk, entry)
            self._store.write(name, _pieces(disk, name))
            wrong = self._wrong(entry)
            if wrong:
                raise ArchiveError(self._store.url_of(name), f"after writing it {wrong}")
        if listed is None:
            self._list(entry)
        elif whole:
            self._store.settle()
        return listed or entry

    def exists(self) -> bool:
        """Return whether the archive's folder exists; raises ArchiveError."""
        return self._store.exists()

    @property
    def snapshots(self) -> ArchivedSnapshots:
        """The snapshots of the archive, for writing."""
        return ArchivedSnapshots(self._store)

    def snapshot_sizes(self) -> dict[str, int]:
        """Return the sizes in bytes of all archived snapshots and their manifests, by name; raises
        ArchiveError."""
        return _snapshot_sizes(self._store.sizes())

    def entries(self) -> tuple[ArchiveEntry, ...]:
        """Return all archived segments, oldest first. Raises ArchiveError."""
        return self._entries(self._store.sizes())

    def _entries(self, sizes: dict[str, int]) -> tuple[ArchiveEntry, ...]:
        entries, faults = self._read_entries(sizes)
        if faults:
            raise ArchiveError(faults[0].url, faults[0].what)
        return entries

    def listed(self) -> tuple[tuple[ArchiveEntry, ...], list[ArchiveFault]]:
        """Return the archived segments whose manifests are sound, oldest first, and the faults.

        Raises ArchiveError if the archive cannot be listed.
        """
        return self._read_entries(self._store.sizes())

    def pieces(self, entry: ArchiveEntry) -> Iterator[bytes]:
        """Read a segment in pieces; raises ArchiveError, at the end if its content changed."""
        return pieces_of(self._store, entry)

    def check_filled(self) -> None:
        """Raise ArchiveError if no segment is archived: a command would prove less than was asked
        for."""
        if not self.entries():
            raise ArchiveError(self.url, "no segment is archived here; is it the right place?")

    def segment_bytes(self) -> int:
        """Return the size of all archived segments in bytes, for progress; raises ArchiveError."""
        sizes = self._store.sizes()
        return sum(size for name, size in sizes.items() if segment_first_lsn(name) is not None)

    @contextmanager
    def reading(self, live: Disk | None = None) -> Iterator[Disk]:
        """Give the archived segments, continued by those of a live journal, as one Disk, which has
        the archived snapshots, too.

        Every segment is checked when it is opened. Raises ArchiveError if the two are not one
        history (`joint`), and also when a segment is opened.
        """
        sizes = self._store.sizes()
        found = self._joint(self._entries(sizes), live)
        snapshots = _snapshot_sizes(sizes, found.departs)
        archived = ArchiveDisk(self._store, found.entries, snapshots=snapshots)
        try:
            if live is None:
                yield archived
            else:
                yield JoinedDisk(archived, live, archive_first=False)
        finally:
            archived.close()

    def entries_before(self, live: Disk | None) -> tuple[ArchiveEntry, ...]:
        """Return the archived segments that belong to the history of a live journal, oldest first.

        Raises ArchiveError, also if the two are not one history (`joint`).
        """
        return self._joint(self.entries(), live).entries

    def joint(self, live: Disk) -> Joint:
        """Compare the archive with a live journal. Raises ArchiveError."""
        return joint(self.entries(), live)

    def _joint(self, entries: tuple[ArchiveEntry, ...], live: Disk | None) -> Joint:
        found = Joint(entries) if live is None else joint(entries, live)
        if found.wrong:
            raise ArchiveError(self.url, found.wrong)
        return found

    def ranges(self, known: Mapping[str, int] | None = None) -> RangedDisk:
        """Return a Disk that reads parts of archived segments; it checks blocks, not whole objects.

        `known` gives the size in bytes of each wanted segment by name; without it the archive is
        listed. Raises ArchiveError, also when a segment is read.
        """
        if known is None:
            known = {entry.segment: entry.bytes for entry in self.entries()}
        return RangedDisk(self._store, known)

    def listed_ranges(self) -> RangedDisk:
        """Return the same for all segments, snapshots and manifests by listing alone, which reads
        no manifest; so damage to some does not hide others. Raises ArchiveError."""
        sizes = self._store.sizes()
        segments = {_segment_of(name) for name in sizes} & sizes.keys()
        return RangedDisk(
            self._store, {name: sizes[name] for name in segments} | _snapshot_sizes(sizes)
        )

    def verify(
        self, live: Disk | None = None, *, progress: Callable[[int], None] | None = None
    ) -> ArchiveReport:
        """Check every object against its manifest, all blocks and their hash chain, and find gaps.

        With a `live` journal the check continues into it. `progress` is called with the number of
        bytes just checked. Damage is in the report. Raises ArchiveError if the archive cannot be
        listed, JournalError as `journal.segments.verify`.
        """
        sizes = self._store.sizes()
        entries, faults = self._read_entries(sizes)
        for lsn in missing_objects(sizes):
            what = (
                "the snapshot is missing, though its manifest is there. Delete that, too: a "
                "snapshot is derived, and only saves time"
            )
            faults.append(ArchiveFault(self._store.url_of(snapshot_name(lsn)), 0, lsn, what))
        noted: set[str] = set()

        def note(name: str, what: str) -> None:
            if name not in noted:
                faults.append(ArchiveFault(self._store.url_of(name), 0, _first_lsn(name), what))
            noted.add(name)

        archived = ArchiveDisk(self._store, entries, note)
        found = Joint(entries) if live is None else joint(entries, live)
        if found.wrong:
            faults.append(ArchiveFault(self.url, 0, 0, found.wrong))
        report = Report()
        try:
            # A fork has other segments under the names of some in the archive of its source.
            if live is None or found.wrong or found.departs:
                report = _verified(archived, progress)
                faults += self._placed(report, archived.holds)
            if live is not None and not found.wrong:
                before = ArchiveDisk(self._store, found.entries, note)
                report = _verified(
                    JoinedDisk(before, live, archive_first=not found.departs), progress
                )
                own = set(segment_names(live)) if found.departs else set[str]()
                again = self._placed(report, lambda name: before.holds(name) and name not in own)
                faults += [each for each in again if each not in faults]
                before.close()
        finally:
            archived.close()
        return ArchiveReport(
            self.url,
            len(entries),
            sum(entry.bytes for entry in entries),
            entries[0].first_lsn if entries else 0,
            entries[-1].last_lsn if entries else 0,
            report,
            faults,
            [name for name in sorted(sizes) if _is_unlisted(name, sizes)],
            len(snapshots_in(sizes)),
            entries[-1].owner if entries else "",
            live is not None and not found.wrong,
        )

    def _placed(self, report: Report, holds: Callable[[str], bool]) -> list[ArchiveFault]:
        """Return the faults of a report with their places: in the archive, or in live segments."""
        return [
            ArchiveFault(
                self._store.url_of(each.segment)
                if holds(each.segment)
                else f"live segment {each.segment}",
                each.offset,
                each.lsn,
                each.what,
            )
            for each in report.faults
        ]

    def fetch(
        self,
        disk: Disk,
        *,
        names: Sequence[str] | None = None,
        from_lsn: int | None = None,
        to_lsn: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[ArchiveEntry, ...]:
        """Copy segments, by name or those that hold a range of LSNs, with their manifests.

        Files that exist already are kept if they are equal. Each file is complete and durable
        before it gets its name. `progress` is called with the number of bytes just copied. Raises
        ArchiveError, and JournalError if the target contains a journal of its own.
        """
        entries = self.chosen(names=names, from_lsn=from_lsn, to_lsn=to_lsn)
        _check_target(disk)
        where = str(disk.path) if isinstance(disk, RealDisk) else "the target directory"
        target = LocalStore(disk, where)
        for entry in entries:
            if not _holds(target, entry):
                target.write(entry.segment, _counted(pieces_of(self._store, entry), progress))
            target.write(manifest_name(entry.segment), iter([encode_manifest(entry)]))
        return entries

    def fetch_snapshots(self, disk: Disk, entries: Sequence[ArchiveEntry]) -> list[str]:
        """Copy the snapshots at events of fetched segments to the same place; return a sentence for
        each that cannot be copied.

        Readers check them. Raises ArchiveError if the archive cannot be listed.
        """
        target = LocalStore(disk, "the target directory")
        there, wrong = target.sizes(), list[str]()
        for name, size in sorted(self.snapshot_sizes().items()):
            lsn = snapshot_lsn(name) or snapshot_lsn(name.removesuffix(MANIFEST_SUFFIX)) or 0
            if there.get(name) == size or not any(
                each.first_lsn - 1 <= lsn <= each.last_lsn for each in entries
            ):
                continue
            try:
                target.write(name, self._store.read(name))
            except ArchiveError as error:
                wrong.append(str(error))
        return wrong

    def chosen(
        self,
        *,
        names: Sequence[str] | None = None,
        from_lsn: int | None = None,
        to_lsn: int | None = None,
    ) -> tuple[ArchiveEntry, ...]:
        """Return the segments that `fetch` would copy, without gaps; raises ArchiveError."""
        entries = self.entries()
        if not entries:
            raise ArchiveError(self.url, "no segment is archived here")
        if names is not None:
            missing = sorted(set(names) - {entry.segment for entry in entries})
            if missing:
                raise ArchiveError(self.url, f"segment {missing[0]} is not archived here")
            return tuple(entry for entry in entries if entry.segment in names)
        first = entries[0].first_lsn if from_lsn is None else from_lsn
        last = entries[-1].last_lsn if to_lsn is None else to_lsn
        inside = [each for each in entries if each.last_lsn >= first and each.first_lsn <= last]
        self._check_range(inside, first, last, entries)
        return tuple(inside)

    def _check_range(
        self,
        inside: Sequence[ArchiveEntry],
        from_lsn: int,
        to_lsn: int,
        entries: Sequence[ArchiveEntry],
    ) -> None:
        """Check that the segments found cover all of a range of LSNs."""
        if not inside or inside[-1].last_lsn < to_lsn or inside[0].first_lsn > from_lsn:
            first, last = entries[0].first_lsn, entries[-1].last_lsn
            wanted = f"all of LSN {from_lsn} to {to_lsn}"
            if from_lsn > to_lsn:
                # Only one of them was named, beyond the end or before the beginning.
                wanted = f"LSN {from_lsn if from_lsn > last else to_lsn}"
            raise ArchiveError(
                self.url,
                f"the archive does not have {wanted}: it has {first} to {last}",
            )
        for one, other in pairwise(inside):
            if other.first_lsn != one.last_lsn + 1:
                raise ArchiveError(
                    self.url,
                    f"LSN {one.last_lsn + 1} to {other.first_lsn - 1} are missing; fetch the "
                    "segments before and after the gap into separate directories",
                )

    def _read_entries(
        self, sizes: dict[str, int]
    ) -> tuple[tuple[ArchiveEntry, ...], list[ArchiveFault]]:
        """Return the entries of all manifests, and the faults of manifests and missing objects."""
        entries: list[ArchiveEntry] = []
        faults: list[ArchiveFault] = []
        manifests = sorted(name for name in sizes if _segment_of(name))
        for name, content in self._store.read_small(manifests):
            segment = _segment_of(name)
            try:
                if isinstance(content, ArchiveError):
                    raise content
                entry = self._decoded(content, segment)
                if segment not in sizes:
                    raise ArchiveError(
                        self._store.url_of(segment),
                        "the segment is missing, though its manifest is there; restore it from "
                        "another copy",
                    )
                entries.append(entry)
            except ArchiveError as error:
                faults.append(ArchiveFault(error.url, 0, _first_lsn(segment), error.what))
        return tuple(entries), faults

    def _decoded(self, content: bytes, segment: str) -> ArchiveEntry:
        try:
            return decode_manifest(content, segment)
        except ValueError as error:
            url = self._store.url_of(manifest_name(segment))
            raise ArchiveError(url, f"{error}; restore it from another copy") from error

    def _manifest(self, segment: str) -> ArchiveEntry:
        name = manifest_name(segment)
        content = b""
        for piece in self._store.read(name):
            content += piece
            if len(content) > MANIFEST_BYTES_MAX:
                raise ArchiveError(self._store.url_of(name), "it is too large for a manifest")
        return self._decoded(content, segment)

    def _listed(self, entry: ArchiveEntry, sizes: dict[str, int]) -> ArchiveEntry | None:
        """Return the manifest that the segment already has; None if it has none.

        A manifest that was written only in part counts as none, if the object is this segment.
        """
        if manifest_name(entry.segment) not in sizes:
            return None
        try:
            listed = self._manifest(entry.segment)
        except ArchiveError:
            if entry.segment not in sizes or self._wrong(entry):
                raise
            return None
        if listed.sha256 == entry.sha256 and listed.owner != entry.owner:
            raise ArchiveError(
                self.url,
                f"this is the archive of data directory {listed.owner}, and segment "
                f"{entry.segment} comes from {entry.owner}; each data directory needs its own "
                f"archive, and so does a fork",
            )
        if listed.as_of(0) != entry.as_of(0):
            raise ArchiveError(
                self._store.url_of(entry.segment),
                "another segment is archived under this name, with SHA-256 "
                f"{listed.sha256} instead of {entry.sha256}; each data directory needs an archive "
                "of its own",
            )
        return listed

    def _check_neighbours(self, entry: ArchiveEntry, sizes: dict[str, int]) -> None:
        """Check that the segment fits between its neighbours in the archive."""
        segments = sorted(filter(None, map(_segment_of, sizes)))
        before = [name for name in segments if name < entry.segment][-1:]
        behind = [name for name in segments if name > entry.segment][:1]
        around = [*map(self._manifest, before), entry, *map(self._manifest, behind)]
        for one, other in pairwise(around):
            problem = misfit(one, other)
            if problem:
                raise ArchiveError(
                    self.url,
                    f"segment {entry.segment} does not belong here: {problem}; each data directory "
                    "needs its own archive",
                )

    def _check_remains(self, disk: Disk, entry: ArchiveEntry) -> None:
        """Check that an object without a manifest is left from an upload of this segment."""
        remains = next(self._store.read(entry.segment), b"")
        ours = next(_pieces(disk, entry.segment))
        segment = open_segment(disk, entry.segment)
        count = min(segment.header.header_bytes, len(remains))
        segment.close()
        if remains[:count] != ours[:count]:
            raise ArchiveError(
                self._store.url_of(entry.segment),
                "another object has this name and no manifest; move it away, or name another "
                "archive",
            )

    def _wrong(self, entry: ArchiveEntry) -> str:
        """Read back the object of a segment; return its fault, "" without one."""
        digest = hashlib.sha256()
        count = 0
        for piece in self._store.read(entry.segment):
            digest.update(piece)
            count += len(piece)
        return difference(entry, count, digest.hexdigest())

    def _list(self, entry: ArchiveEntry) -> None:
        """Write the manifest and read it back."""
        name = manifest_name(entry.segment)
        self._store.write(name, iter([encode_manifest(entry)]))
        if self._manifest(entry.segment) != entry:
            raise ArchiveError(
                self._store.url_of(name), "it differs from the written bytes when it is read back"
            )


def _entry_of(disk: Disk, name: str, now: int) -> ArchiveEntry:
    """Verify a segment and return its manifest's content; raises JournalError."""
    digest = hashlib.sha256()
    for piece in _pieces(disk, name):
        digest.update(piece)
    report = verify_segment(disk, name)
    if report.faults:
        fault = report.faults[0]
        raise Corruption(fault.segment, fault.offset, fault.lsn, fault.what)
    segment = open_segment(disk, name)
    try:
        entry = describe(
            segment, sha256=digest.hexdigest(), archived_at=now, owner=data_id_of(disk)
        )
    except Damage as damage:
        raise JournalError(
            f"segment {name} cannot be archived: {damage}; only sealed segments can"
        ) from damage
    finally:
        segment.close()
    assert entry.last_lsn == report.last_lsn
    assert entry.last_hash == report.last_hash
    return entry


def _verified(disk: Disk, progress: Callable[[int], None] | None) -> Report:
    return verify(disk, progress=progress) if segment_names(disk) else Report()


def _pieces(disk: Disk, name: str) -> Iterator[bytes]:
    """Read a file in pieces; raises JournalError."""
    try:
        file = disk.open(name)
        try:
            offset = 0
            while piece := file.pread(CHUNK_BYTES, offset):
                yield piece
                offset += len(piece)
        finally:
            file.close()
    except OSError as error:
        raise JournalError(f"segment {name} cannot be read: {reason_of(error)}") from error


def _counted(pieces: Iterator[bytes], progress: Callable[[int], None] | None) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        if progress is not None:
            progress(len(piece))


def _segment_of(name: str) -> str:
    """Return the segment that a manifest belongs to, "" if the name is not that of a manifest."""
    segment = name.removesuffix(MANIFEST_SUFFIX)
    return segment if segment != name and segment_first_lsn(segment) is not None else ""


def _first_lsn(segment: str) -> int:
    return segment_first_lsn(segment) or 0


def _is_unlisted(name: str, sizes: dict[str, int]) -> bool:
    is_named = segment_first_lsn(name) is not None or snapshot_lsn(name) is not None
    return is_named and manifest_name(name) not in sizes


def _snapshot_sizes(sizes: dict[str, int], before: int = 0) -> dict[str, int]:
    """Return the sizes of the snapshots that have manifests, and of those, by name; only of those
    before an event, if one is given."""
    names = [snapshot_name(lsn) for lsn in snapshots_in(sizes) if not before or lsn < before]
    return {each: sizes[each] for name in names for each in (name, manifest_name(name))}


def _check_target(disk: Disk) -> None:
    """Check that every segment in a directory was fetched there, so that others may be added."""
    there = set(disk.names())
    for name in segment_names(disk):
        if manifest_name(name) not in there:
            raise JournalError(
                f"the target contains another journal ({name} has no manifest): name an empty "
                f"directory, and copy the needed files from it"
            )


def _holds(target: Store, entry: ArchiveEntry) -> bool:
    """Return whether the target has the segment. Raises ArchiveError if it has a different one."""
    if entry.segment not in target.sizes():
        return False
    for _ in pieces_of(target, entry):
        pass
    return True
