"""Consumers, their connections, and the bundles of consumers of one subscription.

A bundle is one subscription to several queues (ADR 60): it has a consumer in each of its queues,
its *members*. They use one credit, and what they have in flight is in one order, that of the
deliveries; everything else is that of any consumer. When there is no credit, members with something
to take wait in line, and the first of them is served first when credit returns.

Bundles, states of browses and indexes are derived or volatile: they end with the connection. Must
never know how a queue is found, who gets an entry, or how a delivery is settled.
"""

from itertools import islice
from typing import Any, Final, Protocol, TypeAlias, cast

from daybook.engine.facts.events import ACKNOWLEDGED, DELIVERED
from daybook.engine.facts.rows import TAKER_STRUCT, RowHead
from daybook.engine.facts.settlements import BY_SETTLEMENT, UNMETERED
from daybook.engine.messages.message import PRIORITIES, Filter
from daybook.engine.names.names import HOST
from daybook.engine.queues.entry import Entry, Taker
from daybook.engine.queues.hashed_groups import HashedGroups
from daybook.engine.queues.queue import Queue

UNLIMITED: Final = 1 << 62

Key: TypeAlias = tuple[int, int]
"""The place of an entry in the order in which a browser reads: by level, then by position."""

BEHIND_ALL: Final[Key] = (PRIORITIES, 0)

Place: TypeAlias = tuple[int, int]
"""A delivery of a bundle: the consumer, and the message."""


LOST_MAX: Final = 1_000
"""How many lost deliveries a bundle remembers."""
BUNDLED_BYTES: Final = 384
"""The memory of a delivery in the order of a bundle, beyond that of its consumer."""


class Consumer(Taker):
    """A peer's right to take from a queue, with what it has in flight in order of delivery.

    Of the volatile attributes, `browse` is what a browser has still to read, `bundle` what it is a
    member of, and `index` finds what it has in flight. `packed`, with the two heads, is what rows
    say of it.
    """

    __slots__ = (
        "acknowledged_head", "browse", "bundle", "connection", "delivered_head", "index", "packed",
        "queue",
    )  # fmt: skip

    def __init__(self, consumer_id: int, connection: "Connection", queue: Queue) -> None:
        super().__init__(consumer_id, connection.id, connection.user)
        self.connection = connection
        self.queue = queue
        self.browse: BrowseState | None = None
        self.bundle: Bundle | None = None
        self.index: InFlightIndex | None = None
        self.packed: Final = TAKER_STRUCT.pack(consumer_id, connection.id, 0)
        self.delivered_head: Final = RowHead(DELIVERED)
        self.acknowledged_head: Final = RowHead(ACKNOWLEDGED)

    @property
    def is_found(self) -> bool:
        """Whether a pattern of its subscription found its queue, which nobody named."""
        return self.bundle is not None and self.id in self.bundle.found


def consumer_of(entry: Entry) -> Consumer | None:
    """Return the consumer that has an entry in flight, None if it is not in flight."""
    return cast("Consumer | None", entry.consumer)


def as_consumer(taker: Taker) -> Consumer:
    """Return a taker as the consumer that it is."""
    return cast("Consumer", taker)


def browsers_of(queue: Queue) -> list[Consumer]:
    """Return the browsers of a queue: the list itself."""
    return cast("list[Consumer]", queue.browsers)


def consumers_of(queue: Queue) -> list[Consumer]:
    """Return the consumers of a queue: the list itself, in the order of attaching."""
    return cast("list[Consumer]", queue.consumers)


class Connection:
    """A peer that logged in.

    `unacked_bytes` is derived: the size of its deliveries in flight. Once it reaches `unacked_max`
    the connection is `sated` and gets nothing more until much of it was settled. `holders` are its
    consumers by the id of the messages they have in flight, None if none of them needs that. On one
    that `is_trusted` the broker itself acts, by the right of its configuration.
    """

    __slots__ = (
        "bundles", "client_id", "consumers", "forwarded_bytes", "holders", "host", "id",
        "is_trusted", "peer", "protocol", "room", "sated", "shown_bytes", "transactions",
        "unacked_bytes", "unacked_max", "user",
    )  # fmt: skip

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
        # showed its consumers, and for the orders of its bundles; `forwarded_bytes` is that for
        # its receivers of direct addresses.
        self.is_trusted = False
        self.shown_bytes = 0
        self.forwarded_bytes = 0
        self.room = 0
        self.unacked_max = UNLIMITED
        self.sated = False
        self.transactions: dict[str, Any] = {}
        self.bundles: dict[int, Bundle] = {}
        self.holders: dict[int, list[Consumer]] | None = None


