"""One connection of a leader's broker to a follower (ADR 119).

Dialled in a thread, which may wait; from then on nothing here waits. Fault model: the other side
may hang, answer anything or nothing, and not read: then the lane ends, and nothing is lost, since
the node ships what no lane has brought. Must never know what counts as durable.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Final, NamedTuple

from daybook.journal.places import Place
from daybook.replication.leading import boot_time_us
from daybook.replication.links import Address, LinkRefused, Security, check_certificate
from daybook.replication.messages import Ack
from daybook.replication.wire import FrameReader, Hello, Message, Ping, Pong, WireDamage, pack

UNANSWERED_MAX: Final = 64
"""How many blocks may be under way: a follower that owes more gets them from the node."""
_PING: Final = b"".join(pack(Ping()))


class Dialled(NamedTuple):
    """A connection whose other side has said who it is."""

    connection: socket.socket
    reader: FrameReader


def dial(
    node: str, address: Address, own: Hello, security: Security | None, seconds: float
) -> Dialled:
    """Connect to a follower within so many seconds, once its address is found. Raises OSError,
    LinkRefused and WireDamage."""
    context = security.contexts()[1] if security is not None else None
    until = boot_time_us() + int(seconds * 1e6)
    connection = socket.create_connection(address, seconds)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            connection = context.wrap_socket(connection, server_hostname=address.host)
            check_certificate(connection.getpeercert() or {}, node, address)
        connection.sendall(b"".join(pack(own)))
        reader = FrameReader()
        _check_hello(_first(connection, reader, until), node, own)
        reader.trust()
        connection.setblocking(False)
    except BaseException:
        connection.close()
        raise
    return Dialled(connection, reader)


def _first(connection: socket.socket, reader: FrameReader, until: int) -> Message:
    while True:
        connection.settimeout(max(1_000, until - boot_time_us()) / 1e6)
        count = connection.recv_into(reader.buffer())
        if not count:
            raise LinkRefused("the other side closed the connection")
        for message in reader.received(count):
            # The other side says no more before it is asked.
            return message


def in_thread(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Dialled]
) -> "asyncio.Future[Dialled]":
    """Dial in a thread that ends with the process: nobody waits for it when the loop ends."""
    found: asyncio.Future[Dialled] = loop.create_future()

    def tell(dialled: Dialled | None, error: Exception | None) -> None:
        if found.done():
            # Nobody wants it any more.
            if dialled is not None:
                dialled.connection.close()
        elif dialled is not None:
            found.set_result(dialled)
        else:
            assert error is not None
            found.set_exception(error)

    def run() -> None:
        dialled: Dialled | None = None
        trouble: Exception | None = None
        try:
            dialled = work()
        except Exception as error:
            trouble = error
        try:
            loop.call_soon_threadsafe(tell, dialled, trouble)
        except RuntimeError:
            # The loop is closed.
            if dialled is not None:
                dialled.connection.close()

    Thread(target=run, name="lane", daemon=True).start()
    return found


def _check_hello(hello: Message, node: str, own: Hello) -> None:
    assert isinstance(hello, Hello)
    if (hello.node, hello.cluster) != (node, own.cluster):
        raise LinkRefused(f"'{hello.node}' of '{hello.cluster}' answers at the address of '{node}'")


class Lane:
    """A lane to one follower. `was_open` says whether that has taken blocks; `on_ack` gets what it
    acknowledges, `on_open` is called once, and `on_end` with the reason when the lane is over; then
    `ended` is done."""

    def __init__(
        self, dialled: Dialled, loop: asyncio.AbstractEventLoop, *,
        on_open: Callable[[], None], on_ack: Callable[[Ack], None], on_end: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.was_open = False
        self.why = ""
        self.ended: Final[asyncio.Future[None]] = loop.create_future()
        self._connection: Final = dialled.connection
        self._reader: Final = dialled.reader
        self._loop: Final = loop
        self._on_open: Final = on_open
        self._on_ack: Final = on_ack
        self._on_end: Final = on_end
        # Where the blocks end that are under way.
        self._under_way: Final[deque[Place]] = deque()
        self.begun: Final = loop.time()
        self._heard = loop.time()
        loop.add_reader(self._connection.fileno(), self._read)

    def ask(self, silence: float) -> None:
        """Ask whether the follower is there; end the lane if it was silent for so many seconds."""
        if self._loop.time() - self._heard > silence:
            self.end("the follower is silent")
        else:
            self._send(_PING)

    def send(self, frame: bytes, end: Place) -> None:
        """Send a block that ends at a place."""
        self._under_way.append(end)
        if len(self._under_way) > UNANSWERED_MAX:
            self.end("the follower does not acknowledge")
        else:
            self._send(frame)

    def _send(self, frame: bytes) -> None:
        if self.why:
            return
        try:
            sent = self._connection.send(frame)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        except OSError as error:
            self.end(str(error))
            return
        if sent != len(frame):
            self.end("the follower does not read")

    def _read(self) -> None:
        is_secure = isinstance(self._connection, ssl.SSLSocket)
        try:
            while not self.why:
                count = self._connection.recv_into(self._reader.buffer())
                if not count:
                    self.end("the follower closed the connection")
                    return
                self._heard = self._loop.time()
                for message in self._reader.received(count):
                    self._take(message)
                if not is_secure:
                    # The loop calls again; a layer that decrypts may have more.
                    return
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except (OSError, WireDamage) as error:
            self.end(str(error))

    def _take(self, message: Message) -> None:
        if isinstance(message, Ack):
            while self._under_way and self._under_way[0] <= message.place:
                self._under_way.popleft()
            self._on_ack(message)
        elif not isinstance(message, Pong):
            self.end("the follower said what belongs to no lane")
        elif not self.was_open:
            self.was_open = True
            self._on_open()

    def end(self, why: str) -> None:
        """End the lane at once."""
        if self.why:
            return
        self.why = why
        self._loop.remove_reader(self._connection.fileno())
        with suppress(OSError):
            self._connection.close()
        self._on_end(why)
        if not self.ended.done():
            self.ended.set_result(None)
