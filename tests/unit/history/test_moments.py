"""Finding the last event until a time."""

from pathlib import Path

import pytest

from daybook.engine.facts.events import TIME
from daybook.history.moments import last_lsn, lsn_at
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from tests.support.histories import some_history, write_history
from tests.support.world import Event


@pytest.fixture(scope="module")
def events() -> list[Event]:
    """A history whose clock never goes back."""
    found = some_history(3, 400)
    times = [event.row[TIME] for event in found]
    assert times == sorted(times)
    return found


@pytest.fixture(scope="module")
def disk(events: list[Event], tmp_path_factory: pytest.TempPathFactory) -> RealDisk:
    data = write_history(
        tmp_path_factory.mktemp("history") / "data", events,
        cuts=range(0, len(events), 13), segment_bytes=1 << 14,
    )  # fmt: skip
    found = RealDisk(data / JOURNAL)
    assert len(segment_names(found)) > 3
    return found


def test_it_is_the_last_event_that_is_not_younger(disk: RealDisk, events: list[Event]) -> None:
    times = [event.row[TIME] for event in events]
    for time in {*times, *(each + 1 for each in times), *(each - 1 for each in times[1:])}:
        expected = sum(each <= time for each in times)
        if expected:
            assert lsn_at(disk, time) == expected, time


def test_a_time_before_everything_is_before_the_first_event(
    disk: RealDisk, events: list[Event]
) -> None:
    assert lsn_at(disk, events[0].row[TIME] - 1) == 0


def test_a_time_after_everything_is_the_last_event(disk: RealDisk, events: list[Event]) -> None:
    assert lsn_at(disk, 1 << 60) == len(events) == last_lsn(disk)


def test_damaged_footers_only_cost_time(events: list[Event], tmp_path: Path) -> None:
    data = write_history(
        tmp_path / "data", events, cuts=range(0, len(events), 13), segment_bytes=1 << 14
    )
    for path in sorted((data / JOURNAL).glob("*.seg"))[:-1]:
        content = bytearray(path.read_bytes())
        content[-40] ^= 1
        path.write_bytes(content)
    disk = RealDisk(data / JOURNAL)
    times = [event.row[TIME] for event in events]
    for time in times[:: len(times) // 7]:
        assert lsn_at(disk, time) == sum(each <= time for each in times)
