"""Busy neighbours: processes that spin beside a broker while it is measured.

Each is a stranger to the broker: it has a session of its own, and so its own scheduling group where
the kernel groups by session. Its niceness applies in that group and to that group.

Fault model: neighbours end with their parent, however that ends. One that dies before is reported,
for the rest of the measurement was not beside it.
"""

import contextlib
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from bench.load.frames import LoadError
from daybook.journal.writing.lifeline import end_with

_FORK: Final = multiprocessing.get_context("fork")
_READY_S: Final = 30.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_AUTOGROUP: Final = Path("/proc/self/autogroup")


class Neighbours:
    """So many busy neighbours; `stop` follows in any case, also when `start` raised."""

    def __init__(self, count: int, niceness: int) -> None:
        """Start none yet."""
        self._count: Final = count
        self._niceness: Final = niceness
        self._processes: Final[list[BaseProcess]] = []

    def start(self) -> None:
        """Start them, and return when all of them spin. Raises LoadError."""
        for _ in range(self._count):
            self._start_one()

    def stop(self) -> None:
        """End them, and return when they are gone."""
        for process in self._processes:
            if process.pid is not None:
                process.kill()
                process.join()
        self._processes.clear()

    def cpu_s(self) -> float:
        """Return the processor seconds that they have used so far. Raises LoadError."""
        return sum(map(_cpu_s, self._processes))

    def _start_one(self) -> None:
        ours, theirs = _FORK.Pipe(duplex=False)
        with contextlib.closing(ours):
            process = _FORK.Process(
                target=_spin, args=(os.getpid(), self._niceness, theirs), daemon=True
            )
            self._processes.append(process)
            process.start()
            theirs.close()
            try:
                ready = ours.poll(_READY_S) and ours.recv_bytes()
            except EOFError:
                ready = b""
            if not ready:
                raise LoadError("a busy neighbour did not start")


def _cpu_s(process: BaseProcess) -> float:
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except OSError:
        stat = ""
    fields = stat.rpartition(")")[2].split()
    if not fields or fields[0] == "Z":
        raise LoadError("a busy neighbour died while something was measured beside it")
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _spin(parent: int, niceness: int, ready: Connection) -> None:
    """Use a core until somebody ends this process."""
    # The parent handles interrupts, and ends its neighbours itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if not end_with(parent):
        return
    os.setsid()
    os.nice(niceness)
    # Where the kernel groups by session, a niceness is compared only within a group. The group's
    # own one has this file; other kernels do not have it.
    with contextlib.suppress(OSError):
        _AUTOGROUP.write_text(str(niceness))
    ready.send_bytes(b"ready")
    ready.close()
    while True:
        pass
