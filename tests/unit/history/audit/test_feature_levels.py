"""Each event is asked for the rules of the broker that decided it."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.details import RoutedDetail, ScheduledDetail
from daybook.history.audit import re_execution
from daybook.history.audit.feature_levels import (
    CHANGES,
    ENTERS_ASIDE,
    ORIGINS,
    RETAINED,
    RETURNED_FLAG,
    STORED,
    UNKNOWN,
    Change,
    deciders_at,
)
from daybook.history.audit.re_execution import audit_piece, joined, tasks
from daybook.history.audit.rules import RULES
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.levels import LEVEL
from tests.support.forging.direct import Direct, stored
from tests.support.forging.faults import changed, decided_by, of_kind, replaced, retold
from tests.support.histories import write_history
from tests.support.topology import create_queue
from tests.support.world import Event
from tests.support.worlds.auditing import DoorWorld, judged


def dead_letter() -> DoorWorld:
    """A world in which a message is returned twice and then dead-lettered."""
    world = DoorWorld()
    world.settings(all={"max_delivery_attempts": 2, "dead_letter_address": "dead"})
    connection = world.connect()
    consumer = world.attach(connection, "orders", credit_messages=1)
    world.send("orders", b"a", connection)
    for _ in range(2):
        world.nack(consumer, world.taken(consumer)[-1].message)
        world.turn()
    return world


def without_origin(journal: list[Event]) -> list[Event]:
    """Copies as releases before origins wrote them."""
    return [
        each._replace(detail=_plain(each.detail))
        if each.row[events.KIND] == events.ROUTED and each.row[events.RELATED]
        else each
        for each in journal
    ]


def _plain(detail: bytes) -> bytes:
    decoded = events.decode_detail(events.ROUTED, detail)
    assert isinstance(decoded, RoutedDetail)
    return events.encode_detail(msgspec.structs.replace(decoded, origin=None))


def without_flag(journal: list[Event]) -> list[Event]:
    """Returns as releases of the first day wrote them."""
    returned = {each.lsn for each in of_kind(journal, events.RETURNED)}
    assert returned
    return [
        each._replace(row=changed(each.row, flags=each.row[events.FLAGS] & ~events.REDELIVERED))
        if each.lsn in returned
        else each
        for each in journal
    ]


def retained() -> DoorWorld:
    """A world in which a new queue got what its topic retained."""
    world = DoorWorld()
    connection = world.connect()
    world.send("news", b"a", connection, routing_type=MULTICAST, retain=c.RETAIN_SET)
    world.ok(create_queue("reader", "news", MULTICAST))
    world.turn()
    return world


def without_mark(journal: list[Event]) -> list[Event]:
    """Recalls as releases before level 11 wrote them."""
    (event,) = of_kind(journal, events.RECALLED)
    detail = msgspec.structs.replace(event.decoded, retained=False)
    return retold(journal, event, events.encode_detail(detail))


def sent() -> DoorWorld:
    """A world in which a message went to a direct address."""
    direct = Direct("one")
    direct.send("one")
    return direct.world


def forwarded() -> DoorWorld:
    """A world in which a message that a queue had went to a direct address."""
    return stored()[0].world


def without_lengths(journal: list[Event]) -> list[Event]:
    """Messages to direct addresses as releases before level 13 wrote them."""
    (event,) = of_kind(journal, events.FORWARDED)
    detail = msgspec.structs.replace(event.decoded, omitted_bytes=0)
    return retold(journal, event, events.encode_detail(detail))


def without_stored(journal: list[Event]) -> list[Event]:
    """Messages from a queue as those releases wrote them, with the length of their content."""
    (event,) = of_kind(journal, events.FORWARDED)
    detail = msgspec.structs.replace(event.decoded, link=0)
    told = retold(journal, event, events.encode_detail(detail))
    return replaced(told, event, changed(event.row, related=event.decoded.link))


@pytest.mark.parametrize(
    ("change", "decided", "older"),
    [
        (ORIGINS, dead_letter, without_origin),
        (RETURNED_FLAG, dead_letter, without_flag),
        (RETAINED, retained, without_mark),
        (STORED, sent, without_lengths),
        (STORED, forwarded, without_stored),
    ],
)
def test_what_an_older_broker_decided_stays_allowed(
    change: Change, decided: Callable[[], DoorWorld], older: Callable[[list[Event]], list[Event]]
) -> None:
    world = decided()
    assert judged(world.journal, world.ends) == []
    story = older(world.journal)
    for level in (UNKNOWN, change.level - 1):
        assert judged(decided_by(story, level), world.ends) == []
    for level in (change.level, LEVEL):
        found = judged(decided_by(story, level), world.ends)
        assert found
        assert {each.rule for each in found} == {change.rule}


def test_brokers_before_level_7_set_each_entry_aside_by_an_event_of_its_own() -> None:
    world = DoorWorld()
    connection = world.connect()
    world.ok(create_queue("orders", "orders"))
    due = world.now // 1000 + 60_000
    message = world.ok(c.Send(connection, "orders", b"", b"a", due=due))
    plain = list(world.journal), list(world.ends)
    # In the block of Routed.
    world.ends.pop()
    queue = world.queue("orders")
    world.broker.emit_of_entry(
        queue, queue.entries[message], events.SCHEDULED, reasons.DELIVERY_TIME,
        detail=events.encode_detail(ScheduledDetail(due=due)),
    )  # fmt: skip
    world.turn()
    for level, story, is_right in (
        (ENTERS_ASIDE.level - 1, (world.journal, world.ends), True),
        (ENTERS_ASIDE.level - 1, plain, False),
        (LEVEL, plain, True),
        (LEVEL, (world.journal, world.ends), False),
    ):
        found = judged(decided_by(story[0], level), story[1])
        assert {each.rule for each in found} == (set() if is_right else {"schedule"})


def test_a_piece_begins_with_the_rules_of_the_broker_before_it(tmp_path: Path) -> None:
    """The start is in an earlier piece; a newer broker has the newer rules again."""
    world = dead_letter()
    older = len(world.journal)
    world.restart()
    connection = world.connect()
    consumer = world.attach(connection, "orders", credit_messages=1)
    world.send("orders", b"b", connection)
    for _ in range(2):
        world.nack(consumer, world.taken(consumer)[-1].message)
        world.turn()
    story = without_origin(world.journal)
    story = [*decided_by(story[:older], UNKNOWN), *decided_by(story[older:], LEVEL)]
    data = write_history(tmp_path / "data", story, cuts=world.ends, segment_bytes=1 << 16)
    disk = RealDisk(data / JOURNAL)
    copies = [each.lsn for each in of_kind(story, events.DEAD_LETTERED)]
    found = deciders_at(disk, [0, copies[0] - 1, copies[0], copies[1]])
    assert [each.level for each in found] == [
        UNKNOWN, UNKNOWN, UNKNOWN, LEVEL,
    ]  # fmt: skip
    for after in (0, copies[0] - 1, copies[1] - 1):
        found = tasks(data, disk, after, len(story), processes=1, now=1 << 60, tolerance=1 << 60)
        breaches = joined([audit_piece(each, disk) for each in found]).breaches
        assert [(each.rule, each.lsn) for each in breaches] == [("copy", copies[1])]


def test_the_stretches_of_a_piece_have_the_rules_of_their_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(re_execution, "STRETCH_EVENTS", 1)
    world = dead_letter()
    story = decided_by(without_origin(world.journal), UNKNOWN)
    data = write_history(tmp_path / "data", story, cuts=world.ends)
    disk = RealDisk(data / JOURNAL)
    found = tasks(data, disk, 0, len(story), processes=1, now=1 << 60, tolerance=1 << 60)
    assert joined([audit_piece(each, disk) for each in found]).breaches == []


def test_changes_name_rules_and_levels_that_there_are() -> None:
    names = {rule.name for rule in RULES}
    for change in CHANGES:
        assert change.rule in names
        assert UNKNOWN < change.level <= LEVEL
