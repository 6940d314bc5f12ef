"""A queue: entries in the order in which they are to be delivered, in memory and out of it.

A level, the ready entries of one priority, is a head, a gap that only the store holds, and a tail
(ADR 7). A level without a gap is its head alone. Entries that are set aside (ADR 25) have a level
of their own, which is paged like the others and never delivered from. What is resident never shows
in what the methods answer. Must never know what brings the store its entries, or when they leave
memory (`engine.residency` decides that).
"""

from collections import deque
from collections.abc import Iterator
from heapq import merge
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from daybook.engine.definitions import QueueDefinition
from daybook.engine.gap import Gap
from daybook.engine.message import (
    GONE,
    HELD_LEVEL,
    LEVELS,
    PRIORITIES,
    READY,
    Entry,
    Filter,
    Message,
)

if TYPE_CHECKING:
    from daybook.engine.state import Address, Consumer

COMPACT_TOMBSTONES_MIN: Final = 64
MERGE_RETURNED_MIN: Final = 16
PRUNE_GONE_MIN: Final = 1024
PAST_ALL: Final = (1 << 63) - 1
"""An id above that of every message."""


Due: TypeAlias = tuple[int, int, int]
"""When something expires, in milliseconds since 1970, its message id and its queue id."""


class StoreError(Exception):
    """The store cannot give what it must have, for now or for good."""


class StoreDamaged(StoreError):
    """What the store itself holds is wrong: it is to be made anew from the journal."""


class ContentError(StoreError):
    """The journal does not give the content of a message: the store is right, and no help."""


class Loaded(NamedTuple):
    """Entries that the store gave, in order, and the id up to which there is none besides."""

    entries: list[Entry]
    reached: int


class Store(Protocol):
    """Who holds the entries that are not in memory: the state at `indexed_lsn`, ready to be read.

    What left a queue since then is in `Queue.gone`, what is resident in `Queue.entries`; both are
    to be passed over, and so are non-persistent messages before `Queue.transients_from`.
    """

    @property
    def indexed_lsn(self) -> int:
        """The LSN whose state the store holds."""
        ...

    def load(self, queue: "Queue", level: int, after: int, window: "Window") -> Loaded:
        """Return the next entries of a level with ids above `after`.

        As many as the window says, but one at least, with content if it says so; if there are no
        more, `reached` is PAST_ALL.
        """
        ...

    def find(self, queue: "Queue", message_id: int) -> Entry | None:
        """Return one entry that is ready or held, without content."""
        ...

    def fill(self, messages: list[Message]) -> None:
        """Fetch headers and bodies of messages that have none; raises StoreError."""
        ...

    def gap_sum(self, queue: "Queue") -> tuple[int, int]:
        """Return how many entries only the store has, and the sum of their hashes."""
        ...

    def due(
        self, after: tuple[int, int, int], until: int, limit: int
    ) -> list[tuple[int, int, int]]:
        """Return (expires, message id, queue id) of what expires up to `until` (milliseconds).

        In order, behind `after`, at most `limit`; with what left or is in flight since.
        """
        ...


class Window:
    """How much of a level comes into memory at a time; one for all queues of a broker.

    Without content for those who only want to be rid of the messages.
    """

    __slots__ = ("bytes", "messages", "with_content")

    def __init__(
        self, messages: int = 1000, size: int = 1024 * 1024, *, with_content: bool = True
    ) -> None:
        self.messages = messages
        self.bytes = size
        self.with_content = with_content


