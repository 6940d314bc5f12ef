"""Proves a Parquet archive: checks chain, files and rows against the proofs, and restores segments.

It continues after faults as far as possible, so that one report names every fault. A block is
proven by its hash if the installed zstd gives the same frames as in the journal, else by the digest
of its content. The digest excludes accidental changes, but not that somebody rewrote content and
digest.

Fault model: any object may be missing, cut short or changed. Must never know its caller.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from daybook.journal.archive.manifest import describe, encode_manifest
from daybook.journal.archive.store import LocalStore, Store
from daybook.journal.blocks.format import Damage, SegmentHeader, manifest_name
from daybook.journal.blocks.trust import too_large
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.errors import ArchiveError, JournalError
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline.naming import NameTables
from daybook.pipeline.parquet.archive import (
    ABOUT,
    PROOF_SUFFIX,
    ArchivedSegment,
    ParquetArchive,
    gaps_between,
)
from daybook.pipeline.planning import Source
from daybook.pipeline.proof import (
    Proof,
    Rebuilder,
    RebuiltBlock,
    Remaker,
    decode_proof,
    zstd_version,
)
from daybook.scratch_folders import scratch_folder

BATCH_ROWS: Final = 1 << 16


class ProofFault(msgspec.Struct, frozen=True):
    """A fault in a Parquet archive: the object's URL, the first affected LSN, and the fault in
    words."""

    url: str
    lsn: int
    what: str


class ProofReport(msgspec.Struct):
    """The result of `prove`.

    `exact` of the `blocks` were rebuilt with their original hash, `alike` only with the same digest
    of their content. `last_hash` ends the chain: if you keep a copy elsewhere, nobody can rewrite
    the history before it. `unlisted` are files of interrupted attempts.
    """

    url: str
    segments: int = 0
    files: int = 0
    events: int = 0
    blocks: int = 0
    exact: int = 0
    alike: int = 0
    first_lsn: int = 0
    last_lsn: int = 0
    last_hash: str = ""
    faults: list[ProofFault] = []
    unlisted: list[str] = []

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.faults


def prove(
    archive: ParquetArchive, live: Source | None = None, *, progress: Callable[[int], None]
) -> ProofReport:
    """Check everything; with a live history also that it continues the archive.

    `progress` is called with the number of bytes just checked. Raises ArchiveError if the archive
    cannot be listed, JournalError if the live history cannot be read.
    """
    prover = _Prover(archive, progress)
    return prover.prove(live)


class _Prover:
    """The state of the walk."""

    def __init__(self, archive: ParquetArchive, progress: Callable[[int], None]) -> None:
        self._archive = archive
        self._progress = progress
        self._report = ProofReport(archive.url)

    def prove(self, live: Source | None) -> ProofReport:
        report = self._report
        segments, problems = self._archive.judged_segments()
        for problem in problems:
            self._fault(problem.url, 0, problem.what)
        for gap in gaps_between(segments):
            what = f"LSN {gap.first_lsn} to {gap.last_lsn} are missing between the segments"
            self._fault(report.url, gap.first_lsn, what)
        names = self._archive.name_tables()
        previous: ArchivedSegment | None = None
        for segment in segments:
            self._segment(segment, previous, names)
            previous = segment
        if segments:
            report.first_lsn, report.last_lsn = segments[0].first_lsn, segments[-1].last_lsn
            report.last_hash = segments[-1].last_hash
        if live is not None:
            self._goes_on(live, segments)
        report.unlisted = self._archive.unlisted(segments)
        return report

    def _fault(self, url: str, lsn: int, what: str) -> None:
        self._report.faults.append(ProofFault(url, lsn, what))

    def _segment(
        self, segment: ArchivedSegment, previous: ArchivedSegment | None, names: NameTables
    ) -> None:
        report = self._report
        report.segments += 1
        report.files += len(segment.files)
        url = self._archive.url_of(segment.segment)
        if previous is not None:
            for what in _misfits(previous, segment):
                self._fault(url, segment.first_lsn, what)
        try:
            proof = _proof_of(self._archive, segment)
        except ArchiveError as error:
            self._fault(error.url, segment.first_lsn, error.what)
            return
        rebuilder = Rebuilder(proof, names)
        before = len(report.faults)
        self._rows(segment, rebuilder)
        report.blocks += len(proof.blocks)
        report.exact += rebuilder.exact
        report.alike += rebuilder.alike
        if len(report.faults) > before:
            return
        report.events += segment.last_lsn - segment.first_lsn + 1
        if rebuilder.exact < segment.exact and segment.zstd == zstd_version():
            self._fault(
                url, segment.first_lsn,
                f"{rebuilder.exact} blocks have their hash instead of {segment.exact}, with the "
                "same zstd: rows and proof were changed together",
            )  # fmt: skip

    def _rows(self, segment: ArchivedSegment, rebuilder: Rebuilder) -> None:
        """Check the rows of all files of a segment."""
        with scratch_folder("parquet") as folder:
            for file in segment.files:
                url = self._archive.url_of(file.path)
                local = folder / "fetched"
                try:
                    self._archive.fetch(file, local)
                except ArchiveError as error:
                    self._fault(error.url, file.first_lsn, error.what)
                    if not local.exists() or not local.stat().st_size:
                        return
                told = len(rebuilder.faults)
                try:
                    for table in tables_of(local):
                        rebuilder.feed(table)
                    if file is segment.files[-1]:
                        rebuilder.finish()
                except (Damage, pa.ArrowException, OSError) as error:
                    self._fault(url, file.first_lsn, _reason(error))
                    return
                finally:
                    for fault in rebuilder.faults[told:]:
                        self._fault(url, fault.lsn, fault.what)
                    self._progress(file.bytes)
                    local.unlink(missing_ok=True)

    def _goes_on(self, live: Source, segments: Sequence[ArchivedSegment]) -> None:
        """Check that the live history has the same segments, and continues the chain."""
        disk = live.disk()
        archived = {segment.segment: segment for segment in segments}
        for name in segment_names(disk):
            segment = open_segment(disk, name, LAYOUT)
            segment.close()
            url = self._archive.url_of(name)
            for what in _disagreements(segment.header, archived.get(name), segments):
                self._fault(url, segment.header.first_lsn, f"the live segment {name} {what}")


def _disagreements(
    header: SegmentHeader, same: ArchivedSegment | None, segments: Sequence[ArchivedSegment]
) -> Iterator[str]:
    """Yield contradictions between a live segment and the archive."""
    previous = header.previous_hash.hex()
    if same is not None:
        if (same.data_id, same.previous_hash) != (header.data_id.hex(), previous):
            yield "differs from the archived one"
    elif segments and header.first_lsn == segments[-1].last_lsn + 1:
        end = segments[-1].last_hash
        if previous != end:
            yield f"follows a block with hash {previous}, but the archive ends with {end}"
    else:
        for one in segments:
            if one.first_lsn < header.first_lsn <= one.last_lsn:
                yield f"begins inside the archived segment {one.segment}"


def _misfits(one: ArchivedSegment, other: ArchivedSegment) -> Iterator[str]:
    if one.data_id != other.data_id:
        yield f"{one.segment} and {other.segment} come from different data directories"
    elif other.first_lsn == one.last_lsn + 1 and other.previous_hash != one.last_hash:
        yield f"it does not carry the hash of the last block of {one.segment}"


def _proof_of(archive: ParquetArchive, segment: ArchivedSegment) -> Proof:
    """Read the proof of a segment and compare it with its manifest; raises ArchiveError."""
    url = archive.url_of(f"{ABOUT}/{segment.segment}{PROOF_SUFFIX}")
    try:
        proof = decode_proof(archive.proof(segment))
    except Damage as damage:
        raise ArchiveError(url, f"its proof is invalid: {damage}") from damage
    said = (
        segment.first_lsn, segment.last_lsn, segment.data_id, segment.previous_hash,
        segment.last_hash, segment.blocks,
    )  # fmt: skip
    header = proof.header
    proven = (
        header.first_lsn, proof.last_lsn, header.data_id.hex(), header.previous_hash.hex(),
        proof.last_hash.hex(), len(proof.blocks),
    )  # fmt: skip
    if said != proven:
        raise ArchiveError(url, "its manifest contradicts its proof")
    return proof


def tables_of(file: Path) -> Iterator[pa.Table]:
    """Read the rows of a Parquet file in pieces; raises Damage and the errors of pyarrow."""
    with pq.ParquetFile(file) as parquet:
        for group in range(parquet.num_row_groups):
            wrong = too_large(parquet.metadata.row_group(group).total_byte_size)
            if wrong:
                raise Damage(f"row group {group}: {wrong}")
        for batch in parquet.iter_batches(BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _reason(error: BaseException) -> str:
    if isinstance(error, Damage):
        return str(error)
    return f"it cannot be read as Parquet: {' '.join(str(error).split())}"


def restore(
    archive: ParquetArchive,
    directory: Path,
    *,
    now: int,
    from_lsn: int = 1,
    to_lsn: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Restore segments bit for bit, with manifests; return their names.

    They are written to a directory that `journal` can read; equal files there are kept. `now`
    (microseconds since 1970 UTC) is written into manifests, `progress` is called with numbers of
    bytes. Raises ArchiveError for a segment that cannot be restored, JournalError if the target has
    other files.
    """
    disk = RealDisk(directory / JOURNAL)
    store = LocalStore(disk, str(disk.path), folder=disk)
    names = archive.name_tables()
    segments = archive.segments()
    _check_target(disk, {segment.segment for segment in segments})
    made = []
    for segment in segments:
        if segment.last_lsn < from_lsn or (to_lsn is not None and segment.first_lsn > to_lsn):
            continue
        proof = _proof_of(archive, segment)
        if segment.segment not in store.sizes():
            store.write(segment.segment, as_it_was(archive, segment, names))
        _check_restored(disk, store, segment, proof, now)
        made.append(segment.segment)
        progress(segment.bytes)
    if not made:
        raise ArchiveError(archive.url, "no segment of this range is archived here")
    return made


