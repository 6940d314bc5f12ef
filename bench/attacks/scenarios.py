"""The common parts of attacks: a peer that does not wait, and the steps of an attack.

Must never know a single attack.
"""

import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.load.frames import LoadError
from daybook.client.control import ask

STALL_SECONDS: Final = 120.0
READ_BYTES: Final = 1 << 18
BODY: Final = "an order of no importance at all"
LOTS: Final = 1 << 40
SECONDS: Final = 3.0
"""How long an attack lasts that has no end of its own."""


class Peer:
    """A connection that writes as much as it can and reads whatever comes."""

    def __init__(self, port: int, version: str = "1.2") -> None:
        """Connect and log in as guest; a client without the header speaks version 1.0."""
        self._socket: Final = socket.create_connection(("127.0.0.1", port), timeout=STALL_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        accept = f"accept-version:{version}\nhost:/\n" if version != "1.0" else ""
        self.ask(f"CONNECT\n{accept}\n\0".encode(), b"CONNECTED\n")

    def ask(self, data: bytes, until: bytes) -> bytes:
        """Send bytes, and read until the answers contain something; returns the answers."""
        found = [self._rest]
        tail = self._rest
        view = memoryview(data)
        self._rest = b""
        while len(view) or until not in tail:
            read, write, _ = select.select(
                [self._socket], [self._socket] if len(view) else [], [], STALL_SECONDS
            )
            if not read and not write:
                raise LoadError(f"nothing came for {STALL_SECONDS:.0f} s; waiting for {until!r}")
            if write:
                view = view[self._socket.send(view[:READ_BYTES]) :]
            if read:
                block = self._socket.recv(READ_BYTES)
                if not block:
                    raise LoadError(f"the broker closed the connection: {tail[-500:]!r}")
                found.append(block)
                tail = tail[-len(until) :] + block
                if b"ERROR\n" in tail:
                    raise LoadError(f"the broker sent {tail[tail.find(b'ERROR') :][:500]!r}")
        return b"".join(found)

    def do(self, frame: str) -> bytes:
        """Send a frame with a receipt and wait for that."""
        command, _, rest = frame.partition("\n")
        name = f"r{time.monotonic_ns()}"
        return self.ask(f"{command}\nreceipt:{name}\n{rest}\0".encode(), f":{name}\n".encode())

    def put(self, data: bytes) -> None:
        """Send bytes and do not read."""
        self._socket.sendall(data)

    def take(self, messages: int) -> list[str]:
        """Read until so many messages came; returns the acknowledgement of each."""
        found: list[str] = []
        rest = self._rest
        while len(found) < messages:
            block = self._socket.recv(READ_BYTES)
            if not block:
                raise LoadError("the broker closed the connection")
            *frames, rest = (rest + block).split(b"\0")
            for frame in frames:
                if b"MESSAGE\n" in frame[:10]:
                    lines = frame.decode().split("\n")
                    name = "ack:" if any(line.startswith("ack:") for line in lines) else "message-i"
                    line = next(line for line in lines if line.startswith(name))
                    found.append(line.partition(":")[2])
        self._rest = rest
        return found

    def close(self) -> None:
        """Close without a DISCONNECT."""
        self._socket.close()


def sends(destination: str, count: int, headers: str = "") -> bytes:
    """So many SENDs."""
    return f"SEND\ndestination:{destination}\n{headers}\n{BODY}\0".encode() * count


class Scenario:
    """One attack. `data` is the data directory, for commands of administrators."""

    def __init__(self, port: int, data: Path, scale: int) -> None:
        self.port = port
        self.data = data
        self.scale = scale
        self.peer: Any = self.connect()

    version: str = "1.2"
    protocol: str = "stomp"

    def connect(self) -> Any:
        """Log in as guest."""
        return Peer(self.port, self.version)

    def prepare(self) -> None:
        """Prepare the attack."""

    def approach(self) -> None:
        """Wait for the moment of the attack, if it has one; there are no measurements meanwhile."""

    def attack(self) -> None:
        """Carry out the attack, which others must not notice; returns when the broker has handled
        it.
        """
        raise NotImplementedError

    def wait_for(self, moment_ms: int) -> None:
        """Wait for a time in milliseconds since 1970. Raises LoadError if it has passed."""
        left = moment_ms / 1000 - time.time()
        if left < 0:
            raise LoadError(
                f"prepared {-left:.1f} s too late for the events that happen by themselves"
            )
        time.sleep(left)

    def fill(self, destination: str, count: int, headers: str = "") -> None:
        """Send so many messages and wait until they are safe."""
        other = Peer(self.port)
        for sent in range(0, count - 1, 1000):
            other.put(sends(destination, min(count - 1 - sent, 1000), headers))
        other.do(f"SEND\ndestination:{destination}\n{headers}\nlast")
        other.close()

    def in_flight(self, count: int, ack: str, destination: str = "/queue/attacked") -> list[str]:
        """Have so many messages in flight to a subscription with the id 1."""
        self.fill(destination, count)
        self.peer.put(
            f"SUBSCRIBE\nid:mine\ndestination:{destination}\nack:{ack}\ncredit:{LOTS},{LOTS}\n\n\0".encode()
        )
        names: list[str] = self.peer.take(count)
        return names


def status_of(data: Path) -> dict[str, Any]:
    found = ask(data, {"do": "status"})
    if found is None:
        raise LoadError("the broker has ended")
    return found


def settle(data: Path) -> None:
    """Wait until the broker is idle."""

    def is_settled() -> bool:
        status = status_of(data)
        return not status["queues_being_deleted"] + status["connections_being_closed"]

    wait_until(is_settled, "deletions and connections to end")


def ready_in(data: Path, name: str) -> int:
    """How many messages of a queue are ready."""
    found = ask(data, {"do": "queues"}) or {}
    return sum(row["ready"] for row in found["queues"] if row["queue"] == name)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition is true. Raises LoadError if it never is."""
    deadline = time.monotonic() + STALL_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise LoadError(f"waited {STALL_SECONDS:.0f} s in vain for {what}")
        time.sleep(0.02)
