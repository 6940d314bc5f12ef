"""Many empty queues and addresses: `python -m bench.names --queues 100000`.

Sends one message through each of many reply queues, waits until all events are indexed, and
measures the memory of the broker's processes, a clean stop, a start, and a start after SIGKILL.
Exits with 1 if a gate does not hold.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import click
import msgspec

from bench.brokers.memory import Memory
from bench.brokers.running import TargetError
from bench.brokers.targets import DaybookTarget
from bench.load.frames import LoadError
from bench.load.stomp import StompWire
from bench.load.wire import Endpoint
from daybook.client.control import ask

AT_ONCE: Final = 200
WAIT_S: Final = 120.0
GATE_MIB: Final = 300
GATE_START_S: Final = 3.0


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The results: MiB of each process after indexing and after a start, and seconds."""

    queues: int
    create_s: float
    grown_mib: dict[str, int]
    grown_together_mib: int
    stop_s: float
    start_s: float
    started_mib: dict[str, int]
    started_together_mib: int
    start_after_kill_s: float
    bytes_a_queue: int


def make(endpoint: Endpoint, queues: int) -> float:
    """Send a message through each queue; return how long it took. Raises LoadError."""
    began = time.monotonic()
    with closing(StompWire(endpoint, "names", WAIT_S)) as wire:
        for first in range(0, queues, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, queues))
            for number in numbers:
                name = f"replies.client-{number:06d}"
                wire.put(
                    f"SUBSCRIBE\nid:{number}\ndestination:/queue/{name}\nack:auto\n\n\0"
                    f"SEND\ndestination:/queue/{name}\n\nanswer\0".encode()
                )
            received = 0
            while received < len(numbers):
                received += wire.receive(lambda: "a message").count(b"\nanswer\0")
            wire.put(b"".join(b"UNSUBSCRIBE\nid:%d\n\n\0" % number for number in numbers))
        wire.fence("BEGIN\ntransaction:t\n\n", "last")
    return time.monotonic() - began


def wait_until_indexed(data: Path) -> None:
    """Wait until all events are indexed. Raises LoadError."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        status = ask(data, {"do": "status"})
        if status is not None and status["indexed_lsn"] >= status["durable_lsn"]:
            return
        time.sleep(0.1)
    raise LoadError("names: the index does not come up with the journal")


def measure(target: DaybookTarget, directory: Path, queues: int) -> Names:
    """Create the queues, stop, start, kill, start. Raises LoadError and TargetError."""
    data = directory / "data"
    running = target.start(directory)
    try:
        base = Memory(running).together("Pss")
        created = make(running.endpoint, queues)
        wait_until_indexed(data)
        memory = Memory(running)
        grown, together = memory.now(), memory.together("Pss")
        stopped = _timed(running.stop)
        began = time.monotonic()
        running = target.start(directory)
        started = time.monotonic() - began
        wait_until_indexed(data)
        memory = Memory(running)
        after, after_together = memory.now(), memory.together("Pss")
        running.kill()
        began = time.monotonic()
        running = target.start(directory)
        killed = time.monotonic() - began
    finally:
        running.stop()
    return Names(
        queues=queues, create_s=round(created, 1), grown_mib=grown, grown_together_mib=together,
        stop_s=round(stopped, 2), start_s=round(started, 2), started_mib=after,
        started_together_mib=after_together, start_after_kill_s=round(killed, 2),
        bytes_a_queue=(together - base) * 2**20 // queues,
    )  # fmt: skip


def _timed(stop: Callable[[], object]) -> float:
    began = time.monotonic()
    stop()
    return time.monotonic() - began


@click.command()
@click.option("--queues", type=click.IntRange(1, 10_000_000), default=100_000, show_default=True)
@click.option("--set", "settings", multiple=True, help="Passed on to `daybook serve`.")
@click.option("--python", help="Interpreter of an environment with an installed wheel.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(queues: int, settings: tuple[str, ...], python: str | None, as_json: bool) -> None:
    """Measure the cost of empty queues and addresses."""
    settings = ("broker.max-queues-per-user=0", *settings)
    target = DaybookTarget("daybook", settings, python)
    try:
        with tempfile.TemporaryDirectory(prefix="daybook-names-") as folder:
            found = measure(target, Path(folder), queues)
    except (LoadError, TargetError) as error:
        click.echo(f"bench.names: {error}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        for name, value in msgspec.structs.asdict(found).items():
            click.echo(f"{name.replace('_', ' '):<22} {value}")
    holds = found.started_together_mib < GATE_MIB and found.start_s < GATE_START_S
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
