"""Jobs on history: limited in time, memory and number; an error of one is no other's."""

import asyncio
import contextlib
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from daybook.console.console_config import ConsoleError
from daybook.console.jobs import pool as pools
from daybook.console.jobs import worker
from daybook.console.jobs.job_process import JobProcess
from daybook.console.jobs.long_jobs import JobState, LongJob, LongJobs
from daybook.console.jobs.pool import Pool
from daybook.history.reports.report import VERIFY
from daybook.recovery import collector
from tests.support.histories import some_history, write_history


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    """Fork workers from a server that has imported what they need, as the console does."""
    Pool.prepare()


def run(pool: Pool, scenario: Coroutine[Any, Any, None]) -> None:
    async def whole() -> None:
        try:
            await scenario
        finally:
            await pool.close()

    asyncio.run(whole())


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(write_history(tmp_path / "data", some_history(5, 60)))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the temporary files of workers."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    # Its socket would not fit into a folder with a name so long.
    forkserver.ensure_running()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_an_error_is_text_and_the_worker_stays(tmp_path: Path) -> None:
    pool = Pool()

    async def scenario() -> None:
        for _ in range(3):
            with pytest.raises(ConsoleError, match="is not a data directory"):
                await pool.do("span", {"directory": str(tmp_path)})
        assert len(pool._workers) == 1

    run(pool, scenario())


def test_a_job_that_takes_too_long_is_given_up_and_the_next_is_done(tmp_path: Path) -> None:
    pool = Pool(seconds=0.0)

    async def scenario() -> None:
        with pytest.raises(ConsoleError, match="took longer than"):
            await pool.do("span", {"directory": str(tmp_path)})
        assert not pool._workers

    run(pool, scenario())


def test_nobody_waits_beyond_the_limit(tmp_path: Path) -> None:
    pool = Pool()
    count = pools.WORKERS_MAX + pools.WAITING_MAX + 5

    async def scenario() -> None:
        asked = [
            pool.do("span", {"directory": str(tmp_path)}, who=str(number))
            for number in range(count)
        ]
        found = await asyncio.gather(*asked, return_exceptions=True)
        busy = [each for each in found if str(each) == pools.BUSY]
        assert len(busy) == 5
        assert len(pool._workers) == pools.WORKERS_MAX

    run(pool, scenario())


def test_a_user_with_many_jobs_leaves_a_process_to_others(tmp_path: Path) -> None:
    pool = Pool()

    async def scenario() -> None:
        asked = [
            asyncio.create_task(pool.do("span", {"directory": str(tmp_path)}, who="many"))
            for _ in range(50)
        ]
        await asyncio.sleep(0)
        assert len([each for each in asked if not each.done()]) == pools.OF_A_USER_MAX
        assert not pool._places.locked()
        with pytest.raises(ConsoleError, match="is not a data directory"):
            await pool.do("span", {"directory": str(tmp_path)}, who="one")
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(each) for each in found].count(pools.BUSY) == 50 - pools.OF_A_USER_MAX
        assert not pool._turns
        assert pool._waiting == 0

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
        assert not worker.process.is_alive

    run(pool, scenario())


async def goes_on_while_it_ends(
    cleared: threading.Event, monkeypatch: pytest.MonkeyPatch, ended: Callable[[], Awaitable[Any]]
) -> None:
    """Ends a process whose files are removed when the event loop says so, in its next turns."""
    clear = JobProcess._clear

    def slowly(process: JobProcess) -> None:
        assert cleared.wait(20), "the event loop waits for the end of a process"
        clear(process)

    monkeypatch.setattr(JobProcess, "_clear", slowly)
    ending = asyncio.ensure_future(ended())
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not ending.done(), "who ends a process knows when it has left nothing"
    cleared.set()
    await ending


def test_the_event_loop_goes_on_while_a_worker_ends_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool()

    async def scenario() -> None:
        with pytest.raises(ConsoleError, match="is not a data directory"):
            await pool.do("span", {"directory": str(tmp_path)})
        await goes_on_while_it_ends(threading.Event(), monkeypatch, pool.close)
        assert not pool._ending

    run(pool, scenario())


