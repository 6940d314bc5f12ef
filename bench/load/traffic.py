"""Steady traffic of every kind, and a ledger that only its clients judge.

A producer and a consumer, in one thread, by turns that never wait. Each kind of message has a
queue that it is sent to and one that it arrives in: most are taken at once, some wait a while or
for hours, some expire, some are refused until they are dead letters. Bodies are a function of kind
and number, so that each that arrives is compared whole.

Fault model: the broker may be killed between two turns (`cut`). A message without a receipt then
may or may not exist, and is never sent again; acknowledgements without a receipt may or may not
count.
"""

import os
import random
import re
import time
from array import array
from collections import deque
from typing import Final

import msgspec

from bench.load.frames import LoadError
from bench.load.stomp import StompWire
from bench.load.wire import Endpoint

BODY_BYTES: Final = 256
UNCONFIRMED_MAX: Final = 5000
"""Messages without a receipt at which the producer waits."""
STALL_S: Final = 60.0
SEED: Final = 1

RECEIPTED: Final = 1
"""The broker said that it has the message."""
SETTLED: Final = 2
"""The broker said that it has the acknowledgement."""
ACKNOWLEDGED: Final = 4
"""An acknowledgement was written; it may count though a kill took its receipt."""
UNANSWERED: Final = 8
"""Sent before a kill, and without a receipt."""

_KEY: Final = re.compile(rb'\{"kind":(\d{2}),"number":(\d{9}),')
_ACK: Final = re.compile(rb"\nack:([^\n]*)")
_RECEIPT: Final = re.compile(rb"\nreceipt-id:(\d+)")
_SUBSCRIPTION: Final = re.compile(rb"\nsubscription:(\d+)")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The course of one kind of message. Times are simulated minutes.

    Of a thousand messages `share` are of this kind. They arrive in `arrives`, and are acknowledged
    when they are `keep` old. With `refused` they are refused where they were sent to, until they
    arrive elsewhere; with `expires` they are left alone there, and expire so long after the send.
    """

    queue: str
    arrives: str
    share: int
    keep: float = 0.0
    expires: float = 0.0
    refused: bool = False
    credit: int = 1000


KINDS: Final = (
    Kind(queue="flow", arrives="flow", share=890),
    Kind(queue="backlog", arrives="backlog", share=60, keep=5.0, credit=50),
    Kind(queue="held", arrives="held", share=4, keep=240.0, credit=20),
    Kind(queue="late", arrives="ExpiryQueue", share=30, expires=20.0),
    Kind(queue="sick", arrives="DLQ", share=16, refused=True),
)


class Stream:
    """The messages of one kind: their number, and the clients' knowledge of each."""

    def __init__(self, number: int, kind: Kind) -> None:
        self.number: Final = number
        self.kind: Final = kind
        self.marks: Final = bytearray()
        self.sent_at: Final = array("d")
        self.due = 0.0
        self._newest = -1
        self._dead: Final[set[int]] = set()

    def begin(self) -> None:
        """Another life of the broker: messages that were not surely settled may come again."""
        self._newest = -1
        self._dead.clear()

    def arrive(self, number: int) -> None:
        """A message was delivered; raises LoadError if it must not have been, or not now."""
        what = f"message {number} of {self.kind.queue}"
        if number >= len(self.marks):
            raise LoadError(f"{what} was never sent")
        if self.marks[number] & SETTLED:
            raise LoadError(f"{what} came back after the receipt for its acknowledgement")
        # Attempts end in any order: of dead letters only that none dies twice is promised.
        if number in self._dead if self.kind.refused else number <= self._newest:
            raise LoadError(f"{what} was delivered after {self._newest} of the same queue")
        if self.kind.refused:
            self._dead.add(number)
        self._newest = number

    def missing(self) -> list[int]:
        """Messages with a receipt that were never acknowledged."""
        return [
            number
            for number, mark in enumerate(self.marks)
            if mark & RECEIPTED and not mark & ACKNOWLEDGED
        ]


class Delivery(msgspec.Struct, frozen=True):
    """A delivery that is not acknowledged yet."""

    number: int
    ack: bytes


