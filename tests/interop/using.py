"""Helpers for tests on a real broker: connect, send, run a command."""

import signal
import subprocess
from typing import Any

import msgspec

from daybook.client.control import ask
from tests.interop.wire import Frame, Wire
from tests.support import nursery
from tests.support.process import DAYBOOK, JOURNAL, BrokerProcess, wait_for


def connected(broker: BrokerProcess, **login: str) -> Wire:
    """Return a connection that is logged in."""
    wire = Wire(broker.port)
    wire.connect(**login)
    return wire


def daybook(broker: BrokerProcess, *words: str) -> str:
    """Run a command on the data directory of a broker; return what it printed."""
    command = [DAYBOOK, *words, "--data", str(broker.data)]
    said: str = nursery.run(command, capture_output=True, check=True, text=True).stdout
    return said


def journal(broker: BrokerProcess, *words: str) -> str:
    """Run `journal` on the data directory of a broker; return what it printed."""
    command = [JOURNAL, *words, "--data", str(broker.data)]
    said: str = nursery.run(command, capture_output=True, check=True, text=True).stdout
    return said


def events(broker: BrokerProcess, *kinds: str) -> list[dict[str, Any]]:
    """Return the events of these kinds that are known to be durable, or all."""
    flags = [word for kind in kinds for word in ("--kind", kind)]
    lines = journal(broker, "inspect", "--json", *flags).splitlines()
    return [msgspec.json.decode(line) for line in lines]


def audited(broker: BrokerProcess) -> None:
    """Stop a broker; its journal verifies, and the audit finds no fault."""
    broker.stop()
    journal(broker, "verify")
    journal(broker, "audit")


def run(broker: BrokerProcess, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command on the data directory of a broker, however it ends."""
    command = [DAYBOOK, *words, "--data", str(broker.data)]
    return nursery.run(command, capture_output=True, text=True, check=False)


def reload(broker: BrokerProcess, config: str) -> None:
    """Let a broker read another configuration, and wait until it has."""
    broker.configure(config)
    before = broker.log_text().count("configuration reloaded")
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: broker.log_text().count("configuration reloaded") > before, "the reload")


def status(broker: BrokerProcess, what: str = "status") -> dict[str, Any]:
    """Return the answer of a broker to a request about itself."""
    answer = ask(broker.data, {"do": what})
    assert answer is not None
    return answer


def rows(broker: BrokerProcess, what: str) -> dict[str, dict[str, Any]]:
    """Return the rows of `daybook queue list` or `daybook address list`, by names."""
    found = msgspec.json.decode(daybook(broker, what, "list", "--json"), type=list[Any])
    return {row[what]: row for row in found}


def queues(broker: BrokerProcess) -> dict[str, dict[str, Any]]:
    """Return the rows of `daybook queue list` by the names of the queues."""
    return rows(broker, "queue")


def sent(wire: Wire, destination: str, body: bytes, **headers: str) -> None:
    """Send a message and wait for its receipt."""
    wire.send("SEND", body, destination=destination, receipt="r", **headers)
    wire.expect("RECEIPT")


def publish(wire: Wire, destination: str, body: bytes = b"x", **headers: Any) -> Frame:
    """Send a message with headers of any names; return the answer to it."""
    pairs = {"destination": destination, "receipt": "r", **headers}
    lines = "".join(f"{name}:{value}\n" for name, value in pairs.items())
    wire.write(f"SEND\n{lines}\n".encode() + body + b"\0")
    return wire.read()


def subscribed(wire: Wire, destination: str, id: str = "s", **headers: str) -> None:
    """Subscribe and wait for the receipt."""
    wire.send("SUBSCRIBE", b"", id=id, destination=destination, receipt="s", **headers)
    wire.expect("RECEIPT")


def arrived(wire: Wire) -> list[Frame]:
    """Return the messages that came by now: earlier sends are decided by the end of their turn,
    and delivered before the answer to what comes after that turn."""
    found = []
    for turn in ("this", "next"):
        wire.send("SEND", b"", destination="/topic/nobody", receipt=turn)
        while (frame := wire.read()).command == "MESSAGE":
            found.append(frame)
        assert frame.headers["receipt-id"] == turn, frame
    return found
