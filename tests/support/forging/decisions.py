"""Decisions that no broker makes, planted in journals whose checksums and chain are right.

As `tests.support.forging.breaches`, of what is decided about a message: that it is dropped,
diverted, has to wait, replaces another one or leaves a ring, is for the consumer of its group, and
why things end.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from daybook.engine import commands as c
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.facts.events import GROUPED
from daybook.engine.messages.headers import build
from daybook.history.audit.feature_levels import ENTERS_ASIDE
from tests.support.forging.faults import changed, decided_by, replaced, retold, without
from tests.support.topology import create_queue
from tests.support.world import SECOND, Event
from tests.support.worlds.auditing import DoorWorld


class Planted(NamedTuple):
    """An altered history, the ends of its blocks, and the breach: a rule and an event."""

    history: list[Event]
    ends: list[int]
    rule: str
    lsn: int


Planter = Callable[[], Planted]


def _world() -> tuple[DoorWorld, int]:
    world = DoorWorld()
    world.settings("full")
    return world, world.connect()


def _named(world: DoorWorld, name: str, number: int = -1) -> Event:
    return world.events_named(name)[number]


def _instead(history: Sequence[Event], event: Event, reason: int, **basis: Any) -> list[Event]:
    """The history with a Dropped instead of a Routed, which says what brokers say of it."""
    said = details.Basis(body_bytes=len(event.body), **basis)
    dropped = event._replace(
        row=events.row(
            events.DROPPED, reason=reason, address=event.row[events.ADDRESS],
            priority=event.row[events.PRIORITY], flags=event.row[events.FLAGS],
            connection=event.row[events.CONNECTION], time=event.row[events.TIME],
        ),
        detail=events.encode_detail(details.DroppedDetail(basis=said)),
        body=b"",
    )  # fmt: skip
    return [dropped if each.lsn == event.lsn else each for each in history]


def _saying(world: DoorWorld, event: Event, detail: Any) -> list[Event]:
    """The history with another detail of an event."""
    return retold(world.journal, event, events.encode_detail(detail))


def dropped_without_a_filter() -> Planted:
    """A message was dropped for the filters of an address whose queue has none."""
    world, connection = _world()
    world.ok(create_queue("mails", "mails"))
    world.send("mails", b"a", connection)
    event = _named(world, "Routed")
    history = _instead(world.journal, event, reasons.NO_MATCHING_FILTER)
    return Planted(history, world.ends, "dropped", event.lsn)


def dropped_although_it_passes() -> Planted:
    """A message was dropped for a filter that lets it pass."""
    world, connection = _world()
    world.ok(c.CreateAddress("news", (MULTICAST,)))
    world.ok(create_queue("big", "news", MULTICAST, filter="kind='big'"))
    world.send("news", b"a", connection, headers={"kind": "big"})
    event = _named(world, "Routed")
    history = _instead(world.journal, event, reasons.NO_MATCHING_FILTER)
    return Planted(history, world.ends, "dropped", event.lsn)


def dropped_by_a_limit_that_was_not_reached() -> Planted:
    """A message was dropped since its address was full, and there was room for two."""
    world, connection = _world()
    world.settings("full", mails={"max_size_messages": 2, "address_full_policy": "DROP"})
    for body in (b"a", b"b"):
        world.send("mails", body, connection)
    event = _named(world, "Routed")
    history = _instead(world.journal, event, reasons.MAX_SIZE_MESSAGES, held=1, limit=2)
    return Planted(history, world.ends, "dropped", event.lsn)


def dropped_as_a_duplicate_of_nothing() -> Planted:
    """A message was dropped as a duplicate, and its address never had one with its id."""
    world, connection = _world()
    for body in (b"a", b"b"):
        world.ok(c.Send(connection, "mails", b"", body, duplicate_id="7"))
    event = _named(world, "Dropped")
    detail = details.DroppedDetail(duplicate_id="8", basis=details.Basis(body_bytes=1))
    return Planted(_saying(world, event, detail), world.ends, "dropped", event.lsn)


def duplicate_routed() -> Planted:
    """A message was routed whose address had one with the same duplicate id."""
    world, connection = _world()
    headers = build([("_AMQ_DUPL_ID", "7")])
    world.ok(c.Send(connection, "mails", headers, b"a", duplicate_id="7"))
    world.ok(c.Send(connection, "mails", headers, b"b"))
    event = _named(world, "Routed")
    return Planted(list(world.journal), world.ends, "duplicate", event.lsn)


def _diverted(*, exclusive: bool) -> tuple[DoorWorld, int]:
    world, connection = _world()
    for name in ("mails", "copies"):
        world.ok(create_queue(name, name))
    wanted = DivertDefinition("d", "mails", ("copies",), exclusive, "kind='big'")
    world.ok(c.CreateDivert(wanted))
    return world, connection


def copy_of_a_divert_missing() -> Planted:
    """A divert takes a message, and its copy is missing."""
    world, connection = _diverted(exclusive=False)
    world.send("mails", b"a", connection, headers={"kind": "big"})
    original, copy = world.events_named("Routed")
    return Planted(without(world.journal, copy), world.ends, "diverted", original.lsn)


def taken_by_no_exclusive_divert() -> Planted:
    """An exclusive divert takes a message, and a queue of its address got it."""
    world, connection = _diverted(exclusive=True)
    world.send("mails", b"a", connection, headers={"kind": "small"})
    event = _named(world, "Routed")
    big = build([("kind", "big")])
    history = [
        each._replace(headers=big) if each.lsn == event.lsn else each for each in world.journal
    ]
    return Planted(history, world.ends, "diverted", event.lsn)


def schedule_ignored() -> Planted:
    """A broker before level 7 was asked to deliver a message later, and it was ready at once."""
    world, connection = _world()
    world.ok(create_queue("mails", "mails"))
    due = world.now // 1000 + 60_000
    world.ok(c.Send(connection, "mails", b"", b"a", due=due))
    event = _named(world, "Routed")
    history = decided_by(world.journal, ENTERS_ASIDE.level - 1)
    return Planted(history, world.ends, "schedule", event.lsn)


def scheduled_for_the_past() -> Planted:
    """A message was set aside for a time that had come."""
    world, connection = _world()
    world.ok(create_queue("mails", "mails"))
    world.ok(c.Send(connection, "mails", b"", b"a", due=world.now // 1000 + 60_000))
    event = _named(world, "Routed")
    detail = msgspec.structs.replace(event.decoded, due=event.row[events.TIME] // 1000)
    return Planted(_saying(world, event, detail), world.ends, "schedule", event.lsn)


def due_before_its_time() -> Planted:
    """A message was set aside for longer than it stayed there."""
    world, connection = _world()
    world.ok(create_queue("mails", "mails"))
    world.ok(c.Send(connection, "mails", b"", b"a", due=world.now // 1000 + 1000))
    world.now += 2 * SECOND
    world.ok(c.DeliverDue())
    event = _named(world, "Routed")
    later = msgspec.structs.replace(event.decoded, due=event.decoded.due + 60_000)
    return Planted(_saying(world, event, later), world.ends, "due", _named(world, "Due").lsn)


def wrong_one_replaced() -> Planted:
    """A message replaced one with another last value."""
    world, connection = _world()
    world.ok(create_queue("prices", "prices", last_value_key="k"))
    for key in ("1", "2", "2"):
        world.send("prices", b"a", connection, headers={"k": key})
    event = _named(world, "Removed")
    row = changed(event.row, message=_named(world, "Routed", 0).lsn)
    history = replaced(world.journal, event, row)
    return Planted(history, world.ends, "last-value", _named(world, "Routed").lsn)


def newest_pushed_out() -> Planted:
    """A full ring pushed out its newest message."""
    world, connection = _world()
    world.ok(create_queue("ring", "ring", ring_size=2))
    for body in (b"a", b"b", b"c"):
        world.send("ring", body, connection)
    world.turn()
    event = _named(world, "Removed")
    row = changed(event.row, message=_named(world, "Routed").lsn)
    return Planted(replaced(world.journal, event, row), world.ends, "removal", event.lsn)


def given_to_another_consumer() -> Planted:
    """The second message of a group went to another consumer than the first."""
    world, connection = _world()
    world.ok(create_queue("mails", "mails", ANYCAST))
    first, second = (world.attach(connection, "mails", credit_messages=9) for _ in range(2))
    headers = build([("JMSXGroupID", "g")])
    for body in (b"a", b"b"):
        world.ok(c.Send(connection, "mails", headers, body, format=GROUPED))
        world.turn()
    event = _named(world, "Delivered")
    other = second if event.row[events.CONSUMER] == first else first
    row = changed(event.row, consumer=other)
    return Planted(replaced(world.journal, event, row), world.ends, "group", event.lsn)


def ended_for_two_reasons() -> Planted:
    """A consumer ended since its connection was lost, and the connection since it was closed."""
    world, connection = _world()
    world.attach(connection, "mails")
    world.now += SECOND
    world.ok(c.CloseConnection(connection, reasons.DISCONNECTED))
    event = _named(world, "ConnectionClosed")
    row = changed(event.row, reason=reasons.CLOSED)
    return Planted(replaced(world.journal, event, row), world.ends, "ended", event.lsn)


def nothing_of_what_was_asked() -> Planted:
    """An administrator asked for a purge, and a message was delivered before its time."""
    world, connection = _world()
    world.ok(create_queue("mails", "mails"))
    world.ok(c.Send(connection, "mails", b"", b"a", due=world.now // 1000 + 60_000))
    world.ok(c.DeliverScheduled("mails", 10))
    event = _named(world, "Administered")
    detail = details.AdministeredDetail(by="joe", request='{"do":"purge-queue"}')
    return Planted(_saying(world, event, detail), world.ends, "requested", event.lsn)


DECISIONS: tuple[Planter, ...] = (
    dropped_without_a_filter, dropped_although_it_passes, dropped_by_a_limit_that_was_not_reached,
    dropped_as_a_duplicate_of_nothing, duplicate_routed, copy_of_a_divert_missing,
    taken_by_no_exclusive_divert, schedule_ignored, scheduled_for_the_past, due_before_its_time,
    wrong_one_replaced, newest_pushed_out,
    given_to_another_consumer, ended_for_two_reasons, nothing_of_what_was_asked,
)  # fmt: skip
"""The breaches of decisions that an audit by re-execution must find."""
