"""The end of sockets that nobody reads is noticed, once, and only if somebody asked."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest

from daybook.server.network.hangups import Hangups

SECONDS = 20.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection; the second is the peer's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with ours, peer:
        yield ours, peer


def run(scenario: Callable[[Hangups], Awaitable[None]]) -> None:
    """Run a scenario with a watcher that is closed at the end."""

    async def whole() -> None:
        hangups = Hangups(asyncio.get_running_loop())
        try:
            await scenario(hangups)
        finally:
            hangups.close()

    asyncio.run(whole())


@pytest.mark.parametrize("how", ["close", "half", "reset"])
def test_an_end_is_noticed_although_there_is_unread_input(
    how: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, peer = pair

    async def scenario(hangups: Hangups) -> None:
        gone = asyncio.Event()
        hangups.watch(ours.fileno(), gone.set)
        peer.sendall(b"unread")
        if how == "half":
            peer.shutdown(socket.SHUT_WR)
        elif how == "reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            peer.close()
        else:
            peer.close()
        await asyncio.wait_for(gone.wait(), SECONDS)

    run(scenario)


def test_input_alone_is_no_end(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, peer = pair

    async def scenario(hangups: Hangups) -> None:
        calls: list[str] = []
        gone = asyncio.Event()
        hangups.watch(ours.fileno(), gone.set)
        hangups.watch(ours.fileno(), lambda: calls.append("twice"))
        peer.sendall(b"unread")
        assert ours.recv(100, socket.MSG_PEEK) == b"unread"
        hangups._look()
        assert not gone.is_set()
        peer.close()
        await asyncio.wait_for(gone.wait(), SECONDS)
        hangups._look()
        assert calls == []

    run(scenario)


def test_what_is_forgotten_or_closed_is_not_told_of(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, peer = pair

    async def scenario(hangups: Hangups) -> None:
        calls: list[str] = []
        hangups.watch(ours.fileno(), lambda: calls.append("forgotten"))
        hangups.forget(ours.fileno())
        hangups.forget(ours.fileno())
        peer.close()
        assert ours.recv(1) == b""
        hangups._look()
        assert calls == []
        # A descriptor that was closed meanwhile is let go of without a word.
        hangups.watch(ours.fileno(), lambda: calls.append("closed"))
        number = ours.detach()
        socket.socket(fileno=number).close()
        hangups.forget(number)
        hangups._look()
        assert calls == []

    run(scenario)
