"""Everything that lives as long as a console does: brokers, sessions, samples, and workers."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from starlette.requests import Request

from daybook.console.brokers import Broker
from daybook.console.console_config import ConsoleConfig
from daybook.console.hosts import Hosts
from daybook.console.jobs.long_jobs import LongJobs
from daybook.console.jobs.pool import Pool
from daybook.console.samples import CONSUMER_COUNTERS, QUEUE_COUNTERS, Rates, Samples
from daybook.console.sessions import Session, Sessions

TICK_SECONDS: Final = 1.0


def cookie_of(request: Request) -> str:
    """Return the name of the cookie of a session. Browsers send a cookie to all ports of a host, so
    the name has the port: another console on the host keeps its own sessions."""
    return f"daybook-{request.scope['server'][1]}"


class Console:
    """Everything that lives as long as the console does."""

    def __init__(self, config: ConsoleConfig) -> None:
        self.config: Final = config
        self.hosts: Final = Hosts(config)
        self.brokers: Final = {place.name: Broker(place) for place in config.places}
        self.sessions: Final = Sessions(time.monotonic)
        self.pool: Final = Pool()
        self.rates_of_queues: Final = {name: Rates(QUEUE_COUNTERS) for name in self.brokers}
        self.rates_of_consumers: Final = {name: Rates(CONSUMER_COUNTERS) for name in self.brokers}
        self.long_jobs: Final = LongJobs()
        self.samples: Final = {
            name: Samples(broker)
            for name, broker in self.brokers.items()
            # A broker elsewhere is asked with the token of a user only, so nobody samples it.
            if broker.directory is not None
        }

    def session_of(self, request: Request, *, uses: bool = True) -> Session | None:
        """Return the session of a request, None if there is none."""
        cookie = request.cookies.get(cookie_of(request), "")
        return self.sessions.find(cookie, uses=uses) if cookie else None

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Sample and tidy up for as long as this is open; then end everything."""
        tasks = [
            asyncio.create_task(work)
            for each in self.samples.values()
            for work in (
                each.run(),
                each.watch_reports(),
                each.watch_starts(partial(self._crash_of, each.broker)),
            )
        ]
        tasks.append(asyncio.create_task(self._tick()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.long_jobs.close()
            await self.pool.close()
            for broker in self.brokers.values():
                broker.close()

    async def _crash_of(self, broker: Broker) -> dict[str, Any]:
        """Ask the journal for the crash before the newest start of a broker. Raises
        ConsoleError."""
        asked = {"directory": str(broker.directory)}
        found: dict[str, Any] = await self.pool.do("crash", asked, who=f"{broker.name}: its start")
        return found

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.pool.tick()
