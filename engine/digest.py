"""The digest of the logical state: equal digests mean equal states.

It contains everything but entries as it is, and of the entries of each queue how many there are and
the sum of their hashes modulo 2^64 (ADR 7). So it depends neither on where entries live nor on the
order in which they came, and whoever folds can keep it up to date instead of counting anew. Left
out: volatile inputs, derived data, messages that are not journaled, and content, which never
changes and is proven by the journal's chain.
"""

from hashlib import sha256
from typing import Final

import msgspec

from engine.message import UNJOURNALED, Entry
from engine.queues import Queue
from engine.state import Address, State

U64: Final = (1 << 64) - 1
HASH_START: Final = 0x9E3779B97F4A7C15
HASH_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def digest(state: State) -> str:
    """Return the digest as 32 hex digits. Costs time in proportion to the state."""
    return combine(state, {queue.id: entry_sum(queue) for queue in state.queues.values()})


def combine(state: State, sums: dict[int, tuple[int, int]]) -> str:
    """Return the digest of a state whose entries are known: by queue how many, and their sum."""
    encoded = msgspec.msgpack.encode([*_topology(state), sorted(sums.items())])
    return sha256(encoded).hexdigest()[:32]


def entry_sum(queue: Queue) -> tuple[int, int]:
    """Return how many journaled entries a queue has, and the sum of their hashes."""
    count = total = 0
    for message_id, entry in queue.entries.items():
        if message_id < UNJOURNALED:
            count += 1
            total += entry_hash(queue.id, entry)
    if queue.gap_count:
        assert queue.store is not None
        stored, stored_sum = queue.store.gap_sum(queue)
        count += stored
        total += stored_sum
    return count, total & U64


def entry_hash(queue_id: int, entry: Entry) -> int:
    """Return a 64-bit hash of everything that a queue knows of an entry."""
    message = entry.message
    value = _mix((message.id + HASH_START) & U64)
    value = _mix(value ^ (queue_id << 32 | message.address_id))
    known = entry.delivery_count << 32 | message.priority << 16 | message.flags << 8 | entry.state
    value = _mix(value ^ known)
    return _mix(value ^ message.expires)


def _mix(value: int) -> int:
    """Spread the bits of a number: the finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    value = (value ^ (value >> 30)) * HASH_FACTORS[0] & U64
    value = (value ^ (value >> 27)) * HASH_FACTORS[1] & U64
    return value ^ (value >> 31)


def _remembered(address: Address) -> list[object]:
    """What an address remembers of ids of messages; nothing as long as none had any."""
    ids = address.ids
    return [[ids.recorded, ids.joined()]] if ids is not None and ids.recorded else []


def _topology(state: State) -> list[object]:
    """Everything but entries, in a canonical order."""
    addresses = [
        [a.id, a.host, a.name, sorted(a.routing_types), a.auto_created]
        + [[q.id for q in a.anycast], [q.id for q in a.multicast]]
        # These only where it is so: digests from before there was such a thing stay as they were.
        + [True] * a.paging
        + _remembered(a)
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
