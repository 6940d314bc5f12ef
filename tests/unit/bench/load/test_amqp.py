"""The AMQP of the load generator against a broker, and what it makes of brokers that lie."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.brokers.targets import target
from bench.load.amqp import AmqpWire
from bench.load.frames import LoadError
from bench.load.measurement import MODES, Plan, measure
from bench.load.wire import AMQP as SPEAKS_AMQP
from bench.load.wire import Endpoint
from bench.load.workers import Task, produce
from daybook.protocols.amqp.wire.frames import AMQP, SASL, Frame, FrameReader, frame
from daybook.protocols.amqp.wire.frames import protocol_header as header
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Disposition,
    Error,
    Flow,
    SaslOutcome,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Accepted, Released

WINDOW = 1000
CREDIT = 4
COUNT = 10


@pytest.mark.parametrize("mode", MODES)
def test_a_broker_is_measured_in_every_mode(mode: str, tmp_path: Path) -> None:
    running = target("daybook-amqp", (), None).start(tmp_path)
    try:
        found = measure(mode, running, "bench", Plan(messages=2000, round_trips=20, prefetch=100))
    finally:
        running.stop()
    assert found.messages == (20 if mode == "roundtrip" else 2000)
    assert found.rate > 0


class Broker:
    """A broker that gives prepared answers."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = FrameReader(1 << 20)
        self.most = 0
        self.accepted = 0
        self.arrived = 0

    def say(self, *said: Any) -> None:
        self._connection.sendall(b"".join(frame(0, each) for each in said))

    def say_no_more(self) -> None:
        self._connection.shutdown(socket.SHUT_WR)

    def performatives(self) -> Iterator[Any]:
        while data := self._connection.recv(65536):
            self._frames.receive(data)
            while (found := self._frames.next()) is not None:
                if isinstance(found, Frame):
                    yield found.performative

    def log_in(self) -> Iterator[Any]:
        """Let a sender attach; return what it says further."""
        said = self.performatives()
        next(said)
        self._connection.sendall(header(SASL) + frame(0, SaslOutcome(0)) + header(AMQP))
        next(said)
        next(said)
        self.say(Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW))
        asked = next(said)
        assert isinstance(asked, Attach)
        self.say(Attach(asked.name, 0, RECEIVER), self.credit())
        return said

    def credit(self) -> Flow:
        return Flow(
            next_incoming_id=self.arrived, incoming_window=WINDOW, next_outgoing_id=0,
            outgoing_window=WINDOW, handle=0, delivery_count=self.arrived, link_credit=CREDIT,
        )  # fmt: skip


@contextmanager
def serving(answer: Callable[[Broker], None]) -> Iterator[Endpoint]:
    """Serve one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                answer(Broker(connection))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            port = listener.getsockname()[1]
            yield Endpoint(port, "guest", "guest", "/", "", protocol=SPEAKS_AMQP)
        finally:
            thread.join()


def send(answer: Callable[[Broker], None]) -> None:
    with serving(answer) as endpoint:
        task = Task(
            endpoint=endpoint, destination="/queue/a", label="producer", seed=1, body_bytes=256,
            stall_s=5.0, window=1000, count=COUNT,
        )  # fmt: skip
        produce(task, lambda: None)


def accepted(first: int, last: int | None = None) -> Disposition:
    return Disposition(RECEIVER, first, last, True, Accepted())


def test_a_producer_keeps_within_its_credit_and_counts_ranges() -> None:
    brokers: list[Broker] = []

    def answer(broker: Broker) -> None:
        brokers.append(broker)
        answered = 0
        for said in broker.log_in():
            assert isinstance(said, Transfer)
            assert said.delivery_id == broker.arrived
            broker.arrived += 1
            broker.most = max(broker.most, broker.arrived - answered)
            if broker.arrived - answered == CREDIT or broker.arrived == COUNT:
                broker.say(accepted(answered, broker.arrived - 1), broker.credit())
                answered = broker.arrived

    send(answer)
    assert brokers[0].most == CREDIT
    assert brokers[0].arrived == COUNT


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((accepted(0, 8), accepted(8)), "1 never came, 1 came more than once"),
        ((accepted(0, 10),), "one is accepted that was not sent"),
        ((Disposition(RECEIVER, 0, None, True, Released()),), "was not accepted"),
        ((Disposition(RECEIVER, 0, None, False, Accepted()),), "was not accepted"),
        ((Close(Error("amqp:internal-error", "no space")),), "no space"),
        ((), "closed the connection while 10 of 10 receipts"),
    ],
)
def test_what_was_not_accepted_once_is_found(answers: tuple[Any, ...], said: str) -> None:
    def answer(broker: Broker) -> None:
        said = broker.log_in()
        next(said)
        broker.say(*answers)
        broker.say_no_more()
        while next(said, None) is not None:
            pass

    with pytest.raises(LoadError, match=said):
        send(answer)


def test_a_refused_login_and_another_protocol_are_found() -> None:
    def refuse(broker: Broker) -> None:
        next(broker.performatives())
        broker._connection.sendall(header(SASL) + frame(0, SaslOutcome(1)))

    def speak_stomp(broker: Broker) -> None:
        broker._connection.sendall(b"ERROR\nmessage:what?\n\n\0")

    for answer, said in ((refuse, "refused the login"), (speak_stomp, "no header of AMQP")):
        with serving(answer) as endpoint, pytest.raises(LoadError, match=said):
            AmqpWire(endpoint, "stranger", 5.0)


def test_a_delivery_out_of_its_order_or_in_parts_is_found(tmp_path: Path) -> None:
    running = target("daybook-amqp", (), None).start(tmp_path)
    try:
        with closing(AmqpWire(running.endpoint, "wire", 20.0)) as wire:
            wire.send_to("/queue/a")
            wire.put(wire.message("/queue/a", 0, b"one") + wire.message("/queue/a", 1, b"two"))
            while not wire.receipts(wire.receive(lambda: "receipts")):
                pass
        with closing(AmqpWire(running.endpoint, "wire", 20.0)) as wire:
            wire.subscribe(running.endpoint, "/queue/a", 10, 3)
            blocks: list[bytes] = []
            left = 2
            while left:
                blocks.append(wire.receive(lambda: "messages"))
                left -= wire.acknowledge(blocks[-1])
            assert wire.bodies(blocks) == [b"one", b"two"]
            with pytest.raises(LoadError, match="is not one whole message in its order"):
                wire.bodies([*blocks, *blocks])
    finally:
        running.stop()