def test_the_event_loop_goes_on_while_a_check_ends_slowly(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, jobs = Pool(), LongJobs()
    data = write_history(tmp_path / "data", some_history(1, 300))

    async def scenario() -> None:
        job = LongJob(VERIFY, "journal verify", "ada")
        jobs.start("data", job, str(data), {"resumes": False, "with_index": False})
        await asyncio.sleep(0)
        assert list(scratch.iterdir())
        await goes_on_while_it_ends(
            threading.Event(), monkeypatch, lambda: jobs.cancel("data", "ada")
        )
        assert job.state is JobState.CANCELLED
        assert not list(scratch.iterdir())
        await jobs.close()

    run(pool, scenario())


FOR_EVER = "SELECT count(*) FROM range(100000000) a(x), range(100000) b(y) WHERE x * y % 7 = 3"
LARGE = """
SELECT max(s) FROM (SELECT repeat('x', 100) || hash(range) AS s FROM range(60000000) ORDER BY s DESC
OFFSET 1)
"""


def test_a_query_that_takes_too_long_is_killed_with_its_files(data: str, scratch: Path) -> None:
    pool = Pool(seconds=2.0)

    async def scenario() -> None:
        with pytest.raises(ConsoleError, match="took longer than"):
            await pool.do("answer", {"directory": data, "sql": FOR_EVER, "most": 1}, holds="sql")
        assert not pool._workers
        assert not list(scratch.iterdir())

    run(pool, scenario())


def test_a_query_has_its_share_of_the_disk_and_leaves_nothing_there(
    data: str, scratch: Path
) -> None:
    pool = Pool(seconds=10.0)

    async def scenario() -> None:
        task = asyncio.create_task(
            pool.do("answer", {"directory": data, "sql": LARGE, "most": 1}, holds="sql")
        )
        sizes = [0]
        while not task.done():
            await asyncio.sleep(0.1)
            found = [path for path in scratch.rglob("*") if path.is_file()]
            with contextlib.suppress(FileNotFoundError):
                sizes.append(sum(path.stat().st_size for path in found))
        with pytest.raises(ConsoleError):
            await task
        assert max(sizes) < 3 << 30

    run(pool, scenario())
    assert not list(scratch.iterdir())


def test_queries_leave_a_worker_to_other_jobs(data: str) -> None:
    pool = Pool()

    async def scenario() -> None:
        arguments = {"directory": data, "sql": FOR_EVER, "most": 1}
        asked = [asyncio.create_task(pool.do("answer", arguments, who=who)) for who in "abc"]
        while not pool._workers:
            await asyncio.sleep(0.01)
        told = await pool.do("moment", {"directory": data, "lsn": 3}, who="d")
        assert told["lsn"] == 3
        assert len(pool._workers) == 2
        assert not any(each.done() for each in asked)
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    run(pool, scenario())


HUNGRY = (
    "SELECT array_agg(repeat('x', 1000) || range) FROM range(10000000)",
    "SELECT repeat('x', 2000000000) || repeat('y', 2000000000)",
    "SELECT list(repeat(range::VARCHAR, 100000)) FROM range(100000)",
    "SELECT repeat('x', 10000000) FROM range(2000)",
    "SELECT range(1000000000)",
    "SELECT string_agg(repeat('x', 1000000), ',') FROM range(10000)",
    "WITH RECURSIVE x AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM x) SELECT max(s) FROM x",
)


@pytest.mark.parametrize("sql", HUNGRY)
def test_a_query_that_needs_too_much_memory_is_an_error(data: str, scratch: Path, sql: str) -> None:
    # Half of what a worker may have: the kernel clears each page. A greedy query gets all of it.
    pool = Pool(seconds=60.0, memory_bytes=pools.MEMORY_BYTES_MAX // 2)

    async def scenario() -> None:
        with pytest.raises(ConsoleError):
            await pool.do("answer", {"directory": data, "sql": sql, "most": 1000})
        told = await pool.do("answer", {"directory": data, "sql": "SELECT 7 AS n", "most": 1})
        assert told["rows"] == [["7"]]

    run(pool, scenario())
    assert not list(scratch.iterdir())


GREEDY = "SELECT * FROM events a, events b, events c ORDER BY random()"


def test_what_a_greedy_query_leaves_in_memory_is_no_burden_of_the_next(
    tmp_path: Path, scratch: Path
) -> None:
    data = str(write_history(tmp_path / "data", some_history(5, 600)))
    # It takes ten seconds of a processor, which others may use as well.
    pool = Pool(seconds=240.0)

    async def scenario() -> None:
        with pytest.raises(ConsoleError, match="Out of Memory"):
            await pool.do("answer", {"directory": data, "sql": GREEDY, "most": 9}, holds="sql")
        assert not pool._workers
        used = set()
        for _ in range(2):
            asked = {"directory": data, "sql": "FROM events", "most": 9}
            assert len((await pool.do("answer", asked, holds="sql"))["rows"]) == 9
            used |= {each.process.id for each in pool._workers}
        assert len(used) == 1, "a worker that has enough memory stays"

    run(pool, scenario())
    assert not list(scratch.iterdir())


WITHOUT_DUCKDB = """
import sys

sys.modules["duckdb"] = None
from daybook.console.jobs import worker

worker.JOBS["answer"](sys.argv[1], "SELECT 1", 1)
"""


def test_without_its_packages_sql_says_how_to_install_them(data: str) -> None:
    # In a process of its own: in this one, other tests have imported them.
    command = [sys.executable, "-c", WITHOUT_DUCKDB, data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.search(r"AskerError: SQL needs duckdb; .* pip install .*duckdb", done.stderr)


HOG = """
import multiprocessing, os, sys
from daybook.console.jobs import worker

ours, theirs = multiprocessing.Pipe()

def tell():
    print(ours.recv(), ours.recv(), flush=True)
    os._exit(0)

def deep():
    deep()

def threads():
    raise RuntimeError("can't start new thread")

def hog():
    return bytearray(1 << 30)

worker.JOBS |= {"small": lambda: 7} | {each.__name__: each for each in (hog, deep, threads, tell)}
for name in (sys.argv[1], "small", "tell"):
    ours.send((name, {}))
worker.serve(theirs, 512 << 20)
"""


@pytest.mark.parametrize(
    ("job", "text"),
    [("hog", worker.NO_MEMORY), ("threads", worker.NO_MEMORY), ("deep", worker.NESTED)],
)
def test_a_job_that_needs_too_much_is_an_error_in_words(job: str, text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", HOG, job], capture_output=True, check=False, text=True
    )
    assert done.stdout == f"{ {'error': text} } {{'result': 7}}\n", done.stderr


LEFT = """
import gc, multiprocessing, os, weakref
from daybook.console.jobs import worker

ours, theirs = multiprocessing.Pipe()
rings = []

class Ring:
    def __init__(self):
        self.ring = self

def leave():
    ring = Ring()
    rings.append(weakref.ref(ring))
    # It is old now: only a look at everything frees it.
    gc.collect()
    raise MemoryError

def left():
    return rings[0]() is not None, gc.get_freeze_count() > 1000, gc.get_threshold()[0]

def tell():
    print(ours.recv(), ours.recv(), flush=True)
    os._exit(0)

worker.JOBS |= {each.__name__: each for each in (leave, left, tell)}
for name in ("leave", "left", "tell"):
    ours.send((name, {}))
worker.serve(theirs, 2 << 30)
"""


def test_a_worker_collects_rarely_and_all_when_memory_was_short() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LEFT], capture_output=True, check=False, text=True
    )
    wanted = False, True, collector.YOUNG
    assert done.stdout == f"{ {'error': worker.NO_MEMORY} } { {'result': wanted} }\n", done.stderr
