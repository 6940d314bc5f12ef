"""Attacks by clients of AMQP 1.0: floods of all that it has, and peers that stop half way."""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from bench.attacks.scenarios import SECONDS, Scenario, settle
from bench.load.amqp_peer import (
    STALL_SECONDS,
    WIDE,
    AmqpPeer,
    begin,
    flow,
    message,
    receiver,
    sender,
)
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.writer import section_of
from daybook.protocols.amqp.wire.frames import AMQP, SASL, Frame, frame, protocol_header
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Detach,
    Disposition,
    End,
    Flow,
    SaslInit,
    SaslResponse,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Released,
    Source,
    Target,
    TransactionalState,
)

BODY: Final = message(b"an order of no importance at all")
SELECTOR: Final = Symbol("apache.org:selector-filter:string")
ECHO: Final = frame(
    0, Flow(incoming_window=WIDE, next_outgoing_id=0, outgoing_window=WIDE, echo=True)
)


def transfer(handle: int, delivery: int, data: bytes, *, state: Any = None) -> bytes:
    """A message in one frame."""
    return frame(0, Transfer(handle, delivery, b"%d" % delivery, 0, state=state), data)


def is_answer(delivery: int) -> Callable[[Frame], bool]:
    """Whether a frame is the answer to a delivery, as the first or last one of its range."""

    def found(each: Frame) -> bool:
        said = each.performative
        return isinstance(said, Disposition) and delivery in (said.first, said.last)

    return found


class AmqpScenario(Scenario):
    """An attack by AMQP; `port` is that of an acceptor for it."""

    protocol = "amqp"
    peer: AmqpPeer

    def connect(self) -> AmqpPeer:
        """Log in as guest."""
        return AmqpPeer(self.port)

    def fill_queue(self, address: str, count: int, data: bytes = BODY) -> None:
        """Send so many messages and wait until they are safe."""
        peer = self.connect()
        peer.ask(sender(0, address), Flow)
        sent = 0
        while sent < count:
            many = min(count - sent, 10 if len(data) > 2000 else 500)
            frames = b"".join(transfer(0, sent + each, data) for each in range(many))
            peer.until(frames, is_answer(sent + many - 1))
            sent += many
        peer.close()

    def hold(self, count: int, address: str = "attacked") -> None:
        """Have so many deliveries unsettled on handle 0."""
        self.fill_queue(address, count)
        self.peer.ask(receiver(0, address) + flow(0, WIDE), Transfer, count)

    def over(self) -> None:
        """Wait until the broker has read all that was said."""
        self.peer.ask(ECHO, Flow)


class Links(AmqpScenario):
    """5,000 links of both kinds attached and detached, over and over"""

    def attack(self) -> None:
        """Each on the handle of the one before."""
        for _ in range(self.scale):
            pairs = (
                receiver(0, f"l.{number % 50}")
                + frame(0, Detach(0, True))
                + sender(1, f"l.{number % 50}")
                + frame(0, Detach(1, True))
                for number in range(2500)
            )
            self.peer.ask(b"".join(pairs), Detach, 5000)
        self.over()


class Sessions(AmqpScenario):
    """3,000 sessions with two links each begun and ended"""

    def attack(self) -> None:
        """On channels that are used again."""
        for _ in range(self.scale):
            frames = (
                begin(channel) + receiver(0, "s", channel) + sender(1, "s", channel)
                + frame(channel, End())
                for each in range(3000)
                for channel in (1 + each % 200,)
            )  # fmt: skip
            self.peer.ask(b"".join(frames), End, 3000)


class Flows(AmqpScenario):
    """100,000 flows that want an echo, or drain"""

    def attack(self) -> None:
        """For a link without messages."""
        self.peer.ask(receiver(0, "empty"), Attach)
        flows = flow(0, 100, drain=True, echo=True) + flow(0, 5, echo=True) + ECHO
        for _ in range(34 * self.scale):
            self.peer.ask(flows * 1000, Flow, 3000)


class Dispositions(AmqpScenario):
    """dispositions of ranges over millions, with 20,000 deliveries unsettled"""

    def prepare(self) -> None:
        """Have them."""
        self.hold(20_000)

    def attack(self) -> None:
        """Say nothing of them, many times; then release all at once."""
        nothing = frame(0, Disposition(RECEIVER, 1 << 20, 1 << 30, True, Accepted()))
        wide = frame(0, Disposition(RECEIVER, 0, 0x7FFF_FFFF, False, None))
        for _ in range(4 * self.scale):
            self.peer.put((nothing + wide) * 500)
        self.peer.ask(frame(0, Disposition(RECEIVER, 0, 1 << 30, True, Released())) + ECHO, Flow)


