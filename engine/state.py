"""The logical state of the broker: the queues and messages that the journal describes.

Only the functions in `engine.apply` change it. The attributes marked *volatile* are no part of it:
they affect later decisions (credit, whose turn it is), are not journaled, and are not in the
digest. This module knows no commands, no clock and no I/O.
"""

from collections import deque
from typing import Any, Final, TypeVar

from daybook.engine.arrival import Arrival
from daybook.engine.bindings import (
    NO_BINDINGS,
    NO_FILTERS,
    Binding,
    SharedFilter,
    bound,
    place_of,
    unbound,
)
from daybook.engine.bundles import Bundle
from daybook.engine.definitions import ANYCAST, AddressDefinition, DivertDefinition, SharedTexts
from daybook.engine.groups import GroupCount
from daybook.engine.id_cache import IdCache
from daybook.engine.in_flight import InFlightIndex
from daybook.engine.message import ENTRY_BYTES, Entry, Filter, Message
from daybook.engine.names import HOST, NUMBER, owner_of, unnumbered
from daybook.engine.queues import Queue, Store
from daybook.engine.settings import Settings
from daybook.engine.settlements import BY_SETTLEMENT
from daybook.engine.syntax import syntax_of
from daybook.engine.timers import DELIVERY, EXPIRY, Timers
from daybook.engine.times import Times
from daybook.engine.tours import Tour
from daybook.engine.window import Window

UNLIMITED: Final = 1 << 62

NOTHING_PASSED: Final = 0
"""The position before the first entry of any level: see `Entry.position`."""


AGAIN_MAX: Final = 1000
"""How many entries that became ready behind its cursor a consumer remembers. If there are more, the
cursor goes back, and the consumer reads what follows once more."""

SHOWN_BYTES: Final = ENTRY_BYTES
"""What remembering a message that a consumer was shown takes in memory."""

NONE_SHOWN: Final[dict[int, Entry]] = {}
NONE_AGAIN: Final[dict[int, int]] = {}
"""Shared by all consumers that have none; never changed."""


_K = TypeVar("_K", int, str)

NO_HISTORIES: Final[dict[str, Queue]] = {}
"""Shared by all addresses that keep no history; never changed."""
NEVER_MATCHED: Final[tuple[int, tuple["Address", ...]]] = -1, ()


