"""A program that runs beside the broker, which starts it and ends it.

It has a group of processes, a share of the processors and a memory of its own, and shares nothing
with the broker but two pipes: its standard input, which says nothing and ends with the broker,
however that ends, and its output, of which the broker reads a bounded part once a second and logs
it. Fault model: it may not start, die, hang, or write without end; the broker serves its clients.

    companion.command = ("/usr/bin/program", "--option")
    supervisor.run("console", companion.run)

Must never know what the program does.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from daybook.server.process import logs
from daybook.server.process.service_manager import SUPERVISOR

LOOK_SECONDS: Final = 1.0
END_SECONDS: Final = 0.5
"""How long it may take to end by itself."""
STEP_SECONDS: Final = 0.05
READ_BYTES: Final = 64 * 1024
"""How much of its output is read at a time."""
LINES_MAX: Final = 20
"""How many lines are logged at a time."""
LINE_BYTES_MAX: Final = 2_000
READY: Final = b"ready "
"""Begins the line that says where it serves."""

log = logs.logger("companion")


class Companion:
    """A program that is kept running; used only in the thread of the event loop."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.command: Sequence[str] = ()
        """The command line of it; empty for none."""
        self._place = ""
        self._rest = b""
        self._last_words = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._one: Final = asyncio.Lock()

    async def run(self) -> None:
        """Run it until this is cancelled. Raises OSError if it does not start or ends by itself."""
        async with self._one:
            process = self._start()
            try:
                while not _has_ended(process):
                    self._hear(process)
                    await asyncio.sleep(LOOK_SECONDS)
                self._hear(process)
            finally:
                code = await self._end(process)
            raise ChildProcessError(self._why(code))

    def status(self) -> dict[str, Any]:
        """Return the part of `daybook status`: nothing without a program."""
        if not self.command:
            return {}
        pid = self._process.pid if self._process is not None else None
        return {self.name: self._place, f"{self.name}_pid": pid}

    def hang_up(self) -> bool:
        """Send it SIGHUP if it is ready, so that it reads its files again; return whether it is."""
        if self._process is None or not self._place:
            return False
        # Not to its own processes.
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGHUP)
        return True

    def _start(self) -> "subprocess.Popen[bytes]":
        self._rest, self._last_words = b"", ""
        environment = {key: each for key, each in os.environ.items() if key not in SUPERVISOR}
        process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            process_group=0, env=environment,
        )  # fmt: skip
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._process = process
        return process

    def _hear(self, process: "subprocess.Popen[bytes]") -> None:
        """Log what it has said since the last time, or the beginning of that."""
        assert process.stdout is not None
        try:
            said = self._rest + os.read(process.stdout.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        *lines, rest = said.split(b"\n")
        self._rest = rest[:LINE_BYTES_MAX]
        for line in lines[:LINES_MAX]:
            self._log(line)
        if len(lines) > LINES_MAX:
            log.warning(f"the {self.name} said more", lines=len(lines) - LINES_MAX)

    def _log(self, line: bytes) -> None:
        text = line[:LINE_BYTES_MAX].decode("utf-8", "replace").strip()
        if line.startswith(READY):
            self._place = text.removeprefix(READY.decode())
            pid = self._process.pid if self._process is not None else None
            log.info(f"the {self.name} is ready", url=self._place, pid=pid)
        elif text:
            self._last_words = text
            log.warning(f"the {self.name} said", line=text)

    def _why(self, code: int) -> str:
        if self._last_words:
            return self._last_words.removeprefix("Error: ")
        if code < 0:
            return f"it was ended by {signal.Signals(-code).name}"
        return f"it ended with the exit code {code}"

    async def _end(self, process: "subprocess.Popen[bytes]") -> int:
        """End it with all its processes; return its exit code."""
        self._place, self._process = "", None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.close()
            _signal(process, signal.SIGTERM)
            waited = 0.0
            while not _has_ended(process) and waited < END_SECONDS:
                await asyncio.sleep(STEP_SECONDS)
                waited += STEP_SECONDS
        finally:
            # Its own processes may still be there when it has ended.
            _signal(process, signal.SIGKILL)
            code = process.wait()
            process.stdout.close()
        return code


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Whether a process has ended; its id, and so that of its group, stays its own."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
