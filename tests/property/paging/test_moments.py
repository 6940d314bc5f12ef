"""The state at any event, from whatever snapshot, is the fold of all events up to it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from daybook.journal.data_directory import INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.paging.fold import fold
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots import snapshots
from daybook.paging.snapshots.snapshots import Snapshots, known_snapshots
from daybook.recovery import moments
from daybook.recovery.moments import Reached, course_at, state_at
from tests.support.histories import HISTORY_ID, write_history
from tests.support.scenario import Step, play, steps
from tests.support.world import Event, World
from tests.support.world import fold as fold_events

FEW = st.sampled_from((0, 0, 20, moments.FEW_EVENTS))
"""How many events are applied to a state, not folded into an index."""


def index_with_snapshots(data: Path, last_lsn: int, ends: set[int]) -> list[int]:
    """Index a history in batches that end at these events, with a snapshot after each; return
    where they are."""
    disk = RealDisk(data / JOURNAL)
    index = Index(data / INDEX, HISTORY_ID)
    taken = Snapshots(data / SNAPSHOTS, HISTORY_ID)
    with patch.object(snapshots, "SHARE", 0), patch.object(snapshots, "FREE_TIMES", 0):
        for batch in batches(disk, 0, last_lsn, ends):
            index.advance(batch)
            assert taken.follow(index, disk, 1, 1)
            assert not taken.trouble
    index.close()
    return [each.lsn for each in known_snapshots(data / SNAPSHOTS, HISTORY_ID)]


@contextmanager
def played(scenario: list[Step], cuts: list[int], few: int) -> Iterator[tuple[Path, list[Event]]]:
    """Yield a data directory with the history of a scenario, and its events."""
    world = World()
    play(world, scenario)
    world.turn()
    with (
        TemporaryDirectory() as folder,
        patch.object(fold, "PLAIN_MIN", 1),
        patch.object(moments, "FEW_EVENTS", few),
    ):
        yield write_history(Path(folder), world.journal, cuts=cuts), world.journal


@given(
    scenario=steps,
    cuts=st.lists(st.integers(1, 300), max_size=12),
    asked=st.lists(st.integers(1, 400), min_size=1, max_size=6),
    few=FEW,
)
def test_the_state_at_an_event_is_the_fold_up_to_it(
    scenario: list[Step], cuts: list[int], asked: list[int], few: int
) -> None:
    wrong: list[str] = []
    with played(scenario, cuts, few) as (data, journal):
        known = index_with_snapshots(data, len(journal), set(cuts))
        assert known
        disk = RealDisk(data / JOURNAL)
        # Also exactly at each snapshot, and around it.
        near = {lsn + step for lsn in known for step in (-1, 0, 1)}
        for lsn in sorted(near | {min(each, len(journal)) for each in asked}):
            if not 0 < lsn <= len(journal):
                continue
            with state_at(data, disk, lsn, note=wrong.append) as state:
                expected = fold_events(journal[:lsn])
                assert digest(state) == digest(expected)
                # Within a decision there may be what no rest allows; the fold has it too.
                assert sorted(check(state)) == sorted(check(expected))
                for queue in expected.queues.values():
                    shown = [each.message.id for each in state.queues[queue.id].standing()]
                    assert shown == [each.message.id for each in queue.standing()]
    assert not wrong


@settings(max_examples=30)
@given(
    scenario=steps,
    cuts=st.lists(st.integers(1, 300), max_size=12),
    asked=st.lists(st.integers(1, 400), min_size=2, max_size=6),
    few=FEW,
)
def test_a_moment_that_begins_with_an_earlier_one_is_the_fold_up_to_it(
    scenario: list[Step], cuts: list[int], asked: list[int], few: int
) -> None:
    wrong: list[str] = []
    with played(scenario, cuts, few) as (data, journal), ExitStack() as kept:
        known = index_with_snapshots(data, len(journal), set(cuts[:2]))
        disk = RealDisk(data / JOURNAL)
        earlier: Reached | None = None
        for lsn in [min(each, len(journal)) for each in asked]:
            found = course_at(data, disk, lsn, note=wrong.append, earlier=earlier)
            course = kept.enter_context(found)
            places = [0, *known, earlier.lsn if earlier is not None else 0]
            assert course.index.lsn == max(each for each in places if each <= lsn)
            with course.state_at(lsn) as state:
                expected = fold_events(journal[:lsn])
                assert digest(state) == digest(expected)
                assert sorted(check(state)) == sorted(check(expected))
            earlier = course.reached
    assert not wrong
