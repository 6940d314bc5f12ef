"""Addresses, their bindings, and queues: entries in their order of delivery, in memory and in the
store.

A binding routes messages of an address into one queue (ADR 35); it is derived from the definition
of the queue, and a new one replaces it when that changes.

A queue has a level (`engine.queues.level`) for each priority that it holds. Entries that are set
aside have two more levels, held (ADR 25) and scheduled (ADR 39), paged like the others and never
delivered from. The answers of the methods do not depend on what is resident. Must never know
how a level keeps its order, how entries get into the store, when they leave memory, or which queue
is chosen where several are bound.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Final, NamedTuple, Protocol, TypeAlias

from daybook.engine.facts import life
from daybook.engine.facts.definitions import ANYCAST, AddressDefinition, QueueDefinition
from daybook.engine.facts.details import Origin
from daybook.engine.messages.message import PRIORITIES, Filter, Message
from daybook.engine.names.names import RETAINED_PLACE, owner_of, plain
from daybook.engine.names.syntax import syntax_of
from daybook.engine.queues.entry import (
    HELD_LEVEL,
    LEVELS,
    READY,
    SCHEDULED_LEVEL,
    Entry,
    Taker,
)
from daybook.engine.queues.flights import Flights
from daybook.engine.queues.groups import Grouping
from daybook.engine.queues.id_cache import IdCache
from daybook.engine.queues.latest import Latest
from daybook.engine.queues.level import Level, position_of
from daybook.engine.queues.paged_range import PagedRange
from daybook.engine.queues.recall import Recall
from daybook.engine.queues.window import DEFAULT_WINDOW, Window
from daybook.errors import DaybookError

PRUNE_GONE_MIN: Final = 1024
PAST_ALL: Final = (1 << 63) - 1
"""An id above that of every message."""

Due: TypeAlias = tuple[int, int, int]
"""A timer: when to look at an entry, in milliseconds since 1970, its message id and queue id."""


class StoreError(DaybookError):
    """The store cannot return what it must have, temporarily or permanently."""


class StoreDamaged(StoreError):
    """The store itself is wrong: it must be rebuilt from the journal."""


class ContentError(StoreError):
    """The journal does not return the content of a message; rebuilding the store would not help."""


class Loaded(NamedTuple):
    """Entries that the store returned, in order, and the id up to which there are no others."""

    entries: list[Entry]
    reached: int


class Store(Protocol):
    """Holds the entries that are not in memory: the state at `indexed_lsn`, for reading.

    Entries that left a queue since then are in `Queue.gone`, resident ones in `Queue.entries`; the
    store must skip both, and non-persistent messages before `Queue.transients_from`.
    """

    @property
    def indexed_lsn(self) -> int:
        """The LSN whose state the store holds."""
        ...

    def load(self, queue: "Queue", level: int, after: int, window: "Window") -> Loaded:
        """Return the next entries of a level with ids above `after`.

        As many as the window allows, but at least one, with content if the window says so; if there
        are no more, `reached` is PAST_ALL.
        """
        ...

    def firsts(self, wanted: "Sequence[tuple[Queue, int, int]]") -> list[int]:
        """Return the id of the next entry of each of these levels above an id, 0 where there is
        none: of many levels at once. Raises StoreError."""
        ...

    def pass_over(self, queue: "Queue", level: int, after: int, most: int) -> tuple[int, int]:
        """Pass over the next entries of a level with ids above `after`; return how many, and the
        last id, PAST_ALL if there are fewer than `most`."""
        ...

    def find(self, queue: "Queue", message_id: int) -> Entry | None:
        """Return one entry that is not in flight, without content."""
        ...

    def entered(self, message_id: int) -> int:
        """Return when a message entered its queue, in microseconds since 1970: not later than that.

        Raises StoreError: so for an event that is not durable.
        """
        ...

    def last_value(self, queue: "Queue", key: bytes) -> int:
        """Return the newest message with a last value key, also one that left; 0 for none."""
        ...

    def fill(self, messages: list[Message]) -> None:
        """Fetch headers and bodies of messages that are not resident; raises StoreError."""
        ...

    def origin(self, message: Message) -> Origin | None:
        """Return where a message was before, None if it is not a copy. Raises StoreError."""
        ...

    def paged_sum(self, queue: "Queue") -> tuple[int, int]:
        """Return how many entries only the store has, and the sum of their hashes."""
        ...

    def due(self, reason: int, after: Due, until: int, limit: int) -> list[Due]:
        """Return timers of a reason up to a time (milliseconds), in order, at most `limit` after
        `after`; including entries that left or are in flight since."""
        ...


# Shared by all queues that are not used; must not be changed.
NO_LEVELS: Final[list[Level | None]] = [None] * LEVELS
NO_CONSUMERS: Final[list[Taker]] = []
NO_BROWSERS: Final[list[Taker]] = []
NONE_GONE: Final[dict[int, int]] = {}
NONE_WITHHELD: Final[dict[int, Entry]] = {}
NONE_RETURNED: Final[list[int]] = []


class Queue:
    """A named, ordered store of entries, bound to one address.

    `entries` contains every resident entry, ready or in flight, by message id. `levels` has the
    levels that were needed so far; `occupied` has a bit for each level to deliver from that may
    have entries. `ready_count`, `held_count`, `scheduled_count` and `bytes` count all entries, in
    memory and in the store.
    """

    __slots__ = (
        "acknowledged", "added", "address", "arriving", "binding", "browsers", "bytes", "consumers",
        "created_at", "dead_lettered", "definition", "deleting", "entries", "evicted", "expired",
        "flights", "gone", "gone_max", "groups", "has_passed", "held_count", "holder", "id",
        "latest", "left_at", "levels", "name", "newest", "next_consumer", "next_notice", "occupied",
        "oldest", "paged_count", "paused", "prioritized_count", "ready_count", "recall", "recalled",
        "recalled_lsn", "replaced", "retained_until", "returned", "scheduled_count",
        "selective_count", "store", "transient_count", "transients_from", "trimmed", "waits_since",
        "weight", "window", "withheld",
    )  # fmt: skip

    def __init__(self, queue_id: int, definition: QueueDefinition, address: "Address") -> None:
        self.id = queue_id
        self.definition = definition
        # It never changes. Lists of many queues read it of each.
        self.name: Final = definition.name
        self.address = address
        # The binding that routes messages here; None as long as the queue is not bound.
        self.binding: Binding | None = None
        self.paused = False
        # Only with auto-delete or an expiry policy: when it was created, and when its last consumer
        # left, 0 if it never had one, or has an owner (microseconds since 1970).
        self.created_at = self.left_at = 0
        # Deleted, and not empty yet: it has an id, but neither a name nor a binding.
        self.deleting = False
        self.entries: dict[int, Entry] = {}
        self.levels: list[Level | None] = NO_LEVELS
        self.occupied = 0
        self.ready_count = self.held_count = self.scheduled_count = self.transient_count = 0
        # Derived: the position of the ready entry that came first, 0 if nobody looked for it since
        # one left. Lists of many queues read it of each (`engine.queues.level_scan`).
        self.oldest = 0
        self.bytes = 0
        # The memory that the resident entries take.
        self.weight = 0
        self.consumers: list[Taker] = NO_CONSUMERS
        # Consumers that only read: they are not among the consumers (`engine.dispatch.browsers`).
        self.browsers: list[Taker] = NO_BROWSERS
        # The entries in flight, while there are browsers; None before one looked.
        self.flights: Flights | None = None
        # Derived: how many of the consumers get entries by rules, and how many have a priority.
        self.selective_count = 0
        self.prioritized_count = 0
        # When the first consumer came (microseconds since 1970) that waits for others; else 0.
        self.waits_since = 0
        self.added = self.acknowledged = self.dead_lettered = self.expired = 0
        self.replaced = self.evicted = 0
        # How many came from history, the last such event, until all of it came, how far it is, and
        # up to which message those that were retained are older than the queue.
        self.recalled = self.recalled_lsn = self.retained_until = 0
        self.recall: Recall | None = None
        # Derived, of last value queues: the newest message for each key; None if there is none.
        self.latest: Latest | None = None
        # Entries that are not resident.
        self.store: Store | None = None
        self.paged_count = 0
        self.gone: dict[int, int] = NONE_GONE
        self.gone_max = PRUNE_GONE_MIN
        self.transients_from = 0
        self.window = DEFAULT_WINDOW
        # Volatile. Ready entries that are not delivered, because they cannot be read; in no level.
        self.withheld: dict[int, Entry] = NONE_WITHHELD
        # How many messages are still on their way to it (`engine.entries.arrivals`).
        self.arriving: int = 0
        # When held messages are reported again (microseconds).
        self.next_consumer = 0
        # Volatile: the consumer that has the queue for itself (`engine.dispatch.consumer_choice`).
        self.holder: Taker | None = None
        # Volatile: the message groups that its consumers have; None if there were none.
        self.groups: Grouping | None = None
        self.next_notice = 0
        # Volatile, of ring queues: `added` when it was last trimmed, and the messages that returned
        # since.
        self.trimmed = 0
        self.returned: list[int] = NONE_RETURNED
        self.has_passed = False  # whether any consumer passed over an entry: `Consumer.passed`
        # Id of the message that entered last.
        self.newest = 0

    @property
    def message_count(self) -> int:
        """How many messages are in the queue, in memory or in the store, in any state."""
        return len(self.entries) + self.paged_count

    @property
    def is_used(self) -> bool:
        """Whether anybody takes from it, or reads it."""
        return bool(self.consumers or self.browsers)

    @property
    def is_owned(self) -> bool:
        """Whether it has no consumers, and belongs to the session or connection of the last one."""
        return self.definition.outlives_consumers and not self.left_at and not self.consumers

    @property
    def is_paused(self) -> bool:
        """Whether nothing is delivered: it or its address is paused, or it waits for history."""
        return self.paused or self.address.definition.paused or self.recall is not None

    @property
    def retains(self) -> bool:
        """Whether it has the retained messages of all addresses of its virtual host."""
        keeps = self.definition.keeps
        return bool(keeps) and plain(keeps) == RETAINED_PLACE

    @property
    def aside_count(self) -> int:
        """How many messages are set aside: held or scheduled."""
        return self.held_count + self.scheduled_count

    @property
    def in_flight_count(self) -> int:
        """How many messages were delivered and are not settled."""
        return self.message_count - self.ready_count - self.held_count - self.scheduled_count

    def count_standing(self, level: int, change: int) -> None:
        """Count entries into a level, or out of it (negative)."""
        if level < PRIORITIES:
            self.ready_count += change
        elif level == HELD_LEVEL:
            self.held_count += change
        else:
            self.scheduled_count += change

    def level(self, number: int) -> Level:
        """Return a level, created if there is none."""
        level = self.levels[number]
        if level is None:
            if self.levels is NO_LEVELS:
                self.levels = list(NO_LEVELS)
            level = self.levels[number] = Level()
        return level

    def paged_range(self, number: int) -> PagedRange | None:
        """Return the paged range of a level, None if it has none."""
        level = self.levels[number]
        return level.paged if level is not None else None

    def paged_ranges(self) -> Iterator[tuple[int, PagedRange]]:
        """Iterate over the paged ranges of all levels that have one, by level."""
        for number, level in enumerate(self.levels):
            if level is not None and level.paged is not None:
                yield number, level.paged

    # ---- consumers

    def attach(self, consumer: Taker) -> None:
        """Add a consumer."""
        if consumer.browses:
            self.browsers = [*self.browsers, consumer]
            return
        if self.consumers is NO_CONSUMERS:
            self.consumers = []
        self.consumers.append(consumer)
        self.selective_count += consumer.is_selective
        self.prioritized_count += consumer.priority != 0
        if consumer.exclusive and (self.holder is None or not self.holder.exclusive):
            self.holder = consumer

    def detach(self, consumer: Taker) -> None:
        """Remove a consumer."""
        if consumer.browses:
            self.browsers = [each for each in self.browsers if each is not consumer] or NO_BROWSERS
            if not self.browsers:
                self.flights = None
            return
        self.consumers.remove(consumer)
        self.selective_count -= consumer.is_selective
        self.prioritized_count -= consumer.priority != 0
        if consumer is self.holder:
            self.find_holder()
        if self.groups is not None:
            self.groups.leave(consumer, self.consumers)
        if not self.consumers:
            self.groups = None
            self.slim()

    def refuse(self, consumer: Taker, message: int) -> None:
        """Note that a message is not for a consumer."""
        self.selective_count -= consumer.is_selective
        consumer.refuse(message)
        self.selective_count += consumer.is_selective

    def find_holder(self) -> None:
        """Give the queue to its first exclusive consumer, or to nobody until the next delivery."""
        self.holder = next((each for each in self.consumers if each.exclusive), None)

    def detach_all(self) -> None:
        """Remove all consumers."""
        self.consumers = NO_CONSUMERS
        self.browsers = NO_BROWSERS
        self.flights = None
        self.selective_count = 0
        self.prioritized_count = 0
        self.holder = None
        if self.groups is not None:
            self.groups.release_all([])
            self.groups = None

    def slim(self) -> None:
        """Free what a queue needs only while it is used."""
        if not self.consumers:
            self.consumers = NO_CONSUMERS
        if self.message_count:
            return
        self.levels = NO_LEVELS
        self.occupied = 0
        self.entries = {}
        self.prune_gone()

    # ---- entries by id

    def get(self, message_id: int) -> Entry:
        """Return an entry by id and make it resident; KeyError if the queue does not have it."""
        entry = self.entries.get(message_id)
        return entry if entry is not None else self._fault(message_id)

    def find(self, message_id: int) -> Entry | None:
        """Return an entry by id and make it resident; None if the queue does not have it."""
        entry = self.entries.get(message_id)
        if entry is None and self.paged_count:
            try:
                return self._fault(message_id)
            except KeyError:
                return None
        return entry

    def _fault(self, message_id: int) -> Entry:
        if self.store is None or not self.paged_count or message_id in self.gone:
            raise KeyError(message_id)
        entry = self.store.find(self, message_id)
        if entry is None:
            raise KeyError(message_id)
        paged = self.paged_range(entry.level)
        if paged is None or not paged.after < entry.position <= paged.until:
            raise KeyError(message_id)
        self._adopt(entry, paged)
        return entry

    def make_resident(self, entry: Entry) -> None:
        """Make an entry that `ready` returned resident, if it is not."""
        if entry.message.id not in self.entries:
            paged = self.paged_range(entry.level)
            assert paged is not None
            self._adopt(entry, paged)

    def _adopt(self, entry: Entry, paged: PagedRange) -> None:
        """Make an entry of a paged range resident, at its place in the paged range."""
        self._count_in(entry, paged)
        entry.linked = True
        paged.islands.append(entry)

    def _count_in(self, entry: Entry, paged: PagedRange) -> None:
        self.entries[entry.message.id] = entry
        paged.subtract(entry.message)
        self.weight += entry.message.weight
        self.paged_count -= 1

    def count_out(self, entries: list[Entry]) -> None:
        """Stop counting the entries that a level moved to its paged range."""
        for entry in entries:
            del self.entries[entry.message.id]
            self.weight -= entry.message.weight
        self.paged_count += len(entries)

    def note_gone(self, entry: Entry, lsn: int) -> None:
        """Remember an entry that left while the store may still return it: one behind a ready
        entry."""
        if self.store is None:
            return
        # In the store, an entry that changed its level since `indexed_lsn` is still in the other
        # one.
        is_moved = entry.changed > 0 and entry.changed > self.store.indexed_lsn
        level = self.levels[entry.level]
        if not is_moved and (level is None or not level.is_behind_first(entry.position)):
            return
        if self.gone is NONE_GONE:
            self.gone = {}
        self.gone[entry.message.id] = lsn
        if len(self.gone) > self.gone_max:
            self.prune_gone()
            self.gone_max = max(PRUNE_GONE_MIN, 2 * len(self.gone))

    def note_latest(self, key: bytes, message_id: int, lsn: int) -> None:
        """Note the newest message with a last value key."""
        latest = self.latest
        if latest is None:
            latest = self.latest = Latest()
        latest.note(key, message_id, lsn)
        if latest.is_long and self.store is None:
            aside = (entry for entry in self.entries.values() if entry.place != life.READY)
            oldest = min((entry.message.id for entry in aside), default=PAST_ALL)
            latest.forget_gone(self.entries, oldest)

    def latest_with(self, key: bytes) -> int:
        """Return the newest message that came with a last value key, 0 if there was none.

        It may have left.
        """
        known = self.latest.find(key) if self.latest is not None else 0
        if not known and self.store is not None:
            return self.store.last_value(self, key)
        return known

    def prune_latest(self) -> None:
        """Forget the last value keys that the store has, if there are many."""
        if self.latest is not None and self.latest.is_long and self.store is not None:
            self.latest.forget_indexed(self.store.indexed_lsn)

    def prune_gone(self) -> None:
        """Forget entries that left so long ago that the store does not have them any more."""
        if self.gone and self.store is not None:
            indexed = self.store.indexed_lsn
            kept = {number: lsn for number, lsn in self.gone.items() if lsn > indexed}
            self.gone = kept or NONE_GONE

    def forget_places(self) -> None:
        """Forget the places of entries when all are in flight or in the store, which has the
        places."""
        self.levels = NO_LEVELS
        self.gone = NONE_GONE
        self.oldest = 0
        for entry in self.entries.values():
            entry.linked = False

    # ---- order

    def put(self, entry: Entry) -> None:
        """Add a new entry, behind everything of its priority."""
        number = entry.level
        (self.levels[number] or self.level(number)).put(entry)
        self.occupied |= 1 << number
        if not self.ready_count:
            self.oldest = entry.position
        self.ready_count += 1

    def put_back(self, entry: Entry) -> None:
        """Make an entry ready again, in its original place among those of its priority."""
        entry.state = READY
        self.ready_count += 1
        if entry.position < self.oldest:
            self.oldest = entry.position
        self.occupied |= 1 << entry.level
        self.level(entry.level).put_back(entry)

    def set_aside(self, entry: Entry) -> None:
        """Add a held or scheduled entry, in its place in that level."""
        self.count_standing(entry.level, 1)
        self.level(entry.level).put_back(entry)

    def withdraw(self, entry: Entry, state: int) -> None:
        """Take a READY entry out of its level."""
        entry.state = state
        if entry.level < PRIORITIES:
            self.ready_count -= 1
            self.oldest = 0
        else:
            self.count_standing(entry.level, -1)
        level = self.levels[entry.level]
        if level is not None:
            # The usual case of `Level.withdraw`, written out because it runs for every message.
            line = level.head.line
            if line and line[0] is entry:
                line.popleft()
                entry.linked = False
                return
        if self.withheld and self.withheld.pop(entry.message.id, None) is not None:
            return
        assert level is not None
        level.withdraw(entry)

    def withhold(self, entry: Entry) -> None:
        """Stop delivering a READY, resident entry; it stays in the queue and is counted."""
        assert entry.state == READY
        if entry.message.id not in self.withheld:
            self.level(entry.level).remove(entry)
            self.oldest = 0
            if self.withheld is NONE_WITHHELD:
                self.withheld = {}
            self.withheld[entry.message.id] = entry

    def head(self) -> Entry | None:
        """Return the next entry to deliver, None if nothing is ready."""
        while self.occupied:
            number = self.occupied.bit_length() - 1
            level = self.levels[number]
            assert level is not None
            # The usual case of `Level.first`, written out because it runs for every message.
            head = level.head
            if not head.back and head.line and head.line[0].state == READY:
                return head.line[0]
            entry = self.first_in(number)
            if entry is not None:
                return entry
            self.occupied &= ~(1 << number)
        return None

    def first_in(self, number: int) -> Entry | None:
        """Return the first entry of a level and make it resident; None if the level is empty."""
        level = self.levels[number]
        while level is not None:
            entry = level.first()
            if entry is not None or level.paged is None:
                return entry
            self._page_in(number, level, level.paged)
        return None

    def ready(self) -> Iterator[Entry]:
        """Iterate over ready entries in order of delivery, paged or not; then over withheld ones.

        This does not make paged entries resident: see `make_resident`. Entries may leave during the
        iteration; none may be added.
        """
        for number in range(PRIORITIES - 1, -1, -1):
            yield from self._standing(number)
        yield from list(self.withheld.values())

    def held(self) -> Iterator[Entry]:
        """Iterate over held entries in the order in which they came, as `ready` does."""
        if self.held_count:
            yield from self._standing(HELD_LEVEL)

    def scheduled(self) -> Iterator[Entry]:
        """Iterate over scheduled entries in the order in which they came, as `ready` does."""
        if self.scheduled_count:
            yield from self._standing(SCHEDULED_LEVEL)

    def standing(self) -> Iterator[Entry]:
        """Iterate over all entries that are not in flight: ready, held, and scheduled."""
        yield from self.ready()
        yield from self.held()
        yield from self.scheduled()

    def _standing(self, number: int) -> Iterator[Entry]:
        level = self.levels[number]
        if level is None:
            return
        yield from level.ready()
        paged = level.paged
        if paged is not None:
            yield from self._in_paged(number, paged)
            yield from level.end.ready()

    def _in_paged(self, number: int, paged: PagedRange) -> Iterator[Entry]:
        islands = sorted(
            (entry for entry in paged.islands if entry.state == READY), key=position_of
        )
        yield from merge(islands, self._stored(number, paged), key=position_of)

    def _stored(self, number: int, paged: PagedRange) -> Iterator[Entry]:
        after = paged.after
        assert self.store is not None
        while after < paged.until:
            loaded = self.store.load(self, number, after, self.window)
            yield from (entry for entry in loaded.entries if entry.position <= paged.until)
            after = loaded.reached

    # ---- paged ranges

    def _page_in(self, number: int, level: Level, paged: PagedRange) -> None:
        """Bring the next entries into an empty head, or end an empty paged range."""
        if paged.count:
            level.join(*self._load(number, paged))
        else:
            level.join([], paged.until)
        if paged.count == 0 and not paged.islands:
            level.close_paged()

    def _load(self, number: int, paged: PagedRange) -> tuple[list[Entry], int]:
        """Make the next entries of a paged range resident; return them, and the id up to which they
        are complete."""
        assert self.store is not None
        self.prune_gone()
        loaded = self.store.load(self, number, paged.after, self.window)
        entries = loaded.entries
        if entries and entries[-1].position > paged.until:
            entries = [entry for entry in entries if entry.position <= paged.until]
        for entry in entries:
            self._count_in(entry, paged)
        if paged.count < 0 or (paged.count and loaded.reached >= paged.until):
            raise StoreDamaged(
                f"queue '{self.name}' has {paged.count} messages more in the journal than in the "
                "index"
            )
        return entries, loaded.reached

    def drop_paged_transients(self, lsn: int) -> None:
        """Stop counting the non-persistent messages in the paged ranges: the start of the broker
        removed them."""
        self.transients_from = lsn
        self.oldest = 0
        for number, paged in self.paged_ranges():
            if paged.transients:
                paged.count -= paged.transients
                paged.bytes -= paged.transient_bytes
                self.paged_count -= paged.transients
                self.count_standing(number, -paged.transients)
                self.transient_count -= paged.transients
                self.bytes -= paged.transient_bytes
                paged.transients = paged.transient_bytes = paged.first = 0


def recalls_of(queue: "Queue") -> list[int]:
    """Return how many messages came from history, and how far the recall is, if it is not done.

    If it is done, the message follows up to which they may have been retained, if some were asked
    for. Nothing for a queue without a recall.
    """
    if queue.recall is not None:
        return [queue.recalled, *queue.recall.values()]
    if queue.retained_until:
        return [queue.recalled, queue.retained_until]
    return [queue.recalled] if queue.recalled else []


def set_recalls(queue: "Queue", recalls: list[int]) -> None:
    """Set what `recalls_of` returned."""
    queue.recalled, *values = recalls
    if len(values) == 1:
        queue.retained_until = values[0]
    elif values:
        queue.recall = Recall(*values)
        if queue.recall.retained:
            queue.retained_until = queue.recall.until


class SharedFilter:
    """The filter of one or more bindings of an address, all with the same text.

    `matcher` is None until it is needed; `count` is how many bindings have it.
    """

    __slots__ = ("count", "matcher")

    def __init__(self) -> None:
        self.count = 0
        self.matcher: Filter | None = None


NO_FILTER: Final = SharedFilter()
"""The filter of bindings that have none; must not be changed."""


class Binding:
    """The fact that a queue is bound to an address, with its routing type and filter.

    `address` is the name that messages are sent to. `shared` is the filter, which other bindings of
    the address may have as well. A queue that is not enabled takes nothing, nor does the history of
    an address (`is_shut`); where `served_only` is set, it takes messages only while it has
    consumers.
    `takes_all` says that nothing of this needs a look. `number` rises in the order of
    binding.
    """

    __slots__ = (
        "address", "filter", "is_shut", "number", "queue", "routing_type", "served_only",
        "shared", "takes_all",
    )  # fmt: skip

    def __init__(self, address: str, queue: Queue) -> None:
        self.address = address
        self.queue = queue
        self.number = 0
        self.routing_type = queue.definition.routing_type
        self.filter = queue.definition.filter
        self.served_only = queue.definition.purge_on_no_consumers
        self.shared = NO_FILTER
        self.is_shut = not queue.definition.enabled or bool(queue.definition.keeps)
        self.takes_all = not (self.is_shut or self.served_only or self.filter)

    @property
    def is_open(self) -> bool:
        """Whether it takes every message, without a look at its content."""
        definition = self.queue.definition
        return definition.enabled and not (
            self.filter or self.served_only or definition.keyed_by or definition.keeps
        )


NO_FILTERS: Final[dict[str, SharedFilter]] = {}
"""The filters of every address whose bindings have none; must not be changed."""

NO_BINDINGS: Final[list[Binding]] = []
"""The bindings of every address without any; must not be changed."""


def bound(bindings: list[Binding], binding: Binding) -> list[Binding]:
    """Return the bindings with one more: the same list, unless there were none."""
    if bindings is NO_BINDINGS:
        return [binding]
    if bindings:
        binding.number = bindings[-1].number + 1
    bindings.append(binding)
    return bindings


def place_of(bindings: list[Binding], binding: Binding) -> int:
    """Return the place of a binding. Raises ValueError if it is not there.

    Found by its number: a topic may have a hundred thousand subscribers that leave together.
    """
    place = bisect_left(bindings, binding.number, key=_number_of)
    if place < len(bindings) and bindings[place] is binding:
        return place
    raise ValueError(f"queue '{binding.queue.name}' is not bound")


def _number_of(binding: Binding) -> int:
    return binding.number


def unbound(bindings: list[Binding], binding: Binding) -> list[Binding]:
    """Return the bindings with one less: the same list, unless there are none left."""
    del bindings[place_of(bindings, binding)]
    return bindings or NO_BINDINGS


NO_HISTORIES: "Final[dict[str, Queue]]" = {}
"""Shared by all addresses that keep no history; never changed."""
NEVER_MATCHED: Final[tuple[int, tuple["Address", ...]]] = -1, ()


class Address:
    """A named place that messages are sent to, with its bindings by routing type."""

    __slots__ = (
        "anycast", "arriving_bytes", "arriving_messages", "created_at", "definition", "dropping",
        "duplicates", "emptied_at", "filter_characters", "filters", "guarded", "histories", "id",
        "ids", "is_wildcard", "matched", "multicast", "next_anycast", "next_notice", "only_queue",
        "open_queue", "owner", "paging", "routed", "unrouted", "volatile_ids",
    )  # fmt: skip

    def __init__(self, address_id: int, definition: AddressDefinition) -> None:
        self.id = address_id
        self.definition = definition
        # Whether its name is a pattern (`engine.state.wildcards`).
        self.is_wildcard = syntax_of(definition.syntax).is_pattern(definition.name)
        # The connection that it ends with, 0 if it is not a temporary destination.
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
        # The messages that are still on their way to its queues (`engine.entries.arrivals`).
        self.arriving_bytes = 0
        self.arriving_messages = 0
        # Ids that are remembered in memory only, how many duplicates were dropped, and when the
        # next one is reported (microseconds since 1970).
        self.volatile_ids: IdCache | None = None
        self.duplicates = 0
        # How many messages queues took, and how many none did (`engine.state.address_counts`).
        self.routed = 0
        self.unrouted = 0
        self.next_notice = 0
        # What `engine.state.wildcards` remembers: the wildcard addresses that it matches, and when.
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
