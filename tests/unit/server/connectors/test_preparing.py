"""A thread finds the addresses and files for a connection, or the reason why there are none."""

import asyncio
import threading
from pathlib import Path

import pytest

from daybook.server.configuration.config import load
from daybook.server.configuration.connector_config import ConnectorConfig
from daybook.server.connectors import preparing
from daybook.server.connectors.preparing import NotPrepared, in_thread, passcode_of, prepare
from tests.support.brokers.certificates import Authority


def config(folder: Path, url: str, *lines: str) -> ConnectorConfig:
    path = folder / "broker.toml"
    path.write_text("\n".join(["[[connector]]", 'name = "a"', f'url = "{url}"', *lines]))
    return load(path).connectors[0]


def with_file(folder: Path) -> ConnectorConfig:
    return config(folder, "amqp://h", 'login = "me"', f'passcode-file = "{folder}/p"')


def test_all_addresses_of_a_host_are_found_once(tmp_path: Path) -> None:
    found = prepare(config(tmp_path, "amqp://localhost:5673"))
    assert {address[:2] for _, address in found.addresses} >= {("127.0.0.1", 5673)}
    assert len(set(found.addresses)) == len(found.addresses)
    assert found.context is None


def test_a_context_of_tls_checks_the_peer(tmp_path: Path) -> None:
    ca = Authority(tmp_path).ca
    found = prepare(config(tmp_path, "amqps://localhost", f'trusted-certificates = "{ca}"'))
    assert found.context is not None
    assert found.context.check_hostname
    assert found.context.verify_mode.name == "CERT_REQUIRED"


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 70])
def test_a_host_without_an_address_is_a_reason(tmp_path: Path, host: str) -> None:
    with pytest.raises(NotPrepared, match=f"the host '{host}' has no address: "):
        prepare(config(tmp_path, f"amqp://{host}"))


def test_the_passcode_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    for text in ("sesame", "sesame\n", "sesame\r\nmore\n"):
        (tmp_path / "p").write_text(text, newline="")
        assert passcode_of(with_file(tmp_path)).reveal() == "sesame"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"", "its first line is empty"),
        (b"\nx", "its first line is empty"),
        (b"\xff", "is not UTF-8 text"),
        (b"x" * 5000, "its first line is longer than 4,096 bytes"),
    ],
)
def test_a_bad_passcode_file_is_a_reason(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "p").write_bytes(content)
    with pytest.raises(NotPrepared, match=said):
        passcode_of(with_file(tmp_path))


def test_work_in_a_thread_does_not_hold_up_the_loop() -> None:
    may_end = threading.Event()

    async def run() -> int:
        future = in_thread("test", lambda: may_end.wait(10) and 7)
        await asyncio.sleep(0)
        assert not future.done()
        may_end.set()
        return int(await future)

    assert asyncio.run(run()) == 7


def test_errors_of_a_thread_are_those_of_its_future(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NotPrepared("no")

    async def run() -> None:
        with pytest.raises(NotPrepared, match="no"):
            await in_thread("test", fail)

    asyncio.run(run())

    class NoThread:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(preparing.threading, "Thread", NoThread)

    async def run_without() -> None:
        with pytest.raises(NotPrepared, match="can't start new thread"):
            await in_thread("test", fail)

    asyncio.run(run_without())