class Traffic:
    """The clients of a broker that may be killed and started again."""

    def __init__(self) -> None:
        self.streams: Final = [Stream(number, kind) for number, kind in enumerate(KINDS)]
        self.is_ending = False
        self.delivered = 0
        """Deliveries seen in this life of the broker."""
        self.settled = 0
        self._unacked: Final = [deque[Delivery]() for _ in KINDS]
        self._sends: Final[deque[tuple[int, list[range]]]] = deque()
        self._acks: Final[deque[tuple[int, list[tuple[int, int]]]]] = deque()
        self._serial = 0
        self._moved = 0.0
        # Always readable: with it a wire returns its input, and never waits.
        self._always: Final = os.eventfd(1)
        self._producer: StompWire | None = None
        self._consumer: StompWire | None = None
        words = random.Random(SEED)
        said = [f"word{words.randrange(2000):04d}" for _ in range(5000)]
        self._texts: Final = [" ".join(said[at : at + 40]).encode() for at in range(0, 4000, 7)]

    def connect(self, endpoint: Endpoint) -> None:
        """Log in and subscribe; raises LoadError."""
        self._producer = StompWire(endpoint, "producer", STALL_S)
        self._consumer = StompWire(endpoint, "consumer", STALL_S)
        self.delivered = 0
        self._moved = time.monotonic()
        for wire in (self._producer, self._consumer):
            wire.watch(self._always)
        frames = []
        for stream in self.streams:
            stream.begin()
            names = {stream.kind.arrives} | ({stream.kind.queue} if stream.kind.refused else set())
            for name in sorted(names):
                is_refused = stream.kind.refused and name == stream.kind.queue
                subscription = 2 * stream.number + is_refused
                credit = endpoint.prefetch(stream.kind.credit, BODY_BYTES)
                frames.append(
                    f"SUBSCRIBE\nid:{subscription}\ndestination:/queue/{name}\n"
                    f"ack:client-individual\n{credit}\n\n\0"
                )
        self._consumer.put("".join(frames).encode())

    def cut(self) -> None:
        """The broker was killed: messages that wait for a receipt get none."""
        for wire in (self._producer, self._consumer):
            if wire is not None:
                wire.close()
        self._producer = self._consumer = None
        for _, ranges in self._sends:
            for stream, numbers in zip(self.streams, ranges, strict=True):
                for number in numbers:
                    stream.marks[number] |= UNANSWERED
        self._sends.clear()
        self._acks.clear()
        for unacked in self._unacked:
            unacked.clear()

    def close(self) -> None:
        """Let go of everything."""
        self.cut()
        os.close(self._always)

    # ---- sending

    def add_due(self, messages: float) -> None:
        """Plan so many more messages."""
        for stream in self.streams:
            stream.due += messages * stream.kind.share / 1000

    def turn(self, now_us: int) -> None:
        """Send due messages, and take deliveries. `now_us` is the broker's time.

        Raises LoadError when the broker does wrong, stalls or closes a connection.
        """
        assert self._producer is not None
        assert self._consumer is not None
        minute = now_us / 60e6
        if sum(len(numbers) for _, ranges in self._sends for numbers in ranges) < UNCONFIRMED_MAX:
            self._send(self._producer, minute)
        while block := self._producer.receive(lambda: "receipts"):
            self._confirm_sends(block)
        while block := self._consumer.receive(lambda: "messages"):
            self._take(self._consumer, block)
        self._settle(self._consumer, minute)
        waiting = bool(self._sends or self._acks)
        if waiting and time.monotonic() - self._moved > STALL_S:
            raise LoadError(f"the broker gave no receipt for {STALL_S:.0f} s")
        if not waiting:
            self._moved = time.monotonic()

    def _send(self, wire: StompWire, minute: float) -> None:
        frames: list[bytes] = []
        ranges = []
        for stream in self.streams:
            count = int(stream.due)
            stream.due -= count
            first = len(stream.marks)
            ranges.append(range(first, first + count))
            head = f"SEND\ndestination:/queue/{stream.kind.queue}\n"
            if stream.kind.expires:
                head += f"expires:{round((minute + stream.kind.expires) * 60_000)}\n"
            for number in ranges[-1]:
                frames.append(b"%s\n%s\0" % (head.encode(), self._body(stream.number, number)))
            stream.marks.extend(bytes(count))
            stream.sent_at.extend([minute] * count)
        if not frames:
            return
        serial = self._next_serial()
        # The receipt of the last one speaks for all before it.
        frames[-1] = frames[-1].replace(b"\n", b"\nreceipt:%d\n" % serial, 1)
        self._sends.append((serial, ranges))
        wire.put(b"".join(frames))

    def _body(self, kind: int, number: int) -> bytes:
        text = self._texts[number % len(self._texts)]
        body = b'{"kind":%02d,"number":%09d,"note":"%s' % (kind, number, text)
        return body[: BODY_BYTES - 2] + b'"}'

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def _confirm_sends(self, block: bytes) -> None:
        for receipt in _RECEIPT.findall(block):
            serial, ranges = self._sends.popleft()
            if serial != int(receipt):
                raise LoadError(f"receipt {int(receipt)} came where {serial} was to come")
            self._moved = time.monotonic()
            for stream, numbers in zip(self.streams, ranges, strict=True):
                for number in numbers:
                    stream.marks[number] |= RECEIPTED

    # ---- taking

    def _take(self, wire: StompWire, block: bytes) -> None:
        nacks = []
        for frame in block.split(b"\0")[:-1]:
            head, _, body = frame.partition(b"\n\n")
            receipt = _RECEIPT.search(head)
            if receipt is not None:
                self._confirm_acks(int(receipt[1]))
                continue
            ack, subscription, key = _ACK.search(head), _SUBSCRIPTION.search(head), _KEY.match(body)
            if ack is None or subscription is None or key is None:
                raise LoadError(f"the broker sent {frame[:300]!r}")
            kind, number = int(key[1]), int(key[2])
            place, is_refused = divmod(int(subscription[1]), 2)
            if kind != place or body != self._body(kind, number):
                raise LoadError(f"a message came to the wrong queue, or harmed: {frame[:600]!r}")
            self.delivered += 1
            if is_refused:
                nacks.append(ack[1])
                continue
            self.streams[kind].arrive(number)
            self._unacked[kind].append(Delivery(number, ack[1]))
        if nacks:
            wire.put(b"NACK\nid:" + b"\n\n\0NACK\nid:".join(nacks) + b"\n\n\0")

    def _settle(self, wire: StompWire, minute: float) -> None:
        frames: list[bytes] = []
        numbers = []
        for stream, unacked in zip(self.streams, self._unacked, strict=True):
            keep = 0.0 if self.is_ending else stream.kind.keep
            while unacked and minute - stream.sent_at[unacked[0].number] >= keep:
                delivery = unacked.popleft()
                frames.append(b"ACK\nid:%s\n\n\0" % delivery.ack)
                numbers.append((stream.number, delivery.number))
                stream.marks[delivery.number] |= ACKNOWLEDGED
        if frames:
            serial = self._next_serial()
            frames[-1] = frames[-1].replace(b"\n", b"\nreceipt:%d\n" % serial, 1)
            self._acks.append((serial, numbers))
            wire.put(b"".join(frames))

    def _confirm_acks(self, receipt: int) -> None:
        serial, numbers = self._acks.popleft()
        if serial != receipt:
            raise LoadError(f"receipt {receipt} came where {serial} was to come")
        self._moved = time.monotonic()
        self.settled += len(numbers)
        for kind, number in numbers:
            self.streams[kind].marks[number] |= SETTLED

    # ---- the end

    @property
    def is_settled(self) -> bool:
        """Whether everything that has a receipt arrived and was acknowledged."""
        return not (self._sends or self._acks or any(stream.missing() for stream in self.streams))

    def check_settled(self) -> None:
        """Raise LoadError with the lost messages, unless all are settled."""
        for stream in self.streams:
            missing = stream.missing()
            if missing:
                raise LoadError(
                    f"{len(missing):,} messages of {stream.kind.queue} have a receipt and did not "
                    f"arrive; the first is {missing[0]}"
                )

    @property
    def sent(self) -> int:
        """How many messages were sent, whether the broker has them or not."""
        return sum(len(stream.marks) for stream in self.streams)

    @property
    def unanswered(self) -> int:
        """How many sends a kill left without an answer."""
        return sum(bool(mark & UNANSWERED) for stream in self.streams for mark in stream.marks)
