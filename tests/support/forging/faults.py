"""Faults planted in correct histories, each with the faults that an audit must find.

A planter gets the events of a real history and returns changed ones, or None if the history has no
place for the fault. LSNs stay without gaps: a removed event is replaced by one without meaning, and
an inserted event increases all later ids.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from random import Random
from typing import Any, NamedTuple, cast

import msgspec

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import (
    CONSUMER,
    DELIVERY_COUNT,
    FLAGS,
    KIND,
    MESSAGE,
    PERSISTENT,
    QUEUE,
    RELATED,
    TIME,
    Row,
)
from tests.support.world import Event, fold

Found = tuple[str, int, int]
"""Kind of a fault, the last event that shows it, and its message."""

FROM_FLIGHT = (events.ACKNOWLEDGED, events.RETURNED, events.DEAD_LETTERED)
LEAVING = (events.ACKNOWLEDGED, events.DEAD_LETTERED, events.EXPIRED, events.REMOVED)
IDS = (MESSAGE, CONSUMER, events.CONNECTION, RELATED)


class Planted(NamedTuple):
    """A history with faults, and these."""

    history: list[Event]
    faults: list[Found]


Planter = Callable[[list[Event], Random], Planted | None]


def changed(row: Row, **values: int) -> Row:
    """Return the row with other values in some columns."""
    names = [column.name for column in events.COLUMNS]
    return cast("Row", tuple(values.get(name, row[at]) for at, name in enumerate(names)))


def replaced(history: Sequence[Event], event: Event, row: Row) -> list[Event]:
    """Return the history with another row for one event."""
    return [each._replace(row=row) if each.lsn == event.lsn else each for each in history]


def retold(history: Sequence[Event], event: Event, detail: bytes) -> list[Event]:
    """Return the history with another detail, encoded, for one event."""
    return [each._replace(detail=detail) if each.lsn == event.lsn else each for each in history]


def decided_by(history: Sequence[Event], level: int) -> list[Event]:
    """The same events as of a broker that knew this level."""
    start = events.encode_detail(details.BrokerStartedDetail(version="0.1.0", level=level))
    return [
        each._replace(detail=start) if each.row[events.KIND] == events.BROKER_STARTED else each
        for each in history
    ]


def without(history: Sequence[Event], event: Event) -> list[Event]:
    """Return the history with one event replaced by one without meaning."""
    nothing = events.row(events.CONNECTION_REFUSED, time=event.row[TIME])
    blank = Event(event.lsn, nothing, b"", b"", b"")
    return [blank if each.lsn == event.lsn else each for each in history]


def appended(history: Sequence[Event], row: Row) -> list[Event]:
    """The history with one event more at its end, at the time of the last."""
    last = history[-1]
    return [*history, Event(last.lsn + 1, changed(row, time=last.row[TIME]), b"", b"", b"")]


def inserted(history: Sequence[Event], behind: int, row: Row) -> list[Event]:
    """The history with one event more behind an LSN; the row's ids are those before that."""
    earlier = [event for event in history if event.lsn <= behind]
    later = [_moved(event, behind) for event in history if event.lsn > behind]
    moved = _moved(Event(behind, row, b"", b"", b""), behind)
    return [*earlier, moved._replace(lsn=behind + 1), *later]


def _moved(event: Event, behind: int) -> Event:
    """An event one place further on, with ids that follow it."""
    row = list(event.row)
    for at in IDS:
        row[at] += row[at] > behind
    detail = event.detail
    decoded: Any = events.decode_detail(event.row[KIND], detail) if detail else None
    if isinstance(decoded, details.TransactionDetail):
        first = decoded.first + (decoded.first > behind)
        detail = events.encode_detail(msgspec.structs.replace(decoded, first=first))
    elif isinstance(decoded, details.RoutedDetail) and decoded.chunks:
        chunks = [lsn + (lsn > behind) for lsn in accumulate(decoded.chunks)]
        steps = (chunks[0], *(b - a for a, b in pairwise(chunks)))
        detail = events.encode_detail(msgspec.structs.replace(decoded, chunks=steps))
    return event._replace(lsn=event.lsn + 1, row=cast("Row", tuple(row)), detail=detail)


