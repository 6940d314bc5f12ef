"""The contract of a journal on every disk. Mix in, and give a fixture `disk`."""

from collections.abc import Callable

import pytest

from daybook.journal.blocks.format import RESERVE_NAME, segment_name
from daybook.journal.blocks.layout import RowLayout
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError, NoJournal, WrongLayout
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.journal.segments.stat import stat
from daybook.journal.segments.verify import verify
from tests.suites.journal_rows import (
    DATA_ID,
    LAYOUT,
    SEGMENT_BYTES,
    all_events,
    append_some,
    create,
    file_bytes,
    make_batch,
    noise,
    overwrite,
    read_all,
    reopen,
    some_contents,
)


class JournalSuite:
    """Tests of a journal on the disk of the fixture `disk`."""

    def test_what_is_appended_is_read_back(self, disk: Disk) -> None:
        journal = create(disk)
        appended = append_some(journal, 3)
        assert journal.durable_lsn == 12
        assert journal.next_lsn == 13
        journal.close()
        assert read_all(disk) == appended

    def test_an_open_journal_goes_on_where_it_ended(self, disk: Disk) -> None:
        journal = create(disk)
        appended = append_some(journal, 2)
        last_hash = journal.last_hash
        journal.close()
        journal, repair = Journal.open(disk, LAYOUT, segment_bytes=SEGMENT_BYTES)
        assert repair.cut_bytes == 0
        assert journal.last_hash == last_hash
        assert journal.data_id == DATA_ID
        appended += append_some(journal, 2)
        journal.close()
        assert read_all(disk) == appended
        assert verify(disk).ok

    def test_an_empty_journal_is_opened(self, disk: Disk) -> None:
        create(disk).close()
        journal = reopen(disk)
        assert journal.durable_lsn == 0
        assert append_some(journal, 1) == read_all(disk)

    def test_segments_follow_each_other(self, disk: Disk) -> None:
        journal = create(disk)
        appended = append_some(journal, 30, count=20)
        journal.mark(7)
        journal.close()
        names = segment_names(disk)
        assert len(names) >= 3
        assert names[0] == segment_name(1)
        assert disk.names() == sorted([*names, RESERVE_NAME])
        assert read_all(disk) == appended
        report = verify(disk)
        assert report.ok
        assert (report.segments, report.events, report.marks) == (len(names), 600, 1)
        assert report.blocks == 30
        assert report.last_hash == journal.last_hash.hex()

    def test_reading_begins_at_any_lsn(self, disk: Disk) -> None:
        journal = create(disk)
        appended = append_some(journal, 24, count=20)
        for from_lsn in range(1, len(appended) + 1, 7):
            first = next(read_blocks(disk, LAYOUT, from_lsn=from_lsn))
            assert first.first_lsn <= from_lsn <= first.last_lsn
            assert list(all_events(disk, from_lsn)) == appended[first.first_lsn - 1 :]
        assert list(read_blocks(disk, LAYOUT, from_lsn=len(appended) + 1)) == []

    def test_reading_ends_at_any_lsn(self, disk: Disk) -> None:
        append_some(create(disk), 5)
        for to_lsn, last_lsn in ((1, 4), (4, 4), (5, 8), (20, 20), (99, 20)):
            assert [*read_blocks(disk, to_lsn=to_lsn)][-1].last_lsn == last_lsn

    def test_rows_can_be_read_without_heaps(self, disk: Disk) -> None:
        appended = append_some(create(disk), 20, count=20)
        thin = [row for block in read_blocks(disk, heaps=False) for row in block.rows()]
        assert thin == [event[1] for event in appended]

    def test_proven_blocks_are_those_that_something_follows(self, disk: Disk) -> None:
        journal = create(disk)
        append_some(journal, 2)
        assert [block.first_lsn for block in read_blocks(disk, proven=True)] == [1]
        journal.mark(5)
        assert [block.first_lsn for block in read_blocks(disk, proven=True)] == [1, 5]

    def test_a_follower_sees_what_comes_later(self, disk: Disk) -> None:
        journal = create(disk)
        appended = append_some(journal, 1)

        def append_more() -> bool:
            if len(appended) >= 400:
                return False
            appended.extend(append_some(journal, 1, count=20))
            return True

        blocks = read_blocks(disk, LAYOUT, follow=append_more)
        assert [event for block in blocks for event in block.events()] == appended
        assert len(segment_names(disk)) > 1

    def test_a_follower_waits_for_a_journal(self, disk: Disk) -> None:
        answers: list[Callable[[], object]] = [lambda: None, lambda: append_some(create(disk), 1)]

        def wait() -> bool:
            if not answers:
                return False
            answers.pop(0)()
            return True

        assert [block.last_lsn for block in read_blocks(disk, follow=wait)] == [4]

    def test_a_large_block_gets_a_segment_of_its_size(self, disk: Disk) -> None:
        journal = create(disk)
        append_some(journal, 1)
        body = bytes(range(256)) * 400
        large = (noise(60_000), noise(60_001))
        contents = [((1, 1, 1, 1, 1), b"", body), ((2, 2, 2, 2, 2), *large)]
        journal.append(make_batch(5, contents))
        append_some(journal, 1)
        journal.close()
        assert [event[2:] for event in all_events(disk, 5)][:2] == [(b"", body), contents[1][1:]]
        assert verify(disk).ok
        assert reopen(disk).next_lsn == 11

    def test_one_mark_is_enough(self, disk: Disk) -> None:
        journal = create(disk)
        append_some(journal, 1)
        journal.mark(77)
        last_hash = journal.last_hash
        journal.mark(78)
        assert journal.last_hash == last_hash
        journal.close()
        journal = reopen(disk)
        journal.mark(79)
        assert journal.last_hash == last_hash
        marks = [block for block in read_blocks(disk) if block.is_mark]
        assert [(mark.first_lsn, mark.last_lsn, mark.time) for mark in marks] == [(5, 4, 77)]
        assert list(marks[0].events()) == []
        append_some(journal, 1)
        journal.mark(80)
        assert journal.last_hash != last_hash

    def test_figures(self, disk: Disk) -> None:
        journal = create(disk)
        append_some(journal, 30, count=20)
        journal.mark(7)
        figures = stat(disk)
        assert [segment.name for segment in figures.segments] == segment_names(disk)
        assert [segment.sealed for segment in figures.segments][-2:] == [True, False]
        assert figures.events == 600
        assert sum(segment.blocks for segment in figures.segments) == 30
        assert sum(segment.marks for segment in figures.segments) == 1
        assert figures.raw_bytes == 600 * 31 + sum(
            len(text) for content in some_contents(1, 600) for text in content[1:]
        )
        assert 0 < figures.stored_bytes < figures.raw_bytes
        assert figures.ratio == figures.raw_bytes / figures.stored_bytes
        assert figures.data_id == DATA_ID.hex()
        newest = figures.segments[-1]
        assert (newest.file_bytes, newest.last_lsn) == (SEGMENT_BYTES, 600)
        assert (figures.segments[0].time_min, newest.time_max) == (1_000_001, 1_000_600)
        sizes = [len(file_bytes(disk, name)) for name in segment_names(disk)]
        assert [segment.file_bytes for segment in figures.segments] == sizes
        assert figures.file_bytes == sum(sizes)

    def test_a_torn_tail_is_cut_and_reported(self, disk: Disk) -> None:
        journal = create(disk)
        appended = append_some(journal, 2)
        journal.close()
        name = segment_names(disk)[0]
        end = stat(disk).segments[0].used_bytes
        overwrite(disk, name, end, b"dbBL" + b"\xff" * 600)
        assert read_all(disk) == appended
        tail = verify(disk).tail
        assert tail is not None
        assert (tail.segment, tail.offset, tail.lsn) == (name, end, 9)
        journal, repair = Journal.open(disk, LAYOUT, segment_bytes=SEGMENT_BYTES)
        assert (repair.segment, repair.cut_offset, repair.cut_bytes) == (name, end, 604)
        assert "crc" in repair.reason
        assert not any(file_bytes(disk, name)[end:])
        appended += append_some(journal, 2)
        assert read_all(disk) == appended
        assert verify(disk).tail is None

    def test_what_is_no_journal_is_refused(self, disk: Disk) -> None:
        with pytest.raises(NoJournal, match="no journal"):
            reopen(disk)
        with pytest.raises(NoJournal):
            verify(disk)
        with pytest.raises(NoJournal):
            stat(disk)
        with pytest.raises(NoJournal):
            next(read_blocks(disk))
        assert list(read_blocks(disk, follow=lambda: False)) == []

    def test_a_second_journal_is_refused(self, disk: Disk) -> None:
        create(disk).close()
        with pytest.raises(JournalError, match="already"):
            create(disk)

    def test_another_layout_is_refused(self, disk: Disk) -> None:
        create(disk).close()
        other = RowLayout(LAYOUT.columns, ("note",), 32, 24, "kind", "time", "message", "queue")
        with pytest.raises(WrongLayout, match="other columns"):
            Journal.open(disk, other)
        with pytest.raises(WrongLayout):
            next(read_blocks(disk, other))

    def test_another_segment_size_may_be_chosen_at_any_time(self, disk: Disk) -> None:
        journal = create(disk)
        appended = append_some(journal, 10, count=20)
        journal.close()
        journal = reopen(disk, segment_bytes=16384)
        appended += append_some(journal, 40, count=20)
        journal.close()
        assert read_all(disk) == appended
        assert stat(disk).segments[-1].file_bytes == 16384
