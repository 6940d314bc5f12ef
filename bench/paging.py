"""The speed of reading paged messages back: `python -m bench.paging`.

Writes a journal of messages for one or many queues, whose sizes follow a power law, indexes it as
the indexer does, with clusters or without, and reads it back by the store of the engine: in the
order of the journal, queue by queue, and from all queues in turn with the small windows that many
consumers share. No broker runs; every figure is from one process.
"""

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import click
import msgspec

from bench.load.frames import make_body
from daybook.engine.core.residency import WINDOW_BYTES_MIN
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import ROW_STRUCT, Row, encode_detail
from daybook.engine.messages.message import DEFAULT_PRIORITY
from daybook.engine.queues.queue import PAST_ALL, Queue, StoreError
from daybook.engine.queues.window import Window
from daybook.engine.state.state import State
from daybook.journal.blocks.batch import Batch
from daybook.journal.data_directory import CLUSTERS_DIRECTORY, INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.index import Index
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable, open_for_reading

DATA_ID: Final = bytes(range(16))
NOW: Final = 1_700_000_000_000_000
BODIES: Final = 5000
"""How many different bodies there are; they come around much later than compression looks back."""
COMMIT_BLOCKS: Final = 256
"""How many blocks are indexed in one commit, unless told otherwise."""
SHARED_WINDOW_BYTES: Final = WINDOW_BYTES_MIN
"""The window of a queue when a thousand are consumed from at once."""


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were read back, how fast, and the memory of the process at the end in MiB."""

    name: str
    messages: int
    per_second: float
    rss_mib: int


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The events written and indexed, and the speed of the index; `clusters` are files."""

    messages: int
    queues: int
    journal_mib: int
    index_mib: int
    clusters: int
    clusters_mib: int
    indexed_per_second: float


