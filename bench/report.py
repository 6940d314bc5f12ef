"""What the measurements say: medians, spreads, ratios, and the machine they were taken on.

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
from rich import box
from rich.console import Console
from rich.table import Table

_SYNCS: Final = 300
_SYNC_BYTES: Final = 4096


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of one target in one run."""

    target: str
    run: int
    mode: str
    messages: int
    rate: float
    elapsed_s: float
    broker_cpu_us: float
    producer_cpu_us: float
    consumer_cpu_us: float
    others: float
    p50_us: float
    p99_us: float


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when the figures were taken."""

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
    """All samples of one target in one mode; `value` is a rate, or for roundtrip the p50 in us."""

    target: str
    mode: str
    runs: int
    value: float
    lowest: float
    highest: float
    p99_us: float
    broker_cpu_us: float
    producer_cpu_us: float
    consumer_cpu_us: float
    others: float
    to_floor: float | None
    to_rabbitmq: float | None


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


def summarise(samples: Sequence[Sample]) -> list[Summary]:
    """Return one summary for each mode and target, in the order in which they first appear."""
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.mode, sample.target), []).append(sample)
    medians = {key: statistics.median(map(_value, group)) for key, group in groups.items()}
    ordered = sorted(groups, key=lambda key: [mode for mode, _ in groups].index(key[0]))
    return [_summary(key, groups[key], medians) for key in ordered]


def _summary(
    key: tuple[str, str], group: list[Sample], medians: dict[tuple[str, str], float]
) -> Summary:
    mode, name = key
    floor, rabbitmq = medians.get((mode, "floor")), medians.get((mode, "rabbitmq"))
    median = medians[key]
    return Summary(
        target=name,
        mode=mode,
        runs=len(group),
        value=median,
        lowest=min(map(_value, group)),
        highest=max(map(_value, group)),
        p99_us=statistics.median(sample.p99_us for sample in group),
        broker_cpu_us=statistics.median(sample.broker_cpu_us for sample in group),
        producer_cpu_us=statistics.median(sample.producer_cpu_us for sample in group),
        consumer_cpu_us=statistics.median(sample.consumer_cpu_us for sample in group),
        others=statistics.median(sample.others for sample in group),
        to_floor=median / floor if floor else None,
        to_rabbitmq=median / rabbitmq if rabbitmq else None,
    )


def print_report(
    console: Console, machine: Machine, summaries: list[Summary], notes: list[str]
) -> None:
    """Print the tables, in Markdown so that they can be pasted into a page as they are."""
    console.print(
        f"{machine.date}; {machine.cores} cores ({machine.processor}), {machine.memory_gib} GiB, "
        f"{machine.file_system}, Linux {machine.kernel}, Python {machine.python}; one fdatasync "
        f"{machine.fdatasync_p50_us / 1000:.2f} ms; load average at the start "
        f"{machine.load_average}\n",
        soft_wrap=True,
    )
    rates = [summary for summary in summaries if summary.mode != "roundtrip"]
    trips = [summary for summary in summaries if summary.mode == "roundtrip"]
    if rates:
        console.print(_rate_table(rates))
    if trips:
        console.print(_trip_table(trips))
    for note in notes:
        console.print(f"- {note}", soft_wrap=True, markup=False)


def _table(names: Sequence[str]) -> Table:
    table = Table(box=box.MARKDOWN)
    for place, name in enumerate(names):
        table.add_column(name, justify="left" if place < 2 else "right", no_wrap=True)
    return table


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _rate_table(summaries: list[Summary]) -> Table:
    cpu = ("broker us", "producer us", "consumer us", "others")
    table = _table(("mode", "target", "msg/s", "min - max", "x floor", "x rabbitmq", *cpu))
    for one in summaries:
        table.add_row(
            one.mode,
            one.target,
            f"{one.value:,.0f}",
            f"{one.lowest:,.0f} - {one.highest:,.0f}",
            _ratio(one.to_floor),
            _ratio(one.to_rabbitmq),
            f"{one.broker_cpu_us:.1f}",
            f"{one.producer_cpu_us:.1f}",
            f"{one.consumer_cpu_us:.1f}",
            f"{one.others:.0%}",
        )
    return table


def _trip_table(summaries: list[Summary]) -> Table:
    table = _table(
        ("mode", "target", "p50 ms", "min - max", "p99 ms", "x floor", "x rabbitmq", "others")
    )
    for one in summaries:
        table.add_row(
            one.mode,
            one.target,
            f"{one.value / 1000:.2f}",
            f"{one.lowest / 1000:.2f} - {one.highest / 1000:.2f}",
            f"{one.p99_us / 1000:.2f}",
            _ratio(one.to_floor),
            _ratio(one.to_rabbitmq),
            f"{one.others:.0%}",
        )
    return table
