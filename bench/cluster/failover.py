"""How fast a cluster recovers: `python -m bench.cluster.failover`.

For each run, in turn: Daybook with three nodes, and Artemis with a replicated backup where it is
installed. A client sends messages one by one, each until its receipt. The leader is killed with
SIGKILL; the *failover* lasts from the kill to the first receipt, with a client that tries the
addresses again every 10 ms. The *hand-over* of Daybook (`daybook lead --transfer`) lasts from the
last receipt of the old leader to the first of the next. Then the catch-up of Daybook: a follower
loses its directory after `--megabytes` of messages and starts again; the rate is that of their
bodies, from the first answer of the node to its last event.

All nodes share this machine: a failover takes longer than on three, and the disk writes thrice.
"""

import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

import click

from bench.brokers.artemis import ArtemisTarget
from bench.brokers.running import Running, TargetError
from bench.brokers.standbys import Cluster, ClusterTarget
from bench.brokers.targets import DaybookTarget
from bench.machine.interrupts import Interrupted, Interrupts
from bench.reports.options import data_option, python_option
from bench.reports.report import Machine, describe_machine
from bench.reports.tables import described
from daybook.client.bodies import Content
from daybook.client.endpoint import Endpoint
from daybook.client.stomp import StompClient, StompError

DAYBOOK: Final = "daybook-majority"
ARTEMIS: Final = "artemis-replicated"
FAILOVER_S: Final = 120.0
ANSWER_S: Final = 10.0
POLL_S: Final = 0.01
BEFORE: Final = 200
"""Messages before each kill."""
BODY_BYTES: Final = 64 * 1024
WINDOW: Final = 50


Measure: TypeAlias = tuple[str, Callable[[Path], float]]
"""A unit, and what measures in a folder."""


def connected(port: int) -> StompClient:
    """Connect as a client. Raises StompError."""
    return StompClient(Endpoint("127.0.0.1", port, "guest", "guest"), timeout=ANSWER_S)


def send(client: StompClient, bodies: Sequence[bytes]) -> None:
    """Send messages with receipts, some ahead. Raises StompError."""
    waiting = []
    for body in bodies:
        headers = [("destination", "/queue/bench"), ("persistent", "true")]
        content = Content(len(body), partial(_one, body))
        waiting.append(client.send_with_receipt(headers, content))
        if len(waiting) >= WINDOW:
            client.wait_for(waiting.pop(0))
    for receipt in waiting:
        client.wait_for(receipt)


def _one(body: bytes) -> Iterator[bytes]:
    yield body


def failover(ports: Sequence[int], kill: Callable[[], None]) -> float:
    """Return the seconds from a kill to the next receipt. Raises TargetError."""
    with connected(ports[0]) as client:
        for number in range(BEFORE):
            send(client, [b"%d" % number])
        begun = time.monotonic()
        kill()
    return until_receipt(ports, begun)


def until_receipt(ports: Sequence[int], begun: float) -> float:
    """Return the seconds until a client gets a receipt. Raises TargetError."""
    while time.monotonic() - begun < FAILOVER_S:
        for port in ports:
            with suppress(StompError), connected(port) as client:
                send(client, [b"after"])
                return time.monotonic() - begun
        time.sleep(POLL_S)
    raise TargetError(f"no message was confirmed within {FAILOVER_S:.0f} s")


def daybook_failover(target: ClusterTarget, folder: Path) -> float:
    """Kill the leader of a new cluster."""
    with closing(Stopping(target.start(folder))) as one:
        cluster = one.running
        assert isinstance(cluster, Cluster)
        leader = cluster.await_whole()
        return failover([cluster.endpoint.port], lambda: cluster.lose(leader))


def daybook_hand_over(target: ClusterTarget, folder: Path) -> float:
    """Let another node of a new cluster lead while a client sends."""
    with (
        closing(Stopping(target.start(folder))) as one,
        ThreadPoolExecutor(1) as threads,
    ):
        cluster = one.running
        assert isinstance(cluster, Cluster)
        leader = cluster.await_whole()
        port = cluster.endpoint.port
        last = time.monotonic()
        with suppress(StompError), connected(port) as client:
            for number in count():
                send(client, [b"%d" % number])
                last = time.monotonic()
                if number == BEFORE:
                    asked = threads.submit(cluster.hand_over, leader)
        found = until_receipt([port], last)
        asked.result()
        return found