class Address:
    """A named place that messages are sent to, with its bindings by routing type."""

    __slots__ = (
        "anycast",
        "created_at",
        "definition",
        "dropping",
        "duplicates",
        "emptied_at",
        "filter_characters",
        "filters",
        "guarded",
        "histories",
        "id",
        "ids",
        "is_wildcard",
        "matched",
        "multicast",
        "next_anycast",
        "next_notice",
        "only_queue",
        "open_queue",
        "owner",
        "paging",
        "routed",
        "unrouted",
        "volatile_ids",
    )

    def __init__(self, address_id: int, definition: AddressDefinition) -> None:
        self.id = address_id
        self.definition = definition
        # Whether its name is a pattern (`engine.wildcards`).
        self.is_wildcard = syntax_of(definition.syntax).is_pattern(definition.name)
        # The connection that it ends with, 0 if it is no temporary destination.
        self.owner = owner_of(definition.name)
        self.paging = False
        # Only with auto-delete: when it was created, and when it lost its last queue, 0 if it never
        # had one (microseconds since 1970).
        self.created_at = 0
        self.emptied_at = 0
        self.anycast: list[Binding] = NO_BINDINGS
        self.multicast: list[Binding] = NO_BINDINGS
        # Derived: the filters of its bindings by their texts, and the length of these texts.
        self.filters: dict[str, SharedFilter] = NO_FILTERS
        self.filter_characters = 0
        # The ids of messages that it remembers; None as long as no message had one.
        self.ids: IdCache | None = None
        # Derived: the queues of the broker that keep its history, by routing type.
        self.histories: dict[str, Queue] = NO_HISTORIES
        # Derived: the queue of an address with exactly one, which is anycast and takes everything.
        self.only_queue: Queue | None = None
        # Volatile. `open_queue` is the only queue as long as messages may enter it without a check
        # of limits: while the address is not guarded.
        self.next_anycast = 0
        self.guarded = True
        self.open_queue: Queue | None = None
        self.dropping = False
        # Ids that are remembered in memory only, how many duplicates were dropped, and when the
        # next one is reported (microseconds since 1970).
        self.volatile_ids: IdCache | None = None
        self.duplicates = 0
        # How many messages queues took, and how many none did (`engine.address_counts`).
        self.routed = 0
        self.unrouted = 0
        self.next_notice = 0
        # What `engine.wildcards` remembers: the wildcard addresses that it matches, and when.
        self.matched = NEVER_MATCHED

    @property
    def host(self) -> str:
        """The virtual host of the address."""
        return self.definition.host

    @property
    def name(self) -> str:
        """The full name of the address, with its host; neither ever changes."""
        return self.definition.name

    def bind(self, queue: Queue) -> None:
        """Bind a queue by its routing type."""
        binding = queue.binding = Binding(self.name, queue)
        if binding.routing_type == ANYCAST:
            self.anycast = bound(self.anycast, binding)
        else:
            self.multicast = bound(self.multicast, binding)
        self._share_filter(binding)
        self._find_only_queue()

    def unbind(self, queue: Queue) -> None:
        """Unbind a queue."""
        binding, queue.binding = queue.binding, None
        if binding is None:
            raise ValueError(f"queue '{queue.name}' is not bound")
        if binding.routing_type == ANYCAST:
            self.anycast = unbound(self.anycast, binding)
        else:
            self.multicast = unbound(self.multicast, binding)
        self._forget_filter(binding)
        self._find_only_queue()

    def _share_filter(self, binding: Binding) -> None:
        """Note the filter of a binding."""
        text = binding.filter
        if not text:
            return
        if self.filters is NO_FILTERS:
            self.filters = {}
        shared = self.filters.get(text)
        if shared is None:
            shared = self.filters[text] = SharedFilter()
            self.filter_characters += len(text)
        shared.count += 1
        binding.shared = shared

    def _forget_filter(self, binding: Binding) -> None:
        """Forget the filter of a binding with the last one that has it."""
        text = binding.filter
        if not text:
            return
        binding.shared.count -= 1
        if not binding.shared.count:
            del self.filters[text]
            self.filter_characters -= len(text)
            if not self.filters:
                self.filters = NO_FILTERS

    def bind_again(self, queue: Queue) -> None:
        """Replace the binding of a queue whose definition changed, except its routing type."""
        before = queue.binding
        assert before is not None
        bindings = self.bindings(before.routing_type)
        again = queue.binding = Binding(self.name, queue)
        again.number = before.number
        bindings[place_of(bindings, before)] = again
        self._share_filter(again)
        self._forget_filter(before)
        self._find_only_queue()

    def _find_only_queue(self) -> None:
        self.only_queue = None
        if len(self.anycast) == 1 and not self.multicast and self.anycast[0].is_open:
            self.only_queue = self.anycast[0].queue
        self.guard(self.guarded)

    def guard(self, guarded: bool) -> None:
        """Set whether limits are checked before a message enters."""
        self.guarded = guarded
        self.open_queue = None if guarded else self.only_queue

    def bindings(self, routing_type: str) -> list[Binding]:
        """Return the bindings of a routing type."""
        return self.anycast if routing_type == ANYCAST else self.multicast

    def queues(self) -> list[Queue]:
        """Return all queues that are bound, anycast before multicast, in the order of binding."""
        found = [binding.queue for binding in self.anycast]
        found += [binding.queue for binding in self.multicast]
        return found


