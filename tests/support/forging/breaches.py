"""Faults planted in journals whose checksums and chain are right, each a breach of one rule.

A planter makes a history with a broker, alters it, and says which event is wrong and by which rule;
`write_history` then seals the blocks as a broker would. The events of a removed one's place are
those that say nothing.
"""

from typing import Any

import msgspec

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import LINK_DETACH, MULTICAST, SESSION_END
from daybook.engine.facts.packed_values import pack
from daybook.engine.facts.settlements import FAILED, REJECTED
from daybook.engine.messages.annotations import COUNT_MAX, packed
from tests.support.forging.decisions import DECISIONS, Planted, Planter
from tests.support.forging.direct import OF_LINKS
from tests.support.forging.faults import appended, changed, inserted, replaced, retold, without
from tests.support.forging.linked import OF_AUTO_LINKS
from tests.support.topology import create_queue
from tests.support.world import SECOND, Event, World
from tests.support.worlds.auditing import DoorWorld

HOUR = 3600 * SECOND
DAY = 24 * HOUR
YEARS = 3650 * DAY


def _world(**matches: dict[str, Any]) -> tuple[DoorWorld, int, int]:
    """A world with a connection and a consumer of `orders`."""
    world = DoorWorld()
    everywhere = {"max-delivery-attempts": 3, "dead-letter-address": "dead"}
    world.settings("decisions", **{"all": everywhere, **matches})
    connection = world.connect()
    consumer = world.attach(connection, "orders", credit_messages=100, cumulative=True)
    return world, connection, consumer


def _named(world: World, name: str, number: int = -1) -> Event:
    return world.events_named(name)[number]


def _planted(world: DoorWorld, history: list[Event], rule: str, lsn: int) -> Planted:
    return Planted(history, world.ends, rule, lsn)


def _one_more(world: DoorWorld, history: list[Event], behind: int) -> list[int]:
    """Where blocks end after an event was inserted behind one."""
    return [end + (end > behind) for end in world.ends]


def _fan_out(world: DoorWorld, connection: int) -> Event:
    world.ok(c.CreateAddress("news", (MULTICAST,)))
    for name in ("one", "two", "three"):
        world.ok(create_queue(name, "news", MULTICAST))
    world.send("news", b"n", connection)
    return _named(world, "Routed")


def _with_queues(world: DoorWorld, event: Event, queues: tuple[int, ...]) -> list[Event]:
    detail = events.encode_detail(msgspec.structs.replace(event.decoded, queues=queues))
    return retold(world.journal, event, detail)


def queue_left_out() -> Planted:
    """A queue of a topic did not get a message."""
    world, connection, _ = _world()
    event = _fan_out(world, connection)
    history = _with_queues(world, event, event.decoded.queues[:2])
    return _planted(world, history, "routing", event.lsn)


def queue_added() -> Planted:
    """A queue of another address got a message of a topic, too."""
    world, connection, _ = _world()
    other = world.queue("orders").id
    event = _fan_out(world, connection)
    history = _with_queues(world, event, (*event.decoded.queues, other))
    return _planted(world, history, "routing", event.lsn)


def routed_elsewhere() -> Planted:
    """A message went to a queue of another address."""
    world, connection, _ = _world()
    world.send("mails", b"m", connection)
    other = world.queue("mails").id
    world.send("orders", b"o", connection)
    event = next(each for each in world.events_named("Routed") if each.body == b"o")
    history = [each for each in world.journal if each.lsn <= event.lsn]
    history = replaced(history, event, changed(event.row, queue=other))
    return _planted(world, history, "routing", event.lsn)


def sent_by_a_closed_connection() -> Planted:
    """A message came from a connection that was closed."""
    world, connection, _ = _world()
    gone = world.connect()
    world.close(gone)
    world.send("orders", b"o", connection)
    event = _named(world, "Routed")
    history = replaced(world.journal, event, changed(event.row, connection=gone))
    return _planted(world, history, "sender", event.lsn)


