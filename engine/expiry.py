"""Deciding that a message's time has passed, at delivery and by a scan over what is due.

The way out of a queue (expiry or dead letter) is one: the entry leaves, and a copy with a new id
and headers that tell where it came from goes to the target address (fact sheet of Artemis, sections
4 and 5). A queue of the target address itself is exempt, else a message could go round for ever.
"""

from heapq import heappop
from typing import Final

from engine import events
from engine.commands import ANYCAST
from engine.core import Core
from engine.headers import build, without
from engine.routing import route, select
from engine.state import IN_FLIGHT, READY, Entry, Message, Queue
from engine.topology import check_queue, find_address, require_queue

_REPLACED: Final = (
    "expires",
    "_AMQ_ORIG_ADDRESS",
    "_AMQ_ORIG_QUEUE",
    "_AMQ_ORIG_MESSAGE_ID",
    "_AMQ_ACTUAL_EXPIRY",
)
"""Headers of the original that would be wrong in a copy."""


def is_expired(core: Core, queue: Queue, entry: Entry) -> bool:
    """Say whether an entry may no longer be delivered."""
    expires = entry.message.expires
    if not 0 < expires * 1000 <= core.now:
        return False
    target = core.state.settings.resolve(_sent_to(core, queue, entry)).expiry_address
    return target != queue.address.name


def _sent_to(core: Core, queue: Queue, entry: Entry) -> str:
    """Expiry goes by the address that the message was sent to, if it still exists."""
    address = core.state.addresses.get(entry.message.address_id, queue.address)
    return address.name


def expire(core: Core, queue: Queue, entry: Entry) -> None:
    """Take a ready entry out of its queue because its time has passed."""
    target = core.state.settings.resolve(_sent_to(core, queue, entry)).expiry_address
    extra = [("_AMQ_ACTUAL_EXPIRY", str(core.now // 1000))]
    move_out(
        core, queue, entry, target, extra,
        kind=events.EXPIRED, reason_without_target=events.NO_EXPIRY_ADDRESS,
        routed_reason=events.EXPIRY,
    )  # fmt: skip


def dead_letter(core: Core, queue: Queue, entry: Entry) -> None:
    """Take an entry out of its queue because its attempts are used up."""
    target = core.state.settings.resolve(queue.address.name).dead_letter_address
    move_out(
        core, queue, entry, target, [],
        kind=events.DEAD_LETTERED, reason_without_target=events.NO_DEAD_LETTER_ADDRESS,
        routed_reason=events.DEAD_LETTER,
    )  # fmt: skip


def move_out(
    core: Core,
    queue: Queue,
    entry: Entry,
    target: str,
    extra: list[tuple[str, str]],
    *,
    kind: int,
    reason_without_target: int,
    routed_reason: int,
) -> None:
    """Emit the event that takes an entry out, and the Routed of its copy right behind it."""
    message = entry.message
    queues: list[Queue] = []
    copy = message
    reason = reason_without_target
    if target:
        copy, queues = _copy_for(core, queue, message, target, extra)
        reason = events.NO_REASON if queues else events.UNROUTABLE
    related = copy.id if queues else 0
    core.emit(
        events.row(
            kind,
            reason=reason, delivery_count=entry.delivery_count, address=queue.address.id,
            queue=queue.id, priority=message.priority, flags=message.flags, message=message.id,
            related=related, time=core.now,
        )
    )  # fmt: skip
    route(core, copy, queues, reason=routed_reason, related=message.id)


def _copy_for(
    core: Core, queue: Queue, message: Message, target: str, extra: list[tuple[str, str]]
) -> tuple[Message, list[Queue]]:
    """Return the copy of a message for a target address, and the queues that take it.

    A target that does not exist yet is created with an anycast queue of its name: dropping what
    nobody asked to drop would be worse than a queue more.
    """
    address = find_address(core, target)
    if (address is None or not (address.anycast or address.multicast)) and (
        check_queue(core, target, target, ANYCAST) is None
    ):
        require_queue(core, target, target, ANYCAST, 0)
        address = find_address(core, target)
    if address is None:
        return message, []
    origin = core.state.addresses.get(message.address_id, queue.address)
    headers = without(message.headers, _REPLACED) + build(
        [
            ("_AMQ_ORIG_ADDRESS", origin.name),
            ("_AMQ_ORIG_QUEUE", queue.name),
            ("_AMQ_ORIG_MESSAGE_ID", str(message.id)),
            *extra,
        ]
    )
    # The event that takes the entry out comes first, so the copy is the event after it.
    copy_id = core.next_lsn + 1 if core.is_journaled(message.id) else core.next_unjournaled_id()
    copy = Message(copy_id, address.id, message.priority, message.flags, 0, headers, message.body)
    return copy, select(core, address, None, copy)


def expire_due(core: Core, limit: int) -> bool:
    """Expire ready entries whose time has passed, at most `limit`; return whether some are left."""
    state = core.state
    expiring = state.expiring
    seen = 0
    while expiring and expiring[0][0] * 1000 <= core.now:
        if seen == limit:
            return True
        seen += 1
        _, message_id, queue_id = heappop(expiring)
        queue = state.queues.get(queue_id)
        entry = queue.entries.get(message_id) if queue is not None else None
        if queue is None or entry is None or entry.state == IN_FLIGHT:
            # What is in flight is put on the heap again when it comes back.
            continue
        assert entry.state == READY
        if is_expired(core, queue, entry):
            expire(core, queue, entry)
    return False
