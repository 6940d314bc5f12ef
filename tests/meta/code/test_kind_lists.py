"""No module lists kinds of events by hand, and the check that says so finds what it should."""

from pathlib import Path
from typing import Final

import pytest

from daybook.engine.facts import events, kinds
from daybook.engine.facts.life import ASIDE, BEGINS, CHANGES, ENDS, GONE, IN_FLIGHT, NOWHERE, READY
from daybook.engine.state.apply import APPLY, nothing
from tests.meta import tree
from tests.meta.code.kind_lists import CONSTANTS, kind_lists

ALLOWED: Final = {
    "engine/facts/events.py": "the table itself",
    "engine/state/apply.py": "what each kind means: one function a kind",
    "pipeline/sql/saved.py": "queries that people read and change",
}


def test_no_module_lists_kinds_by_hand() -> None:
    found = [
        finding
        for path in tree.sources(tree.ROOT, *tree.rooms(), "bench")
        if str(path.relative_to(tree.ROOT)) not in ALLOWED
        for finding in kind_lists(path)
    ]
    assert found == []


def test_what_is_allowed_is_there_and_needed() -> None:
    for name in ALLOWED:
        assert list(kind_lists(tree.ROOT / name)), name


@pytest.mark.parametrize(
    "source",
    [
        "x = (events.ROUTED, events.DELIVERED)",
        "x = [ROUTED, SETTINGS_CHANGED]",
        "x = {events.HELD, events.RELEASED}",
        "x = frozenset({events.HELD, 5, events.RELEASED})",
        "x = {events.HELD: 'held', events.RELEASED: 'released'}",
        "x = {'held': events.HELD, 'released': events.RELEASED}",
        "x = {'Held': 1, 'Released': 2}",
        "x = ('Routed', 'Delivered', 'Held')",
        "x = table(events.HELD, events.RELEASED)",
        "x = row[0] in (events.HELD, events.RELEASED)",
        "x = kind == events.HELD or kind == events.RELEASED",
        "x = kind != HELD and kind != RELEASED",
        "x = (kind == events.HELD) | (kind == events.RELEASED)",
        "x = is_large & (kind == events.ROUTED) | (kind == events.CARRIED)",
        "x = \"SELECT 1 FROM e WHERE kind IN ('Held', 'Released')\"",
        "x = \"SELECT 1 FROM e WHERE e.kind NOT IN ('Held', 'Released')\"",
        "x = f'SELECT 1 FROM e WHERE kind_id IN ({events.HELD}, {events.RELEASED})'",
        "x = 'SELECT 1 FROM e WHERE kind_id IN (38, 39)'",
        "x = \"SELECT 1 WHERE kind = 'Held' OR kind = 'Released'\"",
        "x = f'SELECT 1 WHERE kind_id = {HELD} OR e.kind_id = {RELEASED}'",
        "x = \"CASE WHEN kind = 'Held' THEN 1 WHEN kind = 'Released' THEN 2 END\"",
    ],
)
def test_a_list_by_hand_is_found(tmp_path: Path, source: str) -> None:
    path = tmp_path / "planted.py"
    path.write_text(source + "\n")
    (finding,) = kind_lists(path)
    assert f"{path}:1: lists " in finding


@pytest.mark.parametrize(
    "source",
    [
        "x = kind == events.HELD",
        "x = events.HELD if paused else events.RELEASED",
        "x = (events.ROUTED, reasons.SENT, 0, queue)",
        "x = [ADDRESS, QUEUE]",
        "x = ('Routed', 'nonsense')",
        "x = emit(events.row(events.HELD), events.row(events.RELEASED))",
        "x = \"min(lsn) FILTER (WHERE kind = 'Held'), max(lsn) FILTER (WHERE kind = 'Routed')\"",
        "x = f'kind_id IN ({listed(LEAVING)}) AND kind_id <> {events.HELD}'",
        "x = 'reason_id IN (1, 2, 3)'",
        "if kind == events.HELD:\n    x = 1\nelif kind == events.RELEASED:\n    x = 2",
    ],
)
def test_a_rule_about_one_kind_is_no_list(tmp_path: Path, source: str) -> None:
    path = tmp_path / "planted.py"
    path.write_text(source + "\n")
    assert list(kind_lists(path)) == []


def test_every_kind_has_a_constant_that_the_check_knows() -> None:
    assert len(CONSTANTS) == len(events.EVENT_TYPES)


@pytest.mark.parametrize("event", events.EVENT_TYPES, ids=lambda event: event.name)
def test_the_table_is_sound(event: events.EventType) -> None:
    """An event is about an entry, about something else, or neither; its facts agree."""
    if event.life is not None:
        assert {*event.life.before} <= {NOWHERE, READY, IN_FLIGHT, *ASIDE}
        assert event.life.after in {READY, IN_FLIGHT, *ASIDE, GONE}
        # Brokers before level 7 repeat with Scheduled what Routed says.
        assert event.life.after not in event.life.before or event.number == events.SCHEDULED
        assert not event.subject
        assert {"queue", "message"} <= set(event.columns)
        assert APPLY[event.number] is not nothing
    assert bool(event.change) <= bool(event.subject)
    assert event.change in {"", BEGINS, CHANGES, ENDS}
    assert bool(event.related) <= ("related" in event.columns)
    assert bool(event.counter) <= (event.life is not None)


def test_every_way_of_an_entry_is_in_the_table() -> None:
    """From every place there is a way on, and to every place a way in."""
    befores = {place for life in kinds.LIVES.values() for place in life.before}
    afters = {life.after for life in kinds.LIVES.values()}
    assert befores == {NOWHERE, READY, IN_FLIGHT, *ASIDE}
    assert afters == {READY, IN_FLIGHT, *ASIDE, GONE}
