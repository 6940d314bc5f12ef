"""A client of the made-up protocol, and the process of a broker that speaks it."""

import socket
import ssl
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final

from tests.support.links.scram_client import ScramClient
from tests.support.links.wire import Cutter, frame
from tests.support.process import BrokerProcess

ROOT: Final = Path(__file__).resolve().parents[3]
SECONDS: Final = 30.0
WINDOW: Final = 1 << 30
READ_BYTES: Final = 1 << 16


class LinksBroker(BrokerProcess):
    """A broker with two acceptors: for links, then for STOMP."""

    command: ClassVar = (sys.executable, "-m", "tests.support.links.serve")

    def __init__(self, directory: Path, *, config: str = "", listen: str = "links") -> None:
        super().__init__(
            directory,
            config=config,
            environment={"PYTHONPATH": str(ROOT)},
            listen=(f"{listen}://127.0.0.1:0", "stomp://127.0.0.1:0"),
            # The index is written in this process: others do not know the content format.
            processes=1,
        )


class LinksClient:
    """One connection. Frames that a call does not look for are kept for the next ones.

    `place` is behind the addresses of its links, so that tests share a broker.
    """

    def __init__(
        self, port: int, context: ssl.SSLContext | None = None, *, place: str = "here"
    ) -> None:
        plain = socket.create_connection(("127.0.0.1", port), SECONDS)
        self._socket: Final = (
            plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        )
        self._cutter: Final = Cutter()
        self._place: Final = place
        self.seen: list[list[Any]] = []

    def __enter__(self) -> "LinksClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def say(self, name: str, *parts: Any) -> None:
        """Send a frame."""
        self._socket.sendall(frame(name, *parts))

    def read(self) -> list[Any]:
        """Return the next frame. Raises ConnectionError at the end of the connection."""
        while (found := self._cutter.next()) is None:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._cutter.put(data)
        return found

    def expect(self, name: str, *begin: Any) -> list[Any]:
        """Return the parts of the next frame of this name that begins so; others are kept."""
        wanted = [name, *begin]
        for place, each in enumerate(self.seen):
            if each[: len(wanted)] == wanted:
                return self.seen.pop(place)[1:]
        while True:
            found = self.read()
            if found[: len(wanted)] == wanted:
                return found[1:]
            self.seen.append(found)

    def has(self, name: str, *begin: Any) -> bool:
        """Whether such a frame came before everything that is said now was answered."""
        self.pass_through()
        wanted = [name, *begin]
        return any(each[: len(wanted)] == wanted for each in self.seen)

    def pass_through(self) -> None:
        """Wait until the broker has obeyed everything, and its decisions are durable."""
        self.say("hello")
        self.expect("mechanisms")

    # ---- steps

    def log_in(self, mechanism: str = "ANONYMOUS", login: str = "", passcode: str = "") -> str:
        """Log in, in one step; return the user's name."""
        response = f"\0{login}\0{passcode}" if mechanism == "PLAIN" else ""
        self.say("init", mechanism, response.encode())
        user: str = self.expect("outcome")[0]
        return user

    def scram(self, scram: ScramClient, mechanism: str = "SCRAM-SHA-256") -> str:
        """Log in by SCRAM; return the user's name, after the broker has proven who it is."""
        self.say("init", mechanism, scram.first())
        self.say("response", scram.last(self.expect("challenge")[0]))
        user, proof = self.expect("outcome")
        scram.check(proof)
        return str(user)

    def open(self, container: str = "c", *, window: int = WINDOW, host: str = "default") -> int:
        """Open the connection; return its id."""
        self.say("open", container, host)
        connection: int = self.expect("opened")[0]
        self.say("window", window)
        return connection

    def sender(self, link: int, address: str) -> None:
        """Attach a link to send by."""
        self.say("attach", link, "sender", f"{address}.{self._place}")
        self.expect("attached", link)

    def receiver(self, link: int, address: str, credit: int = 0, **options: Any) -> None:
        """Attach a link to receive by, and give it credit."""
        self.say("attach", link, "receiver", f"{address}.{self._place}", options)
        self.expect("attached", link)
        if credit:
            self.say("flow", link, credit)

    def dynamic(self, link: int, name: str) -> str:
        """Attach a link to send by to a destination that ends with it; return its address."""
        self.say("attach", link, "dynamic", name)
        address: str = self.expect("attached", link)[1]
        return address

    def detach(self, link: int, *, closes: bool = False) -> None:
        """Detach a link, or close it."""
        self.say("detach", link, closes)
        self.expect("detached", link)

    def send(
        self,
        link: int,
        body: bytes,
        *,
        tag: str = "t",
        standard: dict[str, Any] | None = None,
        piece_bytes: int = 0,
        typed: bool = False,
        **properties: Any,
    ) -> None:
        """Send a message, in frames of so many bytes (0: one); a `typed` body is a packed value."""
        headers = {"standard": standard or {}, "properties": properties, "typed": typed}
        step = piece_bytes or max(len(body), 1)
        for at in range(0, max(len(body), 1), step):
            more = at + step < len(body)
            self.say("transfer", link, tag, headers, body[at : at + step], more)

    def deliver(self, link: int, body: bytes, **said: Any) -> None:
        """Send a message, and wait until it is accepted."""
        self.send(link, body, **said)
        self.expect("accepted", link)

    def take(self, link: int) -> tuple[int, bytes, dict[str, Any]]:
        """Receive a message by a link: its id, its body, and its head."""
        head: dict[str, Any] | None = None
        body = bytearray()
        while True:
            message, begun, piece, more = self.expect("transfer", link)[1:]
            head = begun or head
            body += piece
            if not more:
                assert head is not None
                return message, bytes(body), head

    def settle(self, link: int, message: int, outcome: int = 0, **said: Any) -> None:
        """Settle a delivery, with annotations as pairs, and wait for the answer."""
        self.say("settle", link, message, outcome, said)
        self.expect("settled", link, message)


def opened(broker: BrokerProcess, place: str = "here", *, window: int = WINDOW) -> LinksClient:
    """Return a client of a guest whose connection is open."""
    client = LinksClient(broker.port, place=place)
    client.log_in()
    client.open(window=window)
    return client
