"""A stand-in for the broker of a node that leads: it writes numbers, and notes what counts.

It notes (epoch, LSN, value, hash) in a file, once the node has said that they count and while the
lease holds: as if it told a client. Call it with the data directory and the microseconds between
two blocks.
"""

import os
import select
import signal
import sys
import time
from collections import deque
from pathlib import Path
from random import Random

from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.segment import segment_names
from daybook.replication.leading import BrokerEnd
from tests.suites.journal_rows import LAYOUT, make_batch

SEGMENT_BYTES = 256 << 10


class StandIn:
    """The process."""

    def __init__(self, data: Path, pause: float) -> None:
        end = BrokerEnd.inherited(os.environ)
        assert end is not None
        end.wait()
        self.end = end
        self.pause = pause
        self.waiting: deque[tuple[int, str, bytes]] = deque()
        self.is_stopping = False
        self.chance = Random(end.epoch)
        disk = RealDisk(data / "journal")
        if segment_names(disk):
            self.journal, _ = Journal.open(disk, LAYOUT, segment_bytes=SEGMENT_BYTES)
        else:
            self.journal = Journal.create(
                disk, LAYOUT, data_id=os.urandom(16), segment_bytes=SEGMENT_BYTES
            )
        name = f"confirmed-{end.epoch:06}-{end.node}"
        self.notes = os.open(data.parent / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        end.on_durable = self.confirm
        end.on_lost = lambda: os._exit(3)
        signal.signal(signal.SIGTERM, self.stop)
        end.begin(self.journal.data_id, self.journal.place, self.journal.durable_lsn)

    def stop(self, number: int, frame: object) -> None:
        self.is_stopping = True

    def run(self) -> None:
        count = 0
        due = time.monotonic()
        while not self.is_stopping:
            ready, _, _ = select.select([self.end], [], [], max(0, due - time.monotonic()))
            if ready:
                self.end.receive()
            if time.monotonic() >= due:
                due = time.monotonic() + self.pause
                count += 1
                self.append(f"{self.end.epoch}:{count}")
            self.end.flush()
        self.journal.mark(1)
        self.journal.close()

    def append(self, value: str) -> None:
        lsn = self.journal.next_lsn
        size = self.chance.choice((0, 10, 900, 20_000))
        batch = make_batch(lsn, [((1, 1, 1, lsn, 1), value.encode(), os.urandom(size))])
        self.journal.append(batch)
        self.waiting.append((lsn, value, self.journal.last_hash))
        self.end.wrote(self.journal.place, lsn)

    def confirm(self, durable: int) -> None:
        while self.waiting and self.waiting[0][0] <= durable and self.end.may_confirm():
            lsn, value, hashed = self.waiting.popleft()
            os.write(self.notes, f"{self.end.epoch} {lsn} {value} {hashed.hex()}\n".encode())


if __name__ == "__main__":
    StandIn(Path(sys.argv[1]), int(sys.argv[2]) / 1e6).run()
