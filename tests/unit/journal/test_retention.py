"""The oldest segments leave, never needed ones, and never with a gap."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from daybook.journal.blocks.format import segment_first_lsn, segment_name
from daybook.journal.data_directory import LOCK
from daybook.journal.disk import MemoryDisk, RealDisk
from daybook.journal.errors import Corruption, JournalError
from daybook.journal.pins import Pin, holding_off_pins
from daybook.journal.retention import (
    Limits,
    SealedSegment,
    SegmentTable,
    choose,
    remove,
    remove_unpinned,
    sealed_segments,
)
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.journal.segments.stat import stat
from daybook.journal.segments.verify import verify
from tests.simulation.machine.disk import FaultyDisk, PowerCut
from tests.suites.journal_rows import LAYOUT, append_some, create, read_all, reopen

NOW = 1_000_000_000
MS = 1000


def live_bytes_of(disk: MemoryDisk) -> int:
    """Size of all segments."""
    return sum(disk.open(name).size() for name in segment_names(disk))


def segments(*sizes: tuple[int, int, int]) -> list[SealedSegment]:
    """Segments of so many events, bytes and newest times, one behind the other from LSN 1."""
    made = []
    lsn = 1
    for events, file_bytes, time in sizes:
        made.append(SealedSegment(segment_name(lsn), lsn, lsn + events - 1, file_bytes, time))
        lsn += events
    return made


FOUR = segments((10, 100, 1 * MS), (10, 100, 2 * MS), (10, 100, 3 * MS), (10, 100, 4 * MS))
ANY = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 99), st.integers(0, NOW)), max_size=8
).map(lambda sizes: segments(*sizes))
LIMITS = st.builds(
    Limits,
    max_age_ms=st.none() | st.integers(0, NOW // MS),
    max_bytes=st.none() | st.integers(0, 900),
)


@pytest.mark.parametrize(
    ("limits", "kept", "removable", "held_back"),
    [
        (Limits(), 99, 0, False),
        (Limits(max_age_ms=10), 99, 0, False),
        (Limits(max_age_ms=2), 99, 2, False),
        (Limits(max_age_ms=0), 99, 4, False),
        (Limits(max_age_ms=0), 31, 3, True),
        (Limits(max_age_ms=0), 30, 2, True),
        (Limits(max_age_ms=0), 1, 0, True),
        (Limits(max_bytes=500), 99, 0, False),
        (Limits(max_bytes=499), 99, 1, False),
        (Limits(max_bytes=0), 99, 4, False),
        (Limits(max_age_ms=2, max_bytes=200), 99, 3, False),
    ],
)
def test_examples(limits: Limits, kept: int, removable: int, held_back: bool) -> None:
    choice = choose(FOUR, limits, live_bytes=500, now=5 * MS, lowest_kept_lsn=kept)
    assert choice.names == tuple(segment.name for segment in FOUR[:removable])
    assert choice.last_lsn == 10 * removable
    assert choice.held_back == (FOUR[removable] if held_back else None)


@given(ANY, LIMITS, st.integers(0, 99), st.integers(1, 100))
def test_laws(sealed: list[SealedSegment], limits: Limits, active: int, kept: int) -> None:
    live = active + sum(segment.file_bytes for segment in sealed)
    choice = choose(sealed, limits, live_bytes=live, now=NOW, lowest_kept_lsn=kept)
    removable = list(choice.removable)
    # The oldest, without a gap, and nothing that must stay.
    assert removable == sealed[: len(removable)]
    assert choice.last_lsn < kept
    # Each for a reason: asked again without it, it would leave again.
    for count in range(len(removable)):
        before = live - sum(each.file_bytes for each in removable[:count])
        too_much = limits.max_bytes is not None and before > limits.max_bytes
        # A segment is not older than those before it.
        time = max(each.time_max for each in removable[: count + 1])
        too_old = limits.max_age_ms is not None and time < NOW - limits.max_age_ms * MS
        assert too_much or too_old
    # And all that can: asked again when they are gone, none leaves.
    newest = max([each.time_max for each in removable], default=0)
    rest = [
        structs.replace(each, time_max=max(each.time_max, newest))
        for each in sealed[len(removable) :]
    ]
    live -= sum(segment.file_bytes for segment in removable)
    again = choose(rest, limits, live_bytes=live, now=NOW, lowest_kept_lsn=kept)
    assert again.removable == ()
    assert (again.held_back is None) == (choice.held_back is None)


@pytest.mark.parametrize(
    ("times", "now", "removable", "doubtful"),
    [
        # A segment from the future is as old as the first one behind it that is not.
        ((1, 999, 3, 4), 100, 4, 1),
        ((1, 999, 3, 96), 100, 3, 1),
        ((1, 999, 998, 95), 100, 1, 1),
        # Behind the last such segment nothing is known but the time.
        ((1, 2, 3, 999), 100, 3, 3),
        # The clock stepped back: all is from the future until new segments are sealed, ...
        ((500, 501, 502, 503), 100, 0, 0),
        ((500, 501, 502, 80), 100, 4, 0),
        # ... and what was written in between is not older than what came before.
        ((500, 501, 80, 502), 505, 0, None),
        ((500, 501, 80, 502), 512, 3, None),
    ],
)
def test_clocks_that_went_wrong(
    times: tuple[int, ...], now: int, removable: int, doubtful: int | None
) -> None:
    """Age retention neither stops for a future time, nor takes what is young."""
    sealed = segments(*((10, 100, time * MS) for time in times))
    limits = Limits(max_age_ms=10)
    choice = choose(sealed, limits, live_bytes=0, now=now * MS, lowest_kept_lsn=99)
    assert len(choice.removable) == removable
    assert choice.doubtful == (sealed[doubtful] if doubtful is not None else None)


def test_sealed_segments_are_opened_once(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    table = SegmentTable(disk)
    assert table.look() == (list(sealed_segments(disk)), live_bytes_of(disk))
    opened: list[str] = []
    known = disk.open
    monkeypatch.setattr(disk, "open", lambda name: opened.append(name) or known(name))
    assert len(table.look()[0]) >= 3
    names = segment_names(disk)
    assert opened == names[-1:], "only the size of the newest is asked for"
    remove(disk, names[:1])
    append_some(reopen(disk), 40, count=20)
    assert table.look() == (list(sealed_segments(disk)), live_bytes_of(disk))


def test_no_more_is_read_than_needed() -> None:
    def read() -> Iterator[SealedSegment]:
        yield from FOUR[:2]
        raise AssertionError("the rest was asked for")

    choice = choose(read(), Limits(max_age_ms=3), live_bytes=0, now=5 * MS, lowest_kept_lsn=99)
    assert choice.names == (FOUR[0].name,)


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    append_some(create(disk), 40, count=20)
    assert len(segment_names(disk)) >= 4
    return disk


def test_segments_are_what_stat_says_but_the_newest(disk: MemoryDisk) -> None:
    figures = stat(disk)
    expected = [
        SealedSegment(each.name, each.first_lsn, each.last_lsn, each.file_bytes, each.time_max)
        for each in figures.segments[:-1]
    ]
    assert list(sealed_segments(disk)) == expected
    assert live_bytes_of(disk) == figures.file_bytes
    for name in segment_names(disk)[:-1]:
        # The trailer does not matter where it is damaged.
        disk.files[name][-1] ^= 1
    assert list(sealed_segments(disk)) == expected


def test_a_damaged_segment_is_refused(disk: MemoryDisk) -> None:
    name = segment_names(disk)[0]
    disk.files[name][-1] ^= 1
    disk.files[name][4096] ^= 1
    with pytest.raises(Corruption, match="offset 4096"):
        list(sealed_segments(disk))


def test_what_is_left_is_a_journal_that_begins_later(disk: MemoryDisk) -> None:
    everything = read_all(disk)
    for name in segment_names(disk)[:-1]:
        remove(disk, [name])
        names = segment_names(disk)
        first = segment_first_lsn(names[0]) or 0
        assert read_all(disk) == everything[first - 1 :]
        for start in (1, first, first + 1):
            blocks = list(read_blocks(disk, from_lsn=start))
            assert blocks[0].first_lsn <= max(start, first) <= blocks[0].last_lsn
        report = verify(disk)
        assert report.ok
        assert (report.first_lsn, report.last_lsn) == (first, len(everything))
        assert stat(disk).segments[0].first_lsn == first
    journal = reopen(disk)
    assert journal.next_lsn == len(everything) + 1
    everything += append_some(journal, 20, count=20)
    assert read_all(disk) == everything[first - 1 :]
    assert verify(disk).ok


def test_removing_again_is_no_mistake(disk: MemoryDisk) -> None:
    names = segment_names(disk)
    remove(disk, names[:1])
    remove(disk, names[:2])
    remove(disk, names[:2])
    assert segment_names(disk) == names[2:]


def test_what_a_reader_holds_stays(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    disk = RealDisk(tmp_path / "journal")
    disk.create()
    append_some(create(disk), 40, count=20)
    names = segment_names(disk)
    sealed = list(sealed_segments(disk))
    with Pin(tmp_path, sealed[1].last_lsn) as pin:
        assert remove_unpinned(disk, tmp_path, sealed[:2]) == (names[0],)
        pin.advance(sealed[1].last_lsn + 1)
        assert remove_unpinned(disk, tmp_path, sealed[:3]) == tuple(names[:2])
        with holding_off_pins(tmp_path):
            assert remove_unpinned(disk, tmp_path, sealed[:3]) == ()
    assert segment_names(disk) == names[2:]
    assert remove_unpinned(disk, tmp_path, sealed) == tuple(names[:-1])
    assert segment_names(disk) == names[-1:]


def test_only_the_oldest_may_leave_and_never_the_newest(disk: MemoryDisk) -> None:
    names = segment_names(disk)
    for wrong in (names[1:2], names, [names[0], names[2]], names[-1:]):
        with pytest.raises(AssertionError):
            remove(disk, wrong)
    assert segment_names(disk) == names


def test_a_power_cut_while_removing_leaves_no_gap() -> None:
    left = set()
    for seed in range(10):
        for calls in range(1, 9):
            disk = FaultyDisk(seed)
            append_some(create(disk), 40, count=20)
            names = segment_names(disk)
            disk.crash_after(calls)
            with suppress(PowerCut):
                remove(disk, names[:3])
            after = disk.crash()
            there = segment_names(after)
            assert there == names[len(names) - len(there) :]
            assert verify(after).ok
            left.add(len(names) - len(there))
    assert left == {0, 1, 2, 3}


def test_a_reader_that_is_overtaken_says_so(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    append_some(create(disk), 40, count=20)
    blocks = read_blocks(disk)
    first = next(blocks).segment
    names = segment_names(disk)
    assert first == names[0]
    remove(disk, names[:2])
    with pytest.raises(JournalError, match=f"segment {first} was removed while the journal was"):
        list(blocks)


def test_a_segment_that_vanishes_before_it_is_opened_is_said(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    append_some(create(disk), 40, count=20)
    # A name that leads nowhere is listed and cannot be opened, as one that is gone meanwhile.
    gone = segment_names(disk)[0]
    remove(disk, [gone])
    (tmp_path / gone).symlink_to("nowhere")
    for look in (verify, stat):
        with pytest.raises(JournalError, match=f"segment {gone} was removed"):
            look(disk)
    (tmp_path / gone).unlink()
    assert list(read_blocks(disk, LAYOUT))
