"""The trail of every message by catalogs is the trail by reading everything."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import events
from daybook.engine.events import KIND
from daybook.history.catalogs import Catalogs
from daybook.history.moments import last_lsn
from daybook.journal.data_directory import CATALOGS, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.paging import cataloging
from daybook.paging.cataloging import ALL, missing_catalogs, next_piece
from daybook.tools import trail
from daybook.tools.making_catalogs import Order, make
from tests.support.histories import HISTORY_ID, some_history, write_history
from tests.support.scenario import Step, play, steps
from tests.support.world import Event, World

FOUND_AT_LEAST = 20


def make_catalogs(data: Path) -> list[Path]:
    """Make all catalogs of a history, with pieces of the newest segment; return their files."""
    disk = RealDisk(data / JOURNAL)
    for job in missing_catalogs(disk, HISTORY_ID, data / CATALOGS):
        make(Order(str(data), "", ALL, job))
    while make(
        Order(str(data), "", ALL, next_piece(disk, HISTORY_ID, data / CATALOGS, last_lsn(disk), 1))
    ):
        pass
    return sorted((data / CATALOGS).glob("*"))


def compare(data: Path, journal: list[Event], few: bool = False) -> int:
    """Compare the trails of all messages; return how many there are."""
    disk = RealDisk(data / JOURNAL)
    catalogs = Catalogs(data, disk)
    messages = [event.lsn for event in journal if event.row[KIND] == events.ROUTED]
    for message in messages[:: 7 if few else 1]:
        read = trail.follow(disk, message, data)
        asked = trail.follow(disk, message, data, catalogs)
        assert asked == read, message
    catalogs.close()
    return len(messages)


@given(
    scenario=steps,
    cuts=st.lists(st.integers(1, 300), max_size=12),
    segment_bytes=st.sampled_from([1 << 13, 1 << 14, 1 << 16]),
    missing=st.lists(st.integers(0, 30), max_size=3),
)
def test_the_trail_by_catalogs_is_the_trail_by_reading(
    scenario: list[Step], cuts: list[int], segment_bytes: int, missing: list[int]
) -> None:
    world = World()
    play(world, scenario)
    world.turn()
    with TemporaryDirectory() as folder, patch.object(cataloging, "PIECE_BYTES", 600):
        data = write_history(Path(folder), world.journal, cuts=cuts, segment_bytes=segment_bytes)
        found = make_catalogs(data)
        for number in missing:
            if number < len(found):
                found[number].unlink(missing_ok=True)
        compare(data, world.journal)


def test_the_trails_of_a_long_history(tmp_path: Path) -> None:
    journal = some_history(3, 400)
    data = write_history(tmp_path, journal, cuts=range(30, len(journal), 30), segment_bytes=1 << 14)
    with patch.object(cataloging, "PIECE_BYTES", 4000):
        found = make_catalogs(data)
    assert len(found) > 3
    assert compare(data, journal) > FOUND_AT_LEAST
    Random(1).choice(found).unlink()
    compare(data, journal, few=True)
