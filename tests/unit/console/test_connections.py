"""The connections of browsers: bounded in number and time, also within the handshake of TLS."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from daybook.console import connections
from daybook.console.connections import Connection, Entrance
from daybook.server.network.layers.certificates import Identity, of_console
from tests.support.brokers.certificates import Authority

LIMIT_SECONDS = 60
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})


def maker() -> Callable[[], Connection]:
    config = uvicorn.Config(
        answer, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False
    )
    state = ServerState()
    return lambda: Connection(config, state, {})


class House:
    """An entrance, and what browsers do there."""

    def __init__(self, context: ssl.SSLContext | None, listener: Any = None) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.entrance = Entrance(listener or self.socket, maker(), context)
        # A writer that nobody has is closed.
        self._writers: list[asyncio.StreamWriter] = []

    async def silent(self) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*self.socket.getsockname())
        self._writers.append(writer)
        return reader

    async def ask(self, trusting: ssl.SSLContext | None = None) -> bytes:
        name = "localhost" if trusting is not None else None
        reader, writer = await asyncio.open_connection(
            *self.socket.getsockname(), ssl=trusting, server_hostname=name
        )
        writer.write(REQUEST)
        self._writers.append(writer)
        return await reader.read()

    async def until(self, count: int) -> None:
        while len(self.entrance) != count:
            await asyncio.sleep(0.01)

    async def end(self) -> None:
        self.entrance.close()
        await self.entrance.wait_closed()
        self.socket.close()
        for writer in self._writers:
            writer.close()
        await self.until(0)


def play(loop: Callable[[], asyncio.AbstractEventLoop], scenario: Callable[[], Any]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            await scenario()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(limited())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def context(authority: Authority) -> ssl.SSLContext:
    file = authority.issue("localhost")
    return Identity(of_console(file, file)).context


@pytest.mark.parametrize("loop", LOOPS)
def test_the_oldest_that_says_nothing_makes_room_also_within_its_handshake(
    loop: Any, context: ssl.SSLContext, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 3)

    async def scenario() -> None:
        house = House(context)
        lines = [await house.silent() for _ in range(5)]
        assert [await line.read() for line in lines[:2]] == [b"", b""]
        await house.until(3)
        assert b"served" in await house.ask(authority.trusting())
        assert await lines[2].read() == b""
        await house.until(2)
        await house.end()
        assert [await line.read() for line in lines[3:]] == [b"", b""]

    play(loop, scenario)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_handshake_without_progress_is_given_up(
    loop: Any, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)

    async def scenario() -> None:
        house = House(context)
        assert await (await house.silent()).read() == b""
        assert b"HTTP/1.1 200" not in await house.ask(), "no TLS"
        await house.until(0)
        await house.end()

    play(loop, scenario)


@pytest.mark.parametrize("loop", LOOPS)
def test_without_tls_browsers_are_bounded_alike(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)

    async def scenario() -> None:
        house = House(None)
        lines = [await house.silent() for _ in range(2)]
        assert b"served" in await house.ask()
        assert await lines[0].read() == b""
        await house.until(1)
        monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)
        late = await house.silent()
        assert await late.read() == b""
        await house.until(1)
        await house.silent()
        await house.until(2)
        house.entrance.close()
        await asyncio.sleep(0)
        assert len(house.entrance), "what is connected stays"
        await house.end()

    play(loop, scenario)


class Scarce:
    """A listening socket for which there is no descriptor at first."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.failures = 0

    def fileno(self) -> int:
        return self._listener.fileno()

    def setblocking(self, flag: bool) -> None:
        self._listener.setblocking(flag)

    def accept(self) -> Any:
        if self.failures < 2:
            self.failures += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()


def test_without_descriptors_connections_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "RETRY_SECONDS", 0.05)

    async def scenario() -> None:
        house = House(None)
        house.entrance.close()
        scarce = Scarce(house.socket)
        house.entrance = Entrance(scarce, maker())  # type: ignore[arg-type]
        assert b"served" in await house.ask()
        assert scarce.failures == 2
        await house.end()

    play(asyncio.new_event_loop, scenario)
