"""Keeping anchors elsewhere: appended to a file, or posted to a URL.

Each place has a thread of its own, because a disk or a peer may hang, and a bounded queue: when it
is full the oldest anchor is dropped, since a newer one proves all that it does. Failures are
retried, with a pause that doubles. Part of the notary; must never run in the broker.
"""

import base64
import http.client
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from daybook.recovery.signing.file_errors import naming
from daybook.recovery.signing.statements import Statement

WAITING_MAX: Final = 16
POST_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 1.0
RETRY_SECONDS_MAX: Final = 60.0
FILE: Final = "file:"
LOG: Final = "log"
SCHEMES: Final = ("http", "https")


def wrong_with(place: str) -> str:
    """Return the fault of the name of a place, "" without one."""
    if place == LOG:
        return ""
    if place.startswith(FILE):
        path = place.removeprefix(FILE)
        return "" if Path(path).is_absolute() and "\0" not in path else "its path must be absolute"
    try:
        parts = urlsplit(place)
        is_url = parts.scheme in SCHEMES and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_url = False
    return "" if is_url else 'it must be "file:/PATH", "log" or "https://HOST/PATH"'


def shown(place: str) -> str:
    """Return the name of a place without secrets of a URL."""
    if place == LOG or place.startswith(FILE):
        return place
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


class Place:
    """A place for anchors. `on_kept` gets its name, an LSN, and why it failed ("" if it did not);
    it is called in the thread of the place."""

    def __init__(self, place: str, on_kept: Callable[[str, int, str], None]) -> None:
        self.name: Final = place
        self._on_kept: Final = on_kept
        self._waiting: Final[deque[Statement]] = deque(maxlen=WAITING_MAX)
        self._changed: Final = threading.Condition()
        self._is_busy = False
        self._ends = False
        threading.Thread(target=self._run, name=f"anchor {shown(place)}", daemon=True).start()

    def put(self, statement: Statement) -> None:
        """Keep a statement as soon as possible; never waits."""
        with self._changed:
            self._waiting.append(statement)
            self._changed.notify_all()

    def end(self) -> None:
        """Accept no more anchors; keep the waiting ones."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()

    def is_done(self) -> bool:
        """Return whether no anchor waits."""
        with self._changed:
            return not self._waiting and not self._is_busy

    def _run(self) -> None:
        pause = RETRY_SECONDS
        while True:
            with self._changed:
                while not self._waiting:
                    if self._ends:
                        return
                    self._changed.wait()
                statement = self._waiting.popleft()
                self._is_busy = True
            try:
                keep(self.name, statement)
                why = ""
            except (OSError, http.client.HTTPException) as error:
                why = str(error) or type(error).__name__
            with self._changed:
                self._is_busy = False
                if why and len(self._waiting) < WAITING_MAX:
                    self._waiting.appendleft(statement)
            self._on_kept(self.name, statement.lsn, why)
            if why:
                time.sleep(pause)
                pause = min(2 * pause, RETRY_SECONDS_MAX)
            else:
                pause = RETRY_SECONDS


def keep(place: str, statement: Statement) -> None:
    """Keep a statement at a place. Raises OSError, HTTPException."""
    if place.startswith(FILE):
        _append(Path(place.removeprefix(FILE)), statement.line())
    else:
        _post(place, statement.line())


def _append(path: Path, line: bytes) -> None:
    """Append a line to a file, whole or not at all. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOCTTY, 0o644)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            # A line that a crash cut short must not spoil this one.
            line = b"\n" + line
        try:
            with naming(path):
                _write_all(file, line)
        except OSError:
            _cut(file, size, line)
            raise
        os.fsync(descriptor)


def _write_all(file: FileIO, content: bytes) -> None:
    # A disk that is almost full takes the beginning, and reports the error only at the next write.
    while content:
        content = content[file.write(content) :]


def _cut(file: FileIO, size: int, line: bytes) -> None:
    """Remove the beginning of a line, unless something else was appended meanwhile."""
    with suppress(OSError):
        written = os.pread(file.fileno(), len(line), size)
        if written and line.startswith(written) and file.seek(0, os.SEEK_END) < size + len(line):
            file.truncate(size)


def _post(url: str, line: bytes) -> None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    makes = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = makes(parts.hostname, parts.port, timeout=POST_SECONDS)
    headers = {"Content-Type": "application/json", "Connection": "close"}
    if parts.username is not None:
        login = f"{parts.username}:{parts.password or ''}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, line, headers)
        answer = connection.getresponse()
        answer.read(1)
        if not 200 <= answer.status < 300:
            raise OSError(f"{shown(url)} answered {answer.status} {answer.reason}")
    finally:
        connection.close()
