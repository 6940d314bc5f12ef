"""A broker in a separate process: `daybook serve` on a free port and a directory of the test.

Use it as a context manager, which kills the broker if it is still running. Output goes to files
beside the data directory, so a broker that logs much is never blocked by a pipe that nobody reads.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, ClassVar, Final

import msgspec

from tests.support.nursery import FORKED_NAME, Nursling, nursery

DAYBOOK: Final = str(Path(sys.executable).with_name("daybook"))
"""The installed script, as users start it: unlike `python -m`, it imports nothing from where it is
started."""
JOURNAL: Final = str(Path(sys.executable).with_name("journal"))
"""The other one."""

READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.01
POLL_SECONDS_MAX: Final = 0.2


class NotReady(AssertionError):
    """The broker ended, or was not ready in time; the text has its output."""


def wait_for(
    condition: Callable[[], Any], what: str, seconds: float = 60.0, every: float = POLL_SECONDS
) -> Any:
    """Wait until a condition is true and return what it gave; AssertionError after `seconds`.

    The longer it takes, the less often it is asked, for the broker has to answer meanwhile.
    """
    begun = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(max(every, min(waited / 20, POLL_SECONDS_MAX)))
    return found


def _command_of(pid: int) -> bytes:
    """The command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _is_indexer(pid: int) -> bool:
    if b"daybook.paging.indexer.indexer" in _command_of(pid):
        return True
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text() == f"{FORKED_NAME}\n"
    return False


