"""The loops of the load generator: each runs in a process of its own.

While the clock runs a loop only follows the protocol, in bulk, and keeps the received bytes. They
are verified after its clock has stopped. The processor time that a
loop used is reported, so that anybody can see whether the generator was the bottleneck.
"""

import os
import resource
import select
import signal
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Final, cast

import msgspec

from bench.load.amqp import AmqpWire
from bench.load.frames import LoadError, SendFrames, check_body
from bench.load.stomp import StompWire
from bench.load.wire import AMQP, Endpoint, Wire

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


def connect(endpoint: Endpoint, label: str, stall_s: float) -> Wire:
    """Return a connection in the protocol of the endpoint. Raises LoadError."""
    kind = AmqpWire if endpoint.protocol == AMQP else StompWire
    return kind(endpoint, label, stall_s)


@contextmanager
def _sending(task: Task) -> Iterator[tuple[Wire, SendFrames]]:
    """Connect to send, with all frames made."""
    with closing(connect(task.endpoint, task.label, task.stall_s)) as wire:
        frames = SendFrames(
            partial(wire.message, task.destination),
            producer=task.producer,
            count=task.count,
            body_bytes=task.body_bytes,
            seed=task.seed,
        )
        wire.send_to(task.destination)
        yield wire, frames


def produce(task: Task, meet: Callable[[], None]) -> Outcome:
    """Send `count` messages, at most `window` of them without their receipt."""
    with _sending(task) as (wire, frames):
        meet()
        cpu, started = _cpu_s(), time.monotonic()
        blocks = _send_all(wire, frames, task.window)
        ended, cpu = time.monotonic(), _cpu_s() - cpu
        meet()
    wire.check_receipts(blocks, task.count)
    return Outcome(started, ended, cpu, task.count)


def _send_all(wire: Wire, frames: SendFrames, window: int) -> list[bytes]:
    """Send every frame within the window and return the blocks of receipts as they came."""
    view, size, count = frames.view, frames.frame_bytes, frames.count
    blocks: list[bytes] = []
    sent = receipted = 0

    def waiting_for() -> str:
        return f"{count - receipted} of {count} receipts ({sent // size} frames sent)"

    while receipted < count:
        allowed = min(count, receipted + window, wire.credit) * size
        if sent < allowed:
            sent += wire.send_part(view[sent:allowed])
        block = wire.receive(waiting_for, writing=sent < allowed)
        if block:
            receipted += wire.receipts(block)
            blocks.append(block)
    return blocks


def round_trip(task: Task, meet: Callable[[], None]) -> Outcome:
    """Send one message at a time and measure the time from the send to its receipt."""
    blocks: list[bytes] = []
    latencies: list[float] = []
    with _sending(task) as (wire, frames):
        meet()
        while not wire.credit:
            wire.receive(lambda: "credit")
        cpu, started = _cpu_s(), time.monotonic()
        for number in range(task.count):
            sent_at = time.perf_counter()
            blocks += one_trip(wire, frames, number)
            latencies.append((time.perf_counter() - sent_at) * 1e6)
        ended, cpu = time.monotonic(), _cpu_s() - cpu
        meet()
    wire.check_receipts(blocks, task.count)
    return Outcome(started, ended, cpu, task.count, latencies_us=tuple(latencies))


def one_trip(wire: Wire, frames: SendFrames, number: int) -> list[bytes]:
    """Send a message, wait for its receipt, and return the blocks that came."""
    at = number * frames.frame_bytes
    wire.put(bytes(frames.view[at : at + frames.frame_bytes]))
    blocks: list[bytes] = []
    receipted = 0
    while not receipted or wire.credit <= number:
        block = wire.receive(lambda: "the receipt of one message")
        if block:
            blocks.append(block)
            receipted += wire.receipts(block)
    return blocks


