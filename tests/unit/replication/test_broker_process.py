"""The broker's process ends when it must, whatever it does."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from daybook.journal.places import Place
from daybook.replication.brokers.broker_process import BrokerProcess
from daybook.replication.leading import Alive, Closed, Opened, Told, Wrote, boot_time_us

HEAD = (
    "import os, select, signal, sys, time\n"
    "from daybook.journal.places import Place\n"
    "from daybook.replication.leading import BrokerEnd\n"
    "end = BrokerEnd.inherited(os.environ)\n"
    "end.wait()\n"
)
SERVING = HEAD + (
    "end.begin(bytes(16), Place(1, 72), 5)\n"
    "end.wrote(Place(1, 100), 6)\n"
    "def on_durable(lsn): print(lsn, end.may_confirm(), file=open(sys.argv[1], 'a'))\n"
    "end.on_durable = on_durable\n"
    "while True: select.select([end], [], []); end.receive()\n"
)
FINISHING = HEAD + (
    "def finish(number, frame):\n"
    "    if end.may_confirm(): end.closed(Place(1, 200), 8)\n"
    "    os._exit(0)\n"
    "signal.signal(signal.SIGTERM, finish)\n"
    "end.begin(bytes(16), Place(1, 72), 5)\n"
    "end.wrote(Place(1, 100), 6)\n"
    "time.sleep(600)\n"
)
DEAF = HEAD + (
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "end.begin(bytes(16), Place(1, 72), 5)\n"
    "time.sleep(600)\n"
)


class Owner:
    """Keeps the messages of the process, and notices its end."""

    def __init__(self, code: str, *given: str) -> None:
        self.told: list[Told] = []
        self.ended = asyncio.Event()
        self.broker = BrokerProcess(
            [sys.executable, "-c", code, *given], "a", on_told=self.told.append,
            on_ended=self.ended.set,
        )  # fmt: skip
        self.broker.end.lead(3)

    async def opened(self) -> None:
        while not self.told:
            await asyncio.sleep(0.01)
        assert self.told == [Opened(bytes(16), Place(1, 72), 5)]

    async def end(self) -> str:
        await self.ended.wait()
        with pytest.raises(ProcessLookupError):
            os.kill(self.broker.pid, 0)
        return self.broker.how


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


def test_a_broker_says_what_it_wrote_and_hears_what_counts(tmp_path: Path) -> None:
    heard = tmp_path / "heard"

    async def work() -> None:
        owner = Owner(SERVING, str(heard))
        await owner.opened()
        owner.broker.end.hold(boot_time_us() + 60_000_000)
        owner.broker.end.leads()
        owner.broker.end.beat()
        while len(owner.told) < 3:
            await asyncio.sleep(0.01)
        assert set(owner.told[1:]) == {Wrote(Place(1, 100), 6), Alive()}
        owner.broker.end.durable(6)
        while not heard.exists() or heard.read_text() != "6 True\n":
            await asyncio.sleep(0.01)
        owner.broker.stop(30)
        owner.broker.end.durable(7)
        assert await owner.end() == "by signal 15"

    run(work())
    assert "7 True" not in heard.read_text()


def test_a_broker_that_does_not_end_is_killed_in_time() -> None:
    async def work() -> None:
        owner = Owner(DEAF)
        await owner.opened()
        begun = time.monotonic()
        owner.broker.stop(0.3)
        owner.broker.stop(30)
        assert await owner.end() == "by signal 9"
        assert time.monotonic() - begun < 20

    run(work())


def test_a_broker_without_time_left_is_killed_at_once() -> None:
    async def work() -> None:
        owner = Owner(DEAF)
        await owner.opened()
        owner.broker.stop(-1)
        assert await owner.end() == "by signal 9"
        # Again, when it has ended, this does nothing.
        owner.broker.stop(1)
        owner.broker.kill()

    run(work())


def test_a_broker_that_is_stopped_is_killed() -> None:
    async def work() -> None:
        owner = Owner(DEAF)
        await owner.opened()
        os.kill(owner.broker.pid, signal.SIGSTOP)
        owner.broker.stop(0.2)
        assert await owner.end() == "by signal 9"

    run(work())


def test_the_end_of_a_broker_is_told_once() -> None:
    async def work() -> None:
        owner = Owner("import sys; sys.exit(7)")
        assert await owner.end() == "with status 7"

    run(work())


def test_a_broker_that_lets_go_of_its_end_is_killed() -> None:
    async def work() -> None:
        owner = Owner(HEAD + "end.close(); time.sleep(600)")
        assert await owner.end() == "by signal 9"

    run(work())


def _descriptors() -> int:
    # Those of earlier tests are closed now, and not in between.
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_command_that_is_not_there_is_an_error() -> None:
    async def work() -> None:
        before = _descriptors()
        with pytest.raises(FileNotFoundError):
            BrokerProcess(
                ["/nowhere/broker"], "a", on_told=lambda told: None, on_ended=lambda: None
            )
        assert _descriptors() <= before

    run(work())


def test_a_broker_that_is_to_finish_may_confirm_until_it_ends() -> None:
    async def work() -> None:
        owner = Owner(FINISHING)
        await owner.opened()
        owner.broker.end.hold(boot_time_us() + 60_000_000)
        owner.broker.end.leads()
        while Wrote(Place(1, 100), 6) not in owner.told:
            await asyncio.sleep(0.01)
        owner.broker.finish(60)
        assert await owner.end() == "with status 0"
        # Its last words are heard, although it has ended.
        assert owner.told[-1] == Closed(Place(1, 200), 8)

    run(work())


def test_a_broker_that_does_not_finish_is_killed_and_sooner_if_it_must_stop() -> None:
    async def work() -> None:
        owner = Owner(DEAF)
        await owner.opened()
        begun = time.monotonic()
        owner.broker.finish(50)
        owner.broker.stop(0.1)
        owner.broker.finish(50)
        assert await owner.end() == "by signal 9"
        assert time.monotonic() - begun < 30

    run(work())
