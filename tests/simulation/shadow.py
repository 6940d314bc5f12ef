"""The shadow: what the queues must be, from the durable events alone, and whether each may be.

It knows the table of events and nothing of `engine.state.apply` or `engine.state.state`, so it is a
second opinion. Each event is held against what it follows from and against what the clients know:
nothing is invented, settled without being asked to, delivered out of order, or counted wrongly.
"""

import re
from typing import Any

from daybook.engine.facts import events, reasons
from tests.simulation.clients import queues_named_by
from tests.simulation.kinds import is_mixed_place
from tests.simulation.ledger import Ledger
from tests.simulation.shadow_peers import COMPOSITE, Entry, Peers, ShadowConsumer, ShadowQueue
from tests.simulation.violation import Violation

DEAD_LETTER_QUEUE = "dead"
MAX_ATTEMPTS = 4


def tag_of_id(text: str) -> int:
    """The tag of the message whose duplicate id is named in a text, 0 if there is none."""
    found = re.search(r"\bid-(\d+)\b", text)
    return int(found[1]) if found else 0


TAKES_BACK = (reasons.CLOSED, reasons.LEFT_OUT, reasons.UNREADABLE)
"""Reasons for which an attempt may not count."""


class Shadow(Peers):
    """Queues, consumers and facts as far as the journal is durable."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.lsn = 0
        # Facts, for what is said to clients. Keys begin with a connection.
        self.routed: dict[int, int] = {}
        self.routed_ids: set[int] = set()
        self.dropped: dict[int, int] = {}
        self.delivered: set[tuple[int, str, int, int]] = set()
        self.given_back: set[tuple[int, str, int]] = set()
        self.automatic: set[int] = set()
        self.uncounted: set[tuple[int, str, int, int]] = set()
        # Connection and content of chunks that no message has taken yet, and how many have.
        self.chunks: dict[int, tuple[int, bytes]] = {}
        self.large = 0
        # Tags of messages whose ids are known, how many duplicates were dropped, and the event
        # whose id is to be recorded next.
        self.remembered: set[int] = set()
        # The same by address, and tags of messages whose ids were forgotten since.
        self.remembered_at: dict[int, set[int]] = {}
        self.forgotten: set[int] = set()
        self.duplicates = 0
        # The last message that no queue took, only what the broker keeps.
        self._kept = 0
        self._kept_tag = 0
        self._recording = 0
        self._may_go_on = False
        # Of each message that is journaled with its body: the first event that it needs.
        self.needs: dict[int, int] = {}
        self.carried = 0
        # Who read which messages without taking them: connection, subscription, message.
        self.shown: set[tuple[int, str, int]] = set()
        self._copy: tuple[int, int, int] | None = None
        # Messages that are only diverted, before their first copy.
        self._taken: dict[int, tuple[int, events.Row, Any]] = {}

    def apply(self, lsn: int, row: events.Row, detail: bytes, headers: bytes, body: bytes) -> None:
        """Take one event; raises Violation if it may not be."""
        if lsn != self.lsn + 1:
            raise Violation("P2", f"event {lsn} follows event {self.lsn}")
        self.lsn = lsn
        kind = row[events.KIND]
        # What a message replaced leaves before its id is recorded. One that no queue took goes
        # elsewhere before that, with copies, histories and drops; the end of the block is its end.
        is_replaced = kind == events.REMOVED and row[events.RELATED] == self._recording
        is_next = is_replaced or kind == events.DUPLICATE_ID_RECORDED
        if self._recording and not is_next and not self._may_go_on:
            raise Violation("P1", f"event {lsn}: the id of {self._recording} was not recorded")
        if self._copy is not None and kind not in (events.ROUTED, events.DIVERTED):
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
            self._kept = lsn
            reason = reasons.DIVERT if row[events.RELATED] else reasons.SENT
        if reason == reasons.NO_ROUTE:
            is_known = self._tag_in(detail, body) in self.routed
            is_gone = bool(chunks) and chunks[0] not in self.chunks
            is_again = self._kept == lsn - 1 or is_known or is_gone
            reason = reasons.ADMINISTRATION if is_again else reasons.SENT
            reason = reasons.DIVERT if row[events.RELATED] else reason
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
        elif reason == reasons.ADMINISTRATION and self._copy is None:
            self._copied(lsn, row, detail, body)
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
            if detail.due:
                entry.is_aside = True
            else:
                queue.put(message, entry)

    def _tag_in(self, detail: Any, body: bytes) -> int:
        """The tag in the body of a message, 0 if the journal has no body."""
        if detail.chunks:
            # Those of a message of one place are forgotten.
            body = self.chunks.get(detail.chunks[0], (0, b""))[1]
        return int(body.partition(b" ")[0] or 0)

    def _copied(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """A copy beside the original: an administrator's, or one that no queue took."""
        tag = self._tag_in(detail, body)
        if tag and (tag not in self.ledger.sent or len(self.ledger.sent[tag].body) < len(body)):
            raise Violation("P1", f"event {lsn} copies a message that nobody sent: {body[:40]!r}")
        self.tags[lsn] = tag

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
        expected, self._copy = self._copy, None
        if expected is not None and expected[1:] != (row[events.MESSAGE], row[events.RELATED]):
            raise Violation("P1", f"event {lsn}: copy {row} without its original {expected}")
        if detail.transaction and not row[events.RELATED]:
            self._in_transaction[lsn] = detail.transaction
        self.tags.update(self._tag_of(lsn, row))
        original = self._taken.pop(row[events.RELATED], None)
        if not row[events.RELATED]:
            original = lsn, row, detail
        if original is not None:
            self._taken[lsn] = original

    def _sent_to_copies(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """The first copy has the content of a message that is only diverted."""
        first, original, said = self._taken.pop(row[events.RELATED])
        if detail.chunks:
            body = self._body_of(lsn, detail)
        elif row[events.FLAGS] & events.BODY_OMITTED:
            return
        self._sent(first, original, said, body)
        # The id was recorded before the copies.
        self._recording = 0

    def _shown(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """Everybody reads it, and it stays."""
        consumer = self.consumers[row[events.CONSUMER]]
        self._find(lsn, row)
        message = row[events.MESSAGE]
        self.shown.add((consumer.connection, consumer.subscription, message))
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
        """The body of a large message."""
        chunks = events.chunk_lsns(detail)
        missing = [chunk for chunk in chunks if chunk not in self.chunks]
        if missing:
            raise Violation(
                "P1", f"event {lsn} lists chunks that are none, or another's: {missing}"
            )
        body = b"".join(self.chunks[chunk][1] for chunk in chunks)
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
        is_mixed = is_mixed_place(sent.destination)
        is_again = tag in self.routed and tag not in self.forgotten and sent.places == 1
        if is_again and tag != self._kept_tag:
            raise Violation("P1", f"event {lsn} routes {tag} again, after {self.routed[tag]}")
        self.forgotten.discard(tag)
        asked = {sent.transaction, *sent.transactions, *([""] if sent.has_id else [])}
        was_asked = detail.transaction in asked or detail.transaction.startswith(COMPOSITE)
        if sent.priority != row[events.PRIORITY] or not was_asked:
            raise Violation("P1", f"event {lsn} has other attributes than {sent}")
        named = queues_named_by(sent.destination)
        queues = getattr(detail, "queues", ()) or (row[events.QUEUE],)
        taken = {self.queues[queue].name for queue in queues if queue}
        if named and (len(taken) > 1 or not taken <= named):
            raise Violation("P1", f"event {lsn} routes {sent.destination} to {taken}")
        if not is_mixed:
            # Its chunks are its own, so nothing else may list them.
            for chunk in events.chunk_lsns(detail) if getattr(detail, "chunks", ()) else ():
                del self.chunks[chunk]
        self.routed[tag] = lsn
        self.tags[lsn] = tag
        self._recording = lsn if sent.has_id else 0
        self._may_go_on = is_mixed
        self._kept_tag = tag if self._kept == lsn else self._kept_tag

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
        if tag in self.ledger.sent and is_mixed_place(self.ledger.sent[tag].destination):
            # It may be recorded with any of the places where the message went.
            routed = row[events.RELATED]
            if tag in self.routed:
                self.routed[tag] = routed
        known = routed if tag in self.forgotten else self.routed.get(tag, routed)
        found = (row[events.RELATED], known)
        if found != (routed, routed) or not routed or tag in self.remembered:
            raise Violation("P1", f"event {lsn} records {detail} of {found}, behind {routed}")
        self.remembered.add(tag)
        self.remembered_at.setdefault(row[events.ADDRESS], set()).add(tag)

    def _ids_forgotten(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """An address, or its name, is no longer what remembers them."""
        tags = self.remembered_at.pop(row[events.ADDRESS], set())
        self.remembered -= tags
        self.forgotten |= tags

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
            sent = self.ledger.sent[tag_of_id(detail.duplicate_id)]
            self._may_go_on = is_mixed_place(sent.destination)
        self.dropped[connection] = self.dropped.get(connection, 0) + 1
        if detail.transaction:
            self._in_transaction[lsn] = detail.transaction

    def _delivered(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        queue, entry = self._find(lsn, row)
        message = row[events.MESSAGE]
        consumer = self.consumers[row[events.CONSUMER]]
        if entry.consumer:
            raise Violation("P1", f"event {lsn}: message {message} is in flight already")
        in_order = queue.first() == message or queue.is_mixed
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
        queue, entry = self._find(lsn, row)
        consumer = None if entry.is_aside else self._holder(lsn, row)
        is_early = queue.name == DEAD_LETTER_QUEUE or entry.count < MAX_ATTEMPTS
        # The referee knows the rules of the others.
        if is_early and not queue.is_mixed:
            raise Violation("P1", f"event {lsn}: dead-lettered from {queue.name} at {entry.count}")
        if row[events.RELATED]:
            self._copy = (reasons.DEAD_LETTER, row[events.RELATED], row[events.MESSAGE])
        elif not queue.is_mixed:
            raise Violation("P1", f"event {lsn}: dropped instead of dead-lettered")
        if consumer is not None:
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
        if self.queues[row[events.QUEUE]].is_mixed and reason != reasons.QUEUE_REMOVED:
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

    # ---- what waits

    def _set_aside(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """It waits for its time, or for a place that takes it."""
        _, entry = self._find(lsn, row)
        entry.is_aside = True

    def _ready_again(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        queue, entry = self._find(lsn, row)
        queue.put(row[events.MESSAGE], entry)


_HANDLERS = {
    events.HELD: Shadow._set_aside,
    events.SCHEDULED: Shadow._set_aside,
    events.RELEASED: Shadow._ready_again,
    events.DUE: Shadow._ready_again,
    events.BUNDLE_OPENED: Shadow._bundle_opened,
    events.BUNDLE_CLOSED: Shadow._bundle_closed,
    events.DUPLICATE_IDS_CLEARED: Shadow._ids_forgotten,
    events.ADDRESS_DELETED: Shadow._ids_forgotten,
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
    events.ADDRESS_CREATED: Shadow._address_created,
    events.QUEUE_CREATED: Shadow._queue_created,
    events.QUEUE_DELETED: Shadow._queue_deleted,
    events.BROKER_STARTED: Shadow._started,
    events.TRANSACTION_COMMITTED: Shadow._committed,
    events.TRANSACTION_ROLLED_BACK: Shadow._rolled_back,
}
