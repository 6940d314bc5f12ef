"""Clients of several brokers: one sends, or one receives, by one link. Faults are of others."""

import random
from typing import Any, Final

from daybook.engine.facts.values import Symbol
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    EMPTY_FRAME,
    SASL,
    Frame,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Accepted, Modified, Released, Source, Target
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link
from tests.simulation.peers.amqp_links import Session
from tests.simulation.peers.amqp_wire import AmqpReader, content_of, message_of, message_of_tag
from tests.simulation.several.judge import UNKNOWN, Judge, Stored
from tests.simulation.several.scenes import NAME

OPENING: Final = protocol_header(SASL) + frame(0, SaslInit("PLAIN", b"\0guest\0guest"))
GROUPS: Final = ("", "red", "green", "blue", "black")
BODY_BYTES: Final = (0, 20, 200, 300)
TRACE: Final = Symbol("x-opt-daybook-trace")
WINDOW: Final = 1 << 20
HANDLE: Final = 0
EXPECTED_ERRORS: Final = ("amqp:connection:forced", "amqp:resource-limit-exceeded")
"""A broker stops, or has heard nothing for too long."""
MANY: Final = 1 << 30


class Client:
    """A connection with one link on one session."""

    def __init__(self, link: Link, judge: Judge, store: str, chance: random.Random) -> None:
        """`store` is the id of the broker that it speaks to."""
        self.link = link
        self.is_over = False
        self.is_attached = False
        self._judge = judge
        self._store = store
        self._chance = chance
        self._reader = AmqpReader()
        self._session = Session(link, 0, WINDOW)
        link.is_amqp = True
        link.to_broker += OPENING + protocol_header(AMQP)
        self._session.say(Open(f"c{link.serial}", "sim", max_frame_size=WINDOW))
        self._session.say(Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW))
        self._session.say(self._attach())

    def _attach(self) -> Attach:
        raise NotImplementedError

    def act(self) -> None:
        """Say that it is there, and do something that makes sense now."""
        if not self.is_over:
            self.link.to_broker += EMPTY_FRAME
            if self.is_attached:
                self._act()

    def _act(self) -> None:
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether it waits for an answer, or owes one."""
        raise NotImplementedError

    def leave(self) -> None:
        """Take leave."""
        if not self.is_over:
            self.is_over = True
            self._session.say(Close())

    def lost(self) -> None:
        """The connection is over, with a word of either side or without."""
        self.is_over = True

    def receive(self, data: bytes) -> None:
        """Read what arrived."""
        for found in self._reader.feed(data):
            if isinstance(found, Frame):
                self._hear(found.performative, found.payload)

    def _hear(self, said: Any, payload: bytes) -> None:
        if isinstance(said, Begin):
            self._session.begun(said.incoming_window)
        elif isinstance(said, Attach):
            self.is_attached = True
        elif isinstance(said, Flow):
            self._session.flow_came(said)
            if said.handle is not None:
                self._flow(said)
        elif isinstance(said, Transfer):
            self._transfer(said, payload)
        elif isinstance(said, Disposition) and said.role == RECEIVER:
            self._disposition(said)
        elif isinstance(said, (Close, End, Detach)):
            if said.error is not None and said.error.condition not in EXPECTED_ERRORS:
                raise Violation("several", f"{self.link.serial} hears {said}")
            self.leave()

    def _flow(self, said: Flow) -> None:
        """Take the credit of the link."""

    def _transfer(self, said: Transfer, payload: bytes) -> None:
        raise Violation("several", f"a sender gets {said}")

    def _disposition(self, said: Disposition) -> None:
        raise Violation("several", f"a receiver hears {said}")


class Producer(Client):
    """It sends, and keeps the messages whose outcome it does not know, by delivery."""

    def __init__(self, *of_client: Any, at_most: int = MANY) -> None:
        self.left = at_most
        self._credit = self._count = 0
        self._open: dict[int, int] = {}
        super().__init__(*of_client)

    def _attach(self) -> Attach:
        return Attach(
            "out", HANDLE, SENDER, source=Source(), target=Target(NAME), initial_delivery_count=0
        )

    @property
    def waits(self) -> bool:
        """Whether it does not know the outcome of a message, or has not sent all."""
        return bool(self._open) or 0 < self.left < MANY

    def _act(self) -> None:
        """Send some messages."""
        for _ in range(self._chance.randint(1, 4)):
            if self._credit > 0 and self.left > 0 and self._session.may_send():
                self._send()

    def _send(self) -> None:
        chance = self._chance
        sent = self._judge.send(self.link.serial, chance.choice(GROUPS))
        said = {"persistent": "true"} | ({"JMSXGroupID": sent.group} if sent.group else {})
        body = b"%d " % sent.tag + b"x" * chance.choice(BODY_BYTES)
        number = self._session.next_delivery
        self._session.next_delivery += 1
        self._credit -= 1
        self._count += 1
        self.left -= 1
        self._open[number] = sent.tag
        data = message_of(said, body, "data", None)
        self._session.send(Transfer(HANDLE, number, b"%d" % number, 0), data)

    def _flow(self, said: Flow) -> None:
        self._credit = (said.delivery_count or 0) + (said.link_credit or 0) - self._count
        if said.drain and not self.is_over:
            self._count += max(self._credit, 0)
            self._credit = 0
            self._session.say_flow(
                handle=HANDLE, delivery_count=self._count, link_credit=0, drain=True
            )

    def _disposition(self, said: Disposition) -> None:
        last = said.last if said.last is not None else said.first
        for number in range(said.first, last + 1):
            tag = self._open.pop(number, 0)
            if not tag:
                raise Violation("several", f"{self.link.serial} hears {said} of {number}")
            self._judge.hear(tag, type(said.state).__name__.lower())


class Consumer(Client):
    """It receives, and accepts most of it; all of it if it is `kind`."""

    def __init__(self, *of_client: Any, is_kind: bool = False) -> None:
        self._count = self._limit = 0
        self._unsettled: dict[int, int] = {}
        self._arriving: tuple[int, int, bytes] | None = None
        self.is_kind = is_kind
        super().__init__(*of_client)

    def _attach(self) -> Attach:
        return Attach("in", HANDLE, RECEIVER, source=Source(NAME), target=Target())

    @property
    def waits(self) -> bool:
        """Whether it has not settled something."""
        return bool(self._unsettled)

    def _act(self) -> None:
        """Settle something, and give credit."""
        for number in list(self._unsettled)[: self._chance.choice((1, 3, 10))]:
            self._settle(number)
        left = self._limit - self._count
        if left <= self._chance.choice((0, 2, 5)):
            self._limit = max(self._limit, self._count + self._chance.choice((1, 5, 30)))
            self._session.say_flow(
                handle=HANDLE, delivery_count=self._count, link_credit=self._limit - self._count
            )

    def _settle(self, number: int) -> None:
        tag = self._unsettled.pop(number)
        state: Any = Accepted()
        if not self.is_kind and self._chance.random() < 0.15:
            state = self._chance.choice((Released(), Modified(True)))
            self._judge.give_back(tag)
        else:
            self._judge.take(tag, self.link)
        self._session.say(Disposition(RECEIVER, number, settled=True, state=state))

    def _transfer(self, said: Transfer, payload: bytes) -> None:
        self._session.transfer_came()
        if self._arriving is None:
            assert said.delivery_id is not None, said
            self._arriving = said.delivery_id, message_of_tag(said.delivery_tag), b""
            self._count += 1
            if self._count > self._limit:
                raise Violation("several", f"a receiver got {self._count} of {self._limit}")
        number, message, before = self._arriving
        self._arriving = number, message, before + payload
        if said.more:
            return
        self._arriving = None
        if said.aborted:
            return
        content = content_of(before + payload)
        tag = int(content.body.partition(b" ")[0])
        self._judge.get(tag, self._stored(content.annotations, message), is_late=self.is_over)
        if not self.is_over:
            self._unsettled[number] = tag

    def _stored(self, annotations: dict[Any, Any], message: int) -> Stored:
        if self._judge.is_of_receiver:
            return Stored(self._store, message)
        trace = annotations.get(TRACE)
        if trace is None:
            return Stored(self._store, UNKNOWN)
        store, number, _ = trace[-1].split("/")
        return Stored(store, int(number))
