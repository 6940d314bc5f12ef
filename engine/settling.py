"""Deciding how a delivery ends: acknowledged, returned, or dead-lettered.

When a delivery counts as a failed attempt follows Artemis (fact sheet, section 5): a rejection and
a lost connection count; a clean close gives the attempt back; a restart or shutdown of the broker
counts, but does not use up the last attempt. The limit is looked at when a message comes back,
never at dispatch.
"""

from typing import Final

from engine import events
from engine.commands import Acknowledge, Reject
from engine.core import Core
from engine.events import PERSISTENT
from engine.expiry import dead_letter
from engine.message import Entry
from engine.refusals import Code, Refusal
from engine.state import Consumer

GIVES_BACK: Final = frozenset({events.CLOSED})
"""Reasons for which the attempt does not count."""

NEVER_DEAD_LETTERS: Final = frozenset({events.SHUTDOWN})
"""Reasons that say nothing about the message, so that it is not dead-lettered for them."""


def acknowledge(core: Core, command: Acknowledge) -> int | Refusal:
    """Settle one delivery, or with it all before it."""
    consumer = core.state.consumers.get(command.consumer)
    if (
        consumer is None
        or command.cumulative
        or consumer.held
        or command.message not in consumer.unacked
    ):
        chosen = select(core, consumer, command)
        if isinstance(chosen, Refusal):
            return chosen
        lsn = 0
        for entry in chosen:
            lsn = acknowledge_entry(core, entry) or lsn
        return lsn
    return acknowledge_entry(core, consumer.unacked[command.message])


def reject(core: Core, command: Reject) -> int | Refusal:
    """Take back one delivery as a failed attempt, or with it all before it."""
    chosen = select(core, core.state.consumers.get(command.consumer), command)
    if isinstance(chosen, Refusal):
        return chosen
    return give_all_back(core, chosen, events.NACK)


def select(
    core: Core, consumer: Consumer | None, command: Acknowledge | Reject
) -> list[Entry] | Refusal:
    """Return the entries that a settlement is about, in order of delivery, or why it is refused."""
    if consumer is None:
        return Refusal(Code.NOT_FOUND, f"there is no consumer {command.consumer}")
    entry = consumer.unacked.get(command.message)
    if entry is None:
        return Refusal(
            Code.NOT_FOUND,
            f"message {command.message} is not in flight to subscription "
            f"'{consumer.subscription}'; it was settled before or never delivered to it",
        )
    if command.message in consumer.held:
        return Refusal(
            Code.INVALID,
            f"message {command.message} was settled in transaction "
            f"'{consumer.held[command.message]}', which is still open",
        )
    if not command.cumulative:
        return [entry]
    chosen: list[Entry] = []
    for message_id, earlier in consumer.unacked.items():
        if message_id not in consumer.held:
            chosen.append(earlier)
        if message_id == command.message:
            break
    return chosen


def acknowledge_entry(core: Core, entry: Entry) -> int:
    """Settle a delivery; return what telling about it must wait for."""
    consumer = entry.consumer
    assert consumer is not None
    queue = consumer.queue
    message = entry.message
    lsn = core.emit_delivery(
        events.ACKNOWLEDGED, events.BY_CONSUMER, entry.delivery_count, entry, consumer
    )
    restore_credit(consumer, entry)
    core.touched[queue.id] = queue
    return lsn if message.flags & PERSISTENT else 0


def restore_credit(consumer: Consumer, entry: Entry) -> None:
    """Give credit back for a delivery, once."""
    if consumer.credited and entry.message.id in consumer.credited:
        consumer.credited.discard(entry.message.id)
        return
    consumer.credit_messages += 1
    consumer.credit_bytes += entry.message.size


def give_all_back(core: Core, entries: list[Entry], reason: int) -> int:
    """End deliveries without success, given in the order of delivery.

    Each returns to its place or is dead-lettered. Return what telling about it must wait for.
    """
    gate = 0
    returning: list[Entry] = []
    for entry in entries:
        consumer = entry.consumer
        assert consumer is not None
        restore_credit(consumer, entry)
        core.touch(consumer.queue)
        if reason in NEVER_DEAD_LETTERS or not _used_up(core, entry, reason):
            returning.append(entry)
            continue
        # In the order of delivery, which the dead letter address then keeps.
        dead_letter(core, consumer.queue, entry)
        if entry.message.flags & PERSISTENT:
            gate = core.next_lsn - 1
    # The newest first, so that each goes to the front of its level.
    returning.sort(key=_by_message, reverse=True)
    for entry in returning:
        gate = _give_back(core, entry, reason) or gate
    return gate


def _by_message(entry: Entry) -> int:
    return entry.message.id


def _give_back(core: Core, entry: Entry, reason: int) -> int:
    consumer = entry.consumer
    assert consumer is not None
    queue = consumer.queue
    message = entry.message
    lsn = core.emit(
        (
            events.RETURNED, reason, _count_after(entry, reason), queue.address.id, queue.id,
            message.priority, message.flags, message.id, consumer.id,
            consumer.connection_id, 0, core.now,
        )
    )  # fmt: skip
    return lsn if message.flags & PERSISTENT else 0


def _count_after(entry: Entry, reason: int) -> int:
    return entry.delivery_count - 1 if reason in GIVES_BACK else entry.delivery_count


def _used_up(core: Core, entry: Entry, reason: int) -> bool:
    """Say whether a message had its last attempt. In a dead letter address it never has."""
    consumer = entry.consumer
    assert consumer is not None
    address = consumer.queue.address.name
    settings = core.state.settings.resolve(address)
    limit = settings.max_delivery_attempts
    return 0 < limit <= _count_after(entry, reason) and settings.dead_letter_address != address
