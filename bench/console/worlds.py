"""Worlds that are as large as a console must bear: many queues, many messages, a long history.

Queues and messages come from clients of a real broker. The long history is written by the real
engine and journal, without sockets and syncs, and then gets what a broker's indexer would have left
beside it: snapshots at their distance, catalogs, and an index. Fault model: that of
`bench.history`.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from bench.backlog import FRAMES_AT_ONCE
from bench.history import DONE, TURN_MESSAGES, Traffic, write_history
from bench.load.child import environment
from bench.load.frames import LoadError
from bench.load.stomp import StompWire, ack_ids
from bench.load.wire import Endpoint
from daybook.client.control import ask
from daybook.engine import commands as c
from daybook.history.missing_catalogs import make_missing
from daybook.journal.blocks.block import Block
from daybook.journal.data_directory import INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.journal.journal import SEGMENT_BYTES, Journal
from daybook.journal.segments.segment import data_id_of
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.snapshots import Snapshots

LARGE: Final = "large"
"""The queue with many messages."""
DYING: Final = "dying"
DEAD: Final = "DLQ"
WINDOW: Final = 2000
STALL_S: Final = 120.0
RARE: Final = 100_000
"""One in so many messages is the only one that a filter finds."""
REASONS: Final = ("timeout", "bad address", "no such customer", "out of stock")
MARK_EVERY: Final = 100
"""A change of settings in so many turns of the traffic: a mark of the time line."""
SNAPSHOT_EVERY: Final = 64 << 20
CATALOGUED: Final = "*"
INDEX_S: Final = 600.0


def frame(destination: str, number: int, more: str = "") -> bytes:
    """Return a SEND frame with a receipt."""
    return (
        f"SEND\ndestination:/queue/{destination}\nreceipt:{number}\nnumber:{number}\n{more}\n"
        f'{{"order":{number},"note":"as it is {number % 977:03d} times out of a thousand"}}\0'
    ).encode()


def queue_frames(queues: int) -> Iterator[bytes]:
    """Yield frames that make many queues; the first ones have more messages than the others."""
    number = 0
    for queue in range(queues):
        for _ in range(max(1, 200 // (queue + 1))):
            yield frame(f"orders.{queue % 50:02d}.client-{queue:06d}", number)
            number += 1


def large_frames(messages: int, rare: int = RARE // 2) -> Iterator[bytes]:
    """Yield frames that make one long queue; the message `rare` is one of few with a header."""
    for number in range(messages):
        more = "rare:yes\n" if number % RARE == rare else ""
        yield frame(LARGE, number, f"region:{'eu' if number % 2 else 'us'}\n{more}")


def send(endpoint: Endpoint, frames: Iterator[bytes]) -> None:
    """Send everything, each frame with its receipt. Raises LoadError."""
    with closing(StompWire(endpoint, "worlds", STALL_S)) as wire:
        sent = receipted = 0
        is_over = False
        while not is_over or receipted < sent:
            while not is_over and sent - receipted < WINDOW:
                some = list(islice(frames, FRAMES_AT_ONCE))
                is_over = len(some) < FRAMES_AT_ONCE
                wire.put(b"".join(some))
                sent += len(some)
            if receipted < sent:
                waiting_for = partial("{} receipts".format, sent - receipted)
                receipted += wire.receive(waiting_for).count(b"\0")


def kill_messages(endpoint: Endpoint, data: Path, messages: int) -> None:
    """Make dead letters, with different errors of their consumers. Raises LoadError."""
    values = {"max-delivery-attempts": "1", "dead-letter-address": DEAD}
    ask(data, {"do": "set-settings", "match": DYING, "values": values})
    send(endpoint, (frame(DYING, number) for number in range(messages)))
    with closing(StompWire(endpoint, "killer", STALL_S)) as wire:
        wire.put(
            f"SUBSCRIBE\nid:0\ndestination:/queue/{DYING}\nack:client-individual\n"
            f"{endpoint.prefetch(1000, 100)}\n\n\0".encode()
        )
        left = messages
        while left > 0:
            block = wire.receive(partial("{} messages".format, left))
            ids = ack_ids(block) if block else []
            wire.put(
                b"".join(
                    b"NACK\nid:%b\nerror:%b\n\n\0" % (each, REASONS[at % 4].encode())
                    for at, each in enumerate(ids)
                )
            )
            left -= len(ids)
        wire.fence("BEGIN\ntransaction:t\n\n", "killed")


def wait_until_indexed(data: Path) -> None:
    """Wait until everything is indexed, so that the index takes no processor time. Raises
    LoadError."""
    deadline = time.monotonic() + INDEX_S
    while time.monotonic() < deadline:
        status = ask(data, {"do": "status"})
        if status is not None and status["indexed_lsn"] >= status["durable_lsn"]:
            return
        time.sleep(0.2)
    raise LoadError("worlds: the index does not come up with the journal")


def verify(data: Path) -> None:
    """Have a report of a verification. Raises LoadError."""
    command = [sys.executable, "-m", "daybook.tools.journal_cli", "verify", "--data", str(data)]
    done = subprocess.run(
        command, env=environment(), cwd=data, capture_output=True, check=False, timeout=INDEX_S
    )
    if done.returncode:
        raise LoadError(f"worlds: the journal is not verified: {done.stderr.decode()[-2000:]}")


class MarkedTraffic(Traffic):
    """Traffic with an administrator, who leaves marks on the time line."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self._turns = 0

    def turn(self) -> None:
        """As `Traffic.turn`."""
        self._turns += 1
        if self._turns % MARK_EVERY == 0:
            delay: dict[str, str | int | bool | float] = {"redelivery-delay": self._turns % 7}
            self._do(c.SetSettings(f"queue.{self._turns % 200}", delay))
        super().turn()


