"""Histories whose first segments, with their snapshots, are in an archive alone."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from daybook.journal.archive import snapshots as shelf
from daybook.journal.archive.archive import Archive
from daybook.journal.data_directory import BASE, INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.journal.retention import sealed_segments
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.retention.retirement import Order, keep, keep_snapshots
from daybook.paging.snapshots import snapshots
from daybook.paging.snapshots.snapshots import Snapshots, remove_before
from tests.support.histories import HISTORY_ID, write_history
from tests.support.world import Event

SEGMENT_BYTES = 1 << 13


def archived_history(
    folder: Path, events: Sequence[Event], cuts: Sequence[int], *, with_snapshots: bool = True
) -> list[str]:
    """Write `folder/data` and `folder/archive`, with snapshots at the cuts that end a block of the
    segments that left; return what was said about them.

    Without snapshots in the archive everything is in the data directory, too.
    """
    data, archive = folder / "data", folder / "archive"
    ends = {*cuts, *range(20, len(events), 20), len(events) - 1}
    write_history(data, events, cuts=ends, segment_bytes=SEGMENT_BYTES)
    disk = RealDisk(data / JOURNAL)
    taken = Snapshots(data / SNAPSHOTS, HISTORY_ID)
    with (
        patch.object(snapshots, "SHARE", 0),
        patch.object(snapshots, "FREE_TIMES", 0),
        closing(Index(data / INDEX, HISTORY_ID)) as index,
    ):
        for batch in batches(disk, 0, len(events), set(cuts)):
            index.advance(batch)
            if index.lsn in cuts:
                assert taken.follow(index, disk, 1, 1)
    archived = list(sealed_segments(disk))
    last = archived[-1].last_lsn
    keep(disk, Archive(str(archive)), data / BASE, data / INDEX, HISTORY_ID, last, now=1)
    if not with_snapshots:
        return []
    with patch.object(shelf, "SHARE", 0):
        said = keep_snapshots(data, last, Order(str(archive), 1))
    for segment in archived:
        (disk.path / segment.name).unlink()
    # Also the one that the indexer keeps, of the state before the first live event.
    remove_before(data / SNAPSHOTS, last + 1)
    return said
