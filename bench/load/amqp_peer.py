"""A blocking connection of AMQP 1.0, for honest clients and for attackers.

It sends frames, and waits for frames. Must never know what is measured.
"""

import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from bench.load.frames import LoadError
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    COMPOSITES,
    DATA,
    Header,
)
from daybook.engine.messages.amqp.writer import encoded, section_of
from daybook.protocols.amqp.wire.errors import AmqpError
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    EMPTY_FRAME,
    SASL,
    Frame,
    FrameReader,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Flow,
    Open,
    SaslInit,
)
from daybook.protocols.amqp.wire.termini import Source, Target

STALL_SECONDS: Final = 120.0
SPEAK_SECONDS: Final = 20.0
"""A peer that waits says an empty frame so often: the broker ends silent connections."""
READ_BYTES: Final = 1 << 18
FRAME_SIZE: Final = 1 << 16
WIDE: Final = 1 << 30
"""A window, or credit, that does not end."""


def message(body: bytes, properties: dict[str, Any] | None = None) -> bytes:
    """Return the sections of a durable message."""
    parts = [COMPOSITES.encoded(Header(durable=True))]
    if properties:
        parts.append(section_of(APPLICATION_PROPERTIES, encoded(properties)))
    return b"".join((*parts, section_of(DATA, encoded(body))))


def begin(channel: int = 0, window: int = WIDE) -> bytes:
    """Return the beginning of a session."""
    said = Begin(next_outgoing_id=0, incoming_window=window, outgoing_window=WIDE)
    return frame(channel, said)


def sender(handle: int, target: Any, channel: int = 0) -> bytes:
    """Return the attach of a link to send by; a text is an address."""
    if isinstance(target, str):
        target = Target(target)
    name = f"s{channel}-{handle}"
    attach = Attach(name, handle, SENDER, source=Source(), target=target, initial_delivery_count=0)
    return frame(channel, attach)


def receiver(handle: int, address: str, channel: int = 0, **source: Any) -> bytes:
    """Return the attach of a link to receive by."""
    attach = Attach(
        f"r{channel}-{handle}", handle, RECEIVER, source=Source(address, **source), target=Target()
    )
    return frame(channel, attach)


def flow(handle: int | None, most: int, channel: int = 0, **values: Any) -> bytes:
    """Return a flow that allows so many deliveries in all."""
    values = {"next_incoming_id": 0, "incoming_window": WIDE, **values}
    return frame(
        channel, Flow(next_outgoing_id=0, outgoing_window=WIDE, handle=handle, delivery_count=0,
                      link_credit=most, **values)
    )  # fmt: skip


class AmqpPeer:
    """The connection, logged in as guest, with a session on channel 0."""

    def __init__(self, port: int, frame_size: int = FRAME_SIZE, window: int = WIDE) -> None:
        """Connect. Raises LoadError, and OSError."""
        self._socket: Final = socket.create_connection(("127.0.0.1", port), timeout=STALL_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader: Final = FrameReader(1 << 20)
        login = protocol_header(SASL) + frame(0, SaslInit("ANONYMOUS"))
        opening = protocol_header(AMQP) + frame(0, Open("bench", max_frame_size=frame_size))
        self.ask(login + opening + begin(0, window), Begin)

    def put(self, data: bytes) -> None:
        """Send bytes and do not read."""
        self._socket.sendall(data)

    def ask(self, data: bytes, kind: type, count: int = 1) -> list[Frame]:
        """Send bytes, and read until so many frames of a kind came; return these. Raises
        LoadError."""
        return self.until(data, lambda each: isinstance(each.performative, kind), count)

    def until(self, data: bytes, wanted: Callable[[Frame], bool], count: int = 1) -> list[Frame]:
        """Send bytes, and read until so many frames came that are wanted; return these. Raises
        LoadError."""
        view = memoryview(data)
        found: list[Frame] = []
        heard = spoken = time.monotonic()
        while len(found) < count or len(view):
            read, write, _ = select.select(
                [self._socket], [self._socket] if len(view) else [], [], SPEAK_SECONDS
            )
            now = time.monotonic()
            if write:
                view = view[self._socket.send(view[:READ_BYTES]) :]
                heard = spoken = now
            elif now - spoken >= SPEAK_SECONDS and not len(view):
                self.put(EMPTY_FRAME)
                spoken = now
            if read:
                found += [each for each in self._read() if wanted(each)]
                heard = now
            elif now - heard >= STALL_SECONDS:
                raise LoadError(f"nothing came for {STALL_SECONDS:.0f} s")
        return found

    def _read(self) -> list[Frame]:
        block = self._socket.recv(READ_BYTES)
        if not block:
            raise LoadError("the broker closed the connection")
        self._reader.receive(block)
        found = []
        try:
            while (each := self._reader.next()) is not None:
                if isinstance(each, Frame):
                    found.append(each)
                    self._judge(each.performative)
        except AmqpError as error:
            raise LoadError(f"the broker sent no AMQP: {error}") from error
        return found

    def _judge(self, said: Any) -> None:
        if isinstance(said, Close | End | Detach) and said.error is not None:
            raise LoadError(f"the broker sent {said}")

    def close(self) -> None:
        """Close without a word."""
        self._socket.close()
