"""Etcd as processes, of one member or several, for tests that kill, stop and restart them."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

import pytest

from bench.brokers.ports import free_ports

ETCD: Final = shutil.which("etcd")
START_SECONDS: Final = 60.0
MISSING: Final = "etcd is missing; install it (Debian: apt install etcd-server)"


class Member:
    """One member: a process that can be killed, stopped and started again."""

    def __init__(
        self, name: str, folder: Path, client: int, peer: int, cluster: str, options: list[str]
    ) -> None:
        assert ETCD is not None
        secure = "s" if options else ""
        self.url = f"http{secure}://127.0.0.1:{client}"
        self._folder = folder
        self._log = folder.with_suffix(".log")
        self._command = [
            ETCD, "--name", name, "--data-dir", str(folder),
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", cluster, *options,
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; it may answer later."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once, stopped or not."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def forget(self) -> None:
        """Remove its data."""
        shutil.rmtree(self._folder)

    def log(self) -> str:
        """Return the end of its log."""
        return self._log.read_text("utf-8", "replace")[-4_000:]


def is_healthy(url: str) -> bool:
    """Return whether a member has a leader."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=1)
    try:
        connection.request("GET", "/health")
        return b'"true"' in connection.getresponse().read()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def etcd(
    folder: Path, members: int = 1, options: list[str] | None = None
) -> Iterator[list[Member]]:
    """Run an etcd of some members, whose data is in a folder. `options` are those of TLS."""
    if ETCD is None:
        pytest.skip(MISSING)
    ports = free_ports(2 * members)
    peers = ports[members:]
    cluster = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
    started = [
        Member(f"m{i}", folder / f"m{i}", ports[i], peers[i], cluster, options or [])
        for i in range(members)
    ]
    try:
        for each in started:
            each.start()
        if not options:
            wait_healthy(started)
        yield started
    finally:
        for each in started:
            each.kill()


def wait_healthy(members: list[Member]) -> None:
    """Wait until each member has a leader."""
    ends = time.monotonic() + START_SECONDS
    while not all(is_healthy(each.url) for each in members):
        if time.monotonic() > ends:
            raise AssertionError("\n".join(each.log() for each in members))
        time.sleep(0.05)
