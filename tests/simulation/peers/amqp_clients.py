"""Simulated clients of AMQP 1.0: credit, outcomes, pieces of messages, drains, transactions.

They send the same messages as those of STOMP to the same places, and keep the same ledger.
"""

from collections.abc import Callable, Iterator
from typing import Any

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.sections import VALUE
from daybook.engine.messages.amqp.writer import section_of
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    EMPTY_FRAME,
    SASL,
    Frame,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.kinds import OK, RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from tests.simulation.judges.violation import Violation
from tests.simulation.peers.amqp_links import Receiver, Sender, Session
from tests.simulation.peers.amqp_memory import Decided, LinkMemory, unsettled_map
from tests.simulation.peers.amqp_wire import SHAPES, AmqpReader, bare_of, message_of
from tests.simulation.peers.clients import TOPICS as LASTING_TOPICS
from tests.simulation.peers.clients import Headers, Subscription
from tests.simulation.peers.ledger import (
    Expectation,
    SubscriptionRecord,
    TransactionRecord,
)
from tests.simulation.peers.swarm_clients import OTHER_HOST, TOPICS, SwarmClient
from tests.simulation.peers.swarm_clients import PLACES as SWARM_PLACES

AMQP_FEATURES = (
    "outcomes of AMQP", "sessions", "settled by the sender", "aborted", "anonymous senders",
    "drains", "browsers of AMQP", "shared by AMQP", "dynamic nodes", "transactions of AMQP",
    "small windows", "small frames", "detached", "annotations", "expiring subscriptions",
)  # fmt: skip
"""What these clients may use; the rest is in `swarm_clients.CLIENT_FEATURES`."""
RETURNING = ("links resumed", "links taken over", "only connections")
"""What clients that come again may use (ADR 108)."""
ONLY = "sole-connection-for-container"
CONTAINERS = 2
"""So many ids are those of several clients at a time, where links are taken over."""
STOMP_ONLY = {
    "several destinations", "retained", "outcomes", "reply-to", "temporaries", "wildcards",
    "composite", "browsers", "shared", "exclusive", "sequences", "history", "consumer priorities",
}  # fmt: skip
WINDOWS = (3, 40, 2_000)
AMQP_ERRORS = (
    "not open within", "did not continue within", "cannot be read: ", "another link took over",
    "is in use by another connection", "max-transaction-entries",
)  # fmt: skip
SELECTOR = Described(Symbol("apache.org:selector-filter:string"), "")
LINKS_MAX = 3
MEMORIES_MAX = 6
_LOGIN = frame(0, SaslInit("PLAIN", b"\0guest\0guest"))
Keys = list[tuple[str, int]]