def _check_target(disk: RealDisk, restorable: set[str]) -> None:
    """Check that the target is not a journal of its own."""
    there = set(disk.names())
    for name in segment_names(disk):
        # An interrupted restore leaves its last segment without a manifest.
        if manifest_name(name) not in there and name not in restorable:
            raise JournalError(
                f"{disk.path} contains a journal of its own ({name} has no manifest): name an "
                "empty directory, and copy from it what you need"
            )


def _check_restored(
    disk: Disk, store: Store, segment: ArchivedSegment, proof: Proof, now: int
) -> None:
    digest = hashlib.sha256()
    for piece in store.read(segment.segment):
        digest.update(piece)
    if digest.digest() != proof.sha256:
        raise JournalError(
            f"{store.url_of(segment.segment)} exists, but is not the segment that was archived; "
            "name an empty directory"
        )
    opened = open_segment(disk, segment.segment, LAYOUT)
    try:
        entry = describe(opened, sha256=proof.sha256.hex(), archived_at=now)
    finally:
        opened.close()
    name = manifest_name(segment.segment)
    if name not in store.sizes():
        store.write(name, iter([encode_manifest(entry)]))


def as_it_was(
    archive: ParquetArchive,
    segment: ArchivedSegment,
    names: NameTables,
    remade: set[str] | None = None,
) -> Iterator[bytes]:
    """Rebuild the bytes of a segment; raises ArchiveError, at the end if they differ.

    Where another version of zstd compressed a block, they differ, although its content is proven by
    its digest. With `remade` that is not an error: readers can read it, and the segment is added
    there.
    """
    url = archive.url_of(segment.segment)
    proof = _proof_of(archive, segment)
    remaker = Remaker(proof)
    digest = hashlib.sha256()
    try:
        for piece in remaker.pieces(_blocks_of(archive, segment, proof, names)):
            digest.update(piece)
            yield piece
    except (Damage, pa.ArrowException) as error:
        raise ArchiveError(url, _reason(error)) from error
    if remaker.remade_lsn and remade is not None:
        remade.add(segment.segment)
    elif remaker.remade_lsn:
        raise ArchiveError(
            url, f"the block of LSN {remaker.remade_lsn} cannot be restored bit for bit; another "
            f"version of zstd wrote it than the installed {zstd_version()}",
        )  # fmt: skip
    elif digest.digest() != proof.sha256:
        raise ArchiveError(url, "its restored bytes have another SHA-256")


def _blocks_of(
    archive: ParquetArchive, segment: ArchivedSegment, proof: Proof, names: NameTables
) -> Iterator[RebuiltBlock]:
    rebuilder = Rebuilder(proof, names)
    with scratch_folder("parquet") as folder:
        for file in segment.files:
            archive.fetch(file, folder / "fetched")
            for table in tables_of(folder / "fetched"):
                yield from rebuilder.feed(table)
                if rebuilder.faults:
                    fault = rebuilder.faults[0]
                    raise Damage(f"LSN {fault.lsn}: {fault.what}")
        rebuilder.finish()
