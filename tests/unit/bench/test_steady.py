"""Days in minutes: the clock is fast, and what grows is found."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.machine.fast_clock import HOUR_US, SOURCE, start_clock
from bench.machine.preload import NoCompiler, compile_library
from bench.steady import MIB, Hour, Plan, faults, line_through, lines_through, main

CLOCKS = "import time; print(time.time_ns(), int(time.time() * 1e9), time.monotonic_ns())"


def hour_of(hour: int, **figures: float) -> Hour:
    plain = {
        "sent": 0, "queued": 0, "journal": 4 * MIB, "index": MIB, "base": MIB, "oldest_hours": 1.0,
        "lsn": 1000 * hour, "first_lsn": 1,
        "removed_segments": hour, "carried_messages": hour, "pss": 90 * MIB, "restart_s": 0.0,
    }  # fmt: skip
    rss = {name: 50 * MIB for name in ("broker", "writer", "indexer")}
    return Hour(hour=hour, rss=rss, **(plain | figures))  # type: ignore[arg-type]


def test_wall_clocks_are_fast_and_others_are_not(tmp_path: Path) -> None:
    try:
        library = compile_library(SOURCE, tmp_path)
    except NoCompiler as missing:
        pytest.skip(str(missing))
    clock = start_clock(100_000)
    # However little time has passed, a hundred thousand times as much is seen.
    monotonic = time.monotonic_ns()
    printed = subprocess.run(
        [sys.executable, "-c", CLOCKS],
        env=os.environ | clock.environment(library),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    until = clock.now_us() * 1000
    seen = [int(text) for text in printed]
    assert clock.origin_ns + HOUR_US < seen[0] < until
    assert clock.origin_ns + HOUR_US < seen[1] < until
    assert monotonic < seen[2] < time.monotonic_ns()


def test_a_line_is_flat_or_it_is_not() -> None:
    flat = line_through("journal", "MiB", [(1, 100.0), (2, 108.0), (3, 100.0)])
    assert flat.is_flat
    assert flat.slope == 0
    grows = line_through("journal", "MiB", [(1, 100.0), (2, 110.0), (3, 120.0)])
    assert not grows.is_flat
    assert (grows.slope, grows.grows, grows.mean) == (10, 20, 110)


def test_what_shrinks_is_no_fault() -> None:
    assert line_through("journal", "MiB", [(1, 100.0), (2, 50.0)]).is_flat


def test_lines_leave_out_the_warm_up_and_hours_without_a_restart() -> None:
    hours = [hour_of(hour, restart_s=0.5 * (hour % 2)) for hour in range(1, 8)]
    hours[0] = hour_of(1, journal=1000 * MIB)
    lines = {line.name: line for line in lines_through(hours, 1)}
    assert lines["journal"].mean == 4
    assert lines["restart"].mean == 0.5
    assert all(line.is_flat for line in lines.values())


def test_history_that_is_too_old_or_too_large_is_a_fault() -> None:
    plan = Plan(speed=720, max_age_minutes=60, max_bytes=8 * MIB, segment_bytes=MIB)
    assert not list(faults(plan, [hour_of(1)], hour_of(1)))
    assert "hours old" in next(faults(plan, [hour_of(1, oldest_hours=2.0)], hour_of(1)))
    assert "takes" in next(faults(plan, [hour_of(1, journal=12 * MIB)], hour_of(1)))
    assert list(faults(plan, [hour_of(1)], hour_of(1, removed_segments=0))) == [
        "no segment ever left"
    ]


def test_a_broker_that_cannot_start_is_said() -> None:
    answer = CliRunner().invoke(main, ["--hours", "1", "--set", "broker.nonsense=1"])
    assert answer.exit_code == 1
    assert "nonsense" in answer.output
