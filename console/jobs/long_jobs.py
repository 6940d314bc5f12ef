"""Checks that may run for long: one at a time for each broker, in a process of its own.

Data flow: somebody who may starts one; its process says how far it is; whoever looks at the page
sees that, until it is over, cancelled, or the console ends. The last one of each broker is
remembered. They take none of the places of short jobs (`pool`).

Invariants: a broker has one check at a time; no process of a check outlives the console, nor its
temporary files. Fault model: a process may die or hang at any moment; a hanging one is cancelled by
people.
"""

import asyncio
import contextlib
import time
from enum import StrEnum
from typing import Any, Final

from daybook.console.console_config import AskerError
from daybook.console.jobs import check_worker
from daybook.console.jobs.job_process import JobProcess
from daybook.console.jobs.pool import received
from daybook.errors import describe

MEMORY_BYTES_MAX: Final = 2 << 30


class JobState(StrEnum):
    """What became of a check."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class AlreadyRunning(AskerError):
    """Another check of the broker runs; the text says whose."""


class LongJob:
    """A check: who asked for what, how far it is, and how it ended."""

    def __init__(self, kind: str, command: str, by: str) -> None:
        self.kind: Final = kind
        self.command: Final = command
        self.by: Final = by
        self.begun: Final = time.time()
        self.state = JobState.RUNNING
        self.done = 0
        self.total = 0
        self.text = ""
        self.result: dict[str, Any] = {}
        self.task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it is not over."""
        return self.state is JobState.RUNNING

    @property
    def begun_us(self) -> int:
        """When it began, in microseconds since 1970."""
        return int(self.begun * 1_000_000)

    @property
    def percent(self) -> int:
        """How much is done, in percent."""
        return min(100 * self.done // self.total, 100) if self.total else 0


class LongJobs:
    """The checks of all brokers. Used only in the thread of the event loop."""

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES_MAX) -> None:
        self._memory_bytes: Final = memory_bytes
        self._last: Final[dict[str, LongJob]] = {}
        self.changed: Final = asyncio.Condition()

    def of(self, broker: str) -> LongJob | None:
        """Return the check of a broker that runs, or the last one, None before the first."""
        return self._last.get(broker)

    def start(self, broker: str, job: LongJob, directory: str, arguments: dict[str, Any]) -> None:
        """Start a check of a broker. Raises AlreadyRunning."""
        before = self.of(broker)
        if before is not None and before.is_running:
            raise AlreadyRunning(
                f"a check of {broker} is running: `{before.command}`, begun by {before.by}; wait "
                "until it is over, or cancel it"
            )
        self._last[broker] = job
        try:
            process = JobProcess(
                check_worker.carry_out, self._memory_bytes, job.kind, directory, arguments, job.by,
                kind="check",
            )  # fmt: skip
        except OSError as error:
            job.state = JobState.FAILED
            job.text = f"its process could not begin: {describe(error)}"
            return
        job.task = asyncio.create_task(self._follow(job, process))

    async def cancel(self, broker: str, by: str) -> LongJob | None:
        """Cancel the check of a broker, if one runs."""
        job = self.of(broker)
        if job is None or not job.is_running:
            return job
        job.state, job.text = JobState.CANCELLED, f"cancelled by {by}"
        assert job.task is not None
        job.task.cancel()
        await asyncio.gather(job.task, return_exceptions=True)
        await self._tell()
        return job

    async def _follow(self, job: LongJob, process: JobProcess) -> None:
        """Note what a process says, until it is over."""
        try:
            while job.is_running:
                kind, value = await received(process.pipe)
                if kind == "progress":
                    job.done, job.total = value
                elif kind == "done":
                    job.state, job.result = JobState.DONE, value
                else:
                    job.state, job.text = JobState.FAILED, value
                await self._tell()
        except (EOFError, OSError):
            job.state = JobState.FAILED
            job.text = (
                "its process ended; it may have needed more memory than"
                f" {self._memory_bytes >> 20:,} MiB: use the command line, which has no limit"
            )
            await self._tell()
        finally:
            await process.end()

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def close(self) -> None:
        """End all checks."""
        tasks = [each.task for each in self._last.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
