"""Entries, which are a queue's references to messages, and takers, which get them.

A queue knows its consumers only as takers: their connections (`engine.queues.consumer`) do not
matter to it. Must never know queues.
"""

from operator import attrgetter
from typing import Any, Final

from daybook.engine.facts import life
from daybook.engine.facts.settlements import BY_SETTLEMENT
from daybook.engine.messages.message import ENTRY_BYTES, PRIORITIES, Filter, Message

HELD_LEVEL: Final = PRIORITIES
"""The level of entries that are set aside: one for all priorities, and never delivered from."""
SCHEDULED_LEVEL: Final = PRIORITIES + 1
"""The level of entries that are not delivered before a time: likewise one for all priorities."""
LEVELS: Final = PRIORITIES + 2

# States of an entry.
READY: Final = 0
IN_FLIGHT: Final = 1
GONE: Final = 2

RETAINED: Final = 1 << 12
"""Stands for `Entry.retained` among the flags of an entry, in digests and in the index: above those
of events, also where they are shifted (`paging.tables.records`)."""

PLACES: Final = {HELD_LEVEL: life.ON_HOLD, SCHEDULED_LEVEL: life.ON_SCHEDULE}
"""By level, for entries that are not in flight; READY in all other levels."""


NOTHING_PASSED: Final = 0
"""The position before the first entry of any level: see `Entry.position`."""


AGAIN_MAX: Final = 1000
"""How many entries that became ready behind its cursor a consumer remembers. If there are more, the
cursor goes back, and the consumer reads what follows once more."""

SHOWN_BYTES: Final = ENTRY_BYTES
"""What remembering a message that a consumer was shown takes in memory."""

NONE_SHOWN: "Final[dict[int, Entry]]" = {}
NONE_AGAIN: Final[dict[int, int]] = {}
"""Shared by all consumers that have none; never changed."""


class Entry:
    """A queue's reference to a message.

    `position` orders the entries of a level: the LSN of the event by which this one entered the
    queue, which for `Routed` is the id of the message. `linked` says whether it is in one of the
    queue's levels; an entry that is linked and not READY is a tombstone, which keeps its place in
    case the entry returns. `changed` is the LSN at which it last returned, 0 if never: until that
    is indexed, the store has an older version. `redelivered` records that a delivery of it ended,
    even if the attempt does not count. `delivered_at` is when it last went into flight, in
    microseconds since 1970: it says nothing of one that is not in flight. `retained` records that
    the address of the message retained it when a recall put it here.

    READY means that it is in a level: that of its priority, or set aside in HELD_LEVEL or
    SCHEDULED_LEVEL.
    """

    __slots__ = (
        "changed", "consumer", "delivered_at", "delivery_count", "level", "linked", "message",
        "position", "redelivered", "retained", "state",
    )  # fmt: skip

    def __init__(self, message: Message) -> None:
        self.message = message
        self.position = message.id
        self.level = message.priority
        self.delivery_count = self.delivered_at = 0
        self.state = READY
        self.linked = False
        self.consumer: Taker | None = None
        self.changed = 0
        self.redelivered = False
        self.retained = False

    @property
    def held(self) -> bool:
        """Whether it is set aside until it is released."""
        return self.level == HELD_LEVEL

    @property
    def due(self) -> int:
        """Until when it is set aside, in milliseconds since 1970; 0 if it is not scheduled."""
        return 0

    @property
    def place(self) -> str:
        """Where it is, in the words of `engine.facts.life`."""
        if self.state == IN_FLIGHT:
            return life.IN_FLIGHT
        return PLACES.get(self.level, life.READY)

    def moved_to(self, level: int, lsn: int, due: int = 0) -> "Entry":
        """Return an entry like this one for another level; for SCHEDULED_LEVEL with its time.

        This one may stay behind as a tombstone.
        """
        moved = Scheduled(self.message, due) if level == SCHEDULED_LEVEL else Entry(self.message)
        moved.position = self.position
        moved.level = level
        moved.delivery_count = self.delivery_count
        moved.redelivered = self.redelivered
        moved.retained = self.retained
        moved.changed = lsn
        return moved


