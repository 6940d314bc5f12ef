"""Verifying the index of a data directory: by itself, against the journal, and against the fold.

A copy of the index at one moment is checked, so that a broker may run on the directory. Only reads.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import INDEX, JOURNAL
from daybook.journal.disk import Disk
from daybook.paging.checks.fold_comparison import different_clusters, different_rows
from daybook.paging.checks.index_check import check
from daybook.paging.checks.usability import check_apart, older_format
from daybook.paging.fold.index import Index
from daybook.paging.fold.index_digest import digest_of
from daybook.paging.snapshots.index_copy import copy_index
from daybook.paging.tables.checked import IndexDamaged
from daybook.paging.tables.loading import load_state
from daybook.paging.tables.tables import FORMAT, IndexUnwritable, open_for_reading
from daybook.scratch_folders import scratch_folder

ATTEMPTS: Final = 3
"""How often copying is tried while the index is written: a cluster may be removed during a copy."""


class IndexCopy:
    """A copy of the index of a data directory, at `lsn`; `wrong` lists faults of the index by
    itself. `older` is a sentence if it is of an older release, and cannot be compared.
    """

    def __init__(self, path: Path, lsn: int, wrong: str, older: str = "") -> None:
        self._path: Final = path
        self.lsn: Final = lsn
        self.wrong: Final = wrong
        self.older: Final = older

    def out_of(self, first: int, last: int) -> str:
        """Return why it cannot be compared: the journal has other events."""
        if self.lsn > last:
            return (
                f"the index knows of event {self.lsn}, and the journal ends with {last}: the end "
                "of the journal is missing; restore the segments behind from a copy"
            )
        return (
            f"the index ends with event {self.lsn}, before the journal begins ({first}): the next "
            "start rebuilds it"
        )

    def check_base(self, restored: Path) -> list[str]:
        """Return the faults of a base that was just restored, apart from its hash."""
        try:
            check(restored, clusters=False)
        except IndexDamaged as damage:
            return [f"the base: {damage}"]
        return []

    def compare(self, fold: Index, disk: Disk) -> list[str]:
        """Return where it differs from an index that was just built from the journal up to its
        event."""
        try:
            with closing(open_for_reading(self._path)) as tables:
                sums: dict[int, int] = {}
                with tables.read() as txn:
                    found = digest_of(load_state(tables, txn, None, sums=sums), sums)
                wrong = [*different_rows(fold.tables, tables), *different_clusters(tables, disk)]
        except (IndexDamaged, IndexUnwritable) as error:
            return [f"the index: {error}"]
        expected = fold.digest()
        if found != expected:
            wrong.append(f"its digest is {found}, and folding the journal gives {expected}")
        return [f"the index at event {self.lsn}: {each}" for each in wrong]


@contextmanager
def copied_index(data: Path) -> Iterator[IndexCopy]:
    """Copy the index of a data directory and check all of it; `wrong` also says why it cannot be
    copied.

    Takes space for the tables in the directory for temporary files. Raises IndexUnwritable,
    OSError.
    """
    with scratch_folder("verify") as folder:
        for attempt in range(ATTEMPTS):
            path = folder / str(attempt)
            try:
                is_written = copy_index(data, path)
            except IndexDamaged as error:
                wrong = str(error)
                break
            wrong = check_apart(path, data / JOURNAL).replace(str(path), str(data / INDEX))
            if not wrong or not is_written:
                break
        lsn = 0
        older = older_format(path) if wrong else 0
        if older:
            says = (
                f"the index in {data / INDEX} is of an older release (format {older}, and this "
                f"release has {FORMAT}): it is not compared, and the first start rebuilds it"
            )
            yield IndexCopy(path, 0, "", says)
            return
        if not wrong:
            with closing(open_for_reading(path)) as tables, tables.read() as txn:
                lsn = tables.position(txn)[0]
        yield IndexCopy(path, lsn, wrong)