class BrowseState:
    """The way of one browser through its queue.

    `ends` says whether it ends behind the last message; `is_over` that it has. `waits` says that
    there is a message for it that it could not take for want of credit.
    """

    __slots__ = ("ends", "in_sequence", "is_over", "waits")

    def __init__(self, *, ends: bool, in_sequence: bool) -> None:
        self.ends: Final = ends
        self.in_sequence: Final = in_sequence
        self.is_over = False
        self.waits = False

    def key_of(self, entry: Entry) -> Key:
        """Return the place of an entry: by arrival alone in sequence, else by priority first."""
        return self.key_at(entry.level, entry.position)

    def key_at(self, level: int, position: int) -> Key:
        """Return the place of a position of a level."""
        return (0 if self.in_sequence else PRIORITIES - 1 - level), position


class InFlightIndex:
    """Finds the deliveries of one consumer without a walk over all of them. Derived and volatile.

    Commands that settle by a message's id alone need the consumer of a connection that has the
    message. Commands that settle all deliveries up to one, in transactions, must not look again at
    those that transactions hold. Only consumers that need one of the two have an index, which every
    change of their deliveries in flight keeps up to date.

    `holders` is shared by the consumers of a connection: by message id, the consumers that have it
    in flight; None if the protocol does not need it. `settleable` are the deliveries that are
    enlisted in no open transaction, in their order; None until it is first needed. `groups` are
    those of its queue, if they need to know what is in flight.
    """

    __slots__ = ("groups", "holders", "settleable")

    def __init__(self, holders: dict[int, list[Consumer]] | None) -> None:
        self.holders: dict[int, list[Consumer]] | None = holders
        self.settleable: dict[int, Entry] | None = None
        self.groups: HashedGroups | None = None

    def add(self, consumer: Consumer, entry: Entry) -> None:
        """Add a delivery."""
        message_id = entry.message.id
        if self.holders is not None:
            self.holders.setdefault(message_id, []).append(consumer)
        if self.settleable is not None:
            self.settleable[message_id] = entry
        if self.groups is not None:
            self.groups.take_off(consumer, message_id)

    def remove(self, consumer: Consumer, message_id: int) -> None:
        """Forget a delivery that ended."""
        if self.holders is not None:
            holding = self.holders[message_id]
            holding.remove(consumer)
            if not holding:
                del self.holders[message_id]
        if self.settleable is not None:
            self.settleable.pop(message_id, None)
        if self.groups is not None:
            self.groups.land(message_id)


class Template(Protocol):
    """The command by which the members of a bundle attach (`engine.commands.Attach`)."""

    @property
    def subscription(self) -> str:
        """Its name."""
        ...

    @property
    def filter(self) -> str:
        """The text of its filter."""
        ...

    @property
    def receiver(self) -> Any:
        """What deliveries are handed to."""
        ...

    @property
    def credit_policy(self) -> int:
        """How credit returns."""
        ...

    @property
    def credit_messages(self) -> int:
        """Its first credit in messages."""
        ...

    @property
    def credit_bytes(self) -> int:
        """Its first credit in bytes of bodies."""
        ...

    @property
    def browses(self) -> bool:
        """Whether it only reads."""
        ...

    @property
    def acknowledges(self) -> bool:
        """Whether its consumers settle what they get."""
        ...

    @property
    def listens(self) -> bool:
        """Whether a browser waits for messages to come."""
        ...


