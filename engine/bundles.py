"""Bundles: the consumers of one subscription to several queues, with one credit (ADR 60).

A bundle has a consumer in each of its queues, its *members*. They use one credit, and what they
have in flight is in one order, that of the deliveries; everything else is that of any consumer.
When there is no credit, members with something to take wait in line, and the first of them is
served first when credit returns. All of it is volatile: it ends with the bundle, which ends with
its connection. Must never know how queues are found, or how a delivery is settled.
"""

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from daybook.engine.in_flight import InFlightIndex
from daybook.engine.message import Entry
from daybook.engine.settlements import BY_SETTLEMENT, UNMETERED

if TYPE_CHECKING:
    from daybook.engine.commands import Attach
    from daybook.engine.message import Filter
    from daybook.engine.state import Connection, Consumer

Place: TypeAlias = tuple[int, int]
"""A delivery of a bundle: the consumer, and the message."""


LOST_MAX: Final = 1_000
"""How many lost deliveries a bundle remembers."""
BUNDLED_BYTES: Final = 384
"""What a delivery in the order of a bundle takes in memory beyond that of its consumer."""


class Bundle:
    """One subscription to several queues.

    `template` is the command by which further members attach, and `matcher` its filter. `patterns`
    are those of queues to come, of which it takes from `queues_max` at a time; `queues` are its
    members by queue, and `found` those that a pattern found. `is_short` says that a queue matches
    that it could not attach to. `reading` are the members of a browser that have not read all of
    their queue; `is_sought` says that queues are still looked for, and `is_told` that it gets
    nothing more, which a browser knows from its end message. `order` are the deliveries in flight
    in the order in which they were made, and `unheld` those that no open transaction settled, None
    until it is first needed. `lost` are deliveries that ended because their member had to leave its
    queue: the client does not know yet, so a settlement of one means nothing.
    """

    __slots__ = (
        "connection", "credit_bytes", "credit_messages", "credit_policy", "found", "handed",
        "holding", "id", "is_open", "is_short", "is_sought", "is_told", "lost", "matcher",
        "members", "order", "patterns", "queues", "queues_max", "reading", "refilled",
        "subscription", "template", "unheld", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        connection: "Connection",
        template: "Attach",
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
        self.unheld: dict[Place, Entry] | None = None
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

    def join(self, consumer: "Consumer") -> None:
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

    def leave(self, consumer: "Consumer") -> None:
        """Forget a member that was detached; what it had in flight was returned before."""
        del self.members[consumer.id]
        self.waiting.pop(consumer.id, None)
        self.found.discard(consumer.id)
        if self.queues.get(consumer.queue.id) is consumer:
            del self.queues[consumer.queue.id]

    def lose(self, consumer: "Consumer") -> None:
        """Note what a member has in flight that must leave its queue; the oldest are forgotten."""
        self.lost.update(dict.fromkeys(consumer.unacked))
        for message in list(islice(self.lost, max(0, len(self.lost) - LOST_MAX))):
            del self.lost[message]

    def was_lost(self, message: int) -> bool:
        """Whether a delivery was lost, and its client has not settled it since."""
        return message in self.lost

    def settle_lost(self, message: int) -> None:
        """Forget a delivery that was lost: its client has settled it."""
        self.lost.pop(message, None)

    def can_spend(self, consumer: "Consumer") -> bool:
        """Whether there is credit for a member; if there is none, it waits in line."""
        if consumer.leaving or self.credit_policy == UNMETERED:
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

    def note(self, consumer: "Consumer", entry: Entry) -> None:
        """Note a delivery in flight."""
        number = entry.message.id
        place = consumer.id, number
        self.order[place] = entry
        self.connection.unacked_bytes += BUNDLED_BYTES
        self.connection.shown_bytes += BUNDLED_BYTES
        if self.unheld is not None:
            self.unheld[place] = entry
        self.holding.setdefault(number, []).append(consumer)

    def forget(self, consumer: "Consumer", number: int) -> None:
        """Forget a delivery that ended, for whatever reason: its credit returns, once."""
        place = consumer.id, number
        entry = self.order.pop(place)
        self.connection.unacked_bytes -= BUNDLED_BYTES
        self.connection.shown_bytes -= BUNDLED_BYTES
        if number in consumer.credited:
            consumer.credited.discard(number)
        else:
            self.restore(entry.message.body_bytes)
        if self.unheld is not None:
            self.unheld.pop(place, None)
        holding = self.holding[number]
        holding.remove(consumer)
        if not holding:
            del self.holding[number]

    def holder(self, number: int) -> "Consumer | None":
        """Return the member that has a message in flight and can settle it, the first if several
        have it."""
        holding = self.holding.get(number)
        if holding is None:
            return None
        return next((each for each in holding if number not in each.held), holding[0])

    def up_to(self, consumer: "Consumer", number: int, most: int) -> list[Entry]:
        """Return the deliveries that no transaction settled, up to one, in order.

        About the first `most` of them: the last one is that one, or of another message.
        """
        if self.unheld is None:
            self.unheld = {
                place: entry
                for place, entry in self.order.items()
                if place[1] not in self.members[place[0]].held
            }
        chosen: list[Entry] = []
        for (member, message), entry in self.unheld.items():
            chosen.append(entry)
            if message == number:
                if member == consumer.id:
                    break
            elif len(chosen) >= most:
                break
        return chosen


class SharedIndex(InFlightIndex):
    """The index of a member: what it has in flight is also in the order of its bundle."""

    __slots__ = ("bundle",)

    def __init__(self, bundle: Bundle, holders: "dict[int, list[Consumer]] | None") -> None:
        super().__init__(holders)
        self.bundle: Final = bundle

    def add(self, consumer: "Consumer", entry: Entry) -> None:
        """Add a delivery."""
        super().add(consumer, entry)
        self.bundle.note(consumer, entry)

    def remove(self, consumer: "Consumer", message_id: int) -> None:
        """Forget a delivery that ended."""
        super().remove(consumer, message_id)
        self.bundle.forget(consumer, message_id)


def windows_of(consumer: "Consumer") -> tuple[int, int]:
    """Return the credit of a consumer, of messages and of bytes; a member has that of its
    bundle."""
    bundle = consumer.bundle
    if bundle is None or bundle.credit_policy == UNMETERED:
        return consumer.credit_messages, consumer.credit_bytes
    return bundle.credit_messages, bundle.credit_bytes
