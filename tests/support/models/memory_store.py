"""A store in memory: the reference implementation of `engine.queues.queue.Store`.

It folds a prefix of a journal with the engine's own `apply` into an ordinary state, completely in
memory, and answers from that. It is slow and obviously right, without pages and caches.
"""

from collections.abc import Iterator, Sequence

from daybook.engine.facts.details import Origin
from daybook.engine.facts.events import LARGE, ROUTED, TIME, chunk_lsns
from daybook.engine.messages.annotations import annotated
from daybook.engine.messages.message import Message, message_without_content
from daybook.engine.messages.origins import journaled
from daybook.engine.queues.entry import READY, Entry, Scheduled
from daybook.engine.queues.queue import PAST_ALL, Due, Loaded, Queue, StoreError
from daybook.engine.queues.window import Window
from daybook.engine.state.apply import apply
from daybook.engine.state.digest import U64, entry_hash
from daybook.engine.state.state import State
from daybook.engine.state.timers import EXPIRY
from tests.support.world import Event


class MemoryStore:
    """The state of a journal at `indexed_lsn`, as a store.

    `journal` may grow meanwhile; event n is expected at position n - 1. The store learns of events
    only by `advance`.
    """

    def __init__(self, journal: Sequence[Event]) -> None:
        self.journal = journal
        self.state = State()
        self._indexed_lsn = 0

    @property
    def indexed_lsn(self) -> int:
        return self._indexed_lsn

    def advance(self, lsn: int) -> None:
        """Advance to the state at a later LSN, which the journal must have."""
        assert self._indexed_lsn <= lsn <= len(self.journal)
        for position in range(self._indexed_lsn, lsn):
            apply(self.state, *self.journal[position])
        self._indexed_lsn = lsn

    def _stored(self, queue: Queue) -> Iterator[Entry]:
        """The entries of a queue that only the store has, in order of delivery."""
        known = self.state.queues.get(queue.id)
        for entry in known.standing() if known is not None else ():
            if _is_missing(entry.message, queue):
                yield entry

    def load(self, queue: Queue, level: int, after: int, window: Window) -> Loaded:
        """Return the next ready entries of a level: see `engine.queues.queue.Store`."""
        entries: list[Entry] = []
        reached = PAST_ALL
        room = window.bytes
        known = self.state.queues.get(queue.id)
        for stored in known.standing() if known is not None else ():
            message = stored.message
            # What most of them are is asked first.
            if message.id <= after or stored.level != level or not _is_missing(message, queue):
                continue
            room -= message.size
            if entries and (room < 0 or len(entries) >= window.messages):
                reached = entries[-1].message.id
                break
            entries.append(_copy(stored))
        if window.with_content:
            self.fill([entry.message for entry in entries])
        return Loaded(entries, reached)

    def firsts(self, wanted: Sequence[tuple[Queue, int, int]]) -> list[int]:
        """Return the next entry of each level: see `engine.queues.queue.Store`."""
        alone = Window(1, with_content=False)
        found = [self.load(*each, alone).entries for each in wanted]
        return [entries[0].message.id if entries else 0 for entries in found]

    def pass_over(self, queue: Queue, level: int, after: int, most: int) -> tuple[int, int]:
        """Count the next entries of a level: see `engine.queues.queue.Store`."""
        bare = Window(most, 1 << 62, with_content=False)
        paged = queue.paged_range(level)
        until = paged.until if paged is not None else PAST_ALL
        found = [
            each
            for each in self.load(queue, level, after, bare).entries
            if each.message.id <= until
        ]
        is_all = len(found) < most
        return len(found), PAST_ALL if is_all else found[-1].message.id

    def find(self, queue: Queue, message_id: int) -> Entry | None:
        """Return one ready entry, without content."""
        known = self.state.queues.get(queue.id)
        stored = known.entries.get(message_id) if known is not None else None
        if stored is None or stored.state != READY or not _is_missing(stored.message, queue):
            return None
        return _copy(stored)

    def entered(self, message_id: int) -> int:
        """Return when a message entered its queue."""
        if not 0 < message_id <= len(self.journal):
            raise StoreError(f"the journal has no message {message_id}")
        return self.journal[message_id - 1].row[TIME]

    def last_value(self, queue: Queue, key: bytes) -> int:
        """Return the newest message with a last value key."""
        known = self.state.queues.get(queue.id)
        return known.latest_with(key) if known is not None else 0

    def fill(self, messages: list[Message]) -> None:
        """Give messages their headers and bodies from the journal."""
        for message in messages:
            if not 0 < message.id <= len(self.journal):
                raise StoreError(f"the journal has no message {message.id}")
            event = self.journal[message.id - 1]
            if event.row[0] != ROUTED:
                raise StoreError(f"event {message.id} is {event.name}, not a message")
            message.headers = event.headers
            message.body = event.body
            message.resident = True
            if message.flags & LARGE:
                message.enlarge(chunk_lsns(event.decoded), event.decoded.body_bytes)

    def origin(self, message: Message) -> Origin | None:
        """Return where a message was before."""
        event = self.journal[message.id - 1]
        return journaled(event.row, event.decoded, event.headers)

    def paged_sum(self, queue: Queue) -> tuple[int, int]:
        """Return how many entries lie in the queue's paged ranges, and the sum of their hashes."""
        count = total = 0
        for entry in self._stored(queue):
            paged = queue.paged_range(entry.level)
            if paged is not None and paged.after < entry.message.id <= paged.until:
                count += 1
                total += entry_hash(queue.id, entry)
        return count, total & U64

    def due(self, reason: int, after: Due, until: int, limit: int) -> list[Due]:
        """Return timers up to a time, in order: see `engine.queues.queue.Store`."""
        standing = [
            (queue.id, entry)
            for queue in self.state.queues.values()
            for entry in queue.entries.values()
            if entry.state == READY and not entry.held
        ]
        times = [
            (entry.message.expires if reason == EXPIRY else entry.due, entry.message.id, queue_id)
            for queue_id, entry in standing
        ]
        found = [timer for timer in times if timer[0]]
        return sorted(item for item in found if after < item and item[0] <= until)[:limit]


def _is_missing(message: Message, queue: Queue) -> bool:
    """Whether a queue does not have a message of its own that the store has."""
    is_known = message.id in queue.entries or message.id in queue.gone
    return not is_known and (message.persistent or message.id > queue.transients_from)


def _copy(stored: Entry) -> Entry:
    """Return a copy of an entry, without content."""
    known = stored.message
    noted = known.annotations
    message = annotated(
        message_without_content(
            known.id, known.address_id, known.priority, known.flags, known.expires,
            known.size - len(noted),
        ),
        noted,
    )  # fmt: skip
    entry = Scheduled(message, stored.due) if stored.due else Entry(message)
    entry.delivery_count = stored.delivery_count
    entry.redelivered = stored.redelivered
    entry.retained = stored.retained
    entry.level = stored.level
    return entry