def of_kind(history: Sequence[Event], *kinds: int) -> list[Event]:
    """All events of some kinds."""
    return [event for event in history if event.row[KIND] in kinds]


def story(history: Sequence[Event], event: Event) -> list[Event]:
    """Return the later events about the entry of an event."""
    key = (event.row[MESSAGE], event.row[QUEUE])
    return [
        each
        for each in history
        if each.lsn > event.lsn and (each.row[MESSAGE], each.row[QUEUE]) == key
    ]


def _pick(pick: Random, found: Sequence[Event]) -> Event | None:
    return pick.choice(found) if found else None


def acknowledged_again(history: list[Event], pick: Random) -> Planted | None:
    """An acknowledgement a second time, at the end."""
    event = _pick(pick, of_kind(history, events.ACKNOWLEDGED))
    if event is None:
        return None
    told = appended(history, event.row)
    return Planted(told, [("fits", told[-1].lsn, event.row[MESSAGE])])


def acknowledged_twice(history: list[Event], pick: Random) -> Planted | None:
    """An acknowledgement twice, one behind the other; of no transaction, which has a length."""
    ends = [event.lsn for event in of_kind(history, events.TRANSACTION_COMMITTED)]
    free = [
        event
        for event in of_kind(history, events.ACKNOWLEDGED)
        if not any(0 < end - event.lsn < 20 for end in ends)
    ]
    event = _pick(pick, free)
    if event is None:
        return None
    told = inserted(history, event.lsn, event.row)
    return Planted(told, [("fits", event.lsn + 1, event.row[MESSAGE])])


def acknowledged_after_removal(history: list[Event], pick: Random) -> Planted | None:
    """An acknowledgement of an entry that had left in another way."""
    left = of_kind(history, events.REMOVED, events.EXPIRED, events.DEAD_LETTERED)
    event, ack = _pick(pick, left), _pick(pick, of_kind(history, events.ACKNOWLEDGED))
    if event is None or ack is None:
        return None
    row = changed(ack.row, message=event.row[MESSAGE], queue=event.row[QUEUE])
    told = appended(history, row)
    return Planted(told, [("fits", told[-1].lsn, event.row[MESSAGE])])


def acknowledged_never_routed(history: list[Event], pick: Random) -> Planted | None:
    """An acknowledgement of an event that is not a message."""
    event = _pick(pick, of_kind(history, events.ACKNOWLEDGED))
    if event is None:
        return None
    told = appended(history, changed(event.row, message=event.lsn))
    return Planted(told, [("fits", told[-1].lsn, event.lsn)])


def never_routed(history: list[Event], pick: Random) -> Planted | None:
    """A missing Routed of a message that has other events."""
    sent = [
        event
        for event in of_kind(history, events.ROUTED)
        if event.row[QUEUE] and event.reason == reasons.SENT and story(history, event)
    ]
    event = _pick(pick, sent)
    if event is None:
        return None
    first = story(history, event)[0]
    return Planted(without(history, event), [("fits", first.lsn, event.lsn)])


def routed_again(history: list[Event], pick: Random) -> Planted | None:
    """A message that enters its queue a second time."""
    sent = [event for event in of_kind(history, events.ROUTED) if event.row[QUEUE]]
    event = _pick(pick, sent)
    if event is None:
        return None
    told = appended(history, event.row)
    return Planted(told, [("numbered", told[-1].lsn, event.lsn)])


def never_delivered(history: list[Event], pick: Random) -> Planted | None:
    """A missing delivery that has an end."""
    ended = [
        (event, after[0])
        for event in of_kind(history, events.DELIVERED)
        if (after := story(history, event)) and after[0].row[KIND] in FROM_FLIGHT
    ]
    if not ended:
        return None
    event, end = pick.choice(ended)
    return Planted(without(history, event), [("fits", end.lsn, event.row[MESSAGE])])


def never_returned(history: list[Event], pick: Random) -> Planted | None:
    """A missing Returned of a consumer that was detached: the message is lost."""
    # A message that was set aside right after it would be blamed for that.
    aside = of_kind(history, events.HELD, events.SCHEDULED)
    held = {(event.row[MESSAGE], event.row[QUEUE]) for event in aside}
    returns = [
        (event, end)
        for event in of_kind(history, events.RETURNED)
        if event.reason in (reasons.CLOSED, reasons.DISCONNECTED, reasons.SHUTDOWN)
        if (event.row[MESSAGE], event.row[QUEUE]) not in held
        for end in of_kind(history, events.CONSUMER_DETACHED)
        if end.lsn > event.lsn and end.row[CONSUMER] == event.row[CONSUMER]
    ]
    if not returns:
        return None
    event, end = pick.choice(returns)
    return Planted(without(history, event), [("fits", end.lsn, event.row[MESSAGE])])


