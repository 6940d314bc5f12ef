"""Figures from footers and from blocks agree; the rest is in the suite."""

from daybook.journal.disk import MemoryDisk
from daybook.journal.segments.segment import segment_names
from daybook.journal.segments.stat import stat
from tests.suites.journal_rows import append_some, create


def test_figures_do_not_depend_on_footers() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 30, count=20)
    journal.mark(1)
    with_footers = stat(disk)
    for name in segment_names(disk)[:-1]:
        disk.files[name][-1] ^= 1
    without = stat(disk)
    for one, other in zip(with_footers.segments[:-1], without.segments[:-1], strict=True):
        assert one.sealed
        assert not other.sealed
        assert one.time_max == other.time_max > 0
        assert one.used_bytes > other.used_bytes
    assert with_footers.stored_bytes == without.stored_bytes
    assert with_footers.raw_bytes == without.raw_bytes
    assert with_footers.events == without.events


def test_an_empty_journal_has_figures() -> None:
    disk = MemoryDisk()
    create(disk)
    figures = stat(disk)
    assert (figures.events, figures.ratio, figures.raw_bytes) == (0, 1.0, 0)
    assert figures.segments[0].used_bytes == 4096
    assert figures.segments[0].last_lsn == 0