class Spacing(msgspec.Struct, frozen=True):
    """How many bytes a segment has, and how many are journaled between two snapshots: as of a
    broker without a configuration."""

    segment_bytes: int = SEGMENT_BYTES
    snapshot_every: int = SNAPSHOT_EVERY


AS_SET: Final = Spacing()


def make_long_history(
    directory: Path,
    events: int,
    said: Callable[[str], None],
    spacing: Spacing = AS_SET,
    *,
    processes: int = 2,
) -> Path:
    """Return a data directory with at least so many events, and with what a broker would have made
    beside its journal; one that is there is used again."""
    done = directory / DONE
    if not done.exists() or int(done.read_text()) < events:
        said(f"writing {events:,} events, {TURN_MESSAGES} messages in a block")
        written = write_history(directory, events, MarkedTraffic, spacing.segment_bytes)
        done.write_text(str(written))
    disk = RealDisk(directory / JOURNAL)
    _index(directory, disk, int(done.read_text()), said, spacing.snapshot_every)
    made = make_missing(
        directory, disk, "", CATALOGUED, processes=processes, again=False,
        progress=lambda at, of: said(f"catalog {at} of {of}"),
    )  # fmt: skip
    said(f"made {made} catalogs")
    return directory


def _index(
    directory: Path, disk: RealDisk, last: int, said: Callable[[str], None], snapshot_every: int
) -> None:
    """Index a journal as the indexer does, which leaves snapshots on its way."""
    data_id = data_id_of(disk)
    index = Index(directory / INDEX, data_id)
    snapshots = Snapshots(directory / SNAPSHOTS, data_id)
    try:
        for batch in _batches(disk, index.lsn, last, snapshot_every):
            index.advance(batch)
            size = sum(block.header.block_bytes for block in batch)
            if snapshots.follow(index, disk, size, snapshot_every):
                said(f"indexed {index.lsn:,} events")
    finally:
        index.close()


def _batches(
    disk: RealDisk, after_lsn: int, last: int, snapshot_every: int
) -> Iterator[list[Block]]:
    """Yield blocks as a broker under load commits them; no more than lie between two snapshots."""
    for batch in batches(disk, after_lsn, last):
        some: list[Block] = []
        for block in batch:
            some.append(block)
            if sum(each.header.block_bytes for each in some) >= snapshot_every // 4:
                yield some
                some = []
        if some:
            yield some
