"""Removing derived files that are bad, when a broker starts: snapshots, catalogs and clusters.

They are written without a sync, so a power cut may leave them empty or short. They only save time,
and readers pass damaged ones over; but every check of the directory would report them. Removed
files are made again, or are not needed. The tables of the index are judged elsewhere
(`recovery.checkpoint`). Fault model: files may contain anything; files that cannot be removed stay.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from daybook.journal.blocks.format import Damage
from daybook.journal.data_directory import (
    ARCHIVE_CATALOGS,
    CATALOGS,
    CLUSTERS_DIRECTORY,
    INDEX,
    SNAPSHOTS,
)
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.catalogs.catalog_file import SUFFIX, CatalogFile
from daybook.paging.checks.usability import why_not_of
from daybook.paging.content.cluster_writer import ranges_of
from daybook.paging.content.clusters import Cluster, check_cluster
from daybook.paging.snapshots.base import name_of, sha256_of
from daybook.paging.snapshots.snapshots import Snapshot, known_snapshots, unusable
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable, open_for_reading

READ_BYTES_MAX: Final = 256 * 1024 * 1024
"""So many bytes are read whole, the newest files first; of others only the part with their size."""

Notice = Callable[[str], None]


class _Bad(NamedTuple):
    """A file with its fault, and the files that belong to it."""

    path: Path
    wrong: str
    others: tuple[Path, ...] = ()


class _Budget:
    """The bytes that may still be read."""

    def __init__(self, size: int) -> None:
        self._left = size

    def allows(self, size: int) -> bool:
        """Whether a file of this size may be read whole; it then counts."""
        if size > self._left:
            return False
        self._left -= size
        return True


def remove_damaged(
    data: Path,
    disk: Disk,
    data_id: bytes,
    notice: Notice,
    *,
    has_index: bool = True,
    bytes_max: int = READ_BYTES_MAX,
) -> None:
    """Remove the snapshots, catalogs and clusters of a data directory that are damaged; `disk` has
    its journal.

    `notice` is called with a sentence for each. To be called by the owner of the directory, while
    no indexer runs. Clusters are looked at if the tables of the index may be read. Raises
    JournalError.
    """
    budget = _Budget(bytes_max)
    found = [_bad_snapshots(data / SNAPSHOTS, disk, data_id, budget)]
    found += [_bad_catalogs(data / each, data_id, budget) for each in (CATALOGS, ARCHIVE_CATALOGS)]
    found += [_bad_clusters(data / INDEX, data_id, budget)] if has_index else []
    for bad in (each for those in found for each in those):
        for path in (bad.path, *bad.others):
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        notice(f"the derived file {bad.path} was removed: {bad.wrong}")


def _bad_snapshots(directory: Path, disk: Disk, data_id: bytes, budget: _Budget) -> Iterator[_Bad]:
    first = first_lsn_of(disk)
    for path in unusable(directory, data_id):
        copied = directory / name_of(int(path.stem)) if path.stem.isdigit() else path
        yield _Bad(path, "it cannot be read, or is of another journal", (copied,))
    described = set()
    for known in known_snapshots(directory, data_id):
        path = directory / known.file
        described.add(path)
        wrong = _wrong_snapshot(path, known, budget)
        if not wrong and known.lsn >= first:
            wrong = why_not_of(disk, known.lsn, bytes.fromhex(known.block_hash))
        if wrong:
            yield _Bad(path, wrong, (directory / f"{known.lsn:020d}.json",))
    for path in sorted(directory.glob(f"*{Path(name_of(0)).suffix}")):
        if path not in described and path.exists():
            yield _Bad(path, "nothing describes it")


def _wrong_snapshot(path: Path, known: Snapshot, budget: _Budget) -> str:
    try:
        found = path.stat().st_size
        if found != known.bytes:
            return f"it has {found} bytes of {known.bytes}"
        if budget.allows(known.bytes) and sha256_of(path) != known.sha256:
            return "its SHA-256 is not the one that was noted"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return ""


def _bad_catalogs(directory: Path, data_id: bytes, budget: _Budget) -> Iterator[_Bad]:
    for path in sorted(directory.glob("*" + SUFFIX), reverse=True):
        try:
            if not path.stem.isdigit():
                raise Damage("its name is not that of a catalog")
            catalog = CatalogFile(path)
            if (catalog.told.data_id, catalog.told.first_lsn) != (data_id, int(path.stem)):
                raise Damage("it is of another journal")
            size = path.stat().st_size
            if size < catalog.end:
                raise Damage(f"it has {size} bytes of {catalog.end}")
            if budget.allows(size):
                catalog.check()
        except Damage as damage:
            yield _Bad(path, str(damage))
        except OSError as error:
            yield _Bad(path, f"it cannot be read ({error.strerror})")


def _bad_clusters(index: Path, data_id: bytes, budget: _Budget) -> Iterator[_Bad]:
    """A reader does without a cluster that is gone, and reads the journal instead."""
    disk = RealDisk(index / CLUSTERS_DIRECTORY)
    try:
        with closing(open_for_reading(index, data_id)) as tables, tables.read() as txn:
            ranges = [known for known in ranges_of(tables, txn) if known.bytes]
    except (IndexDamaged, IndexUnwritable):
        return
    for known in reversed(ranges):
        try:
            if budget.allows(known.bytes):
                check_cluster(disk, data_id, known)
            else:
                Cluster(disk, data_id, known).close()
        except FileNotFoundError:
            continue
        except (Damage, OSError) as error:
            yield _Bad(index / CLUSTERS_DIRECTORY / known.name, str(error))
