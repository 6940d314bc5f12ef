"""Work of the disk is done in order, and its errors are reported."""

import asyncio
import threading
import time

from daybook.replication.runner import QUICK_SECONDS, Turns


def test_work_is_done_in_the_order_in_which_it_came() -> None:
    async def work() -> list[str]:
        done: list[str] = []
        finished = asyncio.get_running_loop().create_future()
        turns = Turns(finished.set_exception)
        threads: set[str] = set()

        def slow() -> str:
            threads.add(threading.current_thread().name)
            return "slow"

        turns.do(slow, done.append)
        turns.after(lambda: done.append("after"))
        turns.do(lambda: "quick", done.append)
        # A turn asks for another one, which comes last.
        turns.after(lambda: turns.after(lambda: finished.set_result(None)))
        turns.after(lambda: done.append("last"))
        await finished
        turns.close()
        assert threads
        assert threading.main_thread().name not in threads
        return done

    assert asyncio.run(work()) == ["slow", "after", "quick", "last"]


def test_work_that_fails_is_told_and_nothing_follows_it() -> None:
    async def work() -> None:
        failed = asyncio.get_running_loop().create_future()
        turns = Turns(failed.set_result)
        done: list[object] = []

        def fail() -> None:
            raise OSError("the disk is gone")

        turns.do(fail, done.append)
        turns.do(lambda: 1, done.append)
        assert str(await failed) == "the disk is gone"
        await asyncio.sleep(0.05)
        assert done == []
        turns.close()

    asyncio.run(work())


def test_only_work_with_a_result_says_how_quick_the_disk_is() -> None:
    async def work() -> None:
        turns = Turns(lambda error: None)
        threads: list[str] = []
        done: asyncio.Queue[object] = asyncio.Queue()

        def slow() -> int:
            threads.append(threading.current_thread().name)
            time.sleep(2 * QUICK_SECONDS)
            return 1

        for _ in range(3):
            turns.do(slow, done.put_nowait, is_short=True)
            await done.get()
            turns.do(lambda: None, done.put_nowait, is_short=True)
            await done.get()
        turns.close()
        assert threading.main_thread().name not in threads

    asyncio.run(work())


def test_nothing_is_done_any_more_once_they_are_closed() -> None:
    async def work() -> None:
        turns = Turns(lambda error: None)
        done: list[object] = []
        turns.close()
        turns.do(lambda: 1, done.append)
        turns.after(lambda: done.append(2))
        assert done == []

    asyncio.run(work())
