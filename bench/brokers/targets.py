"""The brokers under test by name; starts the floor and Daybook."""

import importlib.util
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from bench.brokers.artemis import ArtemisTarget
from bench.brokers.peers import ActivemqTarget, RabbitmqTarget
from bench.brokers.ports import free_port
from bench.brokers.running import Running, Target, TargetError
from bench.brokers.standbys import ClusterTarget
from bench.load.frames import LoadError
from bench.load.measurement import BRIDGE_MODES, DIRECT_MODES, QUEUE_MODES
from bench.load.wire import AMQP, STOMP, Endpoint
from bench.load.workers import connect

# Links are not followed: a folder with only a link to bench/ measures an installed, compiled
# Daybook instead of the sources (`make bench COMPILE=1`).
_ROOT: Final = Path(__file__).absolute().parents[2]


class FloorTarget:
    """`bench.brokers.floor`: the limit to close in on; with a follower that of replication."""

    note = ""

    def __init__(self, name: str) -> None:
        """Start nothing yet."""
        self.name = name

    def missing(self) -> str:
        """The floor is always there."""
        return ""

    def start(self, directory: Path) -> Running:
        """Start the floor."""
        port = free_port()
        command = [sys.executable, "-m", "bench.brokers.floor", "--port", str(port)]
        command += ["--data", str(directory / "data")]
        if self.name == FLOOR_FOLLOWER:
            command.append("--follower")
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
        config: str = "",
        behind: str = "",
    ) -> None:
        """Prepare `daybook serve` with `--set` for each of `settings`, and in this environment;
        `listens` are further acceptors, `config` is the text of its configuration.

        With `behind`, which is more of that text, there is a second broker, to which the connector
        `there` leads; clients speak to the first one, but receive from the second one over a
        bridge.

        With `python`, the interpreter of an environment in which a wheel is installed, the
        installed packages are measured instead of the checkout.
        """
        self.name = name
        self._settings = settings
        self._protocol = protocol
        self._environment = dict(environment or {})
        self._listens = listens
        self._config = config
        self._behind = behind
        # A broker starts in a folder of its own, where a relative path would lead elsewhere.
        found = shutil.which(python) if python is not None else None
        self._python = str(Path(found).absolute()) if found is not None else python

    def missing(self) -> str:
        """Report if there is no `daybook serve` to start."""
        if self._python is not None:
            if not shutil.which(self._python):
                return f"there is no interpreter {self._python}"
            script = self.command[0]
            return "" if Path(script).exists() else f"there is no {script}"
        if importlib.util.find_spec("daybook.tools") is None:
            return "neither this folder nor this environment has the package daybook"
        return ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of `daybook`: an installed wheel must not find the checkout; the working
        directory is elsewhere too."""
        found = {} if self._python is not None else {"PYTHONPATH": str(_ROOT / "src")}
        return found | self._environment

    @property
    def command(self) -> list[str]:
        """The command that runs `daybook`: of another version its script, because its modules may
        have other names.
        """
        if self._python is None:
            return [sys.executable, "-m", "daybook"]
        return [str(Path(self._python).with_name("daybook"))]

    def _serve(self, data: Path, port: int) -> list[str]:
        """Return the command that serves a data directory at a port."""
        command = [*self.command, "serve", "--data", str(data)]
        for listen in (f"{self._protocol}://127.0.0.1:{port}", *self._listens):
            command += ["--listen", listen]
        for setting in self._settings:
            command += ["--set", setting]
        return command

    def start(self, directory: Path) -> Running:
        """Start `daybook serve` on a new data directory; with a broker behind it, that one too."""
        port = free_port()
        commands = [self._serve(directory / "data", port)]
        config, there = self._config, 0
        if self._behind:
            there = free_port()
            commands.insert(0, self._serve(directory / "there", there))
            config += _CONNECTOR.format(port=there) + self._behind
        if config:
            file = directory / "ways.toml"
            file.write_text(config, "utf-8")
            commands[-1] += ["--config", str(file)]
        running = Running(self.name, commands, directory, self.environment)
        endpoint = Endpoint(
            port, "guest", "guest", "/", "credit", protocol=self._protocol,
            stores=ALL_DIRECT not in self._settings, keeps_order=self.name != SHARDED,
            consume_port=there if self.name == BRIDGE else 0,
        )  # fmt: skip
        running.wait_until_ready(endpoint, b"ready")
        if self._behind:
            _wait_for_way(running)
        return running


def _wait_for_way(running: Running) -> None:
    """Wait until a sender can attach a link, which may lead over a connector."""
    deadline = time.monotonic() + _WAY_S
    while True:
        try:
            with closing(connect(running.endpoint, "way", _WAY_S)) as wire:
                wire.send_to(f"/queue/{WARM_UP}.0")
                return
        except LoadError as error:
            if time.monotonic() > deadline:
                running.stop()
                raise TargetError(
                    f"{running.name} has no way to the other broker: {error}"
                ) from error
        time.sleep(_POLL_S)


_WAY_S: Final = 20.0
_POLL_S: Final = 0.1
QUEUE: Final = "bench"
WARM_UP: Final = "warm-up"
"""The queue that is measured, and that of the warm-up; a mode may put numbers behind."""
_PLACES: Final = (QUEUE, *(f"{QUEUE}.{number}" for number in range(4)), f"{WARM_UP}.0")
_CONNECTOR: Final = """
[[connector]]
name = "there"
url = "amqp://127.0.0.1:{port}"
reconnect-delay = "100ms"
"""
_WAYPOINTS: Final = "".join(
    f'[[address]]\nprefix = "{name}"\nwaypoint = true\n' for name in (QUEUE, WARM_UP)
)
_SHARDS: Final = "".join(
    f'[[sharded-queue]]\nname = "{name}"\nconnectors = ["there"]\nlocal = true\n'
    for name in _PLACES
)
_LINK_ROUTES: Final = "".join(
    f'[[link-route]]\nprefix = "{name}"\ndirection = "{direction}"\nconnector = "there"\n'
    for name in (QUEUE, WARM_UP)
    for direction in ("in", "out")
)
_BRIDGES: Final = "".join(
    f'[[auto-link]]\naddress = "{name}"\ndirection = "out"\nconnector = "there"\n'
    for name in _PLACES
)
DAYBOOK_AMQP: Final = "daybook-amqp"
ARTEMIS_REPLICATED: Final = "artemis-replicated"
ARTEMIS_BRIDGE: Final = "artemis-bridge"
JAVA_PEERS: Final = ("activemq", "artemis", "artemis-amqp", ARTEMIS_REPLICATED, ARTEMIS_BRIDGE)
PEERS: Final = ("rabbitmq", "rabbitmq-amqp", *JAVA_PEERS)
DIRECT: Final = "daybook-direct"
WAYPOINT: Final = "daybook-waypoint"
SHARDED: Final = "daybook-sharded"
LINK_ROUTE: Final = "daybook-link-route"
BRIDGE: Final = "daybook-bridge"
ROUTING: Final = (DIRECT, WAYPOINT, SHARDED, LINK_ROUTE, BRIDGE)
"""Ways over AMQP, of one Daybook; the last three have a second one behind it."""
CLUSTERS: Final = {"daybook-follower": (2, "one"), "daybook-majority": (3, "majority")}
"""Nodes and acks of each cluster on this machine."""
FLOOR_FOLLOWER: Final = "floor-follower"
FLOORS: Final = ("floor", FLOOR_FOLLOWER)
TARGETS: Final = (
    *FLOORS,
    "daybook",
    "daybook-nopersist",
    DAYBOOK_AMQP,
    *ROUTING,
    *CLUSTERS,
    *PEERS,
)
"""Those speak STOMP that are not ways over AMQP, and whose names do not say AMQP."""
MODES_OF: Final = {
    DIRECT: DIRECT_MODES, SHARDED: QUEUE_MODES, LINK_ROUTE: QUEUE_MODES,
    BRIDGE: BRIDGE_MODES, ARTEMIS_BRIDGE: BRIDGE_MODES,
}  # fmt: skip
"""The modes of targets that do not have all."""
ALL_DIRECT: Final = "broker.default-distribution=balanced"
NOT_PERSISTING: Final = "persist-delivery-count-before-delivery=false"


def cluster(name: str, settings: tuple[str, ...], python: str | None) -> ClusterTarget:
    """Return Daybook as a cluster."""
    single = DaybookTarget(name, settings, python)
    nodes, acks = CLUSTERS[name]
    return ClusterTarget(name, nodes, acks, single.command, settings, single.environment)


def target(name: str, settings: tuple[str, ...], python: str | None) -> Target:
    """Return the target called `name`; `settings` and `python` are for those of Daybook."""
    broker, _, variant = name.partition("-")
    protocol = AMQP if variant == AMQP or name in (*ROUTING, ARTEMIS_BRIDGE) else STOMP
    if name == "activemq":
        return ActivemqTarget()
    if name in FLOORS:
        return FloorTarget(name)
    if name in CLUSTERS:
        return cluster(name, settings, python)
    if broker == "daybook":
        added = {"nopersist": (NOT_PERSISTING,), "direct": (ALL_DIRECT,)}.get(variant, ())
        return DaybookTarget(
            name, (*settings, *added), python, protocol=protocol,
            config=_WAYPOINTS if name == WAYPOINT else "",
            behind={SHARDED: _SHARDS, LINK_ROUTE: _LINK_ROUTES, BRIDGE: _BRIDGES}.get(name, ""),
        )  # fmt: skip
    if broker == "rabbitmq":
        return RabbitmqTarget(protocol)
    if broker == "artemis":
        return ArtemisTarget(
            protocol, is_replicated=name == ARTEMIS_REPLICATED,
            bridged=_PLACES if name == ARTEMIS_BRIDGE else (),
        )  # fmt: skip
    raise TargetError(f"there is no target {name!r}; the targets are {', '.join(TARGETS)}")
