"""Processes that work on history for pages: few, limited, and killed when they take too long.

Data flow: a job waits for a place; a worker gets its name and arguments by a pipe, and answers with
JSON, or with a sentence about what went wrong. Workers are forked from a server that has imported
what they need (`multiprocessing`, forkserver), so a job begins in milliseconds. A worker that has a
moment of history in memory gets the next job about it.

Invariants: at most WORKERS_MAX processes and WAITING_MAX waiting jobs; a user has one job done at a
time, and at most OF_A_USER_MAX altogether, so that others have their turn; a job ends when its time
is over, or when nobody waits for it; its memory is limited by the kernel, and its temporary files
go with it. Fault model: a worker may die or hang at any moment; that is an error of its job and of
no other.
"""

import asyncio
import contextlib
import multiprocessing
import os
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from daybook.console.console_config import AskerError, ConsoleError
from daybook.console.jobs import check_worker, worker
from daybook.console.jobs.job_process import JobProcess
from daybook.scratch_folders import remove_abandoned

WORKERS_MAX: Final = 2
QUERIES_MAX: Final = 1
"""Queries that users wrote leave a worker to the other pages."""
WAITING_MAX: Final = 16
OF_A_USER_MAX: Final = 8
SECONDS_MAX: Final = 30.0
MEMORY_BYTES_MAX: Final = 2 << 30
LEFT_BY_A_QUERY: Final = 4
"""A worker that still has more than one part in so many of its memory after a query ends: DuckDB
does not return all, and the next query would have too little."""
IDLE_SECONDS: Final = 300.0
"""A worker without a job ends then, with what it has in memory."""
BUSY: Final = "too much of the history is being looked at; try again in a moment"


class Worker:
    """One process; `holds` is what it has in memory."""

    def __init__(self, memory_bytes: int) -> None:
        self.process: Final = JobProcess(worker.serve, memory_bytes, kind="console")
        self.holds = ""
        self.is_busy = False
        self.used = time.monotonic()

    def memory_bytes(self) -> int:
        """Return how much of its limit of memory it has; 0 if it is gone."""
        try:
            sizes = Path(f"/proc/{self.process.id}/statm").read_text("ascii").split()
        except OSError:
            return 0
        return int(sizes[5]) * resource.getpagesize() if len(sizes) > 5 else 0


class _Turn:
    """Whose job is done: one of a user at a time."""

    def __init__(self) -> None:
        self.jobs = 0
        self.lock: Final = asyncio.Lock()


class Pool:
    """All workers. Used only in the thread of the event loop."""

    def __init__(
        self, *, seconds: float = SECONDS_MAX, memory_bytes: int = MEMORY_BYTES_MAX
    ) -> None:
        self._seconds: Final = seconds
        self._memory_bytes: Final = memory_bytes
        self._workers: Final[list[Worker]] = []
        self._ending: Final[set[asyncio.Task[None]]] = set()
        self._places: Final = asyncio.Semaphore(WORKERS_MAX)
        self._queries: Final = asyncio.Semaphore(QUERIES_MAX)
        self._waiting = 0
        self._turns: Final[dict[str, _Turn]] = {}

    @staticmethod
    def prepare() -> None:
        """Say what the server of forks imports, and remove files that killed processes left; before
        any event loop and thread."""
        remove_abandoned()
        multiprocessing.get_context("forkserver").set_forkserver_preload(
            [worker.__name__, check_worker.__name__]
        )

    async def do(
        self, name: str, arguments: dict[str, Any], *, holds: str = "", who: str = ""
    ) -> Any:
        """Do a job of a user and return its answer. Raises ConsoleError.

        `holds` names what the job keeps in memory for others like it.
        """
        turn = self._turns.get(who) or _Turn()
        if self._waiting >= WAITING_MAX or turn.jobs >= OF_A_USER_MAX:
            raise ConsoleError(BUSY)
        queries = self._queries if name in worker.QUERIES else contextlib.nullcontext()
        self._turns[who] = turn
        turn.jobs += 1
        self._waiting += 1
        is_waiting = True
        try:
            async with turn.lock, queries, self._places:
                self._waiting -= 1
                is_waiting = False
                return await self._do(self._choose(holds), name, arguments, holds)
        finally:
            self._waiting -= is_waiting
            turn.jobs -= 1
            if not turn.jobs:
                del self._turns[who]

    def _choose(self, holds: str) -> Worker:
        """Return a worker without a job: one that has what is needed, else one that has nothing,
        else a new one, else the one that was not used for longest."""
        idle = [each for each in self._workers if not each.is_busy]
        for each in idle:
            if not each.process.is_alive:
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
        stays = False
        try:
            async with asyncio.timeout(self._seconds):
                chosen.process.pipe.send((name, arguments))
                answer = await received(chosen.process.pipe)
            stays = not self._is_spent(chosen, name, answer)
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
            if not stays:
                # Also when nobody waits any more: what it computes has no reader. The place is
                # free when its memory is.
                await asyncio.shield(self._drop(chosen))
        if "error" in answer:
            raise AskerError(answer["error"])
        return answer["result"]

    def _is_spent(self, each: Worker, name: str, answer: dict[str, Any]) -> bool:
        """Whether a worker has too little memory for the next job."""
        if answer.get("error") == worker.NO_MEMORY:
            return True
        most = self._memory_bytes // LEFT_BY_A_QUERY
        return name in worker.QUERIES and each.memory_bytes() > most

    def _drop(self, each: Worker) -> asyncio.Task[None]:
        """End a worker, which gets no more jobs; the task is done when it left nothing."""
        with contextlib.suppress(ValueError):
            self._workers.remove(each)
        ending = asyncio.create_task(each.process.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending

    def tick(self) -> None:
        """End workers that had no job for long; called about once a second."""
        now = time.monotonic()
        for each in list(self._workers):
            if not each.is_busy and now - each.used > IDLE_SECONDS:
                self._drop(each)

    async def close(self) -> None:
        """End all workers."""
        for each in list(self._workers):
            self._drop(each)
        await asyncio.gather(*self._ending)


async def received(pipe: Connection) -> Any:
    """Return the next answer of a worker. Raises EOFError and OSError."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(pipe.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(pipe.fileno())
    # uvloop makes it non-blocking, and a long answer comes in several parts.
    os.set_blocking(pipe.fileno(), True)
    return await loop.run_in_executor(None, pipe.recv)
