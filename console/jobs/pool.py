"""Processes that work on history for pages: few, limited, and killed when they take too long.

Data flow: a job waits for a place; a worker gets its name and arguments by a pipe, and answers with
JSON, or with a sentence about what went wrong. Workers are forked from a server that has imported
what they need (`multiprocessing`, forkserver), so a job begins in milliseconds. A worker that has a
moment of history in memory gets the next job about it.

Invariants: at most WORKERS_MAX processes and WAITING_MAX waiting jobs; a job ends when its time is
over, or when nobody waits for it; its memory is limited by the kernel. Fault model: a worker may
die or hang at any moment; that is an error of its job and of no other.
"""

import asyncio
import contextlib
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any, Final

from daybook.console.console_config import AskerError, ConsoleError
from daybook.console.jobs import worker

WORKERS_MAX: Final = 2
WAITING_MAX: Final = 16
SECONDS_MAX: Final = 30.0
MEMORY_BYTES_MAX: Final = 2 << 30
IDLE_SECONDS: Final = 300.0
"""A worker without a job ends then, with what it has in memory."""
BUSY: Final = "too much of the history is being looked at; try again in a moment"


class Worker:
    """One process; `holds` is what it has in memory."""

    def __init__(self, memory_bytes: int) -> None:
        context = multiprocessing.get_context("forkserver")
        self.pipe, theirs = context.Pipe()
        self.process: Final = context.Process(
            target=worker.serve, args=(theirs, memory_bytes), daemon=True
        )
        self.process.start()
        theirs.close()
        self.holds = ""
        self.is_busy = False
        self.used = time.monotonic()

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join(1.0)
        self.pipe.close()


class Pool:
    """All workers. Used only in the thread of the event loop."""

    def __init__(
        self, *, seconds: float = SECONDS_MAX, memory_bytes: int = MEMORY_BYTES_MAX
    ) -> None:
        self._seconds: Final = seconds
        self._memory_bytes: Final = memory_bytes
        self._workers: Final[list[Worker]] = []
        self._places: Final = asyncio.Semaphore(WORKERS_MAX)
        self._waiting = 0

    @staticmethod
    def prepare() -> None:
        """Say what the server of forks imports; before any event loop and thread."""
        multiprocessing.get_context("forkserver").set_forkserver_preload([worker.__name__])

    async def do(self, name: str, arguments: dict[str, Any], *, holds: str = "") -> Any:
        """Do a job and return its answer. Raises ConsoleError.

        `holds` names what the job keeps in memory for others like it.
        """
        if self._waiting >= WAITING_MAX:
            raise ConsoleError(BUSY)
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            return await self._do(self._choose(holds), name, arguments, holds)
        finally:
            self._places.release()

    def _choose(self, holds: str) -> Worker:
        """Return a worker without a job: one that has what is needed, else one that has nothing,
        else a new one, else the one that was not used for longest."""
        idle = [each for each in self._workers if not each.is_busy]
        for each in idle:
            if not each.process.is_alive():
                self._drop(each)
        idle = [each for each in idle if each in self._workers]
        for wanted in (holds, ""):
            for each in idle:
                if each.holds == wanted:
                    return each
        if len(self._workers) < WORKERS_MAX:
            self._workers.append(Worker(self._memory_bytes))
            return self._workers[-1]
        return min(idle, key=lambda each: each.used)

    async def _do(self, chosen: Worker, name: str, arguments: dict[str, Any], holds: str) -> Any:
        chosen.is_busy = True
        is_done = False
        try:
            async with asyncio.timeout(self._seconds):
                chosen.pipe.send((name, arguments))
                answer = await _received(chosen.pipe)
            is_done = True
            chosen.holds = holds
        except TimeoutError:
            raise ConsoleError(
                f"this took longer than {self._seconds:.0f} s and was given up; ask for less, or"
                " use the command line, which has no limit"
            ) from None
        except (EOFError, OSError):
            raise ConsoleError(
                "the process that read the history ended; it may have needed more memory than"
                f" {self._memory_bytes >> 20:,} MiB: ask for less, or use the command line"
            ) from None
        finally:
            chosen.is_busy = False
            chosen.used = time.monotonic()
            if not is_done:
                # Also when nobody waits any more: what it computes has no reader.
                self._drop(chosen)
        if "error" in answer:
            raise AskerError(answer["error"])
        return answer["result"]

    def _drop(self, each: Worker) -> None:
        with contextlib.suppress(ValueError):
            self._workers.remove(each)
        each.kill()

    def tick(self) -> None:
        """End workers that had no job for long; called about once a second."""
        now = time.monotonic()
        for each in list(self._workers):
            if not each.is_busy and now - each.used > IDLE_SECONDS:
                self._drop(each)

    def close(self) -> None:
        """End all workers."""
        for each in list(self._workers):
            self._drop(each)


async def _received(pipe: Connection) -> dict[str, Any]:
    """Return the next answer of a worker. Raises EOFError and OSError."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(pipe.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(pipe.fileno())
    answer: dict[str, Any] = await loop.run_in_executor(None, pipe.recv)
    return answer
