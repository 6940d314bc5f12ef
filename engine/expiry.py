"""Deciding that a message's time has passed, at delivery and by a scan over what is due.

The way out of a queue (expiry or dead letter) is one: the entry leaves, and a copy with a new id
and headers that tell where it came from goes to the target address (fact sheet of Artemis, sections
4 and 5). A queue of the target address itself is exempt, else a message could go round for ever.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop
from typing import Final

from engine import events
from engine.commands import ANYCAST
from engine.core import Core
from engine.headers import build, without
from engine.message import IN_FLIGHT, READY, Entry, Message
from engine.queues import Due, Queue
from engine.routing import route, select
from engine.state import State
from engine.topology import check_queue, find_address, require_queue

DUE_AT_A_TIME: Final = 1000
"""How much of what is due is read from the store at once."""

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
    core.touch(queue)


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
    if not message.resident:
        core.fill(message)
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
    if message.chunks:
        # Not copied: both refer to the same chunks.
        copy.enlarge(message.chunks, message.body_bytes)
    return copy, select(core, address, None, copy)


def expire_due(core: Core, limit: int) -> bool:
    """Expire ready entries whose time has passed, at most `limit`; return whether some are left."""
    expired = 0
    for _, message_id, queue_id in _due(core):
        queue = core.state.queues.get(queue_id)
        entry = queue.find(message_id) if queue is not None else None
        if queue is None or entry is None or entry.state == IN_FLIGHT:
            # What is in flight is put on the heap again when it comes back.
            continue
        assert entry.state == READY
        if is_expired(core, queue, entry):
            expire(core, queue, entry)
            expired += 1
            if expired == limit:
                return True
    return False


def _due(core: Core) -> Iterator[Due]:
    """Give what is due by time and age: what is resident from the heap, the rest from the store.

    What was given is not given again, unless it comes back.
    """
    state = core.state
    expiring = state.expiring
    now_ms = core.now // 1000
    stored = _stored_due(state, now_ms)
    was_full = len(stored) == DUE_AT_A_TIME
    while True:
        from_heap = expiring[0] if expiring and expiring[0][0] <= now_ms else None
        if stored and (from_heap is None or stored[0] <= from_heap):
            item = stored.popleft()
        elif from_heap is not None:
            item = heappop(expiring)
        else:
            return
        # Of what came from the heap too: the store will have it later.
        state.due_after = max(state.due_after, item)
        if was_full and not stored:
            stored = _stored_due(state, now_ms)
            was_full = len(stored) == DUE_AT_A_TIME
        yield item


def _stored_due(state: State, now_ms: int) -> deque[Due]:
    if state.store is None:
        return deque()
    return deque(state.store.due(state.due_after, now_ms, DUE_AT_A_TIME))
