"""A broker waits for the lead of its node, and is replaced when it ends or hangs."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from daybook.replication.brokers.broker_process import BrokerProcess
from daybook.replication.brokers.warm_broker import WarmBroker, WarmPatience
from daybook.replication.leading import Opened, Told

HEAD = (
    "import os, signal, sys, time\n"
    "from daybook.journal.places import Place\n"
    "from daybook.replication.leading import BrokerEnd\n"
    "end = BrokerEnd.inherited(os.environ)\n"
)
LEADING = HEAD + "end.wait()\nend.begin(bytes(16), Place(1, 72), end.epoch)\ntime.sleep(600)\n"
BROKEN = "import sys; sys.exit(3)"
NEVER = "import time; time.sleep(600)"
SECOND = 1_000_000


class Owner:
    """A node that follows; its clock is set by the test."""

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)
        self.started = 0
        self.notices: list[str] = []
        self.now = 0
        self.warm = WarmBroker(
            self.start, self.notices.append, WarmPatience(silence=5 * SECOND, start=9 * SECOND)
        )

    def start(self) -> BrokerProcess:
        self.started += 1
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        command = [sys.executable, "-c", code] if code else ["/nowhere/broker"]
        return BrokerProcess(command, "a", on_told=lambda _: None, on_ended=lambda: None)

    async def wait(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.warm.look(self.now)
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        broker = self.warm._broker
        self.warm.stop()
        assert self.warm.pid is None
        async with asyncio.timeout(60):
            while broker is not None and not broker.has_ended:
                await asyncio.sleep(0.005)

    async def prepared(self) -> int:
        await self.wait(lambda: self.warm.is_prepared)
        assert self.warm.pid is not None
        return self.warm.pid


def test_a_broker_that_waited_leads_and_is_not_used_again() -> None:
    async def work() -> None:
        owner = Owner(LEADING)
        pid = await owner.prepared()
        told: list[Told] = []
        ended = asyncio.Event()
        broker = owner.warm.take(told.append, ended.set)
        assert broker.pid == pid
        broker.end.lead(8)
        async with asyncio.timeout(60):
            while not told:
                await asyncio.sleep(0.005)
        assert [each.lsn for each in told if isinstance(each, Opened)] == [8]
        broker.kill()
        await asyncio.wait_for(ended.wait(), 60)
        assert await owner.prepared() != pid
        assert owner.notices == []
        await owner.stop()

    asyncio.run(work())


def test_without_a_broker_that_waited_one_is_started() -> None:
    async def work() -> None:
        owner = Owner(LEADING)
        ended = asyncio.Event()
        broker = owner.warm.take(lambda told: None, ended.set)
        assert owner.started == 1
        broker.kill()
        await asyncio.wait_for(ended.wait(), 60)

    asyncio.run(work())


def test_a_broker_that_ends_is_replaced_after_pauses_that_grow() -> None:
    async def work() -> None:
        owner = Owner(BROKEN, "", BROKEN, LEADING)
        await owner.wait(lambda: len(owner.notices) == 1)
        assert "has ended with status 3; there is another one in 1 s" in owner.notices[0]
        owner.now += SECOND - 1
        owner.warm.look(owner.now)
        assert owner.started == 1
        owner.now += 1
        await owner.wait(lambda: len(owner.notices) == 2)
        assert "cannot be started" in owner.notices[1]
        assert "in 2 s" in owner.notices[1]
        owner.now += 2 * SECOND
        await owner.wait(lambda: len(owner.notices) == 3)
        owner.now += 4 * SECOND
        pid = await owner.prepared()
        # One that was prepared was worth its while: the next pause is short again.
        os.kill(pid, signal.SIGKILL)
        await owner.wait(lambda: len(owner.notices) == 4)
        assert "by signal 9; there is another one in 1 s" in owner.notices[3]
        await owner.stop()

    asyncio.run(work())


def test_a_broker_that_hangs_is_replaced() -> None:
    async def work() -> None:
        owner = Owner(LEADING)
        pid = await owner.prepared()
        os.kill(pid, signal.SIGSTOP)
        for _ in range(6):
            owner.now += SECOND
            owner.warm.look(owner.now)
        await owner.wait(lambda: len(owner.notices) == 2)
        assert "does not answer" in owner.notices[0]
        owner.now += SECOND
        assert await owner.prepared() != pid
        await owner.stop()

    asyncio.run(work())


def test_a_broker_that_is_never_prepared_is_replaced() -> None:
    async def work() -> None:
        owner = Owner(NEVER, LEADING)
        owner.warm.look(owner.now)
        for _ in range(9):
            owner.now += SECOND
            owner.warm.look(owner.now)
        await owner.wait(lambda: len(owner.notices) == 2)
        owner.now += SECOND
        await owner.prepared()
        await owner.stop()

    asyncio.run(work())


def test_a_node_that_stood_still_does_not_blame_its_broker() -> None:
    async def work() -> None:
        owner = Owner(LEADING)
        pid = await owner.prepared()
        owner.now += 600 * SECOND
        owner.warm.look(owner.now)
        assert await owner.prepared() == pid
        assert owner.notices == []
        await owner.stop()

    asyncio.run(work())
