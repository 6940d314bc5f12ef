"""The facts of the durable events, each compared with the knowledge of clients.

Reads events by their table and shares no code with the decisions or with `apply`. It judges what
only clients can say: that nothing is invented, settled without a request, committed in part, or
carried with another body. Whether the broker may decide an event is for the audit's rules.
"""

import re
from collections.abc import Callable, Set
from typing import Any, NamedTuple

from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import OWN_PROTOCOL as FALLBACK
from tests.simulation.judges.violation import Violation
from tests.simulation.peers.clients import queues_named_by
from tests.simulation.peers.kinds import is_mixed_place
from tests.simulation.peers.ledger import Ledger, TransactionRecord

ASKED = (reasons.NACK, reasons.GIVEN_BACK, reasons.REFUSED)
"""Reasons to end a delivery that only its client has."""
COMPOSITE = "composite-"
"""The broker's name for the transaction of one message to several destinations."""


def tag_of_id(text: str) -> int:
    """The tag of the message whose duplicate id is named in a text, 0 if there is none."""
    found = re.search(r"\bid-(\d+)\b", text)
    return int(found[1]) if found else 0


class Consumer(NamedTuple):
    """A consumer: whose it is, its subscription's name, how it settles."""

    link: int
    connection: int
    subscription: str
    ack_mode: str
    is_amqp: bool

    def asked(self, message: int) -> tuple[int, str, int]:
        """The key of what its client asked for about a message."""
        return self.link, self.subscription, message

    def told(self, message: int) -> tuple[int, str, int]:
        """The key of the answers to its client about a message."""
        return self.connection, self.subscription, message


