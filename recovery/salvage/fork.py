"""Forks: a separate data directory that continues another one's history (ADR 67).

Data flow: the state after the last whole block up to an event is made as `state_at` makes it, and
becomes the index of the fork; segments before that block are shared with the source or copied; the
segment with the block is written again under a new data id, as far as the fork goes; an event says
where the fork comes from. All of it happens in a folder beside the target, which gets the name of
the target as the last step. Fault model: a failure or an interrupt leaves no target; a process that
is killed leaves the folder of the work, whose name tells its purpose. Does not change the source.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import msgspec

from daybook.engine.facts import details, events
from daybook.engine.queues.queue import StoreError
from daybook.engine.state.feature_levels import KINDS, level_of
from daybook.errors import DaybookError
from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.format import Damage, SegmentHeader, segment_first_lsn
from daybook.journal.copying import CopyDisk, JournalCopy, sync_file
from daybook.journal.data_directory import BASE, DATA_ID, INDEX, JOURNAL, TABLES, TABLES_LOCK, USERS
from daybook.journal.disk import Disk, RealDisk, sync_directory
from daybook.journal.errors import DiskFull
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, first_lsn_of, open_segment, segment_names
from daybook.paging.content.cluster_writer import forget_clusters
from daybook.paging.retention.survey import Survey
from daybook.paging.snapshots.base import publish
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import IndexUnwritable, open_for_reading, open_for_writing
from daybook.recovery.moments import Course
from daybook.recovery.signing.file_errors import is_full

_CLONE: Final = 0x40049409
"""FICLONE of Linux: the file shares its disk space with another one until either is written."""
_CHUNK_BYTES: Final = 1 << 20

CLONED: Final = "cloned"
LINKED: Final = "linked"
COPIED: Final = "copied"


class ForkError(DaybookError):
    """A data directory cannot be forked; the text gives the reason and the remedy."""


class Fork(msgspec.Struct, frozen=True):
    """A fork that was made: where, its id, the id that it comes from, and its last event of there.

    `segments` counts the segments by how they came: cloned (a reflink), linked or copied.
    `rewritten` is how many events are in the segment that was written again. `bytes` is the space
    of the copied and the rewritten ones on the disk.
    """

    directory: str
    data_id: str
    source_id: str
    lsn: int
    first_lsn: int
    segments: dict[str, int]
    rewritten: int
    bytes: int
    users: bool


def check_target(target: Path, source: Path) -> None:
    """Raise ForkError if a data directory cannot be made at this path, of the one at another."""
    # The journal may be a link to another disk.
    for folder in (source, source / JOURNAL):
        if target.absolute().resolve().is_relative_to(folder.absolute().resolve()):
            raise ForkError(
                f"{target} is within {folder}, which is not changed: name another folder"
            )
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise ForkError(f"{target} exists and is not a folder: name a new one")
    if target.is_dir() and any(target.iterdir()):
        raise ForkError(f"{target} is not empty: name a new folder, or an empty one")
    if target.is_mount():
        raise ForkError(f"{target} is a mount point: name a new folder in it")
    if not target.absolute().parent.is_dir():
        raise ForkError(f"{target.absolute().parent} does not exist: create it first")


@contextmanager
def made(target: Path, source: Path, word: str) -> Iterator[Path]:
    """Yield a folder to fill; it gets the name of the target at the end, unless an exception is
    raised.

    `word` is in its name until then. The target must not be within the source. Raises ForkError and
    OSError.
    """
    check_target(target, source)
    parent = target.absolute().parent
    work = Path(mkdtemp(prefix=f".{target.name}.{word}-", dir=parent))
    try:
        yield work
        for folder, _, names in os.walk(work):
            for name in names:
                sync_file(Path(folder) / name)
            sync_directory(Path(folder))
        # Replaces an empty folder only.
        work.rename(target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    sync_directory(parent)


@contextmanager
def _room(target: Path) -> Iterator[None]:
    """Turn the errors of a full disk into one that names the target. Raises ForkError."""
    try:
        yield
    except (DiskFull, OSError, IndexUnwritable) as error:
        if not is_full(error):
            raise
        raise ForkError(
            f"no space is left for {target}: a fork needs room for an index and for a segment, and "
            "on another file system, or with --copy, for all segments. Nothing was left there"
        ) from error


def fork(
    source: Path,
    disk: Disk,
    lsn: int,
    target: Path,
    *,
    now: int,
    shares: bool,
    note: Callable[[str], None],
    progress: Callable[[int, int], None] | None = None,
) -> Fork:
    """Make a data directory with the state after the last whole block up to an event.

    `disk` has the segments of the source, maybe after those of its archive, and is pinned. `now` is
    microseconds since 1970. With `shares` segments share disk space with the source where that is
    possible. Raises ForkError, JournalError, OSError and the errors of `state_at`.
    """
    with _room(target), made(target, source, "unfinished") as work:
        journal = CopyDisk(work / JOURNAL)
        journal.create()
        with closing(Course(source, disk, lsn, work / INDEX, note)) as course:
            course.advance(lsn, progress)
        source_id, data_id = data_id_of(disk), os.urandom(16)
        end, end_hash = _position(work / INDEX)
        if not end:
            raise ForkError(
                f"there is no whole block up to event {lsn}: name a later event or time"
            )
        names, first = _kept(disk, end)
        ways = _bring(source / JOURNAL, disk, names, journal.path, shares=shares)
        copied = _rewrite(disk, journal, names, first, end, data_id)
        end_hash = copied.end_hash or end_hash
        detail = details.ForkedDetail(source_id.hex(), str(source.absolute()), end_hash.hex())
        copied.journal.append(_event(copied.journal.next_lsn, end, detail, now))
        copied.journal.finish(now)
        _take_over(work, data_id, end, end_hash)
        has_users = _finish(source, work, data_id)
        size = sum(
            (journal.path / name).stat().st_blocks * 512
            for name in segment_names(journal)
            if name not in names or ways[COPIED]
        )
        return Fork(
            str(target), data_id.hex(), source_id.hex(), end, first_lsn_of(journal), ways,
            copied.events, size, has_users,
        )  # fmt: skip


def _position(index: Path) -> tuple[int, bytes]:
    with closing(open_for_reading(index)) as tables, tables.read() as txn:
        return tables.position(txn)[:2]


def _kept(disk: Disk, end: int) -> tuple[list[str], int]:
    """Return the segments that end at or before an event, and the first event behind them.

    The newest one must have a sound footer to be among them, because it is not written again.
    """
    names = [name for name in segment_names(disk) if (segment_first_lsn(name) or 0) <= end]
    if not names:
        # The state before the first segment that is left, which the base has.
        return [], end + 1
    segment = open_segment(disk, names[-1], LAYOUT)
    try:
        is_whole = segment.footer().last_lsn == end
    except Damage:
        is_whole = False
    finally:
        segment.close()
    if is_whole:
        return names, end + 1
    return names[:-1], segment.header.first_lsn


def _bring(
    folder: Path, disk: Disk, names: list[str], target: Path, *, shares: bool
) -> dict[str, int]:
    """Clone, link or copy segments; return how many in which way."""
    ways = dict.fromkeys((CLONED, LINKED, COPIED), 0)
    for name in names:
        way = _share(folder / name, target / name) if shares else ""
        if not way:
            _copy(disk, name, target / name)
        ways[way or COPIED] += 1
    return ways


def _share(source: Path, target: Path) -> str:
    """Clone or link a file; return how, "" if neither is possible here.

    A clone is better: each file has its own owner and rights, and damage to one is not seen in the
    other.
    """
    if not source.is_file():
        return ""
    try:
        with source.open("rb") as read, target.open("xb") as written:
            fcntl.ioctl(written.fileno(), _CLONE, read.fileno())
        return CLONED
    except OSError as error:
        target.unlink(missing_ok=True)
        if error.errno == errno.ENOSPC:
            raise
    try:
        target.hardlink_to(source)
        return LINKED
    except OSError:
        return ""


def _copy(disk: Disk, name: str, target: Path) -> None:
    with closing(disk.open(name)) as read, target.open("xb") as written:
        offset = 0
        while piece := read.pread(_CHUNK_BYTES, offset):
            written.write(piece)
            offset += len(piece)


class _Copied(msgspec.Struct):
    """The newest segment of the fork, the hash of its last block with events, and how many."""

    journal: JournalCopy
    end_hash: bytes = b""
    events: int = 0


def _rewrite(
    disk: Disk, target: CopyDisk, names: list[str], first: int, end: int, data_id: bytes
) -> _Copied:
    """Begin the first segment of the fork's own with the blocks from an event up to the end."""
    header, previous = _before(disk, names, first)
    copied = _Copied(
        JournalCopy.begin(
            target, LAYOUT, data_id=data_id, first_lsn=first, previous_hash=previous,
            segment_bytes=header.segment_bytes, is_fork=True,
            level=max(header.level, KINDS[events.FORKED]),
        )
    )  # fmt: skip
    for block in read_blocks(disk, LAYOUT, from_lsn=first, to_lsn=end) if first <= end else ():
        if block.first_lsn >= first and block.last_lsn <= end:
            copied.journal.copy(block)
            copied.events += block.count
            if block.count:
                copied.end_hash = copied.journal.last_hash
    return copied