class Queue:
    """A named, ordered store of entries, bound to one address.

    `entries` holds everything that is resident, ready or in flight, by message id. `levels` holds
    the heads, oldest first, one deque a priority and, once something was held, one for that;
    `tails` what stands behind the gap, the same deque if there is none; `occupied` has a bit for
    each level to deliver from that may have some. What came back waits in `returned` until somebody
    looks at the order: one by one, thousands at once would each search for their place.

    `ready_count`, `held_count` and `bytes` count everything, wherever it is.
    """

    __slots__ = (
        "acknowledged", "added", "address", "bytes", "consumers", "dead_lettered", "definition",
        "deleting", "entries", "expired", "gap_count", "gaps", "gone",
        "gone_max", "has_passed", "held_count", "id", "levels", "matcher", "newest",
        "next_consumer", "next_notice", "occupied", "paused", "ready_count", "returned",
        "store", "tails", "tombstones", "transient_count",
        "transients_from", "weight", "window", "withheld",
    )  # fmt: skip

    def __init__(self, queue_id: int, definition: QueueDefinition, address: "Address") -> None:
        self.id = queue_id
        self.definition = definition
        self.address = address
        self.paused = False
        # Deleted, and not empty yet: it has an id, and neither a name nor a binding.
        self.deleting = False
        self.entries: dict[int, Entry] = {}
        self.levels: list[deque[Entry]] = [deque() for _ in range(PRIORITIES)]
        self.tails: list[deque[Entry]] = list(self.levels)
        self.returned: list[Entry] = []
        self.occupied = 0
        self.tombstones = 0
        self.ready_count = 0
        self.held_count = 0
        self.transient_count = 0
        self.bytes = 0
        # What the entries take in memory that are there.
        self.weight = 0
        self.consumers: list[Consumer] = []
        self.added = 0
        self.acknowledged = 0
        self.dead_lettered = 0
        self.expired = 0
        # What is not resident.
        self.store: Store | None = None
        self.gaps: list[Gap | None] | None = None
        self.gap_count = 0
        self.gone: dict[int, int] = {}
        self.gone_max = PRUNE_GONE_MIN
        self.transients_from = 0
        self.window = Window()
        # Volatile. What is ready and not delivered, because it cannot be read, stands in no level.
        self.withheld: dict[int, Entry] = {}
        # When people are told again of what is held (microseconds).
        self.next_consumer = 0
        self.next_notice = 0
        self.matcher: Filter | None = None
        self.has_passed = False  # whether any consumer ever passed something: `Consumer.passed`
        # Id of the message that entered last.
        self.newest = 0

    @property
    def name(self) -> str:
        """Its name, which never changes."""
        return self.definition.name

    @property
    def message_count(self) -> int:
        """How many messages are in the queue, ready, held or in flight."""
        return len(self.entries) + self.gap_count

    def place_of(self, entry: Entry) -> int:
        """Return what orders the entries of a level."""
        return entry.message.id

    # ---- entries by id

    def get(self, message_id: int) -> Entry:
        """Return an entry by id, resident from here on; KeyError if the queue does not have it."""
        entry = self.entries.get(message_id)
        return entry if entry is not None else self._fault(message_id)

    def find(self, message_id: int) -> Entry | None:
        """Return an entry by id, resident from here on; None if the queue does not have it."""
        entry = self.entries.get(message_id)
        if entry is None and self.gap_count:
            try:
                return self._fault(message_id)
            except KeyError:
                return None
        return entry

    def _fault(self, message_id: int) -> Entry:
        if self.store is None or not self.gap_count or message_id in self.gone:
            raise KeyError(message_id)
        entry = self.store.find(self, message_id)
        if entry is None:
            raise KeyError(message_id)
        gap = self.gap(entry.level)
        if gap is None or not gap.after < message_id <= gap.until:
            raise KeyError(message_id)
        self._adopt(entry)
        return entry

    def make_resident(self, entry: Entry) -> None:
        """Take an entry that `ready` gave into memory, if it is not there."""
        if entry.message.id not in self.entries:
            self._adopt(entry)

    def _adopt(self, entry: Entry) -> None:
        """Make an entry of a gap resident, where it stands."""
        gap = self.gap(entry.level)
        assert gap is not None
        self.entries[entry.message.id] = entry
        gap.subtract(entry.message)
        self.weight += entry.message.weight
        self.gap_count -= 1
        entry.linked = True
        gap.islands.append(entry)

    def gap(self, priority: int) -> Gap | None:
        """Return the gap of a level, None if it has none."""
        return self.gaps[priority] if self.gaps is not None else None

    def note_gone(self, entry: Entry, lsn: int) -> None:
        """Remember what left where the store may still be read for it: behind something ready."""
        message_id = entry.message.id
        if self.store is None:
            return
        # What changed its level since the store looked is still in the other one there.
        is_moved = entry.changed > 0 and entry.changed > self.store.indexed_lsn
        if not (self.returned or is_moved):
            level = self.levels[entry.level]
            gap = self.gap(entry.level)
            behind_head = bool(level) and level[0].message.id < message_id
            if not behind_head and (gap is None or message_id <= gap.after):
                return
        self.gone[message_id] = lsn
        if len(self.gone) > self.gone_max:
            self.prune_gone()
            self.gone_max = max(PRUNE_GONE_MIN, 2 * len(self.gone))

    def prune_gone(self) -> None:
        """Forget what left so long ago that the store does not have it any more."""
        if self.gone and self.store is not None:
            indexed = self.store.indexed_lsn
            self.gone = {number: lsn for number, lsn in self.gone.items() if lsn > indexed}

    # ---- order

    def put(self, entry: Entry) -> None:
        """Add an entry that is new: behind everything of its priority."""
        priority = entry.level
        self.tails[priority].append(entry)
        entry.linked = True
        self.occupied |= 1 << priority
        self.ready_count += 1

    def put_back(self, entry: Entry) -> None:
        """Make an entry ready again, in its original place among those of its priority."""
        entry.state = READY
        self.ready_count += 1
        self.occupied |= 1 << entry.level
        if entry.linked:
            self.tombstones -= 1
            return
        entry.linked = True
        self.returned.append(entry)

    def set_aside(self, entry: Entry) -> None:
        """Take in an entry that is held, in its place among those."""
        if len(self.levels) == PRIORITIES:
            self._add_held_level()
        self.held_count += 1
        entry.linked = True
        self.returned.append(entry)

    def _add_held_level(self) -> None:
        level: deque[Entry] = deque()
        self.levels.append(level)
        self.tails.append(level)

    def order_returned(self) -> None:
        """Put what came back into its original place among those of its priority."""
        returned = self.returned
        self.returned = []
        parts: dict[tuple[int, int], list[Entry]] = {}
        for entry in returned:
            level = entry.level
            gap = self.gap(level)
            number = self.place_of(entry)
            if gap is None or number <= gap.after:
                parts.setdefault((level, 0), []).append(entry)
            elif number <= gap.until:
                gap.islands.append(entry)
            else:
                parts.setdefault((level, 1), []).append(entry)
        for (level, behind), entries in parts.items():
            side = self.tails if behind else self.levels
            if len(entries) < MERGE_RETURNED_MIN:
                for entry in entries:
                    self._insert(side[level], entry)
            else:
                self._merge(side[level], entries)

    def _insert(self, level: deque[Entry], entry: Entry) -> None:
        place = self.place_of(entry)
        last = level[-1] if level else None
        if last is None or (last.state != GONE and self.place_of(last) < place):
            # Where nearly everything that is set aside belongs.
            level.append(entry)
            return
        position = 0
        for other in level:
            if other.state != GONE and self.place_of(other) > place:
                break
            position += 1
        level.insert(position, entry)

    def _merge(self, level: deque[Entry], entries: list[Entry]) -> None:
        for entry in level:
            if entry.state != GONE:
                entries.append(entry)
            else:
                self.unlink(entry)
        entries.sort(key=self.place_of)
        level.clear()
        level.extend(entries)

    def unlink(self, tombstone: Entry) -> None:
        """Forget the place of an entry that is not ready."""
        tombstone.linked = False
        self.tombstones -= 1

    def withdraw(self, entry: Entry, state: int) -> None:
        """Take a READY entry out of its level, leaving a tombstone if it is not the first."""
        if self.returned:
            self.order_returned()
        entry.state = state
        if entry.level == HELD_LEVEL:
            self.held_count -= 1
        else:
            self.ready_count -= 1
        level = self.levels[entry.level]
        if level and level[0] is entry:
            level.popleft()
            entry.linked = False
            return
        if self.withheld.pop(entry.message.id, None) is not None:
            return
        self.tombstones += 1
        if (
            self.tombstones > COMPACT_TOMBSTONES_MIN
            and self.tombstones > self.ready_count + self.held_count - self.gap_count
        ):
            self._compact()

    def withhold(self, entry: Entry) -> None:
        """Deliver a READY entry that is resident no more; it stays in the queue and counts."""
        assert entry.state == READY
        if self.returned:
            self.order_returned()
        if entry.message.id in self.withheld:
            return
        priority = entry.message.priority
        gap = self.gap(priority)
        for part in (self.levels[priority], self.tails[priority], gap.islands if gap else []):
            if entry in part:
                part.remove(entry)
                break
        entry.linked = False
        self.withheld[entry.message.id] = entry

    def head(self) -> Entry | None:
        """Return the entry that is to be delivered next, None if nothing is ready."""
        if self.returned:
            self.order_returned()
        while self.occupied:
            priority = self.occupied.bit_length() - 1
            level = self.levels[priority]
            while level:
                entry = level[0]
                if entry.state == READY:
                    return entry
                level.popleft()
                self.unlink(entry)
            if self.gaps is None or not self._page_in(priority):
                self.occupied &= ~(1 << priority)
        return None

    def ready(self) -> Iterator[Entry]:
        """Iterate over what is ready, in order of delivery, paged or not; then what is withheld.

        Entries of a gap do not become resident by it: see `make_resident`. What was given may
        leave meanwhile; nothing may come.
        """
        if self.returned:
            self.order_returned()
        for level in range(PRIORITIES - 1, -1, -1):
            yield from self._standing(level)
        yield from list(self.withheld.values())

    def held(self) -> Iterator[Entry]:
        """Iterate over what is held, in the order in which it came, as `ready` does."""
        if self.returned:
            self.order_returned()
        if self.held_count:
            yield from self._standing(HELD_LEVEL)

    def _standing(self, level: int) -> Iterator[Entry]:
        for entry in list(self.levels[level]):
            if entry.state == READY:
                yield entry
        gap = self.gap(level)
        if gap is not None:
            yield from self._in_gap(level, gap)
            for entry in list(self.tails[level]):
                if entry.state == READY:
                    yield entry

    def _in_gap(self, level: int, gap: Gap) -> Iterator[Entry]:
        islands = [entry for entry in gap.islands if entry.state == READY]
        islands.sort(key=self.place_of)
        yield from merge(islands, self._stored(level, gap), key=self.place_of)

    def _stored(self, level: int, gap: Gap) -> Iterator[Entry]:
        after = gap.after
        assert self.store is not None
        while after < gap.until:
            loaded = self.store.load(self, level, after, self.window)
            yield from (entry for entry in loaded.entries if entry.message.id <= gap.until)
            after = loaded.reached

    def _compact(self) -> None:
        for number, level in enumerate(self.levels):
            self._compact_level(level)
            tail = self.tails[number]
            if tail is not level:
                self._compact_level(tail)
            gap = self.gap(number)
            if gap is not None:
                for entry in gap.islands:
                    entry.linked = entry.state == READY
                gap.islands = [entry for entry in gap.islands if entry.linked]
        self.tombstones = 0

    def _compact_level(self, level: deque[Entry]) -> None:
        """In place, because a head without a gap is its own tail."""
        kept = []
        for entry in level:
            entry.linked = entry.state == READY
            if entry.linked:
                kept.append(entry)
        level.clear()
        level.extend(kept)

    # ---- gaps

    def open_gap(self, level: int, after: int, until: int) -> Gap:
        """Begin a gap behind the head of a level, or return the one there is.

        From here on new entries go to the tail.
        """
        gap = self.gap(level)
        if gap is None:
            if level == HELD_LEVEL and len(self.levels) == PRIORITIES:
                self._add_held_level()
            if self.gaps is None:
                self.gaps = [None] * LEVELS
            gap = self.gaps[level] = Gap(after, until)
            self.tails[level] = deque()
        return gap

    def _close_gap(self, priority: int) -> None:
        """End a gap that holds nothing any more."""
        assert self.gaps is not None
        self.levels[priority].extend(self.tails[priority])
        self.tails[priority] = self.levels[priority]
        self.gaps[priority] = None
        if not any(self.gaps):
            self.gaps = None

    def _page_in(self, priority: int) -> bool:
        """Bring what comes next into an empty head; return whether anything is in it then."""
        gap = self.gap(priority)
        if gap is None:
            return False
        level = self.levels[priority]
        while not level:
            loaded: list[Entry] = []
            if gap.count:
                loaded = self._load(priority, gap)
            else:
                gap.after = gap.until
            self._join_islands(level, gap, loaded)
            if gap.count == 0 and not gap.islands:
                self._close_gap(priority)
                return bool(level)
        return True

    def _load(self, priority: int, gap: Gap) -> list[Entry]:
        assert self.store is not None
        self.prune_gone()
        loaded = self.store.load(self, priority, gap.after, self.window)
        entries = loaded.entries
        if entries and entries[-1].message.id > gap.until:
            entries = [entry for entry in entries if entry.message.id <= gap.until]
        for entry in entries:
            self.entries[entry.message.id] = entry
            entry.linked = True
            gap.subtract(entry.message)
            self.weight += entry.message.weight
        self.gap_count -= len(entries)
        if gap.count < 0 or (gap.count and loaded.reached >= gap.until):
            raise StoreDamaged(
                f"queue '{self.name}' has {gap.count} messages more in the journal than in the "
                "index"
            )
        gap.after = min(loaded.reached, gap.until)
        return entries

    def _join_islands(self, level: deque[Entry], gap: Gap, loaded: list[Entry]) -> None:
        """Put what was loaded into the head, with the islands that stand before its end."""
        if not gap.islands:
            level.extend(loaded)
            return
        apart = []
        for entry in gap.islands:
            if entry.state != READY:
                self.unlink(entry)
            elif self.place_of(entry) <= gap.after:
                loaded.append(entry)
            else:
                apart.append(entry)
        gap.islands = apart
        loaded.sort(key=self.place_of)
        level.extend(loaded)

    def drop_paged_transients(self, lsn: int) -> None:
        """Count no more what is non-persistent in the gaps: it went with the broker's start."""
        self.transients_from = lsn
        for level, gap in enumerate(self.gaps or ()):
            if gap is not None and gap.transients:
                gap.count -= gap.transients
                gap.bytes -= gap.transient_bytes
                self.gap_count -= gap.transients
                if level == HELD_LEVEL:
                    self.held_count -= gap.transients
                else:
                    self.ready_count -= gap.transients
                self.transient_count -= gap.transients
                self.bytes -= gap.transient_bytes
                gap.transients = gap.transient_bytes = 0
