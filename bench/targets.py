"""Starting and stopping the brokers under test, each on a fresh data directory.

Every target listens on free ports of 127.0.0.1 only, keeps all its files below the directory it is
given, and runs in a session of its own, so that stopping it leaves no process behind.

Fault model: a target that is not installed says so before anything is started; one that exits or
is not ready in time is reported with the end of what it printed.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from bench.wire import Endpoint

_READY_S: Final = 60.0
_STOP_S: Final = 30.0
_POLL_S: Final = 0.05
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_ACTIVEMQ: Final = Path("/usr/share/activemq/lib")
# Links are not followed: a folder that holds a link to bench/ and nothing else of the checkout is
# how an installed, compiled Daybook is measured instead of the sources (`make bench COMPILE=1`).
_ROOT: Final = Path(__file__).absolute().parent.parent


class TargetError(Exception):
    """A broker under test that is missing, did not start, or did not stay up."""


class Target(Protocol):
    """A broker that the benchmark can start."""

    name: str

    def missing(self) -> str:
        """Return what has to be done before this target can run; "" if nothing."""

    def start(self, directory: Path) -> "Running":
        """Start with fresh data below `directory`; raises TargetError."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Running:
    """A started broker: its endpoint, its processes, and its end."""

    def __init__(
        self, name: str, commands: list[list[str]], directory: Path, environment: dict[str, str]
    ) -> None:
        """Start `commands`, the last of which is the broker, in `directory`."""
        self.name = name
        self.endpoint = Endpoint(0, "", "", "", "")
        self._log = directory / "output"
        self._processes: list[subprocess.Popen[bytes]] = []
        with self._log.open("wb") as log:
            for command in commands:
                self._processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        cwd=directory,
                        env=os.environ | environment,
                        start_new_session=True,
                    )
                )

    def printed(self, line: bytes) -> bool:
        """Return whether the broker has printed a line that starts with `line`."""
        return any(found.startswith(line) for found in self._log.read_bytes().splitlines())

    def accepts(self, port: int) -> bool:
        """Return whether somebody listens on `port` of 127.0.0.1."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def wait_until_ready(self, endpoint: Endpoint, line: bytes | None) -> None:
        """Wait until the broker accepts and, if asked for, has printed its `line`."""
        try:
            self._wait(endpoint.port, line)
        except BaseException:  # Whatever ends the waiting, an interrupt too, ends the broker.
            self.stop()
            raise
        self.endpoint = endpoint

    def _wait(self, port: int, line: bytes | None) -> None:
        deadline = time.monotonic() + _READY_S
        while not (line is None or self.printed(line)) or not self.accepts(port):
            code = self._processes[-1].poll()
            if code is not None or time.monotonic() > deadline:
                why = f"exited with {code}" if code is not None else f"was silent for {_READY_S} s"
                tail = self._log.read_text("utf-8", "replace")[-2000:]
                raise TargetError(f"{self.name} {why} before it was ready; it printed:\n{tail}")
            time.sleep(_POLL_S)

    def cpu_s(self) -> float:
        """Return the processor seconds used so far by every process of this broker."""
        return sum(int(fields[11]) + int(fields[12]) for _, fields in self._stats()) / _TICKS

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
    # There is nobody to signal when every process of the group has ended already.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


class FloorTarget:
    """`bench.floor`: the limit to close in on."""

    name = "floor"

    def missing(self) -> str:
        """The floor is always there."""
        return ""

    def start(self, directory: Path) -> Running:
        """Start the floor."""
        port = free_port()
        command = [sys.executable, "-m", "bench.floor", "--port", str(port)]
        command += ["--data", str(directory / "data")]
        running = Running(self.name, [command], directory, {"PYTHONPATH": str(_ROOT)})
        running.wait_until_ready(Endpoint(port, "guest", "guest", "/", "credit"), b"ready")
        return running


class DaybookTarget:
    """Daybook itself, from this checkout or from another interpreter's environment."""

    def __init__(self, name: str, settings: tuple[str, ...], python: str | None) -> None:
        """Prepare `daybook serve` with `--set` for each of `settings`.

        With `python`, the interpreter of an environment in which a wheel is installed, the
        installed packages are measured instead of the checkout.
        """
        self.name = name
        self._settings = settings
        # A broker starts in a folder of its own, where a relative path would lead elsewhere.
        found = shutil.which(python) if python is not None else None
        self._python = str(Path(found).absolute()) if found is not None else python

    def missing(self) -> str:
        """Say so if there is no `daybook serve` to start."""
        if self._python is not None:
            if not shutil.which(self._python):
                return f"there is no interpreter {self._python}"
            script = self._command[0]
            return "" if Path(script).exists() else f"there is no {script}"
        if importlib.util.find_spec("daybook.tools") is None:
            return "neither this folder nor this environment has the package daybook"
        return ""

    @property
    def _command(self) -> list[str]:
        """What runs `daybook`: of another version, its script, whatever its modules are called."""
        if self._python is None:
            return [sys.executable, "-m", "daybook"]
        return [str(Path(self._python).with_name("daybook"))]

    def start(self, directory: Path) -> Running:
        """Start `daybook serve` on a new data directory."""
        port = free_port()
        command = [*self._command, "serve"]
        command += ["--data", str(directory / "data"), "--listen", f"stomp://127.0.0.1:{port}"]
        for setting in self._settings:
            command += ["--set", setting]
        # An installed wheel must not find the checkout; the working directory is elsewhere too.
        environment = {} if self._python is not None else {"PYTHONPATH": str(_ROOT / "src")}
        running = Running(self.name, [command], directory, environment)
        running.wait_until_ready(Endpoint(port, "guest", "guest", "/", "credit"), b"ready")
        return running


