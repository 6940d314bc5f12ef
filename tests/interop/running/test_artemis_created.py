"""The configuration that `artemis create` writes, served as it is: its users log in."""

import socket
from pathlib import Path

import pytest

from tests.interop.using import sent
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.brokers.artemis_created import create
from tests.support.process import DAYBOOK, BrokerProcess

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("anonymous", [False, True])
def test_users_of_artemis_log_in(tmp_path: Path, *, anonymous: bool) -> None:
    broker_xml = create(tmp_path / "etc", anonymous=anonymous, host="127.0.0.1")
    text = broker_xml.read_text()
    for port in ("61616", "61613", "5445"):
        text = text.replace(f"127.0.0.1:{port}", "127.0.0.1:0")
    process = BrokerProcess(tmp_path / "etc" / "data", config=text)
    with process.start() as broker:
        with Wire(broker.port) as wire:
            assert wire.connect(login="admin", passcode="password").command == "CONNECTED"
            sent(wire, "/queue/a", b"x")
        with Wire(broker.port) as wire:
            assert wire.connect(login="admin", passcode="wrong").command == "ERROR"
        with Wire(broker.port) as wire:
            answer = wire.connect()
            assert answer.command == ("CONNECTED" if anonymous else "ERROR")
            if anonymous:
                sent(wire, "/queue/b", b"x")
        assert socket.gethostname()
        assert "persistence-enabled" not in broker.log_text()


def test_users_are_imported_beside_a_converted_file(tmp_path: Path) -> None:
    broker_xml = create(tmp_path / "etc")
    done = nursery.run(
        [DAYBOOK, "config", "convert", str(broker_xml)], capture_output=True, check=True, text=True
    )
    assert f"`daybook user import {tmp_path / 'etc'}` takes over 1" in done.stderr
    assert done.stderr.index("you lose this") < done.stderr.index("not needed here: 37 elements")
    data = tmp_path / "data"
    data.mkdir()
    command = [DAYBOOK, "user", "import", str(tmp_path / "etc"), "--data", str(data)]
    first = nursery.run(command, capture_output=True, check=True, text=True)
    assert "took over 1 users" in first.stdout
    again = nursery.run(command, capture_output=True, check=True, text=True)
    assert "user 'admin' exists already and was not changed" in again.stderr
    config = tmp_path / "broker.toml"
    config.write_text(done.stdout)
    checked = nursery.run(
        [DAYBOOK, "config", "check", str(config)], capture_output=True, check=False, text=True
    )
    assert checked.returncode == 0, checked.stderr