class Accepts(AmqpScenario):
    """one disposition of 20,000 deliveries, not settled"""

    def prepare(self) -> None:
        """Have them."""
        self.hold(20_000 * self.scale)

    def attack(self) -> None:
        """The broker answers for each."""
        said = frame(0, Disposition(RECEIVER, 0, 1 << 30, False, Accepted()))
        self.peer.ask(said, Disposition, 1)
        self.over()


class Releases(AmqpScenario):
    """deliveries released as fast as they come back"""

    def prepare(self) -> None:
        """Have some."""
        self.hold(2000)

    def attack(self) -> None:
        """Release all and get them again."""
        for round_number in range(5 * self.scale):
            first = round_number * 2000
            said = frame(0, Disposition(RECEIVER, first, first + 1999, True, Released()))
            self.peer.ask(said, Transfer, 2000)


class Invented(AmqpScenario):
    """attaches with 2,500 invented tags each, over and over"""

    def attack(self) -> None:
        """Say of each that it is accepted."""
        said = COMPOSITES.encoded(Accepted())
        state = Reader(said, 0, len(said)).value()
        unsettled = {(each << 32).to_bytes(16, "big"): state for each in range(2500)}
        attach = Attach(
            "invented", 0, RECEIVER, source=Source("attacked"), target=Target(), unsettled=unsettled
        )
        one = frame(0, attach) + frame(0, Detach(0, True))
        for _ in range(50 * self.scale):
            self.peer.ask(one, Detach, 1)


class Kept(AmqpScenario):
    """a peer that keeps 20,000 deliveries on 100 links unsettled vanishes"""

    def prepare(self) -> None:
        """Have them."""
        count = 20_000 * self.scale
        self.fill_queue("kept", count)
        links = (receiver(each, "kept") + flow(each, WIDE) for each in range(100))
        self.peer.ask(b"".join(links), Transfer, count)

    def attack(self) -> None:
        """Without a word."""
        self.peer.close()
        settle(self.data)


class TinyWindows(AmqpScenario):
    """50 peers with frames of 512 bytes, windows of 1 and a credit of 1 take long messages"""

    def prepare(self) -> None:
        """Fill their queue."""
        self.fill_queue("tiny", 400, message(b"x" * 50_000))
        self.peers = [AmqpPeer(self.port, 512, 1) for _ in range(50)]

    def attack(self) -> None:
        """Each gets one frame for each flow, up to the last but a few of its message."""
        for peer in self.peers:
            peer.ask(receiver(0, "tiny") + flow(0, 1, incoming_window=1), Transfer)
        end = time.monotonic() + SECONDS * self.scale
        seen = 1
        while time.monotonic() < end and seen < 50_000 // 512:
            said = Flow(
                next_incoming_id=seen, incoming_window=1, next_outgoing_id=0,
                outgoing_window=WIDE,
            )  # fmt: skip
            for peer in self.peers:
                peer.ask(frame(0, said), Transfer)
            seen += 1
        for peer in self.peers:
            peer.close()
        settle(self.data)


class Deaf(AmqpScenario):
    """100 receivers that never read are sent 4 MB each, and vanish"""

    def prepare(self) -> None:
        """Attach, and stop reading."""
        self.peers = [self.connect() for _ in range(100 * self.scale)]
        for peer in self.peers:
            peer.ask(receiver(0, "topic://deaf") + flow(0, WIDE), Attach)

    def attack(self) -> None:
        """Publish, and leave."""
        self.peer.ask(sender(0, "topic://deaf"), Flow)
        for number in range(200):
            self.peer.ask(transfer(0, number, message(b"x" * 20_000)), Disposition)
        for peer in self.peers:
            peer.close()
        settle(self.data)


class HalfOpen(AmqpScenario):
    """1,000 logins that stop after each of their steps, and vanish"""

    def attack(self) -> None:
        """Many are open at once."""
        steps = (
            b"AM", protocol_header(SASL), protocol_header(SASL) + b"\0\0",
            protocol_header(SASL) + frame(0, SaslInit("PLAIN")),
            protocol_header(SASL) + frame(0, SaslInit("ANONYMOUS")) + protocol_header(AMQP),
        )  # fmt: skip
        for _ in range(5 * self.scale):
            with contextlib.ExitStack() as stack:
                for number in range(200):
                    found = socket.create_connection(("127.0.0.1", self.port), STALL_SECONDS)
                    stack.enter_context(found)
                    with contextlib.suppress(OSError):
                        found.sendall(steps[number % len(steps)])
        settle(self.data)


