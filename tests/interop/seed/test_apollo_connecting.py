"""The section "Connecting" of the Apollo manual, sentence by sentence; more in virtual hosts."""

import pytest

from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop


def test_only_the_guest_of_this_machine_can_connect_by_default(broker: BrokerProcess) -> None:
    """'only the admin user can connect': here guest, from this machine, and no known password"""
    with Wire(broker.port) as wire:
        wire.send("CONNECT", login="guest", passcode="guest")
        assert wire.expect("CONNECTED").headers["user-id"] == "guest"
    with Wire(broker.port) as wire:
        wire.send("CONNECT", login="admin", passcode="password")
        wire.expect("ERROR")
        assert wire.at_end()


def test_the_example_connects_once_there_is_an_admin_with_that_password(
    broker: BrokerProcess,
) -> None:
    """'CONNECT login:admin passcode:password'"""
    command = [DAYBOOK, "user", "add", "admin", "--passcode-stdin", "--data", str(broker.data)]
    command += ["--users-file", f"{broker.directory}/users.toml"]
    nursery.run(command, input="password\n", text=True, check=True, capture_output=True)
    broker.send_signal(1)
    wait_for(lambda: "configuration reloaded" in broker.log_text(), "the reload")
    with Wire(broker.port) as wire:
        wire.write(b"CONNECT\nlogin:admin\npasscode:password\n\n\0")
        answer = wire.expect("CONNECTED")
        assert answer.headers["user-id"] == "admin"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_connected_says_session_host_and_user(shared_broker: BrokerProcess, version: str) -> None:
    """What Apollo adds to CONNECTED: session, host-id and user-id"""
    sessions = set()
    for _ in range(2):
        with Wire(shared_broker.port) as wire:
            wire.send("CONNECT", accept_version=version, host="h")
            headers = wire.expect("CONNECTED").headers
            assert headers["version"] == version
            assert (headers["host-id"], headers["user-id"]) == ("default", "guest")
            sessions.add(headers["session"])
    assert len(sessions) == 2
