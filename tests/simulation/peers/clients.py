"""Simulated STOMP clients: they behave, but at any moment one may stall, vanish or resume later.

A client acts on answers, keeps the ledger of its requests, and reads what arrives.
Everything it chooses comes from the one source of chance of the simulation.
"""

import random
from collections.abc import Callable, Sequence

import msgspec

from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link
from tests.simulation.peers.kinds import extra_headers, is_mixed_place
from tests.simulation.peers.ledger import (
    Expectation,
    Ledger,
    Sent,
    SubscriptionRecord,
    TransactionRecord,
)
from tests.simulation.peers.wire import Frame, FrameReader, encode

QUEUES = {
    "orders.a": "orders.a",
    "orders.b": "orders.b",
    "jobs.c": "jobs.c",
    "jobs.d": "jobs.d",
    "split": "split",
    "one": "split::one",
    "two": "split::two",
}
"""Queues by name with their destination: three of them share an address, in turns."""
MORE_QUEUES = {
    "late": "jobs.c::late",
    "three": "split::three",
    "beside": "orders.a::beside",
}
"""More of them, by fully qualified names, of addresses that have a queue of their own name, too."""
ALL_QUEUES = {**QUEUES, **MORE_QUEUES}
TOPICS = ("news.a", "news.b")
DEAD_LETTERS = "dead"
TEMPORARY = "temp"
"""The messages of all destinations that end with their connection, and of no other."""

EXPECTED_ERRORS = (
    "disk is full",
    "' is full: it holds",
    "the broker is full",
    "nothing was heard",
    "not connected within",
    "has other consumers",
    "has consumers",
    "is a duplicate",
    "before CONNECTED was sent",
    "takes nothing more",
)
"""Words in an ERROR that even a client which does everything right may get to read."""

Headers = Sequence[tuple[str, str]]

BODY_BYTES = (0, 10, 200, 200, 200, 3_000, 20_000)


def queues_named_by(destination: str) -> set[str]:
    """The queues that may take a message sent to `/queue/...`; empty for topics."""
    if not destination.startswith("/queue/"):
        return set()
    address, _, queue = destination.removeprefix("/queue/").partition("::")
    if queue:
        return {queue}
    return {name for name, place in ALL_QUEUES.items() if place.partition("::")[0] == address}


def is_lasting(destination: str) -> bool:
    """Whether a destination is one place, the same for everybody: there, ids are remembered."""
    return "," not in destination and TEMPORARY not in destination


class Subscription(msgspec.Struct, eq=False):
    """A subscription on this connection: deliveries not settled by message id, with the ack id."""

    record: SubscriptionRecord
    is_durable: bool
    unsettled: dict[int, str] = {}