class BrokerProcess:
    """One data directory and the broker process on it, started, killed and started again."""

    command: ClassVar[tuple[str, ...]] = (DAYBOOK,)
    is_forked: ClassVar = False
    """Whether brokers are forked by the nursery instead of starting an interpreter."""

    def __init__(
        self,
        directory: Path,
        *,
        settings: Sequence[str] = (),
        config: str = "",
        environment: Mapping[str, str] | None = None,
        listen: Sequence[str] = ("stomp://127.0.0.1:0",),
        data: Path | None = None,
        folder: Path | None = None,
        open_files: tuple[int, int] | None = None,
        processes: int = 3,
    ) -> None:
        """`settings` are KEY=VALUE for --set, `config` is the text of a configuration file.

        `data` is the data directory where it is another than the one that the files of the test are
        named after; `folder` is the working directory where it is another than ours. `open_files`
        are the soft and the hard limit of descriptors. With 1 of `processes` writer and indexer are
        threads.
        """
        self.data: Final = data if data is not None else directory
        self.directory: Final = directory
        self.folder: Final = folder
        self.settings = [*settings, *(["processes=1"] if processes == 1 else [])]
        self.environment = dict(environment or {})
        self.listen: Final = list(listen)
        self.open_files_limits: Final = open_files
        self.config_file: Final = directory.with_name(f"{directory.name}.toml")
        self.output: Final = directory.with_name(f"{directory.name}.out")
        self.log: Final = directory.with_name(f"{directory.name}.log")
        self.ports: list[int] = []
        self._process: subprocess.Popen[bytes] | Nursling | None = None
        self.configure(config)

    def configure(self, config: str) -> None:
        """Write the configuration file; it is read at the next start or at SIGHUP."""
        self.config_file.write_text(config, encoding="utf-8")

    def launch(self) -> None:
        """Start the process and do not wait for it."""
        assert self._process is None, "it runs already"
        command = [
            *self.command, "serve", "--config", str(self.config_file),
            "--data", str(self.data), "--set", f"users-file={self.directory}/users.toml",
        ]  # fmt: skip
        for where in self.listen:
            command += ["--listen", where]
        for setting in self.settings:
            command += ["--set", setting]
        self.ports = []
        with self.output.open("wb") as output, self.log.open("ab", buffering=0) as log:
            # A kill tears a line over the end of a page: nobody writes on behind it.
            if log.tell() and not self.log_text().endswith("\n"):
                log.write(b"\n")
            place = nursery() if self._may_be_forked() else None
            if place is not None:
                self._process = place.start(command, stdout=output, stderr=log, cwd=self.folder)
                return
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                env=os.environ | self.environment,
                cwd=self.folder,
                # A group of its own: a power cut takes every process of the broker.
                start_new_session=True,
            )
        if self.open_files_limits is not None:
            # Before it has looked: an interpreter takes longer to start than this.
            resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, self.open_files_limits)

    def _may_be_forked(self) -> bool:
        """Whether nothing was asked for that an interpreter or a loader sees when it starts."""
        return self.is_forked and not self.environment and self.open_files_limits is None

    def start(self) -> "BrokerProcess":
        """Start the process and wait for its `ready` line; raises NotReady."""
        self.launch()
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """Wait for the `ready` line and take the ports from it; raises NotReady."""
        give_up = time.monotonic() + READY_SECONDS
        while True:
            line = self.output.read_text("utf-8")
            if line.startswith("ready ") and line.endswith("\n"):
                break
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise NotReady(f"the broker did not get ready:\n{self.log_text()}")
            time.sleep(POLL_SECONDS)
        self.ports = [int(url.rpartition(":")[2]) for url in line.split()[1:]]

    def refuse(self) -> str:
        """Start a broker that must not start; return what it said. Its exit code must be 1."""
        before = len(self.log_text())
        self.launch()
        code = self.wait()
        said = self.log_text()[before:]
        assert code == 1, f"exit code {code}:\n{said}"
        assert "Traceback" not in said, said
        assert "ready" not in self.output.read_text("utf-8")
        return said

    @property
    def process(self) -> "subprocess.Popen[bytes] | Nursling":
        """The process that runs."""
        assert self._process is not None, "it does not run"
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether there is a process that has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def port(self) -> int:
        """Port of the first acceptor."""
        return self.ports[0]

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Wait until the process has ended; return its exit code."""
        code = self.process.wait(seconds)
        self._process = None
        return code

    def kill(self) -> None:
        """Send SIGKILL, if it still runs."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def cut_power(self) -> None:
        """Send SIGKILL to the broker and every process that it started."""
        if self._process is not None:
            group = self._process.pid
            # The indexer is in a process group of its own. A stopped process does nothing between
            # two kills.
            indexers = self.indexers() if self.is_running else []
            for pid in indexers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            for pid in indexers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.wait()

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        self.send_signal(signal.SIGTERM)
        return self.wait()

    def log_text(self) -> str:
        """Everything that the broker logged, over all starts."""
        return self.log.read_text("utf-8", errors="replace") if self.log.exists() else ""

    def lines(self) -> list[dict[str, Any]]:
        """The log as records, without what a kill tore."""
        return [
            msgspec.json.decode(line, type=dict[str, Any])
            for line in self.log_text().splitlines()
            if line.startswith("{") and line.endswith("}")
        ]

    def rss_bytes(self) -> int:
        """Resident memory of the process now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def open_files(self) -> int:
        """How many descriptors the process holds."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def children(self) -> list[int]:
        """Processes that the broker started."""
        pid = self.process.pid
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
        return [int(child) for child in text.split()]

    def writers(self) -> list[int]:
        """The process that writes the journal, if it runs.

        It has the command line of the broker. So has the indexer between its fork and its exec,
        for as long as the machine leaves it there: only one can be right.
        """
        give_up = time.monotonic() + READY_SECONDS
        while True:
            commands = {pid: _command_of(pid) for pid in self.children()}
            found = [pid for pid, words in commands.items() if words and not _is_indexer(pid)]
            if len(found) < 2 or time.monotonic() > give_up:
                return found
            time.sleep(POLL_SECONDS)

    def indexers(self) -> list[int]:
        """The process that writes the index, if it runs."""
        return [pid for pid in self.children() if _is_indexer(pid)]

    def __enter__(self) -> "BrokerProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cut_power()


def started_by(module: ModuleType, by_interpreters: Sequence[str]) -> Iterator[None]:
    """Let the nursery fork the brokers of a module, unless it is one of those named."""
    BrokerProcess.is_forked = module.__name__.rpartition(".")[2] not in by_interpreters
    yield
    BrokerProcess.is_forked = False
