"""The brokers under test by name; starts the floor and Daybook."""

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.brokers.artemis import ArtemisTarget
from bench.brokers.peers import ActivemqTarget, RabbitmqTarget
from bench.brokers.running import Running, Target, TargetError, free_port
from bench.load.wire import AMQP, STOMP, Endpoint

# Links are not followed: a folder with only a link to bench/ measures an installed, compiled
# Daybook instead of the sources (`make bench COMPILE=1`).
_ROOT: Final = Path(__file__).absolute().parents[2]


class FloorTarget:
    """`bench.brokers.floor`: the limit to close in on."""

    name = "floor"
    note = ""

    def missing(self) -> str:
        """The floor is always there."""
        return ""

    def start(self, directory: Path) -> Running:
        """Start the floor."""
        port = free_port()
        command = [sys.executable, "-m", "bench.brokers.floor", "--port", str(port)]
        command += ["--data", str(directory / "data")]
        running = Running(self.name, [command], directory, {"PYTHONPATH": str(_ROOT)})
        running.wait_until_ready(Endpoint(port, "guest", "guest", "/", "credit"), b"ready")
        return running


class DaybookTarget:
    """Daybook itself, from this checkout or from another interpreter's environment."""

    note = ""

    def __init__(
        self,
        name: str,
        settings: tuple[str, ...],
        python: str | None,
        environment: Mapping[str, str] | None = None,
        protocol: str = STOMP,
        listens: tuple[str, ...] = (),
    ) -> None:
        """Prepare `daybook serve` with `--set` for each of `settings`, and in this environment;
        `listens` are further acceptors.

        With `python`, the interpreter of an environment in which a wheel is installed, the
        installed packages are measured instead of the checkout.
        """
        self.name = name
        self._settings = settings
        self._protocol = protocol
        self._environment = dict(environment or {})
        self._listens = listens
        # A broker starts in a folder of its own, where a relative path would lead elsewhere.
        found = shutil.which(python) if python is not None else None
        self._python = str(Path(found).absolute()) if found is not None else python

    def missing(self) -> str:
        """Report if there is no `daybook serve` to start."""
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
        """The command that runs `daybook`: of another version its script, because its modules may
        have other names.
        """
        if self._python is None:
            return [sys.executable, "-m", "daybook"]
        return [str(Path(self._python).with_name("daybook"))]

    def start(self, directory: Path) -> Running:
        """Start `daybook serve` on a new data directory."""
        port = free_port()
        command = [*self._command, "serve"]
        command += ["--data", str(directory / "data")]
        for listen in (f"{self._protocol}://127.0.0.1:{port}", *self._listens):
            command += ["--listen", listen]
        for setting in self._settings:
            command += ["--set", setting]
        # An installed wheel must not find the checkout; the working directory is elsewhere too.
        environment = {} if self._python is not None else {"PYTHONPATH": str(_ROOT / "src")}
        running = Running(self.name, [command], directory, environment | self._environment)
        endpoint = Endpoint(
            port, "guest", "guest", "/", "credit", protocol=self._protocol,
            stores=ALL_DIRECT not in self._settings,
        )  # fmt: skip
        running.wait_until_ready(endpoint, b"ready")
        return running


DAYBOOK_AMQP: Final = "daybook-amqp"
JAVA_PEERS: Final = ("activemq", "artemis", "artemis-amqp")
PEERS: Final = ("rabbitmq", "rabbitmq-amqp", *JAVA_PEERS)
DIRECT: Final = "daybook-direct"
TARGETS: Final = ("floor", "daybook", "daybook-nopersist", DAYBOOK_AMQP, DIRECT, *PEERS)
"""Those whose names do not say that it is AMQP speak STOMP."""
ALL_DIRECT: Final = "broker.default-distribution=balanced"
NOT_PERSISTING: Final = "persist-delivery-count-before-delivery=false"


def target(name: str, settings: tuple[str, ...], python: str | None) -> Target:
    """Return the target called `name`; `settings` and `python` are for those of Daybook."""
    broker, _, variant = name.partition("-")
    protocol = AMQP if variant == AMQP or name == DIRECT else STOMP
    if name in ("floor", "activemq"):
        return FloorTarget() if name == "floor" else ActivemqTarget()
    if broker == "daybook":
        added = {"nopersist": (NOT_PERSISTING,), "direct": (ALL_DIRECT,)}.get(variant, ())
        return DaybookTarget(name, (*settings, *added), python, protocol=protocol)
    if broker == "rabbitmq":
        return RabbitmqTarget(protocol)
    if broker == "artemis":
        return ArtemisTarget(protocol)
    raise TargetError(f"there is no target {name!r}; the targets are {', '.join(TARGETS)}")