def by_another_consumer(history: list[Event], pick: Random) -> Planted | None:
    """An acknowledgement by a consumer that the message was not delivered to."""
    event = _pick(pick, of_kind(history, events.ACKNOWLEDGED))
    if event is None:
        return None
    others = [
        other
        for other in of_kind(history, events.CONSUMER_ATTACHED)
        if other.lsn != event.row[CONSUMER]
    ]
    other = _pick(pick, others)
    if other is None:
        return None
    row = changed(event.row, consumer=other.lsn, connection=other.row[events.CONNECTION])
    return Planted(replaced(history, event, row), [("taker", event.lsn, event.row[MESSAGE])])


def delivered_twice(history: list[Event], pick: Random) -> Planted | None:
    """A delivery of what is in flight."""
    event = _pick(pick, _in_no_transaction(history, of_kind(history, events.DELIVERED)))
    if event is None:
        return None
    told = inserted(history, event.lsn, event.row)
    return Planted(told, [("fits", event.lsn + 1, event.row[MESSAGE])])


def _in_no_transaction(history: list[Event], found: list[Event]) -> list[Event]:
    spans = [
        (event.decoded.first, event.lsn) for event in of_kind(history, events.TRANSACTION_COMMITTED)
    ]
    return [each for each in found if not any(a <= each.lsn < b for a, b in spans)]


def count_jumps(history: list[Event], pick: Random) -> Planted | None:
    """A delivery count that is three too high from one delivery on."""
    event = _pick(pick, of_kind(history, events.DELIVERED))
    if event is None:
        return None
    later = {event.lsn, *(each.lsn for each in story(history, event))}
    told = [
        each._replace(row=changed(each.row, delivery_count=each.row[DELIVERY_COUNT] + 3))
        if each.lsn in later
        else each
        for each in history
    ]
    return Planted(told, [("count", event.lsn, event.row[MESSAGE])])


def went_on_as_nothing(history: list[Event], pick: Random) -> Planted | None:
    """A dead letter whose copy is another event, so that the copy has no origin."""
    left = [e for e in of_kind(history, events.DEAD_LETTERED, events.EXPIRED) if e.row[RELATED]]
    event = _pick(pick, left)
    if event is None:
        return None
    copy = event.row[RELATED]
    told = replaced(history, event, changed(event.row, related=1))
    found = [("copy", event.lsn, event.row[MESSAGE]), ("copy", copy, copy)]
    return Planted(told, found)


def commit_misses(history: list[Event], pick: Random) -> Planted | None:
    """A commit that begins one event too early."""
    event = _pick(pick, of_kind(history, events.TRANSACTION_COMMITTED))
    if event is None:
        return None
    detail = msgspec.structs.replace(event.decoded, first=event.decoded.first - 1)
    told = retold(history, event, events.encode_detail(detail))
    return Planted(told, [("commit", event.lsn, 0)])


def never_committed(history: list[Event], pick: Random) -> Planted | None:
    """A missing commit of a transaction with messages."""
    event = _pick(pick, of_kind(history, events.TRANSACTION_COMMITTED))
    if event is None:
        return None
    inside = [
        ("commit", each.lsn, each.row[MESSAGE])
        for each in of_kind(history, events.ROUTED, events.DROPPED)
        if event.decoded.first <= each.lsn < event.lsn and each.detail and each.decoded.transaction
    ]
    return Planted(without(history, event), inside) if inside else None


def queue_vanishes(history: list[Event], pick: Random) -> Planted | None:
    """A queue that is deleted with its messages."""
    full = [
        queue
        for queue in fold(history).queues.values()
        if queue.entries and all(entry.message.id < 1 << 62 for entry in queue.entries.values())
    ]
    if not full:
        return None
    queue = pick.choice(full)
    row = events.row(events.QUEUE_DELETED, queue=queue.id, address=queue.address.id)
    told = appended(history, row)
    return Planted(told, [("fits", told[-1].lsn, message) for message in queue.entries])


