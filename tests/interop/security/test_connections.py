"""Listing and closing connections, and users that were removed."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with the users joe and ann."""
    with BrokerProcess(tmp_path / "data") as process:
        for login in ("joe", "ann"):
            user(process, "add", login, "--passcode-stdin", passcode="x")
        yield process.start()


def user(broker: BrokerProcess, *arguments: str, passcode: str = "") -> None:
    """`daybook user`, as an operator would."""
    file = str(broker.directory / "users.toml")
    nursery.run(
        [sys.executable, "-m", "daybook", "user", *arguments, "--users-file", file],
        input=passcode.encode() + b"\n",
        check=True,
        capture_output=True,
    )


def daybook(broker: BrokerProcess, *arguments: str, code: int = 0) -> str:
    """Run a command; return what it printed."""
    command = [
        sys.executable,
        "-m",
        "daybook",
        *arguments,
        "--data",
        str(broker.directory),
    ]
    done = nursery.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == code, done
    return done.stdout + done.stderr


def listed(broker: BrokerProcess, what: str) -> list[dict[str, Any]]:
    """`daybook connection list` or `daybook consumer list`."""
    rows: list[dict[str, Any]] = json.loads(daybook(broker, what, "list", "--json"))
    return rows


def test_connections_and_consumers_are_listed_and_closed(broker: BrokerProcess) -> None:
    with Wire(broker.port) as joe, Wire(broker.port) as ann, Wire(broker.port) as other:
        for wire, login in ((joe, "joe"), (ann, "ann"), (other, "joe")):
            assert wire.connect(login=login, passcode="x").command == "CONNECTED"
        joe.send("SUBSCRIBE", destination="/queue/a", id=1, ack="client", receipt=1)
        joe.expect("RECEIPT")
        first, second, third = listed(broker, "connection")
        assert [row["user"] for row in (first, second, third)] == ["joe", "ann", "joe"]
        assert first["consumers"] == 1
        assert first["peer"] == f"127.0.0.1:{joe.socket.getsockname()[1]}"
        [consumer] = listed(broker, "consumer")
        assert (consumer["queue"], consumer["user"]) == ("a", "joe")
        assert consumer["connection"] == first["connection"]
        assert "ann" in daybook(broker, "connection", "list")
        assert "ack mode" in daybook(broker, "consumer", "list")

        said = daybook(broker, "connection", "close", str(third["connection"]))
        assert "closed 1 connection" in said
        assert "administrator" in other.expect("ERROR").headers["message"]
        assert "closed 1 connection" in daybook(broker, "connection", "close", "--user", "ann")
        assert "administrator" in ann.expect("ERROR").headers["message"]
        peer = ["--peer", "127.0.0.1", "--user", "nobody"]
        assert "no connection matches" in daybook(broker, "connection", "close", *peer, code=1)
        assert "name connections" in daybook(broker, "connection", "close", code=2)
        daybook(broker, "connection", "close", "--peer", "127.0.0.1")
        joe.expect("ERROR")
    wait_for(lambda: listed(broker, "connection") == [], "the ends")
    assert broker.stop() == 0
    assert "no broker runs" in daybook(broker, "connection", "list", code=1)


def test_a_user_that_was_removed_does_not_stay_in(broker: BrokerProcess) -> None:
    with Wire(broker.port) as joe, Wire(broker.port) as ann:
        for wire, login in ((joe, "joe"), (ann, "ann")):
            assert wire.connect(login=login, passcode="x").command == "CONNECTED"
        user(broker, "remove", "joe")
        broker.send_signal(1)
        assert "'joe' was removed" in joe.expect("ERROR").headers["message"]
        ann.send("SEND", b"x", destination="/queue/a", receipt=1)
        ann.expect("RECEIPT")
        # Another passcode is another user; with the last one gone, the guest stays out.
        user(broker, "remove", "ann")
        user(broker, "add", "ann", "--passcode-stdin", passcode="y")
        broker.send_signal(1)
        assert "another passcode" in ann.expect("ERROR").headers["message"]
    user(broker, "remove", "ann")
    broker.send_signal(1)
    wait_for(lambda: "has no users, so every login is refused" in broker.log_text(), "the reload")
    with Wire(broker.port) as guest:
        assert guest.connect().command == "ERROR"
    broker.configure("allow-guest = true\n")
    broker.send_signal(1)
    wait_for(lambda: "allow-guest is set" in broker.log_text(), "the reload")
    with Wire(broker.port) as guest:
        assert guest.connect().command == "CONNECTED"
