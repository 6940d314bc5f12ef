"""The resources of a broker's processes during use, and whether they grow.

Memory is what is the process's own (RssAnon): pages of the index that the kernel keeps mapped are
not counted. `grown` compares the middle of the soak with its end by medians, so that no single
moment decides, nor how fast the machine is.
"""

import asyncio
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.process import BrokerProcess

WARM_UP: Final = 0.4
"""The part of the samples, from the first one on, in which caches fill."""
EVERY_SECONDS: Final = 0.5
KINDS: Final = ("broker", "writer", "indexer")
MIB: Final = 1 << 20
MEMORY_SLACK: Final = 3 * MIB
MEMORY_RATIO: Final = 0.04
FILES_SLACK: Final = 12


class Sample(NamedTuple):
    """Seconds since the beginning; bytes and descriptors of each process, in order of KINDS."""

    at: float
    memory: tuple[int, ...]
    files: tuple[int, ...]


def anonymous_bytes(pid: int) -> int:
    """Resident memory of a process that is its own."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def open_files(pid: int) -> int:
    """How many descriptors a process has."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


class Watch:
    """Samples of a broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        (writer,), (indexer,) = broker.writers(), broker.indexers()
        self._pids = (broker.process.pid, writer, indexer)
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Take samples without end."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            self.samples.append(
                Sample(
                    loop.time() - began,
                    tuple(anonymous_bytes(pid) for pid in self._pids),
                    tuple(open_files(pid) for pid in self._pids),
                )
            )
            await asyncio.sleep(EVERY_SECONDS)


def grown(samples: list[Sample], slack: int = MEMORY_SLACK) -> list[str]:
    """Resources that grew by over `slack` bytes from the middle to the end, a sentence each."""
    found = []
    for number, kind in enumerate(KINDS):
        before, after = _medians(samples, lambda one, number=number: one.memory[number])  # type: ignore[misc]
        if after - before > max(slack, MEMORY_RATIO * before):
            found.append(
                f"the {kind} grew from {before / MIB:.1f} to {after / MIB:.1f} MiB of memory"
            )
        before, after = _medians(samples, lambda one, number=number: one.files[number])  # type: ignore[misc]
        if after - before > FILES_SLACK:
            found.append(f"the {kind} went from {before:.0f} to {after:.0f} open files")
    return found


def _medians(samples: list[Sample], value: Callable[[Sample], int]) -> tuple[float, float]:
    """The medians of the first and the last third behind the warm-up."""
    warm = [value(one) for one in samples[int(len(samples) * WARM_UP) :]]
    third = max(1, len(warm) // 3)
    return statistics.median(warm[:third]), statistics.median(warm[-third:])


def draw(samples: list[Sample], file: Path) -> None:
    """Draw the samples, if matplotlib is installed."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import)

    figure = Figure(figsize=(10, 7))
    memory, files = figure.subplots(2, 1, sharex=True)
    minutes = [one.at / 60 for one in samples]
    for number, kind in enumerate(KINDS):
        memory.plot(minutes, [one.memory[number] / MIB for one in samples], label=kind)
        files.plot(minutes, [one.files[number] for one in samples], label=kind)
    memory.set_ylabel("own memory, MiB")
    files.set_ylabel("open files")
    files.set_xlabel("minutes")
    memory.legend()
    for each in (memory, files):
        each.set_ylim(bottom=0)
        each.grid(visible=True)
    figure.savefig(file, dpi=90)
