"""A client of the control socket of the broker that runs on a data directory.

Fault model: the socket may be missing or stale (no broker runs), and the broker may die in the
middle of an answer. `daybook.client.remote` reaches a broker over the network instead.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from daybook.errors import DaybookError
from daybook.journal.data_directory import CONTROL_SOCKET

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
TIMEOUT_SECONDS: Final = 30.0
FIRST_SECONDS: Final = 10.0
"""How long the broker may take for what is asked before a request."""


class ControlError(DaybookError):
    """The broker refused, or did not answer; the text says why.

    `code` is the code of a refusal for programs, if the broker said one.
    """

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code: Final = code


class Unanswered(ControlError):
    """A request was sent, and no answer came: the broker may still carry it out."""


def connect(directory: Path, timeout: float, name: str = CONTROL_SOCKET) -> socket.socket | None:
    """Return a connection to the broker of a directory, None if no broker runs there; `name` is
    that of the socket. Raises ControlError."""
    try:
        folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout)
    try:
        # The path of a socket is limited to 107 bytes, that of a directory is not.
        connection.connect(f"/proc/self/fd/{folder}/{name}")
    except OSError as error:
        connection.close()
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return None
        raise _unreachable(directory / name, error) from error
    finally:
        os.close(folder)
    return connection


def _unreachable(place: Path, error: OSError) -> ControlError:
    if isinstance(error, PermissionError):
        return ControlError(
            f"{place} belongs to another user: run this as the user of the broker, or as root"
        )
    if isinstance(error, BlockingIOError | TimeoutError):
        return ControlError(
            "the broker does not answer: it accepts no more connections at its control socket; see"
            " its log"
        )
    return ControlError(f"{place}: {error.strerror or error}")


@contextmanager
def _connected(
    directory: Path, timeout: float, name: str = CONTROL_SOCKET
) -> Iterator[socket.socket | None]:
    """Connect to the broker of a directory; yield None if no broker runs there."""
    connection = connect(directory, timeout, name)
    try:
        yield connection
    finally:
        if connection is not None:
            connection.close()


def is_running(directory: Path) -> bool:
    """Whether a broker runs on the directory."""
    with suppress(ControlError), _connected(directory, TIMEOUT_SECONDS) as connection:
        return connection is not None
    return True


def ask(
    directory: Path,
    request: dict[str, Any],
    timeout: float = TIMEOUT_SECONDS,
    *,
    before: Sequence[dict[str, Any]] = (),
    name: str = CONTROL_SOCKET,
) -> dict[str, Any] | None:
    """Send a request and return the answer, None if no broker runs. Raises ControlError, and
    Unanswered if none arrives within `timeout` seconds; `before` are requests that must be
    answered first, `name` is that of the socket."""
    with _connected(directory, timeout, name) as connection:
        if connection is None:
            return None
        seconds = min(timeout, FIRST_SECONDS) if before else timeout
        kind: type[ControlError] = ControlError
        try:
            connection.settimeout(seconds)
            exchange(connection, before)
            seconds, kind = timeout, Unanswered
            connection.settimeout(seconds)
            return exchange(connection, [request])
        except TimeoutError as error:
            raise kind(
                f"the broker did not answer within {seconds:.0f} s: its disk may be full "
                "or stuck; see its log"
            ) from error
        except (ConnectionError, BrokenPipeError) as error:
            raise kind(f"the broker closed the connection before it answered: {error}") from error


def exchange(connection: socket.socket, requests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Send requests, each when the one before was answered; return the last answer. Raises
    ControlError if one is refused."""
    result: dict[str, Any] = {}
    for request in requests:
        connection.sendall(msgspec.json.encode(request) + b"\n")
        result = result_of(read_line(connection))
    return result


def result_of(line: bytes) -> dict[str, Any]:
    """Return the result in an answer. Raises ControlError if it is a refusal."""
    answer: dict[str, Any] = msgspec.json.decode(line)
    if "error" in answer:
        raise ControlError(answer["error"]["text"], code=answer["error"].get("code", ""))
    result: dict[str, Any] = answer["result"]
    return result


def read_line(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the answer is incomplete")
        parts.append(data)
        size += len(data)
        if data.endswith(b"\n"):
            return b"".join(parts)
        if size > ANSWER_BYTES_MAX:
            raise ConnectionAbortedError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
