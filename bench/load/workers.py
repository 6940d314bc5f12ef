"""The loops of the load generator: each runs in a process of its own.

While the clock runs a loop only follows the protocol, in bulk: it counts NULs, cuts out ack ids and
keeps the received bytes. They are verified after its clock has stopped. The processor time that a
loop used is reported, so that anybody can see whether the generator was the bottleneck.
"""

import os
import resource
import signal
import time
from array import array
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Final, cast

import msgspec

from bench.load.frames import LoadError, SendFrames, check_body, check_receipts, message_bodies
from bench.load.wire import Endpoint, Wire

_SEQUENCE_BITS: Final = 32
_MEETING_S: Final = 600.0


class Task(msgspec.Struct, frozen=True):
    """The job of one worker."""

    endpoint: Endpoint
    destination: str
    label: str
    seed: int
    body_bytes: int
    stall_s: float
    window: int = 1
    producer: int = 0
    count: int = 0
    prefetch: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """The result of one worker: times are monotonic seconds, comparable between processes."""

    started: float
    ended: float
    cpu_s: float
    count: int
    keys: bytes = b""  # of a consumer: producer << 32 | sequence of every message, u64, in order
    latencies_us: tuple[float, ...] = ()


class Tally:
    """How many messages a group of consumers still expects; shared between their processes."""

    __slots__ = ("_remaining", "done")

    def __init__(self, remaining: "Synchronized[int]") -> None:
        """Share `remaining`; `done` is a descriptor that becomes readable when it is 0."""
        self._remaining = remaining
        self.done = os.eventfd(0)

    def take(self, count: int) -> int:
        """Count messages that arrived and return how many are still expected."""
        with self._remaining.get_lock():
            self._remaining.value -= count
            left = self._remaining.value
        if left <= 0:
            os.eventfd_write(self.done, 1)
        return left

    def left(self) -> int:
        """Return how many messages are still expected."""
        return self._remaining.value

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.done)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def produce(task: Task, meet: Callable[[], None]) -> Outcome:
    """Send `count` messages, at most `window` of them without their receipt."""
    frames = SendFrames(
        task.destination,
        producer=task.producer,
        count=task.count,
        body_bytes=task.body_bytes,
        seed=task.seed,
    )
    with closing(Wire(task.endpoint, task.label, task.stall_s)) as wire:
        meet()
        cpu, started = _cpu_s(), time.monotonic()
        blocks = _send_all(wire, frames, task.window)
        ended, cpu = time.monotonic(), _cpu_s() - cpu
        meet()
    check_receipts(blocks, task.count)
    return Outcome(started, ended, cpu, task.count)


def _send_all(wire: Wire, frames: SendFrames, window: int) -> list[bytes]:
    """Send every frame within the window and return the blocks of receipts as they came."""
    view, size, count = frames.view, frames.frame_bytes, frames.count
    blocks: list[bytes] = []
    sent = receipted = 0

    def waiting_for() -> str:
        return f"{count - receipted} of {count} receipts ({sent // size} frames sent)"

    while receipted < count:
        allowed = min(count, receipted + window) * size
        if sent < allowed:
            sent += wire.send_part(view[sent:allowed])
        block = wire.receive(waiting_for, writing=sent < allowed)
        if block:
            receipted += block.count(b"\0")
            blocks.append(block)
    return blocks


def round_trip(task: Task, meet: Callable[[], None]) -> Outcome:
    """Send one message at a time and measure the time from the send to its receipt."""
    frames = SendFrames(
        task.destination,
        producer=task.producer,
        count=task.count,
        body_bytes=task.body_bytes,
        seed=task.seed,
    )
    size = frames.frame_bytes
    blocks: list[bytes] = []
    latencies: list[float] = []
    with closing(Wire(task.endpoint, task.label, task.stall_s)) as wire:
        meet()
        cpu, started = _cpu_s(), time.monotonic()
        for at in range(0, task.count * size, size):
            sent_at = time.perf_counter()
            wire.put(bytes(frames.view[at : at + size]))
            block = b""
            while not block:
                block = wire.receive(lambda: "the receipt of one message")
            latencies.append((time.perf_counter() - sent_at) * 1e6)
            blocks.append(block)
        ended, cpu = time.monotonic(), _cpu_s() - cpu
        meet()
    check_receipts(blocks, task.count)
    return Outcome(started, ended, cpu, task.count, latencies_us=tuple(latencies))


