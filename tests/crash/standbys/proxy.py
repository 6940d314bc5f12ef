"""The network between nodes, where bytes may stand still, or be late.

Each node dials each other one at a port of its own here, so every direction can be blocked alone.
Blocked bytes are not lost to TCP: they stand still, as with a network that drops packets, and new
connections are accepted, but lead nowhere.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

Way = tuple[str, str]


class Network:
    """Runs in a thread of its own. `port_of` returns where a node listens, 0 if it does not."""

    def __init__(self, names: list[str], port_of: Callable[[str], int]) -> None:
        self.names = names
        self.blocked: set[Way] = set()
        self.delay = 0.0
        self.ports: dict[Way, int] = {}
        self._port_of = port_of
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._wait(self._listen())

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self) -> None:
        for source in self.names:
            for target in self.names:
                if source != target:
                    server = await asyncio.start_server(self._serve(source, target), "127.0.0.1", 0)
                    self._servers.append(server)
                    self.ports[source, target] = server.sockets[0].getsockname()[1]

    def _serve(self, source: str, target: str) -> Callable[..., Coroutine[Any, Any, None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # It is cancelled at the end only.
            with suppress(OSError, asyncio.CancelledError):
                await self._pass_on(source, target, reader, writer)
            writer.transport.abort()

        return serve

    async def _pass_on(
        self, source: str, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while {(source, target), (target, source)} & self.blocked:
            await asyncio.sleep(0.02)
        there, back = await asyncio.open_connection("127.0.0.1", self._port_of(target))
        ways = [
            asyncio.ensure_future(self._pump((source, target), reader, back)),
            asyncio.ensure_future(self._pump((target, source), there, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            back.transport.abort()

    async def _pump(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(1 << 16):
            if self.delay:
                await asyncio.sleep(self.delay)
            while way in self.blocked:
                await asyncio.sleep(0.02)
            writer.write(data)
            await writer.drain()

    def close(self) -> None:
        """End the thread and all connections."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Transports that were aborted close in the next turn.
            await asyncio.sleep(0.05)

        self._wait(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()
