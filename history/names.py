"""The names that ids stand for, collected from events while they are read.

Ids of addresses and queues are never used again, so their names are kept when they are deleted.
Connections and consumers are forgotten when they end, so memory follows what is open, not history.
"""

from typing import Final, cast

from daybook.engine.facts import details, events, life
from daybook.engine.facts.events import ADDRESS, CONNECTION, CONSUMER, KIND, QUEUE, Row
from daybook.engine.facts.kinds import NAMING, changing
from daybook.history.scan import Event, Picker
from daybook.history.search import Uncatalogued
from daybook.journal.blocks.block import Block

LEARNED: Final = NAMING | changing({life.CONNECTION, life.CONSUMER}, {life.BEGINS})
"""Kinds from which names are learned."""


class Names:
    """Names of addresses, queues, connections and consumers, as of the last event learned."""

    def __init__(self) -> None:
        self.addresses: dict[int, str] = {}
        self.queues: dict[int, str] = {}
        self.connections: dict[int, str] = {}
        self.consumers: dict[int, str] = {}

    def learn(self, row: Row, detail: bytes) -> None:
        """Note the name of what begins with an event; call this before the event is shown."""
        kind = row[KIND]
        if kind not in LEARNED:
            return
        subject = events.BY_NUMBER[kind].subject
        decoded = events.decode_detail(kind, detail)
        if subject == life.ADDRESS:
            self.addresses[row[ADDRESS]] = cast(details.AddressDetail, decoded).name
        elif subject == life.QUEUE:
            self.queues[row[QUEUE]] = cast(details.QueueDetail, decoded).name
        elif subject == life.CONNECTION:
            connection = cast(details.ConnectionDetail, decoded)
            by = f" by {connection.protocol}" if connection.protocol else ""
            client = f", client id '{connection.client_id}'," if connection.client_id else ""
            peer = f"{connection.user or '?'}{client} from {connection.peer}"
            self.connections[row[CONNECTION]] = peer + by
        elif subject == life.CONSUMER:
            consumer = cast(details.ConsumerAttachedDetail, decoded)
            self.consumers[row[CONSUMER]] = consumer.subscription

    def forget(self, row: Row) -> None:
        """Drop the names of what ends with an event; call this after the event is shown."""
        kind = row[KIND]
        if kind == events.CONNECTION_CLOSED:
            self.connections.pop(row[CONNECTION], None)
        elif kind == events.CONSUMER_DETACHED:
            self.consumers.pop(row[CONSUMER], None)
        elif kind == events.BROKER_STARTED:
            self.connections.clear()
            self.consumers.clear()

    def address(self, address_id: int) -> str:
        """Name of an address."""
        return self.addresses.get(address_id, f"#{address_id}")

    def queue(self, queue_id: int) -> str:
        """Name of a queue."""
        return self.queues.get(queue_id, f"#{queue_id}")


class NamedIds:
    """The ids that a queue, an address and the links of a direct address had under their names, of
    all that was there at the event `since` or began between it and the event `until`. `since` is
    None before anything is known.

    Sets only grow: an id never comes to stand for something else.
    """

    def __init__(self) -> None:
        self.queues: Final[set[int]] = set()
        self.addresses: Final[set[int]] = set()
        self.links: Final[set[int]] = set()
        self.is_direct = False
        self.since: int | None = None
        self.until = 0


class WithName(Uncatalogued):
    """Events whose detail has one of some names, as a condition of searches: a broker may have made
    very many queues, and one is asked for."""

    def __init__(self, *names: str) -> None:
        self._raw: Final = [name.encode("utf-8", "surrogatepass") for name in names]

    def may_have(self, block: Block, picker: Picker) -> bool:
        """As `Contents.may_have`."""
        return self.is_among(picker.details())

    def is_in(self, event: Event) -> bool:
        """As `Contents.is_in`."""
        return self.is_among(event.detail)

    def is_among(self, encoded: bytes) -> bool:
        """Whether encoded details, or a record of an index, may have one of the names."""
        return any(raw in encoded for raw in self._raw)
