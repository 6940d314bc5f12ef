"""Simulated clients of direct addresses: they send, receive, settle, drain, leave, and die.

They keep what they did in the oracle, which judges what they hear. Unlike the other clients they
use nothing but direct addresses.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from daybook.protocols.amqp.wire.frames import AMQP, SASL, Frame, frame, protocol_header
from daybook.protocols.amqp.wire.kinds import MIXED, RECEIVER, SENDER, SETTLED, UNSETTLED
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
    Transfer,
)
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
)
from tests.simulation.judges.direct_oracle import (
    FALLING_BACK,
    Copy,
    DirectOracle,
    Receiving,
)
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link
from tests.simulation.peers.amqp_links import Session
from tests.simulation.peers.amqp_wire import AmqpReader, content_of, message_of
from tests.simulation.peers.ledger import Ledger, Sent
from tests.simulation.peers.swarm_clients import SwarmClient
from tests.simulation.peers.wire import Frame as StompFrame
from tests.simulation.peers.wire import FrameReader, encode

SAID: Final = "app:bad"
"""The condition that receivers give for a rejection; all others are of the broker."""
OUTCOMES: Final[dict[str, Any]] = {
    "accepted": Accepted(),
    "rejected": Rejected(Error(SAID, "it is bad", {"why": 7})),
    "released": Released(),
    "modified": Modified(False),
    "failed": Modified(True),
}
BODY_BYTES: Final = (0, 10, 60, 150)
LINKS_MAX: Final = 3
STOMP_ERRORS: Final = (*SwarmClient.expected_errors, "nobody receives from")
_OPENING: Final = protocol_header(SASL) + frame(0, SaslInit("PLAIN", b"\0guest\0guest"))


class DirectClient:
    """One connection's life, in any protocol."""

    language = ""

    def __init__(
        self,
        slot: int,
        link: Link,
        oracle: DirectOracle,
        ledger: Ledger,
        chance: random.Random,
    ) -> None:
        self.slot = slot
        self.link = link
        self.oracle = oracle
        self.ledger = ledger
        self.chance = chance
        self.is_connected = self.is_over = self.is_leaving = False
        self.places = oracle.places
        self.produces = chance.random() < 0.6
        self.consumes = not self.produces or chance.random() < 0.3
        self.receivings: list[Receiving] = []
        self.connect()

    def connect(self) -> None:
        """Open the connection."""

    def actions(self) -> dict[Callable[[], None], int]:
        """Return what it may do now, with weights."""
        return {}

    def act(self) -> None:
        """Do something that makes sense now."""
        if self.is_connected and not self.is_over:
            for _ in range(3):
                actions = self.actions()
                self.chance.choices(list(actions), list(actions.values()))[0]()

    def wait(self) -> None:
        """Do nothing more."""
        self.disconnect()

    def disconnect(self) -> None:
        """Take leave."""
        if self.is_connected and not self.is_over:
            for receiving in self.receivings:
                self.oracle.over(receiving)
            self._bid_farewell()
            self.is_over = True

    def _bid_farewell(self) -> None:
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Read what arrived."""
        raise NotImplementedError

    def lost(self) -> None:
        """The connection is over, with a word of either side or without."""
        for receiving in self.receivings:
            self.oracle.over(receiving, is_lost=True)
        self.oracle.sender_lost(self.link)

    def credits(self) -> Iterator[tuple[Link, str, int]]:
        """Yield the credit of its senders by address, where they are to have some."""
        return iter(())

    def _new(self, address: str) -> Sent:
        """Return a new message for an address."""
        tag = len(self.ledger.sent) + 1
        body = b"%d " % tag + b"x" * self.chance.choice(BODY_BYTES)
        is_durable = address == FALLING_BACK or self.chance.random() < 0.5
        sent = Sent(tag, f"/queue/{address}", body, is_durable, 4, 0, "")
        if self.chance.random() < 0.2:
            sent.priority = self.chance.randrange(10)
        self.ledger.sent[tag] = sent
        return sent

    def _receive(self, address: str, *, is_automatic: bool) -> Receiving:
        found = self.oracle.attach(address, self.link, is_automatic=is_automatic)
        self.receivings.append(found)
        return found

    def _got(self, receiving: Receiving, body: bytes) -> Copy:
        tag = int(body.partition(b" ")[0])
        sent = self.ledger.sent.get(tag)
        if sent is None or not sent.has_body(body):
            raise Violation("direct", f"{receiving} got what nobody sent: {body!r}")
        self.ledger.said_tags.add(tag)
        self.ledger.deeds[f"direct {receiving.address}"] += 1
        return self.oracle.got(receiving, tag)


class Out:
    """A link to send by; `address` "" is any."""

    def __init__(self, handle: int, address: str) -> None:
        self.handle = handle
        self.address = address
        self.credit = self.count = 0
        self.is_attached = self.is_leaving = False


class In:
    """A link to receive by, with what it has not settled, by delivery."""

    def __init__(self, handle: int, receiving: Receiving) -> None:
        self.handle = handle
        self.receiving = receiving
        self.count = self.limit = 0
        self.is_attached = self.is_leaving = False
        self.unsettled: dict[int, Copy] = {}
        self.arriving: tuple[int, bytes] | None = None


class DirectAmqpClient(DirectClient):
    """A client of AMQP."""

    language = "AMQP 1.0, direct"

    def connect(self) -> None:
        """Say all that is needed at once."""
        self._reader = AmqpReader()
        self._session = Session(self.link, 0, 1 << 20)
        self._outs: list[Out] = []
        self._ins: list[In] = []
        self._handles = 0
        # By delivery, the tags of messages whose outcome is not known.
        self._tags: dict[int, int] = {}
        self.link.to_broker += _OPENING + protocol_header(AMQP)
        self._session.say(Open(f"d{self.link.serial}", "sim", max_frame_size=1 << 20))
        self._session.say(
            Begin(next_outgoing_id=0, incoming_window=1 << 20, outgoing_window=1 << 20)
        )

    def actions(self) -> dict[Callable[[], None], int]:
        """As for any client."""
        return {
            self.send: 12 * self.produces, self.attach_sender: 3 * self.produces,
            self.attach_receiver: 3 * self.consumes, self.grant: 6 * self.consumes,
            self.settle: 14 * self.consumes, self.detach: 1, self.beat: 1,
        }  # fmt: skip

    def beat(self) -> None:
        """Say how far the session is."""
        self._session.say_flow()

    def credits(self) -> Iterator[tuple[Link, str, int]]:
        """As for any client."""
        for out in self._outs:
            if out.is_attached and not out.is_leaving and out.address and not self.is_over:
                yield self.link, out.address, out.credit

    # ---- sending

    def attach_sender(self) -> None:
        """Begin to send to a place, or to any."""
        if len(self._outs) == LINKS_MAX:
            return
        address = "" if self.chance.random() < 0.2 else self.chance.choice(self.places)
        out = Out(self._next_handle(), address)
        self._outs.append(out)
        self._session.say(
            Attach(
                f"o{out.handle}", out.handle, SENDER, snd_settle_mode=MIXED, source=Source(),
                target=Target(address or None), initial_delivery_count=0,
            )
        )  # fmt: skip

    def _next_handle(self) -> int:
        self._handles += 1
        return self._handles

    def send(self) -> None:
        """Send a message, perhaps settled."""
        ready = [each for each in self._outs if each.is_attached and not each.is_leaving]
        ready = [each for each in ready if each.credit > 0]
        if not ready or not self._session.may_send():
            return
        out = self.chance.choice(ready)
        address = out.address or self.chance.choice(self.places)
        sent = self._new(address)
        hears = self.chance.random() < 0.8
        self.oracle.send(sent.tag, address, self.link, out.handle, sent.priority, hears=hears)
        said = {"priority": str(sent.priority), "persistent": str(sent.persistent).lower()}
        data = message_of(said, sent.body, "data", None if out.address else address)
        number = self._session.next_delivery
        self._session.next_delivery += 1
        out.credit -= 1
        out.count += 1
        if hears:
            self._tags[number] = sent.tag
        self._session.send(Transfer(out.handle, number, b"%d" % number, 0, not hears), data)
        self.ledger.deeds["direct sent" if hears else "direct settled"] += 1

    # ---- receiving

    def attach_receiver(self) -> None:
        """Begin to receive, perhaps what is settled when it is sent."""
        if len(self._ins) == LINKS_MAX:
            return
        is_automatic = self.chance.random() < 0.2
        receiving = self._receive(self.chance.choice(self.places), is_automatic=is_automatic)
        link = In(self._next_handle(), receiving)
        self._ins.append(link)
        self._session.say(
            Attach(
                f"i{link.handle}", link.handle, RECEIVER,
                snd_settle_mode=SETTLED if is_automatic else UNSETTLED,
                source=Source(receiving.address), target=Target(),
            )
        )  # fmt: skip

    def grant(self) -> None:
        """Give credit, perhaps to drain."""
        for link in self._ins:
            if link.is_leaving or self.chance.random() < 0.3:
                continue
            credit = self.chance.choice((0, 1, 3, 30, 30))
            link.limit = max(link.limit, link.count + credit)
            drain = self.chance.random() < 0.15
            link.receiving.credit = 0 if drain else link.limit - link.count
            self._session.say_flow(
                handle=link.handle, delivery_count=link.count, link_credit=link.limit - link.count,
                drain=drain,
            )  # fmt: skip

    def settle(self) -> None:
        """End some deliveries."""
        link = self.chance.choice(self._ins) if self._ins else None
        if link is None or link.is_leaving:
            return
        for number in list(link.unsettled)[: self.chance.choice((1, 1, 5))]:
            outcome = self.chance.choice(("accepted", "accepted", *OUTCOMES))
            copy = link.unsettled.pop(number)
            copy.said = outcome
            self._session.say(Disposition(RECEIVER, number, settled=True, state=OUTCOMES[outcome]))
            self.ledger.deeds[f"direct {outcome}"] += 1

    def detach(self) -> None:
        """End a link."""
        links = [each for each in self._links() if each.is_attached]
        if not links:
            return
        link = self.chance.choice(links)
        if link.is_leaving:
            return
        link.is_leaving = True
        if isinstance(link, In):
            self.oracle.over(link.receiving)
        self._session.say(Detach(link.handle, closed=True))
        self.ledger.deeds["direct detached"] += 1

    def _bid_farewell(self) -> None:
        self._session.say(Close())

    # ---- reading

    def receive(self, data: bytes) -> None:
        """Read what arrived."""
        for found in self._reader.feed(data):
            if isinstance(found, Frame):
                self._hear(found.performative, found.payload)

    def _hear(self, said: Any, payload: bytes) -> None:
        if isinstance(said, Begin):
            self._session.begun(said.incoming_window)
            self.is_connected = True
        elif isinstance(said, Attach):
            link = self._link_of(said.handle)
            link.is_attached = link is not None
        elif isinstance(said, Flow):
            self._flow(said)
        elif isinstance(said, Transfer):
            self._transfer(said, payload)
        elif isinstance(said, Disposition):
            if said.role == RECEIVER:
                self._disposition(said)
        elif isinstance(said, Detach):
            self._detached(said)
        elif isinstance(said, (Close, End)):
            self.is_over = True

    def _link_of(self, handle: int | None) -> Any:
        return next((each for each in self._links() if each.handle == handle), None)

    def _links(self) -> Iterator[In | Out]:
        yield from self._outs
        yield from self._ins

    def _flow(self, said: Flow) -> None:
        self._session.flow_came(said)
        link = self._link_of(said.handle)
        if isinstance(link, Out):
            link.credit = (said.delivery_count or 0) + (said.link_credit or 0) - link.count
            if said.drain and not (link.is_leaving or self.is_over):
                link.count += max(link.credit, 0)
                link.credit = 0
                self.ledger.deeds["direct drained"] += 1
                self._session.say_flow(
                    handle=link.handle, delivery_count=link.count, link_credit=0, drain=True
                )
        elif isinstance(link, In) and said.drain:
            # Credit that it gave while the drain was on its way is gone with the rest (2.6.7).
            link.count = max(link.count, said.delivery_count or 0)
            link.receiving.credit = min(link.receiving.credit, max(link.limit - link.count, 0))

    def _transfer(self, said: Transfer, payload: bytes) -> None:
        self._session.transfer_came()
        link = self._link_of(said.handle)
        if link is None:
            raise Violation("direct", f"{self.link.serial} has no link for {said}")
        if link.arriving is None:
            assert said.delivery_id is not None, said
            link.arriving = said.delivery_id, b""
            link.count += 1
            if link.count > link.limit:
                raise Violation("direct", f"{link.receiving} got {link.count} of {link.limit}")
            link.receiving.credit = max(link.limit - link.count, 0)
        number, before = link.arriving
        link.arriving = number, before + payload
        if said.more:
            return
        link.arriving = None
        if said.aborted:
            return
        copy = self._got(link.receiving, content_of(before + payload).body)
        if not (link.is_leaving or link.receiving.is_automatic or self.is_over):
            link.unsettled[number] = copy

    def _disposition(self, said: Disposition) -> None:
        last = said.last if said.last is not None else said.first
        for number in range(said.first, last + 1):
            tag = self._tags.pop(number, 0)
            if not tag:
                raise Violation("direct", f"{self.link.serial} hears {said} of {number}")
            self._ended(tag, said.state)

    def _ended(self, tag: int, state: Any) -> None:
        problem = state.error if isinstance(state, Rejected) else None
        if isinstance(state, Rejected) and (problem is None or problem.condition != SAID):
            self.ledger.sent[tag].refused = True
            self.oracle.refused(tag, self.link, str(problem))
            return
        if problem is not None and problem != OUTCOMES["rejected"].error:
            raise Violation("direct", f"{problem} is not the error of a receiver")
        outcome = "failed" if isinstance(state, Modified) else type(state).__name__.lower()
        if isinstance(state, Modified) and not state.delivery_failed:
            outcome = "modified"
        self.ledger.deeds[f"direct heard {outcome}"] += 1
        sent = self.ledger.sent[tag]
        sent.promised = self.oracle.is_stored(tag)
        self.oracle.hear(tag, self.link, outcome)

    def _detached(self, said: Detach) -> None:
        link = self._link_of(said.handle)
        if link is None:
            raise Violation("direct", f"{self.link.serial} has no link for {said}")
        if isinstance(link, In):
            self._ins.remove(link)
            self.oracle.over(link.receiving, is_lost=not link.is_leaving)
            link.receiving.is_confirmed = True
        else:
            self._outs.remove(link)
            self.oracle.link_lost(self.link, link.handle)
        if not link.is_leaving and not self.is_over:
            self._session.say(Detach(link.handle, closed=True))


class DirectStompClient(DirectClient):
    """A client of STOMP: it hears of no outcome, and its receivers accept or fail."""

    language = "STOMP, direct"

    def connect(self) -> None:
        """CONNECT."""
        self._reader = FrameReader()
        self._serial = 0
        self._known: dict[str, Receiving] = {}
        self._unsettled: dict[str, Copy] = {}
        self._receipts: dict[str, int] = {}
        self._put("CONNECT", [("accept-version", "1.2"), ("host", "sim"), ("login", "guest")])

    def actions(self) -> dict[Callable[[], None], int]:
        """As for any client."""
        return {
            self.send: 4 * self.produces, self.subscribe: 3 * self.consumes,
            self.settle: 14 * self.consumes, self.unsubscribe: 1, self.beat: 1,
        }  # fmt: skip

    def beat(self) -> None:
        """A heart-beat."""
        self.link.to_broker += b"\n"

    def _put(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        self.link.to_broker += encode(command, headers, body)

    def send(self) -> None:
        """SEND, to where somebody may receive."""
        address = self.chance.choice(self.places)
        if address != FALLING_BACK and self.chance.random() < 0.7:
            return
        sent = self._new(address)
        self.oracle.send(sent.tag, address, self.link, 0, sent.priority, hears=False)
        self._serial += 1
        self._receipts[f"r{self._serial}"] = sent.tag
        self._put(
            "SEND",
            [
                ("destination", f"/queue/{address}"), ("receipt", f"r{self._serial}"),
                ("priority", str(sent.priority)), ("persistent", str(sent.persistent).lower()),
                ("content-length", str(len(sent.body))),
            ],
            sent.body,
        )  # fmt: skip
        self.ledger.deeds["direct sent by STOMP"] += 1

    def subscribe(self) -> None:
        """SUBSCRIBE, with acknowledgements or without."""
        if len(self._known) == LINKS_MAX:
            return
        is_automatic = self.chance.random() < 0.3
        receiving = self._receive(self.chance.choice(self.places), is_automatic=is_automatic)
        receiving.credit = 1 << 20
        self._serial += 1
        name = f"s{self._serial}"
        self._known[name] = receiving
        self._put(
            "SUBSCRIBE",
            [
                ("id", name), ("destination", f"/queue/{receiving.address}"),
                ("ack", "auto" if is_automatic else "client-individual"),
            ],
        )  # fmt: skip

    def settle(self) -> None:
        """ACK or NACK."""
        for ack in list(self._unsettled)[: self.chance.choice((1, 1, 5))]:
            copy = self._unsettled.pop(ack)
            if copy.receiving.is_over:
                continue
            copy.said = self.chance.choice(("accepted", "accepted", "failed"))
            self._put("ACK" if copy.said == "accepted" else "NACK", [("id", ack)])
            self.ledger.deeds[f"direct {copy.said} by STOMP"] += 1

    def unsubscribe(self) -> None:
        """UNSUBSCRIBE."""
        live = [name for name, each in self._known.items() if not each.is_over]
        if live:
            name = self.chance.choice(live)
            self.oracle.over(self._known[name])
            self._serial += 1
            self._put("UNSUBSCRIBE", [("id", name), ("receipt", f"u{name}")])

    def _bid_farewell(self) -> None:
        self._put("DISCONNECT", [])

    def receive(self, data: bytes) -> None:
        """Read what arrived."""
        for found in self._reader.feed(data):
            self._hear(found)

    def _hear(self, said: StompFrame) -> None:
        headers = said.headers
        if said.command == "CONNECTED":
            self.is_connected = True
        elif said.command == "MESSAGE":
            receiving = self._known[headers["subscription"]]
            copy = self._got(receiving, said.body)
            if "ack" in headers and not receiving.is_automatic:
                self._unsettled[headers["ack"]] = copy
        elif said.command == "RECEIPT" and headers["receipt-id"].startswith("u"):
            self._known.pop(headers["receipt-id"][1:]).is_confirmed = True
        elif said.command == "RECEIPT":
            tag = self._receipts.pop(headers["receipt-id"])
            self.ledger.sent[tag].promised = self.oracle.is_stored(tag)
        elif said.command == "ERROR":
            text = headers.get("message", "") + said.body.decode()
            if not any(each in text for each in STOMP_ERRORS):
                raise Violation("protocol", f"link {self.link.serial} got {said}")
            self.is_over = True
