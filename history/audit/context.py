"""The view of the rules: the state before an event, the time, and the block of the event.

Keeps up to date the values that the engine derives from the state (`Core`), and the few facts that
only earlier events record. Must never know what a rule says.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from daybook.engine.consumers.sequences import filter_of
from daybook.engine.core.core import Core, Options
from daybook.engine.facts import events
from daybook.engine.facts.events import BODY_OMITTED, KIND, LARGE, RELATED, Row
from daybook.engine.facts.kinds import changing
from daybook.engine.facts.life import BEGINS, BROKER
from daybook.engine.messages.content import is_known
from daybook.engine.messages.message import Message
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import Binding, ContentError, Queue
from daybook.engine.queues.window import Window
from daybook.engine.settings.distributions import Distributions
from daybook.engine.settings.link_routes import LinkRoutes
from daybook.engine.state.state import State
from daybook.history.audit import feature_levels, rules
from daybook.history.audit.direct_ledger import DirectLedger
from daybook.history.audit.rules import Wrong

Folded: TypeAlias = tuple[int, Row, bytes, bytes, bytes]
"""An event as a block returns it: LSN, row, detail, headers and body."""

STARTS: Final = changing({BROKER}, {BEGINS})
BARE: Final = Window(1000, 1 << 40, with_content=False)
"""How many entries come from the index at a time."""
ANY_LARGE: Final = 0
"""In the place of a message that could not be read: it may be any large one."""
NOT_REQUESTED: Final = "no administrator's request covers it"
RETURNED_MAX: Final = 10_000
"""How many messages that came back to one ring are known by themselves."""
NOTHING: Final[frozenset[int]] = frozenset()


class AuditContext:
    """The state before an event, and the events around it.

    `known_from` is the event whose state the audit began with: what only earlier events tell is
    unknown. `events` are those of the block; the current one is at `at`, and `lsn`, `detail`,
    `headers` and `body` are its own.
    """

    def __init__(self, state: State, lsn: int, options: Options) -> None:
        self.core: Final = Core(state, lsn + 1, options)
        self.state: Final = state
        self.known_from = lsn
        self.events: list[Folded] = []
        self.at = 0
        self.lsn = lsn
        # The broker that decides, whose rules are asked, and the newest that led a cluster.
        self.decider = feature_levels.NOBODY
        self.leader = feature_levels.NOBODY
        self.detail = self.headers = self.body = b""
        # By LSN, the length of a large body up to this chunk, and its connection; those of the
        # messages of this block are forgotten at its end.
        self.chunks: dict[int, tuple[int, int]] = {}
        self.used: list[int] = []
        # Messages that could not be read, by queue: others may pass them. A message that a consumer
        # only sees has no event of its end, so there it may have been any large one.
        self.unreadable: set[tuple[int, int]] = set()
        # Consumers by how their deliveries were seen to be acknowledged.
        self.automatic: set[int] = set()
        self.manual: set[int] = set()
        # Consumers whose filter cannot be compiled any more.
        self.unclear: set[int] = set()
        # Subscriptions to several queues, with their connections.
        self.bundles: dict[int, int] = {}
        # By connection, for which reason something of it ended because it does, and by which event;
        # by consumer, the same of its deliveries.
        self.ending: dict[int, tuple[int, int]] = {}
        self.detaching: dict[int, tuple[int, int]] = {}
        # By queue, which consumer has a message group.
        self.groups: dict[int, dict[int, int]] = {}
        # By queue, the messages that came back to a ring since the broker started, or were in
        # flight before: they may leave first. None for a queue with too many.
        self.interrupted: set[tuple[int, int]] = set()
        self.returned: dict[int, set[int] | None] = {}
        self.direct = DirectLedger(lsn)
        self._requests: list[tuple[int, int]] | None = None
        # Content is read where a rule asks for it: it may have left with its segment.
        state.window = BARE
        for queue in state.queues.values():
            queue.window = BARE
        for consumer in state.consumers.values():
            self.prepare(consumer)

    def begin(self, found: list[Folded]) -> None:
        """Turn to the events of the next block."""
        self.events = found
        self.at = 0
        self._requests = None
        for lsn in self.used:
            self.chunks.pop(lsn, None)
        self.used.clear()

    def turn(self, at: int, event: Folded) -> None:
        """Turn to an event of the block."""
        self.at = at
        self.lsn, _, self.detail, self.headers, self.body = event

    def forget(self, connection: int) -> None:
        """Forget the chunks, subscriptions and links of a connection that ended."""
        self.direct.close(connection)
        if self.bundles:
            for bundle in [each for each, its in self.bundles.items() if its == connection]:
                del self.bundles[bundle]
        if self.chunks:
            ended = [lsn for lsn, (_, its) in self.chunks.items() if its == connection]
            for lsn in ended:
                del self.chunks[lsn]

    def has(self, change: feature_levels.Change) -> bool:
        """Whether the broker that decided the event had a rule already."""
        return self.decider.level >= change.level

    def start(self) -> None:
        """Forget what ended with the broker before; another one decides from here on."""
        self.leader = self.last_leader()
        self.decider = feature_levels.decider_of(self.lsn, self.detail)
        for known in (self.chunks, self.unreadable, self.automatic, self.manual, self.unclear):
            known.clear()
        for ended in (self.bundles, self.ending, self.detaching, self.groups, self.returned):
            ended.clear()
        self.direct = DirectLedger(0)
        self.distribute(Distributions(), LinkRoutes())

    def last_leader(self) -> feature_levels.Decider:
        """Return the broker with the newest epoch so far."""
        return max(self.leader, self.decider, key=lambda each: each.epoch)

    def distribute(self, table: Distributions, routes: LinkRoutes) -> None:
        """Put a table of direct addresses in force, and one of link routes."""
        self.core.direct.distributions = table
        self.core.routed.table = routes
        self.core.direct.routes.clear()
        self.direct.knows_table = True
        for waypoint in table.waypoints:
            self.direct.follow(waypoint)

    def lose_links(self) -> None:
        """Forget all about direct addresses: events are missing."""
        self.direct = DirectLedger(self.lsn)

    def adopt(self, before: "AuditContext") -> None:
        """Take over what only earlier events tell from the context of the events before."""
        self.chunks, self.unreadable = before.chunks, before.unreadable
        self.automatic, self.manual = before.automatic, before.manual
        self.used, self.bundles = before.used, before.bundles
        self.ending, self.detaching, self.groups = before.ending, before.detaching, before.groups
        self.interrupted, self.returned = before.interrupted, before.returned
        self.known_from = before.known_from
        self.decider, self.leader = before.decider, before.leader
        self.direct = before.direct
        self.core.direct.distributions = before.core.direct.distributions
        self.core.routed.table = before.core.routed.table

    def note_returned(self, queue: Queue, message: int) -> None:
        """Note that a message is in a ring again."""
        known = self.returned.setdefault(queue.id, set())
        if known is not None:
            known.add(message)
            if len(known) > RETURNED_MAX:
                self.returned[queue.id] = None

    def may_have_returned(self, queue: Queue, message: int) -> bool:
        """Whether a message may have come back to a ring since the broker started."""
        if message <= self.known_from or (queue.id, message) in self.interrupted:
            return True
        known = self.returned.get(queue.id, NOTHING)
        return known is None or message in known

    def may_be_withheld(self, queue: Queue, message: Message) -> bool:
        """Whether a message may have stayed where it is since it could not be read."""
        if message.flags & LARGE and (queue.id, ANY_LARGE) in self.unreadable:
            return True
        return (queue.id, message.id) in self.unreadable

    # ---- values that the engine derives

    def prepare(self, consumer: Consumer) -> None:
        """Give a consumer the compiled filter that it has in a broker."""
        core = self.core
        try:
            own = None
            if consumer.filter:
                own = core.options.compile_filter(consumer.filter, core.address_name)
            consumer.matcher = filter_of(consumer, own)
        except ValueError:
            self.unclear.add(consumer.id)

    # ---- around the event

    @property
    def following(self) -> Iterator[Folded]:
        """The later events of the block."""
        for at in range(self.at + 1, len(self.events)):
            yield self.events[at]

    @property
    def next(self) -> Folded | None:
        """The next event of the block, None at its end."""
        return self.events[self.at + 1] if self.at + 1 < len(self.events) else None

    @property
    def previous(self) -> Folded | None:
        """The event before in the block, None at its beginning."""
        return self.events[self.at - 1] if self.at else None

    def earlier(self, lsn: int) -> Folded | None:
        """Return an earlier event of the block, None if it is in none."""
        at = self.at - (self.lsn - lsn)
        return self.events[at] if 0 <= at < self.at else None

    def is_requested(self) -> bool:
        """Whether an administrator's request covers the event."""
        if self._requests is None:
            self._requests = [
                (row[RELATED], lsn)
                for lsn, row, _, _, _ in self.events
                if row[KIND] == events.ADMINISTERED
            ]
        return any(first <= self.lsn <= last for first, last in self._requests)

    def unrequested(self, *messages: int) -> Wrong | None:
        """Return a breach, with messages as proof, if no administrator's request covers the event;
        None if one does."""
        return None if self.is_requested() else (rules.REQUESTED, NOT_REQUESTED, messages)

    def dropped_at(self) -> set[int]:
        """Return the addresses that dropped the message of this Routed for their own queues."""
        found = set()
        original = self.events[self.at][1][RELATED]
        for _, row, _, _, _ in self.following:
            if row[KIND] == events.ROUTED and row[RELATED] != self.lsn:
                break
            # Those of copies that diverts made of it name it.
            if row[KIND] == events.DROPPED and row[RELATED] == original:
                found.add(row[events.ADDRESS])
        return found

    # ---- contents

    def can_read(self, message: Message) -> bool:
        """Whether the journal has the headers and body of a message; they are resident then."""
        if message.flags & BODY_OMITTED or not is_known(message.flags):
            return False
        if not message.resident:
            if self.state.store is None:
                return False
            try:
                self.core.fill(message)
            except ContentError:
                return False
        return True

    def accepts(self, binding: Binding, message: Message) -> bool | None:
        """Whether a message passes the filter of a binding, None if nobody knows."""
        if binding.filter and not self.can_read(message):
            return None
        return self.core.accepts(binding, message)

    def wants(self, consumer: Consumer, message: Message) -> bool | None:
        """Whether a message passes the filter of a consumer, None if nobody knows."""
        if message.id in consumer.refused:
            return False
        if consumer.matcher is None and consumer.id not in self.unclear:
            return True
        if consumer.matcher is None or (consumer.filter and not self.can_read(message)):
            return None
        return consumer.matcher.matches(message)


def entry_of(context: AuditContext, row: Row) -> tuple[Queue, Entry]:
    """Return the queue and the entry of an event. Raises KeyError if there is none."""
    queue = context.state.queues[row[events.QUEUE]]
    return queue, queue.get(row[events.MESSAGE])
