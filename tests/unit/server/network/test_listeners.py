"""Acceptors on real sockets of this machine, with a hub that only remembers."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daybook.engine.broker import Broker
from daybook.engine.state.state import State
from daybook.journal.spares import SPARES
from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.configuration.config import load
from daybook.server.hub.peer import WRITE_HIGH_BYTES, Peer
from daybook.server.network.admission import Admission, Limits
from daybook.server.network.entrances import Entrances
from daybook.server.network.listeners import Acceptor
from daybook.server.network.onlookers import Onlookers
from daybook.server.network.peer_socket import Connection
from daybook.server.process.descriptors import Descriptors
from daybook.server.users.sasl import Mechanisms
from daybook.server.users.users import Users
from tests.support.brokers.certificates import Authority

NO_SIGHT: Any = None


class RememberingHub:
    """The calls of the shell to the hub."""

    def __init__(self) -> None:
        self.broker = Broker(State())
        self.mechanisms = Mechanisms(Users(""))
        self.events: list[tuple[str, Any]] = []
        self.peers: list[Peer] = []
        self.secret = b""

    def opened(self, peer: Peer) -> None:
        self.peers.append(peer)
        self.events.append(("opened", peer.caller.is_loopback))

    def received(self, peer: Peer, data: bytes) -> None:
        self.events.append(("received", data))

    def drained(self, peer: Peer) -> None:
        self.events.append(("drained", None))

    def lost(self, peer: Peer) -> None:
        self.events.append(("lost", None))


def configuration(**values: Any) -> AcceptorConfig:
    acceptor = load(None, [], ["stomp://127.0.0.1:0"]).acceptors[0]
    return msgspec.structs.replace(acceptor, **values)


@pytest.fixture(autouse=True)
def no_spares() -> Iterator[None]:
    """Leave the process without the descriptors that a broker holds in reserve."""
    yield
    SPARES.release()


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def listen(hub: Any, config: AcceptorConfig, *, is_full: bool = False) -> Acceptor:
    descriptors = Descriptors(lambda: 0 if is_full else 100)
    admission = Admission(descriptors, lambda: Limits(-1, 100, 100), lambda: 1)
    acceptor = Acceptor(
        Entrances(hub, Onlookers(NO_SIGHT, clock=lambda: 1, schedule=lambda: None), "test"),
        config,
        admission,
    )
    await acceptor.bind()
    await acceptor.start()
    assert acceptor.urls == f"stomp{'s' * config.tls}://127.0.0.1:{acceptor.port}"
    return acceptor


def test_bytes_and_ends_reach_the_hub() -> None:
    async def scenario() -> None:
        hub = RememberingHub()
        acceptor = await listen(hub, configuration())
        reader, writer = await asyncio.open_connection("127.0.0.1", acceptor.port)
        writer.write(b"hello")
        await until(lambda: len(hub.events) == 2)
        assert hub.events == [("opened", True), ("received", b"hello")]
        assert len(acceptor.connections) == 1
        hub.peers[0].transport.write(b"bye")
        hub.peers[0].transport.close(0)
        assert await reader.read() == b"bye"
        await until(lambda: hub.events[-1] == ("lost", None))
        assert not acceptor.connections
        writer.close()
        acceptor.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize(("most", "is_full"), [(0, False), (100, True)])
def test_too_many_are_told_so(most: int, is_full: bool) -> None:
    async def scenario() -> None:
        hub = RememberingHub()
        acceptor = await listen(hub, configuration(max_connections=most), is_full=is_full)
        reader, writer = await asyncio.open_connection("127.0.0.1", acceptor.port)
        answer = await reader.read()
        assert answer.startswith(b"ERROR\nmessage:")
        assert b"max-connections" in answer
        assert hub.events == []
        writer.close()
        acceptor.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))


REQUEST = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.mark.parametrize("said", [b"", b"hello", REQUEST, REQUEST + b"\x82\x81\0\0\0\0x", b"\x16x"])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_nothing_is_left_of_a_connection(tmp_path: Path, said: bytes, is_encrypted: bool) -> None:
    """Without a collection of garbage, which of old objects is rare."""

    async def scenario() -> None:
        hub = RememberingHub()
        authority = Authority(tmp_path)
        certificate = str(authority.issue("localhost"))
        config = configuration(tls=is_encrypted, certificate=certificate)
        acceptor = await listen(hub, config)
        context = authority.trusting() if is_encrypted else None
        name = "localhost" if is_encrypted else None
        _, writer = await asyncio.open_connection(
            "127.0.0.1", acceptor.port, ssl=context, server_hostname=name
        )
        writer.write(said)
        await until(lambda: hub.peers)
        await asyncio.sleep(0.1)
        left = [weakref.ref(each) for each in acceptor.connections]
        assert len(left) == 1
        writer.transport.abort()
        await until(lambda: not acceptor.connections)
        hub.peers.clear()
        hub.events.clear()
        # Timers of a connection that failed end after a while.
        await until(lambda: not any(ref() for ref in left))
        acceptor.stop()

    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(scenario(), 20))
    finally:
        gc.enable()


class Unready:
    """The view of onlookers while a broker starts."""

    def ending(self) -> str:
        return ""

    def unready(self) -> str:
        return "starting"


async def watched(**values: Any) -> Acceptor:
    config = load(None, [], ["http://127.0.0.1:0"]).acceptors[0]
    config = msgspec.structs.replace(config, **values)
    loop = asyncio.get_running_loop()
    onlookers: Onlookers
    monitoring: Any = Unready()
    onlookers = Onlookers(
        monitoring, clock=lambda: 1_000_000, schedule=lambda: loop.call_soon(onlookers.step)
    )
    # Admission has room for nobody: those who look on are not counted there.
    admission = Admission(Descriptors(lambda: 0), lambda: Limits(1, 1, 1), lambda: 1)
    hub: Any = RememberingHub()
    acceptor = Acceptor(Entrances(hub, onlookers, "test"), config, admission)
    await acceptor.bind()
    await acceptor.start()
    assert not acceptor.entrance.logs_in
    return acceptor


READY = b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_who_looks_on_is_answered_although_nobody_else_may_connect() -> None:
    async def scenario() -> None:
        acceptor = await watched()
        reader, writer = await asyncio.open_connection("127.0.0.1", acceptor.port)
        for _ in range(3):
            writer.write(READY)
            assert await reader.readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
            assert (await reader.readuntil(b"starting\n")).startswith(b"content-type: text/plain")
        assert acceptor.figures == ("http", "http", 1)
        writer.close()
        await until(lambda: not acceptor.connections)
        acceptor.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_oldest_who_looks_on_makes_room_for_the_newest() -> None:
    async def scenario() -> None:
        acceptor = await watched(max_connections=2)
        ends = []
        for number in range(5):
            ends.append(await asyncio.open_connection("127.0.0.1", acceptor.port))
            await until(lambda number=number: len(acceptor.connections) == min(number + 1, 2))
            ends[-1][1].write(READY)
            assert (await ends[-1][0].readline()).startswith(b"HTTP/1.1 503")
        for reader, _ in ends[:3]:
            rest = b""
            with contextlib.suppress(ConnectionError):
                rest = await reader.read()
            assert rest.endswith(b"starting\n") or not rest
        ends[4][1].write(READY)
        await ends[4][0].readuntil(b"starting\n")
        assert b"HTTP/1.1 503" in await ends[4][0].readuntil(b"starting\n")
        for _, writer in ends:
            writer.close()
        acceptor.close_all()
        acceptor.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def who_makes_room(there: list[str], newest: str) -> int:
    """Return which of the connections from these addresses makes room for one more."""

    async def scenario() -> int:
        acceptor = await watched(max_connections=len(there))
        ends = []
        for count, host in enumerate([*there, newest], 1):
            ends.append(
                await asyncio.open_connection("127.0.0.1", acceptor.port, local_addr=(host, 0))
            )
            await until(lambda count=count: len(acceptor.connections) == min(count, len(there)))
        names = [writer.get_extra_info("sockname") for _, writer in ends]
        await until(lambda: any(reader.at_eof() or reader.exception() for reader, _ in ends))
        gone = [bool(reader.at_eof() or reader.exception()) for reader, _ in ends]
        for _, writer in ends:
            writer.close()
        acceptor.close_all()
        acceptor.stop()
        assert sum(gone) == 1, names
        return gone.index(True)

    return asyncio.run(asyncio.wait_for(scenario(), 30))


def test_reading_stops_while_it_is_paused() -> None:
    async def scenario() -> None:
        hub = RememberingHub()
        acceptor = await listen(hub, configuration())
        _, writer = await asyncio.open_connection("127.0.0.1", acceptor.port)
        await until(lambda: hub.peers)
        transport = hub.peers[0].transport
        transport.pause_reading()
        writer.write(b"later")
        await writer.drain()
        for _ in range(20):
            await asyncio.sleep(0)
        assert hub.events == [("opened", True)]
        transport.resume_reading()
        await until(lambda: ("received", b"later") in hub.events)
        acceptor.close_all()
        await until(lambda: hub.events[-1] == ("lost", None))
        # A transport that is gone takes calls and does nothing.
        transport.write(b"x")
        transport.pause_reading()
        transport.resume_reading()
        writer.close()
        acceptor.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("room", [4096, 1 << 30])
def test_a_buffer_that_fills_the_room_tells_when_it_has_drained(room: int) -> None:
    """Its limit is below the room, so that a stop of deliveries always ends."""

    async def scenario() -> None:
        hub = RememberingHub()
        acceptor = await listen(
            hub, configuration(speaks={"stomp": {**configuration().options, "buffer-size": room}})
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", acceptor.port)
        await until(lambda: hub.peers)
        connection = hub.peers[0].transport
        assert isinstance(connection, Connection)
        size = 32 << 20
        connection.write(bytes(size))
        assert connection.buffered() > min(room, WRITE_HIGH_BYTES) // 2
        assert len(await reader.readexactly(size)) == size
        await until(lambda: ("drained", None) in hub.events)
        assert connection.buffered() < room
        connection.close(0)
        writer.close()
        acceptor.stop()

    asyncio.run(asyncio.wait_for(scenario(), 30))
