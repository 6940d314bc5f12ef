"""Putting a configuration in force: its commands, one after the other, each durable before the
next.

Only one configuration at a time: a second reload waits for the first, and then applies the values
in force by then. Must never know where a configuration comes from.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from daybook.engine.commands import Command
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings import settings
from daybook.errors import DaybookError
from daybook.server.configuration.config import Config
from daybook.server.configuration.host_config import all_names
from daybook.server.configured import commands
from daybook.server.hub.hub import Hub
from daybook.server.process import logs

LOOK_SECONDS: Final = 0.1
"""How often a command that is not durable yet looks for the end of the broker."""

log = logs.logger("configuration")


class StartError(DaybookError):
    """The broker cannot start; the text gives the reason and the remedy."""


class Configuring:
    """Applies configurations to a broker, until `stop` is set."""

    def __init__(self, hub: Hub, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        self._hub: Final = hub
        self._loop: Final = loop
        self._stop: Final = stop
        self._lock: Final = asyncio.Lock()

    async def apply(self, current: Callable[[], Config]) -> None:
        """Apply the current configuration. Raises StartError if a part of it is refused; the parts
        after that are not applied, so no object is deleted then."""
        async with self._lock:
            config = current()
            found = settings.warnings(config.address_settings, config.wildcards.syntax)
            logs.warn_all(log, (*config.warnings, *found))
            if config.foreign.needless:
                log.info(
                    "elements of the configuration are not needed here; `daybook config check"
                    " --all FILE` lists them",
                    elements=len(config.foreign.needless),
                )
            for command in commands(config):
                await self.carry_out(command)
            self._close_on_removed_hosts(config)

    async def carry_out(self, command: Command) -> None:
        """Execute a command of the configuration; an object that exists already is not an error."""
        answered: asyncio.Future[int | Refusal] = self._loop.create_future()

        def answer(result: int | Refusal) -> None:
            if not answered.done():
                answered.set_result(result)

        self._hub.request(command, answer)
        while not answered.done() and not self._stop.is_set():
            await asyncio.wait({answered}, timeout=LOOK_SECONDS)
        if answered.done():
            result = answered.result()
            if isinstance(result, Refusal) and result.code is not Code.ALREADY_EXISTS:
                raise StartError(f"the configuration cannot be put in force: {result.text}")

    def _close_on_removed_hosts(self, config: Config) -> None:
        """Close the connections to virtual hosts that are no longer configured."""
        known = all_names(config.virtual_hosts)
        for connection in list(self._hub.broker.state.connections.values()):
            if connection.host not in known:
                what = f"there is no virtual host '{connection.host}' any more"
                self._hub.close_connection(connection.id, what, "connect to another one")
