"""A connector in one process: name servers that hang, addresses that do not answer, shortages."""

import asyncio
import errno
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daybook.server.configuration.config import load
from daybook.server.configuration.connector_config import Secret
from daybook.server.connectors import connector as module
from daybook.server.connectors.connector import CONNECTING, OPEN, STOPPED, WAITING, Connector
from daybook.server.connectors.line import Surroundings
from daybook.server.connectors.preparing import Prepared
from tests.unit.server.hub.test_hub import Bench

QUICK = ('reconnect-delay = "10ms"', 'reconnect-delay-max = "20ms"', 'connect-timeout = "100ms"')


class Around:
    """The surroundings of a connector, on the loop that runs."""

    def __init__(self, *, is_short: bool = False, users: tuple[str, ...] = ()) -> None:
        self.counted = 0
        admission: Any = SimpleNamespace(
            descriptors=SimpleNamespace(is_short=is_short), count_own=self._count
        )
        bench = Bench()
        self.real = Surroundings(
            bench.hub, admission, asyncio.get_running_loop(), "west",
            now=lambda: bench.now,
            why_not_act=lambda user, host: "" if user in users else f"no {user} on {host}",
        )  # fmt: skip

    def _count(self, change: int) -> None:
        self.counted += change


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    """Run a test with a connector, which is stopped at its end."""

    def with_connector(
        test: Callable[[Connector, Around], Awaitable[None]], *lines: str, **around: Any
    ) -> None:
        path = tmp_path / "broker.toml"
        url = 'url = "amqp://127.0.0.1:9"'
        path.write_text("\n".join(["[[connector]]", 'name = "east"', url, *QUICK, *lines]))
        config = load(path).connectors[0]

        async def main() -> None:
            surroundings = Around(**around)
            connector = Connector(config, (), surroundings.real)
            try:
                await asyncio.wait_for(test(connector, surroundings), 20)
            finally:
                connector.stop("the test is over")
                await asyncio.sleep(0.05)
                surroundings.real.hangups.close()
                assert surroundings.counted == 0

        asyncio.run(main())

    return with_connector


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def addresses_of(*ports: int) -> Callable[[Any], Prepared]:
    found: list[Any] = [(socket.AF_INET, ("127.0.0.1", port)) for port in ports]
    return lambda _: Prepared(found, Secret(""), None)


def test_a_name_server_that_hangs_costs_one_thread(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, begun = threading.Event(), []

    def hang(config: Any) -> Prepared:
        begun.append(config)
        ends.wait(30)
        return Prepared([], Secret(""), None)

    monkeypatch.setattr(module, "prepare", hang)

    async def test(connector: Connector, around: Around) -> None:
        connector.start()
        await until(lambda: connector.failures == 3)
        assert connector.why == "the host has no address yet, after 0.1 s (connect-timeout)"
        assert len(begun) == 1
        ends.set()
        await until(lambda: connector.why == "the host has no address")

    run(test)


def test_all_addresses_are_tried(run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(module, "prepare", addresses_of(9, listener.getsockname()[1]))

        async def test(connector: Connector, around: Around) -> None:
            connector.start()
            await until(lambda: around.counted == 1)
            await until(lambda: connector.failures == 1)
            assert connector.why.startswith("the peer does not open the connection, after 0.1 s")

        run(test)


def test_an_address_that_does_not_answer_leaves_time_for_the_others(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(self: Any, opened: Any, address: Any) -> None:
        await asyncio.sleep(30)

    async def test(connector: Connector, around: Around) -> None:
        monkeypatch.setattr(module, "prepare", addresses_of(1, 2, 3))
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(type(loop), "sock_connect", hang)
        connector.start()
        await until(lambda: connector.failures == 1)
        # Whichever of the two time-outs is first.
        assert "does not answer" in connector.why

    run(test)


@pytest.mark.parametrize(
    ("lines", "around", "why"),
    [
        ((), {"is_short": True}, "no descriptors are left"),
        (('user = "x"',), {"users": ("y",)}, "no x on default (user)"),
        ((), {}, "127.0.0.1: Connection refused"),
    ],
)
def test_what_prevents_a_connection_is_a_reason(
    run: Callable[..., None], lines: tuple[str, ...], around: dict[str, Any], why: str
) -> None:
    async def test(connector: Connector, surroundings: Around) -> None:
        connector.start()
        assert connector.state == CONNECTING
        await until(lambda: connector.failures == 2)
        assert connector.why == why
        assert connector.state in (WAITING, CONNECTING)
        assert surroundings.counted == 0

    run(test, *lines, **around)


def test_without_a_socket_the_next_attempt_comes_later(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EMFILE, "too many")

    async def test(connector: Connector, around: Around) -> None:
        monkeypatch.setattr(module.socket, "socket", fail)
        connector.start()
        await until(lambda: connector.failures == 2)
        assert connector.why == "Too many open files"

    run(test)


class Opened:
    """A connection that is open, as the connector sees it."""

    has_logged_in = True
    peer = None
    lost_by = ""

    def abort(self) -> None:
        pass


@pytest.mark.parametrize(("lasting", "doublings"), [(10.0, 4), (0.0, 1)])
def test_only_an_open_connection_that_lasts_begins_with_the_first_delay(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch, lasting: float, doublings: int
) -> None:
    monkeypatch.setattr(module, "LASTING_SECONDS", lasting)

    async def test(connector: Connector, around: Around) -> None:
        delays: Any = connector._delays
        for _ in range(3):
            delays.next()
        connector.state = CONNECTING
        connector._connection = opened = Opened()  # type: ignore[assignment]
        around.counted = 1
        connector.tick()
        assert connector.state == OPEN
        connector._ended(opened)  # type: ignore[arg-type]
        assert (connector.state, connector.failures) == (WAITING, 1)
        assert delays._doublings == doublings

    run(test)


def test_a_connector_that_is_stopped_tries_nothing_more(run: Callable[..., None]) -> None:
    async def test(connector: Connector, around: Around) -> None:
        stopped: list[int] = []
        connector.start()
        connector.stop("no more", lambda: stopped.append(1))
        assert stopped == [1]
        attempts = connector.attempts
        await asyncio.sleep(0.1)
        assert (connector.state, connector.attempts) == (STOPPED, attempts)

    run(test)
