"""The shadow: what the queues must be, from the durable events alone, and whether each may be.

It knows the table of events and nothing of `engine.apply` or `engine.state`, so it is a second
opinion. Each event is held against what it follows from and against what the clients know: nothing
is invented, settled without being asked to, delivered out of order, or counted wrongly.
"""

import re
from heapq import heappop, heappush
from typing import Any

import msgspec

from daybook.engine import events, reasons
from tests.simulation.clients import queues_named_by
from tests.simulation.kinds import is_mixed
from tests.simulation.ledger import Ledger
from tests.simulation.violation import Violation

DEAD_LETTER_QUEUE = "dead"
MAX_ATTEMPTS = 4


def tag_of_id(text: str) -> int:
    """The tag of the message whose duplicate id is named in a text, 0 if there is none."""
    found = re.search(r"\bid-(\d+)\b", text)
    return int(found[1]) if found else 0


TAKES_BACK = (reasons.CLOSED, reasons.UNREADABLE)
"""Reasons for which an attempt may not count."""


class Entry(msgspec.Struct):
    """A message in a queue; `consumer` is 0 when it is ready."""

    priority: int
    is_persistent: bool
    count: int = 0
    consumer: int = 0


class ShadowQueue(msgspec.Struct):
    """A queue with what it holds, and what is ready in order of delivery (with stale items)."""

    name: str
    is_durable: bool
    entries: dict[int, Entry] = {}
    ready: list[tuple[int, int]] = []

    def put(self, message: int, entry: Entry) -> None:
        """The entry is ready."""
        entry.consumer = 0
        heappush(self.ready, (-entry.priority, message))

    def first(self) -> int:
        """The message that is to be delivered next, 0 for none."""
        while self.ready:
            message = self.ready[0][1]
            entry = self.entries.get(message)
            if entry is not None and entry.consumer == 0:
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