class Bundle:
    """One subscription to several queues.

    `template` is the command by which further members attach, and `matcher` its filter. `patterns`
    are those of queues to come, of which it takes from `queues_max` at a time; `queues` are its
    members by queue, and `found` those that a pattern found. `is_short` says that a queue matches
    that it could not attach to. `reading` are the members of a browser that have not read all of
    their queue; `is_sought` says that queues are still looked for, and `is_told` that it gets
    nothing more, which a browser knows from its end message. `order` are the deliveries in flight
    in the order in which they were made, and `settleable` those that are enlisted in no open
    transaction, None until it is first needed. `lost` are deliveries that ended because their
    member had to leave its queue: the client does not know yet, so a settlement of one means
    nothing.
    """

    __slots__ = (
        "connection", "credit_bytes", "credit_messages", "credit_policy", "found", "handed",
        "holding", "id", "is_open", "is_short", "is_sought", "is_told", "lost", "matcher",
        "members", "order", "patterns", "queues", "queues_max", "reading", "refilled", "settleable",
        "subscription", "template", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        connection: Connection,
        template: Template,
        patterns: tuple[str, ...],
        refilled: "dict[int, Bundle]",
    ) -> None:
        self.id: Final = number
        self.connection: Final = connection
        self.subscription: Final = template.subscription
        self.template: Final = template
        self.patterns: Final = patterns
        self.queues_max = 0
        self.matcher: Filter | None = None
        self.is_open = True
        self.is_short = False
        self.is_sought = False
        self.is_told = False
        self.members: dict[int, Consumer] = {}
        self.queues: dict[int, Consumer] = {}
        self.found: set[int] = set()
        self.reading: dict[int, Consumer] = {}
        self.credit_policy = template.credit_policy
        self.credit_messages = template.credit_messages
        self.credit_bytes = template.credit_bytes
        # Members that asked for credit when there was none, in the order of asking, and the bundles
        # whose credit returned since the last dispatch.
        self.waiting: dict[int, Consumer] = {}
        self.refilled: Final = refilled
        # How many messages were delivered to it.
        self.handed = 0
        self.order: dict[Place, Entry] = {}
        self.settleable: dict[Place, Entry] | None = None
        self.lost: dict[int, None] = {}
        # By message, the members that have it in flight: several, if it came by several queues.
        self.holding: dict[int, list[Consumer]] = {}

    @property
    def has_credit(self) -> bool:
        """Whether one of the two windows is positive."""
        return self.credit_messages > 0 or self.credit_bytes > 0

    @property
    def receiver(self) -> Any:
        """What its members hand their deliveries to."""
        return self.template.receiver

    @property
    def ends(self) -> bool:
        """Whether it is a browser that ends when it has read everything."""
        return self.template.browses and not self.template.listens

    def join(self, consumer: Consumer) -> None:
        """Make a consumer that was just attached a member."""
        consumer.bundle = self
        # Texts of its own for each member would take memory that nobody counts.
        consumer.subscription = self.subscription
        if consumer.filter:
            consumer.filter = self.template.filter
        consumer.receiver = self.receiver
        if self.credit_policy != UNMETERED:
            consumer.credit_policy = UNMETERED
            consumer.credit_messages = consumer.credit_bytes = 0
        if consumer.acknowledges:
            consumer.index = SharedIndex(self, consumer.connection.holders)
        if consumer.browses:
            self.reading[consumer.id] = consumer
        self.members[consumer.id] = consumer
        self.queues[consumer.queue.id] = consumer

    def leave(self, consumer: Consumer) -> None:
        """Forget a member that was detached; its deliveries in flight were returned before."""
        del self.members[consumer.id]
        self.waiting.pop(consumer.id, None)
        self.found.discard(consumer.id)
        if self.queues.get(consumer.queue.id) is consumer:
            del self.queues[consumer.queue.id]

    def lose(self, consumer: Consumer) -> None:
        """Note what a member has in flight that must leave its queue; the oldest are forgotten."""
        self.lost.update(dict.fromkeys(consumer.unacked))
        self.lost.update(dict.fromkeys(consumer.shown))
        for message in list(islice(self.lost, max(0, len(self.lost) - LOST_MAX))):
            del self.lost[message]

    def was_lost(self, message: int) -> bool:
        """Whether a delivery was lost, and its client has not settled it since."""
        return message in self.lost

    def settle_lost(self, message: int) -> None:
        """Forget a delivery that was lost: its client has settled it."""
        self.lost.pop(message, None)

    def can_spend(self, consumer: Consumer) -> bool:
        """Whether there is credit for a member; if there is none, it waits in line."""
        if consumer.detaching or self.credit_policy == UNMETERED:
            return False
        if self.credit_messages > 0 or self.credit_bytes > 0:
            return True
        self.waiting[consumer.id] = consumer
        return False

    def spend(self, size: int) -> None:
        """Note a delivery to a member, with a body of so many bytes."""
        self.handed += 1
        if self.credit_policy != UNMETERED:
            self.credit_messages -= 1
            self.credit_bytes -= size

    def restore(self, size: int) -> None:
        """Return the credit of a delivery, if it returns by settlement."""
        if self.credit_policy == BY_SETTLEMENT:
            self.grant(1, size)

    def grant(self, messages: int, size: int) -> None:
        """Give more credit."""
        self.credit_messages += messages
        self.credit_bytes += size
        if self.waiting:
            self.refilled[self.id] = self

    def note(self, consumer: Consumer, entry: Entry) -> None:
        """Note a delivery in flight."""
        number = entry.message.id
        place = consumer.id, number
        self.order[place] = entry
        self.connection.unacked_bytes += BUNDLED_BYTES
        self.connection.shown_bytes += BUNDLED_BYTES
        if self.settleable is not None:
            self.settleable[place] = entry
        self.holding.setdefault(number, []).append(consumer)

    def forget(self, consumer: Consumer, number: int) -> None:
        """Forget a delivery that ended, for whatever reason: its credit returns, once."""
        place = consumer.id, number
        entry = self.order.pop(place)
        self.connection.unacked_bytes -= BUNDLED_BYTES
        self.connection.shown_bytes -= BUNDLED_BYTES
        if number in consumer.credited:
            consumer.credited.discard(number)
        else:
            self.restore(entry.message.body_bytes)
        if self.settleable is not None:
            self.settleable.pop(place, None)
        holding = self.holding[number]
        holding.remove(consumer)
        if not holding:
            del self.holding[number]

    def holder(self, number: int) -> Consumer | None:
        """Return the member that has a message in flight and can settle it, the first if several
        have it."""
        holding = self.holding.get(number)
        if holding is None:
            return None
        return next((each for each in holding if number not in each.enlisted), holding[0])

    def up_to(self, consumer: Consumer, number: int, most: int) -> list[Entry]:
        """Return the deliveries that no transaction settled, up to one, in order.

        About the first `most` of them: the last one is that one, or of another message.
        """
        if self.settleable is None:
            self.settleable = {
                place: entry
                for place, entry in self.order.items()
                if place[1] not in self.members[place[0]].enlisted
            }
        chosen: list[Entry] = []
        for (member, message), entry in self.settleable.items():
            chosen.append(entry)
            if message == number:
                if member == consumer.id:
                    break
            elif len(chosen) >= most:
                break
        return chosen


class SharedIndex(InFlightIndex):
    """The index of a member: its deliveries in flight are also in the order of its bundle."""

    __slots__ = ("bundle",)

    def __init__(self, bundle: Bundle, holders: dict[int, list[Consumer]] | None) -> None:
        super().__init__(holders)
        self.bundle: Final = bundle

    def add(self, consumer: Consumer, entry: Entry) -> None:
        """Add a delivery."""
        super().add(consumer, entry)
        self.bundle.note(consumer, entry)

    def remove(self, consumer: Consumer, message_id: int) -> None:
        """Forget a delivery that ended."""
        super().remove(consumer, message_id)
        self.bundle.forget(consumer, message_id)


def windows_of(consumer: Consumer) -> tuple[int, int]:
    """Return the credit of a consumer, of messages and of bytes; a member has that of its
    bundle."""
    bundle = consumer.bundle
    if bundle is None or bundle.credit_policy == UNMETERED:
        return consumer.credit_messages, consumer.credit_bytes
    return bundle.credit_messages, bundle.credit_bytes
