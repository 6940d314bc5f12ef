"""Deciding how a delivery ends: acknowledged, returned, or dead-lettered.

`engine.facts.settlements` says what each end means. The limit of attempts is checked when a message
returns, never at dispatch. Whether or not the attempt counts, a message that returns is marked as
redelivered (ADR 24).
"""

from typing import Final

from daybook.engine.commands import AcceptAll, Settle, Withhold
from daybook.engine.core.core import Core
from daybook.engine.core.unreadable import try_later
from daybook.engine.entries.last_values import remove_if_replaced
from daybook.engine.entries.rings import note_returned
from daybook.engine.entries.schedules import schedule
from daybook.engine.facts import events, reasons
from daybook.engine.facts.details import ReturnedDetail
from daybook.engine.facts.events import PERSISTENT, REDELIVERED
from daybook.engine.facts.reasons import BY_CONSUMER
from daybook.engine.facts.settlements import (
    ACCEPTED,
    AT_ONCE,
    ATTEMPTED,
    BY_SETTLEMENT,
    ENDS,
    NEVER,
    OUTCOMES,
    USUAL,
    WHEN_USED_UP,
    End,
)
from daybook.engine.messages.annotations import ONE_BY_ONE, check_merged, packed
from daybook.engine.messages.deaths import CONDITION_LENGTH_MAX, ERROR_LENGTH_MAX
from daybook.engine.queues.consumer import Connection, Consumer, InFlightIndex, consumer_of
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.queue import ContentError, Queue
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.routing.departures import dead_letter, hold, is_used_up, note_spared
from daybook.engine.settings.redelivery import delay_of
from daybook.engine.settling import refusing
from daybook.engine.settling.delivery import wake
from daybook.engine.settling.non_destructive import end_showing
from daybook.engine.topology.shown import SHOWN_LEVEL

RETURN_UNITS: Final = 2
"""The cost of a return besides the command, in units of the budget: it may need a copy."""
SETTLED_LEAST: Final = 24
"""The least number of deliveries that a settlement ends before others have their turn."""
SAID_NOTHING: Final = ReturnedDetail()
LOOK_SHIFT: Final = 5
"""Looking through what is in flight costs one unit of the budget for 2 to this power."""


def settle(core: Core, command: Settle) -> int | Refusal:
    """End one delivery with an outcome, or all deliveries up to it."""
    consumer = core.state.consumers.get(command.consumer)
    if command.outcome != ACCEPTED:
        return _return(core, command, consumer)
    # Without such a consumer it may be a bundle, which `select` knows.
    if (
        consumer is None
        or command.cumulative
        or consumer.enlisted
        or consumer.shown
        or command.message not in consumer.unacked
    ):
        chosen = select(core, consumer, command, max(core.budget.left, SETTLED_LEAST))
        if isinstance(chosen, Refusal):
            return unless_lost(core, command, chosen)
        consumer = consumer_of(chosen[-1])
        lsn = 0
        for entry in chosen:
            lsn = acknowledge_entry(core, entry) or lsn
        return _settled(chosen, command, consumer, lsn)
    return acknowledge_entry(core, consumer.unacked[command.message])


def accept_all(core: Core, command: AcceptAll) -> int | Refusal:
    """Accept deliveries, as `settle` would one by one."""
    consumer = core.state.consumers.get(command.consumer)
    if consumer is None and command.consumer not in core.bundles:
        return _no_consumer(command.consumer)
    # The first one is counted as a command.
    core.budget.spent += len(command.messages) - 1
    gate = 0
    for message in command.messages:
        entry = consumer.unacked.get(message) if consumer is not None else None
        if entry is not None and not (consumer is None or consumer.enlisted):
            gate = acknowledge_entry(core, entry) or gate
            continue
        # A bundle knows what it has, and a transaction keeps what it settled.
        answer = settle(core, Settle(command.consumer, message))
        if not isinstance(answer, Refusal):
            gate = max(gate, answer)
    return gate