class _Writer:
    """Makes blocks of events, as a broker does that takes messages and delivers none."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._begin()

    def _begin(self) -> None:
        self.first = self._journal.next_lsn
        self.rows: list[bytes] = []
        self.heaps: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])

    def add(self, row: Row, detail: bytes = b"", headers: bytes = b"", body: bytes = b"") -> None:
        self.rows.append(ROW_STRUCT.pack(*row, len(detail), len(headers), len(body)))
        for heap, text in zip(self.heaps, (detail, headers, body), strict=True):
            if text:
                heap.append(text)

    def flush(self) -> None:
        self._journal.append(Batch(self.first, self.rows, self.heaps, NOW))
        self._begin()


def write_journal(path: Path, order: list[int], body_bytes: int, block_messages: int) -> None:
    """Write a journal in which messages come to queues in this order. Raises JournalError."""
    disk = RealDisk(path)
    disk.create()
    journal = Journal.create(disk, LAYOUT, data_id=DATA_ID)
    writer = _Writer(journal)
    writer.add(events.row(events.BROKER_STARTED, time=NOW))
    for queue in sorted(set(order)):
        name = f"queue-{queue}"
        address = details.AddressDetail(name=name, routing_types=("anycast",))
        row = events.row(events.ADDRESS_CREATED, address=queue, time=NOW)
        writer.add(row, encode_detail(address))
        row = events.row(events.QUEUE_CREATED, address=queue, queue=queue, time=NOW)
        writer.add(row, encode_detail(details.QueueDetail(name=name)))
    writer.flush()
    source = random.Random(1)
    bodies = [make_body(0, number, body_bytes, source) for number in range(BODIES)]
    lsn = journal.next_lsn
    for number, queue in enumerate(order):
        row = (
            events.ROUTED, reasons.SENT, 0, queue, queue, DEFAULT_PRIORITY, events.PERSISTENT,
            lsn + number, 0, 0, 0, NOW,
        )  # fmt: skip
        headers = b"content-type:application/json\nkey:%08d\n" % number
        writer.add(row, b"", headers, bodies[number % BODIES])
        if len(writer.rows) == block_messages:
            writer.flush()
    if writer.rows:
        writer.flush()
    journal.close()


def make_order(messages: int, queues: int) -> list[int]:
    """To which queue each message goes: queue n gets a share in proportion to 1 / n."""
    shares = [1 / number for number in range(1, queues + 1)]
    return random.Random(2).choices(range(1, queues + 1), shares, k=messages)


def index_journal(journal: Path, index: Path, commit_blocks: int, *, clusters: bool) -> float:
    """Index a journal, so many blocks in a commit; return events per second."""
    begun = time.perf_counter()
    opened = Index(index, DATA_ID, clusters=clusters)
    try:
        blocks = read_blocks(RealDisk(journal), LAYOUT)
        while batch := list(islice(blocks, commit_blocks)):
            opened.advance(batch)
        return opened.lsn / (time.perf_counter() - begun)
    finally:
        opened.close()


def read_back(store: IndexStore, queues: list[Queue], window: Window, seconds: float) -> int:
    """Load one window of each queue in turn, until all are read or time is up; count messages."""
    deadline = time.perf_counter() + seconds
    count = 0
    places = [(queue, 0) for queue in queues]
    while places:
        left = []
        for queue, after in places:
            loaded = store.load(queue, DEFAULT_PRIORITY, after, window)
            count += len(loaded.entries)
            if loaded.reached < PAST_ALL:
                left.append((queue, loaded.reached))
            if time.perf_counter() > deadline:
                return count
        places = left
    return count


def drains(journal: Path, index: Path, state: State, seconds: float) -> Iterator[Drain]:
    """Read everything back in every way, each for so many seconds at most."""
    queues = list(state.queues.values())
    largest = max(queues, key=lambda queue: queue.ready_count)
    smallest = sorted(queues, key=lambda queue: queue.ready_count)[: max(1, len(queues) // 2)]
    plans = [("the largest queue", [[largest]], Window())]
    if len(queues) > 1:
        plans += [
            ("the smaller half, one by one", [[queue] for queue in smallest], Window()),
            ("all queues, one by one", [[queue] for queue in queues], Window()),
            ("all queues in turn", [queues], Window(1000, SHARED_WINDOW_BYTES)),
        ]
    for name, groups, window in plans:
        store = IndexStore(open_for_reading(index, DATA_ID), RealDisk(journal))
        begun = time.perf_counter()
        count = 0
        for group in groups:
            left = seconds - (time.perf_counter() - begun)
            count += read_back(store, group, window, left) if left > 0 else 0
        took = time.perf_counter() - begun
        yield Drain(name=name, messages=count, per_second=count / took, rss_mib=_rss_mib())
        store.close()


def read_in_order(journal: Path, index: Path, messages: int) -> Drain:
    """Read the content of all messages in the order of the journal."""
    store = IndexStore(open_for_reading(index, DATA_ID), RealDisk(journal))
    lsn = store.indexed_lsn + 1
    begun = time.perf_counter()
    for start in range(lsn - messages, lsn, 1000):
        store.content.fetch(range(start, min(start + 1000, lsn)))
    took = time.perf_counter() - begun
    store.close()
    return Drain(
        name="content alone, in order", messages=messages, per_second=messages / took,
        rss_mib=_rss_mib(),
    )  # fmt: skip


def _rss_mib() -> int:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * 4096 // (1 << 20)


def _mib(path: Path) -> int:
    files = path.iterdir() if path.exists() else ()
    return sum(file.stat().st_blocks * 512 for file in files if file.is_file()) // (1 << 20)


def measure(
    directory: Path,
    messages: int,
    queues: int,
    body_bytes: int,
    block: int,
    seconds: float,
    *,
    commit_blocks: int = COMMIT_BLOCKS,
    clusters: bool = True,
) -> tuple[Written, list[Drain]]:
    """Write, index, and read back in every way. Raises the errors of journal, index and store."""
    journal, index = directory / JOURNAL, directory / INDEX
    write_journal(journal, make_order(messages, queues), body_bytes, block)
    speed = index_journal(journal, index, commit_blocks, clusters=clusters)
    store = IndexStore(open_for_reading(index, DATA_ID), RealDisk(journal))
    state = store.checkpoint()
    store.close()
    made = index / CLUSTERS_DIRECTORY
    written = Written(
        messages=messages, queues=queues, journal_mib=_mib(journal), index_mib=_mib(index),
        clusters=len(list(made.iterdir())) if made.exists() else 0, clusters_mib=_mib(made),
        indexed_per_second=speed,
    )  # fmt: skip
    found = [read_in_order(journal, index, messages)]
    found += drains(journal, index, state, seconds)
    return written, found


@click.command(context_settings={"show_default": True})
@click.option("--messages", type=click.IntRange(1000), default=1_000_000)
@click.option("--queues", type=click.IntRange(1), default=1, help="With sizes by a power law.")
@click.option("--body-bytes", type=click.IntRange(200), default=256)
@click.option("--block", type=click.IntRange(1), default=800, help="Messages in a block.")
@click.option("--commit-blocks", type=click.IntRange(1), default=COMMIT_BLOCKS)
@click.option("--clusters/--no-clusters", default=True, help="Make clusters, as the indexer does.")
@click.option("--seconds", type=float, default=20.0, help="For each way, at most.")
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where a directory may be made and removed again.  [default: the system's]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    messages: int,
    queues: int,
    body_bytes: int,
    block: int,
    commit_blocks: int,
    clusters: bool,
    seconds: float,
    directory: Path | None,
    as_json: bool,
) -> None:
    """Measure how fast messages that are out of memory come back.

    Exit codes: 0 measured, 1 it could not be, 2 bad use.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="bench-paging-", dir=directory) as temporary:
            written, found = measure(
                Path(temporary), messages, queues, body_bytes, block, seconds,
                commit_blocks=commit_blocks, clusters=clusters,
            )  # fmt: skip
    except (JournalError, StoreError, IndexDamaged, IndexUnwritable) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode((written, found)) + b"\n")
        return
    click.echo(
        f"{written.messages:,} messages in {written.queues:,} queues: journal "
        f"{written.journal_mib:,} MiB, index {written.index_mib:,} MiB and "
        f"{written.clusters} clusters of {written.clusters_mib:,} MiB, indexed "
        f"{written.indexed_per_second:,.0f} events/s"
    )
    for drain in found:
        click.echo(
            f"{drain.name:32}{drain.per_second:>11,.0f} messages/s ({drain.messages:,}); "
            f"RSS {drain.rss_mib:,} MiB"
        )


if __name__ == "__main__":
    main()