class Facts:
    """The facts as far as the journal is durable. Keys of those about clients begin with a
    connection."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.lsn = 0
        # The link of a connection: the simulator names peers by it.
        self.links: dict[int, int] = {}
        self._amqp: set[int] = set()
        # Whether a receiver of a direct address may have accepted the message with a tag.
        self.may_take: Callable[[int], bool] = lambda tag: False
        self.closed: set[int] = set()
        self.attached: set[tuple[int, str]] = set()
        self.detached: set[tuple[int, str]] = set()
        self.committed: set[tuple[int, str]] = set()
        self.rolled_back: set[tuple[int, str]] = set()
        self.delivered: set[tuple[int, str, int, int]] = set()
        self.acknowledged: set[tuple[int, str, int]] = set()
        self.given_back: set[tuple[int, str, int]] = set()
        # When consumers were attached, and when queues and deliveries changed last, by queue and
        # message, 0 for all of them: a delivery that is resumed may be refused for that.
        self.attached_at: dict[tuple[int, str], int] = {}
        self.changed_at: dict[tuple[int, int], int] = {}
        # Queues that one link has at a time, with its consumer; consumers that lost theirs, by link
        # and by connection; those that did not hear of it yet.
        self._owners: dict[int, int] = {}
        self.stolen: set[tuple[int, str]] = set()
        self.untold: set[tuple[int, str]] = set()
        # Open connections by what makes a client the same one.
        self._open: dict[tuple[str, str, str], set[int]] = {}
        # Readers, and the messages that they read without taking them.
        self.shown: set[tuple[int, str, int]] = set()
        # Attempts that the broker took back because a body could not be read, by link.
        self.uncounted: set[tuple[int, str, int, int]] = set()
        # Messages that the broker acknowledged itself, or took from a queue for receivers.
        self.automatic: set[int] = set()
        # By tag, the event that routed it; the ids of all messages; tags by message.
        self.routed: dict[int, int] = {}
        self.routed_ids: set[int] = set()
        self.tags: dict[int, int] = {}
        # By connection: how many of its messages were dropped.
        self.dropped: dict[int, int] = {}
        # Tags of messages whose ids are known, also by address, or were forgotten since.
        self.remembered: set[int] = set()
        self.remembered_at: dict[int, set[int]] = {}
        self.forgotten: set[int] = set()
        # Of each message that is journaled with its body: the first event that it needs.
        self.needs: dict[int, int] = {}
        # How many messages came in chunks, were carried, and were dropped as duplicates.
        self.large = self.carried = self.duplicates = 0
        self._queues: dict[int, str] = {}
        self._consumers: dict[int, Consumer] = {}
        # By queue and message: its consumer.
        self._holders: dict[tuple[int, int], Consumer] = {}
        # Subscriptions to several queues, by the event that opened them.
        self._bundles: dict[int, tuple[int, str]] = {}
        self._chunks: dict[int, bytes] = {}
        self._in_transaction: dict[int, str] = {}
        # Messages that are only diverted, before their first copy.
        self._taken: dict[int, tuple[int, events.Row, Any]] = {}
        # The last message that no queue took, only what the broker keeps, and its tag.
        self._kept = self._kept_tag = 0

    def take(self, lsn: int, row: events.Row, detail: bytes, headers: bytes, body: bytes) -> None:
        """Take one event; raises Violation if no client asked for it."""
        if lsn != self.lsn + 1:
            raise Violation("P2", f"event {lsn} follows event {self.lsn}")
        self.lsn = lsn
        handler = _HANDLERS.get(row[events.KIND])
        if handler is not None:
            decoded = events.decode_detail(row[events.KIND], detail)
            handler(self, lsn, row, decoded, body)

    # ---- messages

    def _routed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        flags = row[events.FLAGS]
        chunks = events.chunk_lsns(detail)
        if chunks or not flags & events.BODY_OMITTED:
            self.needs[lsn] = min(chunks, default=lsn)
        origin = self._origin_of(lsn, row, detail, body)
        if origin == reasons.SENT:
            if detail.transaction:
                self._in_transaction[lsn] = detail.transaction
            if chunks:
                self.large += 1
                body = self._body_of(lsn, detail)
            if chunks or not flags & events.BODY_OMITTED:
                self._sent(lsn, row, detail, body)
        elif origin == reasons.ADMINISTRATION:
            self._copied(lsn, row, detail, body)
        else:
            if row[events.RELATED] in self._taken:
                self._sent_to_copies(lsn, row, detail, body)
            self._note_tag(lsn, row)
        self.routed_ids.add(lsn)

    def _origin_of(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> int:
        """Return whether a message was sent, or is a copy, made for what reason."""
        reason = row[events.REASON]
        made = reasons.DIVERT if row[events.RELATED] else reasons.SENT
        if reason == reasons.HISTORY_ONLY:
            self._kept = lsn
            return made
        if reason != reasons.NO_ROUTE or made == reasons.DIVERT:
            return made if reason == reasons.NO_ROUTE else reason
        is_known = self._tag_in(detail, body) in self.routed
        is_gone = bool(detail.chunks) and detail.chunks[0] not in self._chunks
        is_again = self._kept == lsn - 1 or is_known or is_gone
        return reasons.ADMINISTRATION if is_again else reasons.SENT

    def _tag_in(self, detail: Any, body: bytes) -> int:
        """The tag in the body of a message, 0 if the journal has no body."""
        if detail.chunks:
            # Those of a message of one place are forgotten.
            body = self._chunks.get(detail.chunks[0], b"")
        return int(body.partition(b" ")[0] or 0)

    def _note_tag(self, message: int, row: events.Row) -> None:
        """A copy has the tag of the message that it was made from."""
        tag = self.tags.get(row[events.RELATED])
        if tag is not None:
            self.tags[message] = tag

    def _copied(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """A copy beside the original: an administrator's, or one that no queue took."""
        self._note_tag(lsn, row)
        tag = self._tag_in(detail, body)
        sent = self.ledger.sent.get(tag)
        if tag and (sent is None or len(sent.body) < len(body)):
            raise Violation("P1", f"event {lsn} copies a message that nobody sent: {body[:40]!r}")
        self.tags[lsn] = tag or self.tags.get(lsn, 0)

    def _diverted(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """No queue of its own address has it, only copies elsewhere."""
        self.routed_ids.add(lsn)
        related = row[events.RELATED]
        if detail.transaction and not related:
            self._in_transaction[lsn] = detail.transaction
        self._note_tag(lsn, row)
        original = self._taken.pop(related, None) if related else (lsn, row, detail)
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

    def _body_of(self, lsn: int, detail: Any) -> bytes:
        """The body of a large message."""
        chunks = events.chunk_lsns(detail)
        missing = [chunk for chunk in chunks if chunk not in self._chunks]
        if missing:
            raise Violation("P1", f"event {lsn} lists chunks of nobody, or of another: {missing}")
        return b"".join(self._chunks[chunk] for chunk in chunks)

    def _sent(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        tag = int(body.partition(b" ")[0])
        sent = self.ledger.sent.get(tag)
        if sent is None or not sent.has_body(body):
            raise Violation("P1", f"event {lsn} routes a message that nobody sent: {body[:40]!r}")
        is_again = tag in self.routed and tag not in self.forgotten and sent.places == 1
        if is_again and tag != self._kept_tag:
            raise Violation("P1", f"event {lsn} routes {tag} again, after {self.routed[tag]}")
        if sent.withdrawn or sent.refused:
            raise Violation("P1", f"event {lsn} routes what was not sent, or refused: {sent}")
        self.forgotten.discard(tag)
        asked = {sent.transaction, *sent.transactions, *([""] if sent.has_id else [])}
        was_asked = detail.transaction in asked or detail.transaction.startswith(COMPOSITE)
        if sent.priority != row[events.PRIORITY] or not was_asked:
            raise Violation("P1", f"event {lsn} has other attributes than {sent}")
        named = queues_named_by(sent.destination)
        queues = getattr(detail, "queues", ()) or (row[events.QUEUE],)
        taken = {self._queues[queue] for queue in queues if queue}
        if named and (len(taken) > 1 or not taken <= named):
            raise Violation("P1", f"event {lsn} routes {sent.destination} to {taken}")
        if not is_mixed_place(sent.destination):
            # Its chunks are its own, so nothing else may list them.
            for chunk in events.chunk_lsns(detail) if getattr(detail, "chunks", ()) else ():
                del self._chunks[chunk]
        self.routed[tag] = lsn
        self.tags[lsn] = tag
        self._kept_tag = tag if self._kept == lsn else self._kept_tag

    def _chunk_received(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self._chunks[lsn] = body

    def _carried(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """Retention writes content again, which must be equal to the original."""
        message = row[events.MESSAGE]
        self.carried += 1
        if message not in self.needs:
            raise Violation("P1", f"event {lsn} carries {message}, which has no content: {row}")
        chunks: tuple[int, ...] = ()
        if detail is not None and detail.chunks:
            chunks = events.chunk_lsns(detail)
            body = b"".join(self._chunks.pop(chunk) for chunk in chunks)
        tag = self.tags.get(message, 0)
        if tag and not self.ledger.sent[tag].has_body(body):
            raise Violation("P1", f"event {lsn} carries another body than {tag} has: {body[:40]!r}")
        self.needs[message] = min(chunks, default=lsn)

    def _recorded(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """An id is recorded with its message, once."""
        tag, routed = tag_of_id(detail.duplicate_id), row[events.RELATED]
        is_mixed = tag in self.ledger.sent and is_mixed_place(self.ledger.sent[tag].destination)
        if is_mixed and tag in self.routed:
            # It may be recorded with any of the places where the message went.
            self.routed[tag] = routed
        known = routed if tag in self.forgotten else self.routed.get(tag, routed)
        if known != routed or not routed or tag in self.remembered:
            raise Violation("P1", f"event {lsn} records {detail} of {routed}, sent as {known}")
        self.remembered.add(tag)
        self.remembered_at.setdefault(row[events.ADDRESS], set()).add(tag)

    def _ids_forgotten(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """An address, or its name, is no longer what remembers them."""
        tags = self.remembered_at.pop(row[events.ADDRESS], set())
        self.remembered -= tags
        self.forgotten |= tags

    def _dropped(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        connection, copied = row[events.CONNECTION], row[events.RELATED]
        if row[events.REASON] == reasons.DUPLICATE:
            self.duplicates += 1
            if tag_of_id(detail.duplicate_id) not in self.remembered:
                raise Violation("P1", f"event {lsn} drops {detail}, which was never there")
            return
        if copied:
            # A copy that a divert made of it; if no queue has the original, nothing is left.
            self.dropped[connection] = self.dropped.get(connection, 0) + (copied in self._taken)
            self._taken.pop(copied, None)
            return
        self.dropped[connection] = self.dropped.get(connection, 0) + 1
        if detail.transaction:
            self._in_transaction[lsn] = detail.transaction

    # ---- deliveries

    def _delivered(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        consumer, message = self._consumers[row[events.CONSUMER]], row[events.MESSAGE]
        self._holders[row[events.QUEUE], message] = consumer
        self.changed_at[row[events.QUEUE], message] = lsn
        owner = self._owners.get(row[events.QUEUE], 0)
        if row[events.CONSUMER] < owner:
            raise Violation("stolen", f"event {lsn}: {consumer} gets {message}, not {owner}")
        is_asked = consumer.asked(message) in self.ledger.resumed
        if row[events.REASON] == reasons.RESUMED and not is_asked:
            raise Violation("P1", f"event {lsn}: {message} is resumed; nobody asked: {consumer}")
        self.delivered.add((*consumer.told(message), row[events.DELIVERY_COUNT]))

    def _shown(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """Everybody reads it, and it stays."""
        key = self._consumers[row[events.CONSUMER]].told(row[events.MESSAGE])
        self.shown.add(key)
        self.delivered.add((*key, 1))

    def _seen(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        key = self._consumers[row[events.CONSUMER]].told(row[events.MESSAGE])
        self.acknowledged.add(key)
        self.given_back.add(key)

    def _acknowledged(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        message = row[events.MESSAGE]
        consumer = self._holders.pop((row[events.QUEUE], message))
        if row[events.REASON] == reasons.AUTOMATIC:
            asked = consumer.ack_mode == "auto"
            self.automatic.add(message)
        else:
            asked = consumer.asked(message) in self.ledger.acks
        if not consumer.link:
            # A receiver that settles nothing has taken it as soon as it is sent, and its connection
            # may break before it arrives. Where one has to accept, `may_take` wants its word.
            asked = self.may_take(self.tags.get(message, 0))
            self.automatic.add(message)
        if not asked:
            raise Violation("P1", f"event {lsn}: {message} acknowledged; nobody asked: {consumer}")
        self.acknowledged.add(consumer.told(message))

    def _returned(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        message, reason = row[events.MESSAGE], row[events.REASON]
        consumer = self._holders.pop((row[events.QUEUE], message))
        self.changed_at[row[events.QUEUE], message] = lsn
        if reason == reasons.UNREADABLE:
            # The broker's own fault: no attempt counts, not even one that was heard.
            attempt = row[events.DELIVERY_COUNT] + 1
            self.uncounted.add((*consumer.asked(message), attempt))
        elif reason in ASKED:
            self._check_asked(lsn, consumer, message, reason)
            self.given_back.add(consumer.told(message))

    def _check_asked(self, lsn: int, consumer: Consumer, message: int, reason: int) -> None:
        """The client said so; or it put it into a transaction that was rolled back."""
        ledger = self.ledger
        wanted: dict[int, tuple[Set[tuple[int, str, int]], ...]] = {
            reasons.NACK: (ledger.nacks, ledger.attempted if consumer.is_amqp else set()),
            reasons.GIVEN_BACK: (ledger.released,), reasons.REFUSED: (ledger.refused,),
        }  # fmt: skip
        key = consumer.asked(message)
        if consumer.link and reason in wanted and not any(key in each for each in wanted[reason]):
            raise Violation("P1", f"event {lsn}: {message} ended; nobody asked: {consumer}")

    def _left(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """It left its queue; only an administrator's purge lets promises lapse."""
        consumer = self._holders.pop((row[events.QUEUE], row[events.MESSAGE]), None)
        if consumer is not None:
            self._check_asked(lsn, consumer, row[events.MESSAGE], row[events.REASON])
            self.given_back.add(consumer.told(row[events.MESSAGE]))

    # ---- connections, consumers, queues

    def _connection_opened(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        # The broker itself takes messages from queues that direct addresses fall back to.
        link = self.links[lsn] = 0 if detail.protocol == FALLBACK else int(detail.peer)
        if detail.protocol.startswith("AMQP"):
            self._amqp.add(link)
        others = self._open.setdefault((detail.host, detail.user, detail.client_id), set())
        # One that has ended may have so much to give back that its event comes later.
        there = {each for each in others if self.links[each] not in self.ledger.ends}
        if there and link in self.ledger.only:
            raise Violation("only", f"event {lsn}: {detail} is open beside {there}")
        others.add(lsn)

    def _connection_closed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.closed.add(row[events.CONNECTION])
        for others in self._open.values():
            others.discard(row[events.CONNECTION])

    def _attached(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        connection = row[events.CONNECTION]
        link = self.links.get(connection, 0)
        is_amqp = link in self._amqp
        self._consumers[lsn] = Consumer(
            link, connection, detail.subscription, detail.ack_mode, is_amqp
        )
        key = connection, detail.subscription
        self.attached.add(key)
        self.attached_at[key] = lsn
        record = self.ledger.subscriptions.get((link, detail.subscription))
        if record is not None and record.steals:
            self._owners[row[events.QUEUE]] = lsn

    def _queue_changed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.changed_at[row[events.QUEUE], 0] = lsn

    def _detached(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        consumer = self._consumers.pop(row[events.CONSUMER])
        key = consumer.connection, consumer.subscription
        self.detached.add(key)
        if row[events.REASON] == reasons.STOLEN:
            if self._owners.get(row[events.QUEUE], 0) <= row[events.CONSUMER]:
                raise Violation("stolen", f"event {lsn}: nobody took the place of {consumer}")
            self.stolen.add(key)
            self.untold.add((consumer.link, consumer.subscription))
            self.ledger.subscriptions[consumer.link, consumer.subscription].is_vague = True

    def _bundle_opened(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        """A subscription to several queues, of which none need exist yet."""
        self._bundles[lsn] = (row[events.CONNECTION], detail.subscription)
        self.attached.add(self._bundles[lsn])

    def _bundle_closed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.detached.add(self._bundles.pop(row[events.RELATED]))

    def _queue_created(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self._queues[row[events.QUEUE]] = detail.name

    def _started(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self._holders.clear()
        self._consumers.clear()
        self._owners.clear()
        self._open.clear()
        self.untold.clear()

    # ---- transactions

    def _committed(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        connection = row[events.CONNECTION]
        record = self.ledger.transactions.get((self.links.get(connection, 0), detail.transaction))
        is_composite = detail.transaction.startswith(COMPOSITE)
        if is_composite:
            # One message to several destinations; nothing if it was dropped everywhere.
            tags = {self.tags[each] for each in self._in_transaction if each in self.tags}
            record = TransactionRecord(detail.transaction, sorted(tags), committing=True)
        if record is None or not record.committing:
            raise Violation("transactions", f"event {lsn} commits what nobody asked for: {detail}")
        sent = [self.ledger.sent[tag] for tag in record.tags]
        wanted = sum(each.places for each in sent)
        found = len(self._in_transaction)
        if any(is_mixed_place(each.destination) for each in sent):
            # Patterns drop their own part, and what no queue took goes elsewhere, too.
            wanted = len(sent)
            found = min(len({self.tags.get(each, -each) for each in self._in_transaction}), wanted)
        if (sent or not is_composite) and found != wanted:
            raise Violation(
                "transactions", f"event {lsn}: sent {sent}, routed {self._in_transaction}"
            )
        for subscription, message in record.acks:
            is_over = self._has_lost(connection, subscription)
            if (connection, subscription, message) not in self.acknowledged and not is_over:
                raise Violation("transactions", f"event {lsn}: {message} is not acknowledged")
        self._in_transaction.clear()
        self.committed.add((connection, detail.transaction))

    def _has_lost(self, connection: int, name: str) -> bool:
        """Whether a subscription may have lost a queue without a word of its client."""
        record = self.ledger.subscriptions[self.links[connection], name]
        return record.is_vague and (connection, name) in self.detached

    def _rolled_back(self, lsn: int, row: events.Row, detail: Any, body: bytes) -> None:
        self.rolled_back.add((row[events.CONNECTION], detail.transaction))


_HANDLERS = {
    events.ACKNOWLEDGED: Facts._acknowledged,
    events.ADDRESS_DELETED: Facts._ids_forgotten,
    events.ADDRESS_UPDATED: Facts._queue_changed,
    events.BROKER_STARTED: Facts._started,
    events.BUNDLE_CLOSED: Facts._bundle_closed,
    events.BUNDLE_OPENED: Facts._bundle_opened,
    events.CARRIED: Facts._carried,
    events.CHUNK_RECEIVED: Facts._chunk_received,
    events.CONNECTION_CLOSED: Facts._connection_closed,
    events.CONNECTION_OPENED: Facts._connection_opened,
    events.CONSUMER_ATTACHED: Facts._attached,
    events.CONSUMER_DETACHED: Facts._detached,
    events.DEAD_LETTERED: Facts._left,
    events.DELIVERED: Facts._delivered,
    events.DIVERTED: Facts._diverted,
    events.DROPPED: Facts._dropped,
    events.DUPLICATE_IDS_CLEARED: Facts._ids_forgotten,
    events.DUPLICATE_ID_RECORDED: Facts._recorded,
    events.QUEUE_CREATED: Facts._queue_created,
    events.QUEUE_PAUSED: Facts._queue_changed,
    events.QUEUE_RESUMED: Facts._queue_changed,
    events.QUEUE_UPDATED: Facts._queue_changed,
    events.REMOVED: Facts._left,
    events.RETURNED: Facts._returned,
    events.ROUTED: Facts._routed,
    events.SEEN: Facts._seen,
    events.SHOWN: Facts._shown,
    events.TRANSACTION_COMMITTED: Facts._committed,
    events.TRANSACTION_ROLLED_BACK: Facts._rolled_back,
}
