"""Daybook with standbys: several nodes on this machine, whose lease is in a file.

All brokers would listen at one port, as behind an address that moves: only that of the leader runs.
Two or three nodes share the processors and the disk of the machine, which one node has alone, so a
ratio is a lower bound of that between machines.
"""

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.brokers.ports import free_port
from bench.brokers.running import Running, TargetError
from bench.load.wire import Endpoint
from daybook.client.control import ControlError, ask
from daybook.journal.data_directory import NODE_SOCKET

NAMES: Final = ("a", "b", "c")
_JOIN_S: Final = 60.0
_HAND_OVER_S: Final = 60.0
_POLL_S: Final = 0.05


class Cluster(Running):
    """The nodes of a cluster, with the folder of each."""

    def __init__(
        self,
        name: str,
        commands: dict[str, list[str]],
        directory: Path,
        environment: dict[str, str],
    ) -> None:
        self.directory: Final = directory
        self._commands: Final = commands
        super().__init__(name, list(commands.values()), directory, environment)

    def status(self, node: str) -> dict[str, Any]:
        """Return what a node says of itself; empty if it does not answer."""
        try:
            return ask(self.directory / node, {"do": "cluster"}, 5.0, name=NODE_SOCKET) or {}
        except (ControlError, OSError):
            return {}

    def hand_over(self, node: str) -> None:
        """Let another node lead. Raises TargetError."""
        try:
            ask(self.directory / node, {"do": "lead", "to": ""}, _HAND_OVER_S, name=NODE_SOCKET)
        except (ControlError, OSError) as error:
            raise TargetError(f"the lead was not handed over: {error}") from None

    def leader(self) -> str:
        """Return the node that leads and that all others follow without delay; "" if none does."""
        for node in self._commands:
            found = self.status(node)
            if found.get("role") == "leading" and all(
                each["behind"] == 0 for each in found["nodes"]
            ):
                return node
        return ""

    def await_whole(self) -> str:
        """Wait until all nodes have everything; return the one that leads."""
        deadline = time.monotonic() + _JOIN_S
        while not (node := self.leader()):
            if time.monotonic() > deadline:
                said = {each: self.status(each) for each in self._commands}
                self.stop()
                raise TargetError(f"{self.name}: not all nodes follow: {said}")
            time.sleep(_POLL_S)
        return node

    def lose(self, node: str) -> None:
        """Kill a node with its broker."""
        process = self._processes[list(self._commands).index(node)]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def bring_back(self, node: str) -> None:
        """Start a node that was lost."""
        self._processes[list(self._commands).index(node)] = self._launched(self._commands[node])


class ClusterTarget:
    """Daybook as a cluster of so many nodes."""

    note = ""

    def __init__(
        self, name: str, nodes: int, acks: str, command: Sequence[str], settings: Sequence[str],
        environment: dict[str, str], lease: str = "3s",
    ) -> None:  # fmt: skip
        """`command` runs `daybook`; `settings` are those of `--set`."""
        self.name = name
        self._nodes = NAMES[:nodes]
        self._acks = acks
        self._command = command
        self._settings = settings
        self._environment = environment
        self._lease = lease

    def missing(self) -> str:
        """It is there where Daybook is."""
        return ""

    def start(self, directory: Path) -> Cluster:
        """Start all nodes on new data directories, and wait until all follow one."""
        port = free_port()
        ports = {name: free_port() for name in self._nodes}
        commands = {}
        for name in self._nodes:
            file = directory / f"{name}.toml"
            file.write_text(self._config(directory, name, ports, port), "utf-8")
            commands[name] = [*self._command, "serve", "--config", str(file)]
            for setting in self._settings:
                commands[name] += ["--set", setting]
        running = Cluster(self.name, commands, directory, self._environment)
        running.wait_until_ready(Endpoint(port, "guest", "guest", "/", "credit"), b"ready")
        running.await_whole()
        return running

    def _config(self, directory: Path, name: str, ports: dict[str, int], port: int) -> str:
        lines = [
            f"data-directory = {json.dumps(str(directory / name))}",
            "[replication]", 'cluster = "bench"', f'node = "{name}"', 'arbiter = "file"',
            f"path = {json.dumps(str(directory / 'lease'))}", f'acks = "{self._acks}"',
            f'lease = "{self._lease}"',
            "[[acceptor]]", 'protocol = "stomp"', f'listen = "127.0.0.1:{port}"',
        ]  # fmt: skip
        for each, at in ports.items():
            lines += [
                "[[replication-node]]",
                f'name = "{each}"',
                f'address = "tcp://127.0.0.1:{at}"',
            ]
        return "\n".join(lines) + "\n"
