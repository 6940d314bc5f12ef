"""A backlog larger than memory: `python -m bench.backlog --messages 10000000`.

Fills one queue, or many by a power law, waits a moment, kills the broker with SIGKILL, starts it
again (`--restarts` times, also beside busy neighbours) and drains everything, acknowledging each
message by itself. The messages that arrive must be, queue by queue, exactly the sent ones, in
order. Memory is the peak of each process of the broker in each phase, as the kernel has it.
"""

import bisect
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final

import click
import msgspec

from bench.brokers.memory import Memory
from bench.brokers.running import Running, TargetError
from bench.brokers.targets import DaybookTarget
from bench.load.frames import LoadError
from bench.load.stomp import StompWire, ack_ids
from bench.load.wire import Endpoint
from bench.machine.neighbours import Neighbours
from bench.reports.options import Counts
from daybook.journal.data_directory import INDEX

BODY_BYTES: Final = 256
FRAMES_AT_ONCE: Final = 500
REST_S: Final = 2.0
KEY: Final = re.compile(rb'\{"queue":(\d{5}),"number":(\d{9}),')
SEED: Final = 1


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase: how long, how many messages a second, and the peak RSS of each process in MiB.

    `together_mib` is the memory of all processes at its end, shared pages counted once;
    `anonymous_mib` is that without pages of files, which the kernel may take back at any time.
    """

    name: str
    seconds: float
    rate: float
    peak_mib: dict[str, int]
    together_mib: int
    anonymous_mib: int


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """A start after a SIGKILL, beside so many busy neighbours: seconds until `ready`."""

    busy: int
    ready_s: float


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements. `ready_s` is of the last start, `first_message_s` from it to the first
    message."""

    messages: int
    queues: int
    first_message_s: float
    ready_s: float
    restarts: list[Restart]
    phases: list[Phase]


class Load:
    """Which queue each message goes to, and the frames; the same for the same seed."""

    def __init__(self, queues: int) -> None:
        self.sent: Final = [0] * queues
        self._queues: Final = queues
        self._random: Final = random.Random(SEED)
        self._weights: Final = list(accumulate(1 / (number + 1) for number in range(queues)))
        note = random.Random(SEED)
        words = [f"word{note.randrange(2000):04d}" for _ in range(5000)]
        self._texts: Final = [" ".join(words[at : at + 40]).encode() for at in range(0, 4000, 7)]

    def frames(self, first: int, count: int) -> bytes:
        """SEND frames of the next messages."""
        parts = []
        for number in range(first, first + count):
            queue = self._next_queue()
            sequence = self.sent[queue]
            self.sent[queue] = sequence + 1
            text = self._texts[number % len(self._texts)]
            body = b'{"queue":%05d,"number":%09d,"note":"%s' % (queue, sequence, text)
            parts.append(
                b'SEND\ndestination:/queue/q%d\nreceipt:%d\n\n%s"}\0'
                % (queue, number, body[: BODY_BYTES - 2])
            )
        return b"".join(parts)

    def _next_queue(self) -> int:
        if self._queues == 1:
            return 0
        return bisect.bisect(self._weights, self._random.random() * self._weights[-1])


def fill(endpoint: Endpoint, load: Load, messages: int, window: int) -> float:
    """Send everything, each with a receipt; return the seconds it took."""
    with closing(StompWire(endpoint, "producer", 60.0)) as wire:
        begun = time.monotonic()
        sent = receipted = 0
        while receipted < messages:
            while sent < messages and sent - receipted < window:
                count = min(FRAMES_AT_ONCE, messages - sent)
                wire.put(load.frames(sent, count))
                sent += count
            waiting_for = partial("{} receipts".format, messages - receipted)
            receipted += wire.receive(waiting_for).count(b"\0")
        return time.monotonic() - begun


def drain(endpoint: Endpoint, expected: list[int], prefetch: int) -> tuple[float, float]:
    """Take everything in order; return the moment of the first message, and how long it took.

    Raises LoadError for messages that are lost, doubled or out of order.
    """
    found = [0] * len(expected)
    left = sum(expected)
    first = 0.0
    with closing(StompWire(endpoint, "consumer", 120.0)) as wire:
        wire.put(b"".join(_subscriptions(endpoint, len(expected), prefetch)))
        while left:
            block = wire.receive(partial("{} messages".format, left))
            if not block:
                continue
            first = first or time.monotonic()
            wire.put(b"ACK\nid:" + b"\n\n\0ACK\nid:".join(ack_ids(block)) + b"\n\n\0")
            for queue, number in KEY.findall(block):
                if int(number) != found[int(queue)]:
                    raise LoadError(
                        f"queue {int(queue)} gave message {int(number)} instead of "
                        f"{found[int(queue)]}"
                    )
                found[int(queue)] += 1
                left -= 1
        wire.fence("DISCONNECT\n\n", "bye")
        took = time.monotonic() - first
    if found != expected:
        raise LoadError("what arrived is not what was sent")
    return first, took


def _subscriptions(endpoint: Endpoint, queues: int, prefetch: int) -> Iterator[bytes]:
    for number in range(queues):
        yield (
            f"SUBSCRIBE\nid:{number}\ndestination:/queue/q{number}\nack:client-individual\n"
            f"{endpoint.prefetch(prefetch, BODY_BYTES)}\n\n\0"
        ).encode()


