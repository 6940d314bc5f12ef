"""How fast the index follows the journal: `python -m bench.index`.

The real engine makes a history of each kind on disk; then it is read in batches as the indexer
takes them, and each batch is folded and committed. One process does one after the other; the
figures are for the folding alone (with its commits), and for reading and folding together.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from bench.load.frames import LoadError
from daybook.engine.broker import Broker
from daybook.engine.commands import Attach, Command, OpenConnection, Send, Settle
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.journal.data_directory import INDEX, TABLES
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.tables.layout import LAYOUT

DATA_ID: Final = bytes(16)
TURN_MESSAGES: Final = 250
"""Messages in a block, about as many as a busy broker syncs at once."""

IN_FLIGHT: Final = 1000
QUEUES: Final = 1000
MANY: Final = 1 << 40
STEP_MICROSECONDS: Final = 1000


class IndexSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """A history of so many events: the cost of folding it, and the number of commits."""

    work: str
    events: int
    commits: int
    table_bytes: int
    fold_per_second: float
    fold_lowest: float
    fold_highest: float
    fold_per_cpu_second: float
    read_and_fold_per_second: float


class History:
    """A broker without network, whose events go to a journal on disk."""

    def __init__(self, directory: Path) -> None:
        self._disk = RealDisk(directory)
        self._disk.create()
        self.journal = Journal.create(self._disk, LAYOUT, data_id=DATA_ID)
        self._broker = Broker(State())
        self._now = 1_700_000_000_000_000
        self._chance = random.Random(1)
        self._bodies = [self._body(number) for number in range(1000)]

    def _body(self, number: int) -> bytes:
        digits = self._chance.randbytes(100).hex()
        return b'{"order": %d, "customer": "%s", "paid": true}' % (number, digits.encode())

    def do(self, command: Command) -> int:
        answer = self._broker.handle(command, self._now)
        if isinstance(answer, Refusal):
            raise LoadError(f"the engine refused a command of the benchmark: {answer.text}")
        return answer

    def send(self, connection: int, address: str) -> None:
        body = self._bodies[self._chance.randrange(1000)]
        self.do(Send(connection, address, b"", body))

    def turn(self) -> list[tuple[int, int]]:
        """Write the decisions; return (consumer, message) of the deliveries."""
        self._now += STEP_MICROSECONDS
        self._broker.dispatch(self._now)
        delivered = [
            (effect[0].id, effect[1].id)
            for effect in self._broker.effects
            if isinstance(effect, tuple)
        ]
        self._broker.effects.clear()
        batch = self._broker.take()
        if batch is not None:
            self.journal.append(batch)
        return delivered


def pipe(history: History, messages: int) -> None:
    """A producer and a consumer that keep pace, with 1,000 messages in flight."""
    connection = history.do(OpenConnection("stomp", "peer", "bench", room=MANY))
    history.do(Attach(connection, "orders", credit_messages=MANY))
    flying: list[tuple[int, int]] = []
    for _ in range(0, messages, TURN_MESSAGES):
        for _ in range(TURN_MESSAGES):
            history.send(connection, "orders")
        while len(flying) > IN_FLIGHT:
            history.do(Settle(*flying.pop(0)))
        flying += history.turn()


def _fill(history: History, names: Iterator[str]) -> None:
    connection = history.do(OpenConnection("stomp", "peer", "bench", room=MANY))
    for number, name in enumerate(names):
        history.send(connection, name)
        if number % TURN_MESSAGES == TURN_MESSAGES - 1:
            history.turn()
    history.turn()


def _names(messages: int) -> Iterator[str]:
    """Names of queues by a power law: the n-th gets a share that goes as 1/n."""
    chance = random.Random(2)
    weights = [1 / number for number in range(1, QUEUES + 1)]
    names = [f"queue.{number}" for number in range(QUEUES)]
    yield from names
    yield from chance.choices(names, weights, k=max(messages - QUEUES, 0))


def _drain(history: History, names: list[str]) -> None:
    """A consumer for each queue, which acknowledges its messages; acks give the credit back."""
    connection = history.do(OpenConnection("stomp", "peer", "bench", room=MANY))
    credit = max(IN_FLIGHT // len(names), 10)
    for name in names:
        history.do(Attach(connection, name, credit_messages=credit))
    while delivered := history.turn():
        for consumer, message in delivered:
            history.do(Settle(consumer, message))


def _make(directory: Path, messages: int) -> dict[str, tuple[Path, int, int]]:
    """Make all histories: by work, the journal and the first and last LSN that it is about."""
    made = {}
    for work, names in (("one queue", 1), ("1,000 queues", QUEUES)):
        path = directory / work.replace(" ", "-").replace(",", "")
        history = History(path)
        each = iter(["orders"] * messages) if names == 1 else _names(messages)
        _fill(history, each)
        filled = history.journal.durable_lsn
        made[f"fill of {work}"] = (path, 1, filled)
        _drain(history, ["orders"] if names == 1 else [f"queue.{n}" for n in range(QUEUES)])
        made[f"drain of {work}"] = (path, filled + 1, history.journal.durable_lsn)
        history.journal.close()
    path = directory / "pipe"
    history = History(path)
    pipe(history, messages)
    made["pipe"] = (path, 1, history.journal.durable_lsn)
    history.journal.close()
    return made


class Once(NamedTuple):
    """Seconds of folding, by the clock and of the processor, seconds in all; the result."""

    folding: float
    processor: float
    whole: float
    commits: int
    table_bytes: int


def _measure_once(path: Path, first: int, last: int, clusters: bool) -> Once:
    disk = RealDisk(path)
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        index = Index(Path(temporary) / INDEX, DATA_ID, clusters=clusters)
        if first > 1:
            for batch in batches(disk, 0, first - 1):
                index.advance(batch)
        folding, processor, commits = 0.0, 0.0, 0
        started = time.perf_counter()
        for batch in batches(disk, first - 1, last):
            before, processor_before = time.perf_counter(), time.process_time()
            index.advance(batch)
            folding += time.perf_counter() - before
            processor += time.process_time() - processor_before
            commits += 1
        whole = time.perf_counter() - started
        size = sum(file.stat().st_size for file in index.path.glob(TABLES))
        index.close()
    return Once(folding, processor, whole, commits, size)


def measure(
    directory: Path, messages: int, runs: int, *, clusters: bool = True
) -> list[IndexSpeed]:
    """Make the histories of so many messages in a directory, and index each `runs` times."""
    speeds = []
    for work, (path, first, last) in _make(directory, messages).items():
        events = last - first + 1
        found = [_measure_once(path, first, last, clusters) for _ in range(runs)]
        speeds.append(
            IndexSpeed(
                work=work,
                events=events,
                commits=found[0].commits,
                table_bytes=found[0].table_bytes,
                fold_per_second=events / statistics.median(each.folding for each in found),
                fold_lowest=events / max(each.folding for each in found),
                fold_highest=events / min(each.folding for each in found),
                fold_per_cpu_second=events / statistics.median(each.processor for each in found),
                read_and_fold_per_second=events / statistics.median(each.whole for each in found),
            )
        )
    return speeds


@click.command(context_settings={"show_default": True})
@click.option("--messages", type=click.IntRange(1000), default=300_000, help="Of each history.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, help="Of each work.")
@click.option("--clusters/--no-clusters", default=True, help="Make clusters, as the indexer does.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(messages: int, runs: int, clusters: bool, as_json: bool) -> None:
    """Measure folding the journal into the index.

    Exit codes: 0 measured, 1 the history could not be made, 2 bad use.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="bench-index-") as temporary:
            speeds = measure(Path(temporary), messages, runs, clusters=clusters)
    except LoadError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(speeds) + b"\n")
        return
    for speed in speeds:
        click.echo(
            f"{speed.work:22}{speed.events:>9,} events in {speed.commits} commits: fold "
            f"{speed.fold_per_second:>10,.0f} events/s ({speed.fold_lowest:,.0f} - "
            f"{speed.fold_highest:,.0f}; for each processor second "
            f"{speed.fold_per_cpu_second:,.0f}); with reading "
            f"{speed.read_and_fold_per_second:,.0f}; "
            f"tables {speed.table_bytes / (1 << 20):.1f} MiB"
        )


if __name__ == "__main__":
    main()
