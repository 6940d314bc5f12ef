"""Connectors to peers that misbehave, each beside an honest client: garbage, silence at each step,
redirects, links that are detached again and again, huge frames, floods without credit, and our own
messages, which come back."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any, Final

import pytest

from bench.load.amqp_peer import flow, message
from bench.load.honest import Honest
from daybook.protocols.amqp.wire.errors import AmqpError
from daybook.protocols.amqp.wire.frames import AMQP, SASL, Frame, FrameReader, frame
from daybook.protocols.amqp.wire.frames import protocol_header as header
from daybook.protocols.amqp.wire.kinds import OK, RECEIVER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Error,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Accepted, Rejected, Source, Target
from tests.attack.honest import Beside
from tests.interop.using import status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

MEMORY: Final = 48 << 20
SECONDS: Final = 3.0
BODY: Final = b"x" * 1000
WINDOW: Final = 1 << 30
CONFIG: Final = """
[[connector]]
name = "east"
url = "amqp://127.0.0.1:{port}"
reconnect-delay = "100ms"
reconnect-delay-max = "200ms"
connect-timeout = "500ms"
[[auto-link]]
address = "taken"
direction = "in"
connector = "east"
[[auto-link]]
address = "given"
direction = "out"
connector = "east"
"""
ROUND: Final = """
[[divert]]
name = "round"
address = "taken"
forwarding-addresses = ["given"]
exclusive = true
"""
"""Messages from there go there again."""
RETURNED: Final = 50
LOGIN: Final = header(SASL) + frame(0, SaslMechanisms(("ANONYMOUS",)))
LET_IN: Final = frame(0, SaslOutcome(OK))


class Misbehaving:
    """The peer of a connector; `react` answers what the broker says after its open, and `opens`
    says how far the peer itself comes: to nothing, SASL or open."""

    def __init__(
        self,
        react: Callable[["Misbehaving", Frame], bytes] = lambda peer, said: b"",
        first: bytes = LOGIN,
        opened: bytes = header(AMQP) + frame(0, Open("east")),
    ) -> None:
        self.react: Final = react
        self.first: Final = first
        self.opened: Final = opened
        self.socket: Any = None
        self.met = 0
        self.put = 0

    def serve(self, accepted: socket.socket) -> None:
        """Talk until the broker is gone."""
        self.met += 1
        self.socket = accepted
        accepted.sendall(self.first)
        reader = FrameReader(1 << 20, 1 << 20)
        while data := accepted.recv(1 << 16):
            reader.receive(data)
            while (found := reader.next()) is not None:
                if isinstance(found, Frame):
                    accepted.sendall(self._answer(found))

    def _answer(self, said: Frame) -> bytes:
        what = said.performative
        if isinstance(what, SaslInit):
            return LET_IN + self.opened if self.opened else b""
        if isinstance(what, Begin):
            begun = Begin(
                remote_channel=said.channel, next_outgoing_id=0, incoming_window=WINDOW,
                outgoing_window=WINDOW,
            )  # fmt: skip
            return frame(said.channel, begun)
        return self.react(self, said)

    @contextmanager
    def listening(self) -> Iterator[int]:
        """Serve connections, each in a thread; yield the port."""
        listener = socket.create_server(("127.0.0.1", 0))

        def one(accepted: socket.socket) -> None:
            with accepted, suppress(OSError, AmqpError):
                self.serve(accepted)

        def all_of_them() -> None:
            with suppress(OSError):
                while True:
                    accepted = listener.accept()[0]
                    threading.Thread(target=one, args=(accepted,), daemon=True).start()

        threading.Thread(target=all_of_them, daemon=True).start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()


def _attached(said: Frame, asked: Attach) -> bytes:
    terms: dict[str, Any] = {"source": asked.source or Source(), "target": asked.target or Target()}
    first = 0 if asked.role == RECEIVER else None
    answer = Attach(asked.name, 0, not asked.role, initial_delivery_count=first, **terms)
    return frame(said.channel, answer)


class Returning:
    """A peer that sends each message back that it gets, as it came. `came` is how many it got,
    `refusals` what the broker says of those that it does not take."""

    def __init__(self) -> None:
        self.came = 0
        self.refusals: Final[list[str]] = []
        self._back = -1

    def __call__(self, peer: Misbehaving, said: Frame) -> bytes:
        """Answer a frame of the broker."""
        what = said.performative
        if isinstance(what, Attach):
            return self._attach(said, what)
        if isinstance(what, Transfer):
            return self._return(said, what)
        if isinstance(what, Disposition) and isinstance(what.state, Rejected):
            assert what.state.error is not None
            last = what.last if what.last is not None else what.first
            self.refusals.extend([str(what.state.error)] * (last - what.first + 1))
        return b""

    def _attach(self, said: Frame, asked: Attach) -> bytes:
        if asked.role == RECEIVER:
            self._back = said.channel
            return _attached(said, asked)
        return _attached(said, asked) + flow(0, WINDOW, said.channel)

    def _return(self, said: Frame, sent: Transfer) -> bytes:
        number, self.came = self.came, self.came + 1
        assert sent.delivery_id is not None
        taken = Disposition(RECEIVER, sent.delivery_id, settled=True, state=Accepted())
        back = Transfer(0, number, b"%d" % number, 0, settled=False)
        return frame(said.channel, taken) + frame(self._back, back, said.payload)


def _redirects_links(peer: Misbehaving, said: Frame) -> bytes:
    asked = said.performative
    if not isinstance(asked, Attach):
        return b""
    away = Detach(0, True, Error("amqp:link:redirect", "elsewhere", {"port": 1}))
    return _attached(said, asked) + frame(said.channel, away)


def _floods(peer: Misbehaving, said: Frame) -> bytes:
    """Send very many messages as soon as there is a link, whatever the credit."""
    asked = said.performative
    if not isinstance(asked, Attach) or asked.role != RECEIVER:
        return b""
    peer.socket.sendall(_attached(said, asked))
    for number in count():
        sent = Transfer(0, number, b"t", 0, settled=number % 2 == 0)
        peer.socket.sendall(frame(said.channel, sent, message(BODY)))
        peer.put += 1
    return b""


def _huge(peer: Misbehaving, said: Frame) -> bytes:
    return b"\x7f\xff\xff\xff\x02\x00\x00\x00" + bytes(1 << 16)


def _redirected() -> bytes:
    error = Error("amqp:connection:redirect", "elsewhere", {"network-host": "x", "port": 1})
    return header(AMQP) + frame(0, Open("east")) + frame(0, Close(error))


PEERS: Final[dict[str, Callable[[], Misbehaving]]] = {
    "garbage": lambda: Misbehaving(first=os.urandom(1 << 16)),
    "silent": lambda: Misbehaving(first=b""),
    "silent-after-sasl": lambda: Misbehaving(opened=b""),
    "silent-after-open": Misbehaving,
    "redirects": lambda: Misbehaving(opened=_redirected()),
    "redirects-links": lambda: Misbehaving(_redirects_links),
    "huge-frames": lambda: Misbehaving(_huge),
    "floods": lambda: Misbehaving(_floods),
}


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_that_misbehaves(tmp_path: Path, scale: int, name: str) -> None:
    peer = PEERS[name]()
    with peer.listening() as port:
        config = CONFIG.format(port=port)
        listen = ("amqp+stomp://127.0.0.1:0",)
        with BrokerProcess(tmp_path / "data", config=config, listen=listen) as broker:
            broker.start()
            with Honest(broker.port) as honest:
                beside = Beside(broker, honest)
                wait_for(lambda: peer.met > 0, "the connector")
                with beside.attack(memory_bytes=MEMORY * scale):
                    sleep(SECONDS * scale)
            assert broker.stop() == 0
            assert "Traceback" not in broker.log_text()


def test_a_flood_stays_in_memory_only_until_its_queue_pages(tmp_path: Path, scale: int) -> None:
    """Without a limit of its own it may have 60 MB there; all of it is charged as messages."""
    peer = PEERS["floods"]()
    with peer.listening() as port, BrokerProcess(
        tmp_path / "data", config=CONFIG.format(port=port), settings=("global-max-size=8MiB",),
        listen=("amqp+stomp://127.0.0.1:0",),
    ) as broker:  # fmt: skip
        broker.start()
        with Honest(broker.port) as honest:
            wait_for(lambda: peer.put > 0, "the flood")
            with Beside(broker, honest).attack(memory_bytes=MEMORY >> 1):
                wait_for(lambda: peer.put > 40_000 * scale, "the flood to be long")
            assert status(broker)["memory"]["messages"] < MEMORY >> 1


def test_a_peer_that_returns_our_own_messages(tmp_path: Path, scale: int) -> None:
    """A divert sends them there once more, but not twice."""
    count, returning = RETURNED * scale, Returning()
    with Misbehaving(returning).listening() as port:
        config = CONFIG.format(port=port) + ROUND
        listen = ("amqp+stomp://127.0.0.1:0",)
        with BrokerProcess(tmp_path / "data", config=config, listen=listen) as broker:
            broker.start()
            with Honest(broker.port) as honest, Wire(broker.port) as wire:
                wire.connect()
                beside = Beside(broker, honest)
                with beside.attack(memory_bytes=MEMORY * scale):
                    for number in range(count):
                        wire.send("SEND", BODY, destination="/queue/given", receipt=number)
                        wire.expect("RECEIPT")
                    wait_for(lambda: len(returning.refusals) == count, "all to be refused")
            assert broker.stop() == 0
            assert "Traceback" not in broker.log_text()
    assert returning.came == 2 * count
    assert all("loop: the message was here before" in each for each in returning.refusals)
