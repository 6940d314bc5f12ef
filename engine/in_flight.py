"""Finding deliveries in flight without a walk over all of them. Derived and volatile.

Commands that settle by a message's id alone need the consumer of a connection that has the message.
Commands that settle all deliveries up to one, in transactions, must not look again at those that
transactions hold. Only consumers that need one of the two have an index, which every change of
their deliveries in flight keeps up to date.
"""

from typing import TYPE_CHECKING

from daybook.engine.message import Entry

if TYPE_CHECKING:
    from daybook.engine.hashing import HashedGroups
    from daybook.engine.state import Consumer


class InFlightIndex:
    """The index of one consumer.

    `holders` is shared by the consumers of a connection: by message id, the consumers that have it
    in flight; None if the protocol does not need it. `unheld` are the deliveries that no open
    transaction settled, in their order; None until it is first needed. `groups` are those of its
    queue, if they need to know what is in flight.
    """

    __slots__ = ("groups", "holders", "unheld")

    def __init__(self, holders: "dict[int, list[Consumer]] | None") -> None:
        self.holders: dict[int, list[Consumer]] | None = holders
        self.unheld: dict[int, Entry] | None = None
        self.groups: HashedGroups | None = None

    def add(self, consumer: "Consumer", entry: Entry) -> None:
        """Add a delivery."""
        message_id = entry.message.id
        if self.holders is not None:
            self.holders.setdefault(message_id, []).append(consumer)
        if self.unheld is not None:
            self.unheld[message_id] = entry
        if self.groups is not None:
            self.groups.take_off(consumer, message_id)

    def remove(self, consumer: "Consumer", message_id: int) -> None:
        """Forget a delivery that ended."""
        if self.holders is not None:
            holding = self.holders[message_id]
            holding.remove(consumer)
            if not holding:
                del self.holders[message_id]
        if self.unheld is not None:
            self.unheld.pop(message_id, None)
        if self.groups is not None:
            self.groups.land(message_id)
