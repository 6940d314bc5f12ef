"""Who is there, for the shadow: connections, consumers, queues, and what a transaction must be.

A part of `tests.simulation.shadow`, with the same rules: it knows the table of events, and nothing
of `engine.state.apply` or `engine.state.state`.
"""

from heapq import heappop, heappush
from typing import Any

import msgspec

from daybook.engine.facts import events
from tests.simulation.kinds import is_mixed, is_mixed_place
from tests.simulation.ledger import Ledger, TransactionRecord
from tests.simulation.violation import Violation

COMPOSITE = "composite-"
"""What the broker calls the transaction of one message to several destinations."""


class Entry(msgspec.Struct):
    """A message in a queue; `consumer` is 0 when it is ready."""

    priority: int
    is_persistent: bool
    count: int = 0
    consumer: int = 0
    is_aside: bool = False


class ShadowQueue(msgspec.Struct):
    """A queue with what it holds, and what is ready in order of delivery (with stale items)."""

    name: str
    is_durable: bool
    is_mixed: bool = False
    entries: dict[int, Entry] = {}
    ready: list[tuple[int, int]] = []

    def put(self, message: int, entry: Entry) -> None:
        """The entry is ready."""
        entry.consumer, entry.is_aside = 0, False
        heappush(self.ready, (-entry.priority, message))

    def first(self) -> int:
        """The message that is to be delivered next, 0 for none."""
        while self.ready:
            message = self.ready[0][1]
            entry = self.entries.get(message)
            if entry is not None and entry.consumer == 0 and not entry.is_aside:
                return message
            heappop(self.ready)
        return 0


class ShadowConsumer(msgspec.Struct):
    """A consumer: whose it is, its subscription's name, how it settles."""

    link: int
    connection: int
    queue: int
    subscription: str
    ack_mode: str


class Peers:
    """Connections, consumers and queues as far as the journal is durable, and what they were told.

    Keys of facts begin with a connection.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.queues: dict[int, ShadowQueue] = {}
        self.consumers: dict[int, ShadowConsumer] = {}
        self.opened: set[int] = set()
        self.closed: set[int] = set()
        self.acknowledged: set[tuple[int, str, int]] = set()
        self.attached: set[tuple[int, str]] = set()
        self.detached: set[tuple[int, str]] = set()
        self.committed: set[tuple[int, str]] = set()
        self.rolled_back: set[tuple[int, str]] = set()
        # Messages that came back because one of them could not be read: one of them is withheld.
        self.unreadable: set[int] = set()
        # The link of a connection: the simulator names peers by it.
        self.links: dict[int, int] = {}
        # Of each message that is journaled with its body: its tag.
        self.tags: dict[int, int] = {}
        # Names of addresses, for queues whose names do not say what they are.
        self._addresses: dict[int, str] = {}
        # Subscriptions to several queues, by the event that opened them.
        self._bundles: dict[int, tuple[int, str]] = {}
        self._in_transaction: dict[int, str] = {}

    def _connection_opened(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.opened.add(lsn)
        self.links[lsn] = int(detail.peer)

    def _connection_closed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.closed.add(row[events.CONNECTION])

    def _attached(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        connection = row[events.CONNECTION]
        self.consumers[lsn] = ShadowConsumer(
            self.links.get(connection, 0),
            connection,
            row[events.QUEUE],
            detail.subscription,
            detail.ack_mode,
        )
        self.attached.add((connection, detail.subscription))

    def _detached(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        consumer = self.consumers.pop(row[events.CONSUMER])
        self.detached.add((consumer.connection, consumer.subscription))

    def _address_created(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self._addresses[row[events.ADDRESS]] = detail.name

    def _queue_created(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        address = self._addresses[row[events.ADDRESS]]
        queue = ShadowQueue(
            detail.name,
            detail.durable and not detail.temporary,
            is_mixed=is_mixed(detail.name) or is_mixed(address),
        )
        self.queues[row[events.QUEUE]] = queue

    def _queue_deleted(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        queue = self.queues.pop(row[events.QUEUE])
        if queue.entries:
            raise Violation("P1", f"event {lsn}: {queue.name} deleted with messages")

    def _started(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        for queue_id, queue in list(self.queues.items()):
            if not queue.is_durable:
                del self.queues[queue_id]
                continue
            for message, entry in list(queue.entries.items()):
                if not entry.is_persistent:
                    del queue.entries[message]
                elif entry.consumer:
                    queue.put(message, entry)
        self.consumers.clear()
        self.unreadable.clear()

    # ---- transactions

    def _committed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        connection = row[events.CONNECTION]
        record = self.ledger.transactions.get((self.links.get(connection, 0), detail.transaction))
        if detail.transaction.startswith(COMPOSITE):
            record = TransactionRecord(
                detail.transaction, self._tags_of_composite(), committing=True
            )
        if record is None or not record.committing:
            raise Violation("transactions", f"event {lsn} commits what nobody asked for: {detail}")
        if detail.first + detail.events != lsn or detail.first < 1:
            raise Violation("transactions", f"event {lsn} does not end its group: {detail}")
        if any(first < detail.first for first in self._in_transaction):
            raise Violation("transactions", f"event {lsn}: parts before {detail.first}")
        sent = [self.ledger.sent[tag] for tag in record.tags]
        is_known = sent or not detail.transaction.startswith(COMPOSITE)
        wanted = sum(each.places for each in sent)
        found = len(self._in_transaction)
        if any(is_mixed_place(each.destination) for each in sent):
            # Patterns drop their own part, and what no queue took goes elsewhere, too.
            wanted = len(sent)
            found = len({self.tags.get(lsn, -lsn) for lsn in self._in_transaction})
            found = min(found, wanted)
        if is_known and found != wanted:
            raise Violation(
                "transactions", f"event {lsn}: sent {sent}, routed {self._in_transaction}"
            )
        for subscription, message in record.acks:
            key = (connection, subscription, message)
            is_over = self._has_lost(connection, subscription)
            if key not in self.acknowledged and not is_over:
                raise Violation("transactions", f"event {lsn}: {message} is not acknowledged")
        self._in_transaction.clear()
        self.committed.add((connection, detail.transaction))

    def _has_lost(self, connection: int, name: str) -> bool:
        """Whether a subscription may have lost a queue without a word of its client."""
        record = self.ledger.subscriptions[self.links[connection], name]
        return record.is_vague and (connection, name) in self.detached

    def _tags_of_composite(self) -> list[int]:
        """One message to several destinations; nothing if it was dropped everywhere."""
        tags = {self.tags[lsn] for lsn in self._in_transaction if lsn in self.tags}
        return sorted(tags)

    def _rolled_back(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.rolled_back.add((row[events.CONNECTION], detail.transaction))

    def _bundle_opened(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """A subscription to several queues, of which none need exist yet."""
        self.attached.add((row[events.CONNECTION], detail.subscription))
        self._bundles[lsn] = (row[events.CONNECTION], detail.subscription)

    def _bundle_closed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.detached.add(self._bundles.pop(row[events.RELATED]))
