"""A broker under test that was started: its endpoint, its processes, and its end.

Every target listens on free ports of 127.0.0.1 only, keeps all its files below the directory it is
given, and runs in a session of its own, so that stopping it leaves no process behind.

Fault model: a target that is not installed says so before anything is started; one that exits or
is not ready in time is reported with the end of what it printed.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from bench.load.wire import Endpoint

_READY_S: Final = 60.0
_STOP_S: Final = 30.0
_POLL_S: Final = 0.05
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class TargetError(Exception):
    """A broker under test that is missing, did not start, or did not stay up."""


class Target(Protocol):
    """A broker that the benchmark can start."""

    name: str
    note: str
    """The report's notes about its set-up, as far as known yet, perhaps ""."""

    def missing(self) -> str:
        """Return the steps needed before this target can run, "" for none."""

    def start(self, directory: Path) -> "Running":
        """Start with fresh data below `directory`; raises TargetError."""


class Running:
    """A started broker: its endpoint, its processes, and its end."""

    def __init__(
        self, name: str, commands: list[list[str]], directory: Path, environment: dict[str, str]
    ) -> None:
        """Start `commands`, the last of which is the broker, in `directory`."""
        self.name = name
        self.endpoint = Endpoint(0, "", "", "", "")
        self._directory = directory
        self._environment = environment
        self._log = directory / "output"
        self._processes: list[subprocess.Popen[bytes]] = []
        for command in commands:
            self._processes.append(self._launched(command))

    def _launched(self, command: list[str]) -> "subprocess.Popen[bytes]":
        """Start one of the processes."""
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._directory,
                env=os.environ | self._environment, start_new_session=True,
            )  # fmt: skip

    def printed(self, line: bytes) -> bool:
        """Return whether the broker has printed a line that starts with `line`."""
        return any(found.startswith(line) for found in self._log.read_bytes().splitlines())

    def has_said(self, text: bytes) -> bool:
        """Return whether the broker has printed `text` anywhere."""
        return text in self._log.read_bytes()

    def accepts(self, port: int) -> bool:
        """Return whether somebody listens on `port` of 127.0.0.1."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def wait_until_ready(self, endpoint: Endpoint, line: bytes | None) -> None:
        """Wait until the broker, with one where messages are received, accepts and, if asked for,
        has printed its `line`."""
        try:
            self._wait({endpoint.port, endpoint.receiving.port}, line)
        except BaseException:  # Whatever ends the waiting, an interrupt too, ends the broker.
            self.stop()
            raise
        self.endpoint = endpoint

    def _wait(self, ports: set[int], line: bytes | None) -> None:
        deadline = time.monotonic() + _READY_S
        while not (line is None or self.printed(line)) or not all(map(self.accepts, ports)):
            code = self._processes[-1].poll()
            if code is not None or time.monotonic() > deadline:
                why = f"exited with {code}" if code is not None else f"was silent for {_READY_S} s"
                tail = self._log.read_text("utf-8", "replace")[-2000:]
                raise TargetError(f"{self.name} {why} before it was ready; it printed:\n{tail}")
            time.sleep(_POLL_S)

    def cpu_s(self) -> float:
        """Return the processor seconds used so far by every process of this broker."""
        return sum(self.cpu_s_by_process().values())

    def cpu_s_by_process(self) -> dict[Path, float]:
        """Return the processor seconds used so far, by the folders in /proc of its processes."""
        return {
            folder: (int(fields[11]) + int(fields[12])) / _TICKS for folder, fields in self._stats()
        }

    def peak_rss_bytes(self) -> list[int]:
        """Return the most memory that each process of this broker ever took, the largest first."""
        peaks = []
        for folder, _ in self._stats():
            for line in (folder / "status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    peaks.append(int(line.split()[1]) * 1024)
        return sorted(peaks, reverse=True)

    def processes(self) -> list[Path]:
        """Return the folders in /proc of this broker's processes, in the order of their start."""
        return sorted((folder for folder, _ in self._stats()), key=lambda folder: int(folder.name))

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash would."""
        self._processes[-1].kill()
        self._processes[-1].wait()

    def _stats(self) -> Iterator[tuple[Path, list[str]]]:
        """Give folder and fields of /proc for every process of this broker."""
        sessions = {process.pid for process in self._processes}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # The process ended between the listing and the reading.
                continue
            # The children of a broker may have sessions of their own.
            if int(fields[3]) in sessions or int(fields[1]) in sessions:
                yield stat.parent, fields

    def stop(self) -> None:
        """End the broker, gently first, and wait until all its processes are gone."""
        for process in reversed(self._processes):
            _signal_group(process, signal.SIGTERM)
            # SIGKILL follows in any case, for children that stayed behind.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            _signal_group(process, signal.SIGKILL)
            process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    # When every process of the group has ended already, there is no process to signal.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
