"""Segments that may leave, so that carrying ends; and how carrying gives way."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.disk import MemoryDisk
from daybook.journal.retention import Limits, SealedSegment, SegmentTable, choose
from daybook.paging.retention.retention_round import ROUND_SEGMENTS, worth_removing
from daybook.paging.retention.retirement import WEIGH, Order
from daybook.paging.retention.survey import Weight
from daybook.server.history.retention import Retention
from daybook.server.history.retention_rounds import STEP_SECONDS, Pace, Performer, StepError
from daybook.server.process.supervision import Supervisor


def segments(count: int) -> tuple[SealedSegment, ...]:
    return tuple(
        SealedSegment(f"{number}", 10 * number + 1, 10 * number + 10, 1000, number)
        for number in range(count)
    )


def weights(*queued: int) -> list[Weight]:
    return [Weight(10 * number + 1, each, 100) for number, each in enumerate(queued)]


def test_what_is_mostly_queued_stays() -> None:
    assert worth_removing(segments(1), 0, weights(51)) == ()
    assert worth_removing(segments(1), 0, weights(50)) == segments(1)
    assert worth_removing(segments(3), 0, weights(10, 90, 90)) == segments(2)


def test_one_dense_segment_does_not_stop_what_is_behind_it() -> None:
    assert worth_removing(segments(2), 0, weights(100, 0)) == segments(2)
    dense = [100] * 20 + [0] * 19
    assert worth_removing(segments(39), 0, weights(*dense)) == ()
    assert worth_removing(segments(40), 0, weights(*dense, 0)) == segments(40)


def test_age_takes_what_it_takes() -> None:
    assert worth_removing(segments(3), 2, weights(100, 100, 100)) == segments(2)
    assert worth_removing(segments(3), 3, weights(100, 100, 100)) == segments(3)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(0, 60))
def test_no_more_than_half_comes_back(queued: list[int], by_age: int) -> None:
    by_age = min(by_age, len(queued))
    found = worth_removing(segments(len(queued)), by_age, weights(*queued))
    assert found == segments(len(queued))[: len(found)]
    assert len(found) >= min(by_age, ROUND_SEGMENTS)
    assert 2 * sum(queued[by_age : len(found)]) <= 100 * max(len(found) - by_age, 0)
    if len(found) < min(len(queued), ROUND_SEGMENTS):
        rest = range(len(found) + 1, min(len(queued), ROUND_SEGMENTS) + 1)
        assert all(2 * sum(queued[by_age:end]) > 100 * (end - by_age) for end in rest)


def test_a_copy_is_new_so_age_asks_for_it_once_in_its_time() -> None:
    """The segment that a message was carried to is as young as the copy."""
    limits = Limits(max_age_ms=1000)
    old, copied = segments(1)[0], SealedSegment("1", 11, 20, 1000, 5_000_000)
    for now, removable in ((5_500_000, ("0",)), (6_000_000, ("0",)), (6_000_001, ("0", "1"))):
        found = choose([old, copied], limits, live_bytes=3000, now=now, lowest_kept_lsn=99)
        assert found.names == removable


def test_carrying_rests_longer_than_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    rests = []

    async def sleep(seconds: float) -> None:
        nonlocal clock
        clock += seconds
        rests.append(seconds)

    monkeypatch.setattr("time.monotonic", lambda: clock)
    monkeypatch.setattr("asyncio.sleep", sleep)

    async def work(seconds: float, count: int) -> None:
        nonlocal clock
        pace = Pace()
        pace.begin()
        for _ in range(count):
            clock += seconds
            await pace.pause()

    asyncio.run(work(STEP_SECONDS / 10, 9))
    assert rests == []
    asyncio.run(work(STEP_SECONDS / 10, 25))
    assert len(rests) == 2
    assert min(rests) > STEP_SECONDS
    rests.clear()
    asyncio.run(work(0.01, 3))
    assert min(rests) > 0.01
    rests.clear()
    asyncio.run(work(9.0, 1))
    assert rests[0] < 1.0, "a step that was long for another reason is not paid for in full"


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def open_pipes() -> int:
    return sum(type(each).__name__.endswith("UnixTransport") for each in gc.get_objects())


def test_processes_leave_nothing_behind_that_waits_for_the_collector(tmp_path: Path) -> None:
    performer = Performer(
        cast(Any, None), tmp_path, cast(Any, Mock()), SegmentTable(MemoryDisk()), Order()
    )

    async def ask_often() -> list[int]:
        found = []
        for _ in range(4):
            # There is no index to be weighed: the process says so, and ends.
            with pytest.raises(StepError):
                await performer._ask(WEIGH, 1)
            found.append(open_pipes())
        return found

    with without_collector(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(ask_often())
    assert found[0] > 0
    assert max(found) == found[0]


def test_what_nobody_foresaw_of_retention_shows_and_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that the rounds do not list is the supervisor's."""
    (tmp_path / "journal").mkdir()
    rounds = 0

    async def fail(self: Retention) -> bool:
        nonlocal rounds
        rounds += 1
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(Retention, "round", fail)
    config = Mock(retention_max_age=1, retention_max_bytes=0, retention_scan_period=1)

    async def run() -> list[dict[str, Any]]:
        retention = Retention(cast(Any, None), tmp_path, lambda: None, config)
        supervisor = Supervisor(lambda error: None, sleep=lambda seconds: asyncio.sleep(0))
        supervisor.run("retention", retention.run)
        while rounds < 3:
            await asyncio.sleep(0.001)
        await supervisor.stop()
        return supervisor.status()

    (status,) = asyncio.run(run())
    assert status["failures"] >= 2
    assert "nobody thought of this" in status["trouble"]
