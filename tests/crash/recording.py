"""Records the writes of a process in some folders, and replays them up to a power cut.

    recording = Recording(library, log, folder)
    recording.run([...])
    for moment in recording.moments(chance, cuts=3):
        moment.platter.write()    # the folders are now what was left

There is a moment before each sync of a file or a folder, and one behind it: between two of them
nothing becomes durable, so what a cut may leave is the same. Each moment comes `cuts` times: first
with nothing of what was not synced, then with random sectors, sizes and names of it. The fault
model is that of `tests.crash.power`.
"""

import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.load.child import environment as bench_environment
from tests.crash.power import SYNC, SYNC_FOLDER, SYNCED_WRITE, Platter, read_records

SYNCS: Final = frozenset((SYNC, SYNC_FOLDER, SYNCED_WRITE))


class Moment(NamedTuple):
    """A power cut after so many syncs, `is_bare` if nothing else had arrived."""

    syncs: int
    is_bare: bool
    platter: Platter


class Recording:
    """The writes of a process to folders that have one parent. They are empty, or durable."""

    def __init__(self, library: Path, log: Path, *folders: Path) -> None:
        """`library` is the compiled black box; `log` is written beside the folders."""
        self.log: Final = log
        self.folders: Final = folders
        self.seen: Final[Counter[int]] = Counter()
        self._begin: Final = Platter(*folders)
        self.environment: Final = {
            "LD_PRELOAD": str(library),
            "BLACKBOX_FOLDER": ":".join(str(folder) for folder in folders),
            "BLACKBOX_LOG": str(log),
        }

    def run(self, command: Sequence[str]) -> str:
        """Run a process until it ends, and return what it printed."""
        environment = bench_environment() | self.environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def moments(self, chance: random.Random, *, cuts: int) -> Iterator[Moment]:
        """Every moment of the recording, `cuts` times. The folders are as they were at its end."""
        platter = self._begin.copy()
        syncs = 0
        for record in read_records(self.log):
            self.seen[record.kind] += 1
            if record.kind not in SYNCS:
                platter.play(record)
                continue
            yield from _cut(platter, syncs, chance, cuts)
            platter.play(record)
            syncs += 1
            yield from _cut(platter, syncs, chance, 1)
        yield from _cut(platter, syncs, chance, cuts)


def _cut(platter: Platter, syncs: int, chance: random.Random, cuts: int) -> Iterator[Moment]:
    for number in range(cuts):
        left = platter.copy()
        if number:
            left.cut(chance)
        else:
            left.lose()
        yield Moment(syncs, number == 0, left)
