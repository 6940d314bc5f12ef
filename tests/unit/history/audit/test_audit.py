"""Planted faults: in journals whose checksums and chain are right, an audit names the event."""

import time
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgspec
import pytest
import zstandard

from daybook.engine import commands as c
from daybook.engine.facts import events
from daybook.engine.facts.definitions import MULTICAST, DivertDefinition
from daybook.engine.facts.events import Row
from daybook.engine.facts.reasons import BY_CONSUMER, DIVERT, LIMIT, NO_ROUTE, UNREADABLE
from daybook.history.audit import re_execution
from daybook.history.audit.re_execution import Audit, audit_piece, joined, tasks
from daybook.history.moments import last_lsn
from daybook.history.verification.verification import verify_data
from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import RealDisk
from tests.support.forging.breaches import BREACHES, Planter, queue_left_out
from tests.support.forging.faults import PLANTERS, appended, changed, of_kind
from tests.support.forging.faults import Planter as FaultPlanter
from tests.support.histories import write_history
from tests.support.topology import create_queue
from tests.support.world import Event
from tests.support.worlds.auditing import OPTIONS, DoorWorld, door_history, judged

SECOND = 1_000_000
MESSAGES = 120


def audited(data: Path, after: int = 0, last: int = 0) -> Audit:
    """Audit a data directory, in this process."""
    disk = RealDisk(data / JOURNAL)
    last = last or verify_data(disk, lambda _: None).report.last_lsn
    now = time.time_ns() // 1000
    found = tasks(data, disk, after, last, processes=1, now=now, tolerance=SECOND)
    return joined([audit_piece(task, disk) for task in found])


def test_what_could_not_be_shown_may_be_passed_over() -> None:
    """A large message is withheld when its body cannot be read, also by a browser."""
    world = DoorWorld()
    one, other = world.connect(), world.connect()
    large = world.send_large("q", [b"piece"], one)
    world.send("q", b"small", one)
    consumer = world.attach(one, "q", browses=True)
    world.turn()
    world.ok(c.Detach(consumer, reason=UNREADABLE))
    world.ok(c.Withhold(world.queue("q").id, large))
    world.attach(other, "q")
    world.turn()
    [delivered] = world.events_named("Delivered")
    assert delivered.row[events.MESSAGE] != large
    assert not judged(world.journal, world.ends)


def test_a_ring_evicts_the_first_message_that_can_be_read() -> None:
    world = DoorWorld()
    one = world.connect()
    world.ok(create_queue("q", "q", ring_size=2))
    large = world.send_large("q", [b"piece"], one)
    browser = world.attach(one, "q", browses=True)
    world.ok(c.Detach(browser, reason=UNREADABLE))
    world.ok(c.Withhold(world.queue("q").id, large))
    first = world.send("q", b"first", one)
    world.send("q", b"second", one)
    [evicted] = world.events_named("Removed")
    assert evicted.row[events.MESSAGE] == first
    assert not judged(world.journal, world.ends)


@pytest.mark.parametrize("planter", BREACHES, ids=lambda planter: planter.__name__)
def test_a_planted_breach_is_found_and_proven(planter: Planter, tmp_path: Path) -> None:
    planted = planter()
    data = write_history(tmp_path / "data", planted.history, cuts=planted.ends)
    found = audited(data)
    first = found.breaches[0]
    assert (first.rule, first.lsn) == (planted.rule, planted.lsn)
    assert planted.lsn in first.lsns
    assert found.breach_count == len(found.breaches) <= 2
    assert not found.is_clean


@pytest.mark.parametrize("planter", PLANTERS, ids=lambda planter: planter.__name__)
def test_a_planted_fault_breaks_a_rule(planter: FaultPlanter) -> None:
    """At its own event, and no earlier one."""
    tried = 0
    for seed in range(100):
        world = door_history(seed, MESSAGES)
        planted = planter(world.journal, Random(seed))
        if planted is None:
            continue
        tried += 1
        first = planted.faults[0][1]
        is_inserted = len(planted.history) > len(world.journal) and first <= len(world.journal)
        ends = [end + (is_inserted and end >= first) for end in world.ends]
        found = [(each.rule, each.lsn) for each in judged(planted.history, ends)]
        assert found[0] == planted.faults[0][:2], f"seed {seed}"
        assert {fault[:2] for fault in planted.faults} <= set(found), f"seed {seed}"
        if tried == 2:
            return
    raise AssertionError(f"{planter.__name__} found no place in 100 histories")


@pytest.mark.parametrize("seed", range(3))
def test_an_audit_may_begin_and_end_within_a_block(seed: int, tmp_path: Path) -> None:
    world = door_history(seed, MESSAGES)
    data = write_history(tmp_path / "data", world.journal, cuts=world.ends)
    draw = Random(seed)
    with patch.object(re_execution, "Options", lambda: OPTIONS):
        for _ in range(8):
            after = draw.randrange(len(world.journal))
            last = draw.randint(after + 1, len(world.journal))
            found = audited(data, after, last)
            assert found.is_clean, (after, last, found.breaches[:1])
            assert found.events == last - after


