"""One connector: opens its connection, and opens it again when it is gone.

States: connecting -> open -> waiting -> connecting. Address, socket, TLS, login and open have one
time-out together. The log has one line for each change that says something new. Fault model: name
servers and peers may hang, say anything, or close at once, and descriptors may be used up; nothing
of it holds up the event loop, and each failure costs one delay.
"""

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from daybook.engine.facts.definitions import AutoLink
from daybook.engine.names.names import HOST
from daybook.protocols.port import AutoLinkRow, Outbound
from daybook.server.configuration.connector_config import ConnectorConfig
from daybook.server.connectors.delays import Delays
from daybook.server.connectors.line import Line, Surroundings
from daybook.server.connectors.logins import ConnectorLogin, Keys
from daybook.server.connectors.preparing import (
    Address,
    NotPrepared,
    Prepared,
    in_thread,
    prepare,
)
from daybook.server.hub.peer import Peer
from daybook.server.network.keep_alive import keep_alive
from daybook.server.network.peer_socket import Connection
from daybook.server.process import logs

CONNECTING: Final = "connecting"
OPEN: Final = "open"
WAITING: Final = "waiting"
STOPPED: Final = "stopped"

LASTING_SECONDS: Final = 10.0
"""An open connection that lasts so long was a success: the delays begin with the first one."""
CLOSED: Final = "the peer closed the connection and did not say why"
REASON_LENGTH_MAX: Final = 500
LOGGED_MAX: Final = 8
"""How many different reasons get a line in the log until the connection is open again."""

log = logs.logger("connectors")


