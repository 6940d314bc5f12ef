"""Ids of addresses and queues that need more than four bytes change nothing but themselves."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts.events import ADDRESS, COLUMNS, QUEUE, SHORT_ID_MAX
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.planning import Source, make_plan
from daybook.pipeline.selection import Selection
from tests.property.paging.test_index_fold import cuts, fold_in_batches, scene, sizes
from tests.support.compiled import replaces_parts
from tests.support.histories import some_history, write_history
from tests.support.scenario import Step, play, steps
from tests.support.world import Event, World
from tests.support.worlds.wide import ids_from

IDS = {ADDRESS, QUEUE}


def rest_of(journal: list[Event]) -> list[object]:
    """The facts of events beside ids; details list the queues of events about several."""
    return [
        ([value for place, value in enumerate(event.row) if place not in IDS], event.headers)
        for event in journal
    ]


@given(scenario=steps)
def test_a_broker_decides_the_same_and_folds_to_the_same(scenario: list[Step]) -> None:
    usual = World()
    play(usual, scenario)
    with ids_from():
        wide = World()
        play(wide, scenario, lambda: wide.follow())
        wide.restart()
    assert rest_of(wide.journal)[: len(usual.journal)] == rest_of(usual.journal)
    for event, other in zip(wide.journal, usual.journal, strict=False):
        for place in IDS:
            shift = SHORT_ID_MAX - 2 if other.row[place] else 0
            assert event.row[place] == other.row[place] + shift, COLUMNS[place].name


@replaces_parts
@given(
    scenario=steps, cuts=cuts, sizes=sizes, idle_max=st.sampled_from((0, 3)),
    first=st.sampled_from((SHORT_ID_MAX - 1, SHORT_ID_MAX + 1, 1 << 47)),
)  # fmt: skip
def test_the_index_follows(
    scenario: list[Step], cuts: list[int], sizes: list[int], idle_max: int, first: int
) -> None:
    with ids_from(first), TemporaryDirectory() as path:
        fold_in_batches(
            Path(path) / "index", scene(scenario).journal, cuts, sizes, idle_max=idle_max
        )


@given(seed=st.integers(1, 3))
def test_history_has_the_same_ids_and_names(seed: int) -> None:
    with ids_from():
        journal = some_history(seed, 150)
    assert max(event.row[QUEUE] for event in journal) > SHORT_ID_MAX
    with TemporaryDirectory() as folder:
        directory = write_history(Path(folder), journal, segment_bytes=1 << 15)
        plan = make_plan(Source(str(directory)), Selection())
        names = ["queue_id", "address_id", "queue"]
        rows = [row for batch in read_plan(plan, names) for row in batch.to_pylist()]
    assert [(row["queue_id"], row["address_id"]) for row in rows] == [
        (event.row[QUEUE], event.row[ADDRESS]) for event in journal
    ]
    assert not any(str(row["queue"]).startswith("#") for row in rows)
