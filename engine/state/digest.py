"""The digest of the logical state: equal digests mean equal states.

It contains everything except entries as it is; for the entries of each queue it contains their
number and the sum of their hashes modulo 2^64 (ADR 7). So it depends neither on where entries are
stored nor on the order in which they came, and a fold can keep it up to date without counting
again. Left out: volatile inputs, derived data, and content, which never changes and is proven by
the journal's chain.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from daybook.engine.facts.definitions import AddressDefinition, QueueDefinition, values_beyond
from daybook.engine.facts.events import REDELIVERED
from daybook.engine.messages.annotations import hash_of
from daybook.engine.names.names import HOST
from daybook.engine.queues.consumer import Connection, Consumer
from daybook.engine.queues.entry import HELD_LEVEL, RETAINED, SCHEDULED_LEVEL, Entry
from daybook.engine.queues.id_cache import IdCache
from daybook.engine.queues.queue import Address, Queue, recalls_of
from daybook.engine.state.state import State

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

Rows: TypeAlias = tuple[int, Iterable[Any]]
"""The number of some things, and the part of the digest for each."""

ADDRESS_ATTRIBUTES: Final = 4
"""The digest always contains the first attributes of an address, up to `auto_created` ..."""
QUEUE_ATTRIBUTES: Final = 7
"""... and of a queue, up to `owner`. Later ones only where they differ from their default, so that
digests from before these attributes existed stay the same."""
PARTS: Final = 7
"""Addresses, queues, connections, consumers, settings, counters, sums."""
U64: Final = (1 << 64) - 1
STATE_HELD: Final = 3
"""The number for the state of an entry that is held ..."""
STATE_SCHEDULED: Final = 4
"""... and of one that is scheduled."""
STATES: Final = {HELD_LEVEL: STATE_HELD, SCHEDULED_LEVEL: STATE_SCHEDULED}
"""By level, for levels that imply the state."""
HASH_START: Final = 0x9E3779B97F4A7C15
HASH_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

_encode: Final = msgspec.msgpack.Encoder().encode


def digest(state: State) -> str:
    """Return the digest as 32 hex digits. Costs time in proportion to the state."""
    return combine(state, {queue.id: entry_sum(queue) for queue in state.queues.values()})


QUEUE_COST: Final = 8
PAGED_COST: Final = 64
PAGED_ENTRIES: Final = 64
"""The cost of a queue beside its entries, of reading the store for it, and the number of entries
there that cost as much as one in memory."""


def digest_costs_more_than(state: State, most: int) -> bool:
    """Return whether the digest takes longer than that of so many entries in one queue."""
    cost = 0
    for queue in state.queues.values():
        cost += len(queue.entries) + QUEUE_COST
        if queue.paged_count:
            cost += PAGED_COST + queue.paged_count // PAGED_ENTRIES
    return cost > most


def combine(state: State, sums: dict[int, tuple[int, int]]) -> str:
    """Return the digest of a state, given the number and the sum of the entries of each queue.

    What is hashed is one MessagePack array, encoded a piece at a time: an address that remembers
    ids is large, and a thousand of them must not be in memory twice.
    """
    return digest_of_rows(_topology(state), state, (len(sums), iter(sorted(sums.items()))))


def digest_of_rows(topology: Iterable[Rows], state: State, sums: Rows) -> str:
    """Return the digest of rows that need not be in memory together.

    `topology` are addresses, queues, connections and consumers, each in order of their ids; `sums`
    as in `combine`, in the same order. Settings and counters are those of the state.
    """
    hasher = sha256(_array_of(PARTS))
    for part in topology:
        _hash_rows(hasher, part)
    syntax = state.settings.syntax.text
    # Only where they are set: digests from before they existed stay the same.
    live = state.settings.live
    diverts = [[name, values_beyond(each, 1)] for name, each in sorted(state.diverts.items())]
    marks = [list(mark) for mark in state.times.marks]
    others = [each for each in (syntax, live, diverts, marks) if each]
    hasher.update(_encode([state.settings.to_dict(), state.journal_non_persistent, *others]))
    hasher.update(_encode([state.next_address, state.next_queue]))
    _hash_rows(hasher, sums)
    return hasher.hexdigest()[:32]


def _hash_rows(hasher: "Hash", part: Rows) -> None:
    count, rows = part
    hasher.update(_array_of(count))
    for row in rows:
        hasher.update(_encode(row))


def _array_of(count: int) -> bytes:
    """How MessagePack begins an array of so many items."""
    if count < 1 << 4:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def entry_sum(queue: Queue) -> tuple[int, int]:
    """Return how many entries a queue has, and the sum of their hashes."""
    count = len(queue.entries)
    total = sum(entry_hash(queue.id, entry) for entry in queue.entries.values())
    if queue.paged_count:
        assert queue.store is not None
        stored, stored_sum = queue.store.paged_sum(queue)
        count += stored
        total += stored_sum
    return count, total & U64


def entry_hash(queue_id: int, entry: Entry) -> int:
    """Return a 64-bit hash of everything that a queue knows of an entry."""
    message = entry.message
    value = _mix((message.id + HASH_START) & U64)
    # Rotated by 32 bits, so that an id of more has its upper bits below, and none is lost.
    place = (queue_id << 32 | queue_id >> 32) & U64
    value = _mix(value ^ place ^ message.address_id)
    # The flags only where they are set: digests from before they existed stay the same.
    flags = message.flags | REDELIVERED if entry.redelivered else message.flags
    if entry.retained:
        flags |= RETAINED
    state = STATES.get(entry.level, entry.state)
    known = entry.delivery_count << 32 | message.priority << 16 | flags << 8 | state
    value = _mix(value ^ known)
    value = _mix(value ^ message.expires)
    if entry.due:
        value = _mix(value ^ entry.due)
    return _mix(value ^ hash_of(message.annotations)) if message.annotations else value


def _mix(value: int) -> int:
    """Spread the bits of a number: the finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    value = (value ^ (value >> 30)) * HASH_FACTORS[0] & U64
    value = (value ^ (value >> 27)) * HASH_FACTORS[1] & U64
    return value ^ (value >> 31)


