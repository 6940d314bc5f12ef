"""Bytes between two places of a journal."""

from daybook.journal.disk import MemoryDisk
from daybook.journal.places import BEFORE_ALL, bytes_between
from daybook.journal.segments.segment import segment_names
from tests.unit.journal.test_replica import a_journal, append


def test_bytes_between_places_are_those_of_the_segments_between() -> None:
    disk = MemoryDisk()
    journal = a_journal(disk)
    append(journal, 3)
    first = journal.place
    append(journal, 5)
    assert bytes_between(disk, first, journal.place) == journal.place.offset - first.offset
    assert bytes_between(disk, journal.place, first) == 0
    while len(segment_names(disk)) < 3:
        append(journal, 9)
    end = journal.place
    sealed = segment_names(disk)[:-1]
    sizes = {name: len(disk.open(name).pread(1 << 20, 0)) for name in sealed}
    assert bytes_between(disk, first, end) == sum(sizes.values()) - first.offset + end.offset
    assert bytes_between(disk, BEFORE_ALL, end) == sum(sizes.values()) + end.offset
    # Segments that were removed count no more.
    disk.remove(sealed[0])
    assert bytes_between(disk, BEFORE_ALL, end) == sizes[sealed[1]] + end.offset
