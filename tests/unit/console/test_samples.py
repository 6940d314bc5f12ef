"""Samples of a broker: at once when it ends or comes back, else once in a period."""

import asyncio
import time
from typing import Any

import pytest

from daybook.console import samples as sampling
from daybook.console.brokers import NotRunning
from daybook.console.samples import Samples


class Broker:
    """A broker that ends and comes back as a test wants."""

    def __init__(self) -> None:
        self.is_running = True
        self.ended = asyncio.Event()

    async def status(self) -> dict[str, Any]:
        if not self.is_running:
            raise NotRunning("no broker runs here")
        return {"messages_ready": 3}

    async def until_it_ends(self) -> bool:
        await self.ended.wait()
        return True

    def is_there(self) -> bool:
        return self.is_running


async def until(samples: Samples, count: int) -> None:
    """Wait for so many samples."""
    while len(samples.samples) < count:
        await asyncio.sleep(0.01)


def test_what_the_journal_says_is_before_the_samples() -> None:
    samples = Samples(Broker())  # type: ignore[arg-type]
    begun = time.time()
    lacks = samples.lacks
    assert lacks is not None
    assert abs(lacks[1] - lacks[0] - 3600) < 1
    minute = begun // 60 * 60 - 120
    counts = {"added": 120, "delivered": 180, "acknowledged": 60}
    minutes: list[tuple[float, float, dict[str, int]]] = [
        (minute - 60, minute, {"added": 6}), (minute, minute + 60, counts),
        (minute + 60, minute + 120, {}), (minute + 120, minute + 130, {"added": 3}),
    ]  # fmt: skip
    samples.remember([*minutes, (minute + 130, minute + 131, {"added": 9})])
    told = samples.columns()
    assert told["time"] == [minute - 30, minute + 30, minute + 90, minute + 125.5]
    assert told["in"] == [0.1, 2.0, 0.0, pytest.approx(12 / 11)], "the last second joins the rest"
    assert told["out"] == [0.0, 3.0, 0.0, 0.0]
    assert told["acknowledged"] == [0.0, 1.0, 0.0, 0.0]
    assert told["backlog"] == [None] * 4


def test_the_end_and_the_return_of_a_broker_are_sampled_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "PERIOD_SECONDS", 3600.0)
    monkeypatch.setattr(sampling, "RETURN_SECONDS", 0.02)
    monkeypatch.setattr(sampling, "LEAST_SECONDS", 0.02)

    async def scenario() -> None:
        broker = Broker()
        samples = Samples(broker)  # type: ignore[arg-type]
        task = asyncio.create_task(samples.run())
        await until(samples, 1)
        assert samples.status is not None
        await asyncio.sleep(0.1)
        assert len(samples.samples) == 1
        assert 0.05 < samples.age < 60
        broker.is_running = False
        broker.ended.set()
        await until(samples, 2)
        assert samples.trouble == "no broker runs"
        await asyncio.sleep(0.1)
        assert len(samples.samples) == 2
        broker.ended.clear()
        broker.is_running = True
        await until(samples, 3)
        assert not samples.trouble
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scenario(), 30))