def sent_by_nobody() -> Planted:
    """A message came from a connection that never was."""
    world, connection, _ = _world()
    world.send("orders", b"o", connection)
    event = _named(world, "Routed")
    history = replaced(world.journal, event, changed(event.row, connection=event.lsn + 100))
    return _planted(world, history, "sender", event.lsn)


def delivered_while_paused() -> Planted:
    """A queue was paused when it delivered."""
    world, connection, _ = _world()
    world.send("orders", b"a", connection)
    world.send("orders", b"b", connection)
    event = _named(world, "Delivered")
    queue = world.queue("orders")
    row = events.row(
        events.QUEUE_PAUSED, reason=reasons.ADMINISTRATION, address=queue.address.id,
        queue=queue.id, time=event.row[events.TIME],
    )  # fmt: skip
    history = inserted(world.journal, event.lsn - 2, row)
    ends = _one_more(world, history, event.lsn - 2)
    return Planted(history, ends, "paused", event.lsn + 1)


def delivered_long_after_expiry() -> Planted:
    """A message was delivered whose time had passed an hour before."""
    world, connection, _ = _world()
    world.send("orders", b"a", connection, expires=world.now // 1000 + 60_000)
    event = _named(world, "Delivered")
    later = [
        each._replace(row=changed(each.row, time=each.row[events.TIME] + HOUR))
        if each.lsn >= event.lsn
        else each
        for each in world.journal
    ]
    return _planted(world, later, "expired", event.lsn)


def expired_without_expiry() -> Planted:
    """A message without an expiry expired."""
    world, connection, _ = _world(orders={"max-expiry-delay": -1})
    world.send("mails", b"a", connection, expires=world.now // 1000 + 10)
    world.sleep(1)
    world.ok(c.ExpireDue())
    routed = next(each for each in world.events_named("Routed") if each.body == b"a")
    blank = retold(world.journal, routed, b"")
    return _planted(world, blank, "expired", _named(world, "Expired").lsn)


def dead_lettered_too_early() -> Planted:
    """A message was dead-lettered at its second attempt of three."""
    world, connection, consumer = _world()
    world.send("orders", b"a", connection)
    message = world.taken(consumer)[0].message
    for _ in range(3):
        world.nack(consumer, message)
    settings = next(each for each in world.journal if each.name == "SettingsChanged")
    more = {"#": {**settings.decoded.settings["#"], "max-delivery-attempts": 5}}
    detail = events.encode_detail(msgspec.structs.replace(settings.decoded, settings=more))
    history = retold(world.journal, settings, detail)
    return _planted(world, history, "too-early", _named(world, "DeadLettered").lsn)


def priority_inversion() -> Planted:
    """A message of a lower priority was delivered first."""
    world, connection, consumer = _world()
    world.detach(consumer)
    world.send("orders", b"low", connection, priority=2)
    world.send("orders", b"high", connection, priority=8)
    world.attach(connection, "orders", credit_messages=100)
    high, low = (_named(world, "Routed", at) for at in (-1, -2))
    event = _named(world, "Delivered", 0)
    row = changed(event.row, message=low.lsn, priority=2)
    assert event.row[events.MESSAGE] == high.lsn
    history = replaced(world.journal[: event.lsn], event, row)
    return _planted(world, history, "order", event.lsn)


def out_of_order() -> Planted:
    """A later message of the same priority was delivered first."""
    world, connection, consumer = _world()
    world.detach(consumer)
    world.send("orders", b"first", connection)
    world.send("orders", b"second", connection)
    world.attach(connection, "orders", credit_messages=100)
    second, event = _named(world, "Routed"), _named(world, "Delivered", 0)
    row = changed(event.row, message=second.lsn)
    history = replaced(world.journal[: event.lsn], event, row)
    return _planted(world, history, "order", event.lsn)


def removed_by_nobody() -> Planted:
    """A message was removed for an administrator, and none asked for it."""
    world, connection, consumer = _world()
    world.detach(consumer)
    world.send("orders", b"a", connection)
    world.ok(c.PurgeQueue("orders"))
    event = _named(world, "Removed")
    asked = _named(world, "Administered")
    return _planted(world, without(world.journal, asked), "requested", event.lsn)


def send_of_a_commit_missing() -> Planted:
    """One of the sends of a committed transaction is missing."""
    world, connection, _ = _world()
    world.begin(connection)
    for body in (b"a", b"b", b"c"):
        world.ok(c.Send(connection, "mails", b"", body, transaction="t"))
    world.commit(connection)
    routed = next(each for each in world.events_named("Routed") if each.body == b"b")
    history = without(world.journal, routed)
    return _planted(world, history, "commit", _named(world, "TransactionCommitted").lsn)


def dropped_missing() -> Planted:
    """A full address dropped a message for its queues, and no event says so."""
    full = {"max-size-messages": 1, "address-full-policy": "DROP"}
    world, connection, _ = _world(all=full, news={"max-size-messages": -1})
    world.ok(c.CreateAddress("news", (MULTICAST,)))
    world.ok(create_queue("one", "news", MULTICAST))
    world.ok(create_queue("two", "news", MULTICAST))
    world.ok(create_queue("all", "*", MULTICAST))
    for body in (b"a", b"b"):
        world.send("news", body, connection)
    return _without_dropped(world)


def _without_dropped(world: DoorWorld) -> Planted:
    dropped = _named(world, "Dropped")
    routed = [each for each in world.events_named("Routed") if each.lsn < dropped.lsn][-1]
    return _planted(world, without(world.journal, dropped), "routing", routed.lsn)


def ready_message_erased() -> Planted:
    """A message that was ready is gone, and an LSN that nobody skipped is in its place."""
    world, connection, consumer = _world()
    world.detach(consumer)
    world.send("orders", b"a", connection)
    event = _named(world, "Routed")
    row = events.row(events.SKIPPED, time=event.row[events.TIME])
    blank = Event(event.lsn, row, b"", b"", b"")
    history = [blank if each.lsn == event.lsn else each for each in world.journal]
    return _planted(world, history, "numbered", event.lsn)


def copy_with_another_body() -> Planted:
    """A dead letter has another body than the message that it was."""
    world, connection, consumer = _world()
    world.send("orders", b"a", connection)
    message = world.taken(consumer)[0].message
    for _ in range(3):
        world.nack(consumer, message)
    dead = _named(world, "DeadLettered")
    copy = _named(world, "Routed")
    history = [each._replace(body=b"z") if each.lsn == copy.lsn else each for each in world.journal]
    return _planted(world, history, "copy", dead.lsn)


def chunk_missing() -> Planted:
    """A chunk of a large message is missing."""
    world, connection, _ = _world()
    world.send_large("mails", (b"a" * 50, b"b" * 50, b"c" * 50), connection)
    chunk = world.events_named("ChunkReceived")[1]
    routed = next(each for each in world.events_named("Routed") if each.decoded.chunks)
    assert chunk.lsn < routed.lsn
    last = world.events_named("ChunkReceived")[2]
    return _planted(world, without(world.journal, chunk), "chunks", last.lsn)


def _another(**values: int) -> Planted:
    world, connection, _ = _world()
    world.send("mails", b"m", connection)
    world.send("orders", b"a", connection)
    event = _named(world, "Delivered")
    history = replaced(world.journal, event, changed(event.row, **values))
    return _planted(world, history, "facts", event.lsn)


def another_address() -> Planted:
    """A delivery names another address than its queue has."""
    return _another(address=1 + 1)


def another_priority() -> Planted:
    """A delivery has another priority than its message."""
    return _another(priority=7)


def another_persistence() -> Planted:
    """A delivery says that its message is not persistent."""
    return _another(flags=0)


def automatic_by_the_client() -> Planted:
    """An automatic acknowledgement has the reason of those by clients."""
    world, connection, _ = _world()
    world.attach(connection, "mails", credit_messages=9, acknowledges=False)
    world.send("mails", b"a", connection)
    event = _named(world, "Acknowledged")
    row = changed(event.row, reason=reasons.BY_CONSUMER)
    return _planted(world, replaced(world.journal, event, row), "automatic", event.lsn)


def acknowledged_before_its_delivery() -> Planted:
    """An acknowledgement has a time before that of its delivery."""
    world, connection, consumer = _world()
    world.sleep(100)
    world.send("orders", b"a", connection)
    world.sleep(10)
    world.ack(consumer, world.taken(consumer)[0].message)
    event = _named(world, "Acknowledged")
    row = changed(event.row, time=event.row[events.TIME] - 30 * SECOND)
    return _planted(world, replaced(world.journal, event, row), "time", event.lsn)


def _busy() -> DoorWorld:
    world, connection, consumer = _world()
    for _ in range(10):
        world.sleep(1)
        world.send("orders", b"a", connection)
        world.ack(consumer, world.taken(consumer)[-1].message)
    return world


def an_hour_back() -> Planted:
    """One event is an hour back."""
    world = _busy()
    event = _named(world, "Routed", 5)
    row = changed(event.row, time=event.row[events.TIME] - HOUR)
    return _planted(world, replaced(world.journal, event, row), "time", event.lsn)


def a_day_back() -> Planted:
    """The second half of the journal is a day back."""
    return _shifted(-DAY)


def years_ahead() -> Planted:
    """The second half of the journal is in the future."""
    return _shifted(YEARS)


def _shifted(by: int) -> Planted:
    world = _busy()
    event = _named(world, "Routed", 5)
    history = [
        each._replace(row=changed(each.row, time=each.row[events.TIME] + by))
        if each.lsn >= event.lsn
        else each
        for each in world.journal
    ]
    return _planted(world, history, "time", event.lsn)


def unknown_reason() -> Planted:
    """An event has a reason that nobody knows."""
    world, connection, consumer = _world()
    world.send("orders", b"a", connection)
    world.ack(consumer, world.taken(consumer)[0].message)
    event = _named(world, "Acknowledged")
    row = changed(event.row, reason=250)
    return _planted(world, replaced(world.journal, event, row), "known", event.lsn)


def duplicate_taken_twice() -> Planted:
    """An address remembers one id twice."""
    world, connection, _ = _world()
    world.ok(c.Send(connection, "mails", b"", b"a", duplicate_id="7"))
    world.ok(c.Send(connection, "mails", b"", b"b", duplicate_id="8"))
    event = _named(world, "DuplicateIdRecorded")
    first = _named(world, "DuplicateIdRecorded", 0)
    history = retold(world.journal, event, first.detail)
    return _planted(world, history, "fits", event.lsn)


def queue_created_twice() -> Planted:
    """A queue was created that existed."""
    world, connection, _ = _world()
    world.send("mails", b"a", connection)
    first = next(each for each in world.events_named("QueueCreated"))
    again = appended(world.journal, first.row)
    again[-1] = again[-1]._replace(detail=first.detail)
    return _planted(world, again, "named-once", again[-1].lsn)


def deleted_before_its_time() -> Planted:
    """The queue of a subscription expired an hour before it could."""
    world, connection, _ = _world()
    world.detach(_expiring(world, connection, LINK_DETACH))
    world.sleep(60)
    world.ok(c.DeleteUnused())
    event = _named(world, "QueueDeleted")
    left = _named(world, "ConsumerDetached")
    early = changed(event.row, time=left.row[events.TIME])
    history = replaced(world.journal[: event.lsn], event, early)
    return _planted(world, history, "lifetime", event.lsn)


def owner_ended_twice() -> Planted:
    """A session ended, and the queue that it had lost it once more."""
    world, connection, _ = _world()
    world.detach(_expiring(world, connection, SESSION_END))
    world.ok(c.EndOwner(connection, session=1))
    event = _named(world, "OwnerEnded")
    again = appended(world.journal, event.row)
    return _planted(world, again, "lifetime", again[-1].lsn)


def _expiring(world: World, connection: int, policy: str) -> int:
    return world.attach(
        connection, "news", routing_type=MULTICAST, durable_name="mine", session=1,
        expiry_policy=policy, expiry_ms=60_000,
    )  # fmt: skip


def _noted(world: DoorWorld, connection: int, consumer: int, outcome: int) -> None:
    world.send("orders", b"a", connection)
    message = world.taken(consumer)[0].message
    world.ok(c.Settle(consumer, message, outcome=outcome, annotations={7: "noted"}))


def _with_annotations(
    world: DoorWorld, event: Event, annotations: bytes, found_at: Event | None = None
) -> Planted:
    detail = msgspec.structs.replace(event.decoded, annotations=annotations)
    history = retold(world.journal, event, events.encode_detail(detail))
    return _planted(world, history, "annotated", (found_at or event).lsn)


def annotations_of_nobody() -> Planted:
    """A message that a client sent has annotations."""
    world, connection, _ = _world()
    world.send("orders", b"a", connection, expires=world.now // 1000 + 100)
    return _with_annotations(world, _named(world, "Routed"), packed({7: "noted"}))


def annotations_that_are_none() -> Planted:
    """A consumer noted bytes that cannot be annotations."""
    world, connection, consumer = _world()
    _noted(world, connection, consumer, FAILED)
    return _with_annotations(world, _named(world, "Returned"), b"\x07")


def annotations_too_many() -> Planted:
    """A consumer noted more than a message can keep."""
    world, connection, consumer = _world()
    _noted(world, connection, consumer, FAILED)
    many = pack({number: None for number in range(COUNT_MAX + 1)})
    return _with_annotations(world, _named(world, "Returned"), many)


def annotations_lost_with_a_dead_letter() -> Planted:
    """A dead letter has not the annotations of the message that it was."""
    world, connection, consumer = _world()
    _noted(world, connection, consumer, FAILED)
    world.ok(c.Settle(consumer, world.taken(consumer)[0].message, outcome=REJECTED))
    dead = _named(world, "DeadLettered")
    return _with_annotations(world, _named(world, "Routed"), b"", found_at=dead)


def retained_by_nobody() -> Planted:
    """A message of a history is said to be retained, and its topic retains another one."""
    world, connection, _ = _world(news={"retroactive-message-count": 10})
    world.ok(c.CreateAddress("news", (MULTICAST,)))
    world.send("news", b"1", connection, routing_type=MULTICAST)
    world.send("news", b"2", connection, routing_type=MULTICAST, retain=c.RETAIN_SET)
    world.ok(create_queue("reader", "news", MULTICAST))
    event = _named(world, "Recalled", 0)
    detail = events.encode_detail(msgspec.structs.replace(event.decoded, retained=True))
    return _planted(world, retold(world.journal, event, detail), "history", event.lsn)


def unknown_kind() -> Planted:
    """An event is of a kind that nobody knows."""
    world, _, _ = _world()
    history = appended(world.journal, events.row(250))
    return _planted(world, history, "known", history[-1].lsn)


BREACHES: tuple[Planter, ...] = (
    queue_left_out, queue_added, routed_elsewhere, sent_by_a_closed_connection, sent_by_nobody,
    delivered_while_paused, delivered_long_after_expiry, expired_without_expiry,
    dead_lettered_too_early, priority_inversion, out_of_order, removed_by_nobody,
    send_of_a_commit_missing, dropped_missing, ready_message_erased, copy_with_another_body,
    chunk_missing, another_address, another_priority, another_persistence,
    automatic_by_the_client, acknowledged_before_its_delivery, an_hour_back, a_day_back,
    years_ahead, unknown_reason, duplicate_taken_twice, queue_created_twice, unknown_kind,
    deleted_before_its_time, owner_ended_twice,
    annotations_of_nobody, annotations_that_are_none, annotations_too_many,
    annotations_lost_with_a_dead_letter, retained_by_nobody,
    *DECISIONS, *OF_LINKS, *OF_AUTO_LINKS,
)  # fmt: skip
"""The breaches that an audit by re-execution must find."""
