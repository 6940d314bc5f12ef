"""The connections of browsers: accepts them, and bounds their number and their time.

Fault model: a browser may connect and say nothing, stop within the handshake of TLS, send a request
byte by byte, or not read its answer. Such a connection is closed after PATIENCE_SECONDS without
progress, or when there are too many and it serves nothing, so strangers hold a bounded number of
them for a bounded time. Sockets are accepted here and not by the event loop, which shows a
connection over TLS only after its handshake.

Must never know what a request is about.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from daybook.journal.spares import OUT_OF_DESCRIPTORS

CONNECTIONS_MAX: Final = 1_000
"""Of more, those that serve nothing are closed, the oldest first."""
PATIENCE_SECONDS: Final = 10.0
ACCEPTS_AT_ONCE: Final = 64
"""How many connections are accepted in one turn of the event loop."""
RETRY_SECONDS: Final = 1.0
"""How long connections wait in the kernel when no descriptors are left."""


class Connection(H11Protocol):
    """A connection of a browser that is closed when it makes no progress."""

    _progress: tuple[int, int] = (0, 0)
    _served = 0
    _watch: asyncio.TimerHandle | None = None
    on_lost: Callable[["Connection"], None] | None = None
    opening: asyncio.Task[Any] | None = None
    """Makes the connection of a socket, with the handshake of TLS."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.cancel()
        if self.on_lost is not None:
            self.on_lost(self)
        super().connection_lost(exc)

    @property
    def is_made(self) -> bool:
        """Whether the browser can ask: its handshake is over."""
        return self._watch is not None

    @property
    def is_serving(self) -> bool:
        """Whether a request came of which the answer is not complete."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def abort(self) -> None:
        """Close it at once, also within its handshake."""
        if self.is_made:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def on_response_complete(self) -> None:
        """Count what was served."""
        self._served += 1
        super().on_response_complete()

    def _look(self) -> None:
        """Close the connection if nothing was served and nothing left since the last time."""
        unsent = self.transport.get_write_buffer_size()
        now = self._served, unsent
        is_stuck = now == self._progress and (unsent > 0 if self.is_serving else True)
        if is_stuck:
            self.transport.abort()
            return
        self._progress = now
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)


class Entrance:
    """Accepts the connections of a listening socket; it is closed as a server of asyncio is."""

    def __init__(
        self, listener: socket.socket, make: Callable[[], Connection],
        context: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """`make` returns a new connection. With a `context` they speak TLS; another context is for
        new connections."""
        self.context = context
        self._listener: Final = listener
        self._make: Final = make
        self._loop: Final = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._connections: Final[dict[Connection, None]] = {}
        """All of them, also those in their handshake, the oldest first."""
        listener.setblocking(False)
        self._begin()

    def __len__(self) -> int:
        return len(self._connections)

    def close(self) -> None:
        """Accept nothing more, and end handshakes; other connections stay."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listener)
        for each in list(self._connections):
            if not each.is_made:
                each.abort()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def _begin(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                accepted, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Any other error concerns only this connection, which has ended.
                if error.errno in OUT_OF_DESCRIPTORS:
                    self._loop.remove_reader(self._listener)
                    self._retry = self._loop.call_later(RETRY_SECONDS, self._begin)
                    return
                continue
            self._take(accepted)

    def _take(self, accepted: socket.socket) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            self._make_room()
        accepted.setblocking(False)
        connection = self._make()
        connection.on_lost = self._forget
        self._connections[connection] = None
        seconds = PATIENCE_SECONDS if self.context is not None else None
        connection.opening = self._loop.create_task(
            self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self.context,
                ssl_handshake_timeout=seconds, ssl_shutdown_timeout=seconds,
            )
        )  # fmt: skip
        connection.opening.add_done_callback(partial(self._opened, connection, accepted))

    def _opened(
        self, connection: Connection, accepted: socket.socket, opening: asyncio.Task[Any]
    ) -> None:
        """Forget a connection that was not made: its browser is gone, too slow, or speaks no TLS
        that is allowed."""
        connection.opening = None
        error = None if opening.cancelled() else opening.exception()
        if opening.cancelled() or error is not None:
            accepted.close()
            self._forget(connection)
        if error is not None and not isinstance(error, OSError):
            raise error

    def _make_room(self) -> None:
        """Close the oldest connection that serves nothing."""
        for each in self._connections:
            if not each.is_serving:
                del self._connections[each]
                each.abort()
                return

    def _forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
