"""The broker process of a drill: started on scratch data, killed with all its processes, started
again. Ends only processes that it started.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from daybook.errors import DaybookError
from daybook.tools.drills.scratch.server import Serving

PROGRAM: tuple[str, ...] = (sys.executable, "-P", "-m", "daybook.tools.drills.scratch.server")
READY_SECONDS: Final = 120.0
END_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.005
LOG_BYTES: Final = 4000
ERROR_LENGTH_MAX: Final = 300


class BrokerTrouble(DaybookError):
    """A drill's broker does not start, or does not end; the text has the end of its log."""


class DrillBroker:
    """A broker on the data directory of a Serving; `log` is the file of its output."""

    def __init__(self, serving: Serving, log: Path) -> None:
        self.serving = serving
        self.log: Final = log
        self.port = 0
        self.amqp_port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._output: Final = log.with_suffix(".out")
        self._launched = 0.0
        # The size of the log before the last launch.
        self._said = 0

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_started(self) -> bool:
        """Whether the process was started, and neither killed nor stopped since."""
        return self._process is not None

    def launch(self) -> None:
        """Start the process, and do not wait."""
        serving = replace(self.serving, starter=os.getpid())
        self._said = self.log.stat().st_size if self.log.exists() else 0
        self._launched = time.perf_counter()
        command = [*PROGRAM, msgspec.json.encode(serving).decode()]
        with self._output.open("wb") as output, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=log,
                cwd=Path(self.serving.data).parent, start_new_session=True,
            )  # fmt: skip

    def start(self) -> float:
        """Start, and wait until it serves; return how many seconds that took. Raises
        BrokerTrouble."""
        self.launch()
        return self.await_ready()

    def await_ready(self) -> float:
        """Wait until a broker that was launched serves; return the seconds since its launch.
        Raises BrokerTrouble."""
        while not self.is_ready():
            if not self.is_running:
                raise BrokerTrouble(f"the broker did not start: {self.last_words()}")
            if time.perf_counter() - self._launched > READY_SECONDS:
                raise BrokerTrouble(
                    f"the broker was not ready after {READY_SECONDS:.0f} s: {self.last_words()}"
                )
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - self._launched

    def is_ready(self) -> bool:
        """Whether a broker that was launched serves; then `port` is where, and `amqp_port` if it
        speaks AMQP."""
        line = self._output.read_text("utf-8")
        if not (line.startswith("ready ") and line.endswith("\n")):
            return False
        ports = [int(url.rpartition(":")[2]) for url in line.split()[1:]]
        self.port, self.amqp_port = ports[0], ports[-1]
        return True

    def wait_a_moment(self, seconds: float) -> None:
        """Let the process run for some time, or until it ends."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def signal(self, number: int) -> None:
        """Send a signal to the broker and all processes that it started."""
        assert self._process is not None
        for pid in _family(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Send SIGKILL to the broker and all processes that it started, and wait for their ends."""
        if self._process is None:
            return
        family = list(_family(self._process.pid))
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        deadline = time.monotonic() + END_SECONDS
        while any(_is_alive(pid) for pid in family):
            if time.monotonic() > deadline:
                raise BrokerTrouble("a process of the broker did not end after SIGKILL")
            time.sleep(POLL_SECONDS)

    def stop(self) -> int:
        """Send SIGTERM; return the exit code. Raises BrokerTrouble."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise BrokerTrouble(f"the broker did not stop: {self.last_words()}") from None
        self._process = None
        return code

    def said(self) -> bytes:
        """Return the log of the broker since its launch."""
        return self.log.read_bytes()[self._said :] if self.log.exists() else b""

    def last_words(self) -> str:
        """Return the end of the broker's log since its launch, on one line."""
        content = self.said()[-LOG_BYTES:]
        return " ".join(content.decode("utf-8", "replace").split())

    def reason(self) -> str:
        """Return why the broker did not start, in its words; "" if it did not say so."""
        lines = self.log.read_text("utf-8", "replace").splitlines() if self.log.exists() else []
        for line in reversed(lines):
            with suppress(msgspec.DecodeError):
                told = msgspec.json.decode(line)
                if isinstance(told, dict) and told.get("why"):
                    return str(told["why"])
        return ""

    def traceback(self) -> str:
        """Return the error of the first traceback that the broker logged over all its lives; "" if
        it logged none."""
        text = self.log.read_text("utf-8", "replace") if self.log.exists() else ""
        _, found, rest = text.partition("Traceback")
        lines = (each for each in rest.splitlines()[1:] if each and not each.startswith(" "))
        return next(lines, "it is cut off")[:ERROR_LENGTH_MAX] if found else ""


def _family(pid: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    yield pid
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    except OSError:
        return
    for child in text.split():
        yield from _family(int(child))


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False
