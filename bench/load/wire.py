"""One raw STOMP 1.2 connection of the load generator.

The wire hands out received bytes in blocks that end at a frame's end and leaves looking inside
to its user: the cost per message is what the benchmark has to keep small. It never blocks on
sending while the broker may be blocked on sending to us.

Fault model: a broker that goes silent is reported after `stall_s` seconds with the name of the
missing answer; a broker that closes the connection or sends an ERROR frame is reported at once.
"""

import select
import socket
from collections.abc import Callable
from typing import Final

import msgspec

from bench.load.frames import LoadError

_RECEIVE_BYTES: Final = 1 << 18


class Endpoint(msgspec.Struct, frozen=True):
    """Where and how to reach a broker under test."""

    port: int
    login: str
    passcode: str
    virtual_host: str
    prefetch_header: str  # the name of the SUBSCRIBE header that limits unacknowledged messages
    head_bytes: int = 0  # 0: the header counts messages; else bytes, about so many without a body

    def prefetch(self, messages: int, body_bytes: int) -> str:
        """Return the SUBSCRIBE header for so many unacknowledged messages of this size."""
        cost = self.head_bytes + body_bytes if self.head_bytes else 1
        return f"{self.prefetch_header}:{messages * cost}"


class Wire:
    """A non-blocking connection that receives whole frames and queues unsent bytes."""

    __slots__ = ("_buffer", "_label", "_poll", "_rest", "_socket", "_stall_ms", "_unsent", "_view")

    def __init__(self, endpoint: Endpoint, label: str, stall_s: float) -> None:
        """Connect and log in. Raises LoadError if the broker does not answer CONNECTED."""
        self._label = label
        self._stall_ms = stall_s * 1000
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._rest = b""
        self._unsent = b""
        try:
            self._socket = socket.create_connection(("127.0.0.1", endpoint.port), timeout=stall_s)
        except OSError as error:
            raise LoadError(f"{label}: cannot connect to port {endpoint.port}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        try:
            self._log_in(endpoint)
        except LoadError:
            self.close()
            raise

    def _log_in(self, endpoint: Endpoint) -> None:
        self.put(
            (
                f"CONNECT\naccept-version:1.2\nhost:{endpoint.virtual_host}\n"
                f"login:{endpoint.login}\npasscode:{endpoint.passcode}\nheart-beat:0,0\n\n\0"
            ).encode()
        )
        self._expect(b"CONNECTED\n", "CONNECTED")

    def close(self) -> None:
        """Close the connection without a DISCONNECT."""
        self._socket.close()

    def watch(self, descriptor: int) -> None:
        """Let `receive` return early, without a frame, while `descriptor` is readable."""
        self._poll.register(descriptor, select.POLLIN)

    def send_part(self, view: memoryview) -> int:
        """Send as many bytes as fit now and return their number; only for when `put` is unused."""
        try:
            return self._socket.send(view)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LoadError(f"{self._label}: sending failed: {error}") from error

    def put(self, data: bytes) -> None:
        """Send `data`, keeping the rest for the next `put` or `receive`."""
        data = self._unsent + data if self._unsent else data
        self._unsent = data[self.send_part(memoryview(data)) :]

    def receive(self, waiting_for: Callable[[], str], *, writing: bool = False) -> bytes:
        """Return the next complete frames.

        Returns b"" if there are none yet, but the connection has become writable (only with
        `writing`), or a watched descriptor is readable. Raises LoadError when the broker stalls,
        closes the connection or sends an ERROR frame.
        """
        writing = writing or bool(self._unsent)
        self._poll.modify(self._socket, select.POLLIN | (select.POLLOUT if writing else 0))
        ready = self._poll.poll(self._stall_ms)
        if not ready:
            raise LoadError(
                f"{self._label}: the broker stalled; after {self._stall_ms / 1000:g} s without a "
                f"byte it was still waiting for {waiting_for()}"
            )
        if self._unsent:
            self.put(b"")
        return self._read(waiting_for)

    def _read(self, waiting_for: Callable[[], str]) -> bytes:
        try:
            count = self._socket.recv_into(self._buffer)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise LoadError(f"{self._label}: receiving failed: {error}") from error
        if count == 0:
            raise LoadError(
                f"{self._label}: the broker closed the connection while {waiting_for()} "
                f"was outstanding"
            )
        data = self._rest + self._view[:count]
        end = data.rfind(b"\0") + 1
        self._rest = data[end:]
        block = data[:end]
        error_at = block.find(b"ERROR\n")
        if error_at >= 0:
            text = block[error_at : error_at + 500].decode("utf-8", "replace")
            raise LoadError(f"{self._label}: the broker sent {text!r}")
        return block

    def _expect(self, command: bytes, what: str) -> None:
        block = b""
        while not block:
            block = self.receive(lambda: what)
        if not block.lstrip(b"\r\n").startswith(command):
            raise LoadError(f"{self._label}: expected {what}, got {block[:200]!r}")

    def fence(self, frame: str, receipt: str) -> None:
        """Send `frame` (without its NUL) with a receipt added and wait for that receipt alone.

        Only for moments when nothing else can arrive: a receipt proves that the broker has dealt
        with every frame before it.
        """
        command, _, headers = frame.partition("\n")
        self.put(f"{command}\nreceipt:{receipt}\n{headers}\0".encode())
        self._expect(b"RECEIPT\n", f"the receipt of {command}")