class Connector:
    """The state of a connector. `why` is the reason of the last failure, "" since an open;
    `attempts` and `failures` are counted since the start of the broker."""

    def __init__(
        self, config: ConnectorConfig, links: Sequence[AutoLink], around: Surroundings
    ) -> None:
        self.config = config
        self.links = tuple(links)
        self.state = WAITING
        self.why = ""
        self.since = around.now()
        self.attempts = 0
        self.failures = 0
        self._around: Final = around
        self._loop: Final = around.loop
        self._delays = _delays_of(config)
        self._line: Final = Line(config, around, self._words, self._note, self._ended)
        self._keys: Final = Keys()
        self._passcode = config.passcode
        self._preparing: asyncio.Future[Prepared] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None
        self._next_try = 0.0
        self._opened_at = 0.0
        # The step that the attempt has come to, for a time-out; and the reason of its end.
        self._stage = ""
        self._reason = ""
        # The reasons that were logged since the connection was open.
        self._logged: Final[set[str]] = set()
        self._is_again = False
        self._is_paused = False
        self._after: Callable[[], None] | None = None

    # ---- attempts

    def start(self) -> None:
        """Open the connection now."""
        self._enter(CONNECTING)
        self.attempts += 1
        self._reason = ""
        self._stage = "the host has no address yet"
        self._timer = self._loop.call_later(self.config.connect_timeout / 1000, self._timed_out)
        self._task = self._loop.create_task(self._dial())

    def _enter(self, state: str) -> None:
        self.state = state
        self.since = self._around.now()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _dial(self) -> None:
        """Open a socket to the first address that answers, and give it to a connection."""
        opened = None
        try:
            if why := self._around.why_not(self.config):
                raise NotPrepared(why)
            prepared = await self._prepare()
            self._line.context = prepared.context
            self._passcode = prepared.passcode
            self._stage = "the peer does not answer"
            opened = await self._open_socket(prepared.addresses)
            self._stage = "the peer does not open the connection"
            if self.config.tls:
                self._stage = "the peer does not finish TLS, login and open"
            host, port = str(opened.getpeername()[0]), int(opened.getpeername()[1])
            connection = Connection(self._line, host, port)
            self._line.count(1)
            self._connection = connection
            await self._loop.create_connection(lambda: connection, sock=opened)
        except NotPrepared as error:
            self._failed(str(error))
        except OSError as error:
            if self._connection is None:
                if opened is not None:
                    opened.close()
                self._failed(_text_of(error))
            else:
                self._connection.connection_lost(error)

    async def _prepare(self) -> Prepared:
        """Find addresses and files; one thread at a time, however long it takes. Raises
        NotPrepared."""
        if self._preparing is None or self._preparing.done():
            self._preparing = in_thread(f"connector {self.config.name}", self._find)
            self._preparing.add_done_callback(_look_at)
        return await asyncio.shield(self._preparing)

    def _find(self) -> Prepared:
        prepared = prepare(self.config)
        self._keys.compute(prepared.passcode)
        return prepared

    async def _open_socket(self, addresses: Sequence[Address]) -> socket.socket:
        """Try all addresses, each for its share of the time. Raises OSError."""
        until = self._loop.time() + self.config.connect_timeout / 1000
        failure: OSError = OSError("the host has no address")
        for at, (family, address) in enumerate(addresses):
            share = (until - self._loop.time()) / (len(addresses) - at)
            opened = socket.socket(family, socket.SOCK_STREAM)
            try:
                opened.setblocking(False)
                async with asyncio.timeout(share):
                    await self._loop.sock_connect(opened, address)
                with contextlib.suppress(OSError):
                    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    keep_alive(opened, self.config.tcp_keepalive)
                return opened
            except TimeoutError:
                opened.close()
                failure = TimeoutError(f"{address[0]} does not answer")
            except OSError as error:
                opened.close()
                failure = OSError(f"{address[0]}: {_text_of(error)}")
            except BaseException:
                opened.close()
                raise
        raise failure

    def _words(self) -> Outbound:
        config = self.config
        return Outbound(
            config.name,
            config.container or self._around.name,
            config.host_name or config.host,
            ConnectorLogin(config, self._passcode, self._keys),
            config.user,
            config.virtual_host or HOST,
            lambda: self.links,
        )

    # ---- changes

    def can_become(self, config: ConnectorConfig) -> bool:
        """Whether the values need no other connection."""
        return _of_connection(self.config) == _of_connection(config)

    def change(self, config: ConnectorConfig, links: Sequence[AutoLink]) -> None:
        """Take values that need no other connection: a wait is cut to the new delays. The caller
        lets the connection renew its links."""
        delays = (self.config.reconnect_delay, self.config.reconnect_delay_max)
        self.config, self.links = config, tuple(links)
        self._line.change(config)
        if delays == (config.reconnect_delay, config.reconnect_delay_max):
            return
        self._delays = _delays_of(config)
        longest = config.reconnect_delay_max / 1000
        if self.state == WAITING and self._timer is not None and self.next_try_seconds > longest:
            self._timer.cancel()
            self._wait(self._delays.next())

    def _wait(self, delay: float) -> None:
        self._next_try = self._loop.time() + delay
        self._timer = self._loop.call_later(delay, self.start)

    # ---- ends

    def _note(self, why: str) -> None:
        """Note why the connection ends; the first reason is the one that counts."""
        self._reason = self._reason or why[:REASON_LENGTH_MAX]

    def _timed_out(self) -> None:
        seconds = self.config.connect_timeout / 1000
        self._note(f"{self._stage}, after {seconds:g} s (connect-timeout)")
        self._timer = None
        if self._connection is not None:
            self._connection.abort()
            return
        if self._task is not None:
            self._task.cancel()
        self._failed(self._reason)

    def _ended(self, connection: Connection) -> None:
        """The socket is closed."""
        self._line.count(-1)
        self._connection = None
        if self.state == STOPPED:
            after, self._after = self._after, None
            if after is not None:
                after()
            return
        if self._keys.wanted is not None and not self._is_again and not self._is_paused:
            self._is_again = True
            self.start()
            return
        self._failed(self._reason or connection.lost_by or CLOSED)

    def _failed(self, why: str) -> None:
        if self.state == STOPPED or self._is_paused:
            return
        self._is_again = False
        self.failures += 1
        was_open = self.state == OPEN
        if was_open and self._loop.time() - self._opened_at >= LASTING_SECONDS:
            self._delays.reset()
        self.why = why[:REASON_LENGTH_MAX]
        self._enter(WAITING)
        delay = self._delays.next()
        self._wait(delay)
        is_news = self.why not in self._logged and len(self._logged) < LOGGED_MAX
        if was_open or is_news:
            what = "the connection is gone" if was_open else "cannot connect"
            log.warning(
                f"{what}; the connector tries again", connector=self.config.name,
                url=self.config.url, why=self.why, seconds=round(delay, 1),
            )  # fmt: skip
        if is_news:
            self._logged.add(self.why)

    def tick(self) -> None:
        """Look whether the connection is open by now; called ten times a second."""
        connection = self._connection
        if self.state == CONNECTING and connection is not None and connection.has_logged_in:
            self._enter(OPEN)
            self._opened_at = self._loop.time()
            self._is_again = False
            self.why = ""
            self._logged.clear()
            log.info(
                "the connector is open", connector=self.config.name, url=self.config.url,
                container=self.container, product=self.product,
            )  # fmt: skip

    def stop(self, what: str, then: Callable[[], None] | None = None) -> None:
        """Close the connection, and open no other; call `then` when it is closed."""
        connection = self._connection
        peer = self.peer
        self.pause()
        self._enter(STOPPED)
        if connection is None:
            if then is not None:
                then()
            return
        self._after = then
        if peer is None or not self._around.hub.close_connection(peer.connection, what, ""):
            connection.abort()

    def pause(self) -> None:
        """Open no connection any more; one that is open stays."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is None and self._task is not None:
            self._task.cancel()
        elif self._connection is not None and self.state == CONNECTING:
            self._connection.abort()
        self._is_paused = True

    def close(self) -> None:
        """Close the connection, if there is one, after what was written to it."""
        if self._connection is not None and self._connection.is_made:
            self._connection.close(0)

    def take_counts(self, former: "Connector") -> None:
        """Go on counting where the former connector of this name ends."""
        self.attempts, self.failures = former.attempts, former.failures

    # ---- for lists

    @property
    def peer(self) -> Peer | None:
        """The peer of the connection, None if it is not open."""
        connection = self._connection
        peer: Any = connection.peer if connection is not None else None
        return peer if isinstance(peer, Peer) and peer.connection else None

    @property
    def container(self) -> str:
        """The container id of the peer, "" if it is not known."""
        peer = self.peer
        found = None
        if peer is not None:
            found = self._around.hub.broker.state.connections.get(peer.connection)
        return found.client_id if found is not None else ""

    @property
    def product(self) -> str:
        """The product of the peer, as it says."""
        peer = self.peer
        return peer.session.peer_product if peer is not None else ""

    @property
    def next_try_seconds(self) -> float:
        """How long it is until the next attempt."""
        return max(0.0, self._next_try - self._loop.time()) if self.state == WAITING else 0.0

    @property
    def rows(self) -> Sequence[AutoLinkRow]:
        """The auto-links on the connection, none if it is not open."""
        peer = self.peer
        return peer.session.auto_links if peer is not None else ()


def _delays_of(config: ConnectorConfig) -> Delays:
    return Delays(config.reconnect_delay / 1000, config.reconnect_delay_max / 1000, random.random)


def _of_connection(config: ConnectorConfig) -> ConnectorConfig:
    """Return the values that a connection has from its beginning to its end."""
    return msgspec.structs.replace(
        config, cost=0, reconnect_delay=0, reconnect_delay_max=0, connect_timeout=0
    )


def _text_of(error: OSError) -> str:
    """Return the text of an error, without the words that the event loop adds."""
    return os.strerror(error.errno) if error.errno else str(error)


def _look_at(future: "asyncio.Future[Prepared]") -> None:
    """Look at the error of work that nobody waits for any more."""
    if not future.cancelled():
        future.exception()
