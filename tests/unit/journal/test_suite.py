"""The journal suite on a real directory, in memory, and on the simulated disk without faults."""

from pathlib import Path

import pytest

from daybook.journal.disk import Disk, MemoryDisk, RealDisk
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_suite import JournalSuite


class TestRealDisk(JournalSuite):
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Disk:
        disk = RealDisk(tmp_path / "deep" / "journal")
        disk.create()
        return disk


class TestMemoryDisk(JournalSuite):
    @pytest.fixture
    def disk(self) -> Disk:
        return MemoryDisk()


class TestFaultyDisk(JournalSuite):
    @pytest.fixture
    def disk(self) -> Disk:
        return FaultyDisk(1)