class RabbitmqTarget:
    """RabbitMQ with its STOMP plugin, as Debian packages it."""

    name = "rabbitmq"

    def missing(self) -> str:
        """Say so if RabbitMQ is not installed."""
        return "" if _RABBITMQ.exists() else "not installed; run: sudo sh bench/peers.sh"

    def start(self, directory: Path) -> Running:
        """Start a node of its own, with its own epmd, on loopback."""
        stomp, amqp, names, distribution = (free_port() for _ in range(4))
        (directory / "enabled_plugins").write_text("[rabbitmq_stomp].\n")
        (directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{amqp}\nstomp.listeners.tcp.1 = 127.0.0.1:{stomp}\n"
        )
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        environment = {
            "HOME": str(directory),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_NODENAME": f"bench{stomp}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "none"),
            # Without the proxy shell SIGTERM reaches the broker itself.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        epmd = ["epmd", "-port", str(names), "-address", "127.0.0.1"]
        running = Running(self.name, [epmd, [str(_RABBITMQ)]], directory, environment)
        running.wait_until_ready(Endpoint(stomp, "guest", "guest", "/", "prefetch-count"), None)
        return running


class ActivemqTarget:
    """ActiveMQ Classic with KahaDB, which syncs its journal before it answers, as Debian has it."""

    name = "activemq"

    def missing(self) -> str:
        """Say so if ActiveMQ or Java is not installed."""
        if (_ACTIVEMQ / "activemq-stomp.jar").exists() and shutil.which("java"):
            return ""
        return "not installed; run: sudo sh bench/peers.sh"

    def start(self, directory: Path) -> Running:
        """Start a broker configured by a URI: one STOMP connector, nothing else."""
        port = free_port()
        broker = (
            f"broker:(stomp://127.0.0.1:{port})?persistent=true&useJmx=false"
            f"&dataDirectory={directory / 'data'}"
        )
        command = [
            *("java", "-Xms1g", "-Xmx2g", f"-Dactivemq.base={directory}"),
            f"-Dactivemq.home={directory}",
            *("-cp", f"{_ACTIVEMQ}/*:{_ACTIVEMQ}/optional/*"),
            *("org.apache.activemq.console.Main", "start", broker),
        ]
        running = Running(self.name, [command], directory, {})
        header = "activemq.prefetchSize"
        running.wait_until_ready(Endpoint(port, "guest", "guest", "localhost", header), None)
        return running


TARGETS: Final = ("floor", "daybook", "daybook-nopersist", "rabbitmq", "activemq")
NOT_PERSISTING: Final = "persist-delivery-count-before-delivery=false"


def target(name: str, settings: tuple[str, ...], python: str | None) -> Target:
    """Return the target called `name`; `settings` and `python` are for Daybook's two."""
    if name == "floor":
        return FloorTarget()
    if name == "daybook":
        return DaybookTarget(name, settings, python)
    if name == "daybook-nopersist":
        return DaybookTarget(name, (*settings, NOT_PERSISTING), python)
    if name == "rabbitmq":
        return RabbitmqTarget()
    if name == "activemq":
        return ActivemqTarget()
    raise TargetError(f"there is no target {name!r}; the targets are {', '.join(TARGETS)}")