class Consumer:
    """A peer's right to take from a queue, with what it has in flight in order of delivery."""

    __slots__ = (
        "ack_mode",
        "acknowledges",
        "again",
        "attempted",
        "browses",
        "bundle",
        "caught_up",
        "connection",
        "connection_id",
        "credit_bytes",
        "credit_messages",
        "credit_policy",
        "credited",
        "exclusive",
        "filter",
        "first",
        "handed",
        "held",
        "id",
        "index",
        "leaving",
        "matcher",
        "passed",
        "priority",
        "queue",
        "receiver",
        "settled_lsn",
        "shown",
        "subscription",
        "tour",
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
        self.priority = 0
        self.exclusive = False
        # Whether it only reads (`engine.browsing`), and the lowest sequence number that it gets.
        self.browses = False
        self.first = 0
        self.unacked: dict[int, Entry] = {}
        # Volatile. `tour` is what a browser has still to read, `bundle` what it is a member of.
        self.tour: Tour | None = None
        self.bundle: Bundle | None = None
        self.acknowledges = True
        self.credit_policy = BY_SETTLEMENT
        self.credit_messages = 0
        self.credit_bytes = 0
        self.matcher: Filter | None = None
        self.receiver: Any = None
        # By priority, the position up to which its filter wants no ready entry, or up to which it
        # has read a non-destructive queue, or as a browser.
        self.passed: dict[int, int] = {}
        # Of a non-destructive queue, or a browser: what it was shown and has not settled, the
        # priorities of entries that became ready behind `passed`, by message id, and the newest
        # message of the queue when it had read everything.
        self.shown: dict[int, Entry] = NONE_SHOWN
        self.again: dict[int, int] = NONE_AGAIN
        self.caught_up = -1
        self.held: dict[int, str] = {}
        # How many messages were delivered to it.
        self.handed = 0
        # Deliveries in flight that are or were settled in a transaction: not only prefetched.
        self.attempted: set[int] = set()
        self.credited: set[int] = set()
        # It is being detached: its deliveries in flight return, and it gets no more.
        self.leaving = False
        self.index: InFlightIndex | None = None
        # The last LSN of a settlement that continues in the next turn.
        self.settled_lsn = 0

    @property
    def is_selective(self) -> bool:
        """Whether entries are offered to it by rules, not just in turn."""
        return bool(self.filter) or self.priority != 0 or self.first > 0

    @property
    def is_found(self) -> bool:
        """Whether a pattern of its subscription found its queue, which nobody named."""
        return self.bundle is not None and self.id in self.bundle.found

    @property
    def unsettled(self) -> int:
        """How many messages were handed to it that it has not settled."""
        return len(self.unacked) + len(self.shown)

    def look_from_the_front(self) -> None:
        """Forget what it passed over or read: it looks at its whole queue again."""
        self.passed = {}
        self.again = NONE_AGAIN
        self.caught_up = -1

    def look_again(self, entry: Entry) -> None:
        """Note that an entry became ready that it is to read, perhaps behind the cursor."""
        priority = entry.message.priority
        self.caught_up = -1
        if entry.position > self.passed.get(priority, NOTHING_PASSED):
            return
        if len(self.again) < AGAIN_MAX:
            if self.again is NONE_AGAIN:
                self.again = {}
            self.again[entry.message.id] = priority
        else:
            self.passed[priority] = entry.position - 1


class Connection:
    """A peer that logged in.

    `unacked_bytes` is derived: the size of its deliveries in flight. Once it reaches `unacked_max`
    the connection is `sated` and gets nothing more until much of it was settled. `holders` are its
    consumers by the id of the messages they have in flight, None if its protocol does not need
    them.
    """

    __slots__ = (
        "bundles",
        "client_id",
        "consumers",
        "holders",
        "host",
        "id",
        "peer",
        "protocol",
        "room",
        "sated",
        "shown_bytes",
        "transactions",
        "unacked_bytes",
        "unacked_max",
        "user",
    )

    def __init__(
        self, connection_id: int, protocol: str, peer: str, user: str, host: str = HOST
    ) -> None:
        self.id = connection_id
        self.protocol = protocol
        self.peer = peer
        self.user = user
        self.host = host
        self.client_id = ""
        self.consumers: dict[int, Consumer] = {}
        self.unacked_bytes = 0
        # Volatile. `shown_bytes` is the part of `unacked_bytes` for what non-destructive queues
        # showed its consumers, and for the orders of its bundles.
        self.shown_bytes = 0
        self.room = 0
        self.unacked_max = UNLIMITED
        self.sated = False
        self.transactions: dict[str, Any] = {}
        self.bundles: dict[int, Bundle] = {}
        self.holders: dict[int, list[Consumer]] | None = None


def count_up(counts: dict[_K, int], key: _K) -> None:
    """Increase the count of a key."""
    counts[key] = counts.get(key, 0) + 1


def count_down(counts: dict[_K, int], key: _K) -> None:
    """Decrease the count of a key, and forget the key at 0."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


class State:
    """The result of folding the journal from its first event on."""

    def __init__(self, store: Store | None = None) -> None:
        self.addresses: dict[int, Address] = {}
        # By full name (`names.qualified`), as are queues and diverts.
        self.address_by_name: dict[str, Address] = {}
        self.queues: dict[int, Queue] = {}
        self.queue_by_name: dict[str, Queue] = {}
        # Derived: queues whose names have a number, by the name without it, and by id.
        self.numbered: dict[str, dict[int, Queue]] = {}
        self.connections: dict[int, Connection] = {}
        self.consumers: dict[int, Consumer] = {}
        # Derived: how many connections a user has, and how many queues that stay it has made.
        self.connections_of: dict[str, int] = {}
        self.queues_of: dict[str, int] = {}
        # Derived: how many connections, addresses and queues a virtual host has.
        self.connections_on: dict[str, int] = {}
        self.addresses_on: dict[str, int] = {}
        self.queues_on: dict[str, int] = {}
        # Derived: the temporary destinations of each connection, by id.
        self.temporaries: dict[int, dict[int, Address]] = {}
        # Derived: the length of all names of addresses and queues.
        self.names_length = 0
        self.next_address = 1
        self.next_queue = 1
        self.settings = Settings.from_dict({})
        # The diverts by name.
        self.diverts: dict[str, DivertDefinition] = {}
        self.texts = SharedTexts()
        self.journal_non_persistent = "decisions"
        # The store of entries that are not resident, and how much comes back at a time.
        self.store = store
        self.window = Window()
        # Derived: queues that hold messages, or did; code that walks them removes empty ones.
        self.holding: dict[int, Queue] = {}
        # Derived, by id: last value queues, rings by their definition, and those with `no_local`.
        self.keyed: dict[int, Queue] = {}
        self.rings: dict[int, Queue] = {}
        self.without_own: dict[int, Queue] = {}
        # Derived: queues and addresses that an administrator paused, by id; how many browsers.
        self.paused: dict[int, Queue] = {}
        self.paused_addresses: dict[int, Address] = {}
        self.browser_count = 0
        # Derived: queues whose consumers wait for others (`engine.beginning`), by id.
        self.waiting: dict[int, Queue] = {}
        # Derived: queues that keep the history of an address (`engine.retroactive`), and those that
        # are to get some of it (`engine.recalling`), by id.
        self.histories: dict[int, Queue] = {}
        self.recalling: dict[int, Queue] = {}
        # About when messages of histories were sent.
        self.times = Times()
        # Derived: the timers of entries in memory, by their reason.
        self.expiring = Timers(EXPIRY)
        self.scheduled = Timers(DELIVERY)
        # Volatile: how many message groups the queues know.
        self.groups = GroupCount()
        # Volatile, by the address sent to; the next Routed makes one if it `defers`.
        self.arrivals, self.defers = dict[int, deque[Arrival]](), False
        # Volatile: before this time, in milliseconds since 1970, no scheduled entry is due, and no
        # queue begins to deliver because of the time.
        self.wake_at = 0

    def show_again(self, queue: Queue, entry: Entry) -> None:
        """Make browsers consider an entry that was set aside, and that they have not read since."""
        for browser in queue.browsers:
            browser.look_again(entry)

    def look_again(self, queue: Queue, entry: Entry) -> None:
        """Make consumers with filters or cursors consider an entry that returned."""
        if queue.definition.non_destructive:
            for consumer in queue.consumers:
                consumer.look_again(entry)
            return
        if not queue.has_passed:
            return
        priority = entry.message.priority
        place = entry.position
        for consumer in queue.consumers:
            if place <= consumer.passed.get(priority, NOTHING_PASSED):
                consumer.passed[priority] = place - 1

    def add_queue(self, queue: Queue) -> None:
        """Add a new queue."""
        queue.store = self.store
        queue.window = self.window
        self.queues[queue.id] = queue
        if queue.deleting:
            return
        self.queue_by_name[queue.name] = queue
        if NUMBER in queue.name:
            self.numbered.setdefault(unnumbered(queue.name), {})[queue.id] = queue
        if queue.held_count:
            self.holding[queue.id] = queue
        if queue.definition.keyed_by:
            self.keyed[queue.id] = queue
        if queue.definition.ring_size >= 0:
            self.rings[queue.id] = queue
        if queue.definition.no_local:
            self.without_own[queue.id] = queue
        if queue.waits_since:
            self.waiting[queue.id] = queue
        if queue.paused:
            self.paused[queue.id] = queue
        if queue.definition.keeps:
            self._add_history(queue)
        if queue.recall is not None:
            self.recalling[queue.id] = queue
        self.names_length += len(queue.name)
        count_up(self.queues_on, queue.address.host)
        if queue.definition.user:
            count_up(self.queues_of, queue.definition.user)

    def _add_history(self, queue: Queue) -> None:
        self.histories[queue.id] = queue
        kept_for = self.address_by_name.get(queue.definition.keeps)
        if kept_for is not None:
            kept_for.histories = {**kept_for.histories, queue.definition.routing_type: queue}

    def _remove_history(self, queue: Queue) -> None:
        kept_for = self.address_by_name.get(queue.definition.keeps)
        if kept_for is not None:
            rest = {key: each for key, each in kept_for.histories.items() if each is not queue}
            kept_for.histories = rest or NO_HISTORIES

    def hide_queue(self, queue: Queue) -> None:
        """Remove a queue that is being deleted from everything but the queues by id."""
        queue.deleting = True
        self.holding.pop(queue.id, None)
        self.keyed.pop(queue.id, None)
        self.rings.pop(queue.id, None)
        self.without_own.pop(queue.id, None)
        self.waiting.pop(queue.id, None)
        self.paused.pop(queue.id, None)
        self.recalling.pop(queue.id, None)
        queue.recall = None
        if self.histories.pop(queue.id, None) is not None:
            self._remove_history(queue)
        del self.queue_by_name[queue.name]
        if NUMBER in queue.name:
            name = unnumbered(queue.name)
            del self.numbered[name][queue.id]
            if not self.numbered[name]:
                del self.numbered[name]
        self.names_length -= len(queue.name)
        count_down(self.queues_on, queue.address.host)
        queue.address.unbind(queue)
        if queue.definition.user:
            count_down(self.queues_of, queue.definition.user)

    def remove_queue(self, queue: Queue) -> None:
        """Forget a queue."""
        del self.queues[queue.id]
        if not queue.deleting:
            self.hide_queue(queue)

    def add_address(self, address: Address) -> None:
        """Add a new address."""
        self.addresses[address.id] = address
        self.address_by_name[address.name] = address
        self.names_length += len(address.name)
        count_up(self.addresses_on, address.host)
        if address.definition.paused:
            self.paused_addresses[address.id] = address
        if address.owner:
            self.temporaries.setdefault(address.owner, {})[address.id] = address

    def remove_address(self, address: Address) -> None:
        """Forget an address."""
        del self.addresses[address.id]
        del self.address_by_name[address.name]
        self.names_length -= len(address.name)
        count_down(self.addresses_on, address.host)
        self.paused_addresses.pop(address.id, None)
        if address.owner:
            owned = self.temporaries[address.owner]
            del owned[address.id]
            if not owned:
                del self.temporaries[address.owner]

    def add_connection(self, connection: Connection) -> None:
        """Add a new connection."""
        self.connections[connection.id] = connection
        count_up(self.connections_of, connection.user)
        count_up(self.connections_on, connection.host)

    def attach_store(self, store: Store) -> None:
        """Make all queues, present and future, read entries that are not resident from a store."""
        self.store = store
        for queue in self.queues.values():
            queue.store = store

    def expires(self, message: Message, queue: Queue) -> None:
        """Set a timer for the expiry of an entry."""
        self.expiring.add(message.expires, message.id, queue.id, self.queues)

    def is_due(self, time: int, message: Message, queue: Queue) -> None:
        """Set a timer for an entry that is scheduled until a time, in milliseconds since 1970."""
        self.scheduled.add(time, message.id, queue.id, self.queues)
        self.wake_at = min(self.wake_at, time)
