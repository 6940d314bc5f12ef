"""What only earlier events tell of direct addresses: the table in force, links, and deliveries.

No state has them (ADR 109), so where an audit begins, and behind what a salvage could not read,
links of before are unknown until the broker starts again. Must never know what a rule says.
"""

from typing import Final

from daybook.engine.facts import details
from daybook.engine.facts.definitions import Distribution, Waypoint
from daybook.engine.links.links import (
    FALLBACK,
    DirectAddress,
    DirectLinks,
    Forwarding,
    ReceivingLink,
    SendingLink,
)
from daybook.engine.messages.message import Message
from daybook.engine.queues.consumer import Connection

RECEIVER: Final = "receiver"
ROLES: Final = ("sender", RECEIVER)
OPEN: Final = Forwarding(Message(0, 0, 0, 0, 0, b"", b""), None, None, 1)
"""A delivery that has not ended; which one it is does not matter."""


class DirectLedger:
    """Links with their open deliveries, as in a broker, from the events after `since`.

    `knows_table` tells whether the table in force is known. `leaving` are receivers whose
    deliveries ended because they do: for which reason, and by which event.
    """

    __slots__ = ("knows_table", "leaving", "links", "since", "through")

    def __init__(self, since: int) -> None:
        self.since: Final = since
        self.knows_table = not since
        self.links: Final = DirectLinks()
        self.leaving: Final[dict[int, tuple[int, int]]] = {}
        # The connection of the container of each link that is passed on.
        self.through: Final[dict[int, int]] = {}

    def may_be_older(self, link: int) -> bool:
        """Whether a link that is not known may have begun before what is known did."""
        return 0 < link <= self.since

    def link(self, number: int) -> SendingLink | ReceivingLink | None:
        """Return a link that is attached."""
        return self.links.receivers.get(number) or self.links.senders.get(number)

    def attach(
        self,
        number: int,
        connection: Connection,
        decoded: details.LinkAttachedDetail,
        entry: Distribution | None,
    ) -> None:
        """Add a link; `entry` is what the table says of its address, if that is known."""
        addresses, name = self.links.addresses, decoded.address
        if name and name not in addresses:
            if entry is None or self.since:
                # An address that was in use before may have been anything else.
                entry = Distribution(distribution=decoded.distribution)
            addresses[name] = DirectAddress(name, entry)
        root = addresses.get(name)
        receives, is_fallback = decoded.role == RECEIVER, decoded.is_fallback
        phase = FALLBACK if receives and is_fallback else decoded.phase
        address = root.at(phase) if root is not None else None
        if receives and address is not None:
            link = ReceivingLink(number, connection, address, decoded.cost, decoded.shard)
            self.links.add(link)
        else:
            self.links.add(SendingLink(number, connection, 0, address, is_fallback=is_fallback))

    def follow(self, waypoint: Waypoint) -> None:
        """Let groups of an address in use go to the shards of another table, too. They may go to
        those of before, as earlier versions let them until the links of the address had ended."""
        used = self.links.addresses.get(waypoint.name)
        if used is not None:
            used.follow(waypoint, *used.shards)

    def pass_on(self, number: int, connection: Connection, through: int) -> None:
        """Add a link that is passed on to a container: it has no address here."""
        self.links.add(SendingLink(number, connection, 0, None))
        self.through[number] = through

    def detach(self, link: SendingLink | ReceivingLink) -> None:
        """Remove a link, whatever is in flight to it."""
        if isinstance(link, ReceivingLink):
            for message in list(link.outstanding):
                self.settle(link, message)
        self.leaving.pop(link.id, None)
        self.through.pop(link.id, None)
        self.links.remove(link)

    def close(self, connection: int) -> None:
        """Remove the links of a connection."""
        for link in list(self.links.of_connection.get(connection, {}).values()):
            self.detach(link)

    def give(self, number: int, message: int) -> None:
        """Begin a delivery, if its receiver is known."""
        link = self.links.receivers.get(number)
        if link is not None and message not in link.outstanding:
            before = link.load
            link.outstanding[message] = OPEN
            link.address.reload(link, before)

    def settle(self, link: ReceivingLink, message: int) -> None:
        """End a delivery."""
        before = link.load
        link.outstanding.pop(message, None)
        link.address.reload(link, before)
