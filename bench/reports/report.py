"""The summary of measurements: medians, spreads, ratios, and the machine they were taken on.

Ratios compare only measurements beside equally many busy neighbours.

This module must never know how a figure was measured.
"""

import datetime
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

_SYNCS: Final = 300
_SYNC_BYTES: Final = 4096

_Key = tuple[int, str, str]  # busy neighbours, mode, target


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of one target in one run."""

    target: str
    run: int
    mode: str
    busy: int = 0  # how many busy neighbours there were
    messages: int
    rate: float
    elapsed_s: float
    broker_cpu_us: float
    producer_cpu_us: float
    consumer_cpu_us: float
    neighbours: float = 0.0  # the share of all cores that the busy neighbours used
    others: float
    p50_us: float
    p99_us: float


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The place and time of the figures."""

    date: str
    cores: int
    memory_gib: float
    processor: str
    kernel: str
    python: str
    file_system: str
    fdatasync_p50_us: float
    load_average: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of one target in one mode beside so many busy neighbours.

    `value` is a rate, or for roundtrip the p50 in us. `ratios` compares it with that of each
    reference that was measured alike, and `to_idle` with its own without neighbours.
    """

    target: str
    mode: str
    busy: int
    runs: int
    value: float
    lowest: float
    highest: float
    p99_us: float
    broker_cpu_us: float
    producer_cpu_us: float
    consumer_cpu_us: float
    neighbours: float
    others: float
    ratios: dict[str, float]
    to_idle: float | None


def describe_machine(directory: Path) -> Machine:
    """Describe this machine and the disk that holds `directory`."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(memory / (1 << 30), 1),
        processor=_processor(),
        kernel=platform.release(),
        python=platform.python_version(),
        file_system=_file_system(directory),
        fdatasync_p50_us=round(_fdatasync_p50_us(directory), 1),
        load_average=round(os.getloadavg()[0], 2),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    """Return the type of the file system that is mounted closest above `directory`."""
    best, found = "", "unknown"
    resolved = f"{directory.resolve()}/"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mounted, kind, *_ = line.split()
        if resolved.startswith(mounted.rstrip("/") + "/") and len(mounted) > len(best):
            best, found = mounted, kind
    return found


def _fdatasync_p50_us(directory: Path) -> float:
    """Return the median time of one small overwrite and its fdatasync, in microseconds."""
    times = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        descriptor = file.fileno()
        os.pwrite(descriptor, bytes(_SYNCS * _SYNC_BYTES), 0)
        os.fsync(descriptor)
        for number in range(_SYNCS):
            started = time.perf_counter()
            os.pwrite(descriptor, b"x" * _SYNC_BYTES, number * _SYNC_BYTES)
            os.fdatasync(descriptor)
            times.append((time.perf_counter() - started) * 1e6)
    return statistics.median(times)


def _value(sample: Sample) -> float:
    return sample.p50_us if sample.mode == "roundtrip" else sample.rate


def summarise(samples: Sequence[Sample], references: Sequence[str]) -> list[Summary]:
    """Return a summary for each number of neighbours, mode and target, as they first appear.

    `references` are the targets that the others are compared with.
    """
    groups: dict[_Key, list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.busy, sample.mode, sample.target), []).append(sample)
    busy, modes = ([key[place] for key in groups] for place in (0, 1))
    ordered = sorted(groups, key=lambda key: (busy.index(key[0]), modes.index(key[1])))
    medians = {key: statistics.median(map(_value, group)) for key, group in groups.items()}
    return [_summary(key, groups[key], medians, references) for key in ordered]


def _summary(
    key: _Key, group: list[Sample], medians: dict[_Key, float], references: Sequence[str]
) -> Summary:
    busy, mode, name = key
    value = medians[key]
    compared = {reference: medians.get((busy, mode, reference)) for reference in references}
    idle = medians.get((0, mode, name)) if busy else None
    return Summary(
        target=name,
        mode=mode,
        busy=busy,
        runs=len(group),
        value=value,
        lowest=min(map(_value, group)),
        highest=max(map(_value, group)),
        p99_us=statistics.median(sample.p99_us for sample in group),
        broker_cpu_us=statistics.median(sample.broker_cpu_us for sample in group),
        producer_cpu_us=statistics.median(sample.producer_cpu_us for sample in group),
        consumer_cpu_us=statistics.median(sample.consumer_cpu_us for sample in group),
        neighbours=statistics.median(sample.neighbours for sample in group),
        others=statistics.median(sample.others for sample in group),
        ratios={reference: value / other for reference, other in compared.items() if other},
        to_idle=value / idle if idle else None,
    )
