"""The logical state of the broker: the queues and messages that the journal describes.

Only the functions in `engine.state.apply` change it. The attributes marked *volatile* do not belong
to it: they affect later decisions (credit, whose turn it is), are not journaled, and are not in the
digest. This module knows no commands, no clock and no I/O.
"""

from collections import deque
from typing import Final, TypeVar

from daybook.engine.facts.definitions import (
    DivertDefinition,
    SharedTexts,
)
from daybook.engine.messages.message import Message
from daybook.engine.names.names import NUMBER, unnumbered
from daybook.engine.queues.arrival import Arrival
from daybook.engine.queues.consumer import Connection, Consumer
from daybook.engine.queues.entry import NOTHING_PASSED, Entry
from daybook.engine.queues.groups import GroupCount
from daybook.engine.queues.queue import NO_HISTORIES, Address, Queue, Store
from daybook.engine.queues.window import Window
from daybook.engine.settings.settings import Settings
from daybook.engine.state.timers import DELIVERY, EXPIRY, Timers
from daybook.engine.state.times import Times

UNLIMITED: Final = 1 << 62


_K = TypeVar("_K", int, str)


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
        # Derived: queues whose consumers wait for others (`engine.entries.dispatch_start`), by id.
        self.waiting: dict[int, Queue] = {}
        # Derived: queues that keep the history of an address (`engine.entries.retroactive`), and
        # those that are to get some of it (`engine.entries.recalls`), by id.
        self.histories: dict[int, Queue] = {}
        self.recalling: dict[int, Queue] = {}
        # About when messages of histories were sent.
        self.times = Times()
        # Derived: the timers of entries in memory, by their reason.
        self.expiring = Timers(EXPIRY)
        self.scheduled = Timers(DELIVERY)
        # Volatile: how many messages were handed to consumers that are not there any more.
        self.handed_before = 0
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
