"""Logins: users of the file, and the guest until the file has a user."""

import sys

import pytest
import stomp  # type: ignore[import-untyped]
from stomp.exception import ConnectFailedException  # type: ignore[import-untyped]

from tests.interop.wire import Frame, Wire
from tests.support import nursery
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop


def login(broker: BrokerProcess, **credentials: str) -> Frame:
    """The answer to CONNECT."""
    with Wire(broker.port) as wire:
        return wire.connect(**credentials)


def test_a_guest_is_let_in_from_this_machine(broker: BrokerProcess) -> None:
    assert login(broker).command == "CONNECTED"
    assert login(broker, login="guest", passcode="guest").command == "CONNECTED"
    refused = login(broker, login="guest", passcode="wrong")
    assert refused.command == "ERROR"
    assert "wrong" in refused.headers["message"]
    assert login(broker, login="joe", passcode="joe").command == "ERROR"


def test_a_real_user_ends_the_guest(broker: BrokerProcess) -> None:
    with Wire(broker.port) as inside:
        inside.connect()
        add_user(broker, "joe", "secret")
        broker.send_signal(1)
        wait_for(lambda: "configuration reloaded" in broker.log_text(), "the reload")
        (told,) = [each for each in broker.lines() if each["event"] == "configuration reloaded"]
        assert told["changed"] == ["user joe"]
        assert login(broker, login="joe", passcode="secret").command == "CONNECTED"
        assert login(broker, login="joe", passcode="Secret").command == "ERROR"
        assert login(broker, login="guest", passcode="guest").command == "ERROR"
        assert login(broker).command == "ERROR"
        # A user whose login is withdrawn does not stay connected.
        assert "guest is not allowed any more" in inside.expect("ERROR").headers["message"]
    assert broker.stop() == 0
    broker.start()
    assert login(broker, login="joe", passcode="secret").command == "CONNECTED"
    assert login(broker).command == "ERROR"
    assert "secret" not in broker.log_text()


def test_a_client_library_is_told_why(broker: BrokerProcess) -> None:
    heard: list[str] = []

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_error(self, frame: stomp.utils.Frame) -> None:
            heard.append(frame.headers["message"])

    connection = stomp.StompConnection12(
        [("127.0.0.1", broker.port)], reconnect_attempts_max=1, heartbeats=(0, 0)
    )
    connection.set_listener("", Listener())
    with pytest.raises(ConnectFailedException):
        connection.connect("joe", "wrong", wait=True)
    wait_for(lambda: heard, "the reason")
    assert "joe" in heard[0]


def add_user(broker: BrokerProcess, name: str, passcode: str) -> None:
    """`daybook user add`, as an operator would."""
    nursery.run(
        [
            sys.executable, "-m", "daybook", "user", "add", name, "--passcode-stdin",
            "--users-file", str(broker.directory / "users.toml"),
        ],
        input=passcode.encode() + b"\n",
        check=True,
        capture_output=True,
    )  # fmt: skip
