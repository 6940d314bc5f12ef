"""What a drill does to the broker and its disk: power cuts, and disks that are slow or full.

A disk that is full is a small tmpfs where this user may mount one, else the journal's disk with a
limit of its own; `used` says which it was.
"""

import random
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from daybook.client.control import ControlError, ask
from daybook.journal.data_directory import JOURNAL
from daybook.tools.drills.broker import DrillBroker
from daybook.tools.drills.campaign import Hardship, Wrong
from daybook.tools.drills.noting import DiskPlan, Lost, cut_power

ROOM_BYTES: Final = 5 << 20
MORE_BYTES: Final = 3 << 20
WINDOW_MS: Final = 5.0
"""Syncs take so much longer, so that many cuts come between a write and its sync."""
FULL_START_SECONDS: Final = 3.0
FULL_SECONDS: Final = 20.0
"""A journal that did not grow for so long does not become full."""


class PowerCut(Hardship):
    """Kills the broker, and takes away by chance what it had not synced."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._log: Final = folder / "unsynced"
        self._chance: Final = random.Random(f"power {seed}")
        self.plan: Final = DiskPlan(log=str(self._log), delay_ms=WINDOW_MS)
        self.lost: Final = Lost()
        self.cuts = 0

    def after_strike(self, data: Path) -> None:
        lost = cut_power(data / JOURNAL, self._log, self._chance)
        self.cuts += 1
        self.lost.sectors += lost.sectors
        self.lost.sizes += lost.sizes
        self.lost.names += lost.names


class Room:
    """A place for a data directory that can take so many bytes."""

    def __init__(self, folder: Path) -> None:
        self.bytes = ROOM_BYTES
        self.folder: Final = folder / "full"
        self.folder.mkdir()
        self._limit: Final = folder / "room"
        self.is_mounted = self._mount("size")
        self.used: Final = (
            f"a tmpfs of {self.bytes >> 20} MiB"
            if self.is_mounted
            else "a limit of the journal's disk (this user may not mount a tmpfs): the index and "
            "other files had room"
        )
        self._limit.write_text(str(self.bytes), "ascii")

    @property
    def plan(self) -> DiskPlan:
        """What the journal's disk does."""
        return DiskPlan() if self.is_mounted else DiskPlan(room=str(self._limit))

    def _mount(self, size: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", f"{size}={self.bytes}", "tmpfs", str(self.folder)]
        with suppress(OSError):
            return subprocess.run(command, check=False, capture_output=True).returncode == 0
        return False

    def enlarge(self) -> None:
        """Give more room."""
        self.bytes += MORE_BYTES
        self._limit.write_text(str(self.bytes), "ascii")
        if self.is_mounted:
            subprocess.run(
                ["mount", "-o", f"remount,size={self.bytes}", str(self.folder)],
                check=True, capture_output=True,
            )  # fmt: skip

    def close(self) -> None:
        """Unmount."""
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)


class DiskFull(Hardship):
    """Lets the disk become full under load, kills the broker, and starts it while it is full."""

    def __init__(self, room: Room) -> None:
        self._room: Final = room
        self._is_full = False
        self._written = 0
        self._grew = 0.0
        self.times_full = 0
        self.starts_while_full = 0

    def while_working(self, broker: DrillBroker, seconds: float) -> None:
        if not self._is_full:
            why, written = _fullness(Path(broker.serving.data))
            self._is_full = bool(why)
            self.times_full += self._is_full
            if written > self._written:
                self._written, self._grew = written, time.monotonic()
        broker.wait_a_moment(seconds)

    def strike(self, broker: DrillBroker) -> None:
        super().strike(broker)
        if self._is_full:
            self._start_while_full(broker)

    def _start_while_full(self, broker: DrillBroker) -> None:
        """A start on a full disk works, waits, or says what is missing; nothing else."""
        broker.launch()
        broker.wait_a_moment(FULL_START_SECONDS)
        self.starts_while_full += 1
        words = broker.last_words() if not broker.is_running else ""
        broker.kill()
        if words and not any(word in words for word in ("space", "room", "quota", "full")):
            raise Wrong("P8", f"a start on a full disk does not say that it is full: {words}")

    def is_waiting(self) -> bool:
        # A busy machine takes as long as it takes: only a journal that does not grow is given up.
        return not self._is_full and time.monotonic() - self._grew < FULL_SECONDS

    def before_start(self, data: Path) -> None:
        self._written, self._grew = 0, time.monotonic()
        if self._is_full:
            self._room.enlarge()
            self._is_full = False


def _fullness(data: Path) -> tuple[str, int]:
    """Return why the broker takes nothing more ("" if it does or does not answer), and how many
    blocks it has written."""
    try:
        status = ask(data, {"do": "status"}) or {}
    except ControlError:
        return "", 0
    return str(status.get("disk_full", "")), int(status.get("blocks_written", 0))