class Junk(AmqpScenario):
    """1,000 logins with junk: mechanisms, responses, frames, sizes"""

    def attack(self) -> None:
        """Each is refused."""
        header = protocol_header(SASL)
        junk = (
            header + frame(0, SaslInit("X" * 400)), header + b"\xff" * 400,
            header + frame(0, SaslInit("SCRAM-SHA-256", b"n,,n=" + b"x" * 400)),
            header + frame(0, SaslInit("PLAIN", b"\0" * 400)), b"GET / HTTP/1.1\r\n\r\n",
            header + frame(0, SaslResponse(b"x")), protocol_header(AMQP) + b"\x7f\xff\xff\xff",
        )  # fmt: skip
        for number in range(1000 * self.scale):
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), STALL_SECONDS) as found,
            ):
                found.sendall(junk[number % len(junk)])


class Endless(AmqpScenario):
    """100 links with messages of frames of one byte each that never end"""

    def attack(self) -> None:
        """All continue in turn."""
        first = [Transfer(each, each, b"t", 0, more=True) for each in range(100)]
        self.peer.ask(b"".join(sender(each, "endless") for each in range(100)), Flow, 100)
        self.peer.put(b"".join(frame(0, each, BODY[:-20] + b"") for each in first))
        more = b"".join(frame(0, Transfer(each, more=True), b"x") for each in range(100))
        for _ in range(10 * self.scale):
            # The window of the session is 2,048 frames.
            for _ in range(10):
                self.peer.ask(more * 10 + ECHO, Flow)
        self.peer.close()
        settle(self.data)


def _asked(what: Any, number: int) -> bytes:
    return transfer(0, number, section_of(0x77, COMPOSITES.encoded(what)))


class Declared(AmqpScenario):
    """20,000 transactions are declared and never discharged"""

    def attack(self) -> None:
        """Until the broker takes no more, then vanish."""
        self.peer.ask(sender(0, Coordinator()), Flow)
        for first in range(0, 20_000 * self.scale, 400):
            frames = (_asked(Declare(), first + each) for each in range(400))
            self.peer.ask(b"".join(frames), Disposition, 400)
        self.peer.close()
        settle(self.data)


class Transactions(AmqpScenario):
    """transactions declared, posted to and rolled back as fast as may be"""

    def attack(self) -> None:
        """The ids of transactions are counted."""
        self.peer.ask(sender(0, Coordinator()) + sender(1, "posted"), Flow, 2)
        for first in range(0, 6000 * self.scale, 100):
            frames = []
            for each in range(100):
                number = first + each
                txn_id = (number + 1).to_bytes(8, "big")
                frames += [
                    _asked(Declare(), 3 * number),
                    transfer(1, 3 * number + 1, BODY, state=TransactionalState(txn_id)),
                    _asked(Discharge(txn_id, number % 2 > 0), 3 * number + 2),
                ]
            self.peer.until(b"".join(frames), is_answer(3 * (first + 99) + 2))


class ManyProperties(AmqpScenario):
    """50 browsers with selectors over messages with 600 properties"""

    properties = 600

    def prepare(self) -> None:
        """Fill the queue."""
        properties = {f"property{number}": number for number in range(self.properties)}
        self.fill_queue("wide", 40 * self.scale, message(b"x", properties))

    def attack(self) -> None:
        """Each asks for another property, which no message has so."""
        for number in range(50):
            self.peer.ask(
                receiver(
                    number, "wide", distribution_mode="copy",
                    filter={"s": Described(SELECTOR, f"property{number} = 'x{number}'")},
                ),
                Attach,
            )  # fmt: skip
        flows = (flow(number, WIDE) for number in range(50))
        self.peer.ask(b"".join(flows) + ECHO, Flow)
        for number in range(50):
            self.peer.ask(flow(number, WIDE, drain=True), Flow)


SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "amqp-links": Links,
    "amqp-sessions": Sessions,
    "amqp-flows": Flows,
    "amqp-dispositions": Dispositions,
    "amqp-accepts": Accepts,
    "amqp-releases": Releases,
    "amqp-invented": Invented,
    "amqp-kept": Kept,
    "amqp-tiny-windows": TinyWindows,
    "amqp-deaf": Deaf,
    "amqp-half-open": HalfOpen,
    "amqp-junk": Junk,
    "amqp-endless": Endless,
    "amqp-declared": Declared,
    "amqp-transactions": Transactions,
    "amqp-many-properties": ManyProperties,
}
