"""Three nodes of a cluster on this machine, and a client that remembers what was confirmed."""

import json
import os
import signal
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from bench.brokers.ports import free_ports
from daybook.client.control import ControlError, ask
from daybook.journal.data_directory import JOURNAL, NODE_SOCKET
from tests.interop.wire import Closed, Wire
from tests.support.process import DAYBOOK, wait_for

NAMES: Final = ("a", "b", "c")
FAILOVER_SECONDS: Final = 180.0
"""So long on a machine that is busy with much else."""


class ANode:
    """A node with its data directory; its broker is in its group of processes."""

    def __init__(self, folder: Path, name: str, config: str) -> None:
        self.name: Final = name
        self.data: Final = folder / name
        self.config: Final = folder / f"{name}.toml"
        self.log: Final = folder / f"{name}.log"
        self.config.write_text(config, "utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and do not wait."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [DAYBOOK, "serve", "--config", str(self.config)], stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def signal(self, number: int) -> None:
        """Send a signal to the node and its broker, like a machine that is lost or stands still."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill it with all its processes."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(FAILOVER_SECONDS)
        self._process = None
        return code

    def status(self) -> dict[str, Any]:
        """Return what it says of itself; empty if it does not run."""
        with suppress(ControlError, OSError):
            return ask(self.data, {"do": "cluster"}, 5.0, name=NODE_SOCKET) or {}
        return {}

    def segments(self) -> dict[str, bytes]:
        """Return the content of its journal, by the names of the segments."""
        found = sorted((self.data / JOURNAL).glob("*.seg"))
        return {each.name: each.read_bytes() for each in found}


class Nodes:
    """The cluster."""

    def __init__(
        self, folder: Path, names: Sequence[str] = NAMES, acks: str = "majority",
        journal: Sequence[str] = (), rules: str = "",
    ) -> None:  # fmt: skip
        """`journal` are lines of the section of this name, with $NODE for that of the node; `rules`
        are further sections."""
        self._rules: Final = rules
        ports = iter(free_ports(3 * len(names)))
        self.ports: Final = {name: next(ports) for name in names}
        self.probes: Final = {name: next(ports) for name in names}
        addresses = {name: next(ports) for name in names}
        self.nodes: Final = {
            name: ANode(folder, name, self._config(folder, name, addresses, acks, journal))
            for name in names
        }

    def start(self) -> None:
        """Start all."""
        for node in self.nodes.values():
            node.start()

    def leader(self) -> ANode | None:
        """Return the node that leads now."""
        for node in self.nodes.values():
            if node.status().get("role") == "leading":
                return node
        return None

    def wait_for_leader(self, *, other_than: str = "") -> ANode:
        """Wait until a node leads."""

        def found() -> ANode | None:
            node = self.leader()
            return node if node is not None and node.name != other_than else None

        node = wait_for(found, "a leader", FAILOVER_SECONDS)
        assert isinstance(node, ANode)
        return node

    def logs(self) -> str:
        """Return all logs, for a failure."""
        return "\n".join(f"== {each.name}\n{each.log.read_text()}" for each in self.nodes.values())

    def _config(
        self, folder: Path, name: str, nodes: dict[str, int], acks: str, journal: Sequence[str]
    ) -> str:
        ports = self.ports[name], self.probes[name]
        lines = _config(folder, name, nodes, ports, acks)
        own = [each.replace("$NODE", name) for each in journal]
        return "\n".join([*lines, "[journal]", *own, self._rules])


def _config(
    folder: Path, name: str, nodes: dict[str, int], ports: tuple[int, int], acks: str
) -> list[str]:
    lines = [
        f"data-directory = {json.dumps(str(folder / name))}",
        "[replication]", 'cluster = "shop"', f'node = "{name}"', 'arbiter = "file"',
        f"path = {json.dumps(str(folder / 'lease'))}", f'acks = "{acks}"',
        "[[acceptor]]", 'name = "stomp"', 'protocol = "stomp"', f'listen = "127.0.0.1:{ports[0]}"',
        "[[acceptor]]", 'name = "probe"', 'protocol = "http"', f'listen = "127.0.0.1:{ports[1]}"',
    ]  # fmt: skip
    for each, at in nodes.items():
        lines += [
            "[[replication-node]]",
            f'name = "{each}"',
            f'address = "tcp://127.0.0.1:{at}"',
        ]
    return lines


@contextmanager
def running(folder: Path, **options: Any) -> Iterator[Nodes]:
    """Run a cluster, and kill it in the end."""
    cluster = Nodes(folder, **options)
    cluster.start()
    try:
        yield cluster
    except BaseException:
        print(cluster.logs())
        raise
    finally:
        for node in cluster.nodes.values():
            with suppress(AssertionError):
                node.signal(signal.SIGCONT)
            node.kill()


class Client:
    """Sends numbers to the leader, as a client with a list of addresses does."""

    def __init__(self, cluster: Nodes, ports: Collection[int] = ()) -> None:
        """`ports` are those that it knows, all of the cluster's without any."""
        self.confirmed: Final[list[int]] = []
        self._ports: Final = ports or cluster.ports.values()
        self._sent = 0
        self._wire: Wire | None = None

    def connected(self) -> Wire:
        """Return a connection to the broker, a new one if the last one was lost."""
        if self._wire is None:
            found = wait_for(self._try_all, "a broker that takes clients", FAILOVER_SECONDS)
            assert isinstance(found, Wire)
            self._wire = found
        return self._wire

    def _try_all(self) -> Wire | None:
        for port in self._ports:
            with suppress(OSError, Closed):
                wire = Wire(port, seconds=5.0)
                with suppress(OSError, Closed):
                    if wire.connect().command == "CONNECTED":
                        return wire
                wire.close()
        return None

    def lose(self) -> None:
        """Drop the connection."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.lose()

    def send(self, count: int) -> None:
        """Send so many numbers, each until it is confirmed."""
        for _ in range(count):
            self._sent += 1
            while not self._is_confirmed(self._sent):
                self.lose()
            self.confirmed.append(self._sent)

    def _is_confirmed(self, number: int) -> bool:
        wire = self.connected()
        try:
            wire.send("SEND", str(number).encode(), destination="/queue/q", receipt=str(number))
            return wire.read().headers.get("receipt-id") == str(number)
        except (OSError, Closed):
            return False

    def drain(self, until: int) -> list[int]:
        """Receive until a number; return all in their order."""
        wire = self.connected()
        wire.send("SUBSCRIBE", id="s", destination="/queue/q", ack="auto")
        found: list[int] = []
        while not found or found[-1] < until:
            frame = wire.read()
            assert frame.command == "MESSAGE", frame
            found.append(int(frame.body))
        return found
