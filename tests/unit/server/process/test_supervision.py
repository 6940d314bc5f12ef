"""Background work continues whatever it raises, and logs that."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from daybook.server.process.supervision import (
    RESTART_SECONDS,
    RESTART_SECONDS_MAX,
    Fatal,
    Supervisor,
)


class Time:
    """A clock that only sleeping moves; it ends the test when enough time has passed."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.over = asyncio.Event()
        self._end = seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if self.now >= self._end:
            self.over.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)


def supervise(
    seconds: float, begin: Callable[[Supervisor, Time], None]
) -> tuple[Time, Supervisor, list[Exception]]:
    """Let work begin, and time pass until `seconds`, or something fatal happens."""
    fatal: list[Exception] = []

    async def run() -> tuple[Time, Supervisor]:
        clock = Time(seconds)

        def on_fatal(error: Exception) -> None:
            fatal.append(error)
            clock.over.set()

        supervisor = Supervisor(on_fatal, clock=lambda: clock.now, sleep=clock.sleep)
        begin(supervisor, clock)
        await clock.over.wait()
        statuses.append(supervisor.status())
        await supervisor.stop()
        return clock, supervisor

    statuses: list[list[dict[str, object]]] = []
    clock, supervisor = asyncio.run(run())
    supervisor.status = lambda: statuses[0]  # type: ignore[method-assign]
    return clock, supervisor, fatal


def raising(errors: Iterator[Exception | None]) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        error = next(errors)
        if error is not None:
            raise error

    return work


def always(error: Exception | None) -> Iterator[Exception | None]:
    while True:
        yield error


@pytest.mark.parametrize("error", [KeyError("key"), OSError("no descriptor is left"), None])
def test_work_is_begun_again_later_each_time(
    error: Exception | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """An end without an exception is a failure as well."""
    clock, supervisor, fatal = supervise(
        300, lambda made, _: made.run("work", raising(always(error)))
    )
    assert clock.slept[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert max(clock.slept) == RESTART_SECONDS_MAX
    (status,) = supervisor.status()
    assert status["name"] == "work"
    assert status["failures"] == len(clock.slept)
    assert status["trouble"]
    assert not fatal
    assert "".join(capsys.readouterr()).count("background work failed") == len(clock.slept)


def test_what_went_well_for_long_starts_over(capsys: pytest.CaptureFixture[str]) -> None:
    count = 0

    def now_and_then() -> None:
        nonlocal count
        count += 1
        if count in (3, 4, 100):
            raise OSError("a bad moment")

    clock, supervisor, _ = supervise(
        200, lambda made, _: made.repeat("scan", lambda: 0.5, now_and_then)
    )
    assert [each for each in clock.slept if each != 0.5] == [1, 2, RESTART_SECONDS]
    (status,) = supervisor.status()
    assert (status["failures"], status["trouble"]) == (3, "")
    assert count > 200
    assert "".join(capsys.readouterr()).count("goes well again") == 2


@pytest.mark.parametrize("kind", [Fatal, ValueError])
def test_what_is_fatal_is_handed_on(kind: type[Exception]) -> None:
    cause = ValueError("the state is half done")

    async def work() -> None:
        if kind is Fatal:
            raise Fatal from cause
        raise cause

    fatal_types = () if kind is Fatal else (ValueError,)
    clock, supervisor, fatal = supervise(
        9, lambda made, _: made.run("work", work, fatal=fatal_types)
    )
    assert fatal == [cause]
    assert clock.slept == []
    assert "the broker stops" in str(supervisor.status()[0]["trouble"])


def test_one_does_not_hold_up_another() -> None:
    done: list[float] = []

    def begin(supervisor: Supervisor, clock: Time) -> None:
        supervisor.run("bad", raising(always(OSError("bad"))))
        supervisor.repeat("good", lambda: 1.0, lambda: done.append(clock.now))

    _, supervisor, _ = supervise(50, begin)
    assert len(done) > 5
    assert [each["trouble"] for each in supervisor.status()] == ["bad", ""]


def test_work_that_was_ended_is_forgotten_and_may_begin_again() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def run() -> None:
        supervisor = Supervisor(lambda _: None)
        supervisor.end("work")
        supervisor.run("work", work)
        await asyncio.sleep(0)
        supervisor.end("work")
        assert supervisor.status() == []
        supervisor.run("work", work)
        await asyncio.sleep(0)
        assert ended == ["work"]
        assert [each["name"] for each in supervisor.status()] == ["work"]
        await supervisor.stop()

    asyncio.run(run())
    assert ended == ["work", "work"]
