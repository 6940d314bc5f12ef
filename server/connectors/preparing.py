"""The work before a connection that may hang: the addresses of a host, and files.

It is done by a thread that nobody waits for at the end of the process, since neither a name server
nor a disk can be interrupted. A connector has one at a time. Fault model: it never ends, or
its result is of no use any more.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from daybook.errors import DaybookError
from daybook.server.configuration.connector_config import ConnectorConfig, Secret
from daybook.server.network.layers.certificates import TlsError, client_context

PASSCODE_BYTES_MAX: Final = 4096

Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]
Result = TypeVar("Result")


class NotPrepared(DaybookError):
    """A connector cannot begin; the text says why."""


class Prepared(NamedTuple):
    """The addresses of a host, the passcode, and the context of TLS, None without TLS."""

    addresses: list[Address]
    passcode: Secret
    context: ssl.SSLContext | None


def prepare(config: ConnectorConfig) -> Prepared:
    """Find what a connection needs. Raises NotPrepared."""
    try:
        context = client_context(config) if config.tls else None
    except TlsError as error:
        raise NotPrepared(str(error)) from None
    passcode = passcode_of(config)
    try:
        found = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NotPrepared(f"the host {config.host!r} has no address: {why}") from None
    addresses = [(family, address) for family, _, _, _, address in found]
    return Prepared(list(dict.fromkeys(addresses)), passcode, context)  # type: ignore[arg-type]


def passcode_of(config: ConnectorConfig) -> Secret:
    """Return the passcode of a connector, empty if it has none. Raises NotPrepared."""
    path = config.passcode_file
    if not path:
        return config.passcode
    try:
        with Path(path).open("rb") as file:
            first = file.read(PASSCODE_BYTES_MAX + 1).split(b"\n")[0].rstrip(b"\r")
        text = first.decode()
    except OSError as error:
        raise NotPrepared(f"passcode-file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotPrepared(f"passcode-file {path} is not UTF-8 text") from None
    if not text or len(first) > PASSCODE_BYTES_MAX:
        wrong = "is empty" if not text else f"is longer than {PASSCODE_BYTES_MAX:,} bytes"
        raise NotPrepared(f"passcode-file {path}: its first line {wrong}")
    return Secret(text)


def in_thread(name: str, work: Callable[[], Result]) -> "asyncio.Future[Result]":
    """Do work in a thread of its own; return its future."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def finish(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: Result | None = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            failure = error
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, result, failure)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        future.set_exception(NotPrepared(str(error)))
    return future