def consume(task: Task, meet: Callable[[], None], tally: Tally) -> Outcome:
    """Receive and acknowledge, one ACK frame for each message, until the group has them all.

    The clock stops when the broker has confirmed a DISCONNECT, and with it every ACK before.
    """
    subscribe = (
        f"SUBSCRIBE\nid:0\ndestination:{task.destination}\nack:client-individual\n"
        f"{task.endpoint.prefetch(task.prefetch, task.body_bytes)}\n\n\0"
    ).encode()
    with closing(Wire(task.endpoint, task.label, task.stall_s)) as wire:
        wire.watch(tally.done)
        meet()
        cpu, started = _cpu_s(), time.monotonic()
        wire.put(subscribe)
        blocks = receive_all(wire, tally)
        wire.fence("DISCONNECT\n\n", "bye")
        ended, cpu = time.monotonic(), _cpu_s() - cpu
        meet()
    keys = _verified_keys(blocks, task.body_bytes)
    return Outcome(started, ended, cpu, len(keys), keys=keys.tobytes())


def receive_all(wire: Wire, tally: Tally) -> list[bytes]:
    """Acknowledge messages until the tally is complete; return the received blocks."""
    blocks: list[bytes] = []
    left = tally.left()

    def waiting_for() -> str:
        return f"{tally.left()} messages that no consumer has received"

    while left > 0:
        block = wire.receive(waiting_for)
        if not block:
            left = tally.left()
            continue
        ids = ack_ids(block)
        wire.put(b"ACK\nid:" + b"\n\n\0ACK\nid:".join(ids) + b"\n\n\0")
        blocks.append(block)
        left = tally.take(len(ids))
    return blocks


def ack_ids(block: bytes) -> list[bytes]:
    """Return the value of every `ack` header in a block of MESSAGE frames, still escaped.

    An ACK frame repeats the escaped text, so unescaping is not needed.
    """
    parts = block.split(b"\nack:")
    del parts[0]
    if len(parts) != block.count(b"\0"):
        raise LoadError(f"frames without an ack header arrived: {block[:300]!r}")
    return [part[: part.find(b"\n")] for part in parts]


def _verified_keys(blocks: list[bytes], body_bytes: int) -> "array[int]":
    """Check every body and that each producer's messages came in the order it sent them."""
    keys = array("Q")
    last: dict[int, int] = {}
    for block in blocks:
        for body in message_bodies(block):
            producer, sequence = check_body(body, body_bytes)
            if sequence <= last.get(producer, -1):
                raise LoadError(
                    f"message {sequence} of producer {producer} arrived after {last[producer]}"
                )
            last[producer] = sequence
            keys.append(producer << _SEQUENCE_BITS | sequence)
    return keys


def check_exactly_once(outcomes: list[Outcome], counts: dict[int, int]) -> None:
    """Raise LoadError unless the consumers together received each message exactly once.

    `counts` holds how many messages each producer sent.
    """
    seen = {producer: bytearray(count) for producer, count in counts.items()}
    for outcome in outcomes:
        keys = array("Q")
        keys.frombytes(outcome.keys)
        for key in keys:
            producer, sequence = key >> _SEQUENCE_BITS, key & ((1 << _SEQUENCE_BITS) - 1)
            if producer not in seen or sequence >= counts[producer]:
                raise LoadError(f"message {sequence} of producer {producer} was never sent")
            seen[producer][sequence] = min(seen[producer][sequence] + 1, 2)
    for producer, marks in seen.items():
        missing, doubled = marks.count(0), marks.count(2)
        if missing or doubled:
            raise LoadError(
                f"of the {len(marks)} messages of producer {producer} {missing} never arrived "
                f"and {doubled} arrived more than once"
            )


def check_empty(endpoint: Endpoint, destination: str, stall_s: float) -> None:
    """Raise LoadError unless `destination` is empty, so that every acknowledgement counted.

    A marker is sent to the queue: were anything left, it would be delivered before the marker.
    """
    subscribe = f"SUBSCRIBE\nid:0\ndestination:{destination}\nack:client-individual\n\n\0"
    with closing(Wire(endpoint, "check", stall_s)) as wire:
        wire.fence(f"SEND\ndestination:{destination}\n\nmarker", "marker")
        wire.put(subscribe.encode())
        block = b""
        while not block:
            block = wire.receive(lambda: "the marker, which should be alone in the queue")
        if message_bodies(block)[0] != b"marker":
            raise LoadError(f"an acknowledged message came back: {block[:300]!r}")
        wire.put(b"ACK\nid:" + ack_ids(block)[0] + b"\n\n\0")
        wire.fence("DISCONNECT\n\n", "bye")


def run_worker(
    work: Callable[[Task, Callable[[], None]], Outcome], task: Task, channel: Connection
) -> None:
    """Run one loop in this process and report its outcome, or the error.

    The loop calls `meet` twice, to wait for all the others: before its clock starts, and before
    it verifies, so that no loop verifies while another one is still being timed.
    """

    # The parent handles interrupts, and ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def meet() -> None:
        channel.send(b"ready")
        if not channel.poll(_MEETING_S):
            raise LoadError(f"{task.label}: the others did not come within {_MEETING_S:g} s")
        cast(bytes, channel.recv())

    try:
        channel.send(work(task, meet))
    except LoadError as error:
        channel.send(f"{error}")
    finally:
        channel.close()
