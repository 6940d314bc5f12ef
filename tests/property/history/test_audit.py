"""The audit gives no false alarm: whatever a broker decides, its own rules allow."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.core.core import Options
from daybook.engine.facts import events
from daybook.engine.facts.definitions import DivertDefinition
from daybook.engine.messages.headers import build
from daybook.history.audit import journal_audit, re_execution
from daybook.history.audit import pieces as cutting
from daybook.history.audit.accounts import Account
from daybook.history.audit.re_execution import Audit, audit_piece, joined, tasks
from daybook.history.verification.verify_work import Source
from daybook.journal.data_directory import INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.paging.fold import fold
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots import snapshots
from daybook.paging.snapshots.snapshots import Snapshots, known_snapshots
from tests.support.forging.faults import retold
from tests.support.forging.forger import stories
from tests.support.histories import HISTORY_ID, some_history, write_history
from tests.support.scenario import RESTART, Step, play, steps
from tests.support.topology import create_queue
from tests.support.world import Event
from tests.support.world import fold as folded
from tests.support.worlds.auditing import LATER, OPTIONS, DoorWorld, judged
from tests.support.worlds.shortages import short


@given(scenario=steps, most=st.sampled_from((0, 4)))
def test_whatever_the_engine_decides_is_allowed(scenario: list[Step], most: int) -> None:
    world = DoorWorld(global_max_messages=most)
    play(world, scenario)
    world.turn()
    assert judged(world.journal, world.ends) == []


@pytest.mark.parametrize("seed", range(20))
def test_long_stories_are_allowed(seed: int) -> None:
    draw = random.Random(seed)
    world = DoorWorld()
    story: list[Step] = [
        (draw.randint(0, RESTART), draw.randint(0, 20), draw.randint(0, 20), draw.randint(0, 20))
        for _ in range(draw.randint(60, 200))
    ]
    play(world, story)
    assert judged(world.journal, world.ends) == []


def test_a_message_of_before_may_be_the_newer_value() -> None:
    """It was scheduled, became the value while the other one was in flight, and left since."""
    world = DoorWorld()
    world.ok(create_queue("prices", "prices", last_value_key="k"))
    connection = world.connect()
    headers = build([("k", "1")])
    world.ok(c.Send(connection, "prices", headers, b"old", due=world.now // 1000 + 50))
    world.ok(c.Send(connection, "prices", headers, b"new"))
    consumer = world.attach(connection, "prices", credit_messages=9)
    world.turn()
    later, flying = (each.lsn for each in world.events_named("Routed"))
    world.now += 100_000
    world.ok(c.DeliverDue(10))
    world.turn()
    world.ack(consumer, later)
    world.nack(consumer, flying)
    world.turn()
    assert world.events_named("Removed")[-1].row[events.RELATED] == later
    assert judged(world.journal, world.ends) == []


def test_an_exclusive_divert_may_take_a_large_dead_letter() -> None:
    world = DoorWorld()
    world.settings(orders={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    for name in ("orders", "dead", "copies"):
        world.ok(create_queue(name, name))
    world.ok(c.CreateDivert(DivertDefinition("d", "dead", ("copies",), exclusive=True)))
    connection = world.connect()
    consumer = world.attach(connection, "orders", credit_messages=9)
    world.send_large("orders", (b"a" * 50, b"b" * 50), connection)
    world.turn()
    world.nack(consumer, world.taken(consumer)[0].message)
    world.turn()
    assert world.events_named("Diverted")[-1].row[events.FLAGS] & events.LARGE
    assert judged(world.journal, world.ends) == []


def test_limits_of_expiry_may_contradict_each_other() -> None:
    """A message without an expiry has the most from the first question, the least from a second."""
    world = DoorWorld()
    world.settings(orders={"min_expiry_delay": 20, "max_expiry_delay": 10})
    world.ok(create_queue("orders", "orders"))
    world.ok(c.Send(world.connect(), "orders", b"", b"a"))
    world.turn()
    event = world.events_named("Routed")[-1]
    for delay, is_allowed in ((10, True), (20, True), (15, False)):
        detail = msgspec.structs.replace(event.decoded, expires=world.now // 1000 + delay)
        history = retold(world.journal, event, events.encode_detail(detail))
        assert (judged(history, world.ends) == []) is is_allowed


@pytest.mark.parametrize("seed", range(30))
def test_brokers_that_are_full_are_allowed_to_drop(seed: int) -> None:
    world = short(seed)
    assert judged(world.journal, world.ends) == []


def of_level_5(event: Event) -> Event:
    """The same event by a broker that does not say what it decided from."""
    if event.name == "BrokerStarted":
        detail = msgspec.structs.replace(event.decoded, level=5)
    elif event.name in ("Dropped", "Diverted"):
        event = event._replace(headers=b"")
        detail = msgspec.structs.replace(event.decoded, basis=None)
    elif event.name == "Routed" and event.detail:
        # That `due` sets aside is told apart: older brokers said it of each queue as well.
        detail = msgspec.structs.replace(event.decoded, named=False)
    else:
        return event
    return event._replace(detail=events.encode_detail(detail))


@pytest.mark.parametrize("seed", range(40))
def test_what_brokers_before_decided_is_judged_by_what_they_said(seed: int) -> None:
    story = stories(1, seed)[0]
    assert judged([of_level_5(each) for each in story.journal], story.ends) == []


@pytest.mark.parametrize("seed", range(20))
def test_where_an_audit_begins_it_does_not_know_the_broker(seed: int) -> None:
    """Behind the start of the broker nothing is demanded that earlier brokers did not say."""
    story = stories(1, seed)[0]
    begin = next(end for end in story.ends if end >= len(story.journal) // 3)
    state = folded(list(story.journal[:begin]))
    ends = [end - begin for end in story.ends if end > begin]
    tail = list(story.journal[begin:])
    assert judged(tail, ends, state=state, after=begin) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_bit_of_everything_is_allowed(seed: int) -> None:
    assert [each for each in judged(some_history(seed, 150)) if each.rule != "requested"] == []


def with_snapshots(data: Path, last_lsn: int, ends: set[int]) -> list[int]:
    """Index a history with snapshots at these events; return where they are."""
    disk = RealDisk(data / JOURNAL)
    index = Index(data / INDEX, HISTORY_ID)
    taken = Snapshots(data / SNAPSHOTS, HISTORY_ID)
    with patch.object(snapshots, "SHARE", 0), patch.object(snapshots, "FREE_TIMES", 0):
        for batch in batches(disk, 0, last_lsn, ends):
            index.advance(batch)
            taken.follow(index, disk, 1, 1)
    index.close()
    return [each.lsn for each in known_snapshots(data / SNAPSHOTS, HISTORY_ID)]


def audited(data: Path, after: int, last: int, *, pieces: int, stretch: int) -> Audit:
    disk = RealDisk(data / JOURNAL)
    with (
        patch.object(cutting, "PIECE_EVENTS_MIN", 1 if pieces > 1 else 1 << 40),
        patch.object(re_execution, "STRETCH_EVENTS", stretch),
        patch.object(re_execution, "Options", lambda: OPTIONS),
    ):
        found = tasks(data, disk, after, last, processes=pieces, now=LATER, tolerance=0)
        assert pieces > 1 or len(found) == 1
        return joined([audit_piece(task, disk) for task in found])


def counts(accounts: list[Account]) -> dict[int, Account]:
    """The accounts of queues where anything was or happened."""
    return {
        each.queue_id: each
        for each in accounts
        if each.before or each.entered or each.left or each.after
    }


@given(scenario=steps, cuts=st.lists(st.integers(1, 300), max_size=8), data=st.data())
@settings(max_examples=20)
def test_the_answer_does_not_depend_on_pieces(
    scenario: list[Step], cuts: list[int], data: st.DataObject
) -> None:
    """From snapshots, from a state that is paged, and from anywhere, it is the same account."""
    world = DoorWorld()
    play(world, scenario)
    world.turn()
    last = len(world.journal)
    ends = [end for end in world.ends if end]
    chosen = {ends[cut % len(ends)] for cut in cuts}
    with TemporaryDirectory() as folder, patch.object(fold, "PLAIN_MIN", 1):
        path = write_history(Path(folder), world.journal, cuts=ends)
        with_snapshots(path, last, chosen)
        after = data.draw(st.sampled_from([0, *ends[:-1]]))
        whole = audited(path, after, last, pieces=1, stretch=1 << 30)
        cut = audited(path, after, last, pieces=8, stretch=data.draw(st.sampled_from((1, 20))))
    assert whole.breaches == cut.breaches == []
    assert counts(whole.accounts) == counts(cut.accounts)
    assert all(each.difference == 0 for each in whole.accounts)
    assert whole.dropped == cut.dropped


def test_processes_say_the_same() -> None:
    world = DoorWorld()
    world.options.compile_filter = Options().compile_filter
    world.broker.configure(world.options)
    draw = random.Random(7)
    story: list[Step] = [
        (draw.randint(0, RESTART), draw.randint(0, 20), draw.randint(0, 20), draw.randint(0, 20))
        for _ in range(200)
    ]
    play(world, story)
    last = len(world.journal)
    with TemporaryDirectory() as folder, patch.object(fold, "PLAIN_MIN", 1):
        path = write_history(Path(folder), world.journal, cuts=world.ends)
        assert with_snapshots(path, last, set(world.ends[10::20]))
        disk = RealDisk(path / JOURNAL)
        whole = tasks(path, disk, 0, last, processes=1, now=LATER, tolerance=0)
        with patch.object(cutting, "PIECE_EVENTS_MIN", 1):
            pieces = tasks(path, disk, 0, last, processes=2, now=LATER, tolerance=0)
        assert len(pieces) > 2 > len(whole)
        told = journal_audit.audited(pieces, Source(path), 2)
        assert told.breaches == journal_audit.audited(whole, disk, 1).breaches == []
        assert counts(told.accounts) == counts(journal_audit.audited(whole, disk, 1).accounts)
