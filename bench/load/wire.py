"""One raw connection of the load generator, in whatever protocol.

The wire hands out received bytes in blocks that end at a frame's end and looks inside as little as
its protocol allows: the cost per message is what the benchmark has to keep small. It never blocks
on sending while the broker may be blocked on sending to us.

Fault model: a broker that goes silent is reported after `stall_s` seconds with the name of the
missing answer; a broker that closes the connection or sends an error is reported at once.
"""

import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from bench.load.frames import LoadError

_RECEIVE_BYTES: Final = 1 << 18
UNLIMITED: Final = 1 << 62
STOMP: Final = "stomp"
AMQP: Final = "amqp"


class Endpoint(msgspec.Struct, frozen=True):
    """Where and how to reach a broker under test."""

    port: int
    login: str
    passcode: str
    virtual_host: str
    prefetch_header: str  # the name of the SUBSCRIBE header that limits unacknowledged messages
    head_bytes: int = 0  # 0: the header counts messages; else bytes, about so many without a body
    protocol: str = STOMP
    stores: bool = True
    keeps_order: bool = True
    consume_port: int = 0  # where messages are received that a bridge takes to another broker

    @property
    def receiving(self) -> "Endpoint":
        """Where messages are received."""
        if not self.consume_port:
            return self
        return msgspec.structs.replace(self, port=self.consume_port, consume_port=0)

    def prefetch(self, messages: int, body_bytes: int) -> str:
        """Return the SUBSCRIBE header for so many unacknowledged messages of this size."""
        cost = self.head_bytes + body_bytes if self.head_bytes else 1
        return f"{self.prefetch_header}:{messages * cost}"


class Wire(ABC):
    """A non-blocking connection that receives whole frames and queues unsent bytes.

    `credit` is the number of messages that the broker takes over the whole life of the connection,
    as far as it has said.
    """

    __slots__ = (
        "_buffer", "_poll", "_rest", "_socket", "_stall_ms", "_unsent", "_view", "credit", "label",
    )  # fmt: skip

    def __init__(self, endpoint: Endpoint, label: str, stall_s: float) -> None:
        """Connect and log in. Raises LoadError if the broker does not let us in."""
        self.label: Final = label
        self.credit = UNLIMITED
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

    # ---- the protocol

    @abstractmethod
    def _log_in(self, endpoint: Endpoint) -> None:
        """Log in."""

    @abstractmethod
    def _whole(self, data: bytes) -> int:
        """Return where the last whole frame ends. Raises LoadError for one that is an error."""

    @abstractmethod
    def send_to(self, destination: str) -> None:
        """Prepare to send messages to a destination: those of `message`."""

    @abstractmethod
    def message(self, destination: str, number: int, body: bytes) -> bytes:
        """Return the frame of a durable message whose receipt will have this number; its length
        depends on the length of the body alone."""

    @abstractmethod
    def receipts(self, block: bytes) -> int:
        """Return for how many messages the block has the receipt."""

    @abstractmethod
    def check_receipts(self, blocks: list[bytes], count: int) -> None:
        """Raise LoadError unless there was exactly one receipt for each of 0 .. count - 1."""

    @abstractmethod
    def subscribe(
        self, endpoint: Endpoint, destination: str, prefetch: int, body_bytes: int
    ) -> None:
        """Ask for messages, so many of them unacknowledged, and wait for nothing."""

    @abstractmethod
    def wait_for_subscription(self) -> None:
        """Wait until the broker has the subscription; nothing else may arrive."""

    @abstractmethod
    def acknowledge(self, block: bytes) -> int:
        """Acknowledge each message in a block; return how many there are."""

    @abstractmethod
    def bodies(self, blocks: Sequence[bytes]) -> list[bytes]:
        """Return the bodies of all messages that came, in order."""

    @abstractmethod
    def leave(self) -> None:
        """End the conversation, and wait until the broker has read everything before its end."""

    # ---- bytes

    @property
    def fileno(self) -> int:
        """The descriptor, for polling."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection without saying so."""
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
            raise LoadError(f"{self.label}: sending failed: {error}") from error

    def put(self, data: bytes) -> None:
        """Send `data`, keeping the rest for the next `put` or `receive`."""
        data = self._unsent + data if self._unsent else data
        self._unsent = data[self.send_part(memoryview(data)) :]

    def receive(self, waiting_for: Callable[[], str], *, writing: bool = False) -> bytes:
        """Return the next complete frames.

        Returns b"" if there are none yet, but the connection has become writable (only with
        `writing`), or a watched descriptor is readable. Raises LoadError when the broker stalls,
        closes the connection or sends an error.
        """
        writing = writing or bool(self._unsent)
        self._poll.modify(self._socket, select.POLLIN | (select.POLLOUT if writing else 0))
        ready = self._poll.poll(self._stall_ms)
        if not ready:
            raise LoadError(
                f"{self.label}: the broker stalled; after {self._stall_ms / 1000:g} s without a "
                f"byte it was still waiting for {waiting_for()}"
            )
        return self.read(waiting_for)

    def read(self, waiting_for: Callable[[], str]) -> bytes:
        """Do what `receive` does, but return at once."""
        if self._unsent:
            self.put(b"")
        try:
            count = self._socket.recv_into(self._buffer)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise LoadError(f"{self.label}: receiving failed: {error}") from error
        if count == 0:
            raise LoadError(
                f"{self.label}: the broker closed the connection while {waiting_for()} "
                f"was outstanding"
            )
        data = self._rest + self._view[:count]
        end = self._whole(data)
        self._rest = data[end:]
        return data[:end]
