"""The digest of the logical state: equal digests mean equal states.

Computed over sorted ids, so that it does not depend on where entries live or in which order they
came. Cost: proportional to the state; it is taken at a clean stop, by `journal verify` and by
tests. Left out: volatile inputs, derived data, and messages that are not journaled.
"""

from hashlib import sha256
from zlib import crc32

import msgspec

from engine.events import BODY_OMITTED, PERSISTENT
from engine.state import UNJOURNALED, Queue, State


def digest(state: State) -> str:
    """Return the digest as 32 hex digits."""
    hasher = sha256()
    encode = msgspec.msgpack.Encoder().encode
    hasher.update(encode(_topology(state)))
    for queue_id in sorted(state.queues):
        queue = state.queues[queue_id]
        for message_id in sorted(queue.entries):
            if message_id < UNJOURNALED:
                hasher.update(encode(_entry(queue, message_id)))
    return hasher.hexdigest()[:32]


def _topology(state: State) -> list[object]:
    """Everything but entries, in a canonical order."""
    addresses = [
        [a.id, a.host, a.name, sorted(a.routing_types), a.auto_created]
        + [[q.id for q in a.anycast], [q.id for q in a.multicast]]
        for a in sorted(state.addresses.values(), key=lambda a: a.id)
    ]
    queues = [
        [q.id, q.name, q.address.id, q.routing_type, q.filter, q.durable, q.temporary]
        + [q.auto_created, q.owner, q.paused, q.added, q.acknowledged, q.dead_lettered, q.expired]
        + [[c.id for c in q.consumers]]
        for q in sorted(state.queues.values(), key=lambda q: q.id)
    ]
    connections = [
        [c.id, c.protocol, c.peer, c.user, c.client_id]
        for c in sorted(state.connections.values(), key=lambda c: c.id)
    ]
    consumers = [
        [c.id, c.connection_id, c.queue.id, c.subscription, c.ack_mode, c.filter]
        + [[message_id for message_id in c.unacked if message_id < UNJOURNALED]]
        for c in sorted(state.consumers.values(), key=lambda c: c.id)
    ]
    settings = [state.settings.to_dict(), state.journal_non_persistent]
    counters = [state.next_address, state.next_queue]
    return [addresses, queues, connections, consumers, settings, counters]


def _entry(queue: Queue, message_id: int) -> list[object]:
    entry = queue.entries[message_id]
    message = entry.message
    content = 0
    if message.flags & PERSISTENT or not message.flags & BODY_OMITTED:
        content = crc32(message.body, crc32(message.headers))
    return [
        queue.id, message_id, message.address_id, message.priority, message.flags, message.expires,
        entry.state, entry.delivery_count, content,
    ]  # fmt: skip
