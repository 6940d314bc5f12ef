"""Verifying the snapshots of a data directory and its archive against the fold of the journal.

They are derived, so a damaged one costs only time; but it must be reported, because no other code
reads all of them. Only reads.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from daybook.journal.blocks.format import snapshot_name
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import data_id_of
from daybook.paging.fold.index import Index
from daybook.paging.fold.index_digest import digest_of
from daybook.paging.snapshots.archived_snapshots import archived_lsns, restore_archived
from daybook.paging.snapshots.base import restore_copy
from daybook.paging.snapshots.snapshots import Snapshot, known_snapshots, unusable
from daybook.paging.tables.loading import load_state
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable, open_for_reading
from daybook.scratch_folders import scratch_folder


class SnapshotCheck:
    """The snapshots in a directory, and archived ones on the disk of its journal, by the event at
    which to compare each.

    `wrong` has a sentence for each description that cannot be read, or is of another journal.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory: Final = directory
        self._disk: Final = disk
        self._data_id: Final = data_id_of(disk)
        self.wrong: Final = [
            f"the snapshot {path}: its description cannot be read, or is of another journal. Delete"
            " it: it is derived, and only saves time"
            for path in unusable(directory, self._data_id)
        ]
        self._by_lsn: Final = {each.lsn: each for each in known_snapshots(directory, self._data_id)}
        self._archived: Final = frozenset(archived_lsns(disk))
        self.compared = 0

    @property
    def events(self) -> frozenset[int]:
        """The events at which there is a snapshot."""
        return self._archived.union(self._by_lsn)

    def compare(self, fold: Index) -> list[str]:
        """Return the faults of the snapshots at the event up to which a journal was folded.

        Raises JournalError and OSError.
        """
        found = []
        known = self._by_lsn.get(fold.lsn)
        if known is not None:
            found.append((f"the snapshot {self._directory / known.file}", self._local(known, fold)))
        if fold.lsn in self._archived:
            what = f"the archived snapshot {snapshot_name(fold.lsn)}"
            found.append((what, self._wrong(self._restore_archived, fold)))
        self.compared += len(found)
        return [
            f"{what}: {wrong}. Delete it: it is derived, and only saves time"
            for what, wrong in found
            if wrong
        ]

    def _local(self, known: Snapshot, fold: Index) -> str:
        if known.block_hash != fold.last_hash.hex():
            return "it is of another journal"
        return self._wrong(lambda lsn, path: restore_copy(self._directory, known, path), fold)

    def _restore_archived(self, lsn: int, path: Path) -> str:
        return restore_archived(self._disk, lsn, self._data_id, path)

    def _wrong(self, restore: Callable[[int, Path], str], fold: Index) -> str:
        with scratch_folder("verify") as folder:
            damaged = restore(fold.lsn, folder)
            if damaged:
                return damaged
            sums: dict[int, int] = {}
            try:
                with closing(open_for_reading(folder)) as tables, tables.read() as txn:
                    found = digest_of(load_state(tables, txn, None, sums=sums), sums)
            except (IndexDamaged, IndexUnwritable) as error:
                return str(error)
        expected = fold.digest()
        if found == expected:
            return ""
        return f"its digest is {found}, and folding the journal gives {expected}"
