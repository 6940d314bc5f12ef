"""Serves a console: the socket, the connections of browsers, and the end.

Fault model: a browser may connect and say nothing, send a request byte by byte, or not read its
answer. Such a connection is closed after PATIENCE_SECONDS without progress, so strangers hold a
bounded number of them for a bounded time.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from daybook.console.app import application
from daybook.console.console import Console
from daybook.console.console_config import ConsoleConfig, ConsoleError

CONNECTIONS_MAX: Final = 1_000
REQUEST_BYTES_MAX: Final = 32 * 1024
"""The longest line and headers of a request."""
PATIENCE_SECONDS: Final = 10.0
STOP_SECONDS: Final = 3
BACKLOG: Final = 128


class Connection(H11Protocol):
    """A connection of a browser that is closed when it makes no progress."""

    _progress: tuple[int, int] = (0, 0)
    _served = 0
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Count what was served."""
        self._served += 1
        super().on_response_complete()

    def _look(self) -> None:
        """Close the connection if nothing was served and nothing left since the last time."""
        unsent = self.transport.get_write_buffer_size()
        cycle: Any = self.cycle
        is_serving = cycle is not None and not cycle.response_complete
        now = self._served, unsent
        is_stuck = now == self._progress and (unsent > 0 if is_serving else True)
        if is_stuck:
            self.transport.abort()
            return
        self._progress = now
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)


def serve(config: ConsoleConfig, on_ready: Callable[[str, Console], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `on_ready` gets the URL when browsers are served. Raises
    ConsoleError."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    console = Console(config)
    console.pool.prepare()
    listener = _listener(config)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"http{'s' * config.is_secure}://{shown}:{port}"
    server = _Server(
        uvicorn.Config(
            application(console), http=Connection, ws="none", lifespan="on", log_config=None,
            access_log=False, server_header=False, proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX, timeout_keep_alive=int(PATIENCE_SECONDS),
            timeout_graceful_shutdown=STOP_SECONDS, h11_max_incomplete_event_size=REQUEST_BYTES_MAX,
            ssl_certfile=config.certificate, ssl_keyfile=config.private_key,
        ),
        lambda: on_ready(url, console),
    )  # fmt: skip
    server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it serves."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready: Final = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()


def _listener(config: ConsoleConfig) -> socket.socket:
    """Return the socket to listen on. Raises ConsoleError."""
    try:
        found: list[Any] = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        raise ConsoleError(
            f"cannot listen at {config.url}: {error.strerror or error}; another program may, so"
            " choose another port with --listen"
        ) from error
    return listener
