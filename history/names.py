"""What ids stand for, learned from the events on the way.

Ids of addresses and queues are never used again, so their names are kept when they are deleted.
Connections and consumers are forgotten when they end, so memory follows what is open, not history.
"""

from typing import cast

from daybook.engine import events
from daybook.engine.events import ADDRESS, CONNECTION, CONSUMER, KIND, QUEUE, Row


class Names:
    """Names of addresses, queues, connections and consumers, as of the last event learned."""

    def __init__(self) -> None:
        self.addresses: dict[int, str] = {}
        self.queues: dict[int, str] = {}
        self.connections: dict[int, str] = {}
        self.consumers: dict[int, str] = {}

    def learn(self, row: Row, detail: bytes) -> None:
        """Take in an event before it is told: what begins with it has a name from here on."""
        kind = row[KIND]
        if kind in (events.ADDRESS_CREATED, events.ADDRESS_UPDATED):
            address = cast(events.AddressDetail, events.decode_detail(kind, detail))
            self.addresses[row[ADDRESS]] = address.name
        elif kind in (events.QUEUE_CREATED, events.QUEUE_UPDATED):
            queue = cast(events.QueueDetail, events.decode_detail(kind, detail))
            self.queues[row[QUEUE]] = queue.name
        elif kind == events.CONNECTION_OPENED:
            connection = cast(events.ConnectionDetail, events.decode_detail(kind, detail))
            self.connections[row[CONNECTION]] = f"{connection.user or '?'} from {connection.peer}"
        elif kind == events.CONSUMER_ATTACHED:
            consumer = cast(events.ConsumerAttachedDetail, events.decode_detail(kind, detail))
            self.consumers[row[CONSUMER]] = consumer.subscription

    def forget(self, row: Row) -> None:
        """Take in an event after it was told: what ends with it is not mentioned again."""
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