class Shadow:
    """Queues, consumers and facts as far as the journal is durable."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.lsn = 0
        self.queues: dict[int, ShadowQueue] = {}
        self.consumers: dict[int, ShadowConsumer] = {}
        # Facts, for what is said to clients. Keys begin with a connection.
        self.opened: set[int] = set()
        self.closed: set[int] = set()
        self.routed: dict[int, int] = {}
        self.routed_ids: set[int] = set()
        self.dropped: dict[int, int] = {}
        self.delivered: set[tuple[int, str, int, int]] = set()
        self.acknowledged: set[tuple[int, str, int]] = set()
        self.given_back: set[tuple[int, str, int]] = set()
        self.attached: set[tuple[int, str]] = set()
        self.detached: set[tuple[int, str]] = set()
        self.committed: set[tuple[int, str]] = set()
        self.rolled_back: set[tuple[int, str]] = set()
        self.automatic: set[int] = set()
        self.uncounted: set[tuple[int, str, int, int]] = set()
        # Messages that came back because one of them could not be read: one of them is withheld.
        self.unreadable: set[int] = set()
        # Connection and content of chunks that no message has taken yet, and how many have.
        self.chunks: dict[int, tuple[int, bytes]] = {}
        self.large = 0
        # Tags of messages whose ids are known, how many duplicates were dropped, and the event
        # whose id is to be recorded next.
        self.remembered: set[int] = set()
        self.duplicates = 0
        self._recording = 0
        # The link of a connection: the simulator names peers by it.
        self.links: dict[int, int] = {}
        # Of each message that is journaled with its body: its tag, and the first event it needs.
        self.tags: dict[int, int] = {}
        self.needs: dict[int, int] = {}
        self.carried = 0
        # Messages that somebody read of a queue whose messages stay.
        self.shown: set[int] = set()
        self._in_transaction: dict[int, str] = {}
        self._copy: tuple[int, int, int] | None = None
        # Messages that are only diverted, before their first copy.
        self._taken: dict[int, tuple[events.Row, Any]] = {}

    def apply(self, lsn: int, row: events.Row, detail: bytes, headers: bytes, body: bytes) -> None:
        """Take one event; raises Violation if it may not be."""
        if lsn != self.lsn + 1:
            raise Violation("P2", f"event {lsn} follows event {self.lsn}")
        self.lsn = lsn
        kind = row[events.KIND]
        # What a message replaced leaves before its id is recorded.
        is_replaced = kind == events.REMOVED and row[events.RELATED] == self._recording
        if self._recording and kind != events.DUPLICATE_ID_RECORDED and not is_replaced:
            raise Violation("P1", f"event {lsn}: the id of {self._recording} was not recorded")
        if self._copy is not None and kind != events.ROUTED:
            raise Violation("P1", f"event {lsn}: the copy {self._copy} was not routed")
        handler = _HANDLERS.get(kind)
        if handler is not None:
            decoded = events.decode_detail(kind, detail)
            handler(self, lsn, row, decoded, body)

    def end_of_block(self) -> None:
        """A block is atomic: no transaction may be open between two of them."""
        if self._in_transaction:
            raise Violation("transactions", f"split over two blocks: {self._in_transaction}")
        if self._copy is not None:
            raise Violation("P1", f"the copy {self._copy} is not in the block of its original")
        if self._recording:
            raise Violation("P1", f"the id of {self._recording} is not in the block of its message")

    # ---- messages

    def _routed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        message = row[events.MESSAGE]
        flags = row[events.FLAGS]
        if message != lsn:
            raise Violation("P2", f"event {lsn} routes message {message}")
        chunks = events.chunk_lsns(detail)
        if chunks or not flags & events.BODY_OMITTED:
            self.needs[message] = min(chunks, default=lsn)
        reason = row[events.REASON]
        if reason == reasons.HISTORY_ONLY:
            reason = reasons.DIVERT if row[events.RELATED] else reasons.SENT
        if reason == reasons.SENT:
            if detail.transaction:
                self._in_transaction[lsn] = detail.transaction
            if bool(detail.chunks) != bool(flags & events.LARGE):
                raise Violation("P1", f"event {lsn} has flags {flags} and {detail}")
            if detail.chunks:
                body = self._body_of(lsn, detail)
                flags &= ~events.BODY_OMITTED
            if not flags & events.BODY_OMITTED:
                self._sent(lsn, row, detail, body)
        elif reason == reasons.DIVERT:
            if row[events.RELATED] not in self.routed_ids:
                raise Violation("P1", f"event {lsn}: a copy of nothing: {row}")
            if row[events.RELATED] in self._taken:
                self._sent_to_copies(lsn, row, detail, body)
            self.tags.update(self._tag_of(message, row))
        else:
            expected, self._copy = self._copy, None
            if expected != (row[events.REASON], message, row[events.RELATED]):
                raise Violation("P1", f"event {lsn}: copy {row} without its original {expected}")
            self.tags.update(self._tag_of(message, row))
        self.routed_ids.add(message)
        persistent = bool(flags & events.PERSISTENT)
        for queue_id in detail.queues or (row[events.QUEUE],):
            queue = self.queues[queue_id]
            entry = Entry(row[events.PRIORITY], persistent)
            queue.entries[message] = entry
            queue.put(message, entry)

    def _recalled(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """A message of before enters a queue that was created after it was sent."""
        message = row[events.MESSAGE]
        if message not in self.routed_ids:
            raise Violation("P2", f"event {lsn} recalls message {message}, which was never sent")
        queue = self.queues[row[events.QUEUE]]
        entry = Entry(row[events.PRIORITY], bool(row[events.FLAGS] & events.PERSISTENT))
        queue.entries[message] = entry
        queue.put(message, entry)

    def _tag_of(self, message: int, row: events.Row) -> dict[int, int]:
        """A copy has the tag of the message that it was made from."""
        tag = self.tags.get(row[events.RELATED])
        return {message: tag} if tag is not None else {}

    def _diverted(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """No queue of its own address holds it, only copies elsewhere."""
        self.routed_ids.add(lsn)
        if detail.transaction:
            self._in_transaction[lsn] = detail.transaction
        self._taken[lsn] = row, detail

    def _sent_to_copies(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """The first copy has the content of a message that is only diverted."""
        original, said = self._taken.pop(row[events.RELATED])
        if detail.chunks:
            body = self._body_of(lsn, detail)
        elif row[events.FLAGS] & events.BODY_OMITTED:
            return
        self._sent(row[events.RELATED], original, said, body)
        # The id was recorded before the copies.
        self._recording = 0

    def _shown(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """Everybody reads it, and it stays."""
        consumer = self.consumers[row[events.CONSUMER]]
        self._find(lsn, row)
        message = row[events.MESSAGE]
        self.shown.add(message)
        self.delivered.add((consumer.connection, consumer.subscription, message, 1))

    def _seen(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        consumer = self.consumers[row[events.CONSUMER]]
        key = (consumer.connection, consumer.subscription, row[events.MESSAGE])
        self.acknowledged.add(key)
        self.given_back.add(key)

    def _moved(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self._copy = (reasons.ADMINISTRATION, row[events.RELATED], row[events.MESSAGE])
        self._leave(row)

    def _chunk_received(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        related = row[events.RELATED]
        if related and self.chunks.get(related, (0, b""))[0] != row[events.CONNECTION]:
            raise Violation("P1", f"event {lsn} follows {related}, which is no chunk of its peer")
        self.chunks[lsn] = (row[events.CONNECTION], body)

    def _body_of(self, lsn: int, detail: Any) -> bytes:
        """The body of a large message. Its chunks are its own, so they are forgotten."""
        chunks = events.chunk_lsns(detail)
        missing = [chunk for chunk in chunks if chunk not in self.chunks]
        if missing:
            raise Violation(
                "P1", f"event {lsn} lists chunks that are none, or another's: {missing}"
            )
        body = b"".join(self.chunks.pop(chunk)[1] for chunk in chunks)
        if len(body) != detail.body_bytes:
            raise Violation(
                "P1", f"event {lsn}: {len(body)} bytes in chunks, {detail.body_bytes} said"
            )
        self.large += 1
        return body

    def _sent(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        tag = int(body.partition(b" ")[0])
        sent = self.ledger.sent.get(tag)
        if sent is None or sent.body != body:
            raise Violation("P1", f"event {lsn} routes a message that nobody sent: {body[:40]!r}")
        if tag in self.routed:
            raise Violation("P1", f"event {lsn} routes {tag} again, after {self.routed[tag]}")
        asked = {sent.transaction, *sent.transactions, *([""] if sent.has_id else [])}
        if sent.priority != row[events.PRIORITY] or detail.transaction not in asked:
            raise Violation("P1", f"event {lsn} has other attributes than {sent}")
        named = queues_named_by(sent.destination)
        queues = getattr(detail, "queues", ()) or (row[events.QUEUE],)
        taken = {self.queues[queue].name for queue in queues if queue}
        if named and (len(taken) > 1 or not taken <= named):
            raise Violation("P1", f"event {lsn} routes {sent.destination} to {taken}")
        self.routed[tag] = lsn
        self.tags[lsn] = tag
        self._recording = lsn if sent.has_id else 0

    def _carried(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """Retention writes content again; what it writes must be what it was."""
        message = row[events.MESSAGE]
        self.carried += 1
        if message not in self.needs:
            raise Violation("P1", f"event {lsn} carries {message}, which has no content: {row}")
        chunks: tuple[int, ...] = ()
        if detail is not None and detail.chunks:
            chunks = events.chunk_lsns(detail)
            body = b"".join(self.chunks.pop(chunk)[1] for chunk in chunks)
        tag = self.tags.get(message, 0)
        if tag and self.ledger.sent[tag].body != body:
            raise Violation("P1", f"event {lsn} carries another body than {tag} has: {body[:40]!r}")
        self.needs[message] = min(chunks, default=lsn)

    def _segments_removed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """What is queued must have its content behind the segments that left."""
        for queue in self.queues.values():
            for message in queue.entries:
                if self.needs.get(message, lsn) <= row[events.RELATED]:
                    raise Violation("P1", f"event {lsn}: {row} took {message} of {queue.name}")

    def _recorded(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """An id is recorded right behind its message."""
        routed, self._recording = self._recording, 0
        tag = tag_of_id(detail.duplicate_id)
        if row[events.RELATED] in self._taken:
            routed = row[events.RELATED]
        found = (row[events.RELATED], self.routed.get(tag, routed))
        if found != (routed, routed) or not routed or tag in self.remembered:
            raise Violation("P1", f"event {lsn} records {detail} of {found}, behind {routed}")
        self.remembered.add(tag)

    def _dropped(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        connection = row[events.CONNECTION]
        if row[events.REASON] == reasons.DUPLICATE:
            self.duplicates += 1
            if tag_of_id(detail.duplicate_id) not in self.remembered:
                raise Violation("P1", f"event {lsn} drops {detail}, which was never there")
            return
        copied = row[events.RELATED]
        if copied:
            # A copy that a divert made of it; if no queue has the original, nothing is left.
            self.dropped[connection] = self.dropped.get(connection, 0) + (copied in self._taken)
            self._taken.pop(copied, None)
            return
        if detail.transaction and detail.duplicate_id:
            self._recording = lsn
        self.dropped[connection] = self.dropped.get(connection, 0) + 1
        if detail.transaction:
            self._in_transaction[lsn] = detail.transaction

    def _delivered(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        queue, entry = self._find(lsn, row)
        message = row[events.MESSAGE]
        consumer = self.consumers[row[events.CONSUMER]]
        if entry.consumer:
            raise Violation("P1", f"event {lsn}: message {message} is in flight already")
        in_order = queue.first() == message or is_mixed(queue.name)
        if not in_order and not self._may_pass(queue, message):
            raise Violation(
                "order", f"event {lsn}: {message} before {queue.first()} ({queue.name})"
            )
        if row[events.DELIVERY_COUNT] != entry.count + 1:
            raise Violation("P5", f"event {lsn}: count {entry.count} becomes {row}")
        if consumer.queue != row[events.QUEUE]:
            raise Violation("P1", f"event {lsn}: delivered from another queue than {consumer}")
        entry.count += 1
        entry.consumer = row[events.CONSUMER]
        self.delivered.add((consumer.connection, consumer.subscription, message, entry.count))

    def _may_pass(self, queue: ShadowQueue, message: int) -> bool:
        """Whether all that stands before a message may be withheld, for it could not be read."""
        for _, other in sorted(queue.ready):
            entry = queue.entries.get(other)
            if other == message or entry is None or entry.consumer:
                if other == message:
                    return True
            elif other not in self.unreadable:
                return False
        return False

    def _acknowledged(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        consumer = self._holder(lsn, row)
        message = row[events.MESSAGE]
        if row[events.REASON] == reasons.AUTOMATIC:
            asked = consumer.ack_mode == "auto"
            self.automatic.add(message)
        else:
            asked = (consumer.link, consumer.subscription, message) in self.ledger.acks
        if not asked:
            raise Violation("P1", f"event {lsn}: {message} acknowledged; nobody asked: {consumer}")
        self.acknowledged.add((consumer.connection, consumer.subscription, message))
        self._leave(row)

    def _returned(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        consumer = self._holder(lsn, row)
        queue, entry = self._find(lsn, row)
        message = row[events.MESSAGE]
        reason = row[events.REASON]
        count = row[events.DELIVERY_COUNT]
        asked = (consumer.link, consumer.subscription, message) in self.ledger.attempted
        taken_back = {0, 1} if asked else {1}
        if reason == reasons.UNREADABLE:
            # The broker's own fault: no attempt counts, not even one that was heard.
            taken_back = {1}
            self.unreadable.add(message)
            self.uncounted.add((consumer.link, consumer.subscription, message, entry.count))
        if entry.count - count not in (taken_back if reason in TAKES_BACK else {0}):
            raise Violation("P5", f"event {lsn}: count {entry.count} returned as {row}")
        if not row[events.FLAGS] & events.REDELIVERED:
            raise Violation("P5", f"event {lsn}: returned without its flag: {row}")
        if reason == reasons.NACK:
            if (consumer.link, consumer.subscription, message) not in self.ledger.nacks:
                raise Violation("P1", f"event {lsn}: {message} rejected; nobody asked: {consumer}")
            self.given_back.add((consumer.connection, consumer.subscription, message))
        entry.count = count
        queue.put(message, entry)

    def _dead_lettered(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        consumer = self._holder(lsn, row)
        queue, entry = self._find(lsn, row)
        if queue.name == DEAD_LETTER_QUEUE or entry.count < MAX_ATTEMPTS:
            raise Violation("P1", f"event {lsn}: dead-lettered from {queue.name} at {entry.count}")
        if not row[events.RELATED]:
            raise Violation("P1", f"event {lsn}: dropped instead of dead-lettered")
        self._copy = (reasons.DEAD_LETTER, row[events.RELATED], row[events.MESSAGE])
        key = (consumer.connection, consumer.subscription, row[events.MESSAGE])
        self.given_back.add(key)
        self._leave(row)

    def _expired(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        _, entry = self._find(lsn, row)
        if entry.consumer:
            raise Violation("P1", f"event {lsn}: expired in flight")
        if row[events.RELATED]:
            self._copy = (reasons.EXPIRY, row[events.RELATED], row[events.MESSAGE])
        self._leave(row)

    def _removed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        _, entry = self._find(lsn, row)
        reason = row[events.REASON]
        if is_mixed(self.queues[row[events.QUEUE]].name) and reason != reasons.QUEUE_REMOVED:
            # The referee knows the rules.
            pass
        elif reason == reasons.ADMINISTRATION:
            if not self.ledger.purges or entry.consumer:
                raise Violation("P1", f"event {lsn}: removed by nobody's order: {row}")
        elif reason != reasons.QUEUE_REMOVED:
            raise Violation("P1", f"event {lsn}: removed for reason {reason}: {row}")
        self._leave(row)

    def _find(self, lsn: int, row: events.Row) -> tuple[ShadowQueue, Entry]:
        queue = self.queues.get(row[events.QUEUE])
        entry = queue.entries.get(row[events.MESSAGE]) if queue is not None else None
        if queue is None or entry is None:
            raise Violation("P1", f"event {lsn} is about a message that is not in its queue: {row}")
        return queue, entry

    def _holder(self, lsn: int, row: events.Row) -> ShadowConsumer:
        _, entry = self._find(lsn, row)
        consumer = self.consumers.get(entry.consumer)
        if consumer is None or row[events.CONSUMER] not in (0, entry.consumer):
            raise Violation("P1", f"event {lsn}: {row} is in flight to {entry.consumer}")
        return consumer

    def _leave(self, row: events.Row) -> None:
        del self.queues[row[events.QUEUE]].entries[row[events.MESSAGE]]

    # ---- peers and queues

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

    def _queue_created(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        queue = ShadowQueue(detail.name, detail.durable and not detail.temporary)
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
        if record is None or not record.committing:
            raise Violation("transactions", f"event {lsn} commits what nobody asked for: {detail}")
        if detail.first + detail.events != lsn or detail.first < 1:
            raise Violation("transactions", f"event {lsn} does not end its group: {detail}")
        if any(first < detail.first for first in self._in_transaction):
            raise Violation("transactions", f"event {lsn}: parts before {detail.first}")
        sent = [self.ledger.sent[tag] for tag in record.tags]
        if len(self._in_transaction) != len(sent):
            raise Violation(
                "transactions", f"event {lsn}: sent {sent}, routed {self._in_transaction}"
            )
        for subscription, message in record.acks:
            key = (connection, subscription, message)
            if key not in self.acknowledged:
                raise Violation("transactions", f"event {lsn}: {message} is not acknowledged")
        self._in_transaction.clear()
        self.committed.add((connection, detail.transaction))

    def _rolled_back(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.rolled_back.add((row[events.CONNECTION], detail.transaction))


_HANDLERS = {
    events.CHUNK_RECEIVED: Shadow._chunk_received,
    events.CARRIED: Shadow._carried,
    events.SEGMENTS_REMOVED: Shadow._segments_removed,
    events.ROUTED: Shadow._routed,
    events.DROPPED: Shadow._dropped,
    events.DUPLICATE_ID_RECORDED: Shadow._recorded,
    events.DELIVERED: Shadow._delivered,
    events.ACKNOWLEDGED: Shadow._acknowledged,
    events.RETURNED: Shadow._returned,
    events.DEAD_LETTERED: Shadow._dead_lettered,
    events.EXPIRED: Shadow._expired,
    events.REMOVED: Shadow._removed,
    events.MOVED: Shadow._moved,
    events.DIVERTED: Shadow._diverted,
    events.SHOWN: Shadow._shown,
    events.SEEN: Shadow._seen,
    events.RECALLED: Shadow._recalled,
    events.CONNECTION_OPENED: Shadow._connection_opened,
    events.CONNECTION_CLOSED: Shadow._connection_closed,
    events.CONSUMER_ATTACHED: Shadow._attached,
    events.CONSUMER_DETACHED: Shadow._detached,
    events.QUEUE_CREATED: Shadow._queue_created,
    events.QUEUE_DELETED: Shadow._queue_deleted,
    events.BROKER_STARTED: Shadow._started,
    events.TRANSACTION_COMMITTED: Shadow._committed,
    events.TRANSACTION_ROLLED_BACK: Shadow._rolled_back,
}
