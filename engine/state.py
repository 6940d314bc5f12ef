"""The logical state of the broker: what the journal says the queues are.

Only the functions in `engine.apply` change it. The attributes marked *volatile* are no part of it:
they steer what is decided next (credit, whose turn it is), are not journaled, and the digest leaves
them out. This module knows no commands, no clock and no I/O.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappush
from typing import Any, Final, Protocol

from engine.settings import Settings

HOST: Final = "default"
"""The one virtual host there is; part of the identity of every address."""

PRIORITIES: Final = 10
DEFAULT_PRIORITY: Final = 4
MESSAGE_OVERHEAD_BYTES: Final = 128
"""What a message weighs in windows beyond its headers and body."""

UNJOURNALED: Final = 1 << 63
"""Bit in the id of a message whose events are not journaled; such an id is no LSN."""

COMPACT_TOMBSTONES_MIN: Final = 64
MERGE_RETURNED_MIN: Final = 16
PRUNE_EXPIRING_MIN: Final = 1024

# States of an entry.
READY: Final = 0
IN_FLIGHT: Final = 1
GONE: Final = 2


class Filter(Protocol):
    """What a filter language must offer: the extension point for selectors."""

    def matches(self, message: "Message") -> bool:
        """Say whether the message passes."""
        ...


class Message:
    """Immutable headers and body, shared by the entries of all queues that it was routed to."""

    __slots__ = ("address_id", "body", "expires", "flags", "headers", "id", "priority", "size")

    def __init__(
        self,
        message_id: int,
        address_id: int,
        priority: int,
        flags: int,
        expires: int,
        headers: bytes,
        body: bytes,
    ) -> None:
        self.id = message_id
        self.address_id = address_id
        self.priority = priority
        self.flags = flags
        self.expires = expires
        self.headers = headers
        self.body = body
        self.size = len(headers) + len(body) + MESSAGE_OVERHEAD_BYTES

    @property
    def persistent(self) -> bool:
        """Whether the message must survive a restart."""
        return self.flags & 1 == 1


class Entry:
    """A queue's reference to a message.

    `linked` says whether it stands in one of the queue's levels; an entry that is linked and not
    READY is a tombstone, which keeps the place for the case that the entry comes back.
    """

    __slots__ = ("consumer", "delivery_count", "linked", "message", "state")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.delivery_count = 0
        self.state = READY
        self.linked = False
        self.consumer: Consumer | None = None


class Queue:
    """A named, ordered store of entries, bound to one address.

    `entries` holds everything that is in the queue, ready or in flight, by message id. `levels`
    holds what is ready, oldest first, one deque a priority; `occupied` has a bit for each level
    that may have some. What came back waits in `returned` until somebody looks at the order: one
    by one, thousands that come back at once would each search for their place.
    """

    __slots__ = (
        "acknowledged",
        "added",
        "address",
        "auto_created",
        "consumers",
        "dead_lettered",
        "durable",
        "entries",
        "expired",
        "filter",
        "id",
        "levels",
        "matcher",
        "name",
        "next_consumer",
        "occupied",
        "owner",
        "paused",
        "ready_count",
        "returned",
        "routing_type",
        "temporary",
        "tombstones",
        "transient_count",
        "unjournaled_after",
    )

    def __init__(self, queue_id: int, name: str, address: "Address") -> None:
        self.id = queue_id
        self.name = name
        self.address = address
        self.routing_type = "anycast"
        self.filter = ""
        self.durable = True
        self.temporary = False
        self.auto_created = False
        self.owner = 0
        self.paused = False
        self.entries: dict[int, Entry] = {}
        self.levels: list[deque[Entry]] = [deque() for _ in range(PRIORITIES)]
        self.returned: list[Entry] = []
        self.occupied = 0
        self.tombstones = 0
        self.ready_count = 0
        self.transient_count = 0
        self.consumers: list[Consumer] = []
        self.added = 0
        self.acknowledged = 0
        self.dead_lettered = 0
        self.expired = 0
        # Volatile.
        self.next_consumer = 0
        self.matcher: Filter | None = None
        # By id of an unjournaled message, whose number says nothing about its place among the
        # others: the journaled message that it came after.
        self.unjournaled_after: dict[int, int] = {}

    def remember_place(self, message_id: int) -> None:
        """Note where an unjournaled message stands that is about to become the last entry."""
        before = next(reversed(self.entries), 0)
        self.unjournaled_after[message_id] = self.unjournaled_after.get(before, before)

    def _place(self, message_id: int) -> tuple[int, int]:
        if message_id < UNJOURNALED:
            return (message_id, 0)
        return (self.unjournaled_after[message_id], message_id)

    def put(self, entry: Entry) -> None:
        """Add an entry that is new: behind everything of its priority."""
        priority = entry.message.priority
        self.levels[priority].append(entry)
        entry.linked = True
        self.occupied |= 1 << priority
        self.ready_count += 1

    def put_back(self, entry: Entry) -> None:
        """Make an entry ready again, in its original place among those of its priority."""
        entry.state = READY
        self.ready_count += 1
        if entry.linked:
            self.tombstones -= 1
            return
        entry.linked = True
        self.occupied |= 1 << entry.message.priority
        self.returned.append(entry)

    def _order_returned(self) -> None:
        """Put what came back into its original place among those of its priority."""
        returned = self.returned
        self.returned = []
        if len(returned) < MERGE_RETURNED_MIN:
            for entry in returned:
                self._insert(entry)
            return
        by_priority: list[list[Entry]] = [[] for _ in range(PRIORITIES)]
        for entry in returned:
            by_priority[entry.message.priority].append(entry)
        for priority in range(PRIORITIES):
            if by_priority[priority]:
                self._merge(priority, by_priority[priority])

    def _insert(self, entry: Entry) -> None:
        level = self.levels[entry.message.priority]
        place = self._place(entry.message.id)
        position = 0
        for other in level:
            if other.state != GONE and self._place(other.message.id) > place:
                break
            position += 1
        level.insert(position, entry)

    def _merge(self, priority: int, entries: list[Entry]) -> None:
        for entry in self.levels[priority]:
            if entry.state != GONE:
                entries.append(entry)
            else:
                entry.linked = False
                self.tombstones -= 1
        entries.sort(key=self._place_of)
        self.levels[priority] = deque(entries)

    def _place_of(self, entry: Entry) -> tuple[int, int]:
        return self._place(entry.message.id)

    def withdraw(self, entry: Entry, state: int) -> None:
        """Take a READY entry out of its level, leaving a tombstone if it is not the first."""
        if self.returned:
            self._order_returned()
        entry.state = state
        self.ready_count -= 1
        level = self.levels[entry.message.priority]
        if level[0] is entry:
            level.popleft()
            entry.linked = False
            return
        self.tombstones += 1
        if self.tombstones > COMPACT_TOMBSTONES_MIN and self.tombstones > self.ready_count:
            self._compact()

    def head(self) -> Entry | None:
        """Return the entry that is to be delivered next, None if nothing is ready."""
        if self.returned:
            self._order_returned()
        while self.occupied:
            priority = self.occupied.bit_length() - 1
            level = self.levels[priority]
            while level:
                entry = level[0]
                if entry.state == READY:
                    return entry
                level.popleft()
                entry.linked = False
                self.tombstones -= 1
            self.occupied &= ~(1 << priority)
        return None

    def ready(self) -> Iterator[Entry]:
        """Iterate over what is ready, in order of delivery; the queue must not change meanwhile."""
        if self.returned:
            self._order_returned()
        for priority in range(PRIORITIES - 1, -1, -1):
            for entry in self.levels[priority]:
                if entry.state == READY:
                    yield entry

    def _compact(self) -> None:
        for priority in range(PRIORITIES):
            level = self.levels[priority]
            for entry in level:
                entry.linked = entry.state == READY
            self.levels[priority] = deque(entry for entry in level if entry.linked)
        self.tombstones = 0


class Address:
    """A named place that messages are sent to, with the queues bound to it by routing type."""

    __slots__ = (
        "anycast",
        "auto_created",
        "host",
        "id",
        "multicast",
        "name",
        "next_anycast",
        "only_queue",
        "routing_types",
    )

    def __init__(self, address_id: int, host: str, name: str) -> None:
        self.id = address_id
        self.host = host
        self.name = name
        self.routing_types: tuple[str, ...] = ()
        self.auto_created = False
        self.anycast: list[Queue] = []
        self.multicast: list[Queue] = []
        # Derived: the queue of an address that has but one, anycast and without a filter.
        self.only_queue: Queue | None = None
        # Volatile.
        self.next_anycast = 0

    def bind(self, queue: Queue) -> None:
        """Bind a queue by its routing type."""
        self.bindings(queue.routing_type).append(queue)
        self._find_only_queue()

    def unbind(self, queue: Queue) -> None:
        """Take a queue off."""
        self.bindings(queue.routing_type).remove(queue)
        self._find_only_queue()

    def _find_only_queue(self) -> None:
        self.only_queue = None
        if len(self.anycast) == 1 and not self.multicast and not self.anycast[0].filter:
            self.only_queue = self.anycast[0]

    def bindings(self, routing_type: str) -> list[Queue]:
        """Return the list of queues of a routing type."""
        return self.anycast if routing_type == "anycast" else self.multicast


class Consumer:
    """A peer's right to take from a queue, with what it has in flight in order of delivery."""

    __slots__ = (
        "ack_mode",
        "acknowledges",
        "connection",
        "connection_id",
        "credit_bytes",
        "credit_messages",
        "credited",
        "filter",
        "held",
        "id",
        "matcher",
        "queue",
        "receiver",
        "subscription",
        "unacked",
    )

    def __init__(self, consumer_id: int, connection: "Connection", queue: Queue) -> None:
        self.id = consumer_id
        self.connection = connection
        self.connection_id = connection.id
        self.queue = queue
        self.subscription = ""
        self.ack_mode = ""
        self.filter = ""
        self.unacked: dict[int, Entry] = {}
        # Volatile.
        self.acknowledges = True
        self.credit_messages = 0
        self.credit_bytes = 0
        self.matcher: Filter | None = None
        self.receiver: Any = None
        self.held: dict[int, str] = {}
        self.credited: set[int] = set()