def artemis_failover(target: ArtemisTarget, folder: Path) -> float:
    """Kill the primary of a new pair."""
    with closing(Stopping(target.start(folder))) as one:
        ports = [target.ports["instance"], target.ports["backup"]]
        return failover(ports, one.running.kill)


def catch_up(target: ClusterTarget, folder: Path, megabytes: int) -> float:
    """Return at how many megabytes a second an empty node gets the journal."""
    draw = random.Random(1)
    with closing(Stopping(target.start(folder))) as one:
        cluster = one.running
        assert isinstance(cluster, Cluster)
        with connected(cluster.endpoint.port) as client:
            messages = megabytes * 1_000_000 // BODY_BYTES
            for _ in range(0, messages, WINDOW):
                send(client, [draw.randbytes(BODY_BYTES) for _ in range(WINDOW)])
        leader = cluster.await_whole()
        node = next(each["node"] for each in cluster.status(leader)["nodes"])
        cluster.lose(node)
        shutil.rmtree(folder / node)
        cluster.bring_back(node)
        while not cluster.status(node):
            time.sleep(POLL_S)
        begun = time.monotonic()
        cluster.await_whole()
        return megabytes / (time.monotonic() - begun)


class Stopping:
    """Stops what was started, in the end."""

    def __init__(self, running: Running) -> None:
        self.running: Final = running

    def close(self) -> None:
        self.running.stop()


@click.command(help=__doc__)
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1), help="Of each.")
@click.option(
    "--megabytes", default=1000, show_default=True, type=click.IntRange(10),
    help="Of messages, for the catch-up.",
)  # fmt: skip
@click.option("--lease", default="3s", show_default=True, help="Of the leader of Daybook.")
@python_option
@data_option
def main(runs: int, megabytes: int, lease: str, python: str | None, data: Path) -> None:
    single = DaybookTarget(DAYBOOK, (), python)
    target = ClusterTarget(
        DAYBOOK, 3, "majority", single.command, (), single.environment, lease=lease
    )
    artemis = ArtemisTarget(is_replicated=True)
    measures: dict[str, Measure] = {
        f"{DAYBOOK}: from kill -9 to a receipt": ("s", lambda at: daybook_failover(target, at)),
        f"{DAYBOOK}: hand-over": ("s", lambda at: daybook_hand_over(target, at)),
        f"{DAYBOOK}: catch-up": ("MB/s", lambda at: catch_up(target, at, megabytes)),
    }
    why = artemis.missing()
    if not why:
        measures[f"{ARTEMIS}: from kill -9 to a receipt"] = (
            "s", lambda at: artemis_failover(artemis, at)
        )  # fmt: skip
    found: dict[str, list[float]] = {each: [] for each in measures}
    failures: list[str] = []
    if why:
        click.echo(f"without {ARTEMIS}: {why}", err=True)
    interrupts = Interrupts()
    with suppress(Interrupted):
        for run in range(1, runs + 1):
            for name, (unit, measure) in measures.items():
                folder = Path(tempfile.mkdtemp(prefix="bench-failover-", dir=data))
                try:
                    value = measure(folder)
                except (TargetError, StompError) as error:
                    failures.append(f"run {run}, {name}: {error}")
                else:
                    found[name].append(value)
                    click.echo(f"run {run}: {name}: {value:.2f} {unit}", err=True)
                finally:
                    with interrupts.shielded():
                        shutil.rmtree(folder, ignore_errors=True)
    interrupts.release()
    _report(describe_machine(data), measures, found, failures)


def _report(
    machine: Machine,
    measures: dict[str, Measure],
    found: dict[str, list[float]],
    failures: list[str],
) -> None:
    click.echo(described(machine))
    click.echo("\n| what | unit | median | min - max | runs |\n|---|---|---|---|---|")
    for name, values in found.items():
        if values:
            click.echo(
                f"| {name} | {measures[name][0]} | {statistics.median(values):.2f} "
                f"| {min(values):.2f} - {max(values):.2f} | {len(values)} |"
            )
    for text in failures:
        click.echo(f"- FAILED: {text}")
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
