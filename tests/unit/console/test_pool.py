"""Jobs on history: limited in time, memory and number; an error of one is no other's."""

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from daybook.console.console_config import ConsoleError
from daybook.console.jobs import pool as pools
from daybook.console.jobs import worker
from daybook.console.jobs.pool import Pool


def run(pool: Pool, scenario: Coroutine[Any, Any, None]) -> None:
    async def whole() -> None:
        try:
            await scenario
        finally:
            pool.close()

    asyncio.run(whole())


def test_an_error_is_text_and_the_worker_stays(tmp_path: Path) -> None:
    pool = Pool()

    async def scenario() -> None:
        for _ in range(3):
            with pytest.raises(ConsoleError, match="is not a data directory"):
                await pool.do("span", {"directory": str(tmp_path)})
        assert len(pool._workers) == 1

    run(pool, scenario())


def test_a_job_that_takes_too_long_is_given_up_and_the_next_is_done(tmp_path: Path) -> None:
    pool = Pool(seconds=0.001)

    async def scenario() -> None:
        with pytest.raises(ConsoleError, match="took longer than"):
            await pool.do("span", {"directory": str(tmp_path)})
        assert not pool._workers

    run(pool, scenario())


def test_nobody_waits_beyond_the_limit(tmp_path: Path) -> None:
    pool = Pool()
    count = pools.WORKERS_MAX + pools.WAITING_MAX + 5

    async def scenario() -> None:
        asked = [pool.do("span", {"directory": str(tmp_path)}) for _ in range(count)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        busy = [each for each in found if str(each) == pools.BUSY]
        assert len(busy) == 5
        assert len(pool._workers) == pools.WORKERS_MAX

    run(pool, scenario())


def test_a_job_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    pool = Pool()

    async def scenario() -> None:
        task = asyncio.create_task(pool.do("span", {"directory": str(tmp_path)}))
        while not pool._workers:
            await asyncio.sleep(0)
        worker = pool._workers[0]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not pool._workers
        assert not worker.process.is_alive()

    run(pool, scenario())


HOG = """
import multiprocessing, os
from daybook.console.jobs import worker

ours, theirs = multiprocessing.Pipe()

def tell():
    print(ours.recv(), ours.recv(), flush=True)
    os._exit(0)

worker.JOBS |= {"hog": lambda: bytearray(1 << 30), "small": lambda: 7, "tell": tell}
for name in ("hog", "small", "tell"):
    ours.send((name, {}))
worker.serve(theirs, 512 << 20)
"""


def test_a_job_that_needs_too_much_memory_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", HOG], capture_output=True, check=False, text=True
    )
    assert done.stdout == f"{ {'error': worker.NO_MEMORY} } {{'result': 7}}\n", done.stderr
