"""Campaigns on brokers whose history leaves: nothing that is queued goes with it.

Beside the broker and its indexer, the processes of retention are killed; between two lives the
index is deleted now and then, so that it is rebuilt from the base and the rest. In the end
archive and live journal are one history again, from event 1 on.
"""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from daybook.history.verification.verification import verify_data
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import BASE, INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.tools.drills.clients.client import Connect
from daybook.tools.drills.clients.workload import Worker, begin_work, end_work
from tests.crash.campaign import KILL_AFTER_SECONDS
from tests.crash.paged import PAGED_SETTINGS, PagedCampaign
from tests.support.process import BrokerProcess, wait_for

RETENTION_SETTINGS: Final = (
    *PAGED_SETTINGS,
    "journal.segment-bytes=64KiB",
    "journal.retention-max-age=200",
    "journal.retention-scan-period=100",
)


def retiring(broker: BrokerProcess) -> list[int]:
    """The processes of retention that run."""
    found = []
    for pid in broker.children():
        with suppress(OSError):
            if b"daybook.paging.retention.retirement" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def first_lsn(directory: Path) -> int:
    """Where the live journal of a data directory begins."""
    names = segment_names(RealDisk(directory / JOURNAL))
    return (segment_first_lsn(names[0]) or 0) if names else 1


class RetentionCampaign(PagedCampaign):
    """Kills the broker, its indexer, or what retention runs."""

    settings = RETENTION_SETTINGS

    def __init__(self, directory: Path, connect: Connect, seed: int, archive: str) -> None:
        super().__init__(directory, connect, seed)
        self.archive: Final = archive
        self.broker.settings.append(f"journal.archive-directory={archive}")

    def let_work(self, workers: list[Worker]) -> None:
        if self.random.random() < 0.5:
            workers[0].thread.join(self.random.uniform(*KILL_AFTER_SECONDS))
            for pid in retiring(self.broker):
                self.struck["retiring"] += 1
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        super().let_work(workers)

    def after_crash(self) -> None:
        super().after_crash()
        if self.random.random() < 0.4:
            self.struck["index"] += 1
            shutil.rmtree(self.broker.directory / INDEX, ignore_errors=True)

    def let_history_leave(self) -> None:
        """Have clients work until something has left, however little was done before."""
        before = first_lsn(self.broker.directory)
        self.broker.start()
        workers = begin_work(self.ledger, self.connect, self.broker.port, "leave")
        try:
            wait_for(lambda: first_lsn(self.broker.directory) > before, "a segment to leave")
        finally:
            self.strike()
            end_work(workers)

    def finish(self) -> None:
        super().finish()
        directory = self.broker.directory
        live = RealDisk(directory / JOURNAL)
        archive = Archive(self.archive)
        report = archive.verify(live)
        assert report.ok, report.faults
        assert report.first_lsn == 1
        with archive.reading(live) as whole:
            verdict = verify_data(whole, lambda done: None, base=directory / BASE)
        assert verdict.ok, (verdict.faults, verdict.wrong)
        assert verdict.report.first_lsn == 1
        assert verdict.folded_lsn == self.last_lsn