def consume(task: Task, meet: Callable[[], None], tally: Tally) -> Outcome:
    """Receive and acknowledge each message until the group has them all.

    The clock stops when the broker has confirmed the end, and with it every acknowledgement before.
    """
    with closing(connect(task.endpoint.receiving, task.label, task.stall_s)) as wire:
        wire.watch(tally.done)
        meet()
        cpu, started = _cpu_s(), time.monotonic()
        _subscribe(wire, task)
        blocks = receive_all(wire, tally)
        wire.leave()
        ended, cpu = time.monotonic(), _cpu_s() - cpu
        meet()
    keys = _verified_keys(
        wire.bodies(blocks), task.body_bytes, keeps_order=task.endpoint.keeps_order
    )
    return Outcome(started, ended, cpu, len(keys), keys=keys.tobytes())


def _subscribe(wire: Wire, task: Task) -> None:
    wire.subscribe(task.endpoint, task.destination, task.prefetch, task.body_bytes)


def consume_topic(task: Task, meet: Callable[[], None], subscribers: int) -> Outcome:
    """Receive and acknowledge with so many subscribers, each on a connection of its own, until each
    of them has every message."""
    with ExitStack() as stack:
        wires: dict[int, tuple[Wire, list[bytes]]] = {}
        poll = select.poll()
        for number in range(subscribers):
            label = f"{task.label}.{number}"
            wire = connect(task.endpoint, label, task.stall_s)
            stack.callback(wire.close)
            _subscribe(wire, task)
            wire.wait_for_subscription()
            wires[wire.fileno] = wire, []
            poll.register(wire.fileno, select.POLLIN)
        meet()
        cpu, started = _cpu_s(), time.monotonic()
        _receive_each(wires, poll, task.count * subscribers, task.stall_s)
        for wire, _ in wires.values():
            wire.leave()
        ended, cpu = time.monotonic(), _cpu_s() - cpu
        meet()
    for wire, blocks in wires.values():
        keys = _verified_keys(
            wire.bodies(blocks), task.body_bytes, keeps_order=task.endpoint.keeps_order
        )
        check_exactly_once([Outcome(0, 0, 0, 0, keys=keys.tobytes())], {0: task.count})
    return Outcome(started, ended, cpu, task.count * subscribers)


def _receive_each(
    wires: dict[int, tuple[Wire, list[bytes]]], poll: select.poll, left: int, stall_s: float
) -> None:
    """Acknowledge so many messages that come to any of the connections."""

    def waiting_for() -> str:
        return f"{left} messages of all subscribers"

    while left > 0:
        ready = poll.poll(stall_s * 1000)
        if not ready:
            raise LoadError(f"the broker stalled; it was waited for {waiting_for()}")
        for descriptor, _ in ready:
            wire, blocks = wires[descriptor]
            block = wire.read(waiting_for)
            if block:
                blocks.append(block)
                left -= wire.acknowledge(block)


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
        blocks.append(block)
        left = tally.take(wire.acknowledge(block))
    return blocks


def _verified_keys(
    bodies: list[bytes], body_bytes: int, *, keeps_order: bool = True
) -> "array[int]":
    """Check every body, and that each producer's messages came in the order in which it sent them,
    if the broker keeps it."""
    keys = array("Q")
    last: dict[int, int] = {}
    for body in bodies:
        producer, sequence = check_body(body, body_bytes)
        if keeps_order and sequence <= last.get(producer, -1):
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

    A marker is sent to the queue: were anything left, it would be delivered before the marker. A
    broker that stores nothing has nothing left.
    """
    if not endpoint.stores:
        return
    with closing(connect(endpoint, "check", stall_s)) as wire:
        wire.send_to(destination)
        wire.put(wire.message(destination, 0, b"marker"))
        receipted = 0
        while not receipted:
            receipted = wire.receipts(wire.receive(lambda: "the receipt of the marker"))
    with closing(connect(endpoint.receiving, "check", stall_s)) as wire:
        wire.subscribe(endpoint, destination, 1, len(b"marker"))
        bodies: list[bytes] = []
        while not bodies:
            block = wire.receive(lambda: "the marker, which should be alone in the queue")
            bodies = wire.bodies([block])
        if bodies[0] != b"marker":
            raise LoadError(f"an acknowledged message came back: {bodies[0][:300]!r}")
        wire.acknowledge(block)
        wire.leave()


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
