"""Hours of steady traffic with retention in seconds: bounded, flat, nothing lost over kills."""

from pathlib import Path

import pytest

from bench.machine.preload import NoCompiler
from bench.steady import MIB, Hour, Plan, Run

pytestmark = [pytest.mark.crash, pytest.mark.slow]

HOURS = 9
PROCESSES = ("broker", "writer", "indexer")


def most(hours: list[Hour], process: str) -> int:
    """Return the most memory of a process; one that has just been forked is as large as the broker,
    until it begins its own program."""
    return max(
        hour.rss[process] for hour in hours
        if process == "broker" or hour.rss[process] != hour.rss["broker"]
    )  # fmt: skip


def test_hours_with_retention_and_kills(tmp_path: Path) -> None:
    plan = Plan(
        hours=HOURS, speed=1440, rate=300, segment_bytes=64 * 1024, restart_every=3,
        warm_up=HOURS, archives=True, late_s=1e6,
    )  # fmt: skip
    try:
        # A loss, a double, a wrong order or a fault of the journal is raised.
        steady = Run(plan, tmp_path, None).run()
    except NoCompiler as missing:
        pytest.skip(str(missing))
    hours = steady.hours
    assert not steady.wrong, "\n".join(steady.wrong)
    assert len(hours) == HOURS
    assert steady.restarts == 2
    assert all(0 < hour.restart_s < 30 for hour in hours if hour.hour in (4, 7))
    # However slow the machine is: in the end what was too old is gone, and what was held is not.
    end = steady.end
    assert end.first_lsn > hours[6].lsn
    assert end.removed_segments > 0
    assert end.carried_messages > 0
    for process in PROCESSES:
        assert most(hours[6:], process) < 1.3 * most(hours[:3], process) + 16 * MIB
