"""STOMP 1.2 as the load generator speaks it."""

from collections.abc import Sequence
from typing import Final

from bench.load.frames import LoadError, check_answers
from bench.load.wire import Endpoint, Wire

_SUBSCRIBED: Final = "subscribed"


class StompWire(Wire):
    """A connection that counts NULs and cuts out ack ids."""

    __slots__ = ()

    def _log_in(self, endpoint: Endpoint) -> None:
        self.put(
            (
                f"CONNECT\naccept-version:1.2\nhost:{endpoint.virtual_host}\n"
                f"login:{endpoint.login}\npasscode:{endpoint.passcode}\nheart-beat:0,0\n\n\0"
            ).encode()
        )
        self._expect(b"CONNECTED\n", "CONNECTED")

    def _whole(self, data: bytes) -> int:
        end = data.rfind(b"\0") + 1
        error_at = data.find(b"ERROR\n", 0, end)
        if error_at >= 0:
            text = data[error_at : min(end, error_at + 500)].decode("utf-8", "replace")
            raise LoadError(f"{self.label}: the broker sent {text!r}")
        return end

    def send_to(self, destination: str) -> None:
        """Do nothing: each SEND names its destination."""

    def message(self, destination: str, number: int, body: bytes) -> bytes:
        """Return a SEND frame."""
        return b"SEND\ndestination:%b\npersistent:true\nreceipt:%08d\ncontent-length:%d\n\n%b\0" % (
            destination.encode(),
            number,
            len(body),
            body,
        )

    def receipts(self, block: bytes) -> int:
        """Return how many frames there are; to a producer all are receipts."""
        return block.count(b"\0")

    def check_receipts(self, blocks: list[bytes], count: int) -> None:
        """Check the RECEIPT frames."""
        check_receipts(blocks, count)

    def subscribe(
        self, endpoint: Endpoint, destination: str, prefetch: int, body_bytes: int
    ) -> None:
        """Send a SUBSCRIBE frame."""
        self.put(
            (
                f"SUBSCRIBE\nid:0\ndestination:{destination}\nack:client-individual\n"
                f"{endpoint.prefetch(prefetch, body_bytes)}\n\n\0"
            ).encode()
        )

    def wait_for_subscription(self) -> None:
        """Begin a transaction, which is never used, with a receipt."""
        self.fence("BEGIN\ntransaction:none\n\n", _SUBSCRIBED)

    def acknowledge(self, block: bytes) -> int:
        """Send an ACK frame for each message."""
        ids = ack_ids(block)
        self.put(b"ACK\nid:" + b"\n\n\0ACK\nid:".join(ids) + b"\n\n\0")
        return len(ids)

    def bodies(self, blocks: Sequence[bytes]) -> list[bytes]:
        """Return the bodies of MESSAGE frames."""
        return [body for block in blocks for body in message_bodies(block)]

    def leave(self) -> None:
        """Send a DISCONNECT, and wait for its receipt."""
        self.fence("DISCONNECT\n\n", "bye")

    def fence(self, frame: str, receipt: str) -> None:
        """Send `frame` (without its NUL) with a receipt added and wait for that receipt alone.

        Only for moments when nothing else can arrive: a receipt proves that the broker has dealt
        with every frame before it.
        """
        command, _, headers = frame.partition("\n")
        self.put(f"{command}\nreceipt:{receipt}\n{headers}\0".encode())
        self._expect(b"RECEIPT\n", f"the receipt of {command}")

    def _expect(self, command: bytes, what: str) -> None:
        block = b""
        while not block:
            block = self.receive(lambda: what)
        if not block.lstrip(b"\r\n").startswith(command):
            raise LoadError(f"{self.label}: expected {what}, got {block[:200]!r}")


def ack_ids(block: bytes) -> list[bytes]:
    """Return the value of every `ack` header in a block of MESSAGE frames, still escaped.

    An ACK frame repeats the escaped text, so unescaping is not needed.
    """
    parts = block.split(b"\nack:")
    del parts[0]
    if len(parts) != block.count(b"\0"):
        raise LoadError(f"frames without an ack header arrived: {block[:300]!r}")
    return [part[: part.find(b"\n")] for part in parts]


def message_bodies(block: bytes) -> list[bytes]:
    """Return the bodies of a run of complete MESSAGE frames, in order.

    Bodies of the benchmark hold neither a NUL nor an empty line, so a NUL ends a frame and the
    first empty line ends its headers.
    """
    bodies = []
    for frame in block.split(b"\0")[:-1]:
        head, blank, body = frame.partition(b"\n\n")
        if not blank or not head.lstrip(b"\n").startswith(b"MESSAGE\n"):
            raise LoadError(f"expected a MESSAGE frame, but the broker sent {frame[:200]!r}")
        bodies.append(body)
    return bodies


def check_receipts(blocks: list[bytes], count: int) -> None:
    """Raise LoadError unless `blocks` hold exactly one RECEIPT for each of 0 .. count - 1."""
    seen = bytearray(count)
    for frame in b"".join(blocks).split(b"\0")[:-1]:
        command, _, rest = frame.lstrip(b"\n").partition(b"\n")
        at = rest.find(b"receipt-id:")
        number = rest[at + 11 :].split(b"\n", 1)[0] if at >= 0 else b""
        if command != b"RECEIPT" or not number.isdigit() or int(number) >= count:
            raise LoadError(f"expected a RECEIPT, but the broker sent {frame[:200]!r}")
        seen[int(number)] += 1
    check_answers(seen)
