"""AMQP 1.0 as the load generator speaks it: one session, one link, frames that are made in advance.

While the clock runs, of each frame only its size and its kind are looked at, and dispositions and
flows are read. Messages are unsettled both ways: a sender counts what was accepted and settled, a
receiver settles all that a block has brought with one disposition. What arrived is decoded after
the clock has stopped. The codec is the broker's, but for messages that are sent.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from bench.load.frames import LoadError, check_answers
from bench.load.wire import Endpoint, Wire
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import DATA
from daybook.protocols.amqp.wire import hot
from daybook.protocols.amqp.wire.frames import AMQP, SASL, frame, protocol_header
from daybook.protocols.amqp.wire.kinds import (
    NOT_DURABLE,
    RECEIVER,
    SENDER,
    UNSETTLED,
    UNSETTLED_STATE,
)
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Disposition,
    Flow,
    Open,
    SaslInit,
    SaslOutcome,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES, TRANSFER
from daybook.protocols.amqp.wire.termini import Accepted, Source, Target

FRAME_SIZE: Final = 65_536
WINDOW: Final = (1 << 31) - 1
_HEADER_BYTES: Final = 8
_SHORT_CODE: Final = 0x53
_SEND: Final = struct.Struct(">IBBH 3s BBB B BI BBI BB")
"""A frame with a transfer: handle 0, the number as delivery-id and as tag, unsettled."""
_SECTIONS: Final = b"\0\x53\x70\xc0\x02\x01\x41" + b"\0\x53\x75\xb0"
"""The header of a durable message, and the beginning of its data."""
_FIELDS_BYTES: Final = 15
_ACCEPTED: Final = COMPOSITES.encoded(Accepted())


class AmqpWire(Wire):
    """A connection with one session on channel 0, and at most one link each way."""

    __slots__ = (
        "_answered", "_arrived", "_begun", "_counted", "_first", "_granted", "_granted_at",
        "_links", "_prefetch", "_said", "_settled", "_window",
    )  # fmt: skip

    def __init__(self, endpoint: Endpoint, label: str, stall_s: float) -> None:
        self._begun = False
        self._said: list[Any] = []
        self._links = 0
        # Of messages that were sent: how many were accepted, and how many of those were reported.
        self._answered = self._counted = 0
        # How many messages the link, and the session, may send in their whole lives.
        self._granted = self._window = 0
        # Of messages that arrived: the number of the first one, how many there are, how many were
        # settled, and how many there were when credit was given.
        self._first = -1
        self._arrived = self._settled = self._granted_at = self._prefetch = 0
        super().__init__(endpoint, label, stall_s)

    # ---- the beginning and the end

    def _log_in(self, endpoint: Endpoint) -> None:
        login = f"\0{endpoint.login}\0{endpoint.passcode}".encode()
        self.put(protocol_header(SASL) + frame(0, SaslInit("PLAIN", login)))
        if self._wait_for(SaslOutcome, "the outcome of the login").code:
            raise LoadError(f"{self.label}: the broker refused the login")
        self._begun = False
        self.put(
            protocol_header(AMQP)
            + frame(0, Open(self.label, endpoint.virtual_host, max_frame_size=FRAME_SIZE))
            + frame(
                0, Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW)
            )
        )  # fmt: skip
        self._window = self._wait_for(Begin, "begin").incoming_window

    def leave(self) -> None:
        """Close the connection, and wait until the broker does."""
        self.put(frame(0, Close()))
        self._wait_for(Close, "close")

    def _wait_for(self, kind: type, what: str) -> Any:
        """Return the first frame of a kind; others before it are heard."""
        while True:
            for said in self._said:
                if isinstance(said, kind):
                    self._said.clear()
                    return said
            self._said.clear()
            self.receive(lambda: what)

    # ---- frames that arrive

    def _whole(self, data: bytes) -> int:
        at, size = 0, len(data)
        if not self._begun:
            if size < _HEADER_BYTES:
                return 0
            if data[:4] != b"AMQP":
                raise LoadError(f"{self.label}: no header of AMQP, but {data[:40]!r}")
            self._begun, at = True, _HEADER_BYTES
        while size - at >= _HEADER_BYTES:
            end = at + int.from_bytes(data[at : at + 4])
            if end > size:
                break
            if end - at > _HEADER_BYTES:
                if data[at + 9] == _SHORT_CODE and data[at + 10] == TRANSFER:
                    if self._first < 0:
                        self._first = _performative(data, at, end)[0].delivery_id
                    self._arrived += 1
                else:
                    self._hear(_performative(data, at, end)[0])
            at = end
        return at

    def _hear(self, said: Any) -> None:
        if isinstance(said, Disposition):
            if not said.settled or not isinstance(said.state, Accepted):
                raise LoadError(f"{self.label}: a message was not accepted: {said}")
            self._answered += _last(said) - said.first + 1
        elif isinstance(said, Flow):
            self._window = (said.next_incoming_id or 0) + said.incoming_window
            if said.link_credit is not None:
                self._granted = (said.delivery_count or 0) + said.link_credit
            self.credit = min(self._granted, self._window)
        elif getattr(said, "error", None) is not None:
            raise LoadError(f"{self.label}: the broker sent {said}")
        else:
            self._said.append(said)

    # ---- sending

    def send_to(self, destination: str) -> None:
        """Attach a sender. It may get credit only when somebody receives."""
        self.credit = 0
        self._attach(SENDER, destination)
        self._wait_for(Attach, "attach")

    def message(self, destination: str, number: int, body: bytes) -> bytes:
        """Return the frame of a transfer."""
        size = _SEND.size + len(_SECTIONS) + 4 + len(body)
        return b"%b%b%b%b" % (
            _SEND.pack(
                size, 2, 0, 0, b"\0\x53\x14", 0xC0, _FIELDS_BYTES, 5, 0x43, 0x70, number, 0xA0, 4,
                number, 0x43, 0x42,
            ),
            _SECTIONS, len(body).to_bytes(4), body,
        )  # fmt: skip

    def receipts(self, block: bytes) -> int:
        """Return how many messages were accepted since the last call."""
        found = self._answered - self._counted
        self._counted = self._answered
        return found

    def check_receipts(self, blocks: list[bytes], count: int) -> None:
        """Check the dispositions."""
        seen = bytearray(count)
        for said, _ in _performatives(blocks):
            if isinstance(said, Disposition):
                if _last(said) >= count:
                    raise LoadError(f"of {count} messages one is accepted that was not sent")
                for number in range(said.first, _last(said) + 1):
                    seen[number] += 1
        check_answers(seen)

    # ---- receiving

    def subscribe(
        self, endpoint: Endpoint, destination: str, prefetch: int, body_bytes: int
    ) -> None:
        """Attach a receiver, and give it credit."""
        self._prefetch = prefetch
        self._attach(RECEIVER, destination)
        self.put(self._credit(0))

    def wait_for_subscription(self) -> None:
        """Wait for the answer to the attach."""
        self._wait_for(Attach, "attach")

    def acknowledge(self, block: bytes) -> int:
        """Accept and settle all that have come, and give credit when half of it is used."""
        count = self._arrived - self._settled
        if not count:
            return 0
        first = self._first + self._settled
        last = self._first + self._arrived - 1
        data = hot.disposition_frame(0, RECEIVER, first, last, True, _ACCEPTED)
        if (self._arrived - self._granted_at) * 2 >= self._prefetch:
            self._granted_at = self._arrived
            data += self._credit(self._arrived)
        self.put(data)
        self._settled = self._arrived
        return count

    def _credit(self, arrived: int) -> bytes:
        return hot.flow_frame(
            0, max(self._first, 0) + arrived, WINDOW, 0, WINDOW,
            handle=self._links - 1, delivery_count=arrived, link_credit=self._prefetch,
        )  # fmt: skip

    def bodies(self, blocks: Sequence[bytes]) -> list[bytes]:
        """Return the bodies of transfers, whose numbers must be in a row."""
        bodies: list[bytes] = []
        for said, payload in _performatives(blocks):
            if isinstance(said, Transfer):
                if said.more or said.delivery_id != self._first + len(bodies):
                    raise LoadError(f"{self.label}: {said} is not one whole message in its order")
                bodies.append(_body(payload))
        return bodies

    def _attach(self, role: bool, destination: str) -> None:
        """Attach a link to a durable queue, or to a topic."""
        kind = destination.split("/")[1]
        durable = UNSETTLED_STATE if kind == "queue" else NOT_DURABLE
        source, target, first = Source(), Target(), None
        if role == RECEIVER:
            source = Source(destination, durable=durable, capabilities=(kind,))
        else:
            target, first = Target(destination, durable=durable, capabilities=(kind,)), 0
        asked = Attach(
            f"{self.label} {self._links}", self._links, role, snd_settle_mode=UNSETTLED,
            source=source, target=target, initial_delivery_count=first,
        )  # fmt: skip
        self.put(frame(0, asked))
        self._links += 1


def _last(said: Disposition) -> int:
    return said.first if said.last is None else said.last


def _performative(data: bytes, at: int, end: int) -> tuple[Any, bytes]:
    """Return what a frame says, and its payload."""
    reader = Reader(data, at + 4 * data[at + 4], end)
    found = hot.read(reader) or COMPOSITES.read(reader)
    return found, data[reader.at : end]


def _performatives(blocks: Sequence[bytes]) -> Iterator[tuple[Any, bytes]]:
    """Yield what the frames in blocks say, with their payloads."""
    for block in blocks:
        at = _HEADER_BYTES if block.startswith(b"AMQP") else 0
        while at < len(block):
            end = at + int.from_bytes(block[at : at + 4])
            if end - at > _HEADER_BYTES:
                yield _performative(block, at, end)
            at = end


def _body(message: bytes) -> bytes:
    """Return the data of a message."""
    found = [
        Reader(message, place.value, place.end).value()
        for place in places_of(message)
        if place.code == DATA
    ]
    return b"".join(found)
