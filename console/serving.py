"""Serves a console: the socket, its certificate, and the end.

Fault model: the broker that started the console may end at any moment: the console ends then, too.
A renewed certificate may be unusable: the former one stays in use.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import uvicorn

from daybook.console.app import application
from daybook.console.connections import CONNECTIONS_MAX, PATIENCE_SECONDS, Connection, Entrance
from daybook.console.console import Console
from daybook.console.console_config import ConsoleConfig, ConsoleError
from daybook.server.network.layers.certificates import Identity, TlsError
from daybook.server.process.descriptors import raise_limit

REFUSED_FROM: Final = 2 * CONNECTIONS_MAX
"""With so many that all serve something, browsers are told to come again later."""
REQUEST_BYTES_MAX: Final = 32 * 1024
"""The longest line and headers of a request."""
STOP_SECONDS: Final = 3
BACKLOG: Final = 1_024
NICE: Final = 5
"""How much a console that a broker started stands back where processors are short."""
FIRST_TO_GO: Final = 500
"""Where memory is short, the kernel ends such a console before its broker (oom_score_adj)."""
STANDARD_INPUT: Final = 0

log = logging.getLogger("daybook.console")


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
    log.setLevel(logging.INFO)
    identity = _identity(config)
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
        ),
        lambda: on_ready(url, console),
        ends_with,
        console,
        identity,
    )  # fmt: skip
    server.run(sockets=[listener])


def _identity(config: ConsoleConfig) -> Identity | None:
    """Return the certificate of a console, None without TLS. Raises ConsoleError."""
    try:
        return Identity(config.tls) if config.tls is not None else None
    except TlsError as error:
        raise ConsoleError(str(error)) from error


class _Server(uvicorn.Server):
    """Says when it serves, reads a renewed certificate, and ends with its owner."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], ends_with: int | None,
        console: Console, identity: Identity | None,
    ) -> None:  # fmt: skip
        super().__init__(config)
        self._on_ready: Final = on_ready
        self._ends_with: Final = ends_with
        self._console: Final = console
        self._identity = identity
        self._has_terminal: Final = os.isatty(STANDARD_INPUT)
        self._entrances: Final[list[Entrance]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        # It would accept by itself those that it gets.
        await super().startup([])
        if self.should_exit:
            return
        loop = asyncio.get_running_loop()
        context = self._identity.context if self._identity is not None else None
        self._entrances.extend(Entrance(each, self._connection, context) for each in sockets or [])
        self.servers.extend(self._entrances)  # type: ignore[arg-type]
        if self._identity is not None:
            loop.add_signal_handler(signal.SIGHUP, self._hung_up)
            # A broker blocks it, for a thread of its own, and so in a console that it starts.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        if self._ends_with is not None:
            loop.add_reader(self._ends_with, self._look_at_owner)
        self._on_ready()

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, self.lifespan.state)

    def _hung_up(self) -> None:
        """Read the certificate again, for new connections; end if SIGHUP says that the terminal of
        the console is gone."""
        if self._has_terminal and not os.isatty(STANDARD_INPUT):
            self.should_exit = True
            return
        files = self._console.config.tls
        assert files is not None
        assert self._identity is not None
        try:
            renewed = self._identity.renewed(files)
        except TlsError as error:
            log.error("the certificate was not reloaded, the former one stays in use: %s", error)
            return
        self._identity = renewed
        for each in self._entrances:
            each.context = renewed.context
        self._console.hosts.read_certificate()
        log.info("the certificate was read again")

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
