"""Campaigns on brokers that page: next to nothing of a queue is in memory, the index is hit too.

Beside what every campaign checks, the index that a crash leaves behind must be sound, and not ahead
of the journal.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

import lmdb

from daybook.journal.data_directory import INDEX, TABLES
from daybook.paging.checks.index_check import check
from daybook.paging.tables.tables import NAMES
from daybook.tools.drills.clients.client import Connect
from daybook.tools.drills.clients.workload import DRAINING, FILLING, LARGE_STAFF, Staff, Worker
from tests.crash.campaign import KILL_AFTER_SECONDS, KILL_IN_START_SECONDS, SETTINGS, Campaign
from tests.support.process import wait_for

PAGED_CONFIG: Final = """
[[acceptor]]
name = "small"
listen = "127.0.0.1:0"
min-large-message-size = "3KiB"

[[address-setting]]
match = "#"
max-delivery-attempts = -1
max-size-messages = 0
max-read-page-messages = 7
prefetch-page-messages = 3

[[address-setting]]
match = "daybook-drill-input"
max-size-messages = -1
max-size-bytes = "20KiB"
max-read-page-bytes = "2KiB"
"""
PAGED_SETTINGS: Final = (*SETTINGS, "journal.checkpoint-period=200")


def is_complete(index: Path) -> bool:
    """Whether an index was made to the end: each table is a commit, and its format is the next.

    A start replaces one that was not.
    """
    with lmdb.open(str(index), readonly=True, lock=False) as environment:
        return int(environment.info()["last_txnid"]) > len(NAMES)


class PagedCampaign(Campaign):
    """Kills the broker, its indexer, or both; what clients do changes from round to round."""

    settings: tuple[str, ...] = PAGED_SETTINGS
    config = PAGED_CONFIG
    listen = ()

    def __init__(self, directory: Path, connect: Connect, seed: int, *, processes: int = 3) -> None:
        super().__init__(directory, connect, seed, processes=processes)
        self.struck: Counter[str] = Counter()

    def staff(self) -> Staff:
        if self.rounds == 1:
            return LARGE_STAFF
        return self.random.choice((LARGE_STAFF, LARGE_STAFF, FILLING, DRAINING))

    def let_work(self, workers: list[Worker]) -> None:
        seconds = self.random.uniform(*KILL_AFTER_SECONDS)
        if self.rounds == 1:
            self.await_receipts()
        if self.rounds == 1 or self.random.random() < 0.7:
            # An indexer takes a while to start: let it get to its commits, so that they are hit.
            before = self.index_time()
            wait_for(lambda: self.index_time() != before, "a commit of the index")
            self.struck["commit"] += 1
            seconds /= 3
        if self.random.random() < 0.5:
            workers[0].thread.join(seconds / 2)
            self.kill_indexer()
        workers[0].thread.join(seconds)

    def index_time(self) -> int:
        """When the index was written last; 0 if there is none."""
        with suppress(FileNotFoundError):
            return (self.broker.directory / INDEX / TABLES).stat().st_mtime_ns
        return 0

    def kill_indexer(self) -> None:
        """Kill -9 the indexer, if there is one; the broker must continue."""
        for pid in self.broker.indexers():
            self.struck["indexer"] += 1
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def strike(self) -> None:
        if self.random.random() < 0.5:
            self.struck["broker"] += 1
            self.broker.kill()
        else:
            self.struck["both"] += 1
            self.broker.cut_power()

    def kill_in_start(self) -> None:
        """A start that does not get far, or one whose indexer does not."""
        self.struck["start"] += 1
        if self.random.random() < 0.5:
            super().kill_in_start()
            return
        self.broker.launch()
        with suppress(subprocess.TimeoutExpired):
            self.broker.process.wait(self.random.uniform(*KILL_IN_START_SECONDS))
        self.kill_indexer()
        self.broker.wait_until_ready()
        self.strike()
        self.after_crash()

    def check_journal(self, directory: Path) -> int:
        waiting = super().check_journal(directory)
        self.check_index(directory)
        return waiting

    def check_index(self, directory: Path) -> None:
        """After the crash the index is sound, and the journal is at least as far."""
        index = directory / INDEX
        if not (index / TABLES).exists() or not is_complete(index):
            return
        lsn = check(index)
        assert lsn <= self.last_lsn, f"the index is at {lsn}, the journal at {self.last_lsn}"

    def finish(self) -> None:
        super().finish()
        log = self.broker.log_text()
        assert "Traceback" not in log, log
        paged = [line for line in self.broker.lines() if "is rebuilt" in line["event"]]
        print(f"struck {dict(self.struck)}, rebuilt {paged}", file=sys.stderr)