def queue_never_was(history: list[Event], pick: Random) -> Planted | None:
    """A message routed into a queue that nobody created."""
    event = _pick(pick, [e for e in of_kind(history, events.ROUTED) if e.row[QUEUE]])
    if event is None:
        return None
    lsn = history[-1].lsn + 1
    told = appended(history, changed(event.row, message=lsn, queue=9999, related=0))
    return Planted(told, [("fits", lsn, lsn)])


def alive_after_a_restart(history: list[Event], pick: Random) -> Planted | None:
    """A delivery of a non-persistent message that a restart had dropped."""
    last = of_kind(history, events.BROKER_STARTED)[-1]
    durable = fold(history).queues
    left = {(e.row[MESSAGE], e.row[QUEUE]) for e in of_kind(history, *LEAVING)}
    dropped = [
        event
        for event in of_kind(history, events.ROUTED)
        if event.lsn < last.lsn
        and event.row[QUEUE] in durable
        and not event.row[FLAGS] & PERSISTENT
        and (event.row[MESSAGE], event.row[QUEUE]) not in left
    ]
    event, ack = _pick(pick, dropped), _pick(pick, of_kind(history, events.DELIVERED))
    if event is None or ack is None:
        return None
    row = changed(
        ack.row, message=event.lsn, queue=event.row[QUEUE], flags=event.row[FLAGS],
        delivery_count=9,
    )  # fmt: skip
    told = appended(history, row)
    return Planted(told, [("fits", told[-1].lsn, event.lsn)])


def expired_in_flight(history: list[Event], pick: Random) -> Planted | None:
    """An expiry of what is in flight."""
    busy = [
        (queue.id, entry.message, entry.delivery_count)
        for queue in fold(history).queues.values()
        for entry in queue.entries.values()
        if entry.consumer is not None
    ]
    if not busy:
        return None
    queue, message, count = pick.choice(busy)
    row = events.row(
        events.EXPIRED, queue=queue, message=message.id, delivery_count=count, flags=message.flags,
        address=message.address_id, priority=message.priority,
    )  # fmt: skip
    told = appended(history, row)
    return Planted(told, [("fits", told[-1].lsn, message.id)])


def never_attached(history: list[Event], pick: Random) -> Planted | None:
    """A consumer with a detachment, but without an attachment or deliveries."""
    busy = {event.row[CONSUMER] for event in of_kind(history, events.DELIVERED)}
    idle = [
        (event, end)
        for event in of_kind(history, events.CONSUMER_ATTACHED)
        for end in of_kind(history, events.CONSUMER_DETACHED)
        if event.lsn == end.row[CONSUMER] and event.lsn not in busy
    ]
    if not idle:
        return None
    event, end = pick.choice(idle)
    return Planted(without(history, event), [("fits", end.lsn, 0)])


def never_detached(history: list[Event], pick: Random) -> Planted | None:
    """A connection that closes while it has a consumer."""
    ends = [
        (event, close)
        for event in of_kind(history, events.CONSUMER_DETACHED)
        for close in of_kind(history, events.CONNECTION_CLOSED)
        if close.lsn > event.lsn and close.row[events.CONNECTION] == event.row[events.CONNECTION]
    ]
    if not ends:
        return None
    event, close = pick.choice(ends)
    # Only the one event is to blame for deliveries in flight between the two.
    return Planted(without(history, event), [("fits", close.lsn, 0)])


PLANTERS: tuple[Planter, ...] = (
    acknowledged_again, acknowledged_twice, acknowledged_after_removal, acknowledged_never_routed,
    never_routed, routed_again, never_delivered, never_returned, by_another_consumer,
    delivered_twice, count_jumps, went_on_as_nothing, commit_misses, never_committed,
    queue_vanishes, queue_never_was, alive_after_a_restart, expired_in_flight, never_attached,
    never_detached,
)  # fmt: skip


def all_planted(history: list[Event], pick: Random) -> Iterator[Planted]:
    """Yield each fault by itself, if the history has a place for it."""
    for planter in PLANTERS:
        planted = planter(history, pick)
        if planted is not None:
            yield planted