def measure(
    target: DaybookTarget,
    directory: Path,
    messages: int,
    queues: int,
    prefetch: int,
    *,
    busy: tuple[int, ...] = (0,),
    rebuilds: bool = False,
) -> Backlog:
    """Fill, rest, kill and start, drain. Raises LoadError and TargetError.

    There is a start for each number in `busy`, beside so many busy neighbours. With `rebuilds` the
    index is deleted before. If `busy` is empty, the broker continues, and messages in its memory
    are drained from there.
    """
    load = Load(queues)
    phases = []
    restarts = []
    running = target.start(directory)
    try:
        memory = Memory(running)
        took = fill(running.endpoint, load, messages, 2000)
        phases.append(_phase("fill", took, messages, memory))
        memory.begin()
        time.sleep(REST_S)
        phases.append(_phase("rest", REST_S, 0, memory))
        killed = ready = time.monotonic()
        for neighbours in busy:
            running.kill()
            if rebuilds:
                shutil.rmtree(directory / "data" / INDEX)
            running, killed, ready = _start_beside(target, directory, neighbours)
            restarts.append(Restart(busy=neighbours, ready_s=round(ready - killed, 2)))
        memory = Memory(running)
        first, took = drain(running.endpoint, load.sent, prefetch)
        phases.append(_phase("drain", took, messages, memory))
    finally:
        running.stop()
    return Backlog(
        messages=messages,
        queues=queues,
        first_message_s=round(first - killed, 2),
        ready_s=round(ready - killed, 2),
        restarts=restarts,
        phases=phases,
    )


def _start_beside(
    target: DaybookTarget, directory: Path, busy: int
) -> tuple[Running, float, float]:
    """Start a broker beside busy neighbours; return it, and when it began and was ready."""
    neighbours = Neighbours(busy, 0)
    try:
        neighbours.start()
        begun = time.monotonic()
        running = target.start(directory)
        return running, begun, time.monotonic()
    finally:
        neighbours.stop()


def _phase(name: str, seconds: float, messages: int, memory: Memory) -> Phase:
    rate = round(messages / seconds) if seconds else 0
    return Phase(
        name=name,
        seconds=round(seconds, 1),
        rate=rate,
        peak_mib=memory.peaks(),
        together_mib=memory.together("Pss"),
        anonymous_mib=memory.together("Pss_Anon"),
    )


def _show(backlog: Backlog) -> None:
    click.echo(f"{backlog.messages:,} messages of {BODY_BYTES} bytes in {backlog.queues:,} queues")
    for phase in backlog.phases:
        memory = ", ".join(f"{name} {peak} MiB" for name, peak in phase.peak_mib.items())
        click.echo(
            f"{phase.name:<6} {phase.seconds:>8.1f} s {phase.rate:>9,} msg/s   {memory}; together "
            f"{phase.together_mib} MiB, without files {phase.anonymous_mib}"
        )
    for restart in backlog.restarts:
        click.echo(
            f"SIGKILL to ready {restart.ready_s} s, {restart.busy} busy neighbours beside it"
        )
    click.echo(f"to the first message {backlog.first_message_s} s")


@click.command()
@click.option("--messages", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--queues", type=click.IntRange(1, 100_000), default=1, show_default=True)
@click.option("--prefetch", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--set", "settings", multiple=True, help="Passed on to `daybook serve`.")
@click.option("--python", help="Interpreter of an environment with an installed wheel.")
@click.option("--resident", is_flag=True, help="Keep all in memory, and do not kill: to compare.")
@click.option(
    "--restarts",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How often it is killed and started for each number of --busy.",
)
@click.option(
    "--busy",
    type=Counts(64),
    default="0",
    show_default=True,
    help="Busy neighbours beside a start, in turn; the drain follows the last start.",
)
@click.option("--rebuild", is_flag=True, help="Delete the index before the start.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the data in this directory.")
def main(
    messages: int,
    queues: int,
    prefetch: int,
    settings: tuple[str, ...],
    python: str | None,
    resident: bool,
    restarts: int,
    busy: tuple[int, ...],
    rebuild: bool,
    as_json: bool,
    keep: Path | None,
) -> None:
    """Fill more than memory holds, kill the broker, start it again and drain it."""
    if resident:
        settings = (*settings, "broker.global-max-size=1024GiB")
    target = DaybookTarget("daybook", settings, python)
    problem = target.missing()
    try:
        if problem:
            raise TargetError(problem)
        with tempfile.TemporaryDirectory(prefix="daybook-backlog-") as folder:
            directory = keep or Path(folder)
            directory.mkdir(parents=True, exist_ok=True)
            backlog = measure(
                target, directory, messages, queues, prefetch,
                busy=() if resident else busy * restarts, rebuilds=rebuild,
            )  # fmt: skip
    except (LoadError, TargetError) as error:
        click.echo(f"bench.backlog: {error}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(msgspec.json.encode(backlog).decode())
    else:
        _show(backlog)


if __name__ == "__main__":
    main()