def _before(disk: Disk, names: list[str], first: int) -> tuple[SegmentHeader, bytes]:
    """Return the header to take sizes from, and the hash that the segment at an event follows."""
    behind = [name for name in segment_names(disk) if segment_first_lsn(name) == first]
    segment = open_segment(disk, (behind or names)[-1], LAYOUT)
    try:
        if behind:
            return segment.header, segment.header.previous_hash
        return segment.header, segment.footer().last_hash
    except Damage as damage:
        raise ForkError(f"segment {segment.name} cannot be read: {damage}") from damage
    finally:
        segment.close()


def _event(lsn: int, end: int, detail: details.ForkedDetail, now: int) -> Batch:
    encoded = events.encode_detail(detail)
    row = events.row(events.FORKED, related=end, time=now)
    packed = events.ROW_STRUCT.pack(*row, len(encoded), 0, 0)
    level = level_of([packed], [encoded])
    return Batch(lsn, [packed], ([encoded], [], []), now, level)


def _take_over(work: Path, data_id: bytes, end: int, end_hash: bytes) -> None:
    """Give the index the data id and the end of the fork; publish the base if segments are missing
    before it.
    """
    with closing(open_for_reading(work / INDEX)) as found, found.read() as txn:
        source_id, time = found.data_id(txn), found.position(txn)[2]
    tables = open_for_writing(work / INDEX, source_id)
    try:
        tables.write(lambda txn: tables.set_data_id(txn, data_id))
        tables.write(lambda txn: forget_clusters(tables, txn))
        tables.write(lambda txn: tables.set_position(txn, end, end_hash, time))
        if first_lsn_of(RealDisk(work / JOURNAL)) > 1:
            copied = work / BASE / "copy"
            copied.mkdir(mode=0o700, parents=True)
            tables.copy_to(copied)
            publish(work / BASE, copied / TABLES, end, data_id)
            shutil.rmtree(copied)
    finally:
        tables.close()
    (work / INDEX / TABLES_LOCK).unlink(missing_ok=True)


def _finish(source: Path, work: Path, data_id: bytes) -> bool:
    """Check that all messages have their content; add the other files that a broker needs.

    Return whether there are users.
    """
    first = first_lsn_of(RealDisk(work / JOURNAL))
    if first > 1:
        with closing(Survey.of(work, first - 1)) as survey:
            try:
                left = survey.count()
            except StoreError as error:
                raise ForkError(f"{str(error).rstrip('.')}. {_ARCHIVE}") from error
        if left:
            raise ForkError(f"{left} messages were queued whose content left since. {_ARCHIVE}")
    (work / DATA_ID).write_text(data_id.hex() + "\n", encoding="ascii")
    has_users = (source / USERS).is_file()
    if has_users:
        shutil.copyfile(source / USERS, work / USERS)
        (work / USERS).chmod(0o600)
    return has_users


_ARCHIVE: Final = "Name the archive that has the segments: --with-archive, or --archive URL"
