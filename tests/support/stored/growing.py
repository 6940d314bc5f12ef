"""A journal that grows while others read it, as that of a running broker does."""

from collections.abc import Sequence
from pathlib import Path

from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.segment import segment_names
from daybook.paging.tables.layout import LAYOUT
from tests.support.histories import HISTORY_ID, batch_of
from tests.support.world import Event


class Growing:
    """Writes events bit by bit into a data directory; a context manager."""

    def __init__(
        self, directory: Path, events: Sequence[Event], segment_bytes: int = 1 << 14
    ) -> None:
        self.directory = directory
        self.events = events
        directory.mkdir()
        (directory / DATA_ID).write_text(HISTORY_ID.hex())
        self.disk = RealDisk(directory / JOURNAL)
        self.disk.create()
        self._journal = Journal.create(
            self.disk, LAYOUT, data_id=HISTORY_ID, segment_bytes=segment_bytes
        )

    def grow(self, to_lsn: int, block_events: int = 50) -> None:
        """Append events up to this LSN."""
        for start in range(self._journal.next_lsn - 1, to_lsn, block_events):
            end = min(start + block_events, to_lsn)
            self._journal.append(batch_of(self.events[start:end]))

    def lose_first(self) -> int:
        """Remove the oldest segment; return the LSN that the journal begins with then."""
        names = segment_names(self.disk)
        assert len(names) > 1
        self.disk.remove(names[0])
        return int(Path(names[1]).stem)

    def __enter__(self) -> "Growing":
        return self

    def __exit__(self, *exc: object) -> None:
        self._journal.close()
