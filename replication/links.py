"""Connections between nodes: dialled by one that leads or stands, accepted by all.

Each begins with a hello each way, and beats from then on. Off the loopback both sides show
certificates, which must name the node or its address.

Fault model: anybody may connect, and say anything or nothing. A stranger costs one of a few places,
for a few seconds; whoever sends garbage, is silent for too long, or does not read, loses that
connection and nothing else. Must never know what a message means.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from daybook.errors import DaybookError
from daybook.replication.wire import (
    LANE_VERSION,
    VERSION,
    FrameReader,
    Hello,
    Message,
    Ping,
    Pong,
    WireDamage,
    pack,
)

STRANGERS_MAX: Final = 32
"""How many connections may be before their hello; the oldest makes room for a new one."""
UNREAD_BYTES_MAX: Final = 4 << 20
"""How many bytes of answers may wait for the one who asked."""


class LinkRefused(DaybookError):
    """The other side is not the node that it should be."""


class OtherArbiter(LinkRefused):
    """The other side is a node of this cluster, and asks another arbiter who leads."""


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int


class Patience(NamedTuple):
    """How long links wait, in seconds. `silence` is longer than a few beats."""

    hello: float = 5.0
    beat: float = 0.25
    silence: float = 1.5
    first_retry: float = 0.05
    last_retry: float = 1.0
    finish: float = 1.0


class Security(NamedTuple):
    """The files of a node's certificate, and of the authority that signed those of all nodes."""

    certificate: Path
    key: Path
    authority: Path

    def contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Return the contexts of the side that listens and of that which dials; both demand a
        certificate. Raises OSError (and ssl.SSLError) if a file is not what it should be."""
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in found:
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            # Names are checked after the hello: certificates may name nodes instead of hosts.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_REQUIRED
            # Nobody is there to type a passphrase.
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
            context.load_verify_locations(self.authority)
        return found


def check_certificate(certificate: Mapping[str, Any], node: str, address: Address) -> None:
    """Raise LinkRefused if a certificate names neither a node nor the host of its address."""
    names = certificate.get("subjectAltName", ())
    hosts = {text.lower() for kind, text in names if kind == "DNS"}
    hosts |= {_canonical(text) for kind, text in names if kind == "IP Address"}
    if node.lower() not in hosts and _canonical(address.host) not in hosts:
        raise LinkRefused(
            f"the certificate of '{node}' names {', '.join(sorted(hosts)) or 'nobody'}, and not"
            f" '{node}' or '{address.host}'"
        )


def _canonical(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host.strip()))
    except ValueError:
        return host.lower()


def check_arbiter(own: Hello, other: Hello) -> None:
    """Raise OtherArbiter if two nodes are known to ask different arbiters: both may get a lease."""
    if own.arbiter and other.arbiter and own.arbiter != other.arbiter:
        raise OtherArbiter(
            f"'{other.node}' asks another arbiter who leads ({other.place}, id {other.arbiter})"
            f" than '{own.node}' ({own.place}, id {own.arbiter}), so two nodes could lead; give"
            " all nodes the same 'path' in [replication], or the same 'endpoints' and 'prefix',"
            " and restart those that had another one"
        )


class Owner(Protocol):
    """Who has links: a node."""

    def opened(self, link: "Link") -> None:
        """The other side is who it should be."""
        ...

    def received(self, link: "Link", message: Message) -> None:
        """A message came."""
        ...

    def lost(self, link: "Link", why: str) -> None:
        """A link that was opened has ended."""
        ...

    def other_arbiter(self, node: str, why: str) -> None:
        """A node was refused because it asks another arbiter."""
        ...


class Link(asyncio.BufferedProtocol):
    """One connection. `peer` is the other node, "" before its hello; `check` raises LinkRefused."""

    def __init__(
        self, own: Hello, owner: Owner, patience: Patience, *, asks: bool,
        check: Callable[["Link", Hello], None],
    ) -> None:  # fmt: skip
        self.peer = ""
        self.hello: Hello | None = None
        self.why = ""
        loop = asyncio.get_running_loop()
        self.is_open: Final[asyncio.Future[None]] = loop.create_future()
        self.has_ended: Final[asyncio.Future[None]] = loop.create_future()
        # Nobody may be waiting.
        self.is_open.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.transport: asyncio.Transport
        self._own: Final = own
        self._owner: Final = owner
        self._patience: Final = patience
        self._asks: Final = asks
        self._check: Final = check
        self._reader: Final = FrameReader()
        self._loop: Final = loop
        self._heard = loop.time()
        self._beat: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        # Those of uvloop are of no class of asyncio.
        self.transport = cast(asyncio.Transport, transport)
        self.send(self._own)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes are to go."""
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Take what came."""
        self._heard = self._loop.time()
        try:
            for message in self._reader.received(nbytes):
                self._take(message)
                if self.why:
                    return
        except (WireDamage, LinkRefused) as error:
            self.end(str(error))

    def _take(self, message: Message) -> None:
        if not self.peer:
            assert isinstance(message, Hello)
            self._check_hello(message)
        elif isinstance(message, Hello):
            raise WireDamage("a second hello came")
        elif isinstance(message, Ping):
            self.send(Pong())
        elif not isinstance(message, Pong):
            self._owner.received(self, message)

    def _check_hello(self, hello: Hello) -> None:
        version = LANE_VERSION if hello.lead else VERSION
        if hello.version != version:
            raise LinkRefused(f"'{hello.node}' speaks version {hello.version}, not {version}")
        if hello.cluster != self._own.cluster:
            raise LinkRefused(
                f"'{hello.node}' is of the cluster '{hello.cluster}', not '{self._own.cluster}'"
            )
        self._check(self, hello)
        self._reader.trust()
        self.peer, self.hello = hello.node, hello
        if not self.is_open.done():
            self.is_open.set_result(None)
        self._look()
        self._owner.opened(self)

    def _look(self) -> None:
        """Ask whether the other side is alive; end the link if it was silent for too long."""
        silence = self._loop.time() - self._heard
        if silence > self._patience.silence:
            self.end(f"'{self.peer}' was silent for {silence:.1f} s")
            return
        if self._asks:
            self.send(Ping())
        self._beat = self._loop.call_later(self._patience.beat, self._look)

    def send(self, message: Message) -> None:
        """Send a message, if the connection is still there."""
        if self.why:
            return
        for part in pack(message):
            self.transport.write(part)
        if not self._asks and self.transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self.end(f"'{self.peer}' does not read the answers")

    def certificate(self) -> Mapping[str, Any] | None:
        """Return the other side's certificate; None without TLS."""
        found: Mapping[str, Any] | None = self.transport.get_extra_info("peercert")
        return found

    def end(self, why: str) -> None:
        """End the connection at once."""
        self.why = self.why or why
        self.transport.abort()

    def finish(self, why: str) -> None:
        """End the connection when what was said is on its way, or after a moment."""
        self.why = self.why or why
        self.transport.close()
        self._loop.call_later(self._patience.finish, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner."""
        self.why = self.why or (str(exc) if exc else "the other side closed the connection")
        if self._beat is not None:
            self._beat.cancel()
        if not self.is_open.done():
            self.is_open.set_exception(LinkRefused(self.why))
        if not self.has_ended.done():
            self.has_ended.set_result(None)
        if self.peer:
            self._owner.lost(self, self.why)


class Dialer:
    """Connects to one node again and again, while it is wanted. `link` is there once it is open.

    `spread` draws a number about 1, so that nodes do not retry at the same time.
    """

    def __init__(
        self, node: str, address: Address, own: Hello, owner: Owner, *, patience: Patience,
        context: ssl.SSLContext | None, spread: Callable[[], float],
    ) -> None:  # fmt: skip
        self.node: Final = node
        self.link: Link | None = None
        self.trouble = ""
        self._address: Final = address
        self.own = own
        self._owner: Final = owner
        self._patience: Final = patience
        self.context = context
        self._spread: Final = spread
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect, if that has not begun."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """End the connection, and connect no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        link, self.link = self.link, None
        if link is not None:
            link.finish("this node asks nothing any more")

    def send(self, message: Message) -> None:
        """Send a message, if there is a connection."""
        if self.link is not None:
            self.link.send(message)

    async def _run(self) -> None:
        retry = self._patience.first_retry
        while True:
            try:
                link = await self._connect()
            except (OSError, TimeoutError, LinkRefused) as error:
                self.trouble = str(error) or "no answer in time"
            else:
                self.trouble = ""
                retry = self._patience.first_retry
                await link.has_ended
                self.link, self.trouble = None, link.why
            await asyncio.sleep(retry * self._spread())
            retry = min(2 * retry, self._patience.last_retry)

    async def _connect(self) -> Link:
        loop = asyncio.get_running_loop()
        link: Link | None = None

        def make() -> Link:
            nonlocal link
            link = Link(self.own, self._owner, self._patience, asks=True, check=self._check)
            return link

        try:
            async with asyncio.timeout(self._patience.hello):
                host = self._address.host if self.context is not None else None
                await loop.create_connection(
                    make, *self._address, ssl=self.context, server_hostname=host
                )
                assert link is not None
                await link.is_open
        except BaseException:
            if link is not None and hasattr(link, "transport"):
                link.end("no answer in time")
            raise
        return link

    def _check(self, link: Link, hello: Hello) -> None:
        if hello.node != self.node or hello.lead:
            raise LinkRefused(
                f"'{hello.node}' answers at the address of '{self.node}', {self._address.host}:"
                f"{self._address.port}; correct 'node' in its [replication], or the address of"
                f" '{self.node}'"
            )
        certificate = link.certificate()
        if certificate is not None:
            check_certificate(certificate, self.node, self._address)
        _same_arbiter(self.own, hello, self._owner)
        self.link = link


class Listener:
    """Accepts connections of other nodes, and lanes of their brokers: one of each, the newest."""

    def __init__(
        self, own: Hello, nodes: Mapping[str, Address], owner: Owner, *, patience: Patience,
        context: ssl.SSLContext | None,
    ) -> None:  # fmt: skip
        self.links: Final[dict[str, Link]] = {}
        self.lanes: Final[dict[str, Link]] = {}
        self.refused = 0
        self.trouble = ""
        self.own = own
        self._nodes: Final = nodes
        self._owner: Final = owner
        self._patience: Final = patience
        self.context = context
        self._accepting: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []
        # Those before their hello, the oldest first.
        self._strangers: Final[dict[asyncio.Task[None], None]] = {}

    async def start(self, address: Address) -> Address:
        """Listen; return the first address, whose port is no longer 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, where in dict.fromkeys(found):
                listening = socket.socket(family, kind, protocol)
                self._sockets.append(listening)
                listening.setblocking(False)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listening.bind(where)
                listening.listen(STRANGERS_MAX)
        except OSError:
            self._close_sockets()
            raise
        self._accepting = [loop.create_task(self._accept(each)) for each in self._sockets]
        return Address(*self._sockets[0].getsockname()[:2])

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                # No descriptors, or the other side is gone already.
                self.trouble = str(error)
                await asyncio.sleep(self._patience.first_retry)
                continue
            if len(self._strangers) >= STRANGERS_MAX:
                oldest = next(iter(self._strangers))
                oldest.cancel()
                await asyncio.wait([oldest])
            task = loop.create_task(self._meet(accepted))
            self._strangers[task] = None
            task.add_done_callback(self._strangers.pop)

    async def _meet(self, accepted: socket.socket) -> None:
        """Wait for the hello of a stranger."""
        link = Link(self.own, self._owner, self._patience, asks=False, check=self._check)
        try:
            async with asyncio.timeout(self._patience.hello):
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: link, accepted, ssl=self.context
                )
                await link.is_open
        except (OSError, TimeoutError, LinkRefused, asyncio.CancelledError) as error:
            self.refused += 1
            self.trouble = str(error) or "a stranger said nothing in time"
            if hasattr(link, "transport"):
                link.end(self.trouble)

    def _check(self, link: Link, hello: Hello) -> None:
        address = self._nodes.get(hello.node)
        if address is None or hello.node == self.own.node:
            raise LinkRefused(f"'{hello.node}' is no other node of this cluster")
        certificate = link.certificate()
        if certificate is not None:
            check_certificate(certificate, hello.node, address)
        _same_arbiter(self.own, hello, self._owner)
        links = self.lanes if hello.lead else self.links
        older = links.get(hello.node)
        links[hello.node] = link
        if older is not None:
            older.end(f"'{hello.node}' has connected again")

    def forget(self, link: Link) -> None:
        """Note that a link has ended."""
        for links in (self.links, self.lanes):
            if links.get(link.peer) is link:
                del links[link.peer]

    async def stop(self) -> None:
        """Accept nothing more, and end all connections."""
        tasks = [*self._accepting, *self._strangers]
        for task in tasks:
            task.cancel()
        for link in [*self.links.values(), *self.lanes.values()]:
            link.end("this node stops")
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        self._close_sockets()

    def _close_sockets(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets = []


def _same_arbiter(own: Hello, other: Hello, owner: Owner) -> None:
    """Check a node whose certificate was right: a stranger must not end a lead by what it says."""
    try:
        check_arbiter(own, other)
    except OtherArbiter as error:
        owner.other_arbiter(other.node, str(error))
        raise


def needs_security(addresses: Collection[Address]) -> bool:
    """Return whether certificates are required: a node is not on this machine's loopback."""
    return not all(_is_loopback(each.host) for each in addresses)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