def _remembered(ids: IdCache | None) -> list[object]:
    """Return the ids of messages that an address remembers; nothing before a message had one."""
    return [[ids.recorded, ids.joined()]] if ids is not None and ids.recorded else []


def _topology(state: State) -> Iterator[Rows]:
    """Everything that may be numerous, except entries: how many, and each in a canonical order."""
    addresses = sorted(state.addresses.values(), key=lambda a: a.id)
    queues = sorted(state.queues.values(), key=lambda q: q.id)
    yield len(addresses), map(_address, addresses)
    yield len(queues), map(_queue, queues)
    yield from peers(state)


def peers(state: State) -> Iterator[Rows]:
    """Rows of connections, then of consumers, for `digest_of_rows`."""
    connections = sorted(state.connections.values(), key=lambda c: c.id)
    consumers = sorted(state.consumers.values(), key=lambda c: c.id)
    yield len(connections), map(_connection, connections)
    yield len(consumers), map(_consumer, consumers)


def _address(a: Address) -> list[object]:
    bound = [[each.queue.id for each in bindings] for bindings in (a.anycast, a.multicast)]
    return address_row(a.id, a.definition, bound, a.paging, a.ids, (a.created_at, a.emptied_at))


def address_row(
    number: int,
    definition: AddressDefinition,
    bound: Sequence[Sequence[int]],
    paging: bool,
    ids: IdCache | None,
    times: Sequence[int],
) -> list[object]:
    """Return the row of an address; `bound` are ids of queues by routing type, anycast first.

    `times` are when it was created and emptied.
    """
    return [
        *(number, definition.host, definition.name, sorted(definition.routing_types)),
        *(definition.auto_created, *bound),
        # These only where they are set: digests from before they existed stay the same.
        *([True] * paging),
        *_remembered(ids),
        *values_beyond(definition, ADDRESS_ATTRIBUTES).items(),
        *_set(times),
    ]


def _set(times: Sequence[int]) -> list[object]:
    """The times of something that may be deleted when nobody uses it; nothing for others."""
    return [list(times)] if any(times) else []


def _queue(q: Queue) -> list[object]:
    figures = (q.paused, q.added, q.acknowledged, q.dead_lettered, q.expired)
    consumers = [c.id for c in q.consumers]
    times = q.created_at, q.left_at
    counts = q.replaced, q.evicted
    return queue_row(
        q.id,
        q.address.id,
        q.definition,
        figures,
        consumers,
        q.deleting,
        times,
        counts,
        q.waits_since,
        recalls_of(q),
    )


def queue_row(
    number: int,
    address: int,
    definition: QueueDefinition,
    figures: Sequence[int],
    consumers: Sequence[int],
    deleting: bool,
    times: Sequence[int],
    counts: Sequence[int],
    waits_since: int,
    recalls: Sequence[int],
) -> list[object]:
    """Return the row of a queue; `figures` are whether it is paused, and its four counters,
    `times` when it was created and when its last consumer left, and `counts` how many messages were
    replaced, and evicted from a ring; `recalls` is as `recall.recalls_of` returns it."""
    name, *attributes = msgspec.structs.astuple(definition)[:QUEUE_ATTRIBUTES]
    user = definition.user
    return [
        *(number, name, address, *attributes),
        *figures,
        consumers,
        *([user] * bool(user)),
        *([True] * deleting),
        *([["waits", waits_since]] if waits_since else []),
        *values_beyond(definition, QUEUE_ATTRIBUTES + 1).items(),
        *_set(times),
        *([["counts", *counts]] * any(counts)),
        *([["recalls", *recalls]] if recalls else []),
    ]


def _connection(c: Connection) -> list[object]:
    # The host only where it is set: digests from before it existed stay the same.
    host = [c.host] if c.host != HOST else []
    return [c.id, c.protocol, c.peer, c.user, c.client_id, *host]


def _consumer(c: Consumer) -> list[object]:
    unacked = list(c.unacked)
    return [
        *(c.id, c.connection_id, c.queue.id, c.subscription, c.ack_mode, c.filter, unacked),
        # Only where they are set: digests from before they existed stay the same.
        *([c.priority] if c.priority else []),
        *(["exclusive"] if c.exclusive else []),
        *([["reads", c.browses, c.first]] if c.browses or c.first else []),
        *([["refused", *c.refused]] if c.refused else []),
    ]