def test_verify_does_not_see_a_queue_that_was_left_out(tmp_path: Path) -> None:
    """Why there is an audit: bytes, fold and invariants are right."""
    planted = queue_left_out()
    data = write_history(tmp_path / "data", planted.history, cuts=planted.ends)
    assert verify_data(RealDisk(data / JOURNAL), lambda _: None).ok


@pytest.mark.parametrize("name", ["base-v1", "base-v2"])
def test_a_journal_of_an_earlier_release_is_allowed(name: str, tmp_path: Path) -> None:
    """Its beginning left, and content that was carried is known only from later events. The world
    that wrote it let messages of connections in that never were."""
    golden = Path(__file__).parents[3] / "golden" / name
    for packed in golden.rglob("*.zst"):
        file = tmp_path / packed.relative_to(golden).with_suffix("")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zstandard.decompress(packed.read_bytes()))
    expected = msgspec.json.decode((golden / "expected.json").read_bytes())
    disk = RealDisk(tmp_path / JOURNAL)
    (tmp_path / DATA_ID).write_text(expected["data_id"])
    found = audited(tmp_path, expected["removed_lsn"], last_lsn(disk))
    assert found.events > 200
    assert {each.rule for each in found.breaches} <= {"sender"}
    assert all(each.difference == 0 for each in found.accounts)


def test_events_that_do_not_fit_are_breaches_however_long_the_journal_is(tmp_path: Path) -> None:
    """No index can be folded over them, so the state cannot be read from one behind them."""
    story = queue_left_out()
    acknowledged = appended(story.history, _never_delivered(story.history))
    acknowledged = appended(acknowledged, events.row(events.CONNECTION_REFUSED, reason=LIMIT))
    data = write_history(tmp_path / "data", acknowledged, cuts=range(1, len(acknowledged)))
    with patch.object(re_execution, "STRETCH_EVENTS", 1):
        found = audited(data, 0, len(acknowledged))
    assert {(each.rule, each.lsn) for each in found.breaches} >= {
        (story.rule, story.lsn),
        ("fits", len(acknowledged) - 1),
    }


def _never_delivered(history: list[Event]) -> Row:
    routed = of_kind(history, events.ROUTED)[0]
    return changed(routed.row, kind=events.ACKNOWLEDGED, reason=BY_CONSUMER, message=1)


def test_a_copy_that_a_full_wildcard_address_does_not_take_is_a_copy() -> None:
    world = DoorWorld()
    full = {
        "max-size-messages": 1, "address-full-policy": "PAGE", "page-limit-messages": 1,
        "page-full-policy": "DROP",
    }  # fmt: skip
    world.settings("full", **{"k.*": full})
    connection = world.connect()
    world.attach(connection, "k.*", routing_type=MULTICAST, credit_messages=1)
    divert = DivertDefinition(
        name="d", address="in", forwarding_addresses=("k.dead",), routing_type="pass"
    )
    world.ok(c.CreateDivert(divert))
    for number in range(6):
        world.send("in", b"%d" % number, connection, routing_type=MULTICAST)
    dropped = [each for each in world.events_named("Dropped") if each.row[events.RELATED]]
    assert dropped
    names = {each.name: each.id for each in world.state.addresses.values()}
    assert dropped[-1].row[events.ADDRESS] == names["k.*"]
    assert judged(world.journal, world.ends) == []


@pytest.mark.parametrize("keeps", [False, True])
def test_what_a_divert_takes_of_a_dead_letter_address_need_not_be_kept(keeps: bool) -> None:
    """Its queue takes nothing; and only a history of its first address took it, or nothing did."""
    world = DoorWorld()
    kept = {"retroactive_message_count": 5}
    unrouted = {"send_to_dla_on_no_route": True, "dead_letter_address": "dead"}
    world.settings(a={**unrouted, **(kept if keeps else {})}, dead=kept)
    world.ok(c.CreateAddress("a", (MULTICAST,)))
    world.ok(create_queue("dead", "dead", enabled=False))
    world.ok(create_queue("copies", "copies"))
    connection = world.connect()
    # So that the dead letter address has a history.
    world.send("dead", b"1", connection)
    divert = DivertDefinition(name="d", address="dead", forwarding_addresses=("copies",))
    world.ok(c.CreateDivert(divert))
    world.send("a", b"2", connection, routing_type=MULTICAST)
    (diverted,) = world.events_named("Diverted")
    assert diverted.row[events.REASON] == (DIVERT if keeps else NO_ROUTE)
    assert judged(world.journal, world.ends) == []
