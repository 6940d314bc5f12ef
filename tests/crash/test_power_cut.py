"""Promises P1 and P8 when the power goes: what was not synced is really gone, or torn.

The broker runs with a black box below it, is killed at random moments, and starts again on a folder
that holds what was synced and, sector by sector, a random part of what was not.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from daybook.journal.data_directory import DATA_ID, INDEX, JOURNAL, SEGMENT_SUFFIX, TABLES
from daybook.journal.disk import RealDisk
from daybook.paging.checks.usability import check_apart, judge
from daybook.tools.drills.clients.client import Connect, Receipt
from daybook.tools.drills.clients.workload import ORDERS
from tests.crash.campaign import Campaign
from tests.crash.clients import StompPy
from tests.crash.paged import PagedCampaign
from tests.crash.power import (
    SYNCED_WRITE,
    WRITE,
    Platter,
    read_records,
)
from tests.support.stored.folded import folded_state

pytestmark = pytest.mark.crash


class PowerCuts(Campaign):
    """Crashes that take away what was not synced."""

    def __init__(
        self, directory: Path, connect: Connect, seed: int, library: Path, *, deaf: bool = False
    ) -> None:
        super().__init__(directory, connect, seed)
        self.folders = (directory / JOURNAL, directory / INDEX)
        self.noted = directory.with_name("blackbox.log")
        self.chance = random.Random(seed + 1)
        self.seen: Counter[int] = Counter()
        # In how many lives so many processes wrote segments.
        self.processes: Counter[int] = Counter()
        self.broker.environment = {
            "LD_PRELOAD": str(library),
            "BLACKBOX_FOLDER": ":".join(str(folder) for folder in self.folders),
            "BLACKBOX_LOG": str(self.noted),
        } | ({"BLACKBOX_DEAF": "1"} if deaf else {})
        # The first start makes the folder; what is cut later is what is in it.
        self.broker.start()
        assert self.broker.stop() == 0
        self.switch_on()

    def switch_on(self) -> None:
        """Everything in the folders is on the platter; the black box begins a new record."""
        self.platter = Platter(*self.folders)
        self.noted.unlink(missing_ok=True)

    def strike(self) -> None:
        self.broker.cut_power()

    def after_crash(self) -> None:
        """Give the broker folders with what the platter has."""
        writes: set[tuple[int, int]] = set()
        for record in read_records(self.noted):
            self.seen[record.kind] += 1
            self.platter.play(record)
            if record.kind == WRITE:
                writes.add((record.inode, record.process))
        names = self.platter.names.items()
        segments = {inode for name, inode in names if name.endswith(SEGMENT_SUFFIX)}
        self.processes[len({process for inode, process in writes if inode in segments})] += 1
        self.cut()
        self.platter.write()
        self.switch_on()

    def cut(self) -> None:
        """The possible fates of unsynced writes."""
        self.platter.cut(self.chance)


class PagedPowerCuts(PagedCampaign, PowerCuts):
    """The same for brokers that page: a surviving index is right, or is not used."""

    def __init__(self, directory: Path, connect: Connect, seed: int, library: Path) -> None:
        self.unusable = 0
        PowerCuts.__init__(self, directory, connect, seed, library)
        self.struck = Counter()

    def strike(self) -> None:
        PowerCuts.strike(self)

    def after_crash(self) -> None:
        PowerCuts.after_crash(self)
        self.check_journal(self.broker.directory)

    def check_index(self, directory: Path) -> None:
        index, disk = directory / INDEX, RealDisk(directory / JOURNAL)
        wrong = check_apart(index) if (index / TABLES).exists() else ""
        if not wrong:
            super().check_index(directory)
            return
        data_id = bytes.fromhex((directory / DATA_ID).read_text("ascii").strip())
        assert not judge(index, data_id, disk).usable, wrong
        self.unusable += 1


class TotalLoss(PowerCuts):
    """Nothing that was not synced is ever there again."""

    def cut(self) -> None:
        self.platter.lose()


def test_nothing_receipted_is_lost(tmp_path: Path, kills: int, seed: int, library: Path) -> None:
    campaign = PowerCuts(tmp_path / "data", StompPy, seed, library)
    with campaign.broker:
        for _ in range(kills):
            campaign.round()
        # Broker and writer write in turn (ADR 41); which of them does is up to load and disk.
        while not campaign.processes[2] and campaign.rounds < 10 * kills:
            campaign.round()
        campaign.finish()
    assert campaign.processes[2] > 0, campaign.processes


def test_nothing_receipted_is_lost_when_all_is_paged(
    tmp_path: Path, kills: int, seed: int, library: Path
) -> None:
    campaign = PagedPowerCuts(tmp_path / "data", StompPy, seed, library)
    with campaign.broker:
        for _ in range(max(1, kills // 3)):
            campaign.round()
        while not campaign.seen[SYNCED_WRITE] and campaign.rounds < 2 * kills:
            campaign.round()
        campaign.finish()
    print(f"indexes that could not be used: {campaign.unusable}")
    # Only LMDB has writes that sync: the black box looked at the index.
    assert campaign.seen[SYNCED_WRITE] > 0, campaign.seen


@pytest.mark.parametrize("deaf", [False, True], ids=["synced", "not-synced"])
def test_the_black_box_tells_synced_from_not_synced(
    tmp_path: Path, library: Path, deaf: bool
) -> None:
    """The proof can fail: where syncs do nothing, messages with receipts are missed."""
    campaign = TotalLoss(tmp_path / "data", StompPy, 1, library, deaf=deaf)
    bodies = {f"m{number}" for number in range(20)}
    with campaign.broker:
        campaign.broker.start()
        client = StompPy(campaign.broker.port)
        for body in bodies:
            client.send(ORDERS, body, receipt=body)
        assert {client.receive(60) for _ in bodies} == {Receipt(body) for body in bodies}
        campaign.strike()
        client.cut()
        campaign.after_crash()
        campaign.check_journal(campaign.broker.directory)
        state, _ = folded_state(campaign.broker.directory)
    queues = state.queues.values()
    found = {entry.message.body.decode() for queue in queues for entry in queue.entries.values()}
    assert found == (set() if deaf else bodies)
