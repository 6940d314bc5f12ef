"""Replay equals live: the fold of every prefix of the journal is the state that was live there."""

import random
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts import reasons
from daybook.engine.facts.events import BY_NAME, COLUMNS, REASON, Row
from daybook.engine.facts.reasons import REASONS
from daybook.engine.state.apply import APPLY, Apply, apply
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from daybook.engine.state.state import State
from tests.support.scenario import RESTART, Step, play, steps
from tests.support.world import World

ALWAYS = {"address", "message", "consumer"}
"""Columns that no event whose kind has them leaves empty."""


class Recorder:
    """Notes the digest of the live state after every event that it applied."""

    def __init__(self) -> None:
        self.digests: dict[int, str] = {}

    def around(self, function: Apply) -> Apply:
        def recording(
            state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
        ) -> None:
            function(state, lsn, row, detail, headers, body)
            if lsn:
                self.digests[lsn] = digest(state)

        return recording


WITHIN_A_DECISION = {"an address retains more than one message"}
"""States that are allowed within a decision, but not after its last event."""


@given(scenario=steps, before=st.booleans(), most=st.sampled_from((0, 4)))
def test_fold_of_any_prefix_is_the_state_that_was_live(
    scenario: list[Step], before: bool, most: int
) -> None:
    recorder = Recorder()
    wrapped = {kind: recorder.around(function) for kind, function in APPLY.items()}
    live: dict[int, str] = {}
    with patch.dict(APPLY, wrapped):
        world = World(persist_delivery_count_before_delivery=before, global_max_messages=most)

        def note() -> None:
            live[world.broker.lsn] = digest(world.state)

        play(world, scenario, note)
        world.turn()
    state = State()
    for event in world.journal:
        apply(state, *event)
        wrong = set(check(state))
        assert wrong <= (set() if event.lsn in live else WITHIN_A_DECISION)
        expected = live.get(event.lsn, recorder.digests.get(event.lsn))
        assert expected is None or digest(state) == expected
    assert digest(state) == digest(world.state)


@given(scenario=steps)
def test_scenarios_keep_the_live_state_consistent(scenario: list[Step]) -> None:
    world = World(global_max_messages=5)
    play(world, scenario, lambda: world.follow())


@given(scenario=steps)
def test_events_fill_the_columns_of_their_kind(scenario: list[Step]) -> None:
    """And the hot paths, which write rows out themselves, fill them as the others do."""
    world = World()
    play(world, scenario)
    for event in world.journal:
        kind = BY_NAME[event.name]
        filled = {column.name for column, value in zip(COLUMNS, event.row, strict=True) if value}
        assert filled <= {"kind", "time", *kind.columns}
        # What was sent to a temporary destination that ended has no address any more.
        empty = {"address"} if event.reason == reasons.GONE else set()
        # The detail has several receivers, and nobody has no number.
        empty |= {"consumer"} if event.name == "Forwarded" else set()
        assert filled >= {"kind", "time", *(ALWAYS & set(kind.columns))} - empty
        if event.name in ("Delivered", "Acknowledged"):
            assert filled >= {"delivery_count", "queue", "connection"}
        assert event.row[REASON] in REASONS
        assert bool(event.detail) <= (kind.detail is not None)


@given(scenario=steps, cut=st.integers(0, 400))
def test_a_broker_killed_anywhere_starts_again(scenario: list[Step], cut: int) -> None:
    """A broker can start from any prefix of whole decisions and continue."""
    world = World()
    ends = set()
    play(world, scenario, lambda: ends.add(world.broker.lsn))
    world.turn()
    while 0 < cut < len(world.journal) and world.journal[cut - 1].lsn not in ends:
        cut -= 1
    again = World(world.journal[:cut])
    again.settings()
    connection = again.connect()
    again.attach(connection, "after")
    again.send("after", b"new", connection)
    assert again.taken_bodies() == [b"new"]
    again.check()


OF_TOOLS = {"Forked", "Lost"}
"""Events that no broker decides: the first ones of a fork, and those for a gap of a salvage."""


def test_scenarios_reach_every_kind_of_event() -> None:
    """The scenarios of the laws above contain every kind of event that a broker decides."""
    missing = set(BY_NAME) - OF_TOOLS
    # The first ones were enough once.
    for seed in (2165, 1075, 1029, 957, 788, 694, 527, 320, 244, 13, *range(2200)):
        draw = random.Random(seed)
        scenario = [
            (
                draw.randint(0, RESTART),
                draw.randint(0, 20),
                draw.randint(0, 20),
                draw.randint(0, 20),
            )
            for _ in range(draw.randint(10, 100))
        ]
        world = World()
        play(world, scenario)
        names = {event.name for event in world.journal}
        assert not names & OF_TOOLS
        missing -= names
        if not missing:
            return
    raise AssertionError(f"no scenario reaches {sorted(missing)}")
