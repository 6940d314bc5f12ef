"""Archives history as Parquet: sealed segments become Parquet files with a proof.

Each segment is verified, written to local files, read back and compared with its proof row by row,
then copied, read back again and listed in a manifest. For listed segments only the sizes of the
files are checked again, so the job may run often. A segment whose archiving was interrupted, or
with a missing or truncated file, is archived again by the next run. The newest segment of a live
journal is still being written, so it is left for a later run.

Fault model: the process may die between any two steps; segments without a manifest do not count. A
damaged segment is reported and skipped, and the others continue. Must never know its caller.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from daybook.history.initial_state import beginning, learn_names
from daybook.history.names import Names
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.errors import ArchiveError, Corruption, JournalError, NoJournal
from daybook.journal.pins import Pin
from daybook.journal.segments.segment import Segment, first_lsn_of, open_segment, segment_names
from daybook.journal.segments.verify import verify_segment
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline.decoding import read_split
from daybook.pipeline.naming import NameTables
from daybook.pipeline.parquet.archive import (
    MANIFEST_FORMAT,
    ArchivedSegment,
    Gap,
    ParquetArchive,
    ParquetFile,
    gaps_between,
    local_path,
)
from daybook.pipeline.parquet.writing import Written, write_days
from daybook.pipeline.planning import Source, Split, check_source
from daybook.pipeline.proof import Proof, Rebuilder, encode_proof, make_proof, zstd_version
from daybook.pipeline.proving import tables_of
from daybook.pipeline.schema import STORED_COLUMNS
from daybook.pipeline.selection import EVERYTHING
from daybook.recovery.readonly import journal_disk
from daybook.scratch_folders import scratch_folder

UNLIKE: Final = "the files that were written differ from the segment"


class ArchiveTask(msgspec.Struct, frozen=True):
    """One segment to archive, with everything that a worker needs for it."""

    source: Source
    segment: str
    target: str
    names: NameTables


class Outcome(msgspec.Struct, frozen=True):
    """The result of a task: an archived segment, or a problem in a sentence."""

    segment: str
    archived: ArchivedSegment | None = None
    problem: str = ""


class ArchiveReport(msgspec.Struct):
    """The result of `archive`: segments added, how many already existed, problems and gaps.

    `already` counts segments with all their files in the right sizes.
    """

    url: str
    added: list[ArchivedSegment]
    already: int
    problems: list[str]
    gaps: list[Gap]
    first_lsn: int = 0
    last_lsn: int = 0

    @property
    def ok(self) -> bool:
        """Whether there are no problems and no gaps."""
        return not (self.problems or self.gaps)


def archive(
    source: Source,
    target: str,
    *,
    spark: Any = None,
    told: Callable[[Outcome], None] = lambda _: None,
) -> ArchiveReport:
    """Bring a Parquet archive up to date with a history.

    With a SparkSession executors do the work, one task for each segment; history and target must
    have the same paths for them. `told` is called for each segment. Raises JournalError, and the
    errors of reading the base of a journal (`history.initial_state`).
    """
    check_source(source)
    parquet = ParquetArchive(target)
    # Executors have another working directory than the caller.
    source, target = absolute(source), local_path(target) or target
    with Pin(Path(source.directory)) if source.directory else nullcontext():
        disk = source.disk()
        before = parquet.segments()
        _check_same(disk, parquet, before)
        not_whole = parquet.not_whole(before)
        whole = {segment.segment for segment in before} - not_whole.keys()
        waiting = _waiting(source, disk, whole)
        archived_to = before[-1].last_lsn if before else 0
        names, problems = _learn(source, disk, parquet, waiting, archived_to)
        tables = NameTables(names.addresses, names.queues)
        if waiting:
            parquet.add_names(tables)
        tasks = [ArchiveTask(source, name, target, tables) for name in waiting]
        outcomes = []
        for outcome in _on_spark(spark, tasks) if spark is not None else map(run_task, tasks):
            outcomes.append(outcome)
            told(outcome)
    problems += [
        _not_made_again(name, fault) for name, fault in not_whole.items() if name not in waiting
    ]
    known = set(problems)
    problems += [each.problem for each in outcomes if each.problem and each.problem not in known]
    after = parquet.segments()
    added = [outcome.archived for outcome in outcomes if outcome.archived is not None]
    return ArchiveReport(
        parquet.url, added, len(whole), problems, gaps_between(after),
        after[0].first_lsn if after else 0, after[-1].last_lsn if after else 0,
    )  # fmt: skip


def absolute(source: Source) -> Source:
    """Return a history under names that do not depend on the working directory."""
    directory, url = source.directory, source.archive
    return Source(
        str(Path(directory).absolute()) if directory else "",
        (local_path(url) or url) if url else "",
    )


def _on_spark(spark: Any, tasks: list[ArchiveTask]) -> Iterator[Outcome]:
    if not tasks:
        return iter(())
    spread = spark.sparkContext.parallelize(tasks, len(tasks))
    return iter(spread.map(run_task).collect())


def _check_same(disk: Disk, parquet: ParquetArchive, there: Sequence[ArchivedSegment]) -> None:
    """Check that the archive is of the same data directory; raises ArchiveError."""
    names = segment_names(disk)
    if not names:
        raise NoJournal("there is no segment to archive: the journal or the archive is empty")
    if not there:
        return
    # Any header has the id; the newest is the least likely to be damaged.
    segment = open_segment(disk, names[-1], LAYOUT)
    segment.close()
    if {each.data_id for each in there} != {segment.header.data_id.hex()}:
        raise ArchiveError(
            parquet.url, "history of another data directory is archived here; each needs an "
            "archive of its own",
        )  # fmt: skip


def _waiting(source: Source, disk: Disk, there: set[str]) -> list[str]:
    """Return the sealed segments that are not archived yet, or only in part."""
    names = segment_names(disk)
    if source.directory:
        # It is still being written.
        names.pop()
    return [name for name in names if name not in there]


def _learn(
    source: Source,
    disk: Disk,
    parquet: ParquetArchive,
    waiting: Sequence[str],
    archived_to: int,
) -> tuple[Names, list[str]]:
    """Collect names from the archive and from the waiting segments; return them and problems."""
    known = parquet.names()
    names = Names()
    problems: list[str] = []
    if source.directory and first_lsn_of(disk) > archived_to + 1:
        # The events between are missing from the archive, but the base has the names.
        for event in beginning(Path(source.directory), disk).events:
            names.learn(event.row, event.detail)
    names.addresses.update(known.addresses)
    names.queues.update(known.queues)
    for name in waiting:
        try:
            _learn_segment(disk, name, names)
        except (JournalError, Damage) as error:
            problems.append(_not_archived(name, error))
    return names, problems


def _learn_segment(disk: Disk, name: str, names: Names) -> None:
    first = segment_first_lsn(name) or 1
    segment = open_segment(disk, name, LAYOUT)
    try:
        last = segment.footer().last_lsn
    finally:
        segment.close()
    learn_names(names, disk, first, last)


def _not_archived(name: str, error: Exception) -> str:
    return f"segment {name} was not archived: {error}"


def _not_made_again(name: str, fault: ArchiveError) -> str:
    return (
        f"segment {name} is incomplete in the archive, and the given history does not have it: "
        f"{fault}; name a data directory or an archive of segments that has it"
    )


def run_task(task: ArchiveTask) -> Outcome:
    """Archive one segment; problems with it or the target are in the outcome."""
    try:
        with whole_segments(task.source) as disk:
            found = archive_segment(disk, task.segment, ParquetArchive(task.target), task.names)
        return Outcome(task.segment, found)
    except (JournalError, Damage, OSError, pa.ArrowException) as error:
        return Outcome(task.segment, problem=_not_archived(task.segment, error))


@contextmanager
def whole_segments(source: Source) -> Iterator[Disk]:
    """Give the segments of a history; archived ones are fetched and checked as a whole."""
    live = journal_disk(Path(source.directory)) if source.directory else None
    if not source.archive:
        assert live is not None
        yield live
        return
    with Archive(source.archive).reading(live) as disk:
        yield disk


def archive_segment(
    disk: Disk, name: str, parquet: ParquetArchive, names: NameTables
) -> ArchivedSegment:
    """Archive a sealed segment, replacing what an interrupted run left of it.

    Raises Corruption if it is damaged, Damage if it is not sealed, ArchiveError if the archive
    cannot store it, OSError if there is no space for temporary files.
    """
    report = verify_segment(disk, name)
    if report.faults:
        fault = report.faults[0]
        raise Corruption(fault.segment, fault.offset, fault.lsn, fault.what)
    segment = open_segment(disk, name, LAYOUT)
    try:
        proof = make_proof(segment)
    finally:
        segment.close()
    if proof.last_lsn < proof.header.first_lsn:
        raise Damage("it has no events")
    with scratch_folder("parquet") as folder:
        split = _whole(segment, proof)
        files = write_days(read_split(disk, split, EVERYTHING, STORED_COLUMNS, names), folder)
        exact = _read_back(files, proof, names)
        packed = encode_proof(proof)
        found = ArchivedSegment(
            MANIFEST_FORMAT, name, proof.header.first_lsn, proof.last_lsn,
            proof.header.data_id.hex(), proof.header.previous_hash.hex(), proof.last_hash.hex(),
            hashlib.sha256(packed).hexdigest(), len(proof.blocks), exact, zstd_version(),
            tuple(map(_described, files)),
        )  # fmt: skip
        for file in files:
            parquet.put(file.path, file.local)
        parquet.record(found, packed)
    return found


def _whole(segment: Segment, proof: Proof) -> Split:
    """Return all blocks of a segment as one split."""
    end = proof.segment_bytes - len(proof.packed_footer)
    first, last = proof.header.first_lsn, proof.last_lsn
    return Split(segment.name, ((segment.first_offset, end),), first, last, last - first + 1)


def _read_back(files: Sequence[Written], proof: Proof, names: NameTables) -> int:
    """Read the files back and rebuild all blocks; return how many are exact. Raises Damage."""
    rebuilder = Rebuilder(proof, names)
    for file in files:
        for table in tables_of(file.local):
            rebuilder.feed(table)
    rebuilder.finish()
    if rebuilder.faults:
        fault = rebuilder.faults[0]
        raise Damage(f"{UNLIKE}: LSN {fault.lsn}, {fault.what}")
    return rebuilder.exact


def _described(file: Written) -> ParquetFile:
    with file.local.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return ParquetFile(
        file.path, file.first_lsn, file.last_lsn, file.time_min, file.time_max,
        file.local.stat().st_size, sha256,
    )  # fmt: skip
