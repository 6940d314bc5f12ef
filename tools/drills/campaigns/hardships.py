"""The hardships of drills: power cuts, and disks that are slow or full.

A disk that is full is a small tmpfs where this user may mount one, else the journal's disk with a
limit of its own; `used` names the one in use.
"""

import random
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import JOURNAL
from daybook.tools.drills.campaigns.campaign import Hardship
from daybook.tools.drills.clients import witness as witnesses
from daybook.tools.drills.clients.ledger import Ledger
from daybook.tools.drills.clients.witness import SPACE_BYTES, Witness, Wrong
from daybook.tools.drills.disks.undo_log import DiskPlan, Lost, cut_power
from daybook.tools.drills.scratch.broker import DrillBroker

ROOM_BYTES: Final = 5 << 20
MORE_BYTES: Final = 2 << 20
SEGMENT_BYTES: Final = 256 << 10
GIFTS: Final = 3
"""How often a broker that runs gets more room, before it must have answered everything."""
LARGE_BYTES: Final = 300_000
"""A body of several pieces, which has to wait in the middle."""
SPARE_TIMES: Final = 4
STILL_SECONDS: Final = 2.0
"""A broker that answers questions but does not write for so long has no room."""
AT_ONCE: Final = 32
START_STEP_SECONDS: Final = 0.02
HANG_SECONDS: Final = 1.0
WINDOW_MS: Final = 5.0
"""Syncs take so much longer, so that many cuts come between a write and its sync."""
FULL_START_SECONDS: Final = 3.0
FULL_SECONDS: Final = 20.0
"""A journal that did not grow for so long does not become full."""


class PowerCut(Hardship):
    """Kills the broker, and takes away unsynced writes by chance."""

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
        """The behaviour of the journal's disk."""
        return DiskPlan() if self.is_mounted else DiskPlan(room=str(self._limit))

    def _mount(self, size: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", f"{size}={self.bytes}", "tmpfs", str(self.folder)]
        with suppress(OSError):
            return subprocess.run(command, check=False, capture_output=True).returncode == 0
        return False

    def enlarge(self, count: int) -> None:
        """Give so many bytes more."""
        self.bytes += count
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


class SlowDisk(Hardship):
    """Lets the disk hang once a round: messages sent then must not be confirmed, all other requests
    must be answered. Every other time the broker is killed while it hangs.
    """

    def __init__(self, folder: Path, delay_ms: float) -> None:
        self._hang: Final = folder / "hang"
        self.plan: Final = DiskPlan(delay_ms=delay_ms, hang=str(self._hang))
        self.times = 0
        self.killed = 0

    def endure(self, broker: DrillBroker, ledger: Ledger) -> None:
        self.times += 1
        data = Path(broker.serving.data)
        with Witness(data, broker.port, ledger, f"hang{self.times}") as witness:
            self._hang.touch()
            ledger.disk_hangs(hangs=True)
            until = time.monotonic() + HANG_SECONDS
            while time.monotonic() < until and not ledger.violations:
                witness.send()
                witness.look("while no sync returns")
                witness.answers()
            if self.times % 2:
                self.killed += 1
                return
            ledger.disk_hangs(hangs=False)
            self._hang.unlink()
            witness.await_answers("though syncs return again")

    def after_strike(self, data: Path) -> None:
        self._hang.unlink(missing_ok=True)


class DiskFull(Hardship):
    """Lets the disk become full under load, until the broker cannot write any more; gives it some
    room; kills it when that is gone, too, starts it while the disk is full, and gives more room."""

    def __init__(self, room: Room) -> None:
        self._room: Final = room
        self._is_full = False
        self.times_full = 0
        self.starts_while_full = 0
        self.resumed = 0

    def before_start(self, data: Path) -> None:
        if self._is_full:
            self._room.enlarge(MORE_BYTES)
            self._is_full = False

    def endure(self, broker: DrillBroker, ledger: Ledger) -> None:
        data = Path(broker.serving.data)
        with Witness(data, broker.port, ledger, f"full{self.times_full}") as witness:
            self._fill(witness)
            if not self._is_full:
                return
            self._use_up(witness)
            witness.send(LARGE_BYTES)
            witness.send()
            self._resume(witness)
            self._fill(witness)

    def _fill(self, witness: Witness) -> None:
        """Let the disk become full; the clients of the drill work meanwhile."""
        written, grew = -1, time.monotonic()
        while True:
            status = witness.look("while the disk becomes full")
            if status["disk_full"]:
                self._is_full = True
                self.times_full += 1
                return
            # A busy machine takes as long as it takes: only a journal that does not grow is given
            # up.
            if status["blocks_written"] != written:
                written, grew = status["blocks_written"], time.monotonic()
            elif time.monotonic() - grew > FULL_SECONDS:
                return
            for _ in range(AT_ONCE - witness.waits):
                witness.use_space()
            witness.answers()

    def _use_up(self, witness: Witness) -> None:
        """Use up the space reserved for consumers, until the broker stops writing."""
        answered, still = 0, -1
        since = time.monotonic()
        while answered * SPACE_BYTES < SPARE_TIMES * SEGMENT_BYTES:
            for _ in range(AT_ONCE - witness.waits):
                witness.use_space()
            count = witness.answers()
            answered += count
            if count:
                continue
            written = witness.look("while the disk is full")["blocks_written"]
            if written != still:
                still, since = written, time.monotonic()
            elif time.monotonic() - since > STILL_SECONDS:
                return
        raise Wrong("P1", "the broker confirms operations although the disk has no room for them")

    def _resume(self, witness: Witness) -> None:
        """Give room to a broker that runs: it must notice, and answer everything.

        The clients of the drill use up room, too, so it may be full again before all is answered;
        each time it gets twice as much.
        """
        for number in range(GIFTS):
            self._room.enlarge(MORE_BYTES << number)
            room_since = answered_at = time.monotonic()
            while time.monotonic() - room_since < STILL_SECONDS:
                if witness.answers():
                    answered_at = time.monotonic()
                if not witness.waits:
                    self._is_full = False
                    self.resumed += 1
                    return
                if not witness.look("though there is room again")["disk_full"]:
                    room_since = time.monotonic()
                if time.monotonic() - answered_at > witnesses.ANSWER_SECONDS:
                    break
        raise Wrong("P8", f"{witness.waits} answers do not come though there is room again")

    def aftermath(self, broker: DrillBroker, ledger: Ledger) -> None:
        """A start on a full disk must work, wait, or name the lack of space."""
        if not self._is_full:
            return
        self.starts_while_full += 1
        broker.launch()
        try:
            self._look_at_start(broker, ledger)
        finally:
            broker.kill()

    def _look_at_start(self, broker: DrillBroker, ledger: Ledger) -> None:
        until = time.monotonic() + FULL_START_SECONDS
        while broker.is_running and not broker.is_ready() and time.monotonic() < until:
            broker.wait_a_moment(START_STEP_SECONDS)
        if not broker.is_running:
            words = broker.last_words()
            if not any(word in words for word in ("space", "room", "quota", "full")):
                raise Wrong("P8", f"a start on a full disk does not say that it is full: {words}")
            return
        if not broker.is_ready():
            self._room.enlarge(MORE_BYTES)
            broker.await_ready()
        data = Path(broker.serving.data)
        with Witness(data, broker.port, ledger, f"start{self.starts_while_full}") as witness:
            witness.look("after a start on a full disk")
            witness.send()
            self._resume(witness)