class Connection:
    """A peer that logged in. `transactions` and `room` are volatile."""

    __slots__ = (
        "client_id",
        "consumers",
        "id",
        "peer",
        "protocol",
        "room",
        "transactions",
        "user",
    )

    def __init__(self, connection_id: int, protocol: str, peer: str, user: str) -> None:
        self.id = connection_id
        self.protocol = protocol
        self.peer = peer
        self.user = user
        self.client_id = ""
        self.consumers: dict[int, Consumer] = {}
        # Volatile.
        self.room = 0
        self.transactions: dict[str, Any] = {}


class State:
    """Everything that the journal, folded from its first event on, amounts to."""

    def __init__(self) -> None:
        self.addresses: dict[int, Address] = {}
        self.address_by_name: dict[tuple[str, str], Address] = {}
        self.queues: dict[int, Queue] = {}
        self.queue_by_name: dict[str, Queue] = {}
        self.connections: dict[int, Connection] = {}
        self.consumers: dict[int, Consumer] = {}
        self.next_address = 1
        self.next_queue = 1
        self.settings = Settings.from_dict({})
        self.journal_non_persistent = "decisions"
        # Derived: (milliseconds, message id, queue id) of entries that will expire, as a heap. An
        # item may
        # outlive its entry.
        self.expiring: list[tuple[int, int, int]] = []
        self.expiring_max = PRUNE_EXPIRING_MIN

    def expires(self, message: Message, queue: Queue) -> None:
        """Remember that an entry is to be looked at when its time has passed."""
        if len(self.expiring) >= self.expiring_max:
            self._prune_expiring()
        heappush(self.expiring, (message.expires, message.id, queue.id))

    def _prune_expiring(self) -> None:
        """Let go of items that outlived their entries: with long lives they would be nearly all.

        An entry in flight is put on the heap again when it comes back.
        """
        kept = set()
        for item in self.expiring:
            queue = self.queues.get(item[2])
            entry = queue.entries.get(item[1]) if queue is not None else None
            if entry is not None and entry.state == READY:
                kept.add(item)
        # In place, because the scan may be looking at the list; sorted is a heap.
        self.expiring[:] = sorted(kept)
        self.expiring_max = max(PRUNE_EXPIRING_MIN, 2 * len(kept))