class Scheduled(Entry):
    """An entry in SCHEDULED_LEVEL: it is not to be delivered before a time."""

    __slots__ = ("_due",)

    def __init__(self, message: Message, due: int) -> None:
        super().__init__(message)
        self.level = SCHEDULED_LEVEL
        self._due: Final = due

    @property
    def due(self) -> int:
        """Until when it is set aside, in milliseconds since 1970."""
        return self._due


NONE_REFUSED: Final[dict[int, None]] = {}
"""The messages that a consumer refused that refused none; never changed."""
REFUSED_MAX: Final = 1_000
"""How many messages a consumer may have refused; of more, the oldest are forgotten."""


class Taker:
    """The part of a consumer that its queue knows: it takes entries, or it reads them.

    `unacked` is what it has in flight, in the order of delivery.
    """

    __slots__ = (
        "ack_mode", "acknowledges", "again", "attempted", "browses", "caught_up", "connection_id",
        "credit_bytes", "credit_messages", "credit_policy", "credited", "credits_early",
        "detaching", "drained", "enlisted", "exclusive", "filter", "first", "handed", "id",
        "matcher", "passed", "priority", "receiver", "refused", "session", "settled_lsn", "shown",
        "subscription", "tells_retained", "unacked", "user",
    )  # fmt: skip

    def __init__(self, consumer_id: int, connection_id: int, user: str) -> None:
        self.id = consumer_id
        self.connection_id = connection_id
        self.user = user
        self.subscription = ""
        self.ack_mode = ""
        self.filter = ""
        self.priority = 0
        self.exclusive = False
        # Whether it only reads (`engine.dispatch.browsers`), and the lowest sequence number that it
        # gets.
        self.browses = False
        self.first = 0
        self.unacked: dict[int, Entry] = {}
        # Messages that it returned as not for itself, the oldest first.
        self.refused: dict[int, None] = NONE_REFUSED
        # Volatile from here on.
        self.acknowledges = True
        self.credits_early = False
        self.tells_retained = False
        self.credit_policy = BY_SETTLEMENT
        self.credit_messages = 0
        self.credit_bytes = 0
        self.matcher: Filter | None = None
        self.receiver: Any = None
        # The session of its connection that it is on, in the numbers of the protocol; 0: none.
        self.session = 0
        # By priority, the position up to which its filter wants no ready entry, or up to which it
        # has read a non-destructive queue, or as a browser.
        self.passed: dict[int, int] = {}
        # For consumers of non-destructive queues, and browsers: entries shown and not settled, the
        # priorities of entries that became ready behind `passed`, by message id, and the newest
        # message of the queue when it had read everything.
        self.shown: dict[int, Entry] = NONE_SHOWN
        self.again: dict[int, int] = NONE_AGAIN
        self.caught_up = -1
        self.enlisted: dict[int, str] = {}
        # How many messages were delivered to it, and how much credit drains took back.
        self.handed = 0
        self.drained = 0
        # Deliveries in flight that are or were settled in a transaction: not only prefetched.
        self.attempted: set[int] = set()
        self.credited: set[int] = set()
        # It is being detached: its deliveries in flight return, and it gets no more.
        self.detaching = False
        # The last LSN of a settlement that continues in the next turn.
        self.settled_lsn = 0

    @property
    def is_selective(self) -> bool:
        """Whether entries are offered to it by rules, not just in turn."""
        return bool(self.filter or self.refused) or self.priority != 0 or self.first > 0

    @property
    def unsettled(self) -> int:
        """How many messages were handed to it that it has not settled."""
        return len(self.unacked) + len(self.shown)

    @property
    def oldest_unsettled(self) -> Entry | None:
        """The message that it has held for longest without settling it, None if it holds none."""
        firsts = [next(iter(each.values())) for each in (self.unacked, self.shown) if each]
        return min(firsts, key=attrgetter("delivered_at"), default=None)

    def refuse(self, message: int) -> None:
        """Note that a message is not for it; whether it is selective may change."""
        if self.refused is NONE_REFUSED:
            self.refused = {}
        self.refused.pop(message, None)
        self.refused[message] = None
        if len(self.refused) > REFUSED_MAX:
            del self.refused[next(iter(self.refused))]

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
