"""The names that ids stand for, collected from events while they are read.

Ids of addresses and queues are never used again, so their names are kept when they are deleted.
Connections and consumers are forgotten when they end, so memory follows what is open, not history.
"""

from typing import Final, cast

from daybook.engine.facts import details, events, life
from daybook.engine.facts.events import ADDRESS, CONNECTION, CONSUMER, KIND, QUEUE, Row
from daybook.engine.facts.kinds import NAMING, changing

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