class Client:
    """One connection's life: connect, act, end. A new one takes its place afterwards."""

    host = "sim"
    language = ""
    beats = 0.1
    rejects = 0.15
    expected_errors: tuple[str, ...] = EXPECTED_ERRORS

    def __init__(
        self,
        slot: int,
        link: Link,
        ledger: Ledger,
        chance: random.Random,
        now: Callable[[], int],
        *,
        queues: dict[str, str],
        resends: bool = False,
    ) -> None:
        self.slot = slot
        # The number in the names of its durable subscriptions.
        self.home = slot
        self.link = link
        self.ledger = ledger
        self.chance = chance
        self.version = chance.choice(("1.0", "1.1", "1.2", "1.2"))
        self.produces = chance.random() < 0.6
        self.consumes = not self.produces or chance.random() < 0.5
        self.is_connected = False
        self.is_over = False
        # It goes without a word.
        self.is_leaving = False
        self.subscriptions: dict[str, Subscription] = {}
        self.transaction: TransactionRecord | None = None
        self.serial = 0
        self._now = now
        self._queues = queues
        self._had_durable = False
        # By subscription: ack ids by message, in the order of their last arrival.
        self._arrived: dict[str, dict[int, str]] = {}
        self._reader = FrameReader()
        self._resends = resends
        self._weights: dict[Callable[[], None], int] = {
            self.send: 12 if self.produces else 0,
            self.subscribe: 3 if self.consumes else 0,
            self.settle: 12 if self.consumes else 0,
            self.begin: 2,
            self.end_transaction: 3,
            self.unsubscribe: 1,
            self.beat: 1,
        }
        if resends:
            self._weights[self.resend] = 3 if self.produces else 0
        self.connect()

    def connect(self) -> None:
        """CONNECT, sometimes with heart-beats; what follows it need not wait for CONNECTED."""
        headers = [("accept-version", self.version), ("host", self.host), ("login", "guest")]
        if self.version == "1.0":
            headers = [("login", "guest")]
        elif self.chance.random() < self.beats:
            headers.append(("heart-beat", "2000,2000"))
        self.language = f"STOMP {self.version}"
        self._put("CONNECT", headers)
        if self.produces and self.chance.random() < 0.2:
            self.send()

    # ---- acting

    def act(self) -> None:
        """Do something that makes sense now."""
        if not self.is_connected or self.is_over:
            return
        actions = list(self._weights)
        self.chance.choices(actions, list(self._weights.values()))[0]()

    def lost(self) -> None:
        """The connection is over, with a word of either side or without."""

    def wait(self) -> None:
        """Do nothing that matters until it drains: other queues are drained already."""
        self.produces = False
        self._weights = {self.beat: 1}

    def drain(self, queue: str, place: str = "") -> None:
        """Only consume and acknowledge, from one queue: for the end of a simulation."""
        self.produces = False
        self._weights = {self.settle_all: 1}
        destination = f"/queue/{place or self._queues.get(queue, queue)}"
        self._subscribe_to(destination, queue, "client-individual", durable=False)

    def send(self) -> None:
        """SEND, in all variants."""
        destination = f"/queue/{self.chance.choice(list(self._queues.values()))}"
        if self.chance.random() < 0.2:
            destination = f"/topic/{self.chance.choice(TOPICS)}"
        self._send_to(destination)

    def _can_send_to(self, destination: str) -> bool:
        return True

    def _send_to(self, destination: str, more: Headers = ()) -> None:
        if not self._can_send_to(destination):
            return
        chance = self.chance
        tag = len(self.ledger.sent) + 1
        size = chance.choice(BODY_BYTES)
        body = b"%d %b" % (tag, chance.randbytes(size // 2).hex().encode())
        sent = Sent(tag, destination, body, chance.random() < 0.85, 4, 0, "")
        headers = [("destination", destination), *more]
        if is_mixed_place(destination):
            headers += self._extras(more)
        if chance.random() < 0.2:
            sent.priority = chance.randrange(10)
            headers.append(("priority", str(sent.priority)))
        if not sent.persistent:
            headers.append(("persistent", "false"))
        if chance.random() < 0.05:
            sent.expires_ms = self._now() // 1000 + chance.choice((1, 500, 5_000))
            headers.append(("expires", str(sent.expires_ms)))
        if chance.random() < 0.5:
            headers.append(("content-length", str(len(body))))
        can_repeat = self._resends and sent.persistent and is_lasting(destination)
        if can_repeat and chance.random() < 0.5:
            headers.append(("_AMQ_DUPL_ID", f"id-{tag}"))
            sent.has_id, sent.headers = True, list(headers)
            self.ledger.resendable.append(tag)
        self.ledger.sent[tag] = sent
        if self.transaction is not None and chance.random() < 0.7:
            sent.transaction = self.transaction.name
            self.transaction.tags.append(tag)
            headers.append(("transaction", sent.transaction))
        if chance.random() < 0.8:
            headers.append(self._receipt(Expectation("SEND", tag=tag, name=sent.transaction)))
        self._put("SEND", headers, body)

    def _extras(self, more: Headers) -> Headers:
        return extra_headers(self.chance)

    def resend(self) -> None:
        """SEND a message again; its first sender may be gone."""
        chance = self.chance
        recent = self.ledger.resendable[-30:] if chance.random() < 0.3 else self.ledger.resendable
        if not recent:
            return
        sent = self.ledger.sent[chance.choice(recent)]
        if not self._can_send_to(sent.destination):
            return
        sent.withdrawn = False
        headers = list(sent.headers)
        name = ""
        # Twice in one transaction would be a duplicate whatever became of the first.
        together = self.transaction
        if together is not None and sent.tag not in together.tags and chance.random() < 0.5:
            name = together.name
            together.tags.append(sent.tag)
            sent.transactions.add(name)
            headers.append(("transaction", name))
        if chance.random() < 0.8:
            headers.append(self._receipt(Expectation("SEND", tag=sent.tag, name=name)))
        self.ledger.resent += 1
        self._put("SEND", headers, sent.body)

    def subscribe(self) -> None:
        """SUBSCRIBE to a queue, a topic, or durably to a topic."""
        if len(self.subscriptions) >= (1 if self.version == "1.0" else 3):
            return
        if self.version == "1.0" and self.serial:
            # Its MESSAGE does not say which subscription it is for: one for each connection.
            return
        chance = self.chance
        mode = chance.choice(("auto", "client", "client-individual", "client-individual"))
        kind = chance.random()
        if kind < 0.7:
            name = chance.choice(list(self._queues))
            self._subscribe_to(f"/queue/{self._queues[name]}", name, mode, durable=False)
        elif kind < 0.85:
            topic = f"/topic/{chance.choice(TOPICS)}"
            self._subscribe_to(topic, "", mode, durable=False)
        elif self.version != "1.0" and not self._had_durable:
            # Once for each connection: a second one of the same id would get what was on its way to
            # the first, and nobody could tell.
            self._had_durable = True
            topic = f"/topic/{TOPICS[self.home % len(TOPICS)]}"
            self._subscribe_to(topic, f"dsub.d{self.home}", mode, durable=True)

    def _subscribe_to(
        self, destination: str, queue: str, mode: str, *, durable: bool, more: Headers = ()
    ) -> SubscriptionRecord:
        self.serial += 1
        name = f"d{self.home}" if durable else f"s{self.link.serial}-{self.serial}"
        headers = [("destination", destination), ("ack", mode), *more]
        if self.version == "1.0":
            name = destination
        else:
            headers.append(("id", name))
        if durable:
            headers.append(("persistent", "true"))
        if self.chance.random() < 0.5:
            headers.append(("credit", f"{self.chance.randint(1, 8)},0"))
        queue = queue or f"{name} of {self.link.serial}"
        record = SubscriptionRecord(self.link.serial, name, destination, queue, mode)
        self.ledger.subscriptions[self.link.serial, name] = record
        self.subscriptions[name] = Subscription(record, durable)
        if self.chance.random() < 0.5:
            headers.append(self._receipt(Expectation("SUBSCRIBE", name=name)))
        self._put("SUBSCRIBE", headers)
        return record

    def unsubscribe(self) -> None:
        """UNSUBSCRIBE cleanly; durable subscriptions are sometimes deleted."""
        if self.transaction is not None or not self.subscriptions:
            return
        name = self.chance.choice(list(self.subscriptions))
        subscription = self.subscriptions.pop(name)
        key = "destination" if self.version == "1.0" else "id"
        headers = [(key, name)]
        if subscription.is_durable and self.chance.random() < 0.3:
            headers.append(("persistent", "true"))
        subscription.record.closed_cleanly = True
        if self.chance.random() < 0.5:
            headers.append(self._receipt(Expectation("UNSUBSCRIBE", name=name)))
        self._put("UNSUBSCRIBE", headers)

    def settle(self) -> None:
        """ACK or NACK one delivery, or what came before it too, in or out of a transaction."""
        waiting = [each for each in self.subscriptions.values() if each.unsettled]
        if not waiting:
            return
        subscription = self.chance.choice(waiting)
        message = self.chance.choice(list(subscription.unsettled)[:10])
        rejects = self.version != "1.0" and self.chance.random() < self.rejects
        self._settle(subscription, message, rejects)

    def settle_all(self) -> None:
        """ACK everything."""
        for subscription in self.subscriptions.values():
            for message in list(subscription.unsettled):
                self._settle(subscription, message, rejects=False)

    def _settle(self, subscription: Subscription, message: int, rejects: bool) -> None:
        record = subscription.record
        if self.version == "1.2":
            headers = [("id", subscription.unsettled[message])]
        else:
            headers = [("message-id", str(message)), ("subscription", record.name)]
        if self.version == "1.0":
            headers = headers[:1]
        chosen = [message]
        if record.ack_mode == "client":
            everything = list(subscription.unsettled)
            chosen = everything[: everything.index(message) + 1]
        for each in chosen:
            del subscription.unsettled[each]
        keys = [(record.name, each) for each in chosen]
        transaction = self.transaction
        if transaction is not None and self.chance.random() < 0.6:
            headers.append(("transaction", transaction.name))
            (transaction.nacks if rejects else transaction.acks).extend(keys)
            link = self.link.serial
            self.ledger.attempted.update((link, name, message) for name, message in keys)
        else:
            self._note_settled(keys if not rejects else [], keys if rejects else [])
            if self.chance.random() < 0.5:
                kind = "NACK" if rejects else "ACK"
                headers.append(self._receipt(Expectation(kind, settled=keys)))
        self._put("NACK" if rejects else "ACK", headers)

    def _note_settled(self, acks: list[tuple[str, int]], nacks: list[tuple[str, int]]) -> None:
        link = self.link.serial
        self.ledger.acks.update((link, name, message) for name, message in acks)
        for name, message in nacks:
            self.ledger.nacks.add((link, name, message))
            record = self.ledger.subscriptions[link, name]
            for said in self.ledger.said.get((record.queue, message), ()):
                said.rejected = said.rejected or said.subscription is record

    def begin(self) -> None:
        """BEGIN a transaction, one at a time."""
        if self.transaction is not None:
            return
        self.serial += 1
        self.transaction = TransactionRecord(f"t{self.link.serial}-{self.serial}")
        self.ledger.transactions[self.link.serial, self.transaction.name] = self.transaction
        headers = [("transaction", self.transaction.name)]
        if self.chance.random() < 0.3:
            headers.append(self._receipt(Expectation("BEGIN")))
        self._put("BEGIN", headers)

    def end_transaction(self) -> None:
        """COMMIT or ABORT. Settlements in an aborted transaction can be repeated."""
        transaction = self.transaction
        if transaction is None:
            return
        self.transaction = None
        commits = self.chance.random() < 0.75
        headers = [("transaction", transaction.name)]
        if commits:
            transaction.committing = True
            self._note_settled(transaction.acks, transaction.nacks)
        else:
            self._forget(transaction)
        kind = "COMMIT" if commits else "ABORT"
        if self.chance.random() < 0.7:
            headers.append(self._receipt(Expectation(kind, name=transaction.name)))
        self._put(kind, headers)

    def _forget(self, transaction: TransactionRecord) -> None:
        """In the order of delivery, as the broker keeps it; those held stood before the others."""
        for name in dict.fromkeys(name for name, _ in transaction.acks + transaction.nacks):
            subscription = self.subscriptions[name]
            subscription.unsettled = {
                message: ack_id
                for message, ack_id in self._arrived[name].items()
                if message in subscription.unsettled
                or (name, message) in transaction.acks
                or (name, message) in transaction.nacks
            }

    def beat(self) -> None:
        """A heart-beat, which is not a frame."""
        self.link.to_broker += b"\n"

    def disconnect(self) -> None:
        """DISCONNECT cleanly, mostly with a receipt."""
        if not self.is_connected or self.is_over:
            return
        for subscription in self.subscriptions.values():
            subscription.record.closed_cleanly = True
        self.is_over = True
        headers = []
        if self.chance.random() < 0.7:
            headers.append(self._receipt(Expectation("DISCONNECT")))
        self._put("DISCONNECT", headers)

    # ---- reading

    def receive(self, data: bytes) -> None:
        """Read what arrived."""
        for frame in self._reader.feed(data):
            self._read(frame)

    def _read(self, frame: Frame) -> None:
        if frame.command == "CONNECTED":
            self.is_connected = True
        elif frame.command == "ERROR":
            text = frame.body.decode() + frame.headers.get("message", "")
            expected = [words for words in self.expected_errors if words in text]
            if not expected:
                raise Violation("protocol", f"link {self.link.serial} got {frame}")
            self.ledger.errors[expected[0]] += 1
            self.is_over = True
        elif frame.command == "MESSAGE" and not self.is_over:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        name = frame.headers.get("subscription", frame.headers["destination"])
        if self.version == "1.0":
            name = next(iter(self.subscriptions), "")
        subscription = self.subscriptions.get(name)
        if subscription is not None and subscription.record.ack_mode != "auto":
            message = int(frame.headers["message-id"])
            arrived = self._arrived.setdefault(name, {})
            arrived.pop(message, None)
            arrived[message] = frame.headers.get("ack", "")
            subscription.unsettled[message] = arrived[message]

    # ---- writing

    def _receipt(self, expectation: Expectation) -> tuple[str, str]:
        self.serial += 1
        receipt = f"r{self.serial}"
        self.ledger.expected[self.link.serial, receipt] = expectation
        return "receipt", receipt

    def _put(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        self.chance.shuffle(headers)
        self.link.to_broker += encode(command, headers, body)
