"""A start after a crash: one rule and one wording, wherever history is described."""

from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from daybook.console.jobs import history
from daybook.engine import commands as c
from daybook.engine.facts import events
from daybook.history import trail
from daybook.history.changes import is_after_a_crash
from daybook.history.descriptions import CRASHED
from daybook.history.event_finder import EventFinder
from daybook.history.scan import Event
from daybook.history.trail_drawing import mermaid, svg
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.tools.journal_cli import cli
from tests.support.histories import write_history
from tests.support.topology import create_queue
from tests.support.world import World


def deliver(world: World) -> None:
    """Deliver what is ready to a client that closes its connection without settling."""
    connection = world.connect()
    world.attach(connection, "orders")
    world.dispatch()
    world.close(connection)


@pytest.fixture
def world() -> World:
    """A broker that crashed between two deliveries, before any, and after the last one, and that
    stopped once."""
    world = World()
    world.ok(create_queue("orders", "orders"))
    world.send("orders", b"x")
    world.restart(skipped=100)
    deliver(world)
    world.restart(skipped=100)
    world.ok(c.Stop())
    world.ok(c.Start(version="2"))
    deliver(world)
    world.restart()
    return world


def starts_of(world: World) -> list[int]:
    return [each.lsn for each in world.events_named("BrokerStarted")]


def run(data: Path, *arguments: str) -> str:
    result = CliRunner().invoke(cli, [arguments[0], str(data), *arguments[1:]])
    assert result.exit_code == 0, result.output
    return result.output


def test_every_description_of_a_start_has_the_crash_before_it(world: World, tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", world.journal)
    first, *starts = starts_of(world)
    crashes = [True, True, False, True]
    last = str(world.broker.lsn)
    marks = {each["lsn"]: each["text"] for each in history.span(str(data))["marks"]}
    listed = history.events(str(data), {"kinds": ["BrokerStarted"]}, 100)["events"]
    texts = {each["lsn"]: each["text"] for each in listed}
    changed = history.compare(str(data), first, int(last))["changes"]
    rows = {each["lsn"]: each for each in changed}
    printed = run(data, "inspect", "--kind", "BrokerStarted").splitlines()
    compared = run(data, "diff", str(first), last)
    assert CRASHED not in printed[0]
    for lsn, is_crash, line in zip(starts, crashes, printed[1:], strict=True):
        assert (CRASHED in marks[lsn]) == is_crash
        assert (CRASHED in texts[lsn]) == is_crash
        assert (CRASHED in rows[lsn]["text"]) == rows[lsn]["is_crash"] == is_crash
        assert (CRASHED in line) == is_crash
    assert compared.count(CRASHED) == sum(crashes)


def test_the_stop_and_the_crashes_on_the_way_are_changes(world: World, tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", world.journal)
    changed = history.compare(str(data), starts_of(world)[0], world.broker.lsn)["changes"]
    kinds = [each["kind"] for each in changed]
    assert kinds.count("BrokerStarted") == 4
    assert kinds.count("BrokerStopped") == 1
    assert all(each["by"] is None for each in changed if each["kind"].startswith("Broker"))


def test_a_story_has_the_crash_between_two_deliveries(world: World, tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", world.journal)
    [routed] = world.events_named("Routed")
    with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
        story = trail.follow(finder, routed.lsn, data)
    kinds = [each.told["kind"] for each in story.steps]
    assert kinds == ["Routed", "Delivered", "Returned", "BrokerStarted", "Delivered", "Returned"]
    crash = story.steps[3]
    assert crash.event.lsn == starts_of(world)[2]
    assert crash.is_crash
    assert crash.text.endswith(CRASHED)
    assert CRASHED in svg(story)
    assert CRASHED.replace(":", "#58;") in mermaid(story)
    assert CRASHED in run(data, "trail", str(routed.lsn))
    shown = history.story(str(data), routed.lsn)["steps"]
    assert [each["is_crash"] for each in shown] == [False, False, False, True, False, False]


def test_nothing_says_how_the_broker_of_a_copy_ended() -> None:
    def event_of(kind: int, lsn: int) -> Event:
        return Event(lsn, events.row(kind), b"", b"", 0, None)

    start = event_of(events.BROKER_STARTED, 9)
    for before, is_crash in (
        (events.FORKED, False),
        (events.LOST, False),
        (events.BROKER_STOPPED, False),
        (events.SKIPPED, True),
        (events.ROUTED, True),
    ):
        finder: Any = SimpleNamespace(at=partial(event_of, before))
        assert is_after_a_crash(finder, start) == is_crash
        assert not is_after_a_crash(finder, event_of(events.ROUTED, 9))
