"""Verifying the snapshots of a data directory against the fold of the journal at their events.

They are derived, so a damaged one costs only time; but it must be said, because nobody else reads
all of them. Changes nothing.
"""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from daybook.paging.base import restore_copy
from daybook.paging.digesting import digest_of
from daybook.paging.index import Index
from daybook.paging.loading import load_state
from daybook.paging.snapshots import Snapshot, known_snapshots, unusable
from daybook.paging.tables import IndexDamaged, IndexUnwritable, open_for_reading


class SnapshotCheck:
    """The snapshots in a directory, by the event at which each is to be compared.

    `wrong` has a sentence for each description that cannot be read, or is of another journal.
    """

    def __init__(self, directory: Path, data_id: bytes) -> None:
        self._directory: Final = directory
        self.wrong: Final = [
            f"the snapshot {path}: its description cannot be read, or is of another journal. Delete"
            " it: it is derived, and only saves time"
            for path in unusable(directory, data_id)
        ]
        self._by_lsn: Final = {each.lsn: each for each in known_snapshots(directory, data_id)}
        self.compared = 0

    @property
    def events(self) -> frozenset[int]:
        """The events at which there is a snapshot."""
        return frozenset(self._by_lsn)

    def compare(self, fold: Index) -> list[str]:
        """Return what is wrong with the snapshot at the event up to which a journal was folded;
        nothing if there is none. Raises OSError."""
        known = self._by_lsn.get(fold.lsn)
        if known is None:
            return []
        self.compared += 1
        wrong = self._wrong(known, fold)
        if not wrong:
            return []
        path = self._directory / known.file
        return [f"the snapshot {path}: {wrong}. Delete it: it is derived, and only saves time"]

    def _wrong(self, known: Snapshot, fold: Index) -> str:
        if known.block_hash != fold.last_hash.hex():
            return "it is of another journal"
        with TemporaryDirectory(prefix="daybook-verify-") as folder:
            damaged = restore_copy(self._directory, known, Path(folder))
            if damaged:
                return damaged
            sums: dict[int, int] = {}
            try:
                with closing(open_for_reading(Path(folder))) as tables, tables.read() as txn:
                    found = digest_of(load_state(tables, txn, None, sums=sums), sums)
            except (IndexDamaged, IndexUnwritable) as error:
                return str(error)
        expected = fold.digest()
        if found == expected:
            return ""
        return f"its digest is {found}, and folding the journal gives {expected}"
