"""Makes the catalogs that a journal does not have yet, by several processes (`journal catalog`).

Fault model: a process may be killed, a segment may be damaged, the disk may be full; catalogs
that were made until then are whole and stay. Must never know what a catalog is asked.
"""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from daybook.errors import DaybookError
from daybook.history.moments import last_lsn
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.format import Damage
from daybook.journal.data_directory import ARCHIVE_CATALOGS, CATALOGS, JOURNAL
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.errors import JournalError, NoJournal
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.paging.catalogs.catalog_making import (
    HeaderChoice,
    Job,
    all_sealed,
    catalogued,
    missing_catalogs,
    next_piece,
    remove_others,
    remove_work,
    write_catalog,
)

NICENESS: Final = 10


class CatalogsCut(DaybookError):
    """A process that made catalogs was killed."""


class Order(NamedTuple):
    """The catalog that a process is to make, with everything that it needs to know."""

    data: str
    archive: str
    headers: str
    job: Job


def make_missing(
    path: Path,
    disk: Disk,
    archive: str,
    headers: str,
    *,
    processes: int,
    again: bool,
    progress: Callable[[int, int], None],
) -> int:
    """Make the catalogs that are missing, or all with `again`; return how many were made.

    `archive` is the URL of the archive that `disk` begins with, "" for none. `headers` are those
    that messages are found by. `progress` is called with how many segments of how many are done.
    Raises CatalogsCut, JournalError and OSError.
    """
    if not segment_names(disk):
        raise NoJournal(f"there is no journal in {path}")
    orders = [Order(str(path), archive, headers, job) for job in _jobs(disk, path, again=again)]
    made = 0
    try:
        if orders:
            made = _make_all(orders, processes, progress)
        made += _make_pieces(path, disk, headers)
    finally:
        for name in (CATALOGS, ARCHIVE_CATALOGS):
            remove_work(path / name)
    remove_others(path / CATALOGS, RealDisk(path / JOURNAL))
    return made


def catalog_files(path: Path) -> list[Path]:
    """Return the catalogs of a data directory."""
    return [each for name in (CATALOGS, ARCHIVE_CATALOGS) for each in (path / name).glob("*")]


def _jobs(disk: Disk, path: Path, *, again: bool) -> Iterator[Job]:
    """Yield what is to be made of sealed segments."""
    data_id = data_id_of(disk)
    if again:
        yield from all_sealed(disk)
        return
    live = set(segment_names(RealDisk(path / JOURNAL)))
    for job in missing_catalogs(disk, data_id, path / CATALOGS):
        if job.segment in live:
            yield job
    for job in missing_catalogs(disk, data_id, path / ARCHIVE_CATALOGS):
        if job.segment not in live:
            yield job


def _make_all(orders: list[Order], processes: int, progress: Callable[[int, int], None]) -> int:
    """Carry out orders, several at a time; return how many catalogs were made."""
    made = 0
    # Ctrl-C ends them at once, without a word: their files have no names yet.
    pool = ProcessPoolExecutor(min(processes, len(orders)), initializer=_begin)
    pending: list[Future[bool]] = []
    try:
        pending = [pool.submit(make, order) for order in orders]
        for number, done in enumerate(as_completed(pending), 1):
            made += done.result()
            progress(number, len(orders))
    except BrokenProcessPool as error:
        raise CatalogsCut(
            "a process that made catalogs was killed; those that were made stay, and the command "
            "can be repeated"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return made


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(OSError):
        os.nice(NICENESS)


def make(order: Order) -> bool:
    """Make one catalog; return whether there was anything to say. Raises JournalError, OSError."""
    path = Path(order.data)
    live = RealDisk(path / JOURNAL)
    with ExitStack() as resources:
        disk: Disk = live
        is_archived = order.job.segment not in segment_names(live)
        if order.archive:
            disk = resources.enter_context(Archive(order.archive).reading(live))
        folder = path / (ARCHIVE_CATALOGS if is_archived else CATALOGS)
        return _make(disk, path, folder, order.headers, order.job)


def _make(disk: Disk, path: Path, folder: Path, headers: str, job: Job) -> bool:
    steps = catalogued(disk, data_id_of(disk), HeaderChoice(headers), job)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            content: bytes = done.value
            break
        except Damage as damage:
            raise JournalError(f"segment {job.segment}: {damage}") from damage
    if content:
        write_catalog(folder, job.from_lsn, content)
        _give_to_owner(path, folder)
    return bool(content)


def _give_to_owner(path: Path, folder: Path) -> None:
    """Let the owner of a data directory have its catalogs, where root made them."""
    if os.geteuid():
        return
    owner = path.stat()
    for each in (folder, *folder.iterdir()):
        with suppress(FileNotFoundError):
            os.chown(each, owner.st_uid, owner.st_gid)


def _make_pieces(path: Path, disk: Disk, headers: str) -> int:
    """Make the pieces of the newest segment that are missing; return how many."""
    live = RealDisk(path / JOURNAL)
    if not segment_names(live):
        return 0
    until = last_lsn(live)
    made = 0
    while True:
        job = next_piece(live, data_id_of(live), path / CATALOGS, until)
        if not _make(disk, path, path / CATALOGS, headers, job):
            return made
        made += 1
