"""Pieces of an audit: at snapshots, else at ends of blocks, in equal shares."""

from itertools import pairwise

import pytest

from daybook.history.audit import pieces
from daybook.history.audit.pieces import FOLD_SHARE, beginnings, end_of_block
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import Disk, RealDisk
from tests.support.histories import write_history
from tests.support.world import World


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    """A journal with a block for each ten events."""
    world = World()
    for _ in range(2000):
        world.send("orders", b"x")
    data = tmp_path_factory.mktemp("cut") / "data"
    write_history(data, world.journal, cuts=range(10, 2000, 10))
    return RealDisk(data / JOURNAL)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_EVENTS_MIN", 20)


def costs(begins: list[int], places: list[int], last: int) -> list[float]:
    """The cost of each piece: its events, and the fold from the snapshot before it."""
    found = []
    for begin, end in zip(begins, [*begins[1:], last], strict=True):
        state = max((place for place in (0, *places) if place <= begin), default=0)
        found.append(end - begin + FOLD_SHARE * (begin - state))
    return found


def shared_by(processes: int, pieces: list[float]) -> float:
    """How long it takes: the next longest piece goes to the process that is ready first."""
    ready = [0.0] * processes
    for cost in sorted(pieces, reverse=True):
        ready[ready.index(min(ready))] += cost
    return max(ready)


@pytest.mark.parametrize(
    "places",
    [
        [], [1000], [100], [1900], [300, 600, 900, 1200, 1500, 1800],
        [110, 130, 900, 1700], list(range(50, 2000, 50)), [700, 1400], [600, 1200, 1800],
    ],
    ids=str,
)  # fmt: skip
def test_two_processes_take_little_more_than_half(disk: Disk, places: list[int]) -> None:
    """Whatever snapshots there are."""
    begins = beginnings(disk, places, 0, 2000, 2)
    assert begins[0] == 0
    assert begins == sorted(set(begins))
    assert 2000 / shared_by(2, costs(begins, places, 2000)) >= 1.8


def test_one_process_divides_nothing(disk: Disk) -> None:
    assert beginnings(disk, [], 0, 2000, 1) == [0]


def test_pieces_begin_behind_whole_blocks(disk: Disk) -> None:
    begins = beginnings(disk, [], 0, 2000, 7)
    assert len(begins) == 7
    assert all(begin == 0 or end_of_block(disk, begin) == begin for begin in begins)
    lengths = [end - begin for begin, end in zip(begins, [*begins[1:], 2000], strict=True)]
    assert lengths == sorted(lengths, reverse=True)


def test_pieces_are_not_shorter_than_what_a_snapshot_costs(disk: Disk) -> None:
    begins = beginnings(disk, list(range(1, 2000)), 0, 2000, 64)
    assert all(after - before >= 20 for before, after in pairwise(begins))


def test_the_block_with_an_event_is_found(disk: Disk) -> None:
    assert [end_of_block(disk, lsn) for lsn in (1, 10, 11, 1995)] == [10, 10, 20, 2003]
