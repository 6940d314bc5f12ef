"""Starts that fail: a clear sentence, exit code 1, no traceback, and nothing left behind."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.journal.segments.stat import stat
from daybook.recovery.readonly import journal_disk
from tests.support.process import BrokerProcess, started_by


@pytest.fixture(scope="module", autouse=True)
def _forked() -> Iterator[None]:
    """Let the nursery fork the brokers: they refuse after their start."""
    yield from started_by(sys.modules[__name__], ())


def test_a_busy_port(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broker = BrokerProcess(tmp_path / "d", listen=[f"stomp://127.0.0.1:{port}"])
        said = broker.refuse()
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "--listen stomp://HOST:PORT" in said
    # A supervisor that tries again and again does not make history grow.
    assert stat(journal_disk(broker.data)).events == 0


def test_a_journal_deleted_under_the_broker_stops_it(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "d") as broker:
        broker.start()
        shutil.rmtree(broker.data / "journal")
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
            assert client.recv(4096) == b"", "nothing may be said that is not on disk"
        assert broker.wait() == 1
        assert "deleted under the broker" in broker.log_text()


def test_an_address_that_is_not_of_this_machine(tmp_path: Path) -> None:
    broker = BrokerProcess(
        tmp_path / "d",
        settings=["acceptor.allow-cleartext=true"],
        listen=["stomp://192.0.2.1:61613"],
    )
    said = broker.refuse()
    assert "cannot listen on 192.0.2.1:61613" in said


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("in the way")
    said = BrokerProcess(tmp_path / "d").refuse()
    assert str(tmp_path / "d") in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o500)
    said = BrokerProcess(tmp_path / "d").refuse()
    assert str(tmp_path / "d") in said


def test_a_data_directory_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broker = BrokerProcess(tmp_path / "d", data=tmp_path / "file" / "d")
    assert str(tmp_path / "file") in broker.refuse()


@pytest.mark.parametrize(
    "text",
    ["[users]\njoe = 'no hash'\n", "not toml at all [", "", "[people]\n", b"\xff\xfe"],
    ids=["hash", "toml", "empty", "section", "bytes"],
)
def test_a_damaged_users_file(tmp_path: Path, text: str | bytes) -> None:
    """Taken for a file without users it would let guests in."""
    directory = tmp_path / "d"
    directory.mkdir()
    content = text if isinstance(text, bytes) else text.encode()
    (directory / "users.toml").write_bytes(content)
    said = BrokerProcess(directory).refuse()
    assert "users.toml" in said


def test_settings_that_cannot_be_put_in_force(tmp_path: Path) -> None:
    config = (
        '[[queue]]\nname = "q"\naddress = "a"\n[[address]]\nname = "b"\n'
        'routing-types = ["anycast"]\n[[queue]]\nname = "m"\naddress = "b"\nrouting-type = '
        '"multicast"\n[[queue]]\nname = "x::y"\n'
    )
    broker = BrokerProcess(tmp_path / "d", config=config)
    broker.launch()
    assert broker.wait() in (1, 2)
    assert "x::y" in broker.log_text()
    assert "Traceback" not in broker.log_text()


def test_an_unknown_key_is_bad_use(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "d", config="nonsense = 1\n")
    broker.launch()
    assert broker.wait() == 2
    assert "nonsense" in broker.log_text()
    assert "Traceback" not in broker.log_text()
