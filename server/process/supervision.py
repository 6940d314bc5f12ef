"""Supervision of background work, so that no failure of it goes unnoticed.

Work has a name and is restarted: an exception is logged, and the work begins again after a delay
that doubles from one second to a minute, and is reset once the work has run well for that long.
`daybook status` shows failures. Exceptions that leave the broker in an unknown state must not be
handled by the supervisor: give their types as `fatal`, or raise `Fatal`, and they are passed on.

    supervisor.run("retention", retention.run)
    supervisor.repeat("disk scan", lambda: 5.0, scan)

Fault model: work may raise any exception at any time, or return although it should not; it may
hang, which only the work itself can detect. Must never know the work.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from daybook.server.process import logs

RESTART_SECONDS: Final = 1.0
RESTART_SECONDS_MAX: Final = 60.0
REST_OF_WORK_SECONDS: Final = 10.0
"""How long `stop` waits for cancelled work."""

log = logs.logger("supervision")


class Fatal(Exception):
    """The work failed in such a way that the broker must stop; `__cause__` says how."""


class _Work:
    """One piece of work, and its state."""

    __slots__ = ("delay", "failed_at", "failures", "fatal", "name", "next_try", "task", "trouble")

    def __init__(self, name: str, fatal: tuple[type[Exception], ...]) -> None:
        self.name: Final = name
        self.fatal: Final = fatal
        self.task: asyncio.Task[None] | None = None
        self.failures = 0
        self.trouble = ""
        self.delay = RESTART_SECONDS
        self.failed_at = 0.0
        self.next_try = 0.0


class Supervisor:
    """Keeps background work running in the current event loop."""

    def __init__(
        self,
        on_fatal: Callable[[Exception], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`on_fatal` is called with errors after which the broker must stop."""
        self._on_fatal: Final = on_fatal
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._works: Final[dict[str, _Work]] = {}

    def run(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        fatal: tuple[type[Exception], ...] = (),
    ) -> None:
        """Keep work running that never ends by itself; a return counts as a failure."""
        assert name not in self._works, f"two pieces of work are called '{name}'"
        kept = self._works[name] = _Work(name, fatal)
        kept.task = asyncio.get_running_loop().create_task(self._keep(kept, work), name=name)

    def end(self, name: str) -> None:
        """End a piece of work, if there is one of that name, and forget it."""
        kept = self._works.pop(name, None)
        if kept is not None and kept.task is not None:
            kept.task.cancel()

    def repeat(
        self,
        name: str,
        seconds: Callable[[], float],
        work: Callable[[], Awaitable[None] | None],
        *,
        fatal: tuple[type[Exception], ...] = (),
    ) -> None:
        """Run work now and again after `seconds()` seconds each time."""

        async def again() -> None:
            while True:
                awaited = work()
                if awaited is not None:
                    await awaited
                self._went_well(self._works[name])
                await self._sleep(seconds())

        self.run(name, again, fatal=fatal)

    async def stop(self) -> None:
        """Cancel all work."""
        tasks = [each.task for each in self._works.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=REST_OF_WORK_SECONDS)

    def status(self) -> list[dict[str, Any]]:
        """Describe each piece of work; `trouble` is "" for one without failures."""
        now = self._clock()
        for each in self._works.values():
            self._went_well(each)
        return [
            {
                "name": each.name,
                "failures": each.failures,
                "trouble": each.trouble,
                "next_try_seconds": round(max(0.0, each.next_try - now), 1),
            }
            for each in self._works.values()
        ]

    async def _keep(self, kept: _Work, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
                self._failed(kept, RuntimeError("it ended, and should not have"))
            except Fatal as error:
                self._end(
                    kept, error.__cause__ if isinstance(error.__cause__, Exception) else error
                )
                return
            except Exception as error:
                if isinstance(error, kept.fatal):
                    self._end(kept, error)
                    return
                self._failed(kept, error)
            await self._sleep(kept.next_try - self._clock())

    def _end(self, kept: _Work, error: Exception) -> None:
        kept.failures += 1
        kept.trouble = f"{_sentence(error)}; the broker stops"
        self._on_fatal(error)

    def _failed(self, kept: _Work, error: Exception) -> None:
        self._went_well(kept)
        kept.failures += 1
        kept.trouble = _sentence(error)
        kept.failed_at = self._clock()
        kept.next_try = kept.failed_at + kept.delay
        log.error(
            "background work failed and is begun again",
            work=kept.name,
            why=kept.trouble,
            seconds=kept.delay,
            # An error of the system needs no traceback; any other error is a bug.
            exc_info=None if isinstance(error, OSError) else error,
        )
        kept.delay = min(2 * kept.delay, RESTART_SECONDS_MAX)

    def _went_well(self, kept: _Work) -> None:
        """Clear the trouble once the work has run for as long as its delay."""
        if kept.trouble and self._clock() >= kept.next_try + kept.delay:
            log.info("background work goes well again", work=kept.name)
            kept.trouble = ""
            kept.delay = RESTART_SECONDS


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
