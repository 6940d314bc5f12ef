"""Segments stay while they are read, and may leave afterwards."""

from pathlib import Path

import pytest

from daybook.journal.data_directory import LOCK
from daybook.journal.disk import RealDisk
from daybook.journal.pins import NO_PIN, PINS, lowest_pinned_lsn
from daybook.journal.retention import remove_unpinned, sealed_segments
from daybook.journal.segments.segment import segment_names
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.planning import Source
from daybook.pipeline.reading import reading
from daybook.pipeline.selection import Selection, SelectionError
from tests.support.histories import some_history, write_history


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that a broker has served."""
    found = write_history(tmp_path, some_history(3, 300), segment_bytes=8192)
    (found / LOCK).touch()
    return found


def leave(data: Path) -> None:
    disk = RealDisk(data / "journal")
    remove_unpinned(disk, data, list(sealed_segments(disk)))


def test_segments_stay_until_they_are_read(data: Path) -> None:
    before = segment_names(RealDisk(data / "journal"))
    with reading(Source(str(data))) as plan:
        leave(data)
        lsns = [lsn for batch in read_plan(plan, ["lsn"]) for lsn in batch.column(0).to_pylist()]
        assert lsns == list(range(1, plan.last_lsn + 1))
        assert segment_names(RealDisk(data / "journal")) == before
    leave(data)
    assert segment_names(RealDisk(data / "journal")) == before[-1:]
    assert lowest_pinned_lsn(data) == NO_PIN


def test_only_what_is_selected_is_pinned(data: Path) -> None:
    with reading(Source(str(data)), Selection(from_lsn=500)) as plan:
        assert lowest_pinned_lsn(data) == plan.splits[0].first_lsn > 1
        leave(data)
        assert sum(batch.num_rows for batch in read_plan(plan, ["lsn"])) == plan.last_lsn - 499
    with reading(Source(str(data)), Selection(from_lsn=1 << 40)) as plan:
        assert lowest_pinned_lsn(data) == plan.last_lsn + 1


def test_reading_goes_on_where_no_pin_can_be_made(data: Path) -> None:
    (data / PINS).write_bytes(b"")
    with reading(Source(str(data)), names=False) as plan:
        assert sum(batch.num_rows for batch in read_plan(plan, ["lsn"])) == plan.last_lsn


def test_what_names_nothing_is_refused() -> None:
    with pytest.raises(SelectionError, match="name a data directory"), reading(Source()):
        pass