def _return(core: Core, command: Settle, consumer: Consumer | None) -> int | Refusal:
    """End deliveries without success."""
    if command.outcome not in OUTCOMES:
        return Refusal(Code.INVALID, f"there is no outcome {command.outcome}")
    most = max(core.budget.left // (1 + RETURN_UNITS), SETTLED_LEAST)
    chosen = select(core, consumer, command, most)
    if isinstance(chosen, Refusal):
        return unless_lost(core, command, chosen)
    refusal = check_annotations(command, chosen)
    if refusal is not None:
        return refusal
    consumer = consumer_of(chosen[-1])
    core.budget.spent += len(chosen) * RETURN_UNITS
    lsn = give_all_back(core, chosen, OUTCOMES[command.outcome], said_by(command))
    return _settled(chosen, command, consumer, lsn)


def _settled(
    chosen: list[Entry], command: Settle, consumer: Consumer | None, lsn: int
) -> int | Refusal:
    """Answer a settlement of which this turn did the chosen part."""
    assert consumer is not None
    lsn = lsn or consumer.settled_lsn
    if chosen[-1].message.id != command.message:
        consumer.settled_lsn = lsn
        return UNFINISHED
    consumer.settled_lsn = 0
    return lsn


def withhold(core: Core, command: Withhold) -> int | Refusal:
    """Stop delivering a ready message; return 0, because nothing is journaled."""
    queue = core.state.queues.get(command.queue)
    entry = queue.entries.get(command.message) if queue is not None else None
    if queue is None or entry is None or entry.state != READY:
        return Refusal(
            Code.NOT_FOUND, f"message {command.message} is not ready in queue {command.queue}"
        )
    if not entry.held:
        queue.withhold(entry)
    return 0


def unless_lost(core: Core, command: Settle, refusal: Refusal) -> int | Refusal:
    """Return the refusal of a settlement, unless it is about a delivery that ended without its
    client: its subscription has other queues, and had to leave the one that it came from.

    Then the answer waits for all that is decided by now, so that a restart does not bring it back.
    """
    bundle = core.bundles.get(command.consumer)
    if bundle is None or not bundle.was_lost(command.message):
        return refusal
    if command.transaction is None:
        # After a rollback its client may settle it again.
        bundle.settle_lost(command.message)
    return core.next_lsn - 1


def select(
    core: Core, consumer: Consumer | None, command: Settle, most: int
) -> list[Entry] | Refusal:
    """Return the entries that a settlement is about, in order of delivery, or why it is refused.

    For a cumulative one, the first `most` of them.
    """
    if consumer is None:
        bundle = core.bundles.get(command.consumer)
        if bundle is None:
            return _no_consumer(command.consumer)
        consumer = bundle.holder(command.message)
        if consumer is None:
            return _not_in_flight(command, bundle.subscription)
    entry = consumer.unacked.get(command.message) or consumer.shown.get(command.message)
    if entry is None:
        return _not_in_flight(command, consumer.subscription)
    if command.message in consumer.enlisted:
        return Refusal(
            Code.INVALID,
            f"message {command.message} was settled in transaction "
            f"'{consumer.enlisted[command.message]}', which is still open; commit or abort that "
            "one",
        )
    if not command.cumulative:
        return [entry]
    chosen: list[Entry] = []
    if consumer.bundle is not None:
        chosen = consumer.bundle.up_to(consumer, command.message, most)
        core.budget.spent += len(chosen)
        return chosen
    for message_id, earlier in _settleable(core, consumer).items():
        chosen.append(earlier)
        if message_id == command.message or len(chosen) >= most:
            break
    core.budget.spent += len(chosen)
    return chosen


def _no_consumer(number: int) -> Refusal:
    return Refusal(Code.NOT_FOUND, f"there is no consumer {number}")


def _not_in_flight(command: Settle, subscription: str) -> Refusal:
    return Refusal(
        Code.NOT_FOUND,
        f"message {command.message} is not in flight to subscription '{subscription}'; it was"
        " settled before or never delivered to it",
    )


def _settleable(core: Core, consumer: Consumer) -> dict[int, Entry]:
    """Return the deliveries of a consumer that no open transaction settled, in order of
    delivery."""
    handed = consumer.unacked
    if consumer.shown:
        # Both only if the queue became non-destructive meanwhile, or ceased to be.
        handed = {**handed, **consumer.shown} if handed else consumer.shown
    if not consumer.enlisted:
        return handed
    index = consumer.index
    if index is None:
        index = consumer.index = InFlightIndex(None)
    if index.settleable is None:
        core.budget.spent += len(handed) >> LOOK_SHIFT
        index.settleable = {
            message_id: entry
            for message_id, entry in handed.items()
            if message_id not in consumer.enlisted
        }
    return index.settleable


def enlist(consumer: Consumer, entry: Entry, transaction: str) -> None:
    """Enlist a delivery in an open transaction that settles it."""
    consumer.enlisted[entry.message.id] = transaction
    bundle = consumer.bundle
    if bundle is not None and bundle.settleable is not None:
        bundle.settleable.pop((consumer.id, entry.message.id), None)
    if consumer.index is not None and consumer.index.settleable is not None:
        consumer.index.settleable.pop(entry.message.id, None)


def delist(consumer: Consumer, entry: Entry) -> None:
    """Make a delivery settleable again."""
    consumer.enlisted.pop(entry.message.id, None)
    if consumer.index is not None:
        # It belongs before others in the dict, which is rebuilt at the next request.
        consumer.index.settleable = None
    if consumer.bundle is not None:
        consumer.bundle.settleable = None


def acknowledge_entry(core: Core, entry: Entry) -> int:
    """Settle a delivery; return the LSN that must be durable before clients may learn of it."""
    consumer = consumer_of(entry)
    assert consumer is not None
    queue = consumer.queue
    message = entry.message
    if entry.level == SHOWN_LEVEL:
        lsn = end_showing(core, entry, BY_CONSUMER)
    else:
        lsn = core.emit_acknowledged(entry, consumer, BY_CONSUMER)
    restore_credit(consumer, entry)
    if consumer.attempted:
        consumer.attempted.discard(message.id)
    core.touched[queue.id] = queue
    if consumer.connection.sated:
        wake(core, consumer.connection)
    return lsn if message.flags & PERSISTENT else 0


def restore_credit(consumer: Consumer, entry: Entry) -> None:
    """Return the credit of a delivery, once, if this consumer's credit returns by settlement.

    That of a bundle returns when the delivery leaves its order.
    """
    if consumer.credit_policy != BY_SETTLEMENT:
        return
    message = entry.message
    if consumer.credited and message.id in consumer.credited:
        consumer.credited.discard(message.id)
        return
    consumer.credit_messages += 1
    # The body of a delivered message is in memory, unless it is large.
    consumer.credit_bytes += message.body_bytes if message.chunks else len(message.body)


def said_by(command: Settle) -> ReturnedDetail:
    """Return what a consumer says of a failure, as far as it is kept."""
    if not (command.condition or command.error or command.not_here or command.annotations):
        return SAID_NOTHING
    return ReturnedDetail(
        condition=command.condition[:CONDITION_LENGTH_MAX],
        error=command.error[:ERROR_LENGTH_MAX],
        not_here=command.not_here,
        annotations=packed(command.annotations),
    )


def check_annotations(command: Settle, chosen: list[Entry]) -> Refusal | None:
    """Return why what a consumer notes on a message is refused, None if it is not."""
    if not command.annotations or command.outcome == ACCEPTED:
        return None
    if command.cumulative:
        return Refusal(Code.INVALID, ONE_BY_ONE)
    try:
        for entry in chosen:
            check_merged(entry.message.annotations, packed(command.annotations))
    except ValueError as error:
        return Refusal(
            Code.LIMIT, f"message {command.message} cannot keep these annotations: {error}"
        )
    return None


def give_all_back(
    core: Core, entries: list[Entry], reason: int, said: ReturnedDetail = SAID_NOTHING
) -> int:
    """End deliveries without success, which are given in order of delivery; `said` is what their
    consumer said.

    Each returns to its place, is dead-lettered, or is held. Return the LSN that must be durable
    before clients may learn of it.
    """
    gate = 0
    end = ENDS.get(reason, USUAL)
    detail = b"" if said is SAID_NOTHING else events.encode_detail(said)
    error = ": ".join(filter(None, (said.condition, said.error)))
    returning: list[Entry] = []
    sated: dict[int, Connection] = {}
    for entry in entries:
        consumer = consumer_of(entry)
        assert consumer is not None
        if consumer.connection.sated:
            sated[consumer.connection_id] = consumer.connection
        restore_credit(consumer, entry)
        core.touch(consumer.queue)
        if entry.level == SHOWN_LEVEL:
            # It was read, whatever the consumer says of it, and returns to nowhere.
            gate = end_showing(core, entry, reason)
            continue
        count = _count_after(entry, end)
        if not is_lost(core, consumer.queue, end, count):
            if end.dead_letters == WHEN_USED_UP:
                note_spared(core, consumer.queue, count)
            returning.append(entry)
            continue
        # In the order of delivery, so that the dead letter address keeps it.
        try:
            at_once = end.dead_letters == AT_ONCE
            why = dead_letter(
                core, consumer.queue, entry, is_refused=at_once, ended=reason, error=error,
                annotations=said.annotations,
            )  # fmt: skip
        except ContentError as trouble:
            why = try_later(core, trouble)
        if why:
            _give_back(core, entry, reason, detail)
        if why and not remove_if_replaced(core, consumer.queue, entry):
            hold(core, consumer.queue, entry, reasons.DEAD_LETTER, why)
        consumer.attempted.discard(entry.message.id)
        if entry.message.flags & PERSISTENT:
            gate = core.next_lsn - 1
    # The newest first, so that each goes to the front of its level.
    returning.sort(key=_by_message, reverse=True)
    for entry in returning:
        consumer = consumer_of(entry)
        assert consumer is not None
        queue = consumer.queue
        delay = delay_after(core, queue, entry, end, _count_after(entry, end))
        gate = _give_back(core, entry, reason, detail) or gate
        if queue.definition.keyed_by and remove_if_replaced(core, queue, entry):
            continue
        if delay:
            due = core.now // 1000 + delay
            gate = schedule(core, queue, entry, due, reasons.REDELIVERY_DELAY) or gate
        else:
            note_returned(core, queue, entry)
    for connection in sated.values():
        wake(core, connection)
    return gate


def _by_message(entry: Entry) -> int:
    return entry.message.id


def is_lost(core: Core, queue: Queue, end: End, count: int) -> bool:
    """Whether a delivery that ends so, with this delivery count, is the last one of its message."""
    return end.dead_letters == AT_ONCE or (
        end.dead_letters == WHEN_USED_UP and is_used_up(core, queue, count)
    )


def delay_after(core: Core, queue: Queue, entry: Entry, end: End, count: int) -> int:
    """Return for how many milliseconds an entry in flight is not redelivered after such an end,
    by which it has this delivery count."""
    if not end.delays or count != entry.delivery_count:
        return 0
    settings = core.state.settings.resolve(queue.address.name)
    return delay_of(settings, entry.delivery_count, entry.message.id)


def _give_back(core: Core, entry: Entry, reason: int, detail: bytes) -> int:
    consumer = consumer_of(entry)
    assert consumer is not None
    queue = consumer.queue
    message = entry.message
    count = _count_after(entry, ENDS.get(reason, USUAL))
    lsn = core.emit(
        (
            events.RETURNED, reason, count, queue.address.id, queue.id,
            message.priority, message.flags | REDELIVERED, message.id, consumer.id,
            consumer.connection_id, 0, core.now,
        ),
        detail,
    )  # fmt: skip
    consumer.attempted.discard(message.id)
    if consumer.refused:
        refusing.look_at(consumer)
    return lsn if message.flags & PERSISTENT else 0


def _count_after(entry: Entry, end: End) -> int:
    consumer = consumer_of(entry)
    assert consumer is not None
    if end.counts == NEVER or (
        end.counts == ATTEMPTED and entry.message.id not in consumer.attempted
    ):
        return entry.delivery_count - 1
    return entry.delivery_count
