"""Verifying the catalogs of a data directory: each is made again from its blocks, and compared.

They are derived, so a damaged one costs only time; but it must be said, because a reader asks only
for parts of them. Only reads.
"""

from collections.abc import Iterator
from pathlib import Path

from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.data_directory import ARCHIVE_CATALOGS, CATALOGS
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.paging.catalogs.catalog_file import SUFFIX, CatalogFile, catalog_name
from daybook.paging.catalogs.catalog_keys import BODIES
from daybook.paging.catalogs.catalog_making import HeaderChoice, Job, catalogued, write_catalog
from daybook.scratch_folders import scratch_folder

ADVICE = "Delete it: it is derived, and only saves time"


def wrong_catalogs(directory: Path, disk: Disk) -> Iterator[str]:
    """Yield "" for each sound catalog of the segments on a disk, and a sentence for each other one.

    Raises JournalError and OSError.
    """
    names = {segment_first_lsn(name) or 0: name for name in segment_names(disk)}
    data_id = data_id_of(disk)
    firsts = sorted(names)
    for folder in (ARCHIVE_CATALOGS, CATALOGS):
        for path in sorted((directory / folder).glob("*" + SUFFIX)):
            before = [first for first in firsts if path.stem.isdigit() and first <= int(path.stem)]
            if not before and path.stem.isdigit():
                # Of a segment that left, or of the archive, which is not read.
                continue
            wrong = _wrong(path, disk, data_id, names[before[-1]]) if before else "a strange name"
            yield f"the catalog {path}: {wrong}. {ADVICE}" if wrong else ""


def _wrong(path: Path, disk: Disk, data_id: bytes, segment: str) -> str:
    """Return the fault of a catalog, "" without one."""
    try:
        found = CatalogFile(path)
        told = found.told
        if told.data_id != data_id or told.first_lsn != int(path.stem):
            return "it is of another journal"
        until = 0 if told.whole else told.last_lsn + 1
        steps = catalogued(
            disk, data_id, HeaderChoice(told.choice), Job(segment, told.first_lsn, until)
        )
        content = b""
        while True:
            try:
                next(steps)
            except StopIteration as done:
                content = done.value
                break
        if not content:
            return "there are no such blocks"
        with scratch_folder("verify") as folder:
            write_catalog(folder, told.first_lsn, content)
            return _difference(found, CatalogFile(folder / catalog_name(told.first_lsn)))
    except Damage as damage:
        return str(damage)
    except JournalError as error:
        return f"its blocks cannot be read ({error})"


def _difference(found: CatalogFile, expected: CatalogFile) -> str:
    """Return the difference between two catalogs, "" if they are equal. Raises Damage."""
    one, other = found.told, expected.told
    for field in ("last_lsn", "begin", "end", "previous_hash", "last_hash"):
        if getattr(one, field) != getattr(other, field):
            return f"its {field} differs from the journal's"
    headers = (one.all_headers, one.left_out, one.headers.keys())
    if headers != (other.all_headers, other.left_out, other.headers.keys()):
        return "it has other headers than the journal"
    if list(found.places()) != list(expected.places()):
        return "its list of blocks differs from the journal's"
    if one.tables.keys() != other.tables.keys():
        return "it has other tables than it should"
    for name in one.tables:
        # A large body whose chunks left the journal since was there for the catalog.
        is_known = name != BODIES or other.all_bodies == one.all_bodies
        if is_known and list(found.pairs(one.tables[name])) != list(
            expected.pairs(other.tables[name])
        ):
            return f"its table '{name}' differs from the journal"
    for name in one.headers:
        if list(found.pairs(one.headers[name])) != list(expected.pairs(other.headers[name])):
            return f"its table of the header '{name}' differs from the journal"
    return ""
