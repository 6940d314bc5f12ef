"""Serves a console: the socket, the connections of browsers, and the end.

Fault model: a browser may connect and say nothing, send a request byte by byte, or not read its
answer. Such a connection is closed after PATIENCE_SECONDS without progress, or when there are too
many and it serves nothing, so strangers hold a bounded number of them for a bounded time. The
broker that started the console may end at any moment: the console ends then, too.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from daybook.console.app import application
from daybook.console.console import Console
from daybook.console.console_config import ConsoleConfig, ConsoleError
from daybook.server.process.descriptors import raise_limit

CONNECTIONS_MAX: Final = 1_000
"""Of more, those that serve nothing are closed, the oldest first."""
REFUSED_FROM: Final = 2 * CONNECTIONS_MAX
"""With so many that all serve something, browsers are told to come again later."""
REQUEST_BYTES_MAX: Final = 32 * 1024
"""The longest line and headers of a request."""
PATIENCE_SECONDS: Final = 10.0
STOP_SECONDS: Final = 3
BACKLOG: Final = 128
NICE: Final = 5
"""How much a console that a broker started stands back where processors are short."""
FIRST_TO_GO: Final = 500
"""Where memory is short, the kernel ends such a console before its broker (oom_score_adj)."""


class Connection(H11Protocol):
    """A connection of a browser that is closed when it makes no progress."""

    _progress: tuple[int, int] = (0, 0)
    _served = 0
    _watch: asyncio.TimerHandle | None = None
    _open: ClassVar[dict["Connection", None]] = {}
    """All that are open, the oldest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch."""
        super().connection_made(transport)
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)
        self._open[self] = None
        if len(self._open) > CONNECTIONS_MAX:
            self._make_room()

    def _make_room(self) -> None:
        """Close the oldest connection that serves nothing."""
        for each in self._open:
            if not each.is_serving:
                del self._open[each]
                each.transport.abort()
                return

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.cancel()
        self._open.pop(self, None)
        super().connection_lost(exc)

    @property
    def is_serving(self) -> bool:
        """Whether a request came of which the answer is not complete."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

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


def stand_back() -> None:
    """Leave processors and memory to the broker that started this process, where they are short."""
    os.nice(NICE)
    # It is there on Linux, and anybody may raise it.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_GO), "ascii")


def serve(
    config: ConsoleConfig,
    on_ready: Callable[[str, Console], None],
    *,
    ends_with: int | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, or until the descriptor `ends_with` ends; `on_ready` gets the
    URL when browsers are served. Raises ConsoleError."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    # It warns of each request that is none, and strangers may send many.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    raise_limit()
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
            limit_concurrency=REFUSED_FROM, timeout_keep_alive=int(PATIENCE_SECONDS),
            timeout_graceful_shutdown=STOP_SECONDS, h11_max_incomplete_event_size=REQUEST_BYTES_MAX,
            ssl_certfile=config.certificate, ssl_keyfile=config.private_key,
        ),
        lambda: on_ready(url, console),
        ends_with,
    )  # fmt: skip
    server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it serves, and ends with its owner."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], ends_with: int | None
    ) -> None:
        super().__init__(config)
        self._on_ready: Final = on_ready
        self._ends_with: Final = ends_with

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        if self._ends_with is not None:
            asyncio.get_running_loop().add_reader(self._ends_with, self._look_at_owner)
        if not self.should_exit:
            self._on_ready()

    def _look_at_owner(self) -> None:
        """End when the owner, who says nothing, has ended."""
        assert self._ends_with is not None
        if not os.read(self._ends_with, 1024):
            asyncio.get_running_loop().remove_reader(self._ends_with)
            self.should_exit = True


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