class AmqpClient(SwarmClient):
    """One connection's life."""

    expected_errors = (*SwarmClient.expected_errors, *AMQP_ERRORS)

    def connect(self) -> None:
        """Say what it speaks; the rest follows the answers of the broker."""
        self.version = self.language = "AMQP 1.0"
        self.features = self.features - STOMP_ONLY
        if self._draws("hosts", 0.3):
            self.host = OTHER_HOST
            self._resends = False
            self._weights[self.resend] = 0
        self._bytes = AmqpReader()
        self._sessions: dict[int, Session] = {}
        self._senders: list[Sender] = []
        self._receivers: list[Receiver] = []
        self._handles = 0
        self._out: Sender | None = None
        self._expects: Expectation | None = None
        self._is_again = False
        self._is_declaring = False
        # By channel and delivery: meanings of answers; and posts of the transaction without one.
        self._awaited: dict[tuple[int, int], Callable[[Any], None]] = {}
        self._posts: set[tuple[int, int]] = set()
        self._frame_size = self._own_frame_size = 1 << 20
        if self._draws("links taken over", 0.7):
            self.home = self.slot % CONTAINERS
        self._container = (self.host, f"c{self.home}")
        self._weights |= {
            self.go_on: 8 if self.produces else 0,
            self.grant: 3 if self.consumes else 0,
            self.settle: 20 if self.consumes else 0,
            self.subscribe: 6 if self.consumes else 0,
            self.begin: 5,
            self.end_transaction: 5,
            self.another_session: 1 if "sessions" in self.features else 0,
            self.vanish: 6 if "links resumed" in self.features else 0,
        }
        if "transactions of AMQP" not in self.features:
            self._weights[self.begin] = 0
        self.link.to_broker += protocol_header(SASL)
        self._is_hasty = self.chance.random() < 0.6
        if self._is_hasty:
            self.link.to_broker += _LOGIN
            self._open()

    def act(self) -> None:
        """Do several things: it takes longer than those of STOMP until it can begin."""
        for _ in range(3):
            super().act()

    def wait(self) -> None:
        """Do nothing more; only clients of STOMP drain."""
        self._weights = {self.beat: 1}

    def beat(self) -> None:
        """An empty frame."""
        self.link.to_broker += EMPTY_FRAME

    def _open(self) -> None:
        self.link.to_broker += protocol_header(AMQP)
        size = 1 << 20
        if self._draws("small frames", 0.7):
            size = self.chance.choice((512, 1_500, 9_000))
        self._own_frame_size = size
        first = Session(self.link, 0, self._window())
        wanted = (ONLY,) if self._draws("only connections", 0.4) else ()
        if wanted:
            self.ledger.ask_to_be_only(self.link.serial)
        self.ledger.containers[self.link.serial] = self._container
        host, container = self._container
        first.say(Open(container, host, max_frame_size=size, desired_capabilities=wanted))
        self._begin_session(first)

    def _window(self) -> int:
        return self.chance.choice(WINDOWS) if self._draws("small windows", 0.7) else 1 << 20

    def _begin_session(self, session: Session) -> None:
        self._sessions[session.channel] = session
        session.say(
            Begin(next_outgoing_id=0, incoming_window=session.window, outgoing_window=1 << 20)
        )

    def another_session(self) -> None:
        """Begin a second session, or end it."""
        second = self._sessions.get(1)
        if second is None:
            self._begin_session(Session(self.link, 1, self._window()))
        elif self._is_declaring or self.transaction is not None:
            return
        elif second.is_begun and not second.is_over:
            second.is_over = True
            for link in self._links():
                if link.session is second:
                    self._left(link)
            second.say(End())
            self.ledger.deeds["session ended"] += 1

    def _links(self) -> Iterator[Sender | Receiver]:
        yield from list(self._senders)
        yield from list(self._receivers)

    def _left(self, link: Sender | Receiver) -> None:
        """A link is no longer used."""
        link.is_leaving = True
        if isinstance(link, Sender):
            self._senders.remove(link)
            if link.is_coordinator:
                self._is_declaring = False
        else:
            self._receivers.remove(link)
            self.subscriptions.pop(link.name, None)
            link.subscription.record.closed_cleanly = True

    def _attach(self, said: Callable[[int, Session], Attach]) -> tuple[Session, int]:
        """Attach a link on one of the sessions."""
        usable = [each for each in self._sessions.values() if each.is_begun and not each.is_over]
        session = self.chance.choice(usable)
        handle = self._handles
        self._handles += 1
        session.say(said(handle, session))
        return session, handle

    def _can_attach(self) -> bool:
        return any(each.is_begun and not each.is_over for each in self._sessions.values())

    # ---- sending

    def send(self) -> None:
        """Send by a link that is there, or to any place."""
        ready = [each for each in self._senders if each.destination and each.can_send()]
        if ready and self.chance.random() < 0.8:
            self._send_to(self.chance.choice(ready).destination)
        else:
            super().send()

    def _can_send_to(self, destination: str) -> bool:
        """Whether a link to there has credit; perhaps one is attached now."""
        fitting = [
            each
            for each in self._senders
            if each.destination in ("", destination) and not each.is_coordinator
        ]
        ready = [each for each in fitting if each.can_send()]
        self._out = self.chance.choice(ready) if ready else None
        if not fitting and self._can_attach():
            others = [each for each in self._senders if not each.is_coordinator]
            if len(others) >= LINKS_MAX:
                self._detach(others[0])
                return False
            self._attach_sender("" if self._draws("anonymous senders", 0.3) else destination)
        return self._out is not None

    def _attach_sender(self, destination: str, target: Any = None) -> Sender:
        self.serial += 1
        name = f"p{self.serial}"
        terminus = target or Target(_address(destination) or None)

        def said(handle: int, session: Session) -> Attach:
            return Attach(
                name, handle, SENDER, source=Source(), target=terminus, initial_delivery_count=0
            )

        session, handle = self._attach(said)
        sender = Sender(session, handle, name, destination)
        self._senders.append(sender)
        return sender

    def resend(self) -> None:
        """As those of STOMP do."""
        self._is_again = True
        super().resend()
        self._is_again = False

    def _receipt(self, expectation: Expectation) -> tuple[str, str]:
        self._expects = expectation
        return "receipt", ""

    def _put(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        assert command == "SEND", command
        said = dict(headers)
        sender = self._out
        assert sender is not None
        tag = int(body.partition(b" ")[0])
        name = said.get("transaction", "")
        expects, self._expects = self._expects, None
        is_settled = expects is None and not name
        if is_settled and "settled by the sender" not in self.features:
            is_settled, expects = False, Expectation("SEND", tag=tag)
        if name and expects is None:
            expects = Expectation("SEND", tag=tag, name=name)
        to = _address(said["destination"]) if not sender.destination else None
        shape = self.chance.choice(SHAPES)
        data = message_of(said, body, shape, to)
        sent = self.ledger.sent[tag]
        if not self._is_again:
            sent.bare = bare_of(data)
        number = sender.begin()
        if expects is not None:
            self._await(sender.session, number, expects, lambda state: self._sent(state, expects))
            if name:
                self._posts.add((sender.session.channel, number))
        state = TransactionalState(bytes.fromhex(name)) if name else None
        self.ledger.deeds["settled" if is_settled else "posted" if name else "sent"] += 1
        pieces = list(_cut(data, self._piece_size()))
        for place, piece in enumerate(pieces):
            more = place < len(pieces) - 1
            transfer = Transfer(sender.handle, settled=is_settled, more=more)
            if not place:
                transfer = Transfer(
                    sender.handle, number, b"%d" % number, 0, is_settled, more=more, state=state
                )
            sender.rest.append((transfer, piece))
        sender.sent = None if self._is_again else sent
        sender.may_abort = not (self._is_again or name or sent.has_id)
        sent.withdrawn = sent.withdrawn or (len(pieces) > 1 and not self._is_again)
        self._go_on(sender)

    def _piece_size(self) -> int:
        least = 300 if self._draws("small frames", 0.5) else 20_000
        return min(self._frame_size - 100, least)

    def _await(
        self, session: Session, number: int, wanted: Expectation, then: Callable[[Any], None],
        kind: str = "transfer",
    ) -> None:  # fmt: skip
        self.ledger.expected[self.link.serial, f"{kind} {session.channel} {number}"] = wanted
        if kind == "transfer":
            self._awaited[session.channel, number] = then

    def _sent(self, state: Any, wanted: Expectation) -> None:
        """The broker has answered a message."""
        if isinstance(state, Rejected):
            self._excuse(state.error)
            record = self.ledger.transactions.get((self.link.serial, wanted.name))
            if record is not None and wanted.tag in record.tags:
                record.tags.remove(wanted.tag)

    def go_on(self) -> None:
        """Send further frames of messages, or abort one."""
        unfinished = [each for each in self._senders if each.rest]
        if not unfinished:
            return
        sender = self.chance.choice(unfinished)
        if sender.may_abort and sender.session.may_send() and self._draws("aborted", 0.1):
            sender.rest.clear()
            sender.session.send(Transfer(sender.handle, aborted=True))
            self.ledger.deeds["aborted"] += 1
            return
        for _ in range(self.chance.randint(1, 30)):
            self._go_on(sender)

    def _go_on(self, sender: Sender) -> None:
        if sender.rest and sender.session.may_send():
            transfer, piece = sender.rest.popleft()
            sender.session.send(transfer, piece)
            if not sender.rest and sender.sent is not None:
                sender.sent.withdrawn = False

    # ---- receiving

    def subscribe(self) -> None:
        """Attach a link to a queue, a topic, or as a browser, durably, or shared."""
        if len(self._receivers) < LINKS_MAX and self._can_attach():
            if self._draws("links resumed", 0.7) and self._return():
                return
            extra = [
                kind
                for feature, kind in (
                    ("browsers of AMQP", self._browser), ("shared by AMQP", self._shared),
                    ("dynamic nodes", self._dynamic), ("links taken over", self._lasting),
                )
                if feature in self.features
            ]  # fmt: skip
            if extra and self.chance.random() < 0.35:
                mode = self.chance.choice(("auto", "client-individual", "client-individual"))
                self.chance.choice(extra)(mode)
            else:
                super().subscribe()

    def _wild_topic(self, mode: str) -> None:
        # There are no subscriptions with wildcards.
        self._topic(mode)

    def _browser(self, mode: str) -> None:
        place = self.chance.choice(SWARM_PLACES)
        self._subscribe_vaguely(place, mode, [("browser", "true")])

    def _shared(self, mode: str) -> None:
        """A subscription that all clients of AMQP know."""
        topic = self.chance.choice(TOPICS)
        if self._had_durable:
            return
        self._had_durable = True
        more = [("shared", self.chance.choice(("volatile", "durable", "durable")))]
        record = self._subscribe_to(topic, "", mode, durable=True, more=more)
        record.is_vague = True

    def _lasting(self, mode: str) -> None:
        """A subscription of the container, which the last link has that attaches to it."""
        if self._is_here and not self._had_durable:
            self._had_durable = True
            topic = f"/topic/{LASTING_TOPICS[self.home % CONTAINERS]}"
            self._subscribe_to(topic, "", mode, durable=True)

    def _dynamic(self, mode: str) -> None:
        kind = self.chance.choice(("queue", "topic"))
        self._subscribe_to(f"/{kind}/", "", mode, durable=False, more=[("dynamic", kind)])

    def _subscribe_to(
        self, destination: str, queue: str, mode: str, *, durable: bool, more: Headers = (),
        memory: LinkMemory | None = None,
    ) -> SubscriptionRecord:  # fmt: skip
        wanted = dict(more)
        self.serial += 1
        name = f"r{self.link.serial}-{self.serial}" if memory is None else memory.name
        if durable:
            name = f"g{self.chance.randrange(2)}" if "shared" in wanted else f"d{self.home}"
            queue = f"dsub.{self._container[1]}.{name}"
        mode = mode if mode == "auto" else "client-individual"
        queue = queue or f"{name} of {self.link.serial}"
        record = SubscriptionRecord(self.link.serial, name, destination, queue, mode)
        record.steals = durable and "shared" not in wanted
        self.ledger.subscriptions[self.link.serial, name] = record
        subscription = Subscription(record, durable)
        self.subscriptions[name] = subscription
        source = self._source(destination, wanted, durable=durable)
        resumes = memory.decided if memory is not None else {}
        tags = memory.tags if memory is not None else {}

        def said(handle: int, session: Session) -> Attach:
            settled = 1 if mode == "auto" else self.chance.choice((0, 2))
            return Attach(
                name, handle, RECEIVER, settled, source=source, target=Target(),
                unsettled=unsettled_map(resumes, tags), incomplete_unsettled=bool(resumes),
            )  # fmt: skip

        if resumes or self.chance.random() < 0.5:
            accepted = self._note_resumed(name, resumes)
            self._expect(f"attach {name}", Expectation("SUBSCRIBE", name=name, settled=accepted))
        session, handle = self._attach(said)
        receiver = Receiver(session, handle, subscription, mode == "auto")
        receiver.resumes = resumes
        receiver.durable |= tags
        receiver.tells = wanted.get("dynamic", "")
        self._receivers.append(receiver)
        receiver.grant(self.chance.randint(1, 8), drain=False)
        return record

    def _note_resumed(self, name: str, decided: Decided) -> Keys:
        """Note deliveries that a link resumes with an outcome; return those that are accepted."""
        keys: dict[str, Keys] = {}
        for message, outcome in decided.items():
            if outcome is not None:
                keys.setdefault(outcome[0], []).append((name, message))
                self.ledger.resumed.add((self.link.serial, name, message))
                self.ledger.deeds["resumed"] += 1
        for kind, each in keys.items():
            self._note(kind, each)
        return keys.get("ACK", [])

    def _return(self) -> bool:
        """Attach a link again that the container lost; return whether there was one."""
        memories = self.ledger.memories.get(self._container, [])
        # The judge tells links of one connection apart by their names.
        if not memories or (self.link.serial, memories[0].name) in self.ledger.subscriptions:
            return False
        memory = memories.pop(0)
        self._had_durable = self._had_durable or memory.is_durable
        self._subscribe_to(
            memory.destination, memory.queue, "client-individual", durable=memory.is_durable,
            memory=memory,
        )  # fmt: skip
        return True

    def vanish(self) -> None:
        """Lose the connection, now and then when deliveries are not settled."""
        is_busy = any(each.subscription.unsettled or each.waiting for each in self._receivers)
        self.is_leaving = is_busy and self.chance.random() < 0.5

    def lost(self) -> None:
        """Remember the links, unless the client has taken leave."""
        for receiver in self._receivers if not self.is_over else ():
            self._remember(receiver)

    def _remember(self, receiver: Receiver) -> None:
        """Let the container know of a link that may be resumed."""
        record = receiver.subscription.record
        lasts = record.steals or record.destination.startswith("/queue/")
        is_resumed = "links resumed" in self.features and lasts
        if receiver.is_settled or receiver.tells or record.is_vague or not is_resumed:
            return
        decided = receiver.unknown_ends()
        for message in [each for each, outcome in decided.items() if outcome is None]:
            if self.chance.random() < 0.5:
                decided[message] = self._outcome()
        # So many fit into an attach.
        most = 2 if min(self._frame_size, self._own_frame_size) < 4_000 else 30
        memories = self.ledger.memories.setdefault(self._container, [])
        memories.append(
            LinkMemory(
                record.name, record.destination, record.queue, record.steals,
                dict(list(decided.items())[:most]), dict(receiver.durable),
            )
        )  # fmt: skip
        del memories[:-MEMORIES_MAX]

    def _expect(self, key: str, wanted: Expectation) -> None:
        self.ledger.expected[self.link.serial, key] = wanted

    def _source(self, destination: str, wanted: dict[str, str], *, durable: bool) -> Source:
        filters: dict[str, Any] = {}
        if "selector" in wanted:
            filters["s"] = Described(SELECTOR.descriptor, wanted["selector"])
        if "no-local" in wanted:
            filters["n"] = Described(Symbol("apache.org:no-local-filter:list"), [])
        shared = wanted.get("shared", "")
        lasts = durable and shared != "volatile"
        policy, seconds = ("never" if lasts else "session-end"), 0
        if lasts and not shared and self._draws("expiring subscriptions", 0.7):
            policy = self.chance.choice(("link-detach", "session-end", "connection-close"))
            seconds = self.chance.choice((0, 1, 3))
        kind = wanted.get("dynamic", "")
        return Source(
            _address(destination) if not kind else None,
            durable=2 if lasts else 0,
            expiry_policy=policy,
            timeout=seconds,
            dynamic=bool(kind),
            distribution_mode="copy" if "browser" in wanted else None,
            filter=filters or None,
            default_outcome=self.chance.choice((None, Modified(delivery_failed=True))),
            capabilities=("shared", "global") if shared else (f"temporary-{kind}",) * bool(kind),
        )

    def grant(self) -> None:
        """Give a link credit; perhaps want back what is not used."""
        links = [each for each in self._receivers if not each.is_leaving]
        if links:
            credit = self.chance.choice((0, 1, 3, 8, 30))
            self.chance.choice(links).grant(credit, drain=self._draws("drains", 0.3))

    def unsubscribe(self) -> None:
        """Detach a link of either kind, or close it."""
        links = [each for each in self._links() if each.is_attached]
        if links and "detached" in self.features:
            self._detach(self.chance.choice(links))

    def _detach(self, link: Sender | Receiver) -> None:
        is_coordinator = isinstance(link, Sender) and link.is_coordinator
        if self._is_declaring or not link.is_attached or link.session.is_over:
            return
        transaction = self.transaction
        if transaction is not None:
            if not is_coordinator or self._posts:
                return
            # Without its coordinator it is rolled back.
            self.ledger.deeds["coordinator lost"] += 1
            self.transaction = None
            for keys in _kinds_of(transaction).values():
                self._note("NACK", keys)
        closes = self.chance.random() < 0.5
        self.ledger.deeds["closed" if closes else "detached"] += 1
        if isinstance(link, Receiver) and not closes:
            self._remember(link)
        self._left(link)
        link.session.say(Detach(link.handle, closes))

    # ---- settling

    def _settle(self, subscription: Subscription, message: int, rejects: bool) -> None:
        name = subscription.record.name
        receiver = next(each for each in self._receivers if each.subscription is subscription)
        first = int(subscription.unsettled[message])
        numbers = {int(number): each for each, number in subscription.unsettled.items()}
        last = first
        if self.chance.random() < 0.3:
            while last + 1 in numbers and last - first < 5:
                last += 1
        keys = [(name, numbers[number]) for number in range(first, last + 1)]
        for _, each in keys:
            del subscription.unsettled[each]
        kind, state = self._outcome()
        self.ledger.deeds[type(state).__name__.lower()] += len(keys)
        transaction = self.transaction
        is_posted = transaction is not None and self.chance.random() < 0.6
        if transaction is not None and is_posted:
            link = self.link.serial
            self.ledger.attempted.update((link, *key) for key in keys)
            _kinds_of(transaction)[kind] += keys
            state = TransactionalState(bytes.fromhex(transaction.name), state)
            self.ledger.deeds["retired"] += len(keys)
        else:
            self._note(kind, keys)
            if isinstance(state, Modified) and state.undeliverable_here:
                self.ledger.not_here.update((self.link.serial, *key) for key in keys)
        is_settled = self.chance.random() < 0.5
        if not is_settled:
            for number in range(first, last + 1):
                wanted = [] if is_posted else [(name, numbers[number])]
                expects = Expectation(kind, settled=wanted)
                if not is_posted:
                    receiver.waiting[number] = numbers[number], (kind, state)
                self._await(receiver.session, number, expects, lambda _: None, "settle")
        receiver.session.say(Disposition(RECEIVER, first, last, is_settled, state))

    def _outcome(self) -> tuple[str, Any]:
        """Draw an outcome; by what the ledger calls it, and its state."""
        if "outcomes of AMQP" not in self.features:
            return "ACK", Accepted()
        noted = None
        if self._draws("annotations", 0.5):
            noted = {f"x-opt-{self.chance.randrange(3)}": self.chance.randrange(9)}
        here = self.chance.random() < 0.2
        return self.chance.choice(
            [
                *[("ACK", Accepted())] * 6, ("RELEASE", Released()),
                ("REJECT", Rejected(Error("amqp:internal-error", "no use"))),
                ("NACK", Modified(True, here, noted)), ("RELEASE", Modified(False, here, noted)),
            ]
        )  # fmt: skip

    def _note(self, kind: str, keys: Keys) -> None:
        """Note outcomes that the client sends now."""
        if kind in ("ACK", "NACK"):
            self._note_settled(keys if kind == "ACK" else [], keys if kind == "NACK" else [])
            return
        ledger, link = self.ledger, self.link.serial
        is_released = kind == "RELEASE"
        for name, message in keys:
            (ledger.released if is_released else ledger.refused).add((link, name, message))
            record = ledger.subscriptions[link, name]
            for said in ledger.said.get((record.queue, message), ()):
                if said.subscription is record:
                    said.released = said.released or is_released
                    said.rejected = said.rejected or not is_released

    # ---- transactions

    def begin(self) -> None:
        """Declare a transaction, one at a time."""
        if self.transaction is not None or self._is_declaring or not self._can_attach():
            return
        coordinator = self._coordinator()
        if coordinator is not None and coordinator.can_send():
            self._is_declaring = True
            self.ledger.deeds["declared"] += 1
            self._control(coordinator, Declare(), Expectation("BEGIN"), self._declared)

    def _coordinator(self) -> Sender | None:
        known = next((each for each in self._senders if each.is_coordinator), None)
        if known is None:
            sender = self._attach_sender("", Coordinator())
            sender.is_coordinator = True
        return known

    def _control(
        self, sender: Sender, body: Any, wanted: Expectation, then: Callable[[Any], None]
    ) -> None:
        number = sender.begin()
        self._await(sender.session, number, wanted, then)
        payload = section_of(VALUE, COMPOSITES.encoded(body))
        sender.session.send(Transfer(sender.handle, number, b"c%d" % number, 0, False), payload)

    def _declared(self, state: Any) -> None:
        self._is_declaring = False
        if isinstance(state, Rejected):
            self._excuse(state.error)
        if isinstance(state, Declared):
            self.transaction = TransactionRecord(state.txn_id.hex())
            self.ledger.transactions[self.link.serial, self.transaction.name] = self.transaction

    def end_transaction(self) -> None:
        """Discharge it when all its posts were answered; deliveries settled in vain come again."""
        transaction, coordinator = self.transaction, None
        if transaction is not None and not self._posts:
            coordinator = self._coordinator()
        if transaction is None or coordinator is None or not coordinator.can_send():
            return
        self.transaction = None
        commits = self.chance.random() < 0.75
        if commits:
            transaction.committing = True
            for kind, keys in _kinds_of(transaction).items():
                self._note(kind, keys)
        else:
            for keys in _kinds_of(transaction).values():
                self._note("NACK", keys)
        self.ledger.deeds["committed" if commits else "rolled back"] += 1
        wanted = Expectation("COMMIT" if commits else "ABORT", name=transaction.name)
        body = Discharge(bytes.fromhex(transaction.name), not commits)
        self._control(coordinator, body, wanted, self._discharged)

    def _discharged(self, state: Any) -> None:
        if isinstance(state, Rejected):
            self._excuse(state.error)

    def disconnect(self) -> None:
        """Close the connection."""
        if not self.is_connected or self.is_over:
            return
        for receiver in self._receivers:
            receiver.subscription.record.closed_cleanly = True
        self.is_over = True
        self._sessions[0].say(Close())

    # ---- reading

    def receive(self, data: bytes) -> None:
        """Read what arrived."""
        for found in self._bytes.feed(data):
            if isinstance(found, Frame):
                self._hear(found.channel, found.performative, found.payload)

    def _hear(self, channel: int, said: Any, payload: bytes) -> None:
        if self.is_over and not isinstance(said, Close):
            return
        if isinstance(said, SaslMechanisms):
            if not self._is_hasty:
                self.link.to_broker += _LOGIN
        elif isinstance(said, SaslOutcome):
            self._logged_in(said)
        elif isinstance(said, Open):
            self._frame_size = said.max_frame_size
        elif isinstance(said, Close):
            self._closed(said)
        elif said is not None:
            self._hear_session(self._sessions[channel], said, payload)

    def _logged_in(self, said: SaslOutcome) -> None:
        if said.code == OK and not self._is_hasty:
            self._open()
        elif said.code != OK:
            self.ledger.errors["the login was refused"] += 1
            self.is_over = True

    def _closed(self, said: Close) -> None:
        if said.error is not None:
            self._excuse(said.error)
            if not self.is_over:
                Session(self.link, 0, 1).say(Close())
        self.is_over = True

    def _excuse(self, problem: Any) -> None:
        """Only some errors are for a client that does everything right."""
        text = (problem.description or "") if problem is not None else ""
        expected = [words for words in self.expected_errors if words in text]
        if not expected:
            raise Violation("protocol", f"link {self.link.serial} got {problem}")
        self.ledger.errors[expected[0]] += 1

    def _hear_session(self, session: Session, said: Any, payload: bytes) -> None:
        if isinstance(said, Begin):
            session.begun(said.incoming_window)
            self.is_connected = True
        elif isinstance(said, Attach):
            self._attached(session, said)
        elif isinstance(said, Flow):
            session.flow_came(said)
            link = self._link(session, said.handle)
            if link is not None:
                link.flow_came(said)
                self.ledger.deeds["drained"] += said.drain
        elif isinstance(said, Transfer):
            self._transfer(session, said, payload)
        elif isinstance(said, Disposition):
            self._disposition(session, said)
        elif isinstance(said, Detach):
            self._detached(session, said)
        else:
            assert isinstance(said, End), said
            if said.error is not None:
                raise Violation("protocol", f"link {self.link.serial} got {said}")
            del self._sessions[session.channel]

    def _link(self, session: Session, handle: int | None) -> Sender | Receiver | None:
        return next(
            (each for each in self._links() if each.session is session and each.handle == handle),
            None,
        )

    def _attached(self, session: Session, said: Attach) -> None:
        link = self._link(session, said.handle)
        terminus = said.source if said.role == SENDER else said.target
        if link is not None and terminus is not None:
            link.is_attached = True
            if isinstance(link, Receiver):
                link.resumes = {}
            if isinstance(link, Receiver) and link.tells and self.host != OTHER_HOST:
                self.ledger.temporaries.append(f"/{link.tells}/{terminus.address}")

    def _detached(self, session: Session, said: Detach) -> None:
        link = self._link(session, said.handle)
        if link is None:
            return
        # The broker ended it.
        if said.error is None:
            raise Violation("protocol", f"link {self.link.serial} got {said}")
        self._excuse(said.error)
        self._left(link)
        if isinstance(link, Receiver):
            link.subscription.record.is_vague = True
        if not session.is_over:
            session.say(Detach(said.handle, True))

    def _transfer(self, session: Session, said: Transfer, payload: bytes) -> None:
        session.transfer_came()
        link = self._link(session, said.handle)
        if not isinstance(link, Receiver):
            return
        arrived = link.transfer_came(said, payload)
        if arrived is not None and not link.is_settled:
            number, message = arrived
            link.subscription.unsettled.pop(message, None)
            link.subscription.unsettled[message] = str(number)

    def _disposition(self, session: Session, said: Disposition) -> None:
        last = said.last if said.last is not None else said.first
        numbers = range(said.first, last + 1)
        if said.role == SENDER:
            for each in self._receivers:
                if each.session is session:
                    each.forget(numbers)
        else:
            for number in numbers:
                self._posts.discard((session.channel, number))
                then = self._awaited.pop((session.channel, number), None)
                if then is not None:
                    then(said.state)


def _address(destination: str) -> str:
    """Return the address for a destination of STOMP; "" stays."""
    _, kind, name = destination.split("/", 2) if destination else ("", "", "")
    return f"{kind}://{name}" if name else ""


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def _kinds_of(transaction: TransactionRecord) -> dict[str, Keys]:
    return {
        "ACK": transaction.acks, "NACK": transaction.nacks, "RELEASE": transaction.released,
        "REJECT": transaction.refused,
    }  # fmt: skip
