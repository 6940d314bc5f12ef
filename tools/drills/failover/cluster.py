"""A cluster of three nodes on scratch data and loopback, and the list of its addresses.

Each wait is for an event, with a limit that a busy machine does not reach. Ends only processes that
it started. Must never know what clients send.
"""

import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from daybook.client.control import ControlError, ask
from daybook.journal.data_directory import NODE_SOCKET
from daybook.tools.drills.clients.client import Client, Connect, Gone
from daybook.tools.drills.clients.witness import Wrong
from daybook.tools.drills.scratch.broker import DrillBroker
from daybook.tools.drills.scratch.server import HOST, Serving, Standby

NAMES: Final = ("a", "b", "c")
LEADING: Final = "leading"
WAIT_SECONDS: Final = 180.0
STATUS_SECONDS: Final = 5.0
HAND_OVER_SECONDS: Final = 60.0
WORDS_MAX: Final = 600
POLL_SECONDS: Final = 0.02
RETRY_SECONDS: Final = 0.05
Found = TypeVar("Found")


class DrillNode:
    """A node of the cluster: its process, which starts its broker, and its data directory."""

    def __init__(self, serving: Serving, log: Path) -> None:
        assert serving.standby is not None
        self.name: Final = serving.standby.node
        self.standby: Final = serving.standby
        self.data: Final = Path(serving.data)
        self.process: Final = DrillBroker(serving, log)

    def status(self) -> dict[str, Any]:
        """Return what the node says of itself; empty if it does not answer."""
        with suppress(ControlError, OSError):
            return ask(self.data, {"do": "cluster"}, STATUS_SECONDS, name=NODE_SOCKET) or {}
        return {}

    def last_words(self) -> str:
        """Return the end of its log."""
        return f"{self.name}: {self.process.last_words()[-WORDS_MAX:]}"

    def kill_broker(self) -> None:
        """Kill the broker of this node, if it leads, and not the node."""
        pid = self.status().get("broker_pid")
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def hand_over(self) -> None:
        """Let the follower that has most lead, as `daybook lead --transfer` does. Raises Wrong."""
        request = {"do": "lead", "to": ""}
        try:
            answer = ask(self.data, request, HAND_OVER_SECONDS, name=NODE_SOCKET)
        except (ControlError, OSError) as error:
            raise Wrong("P8", f"node {self.name} did not hand the lead over: {error}") from error
        if answer is None:
            raise Wrong("P8", f"node {self.name} ended. {self.last_words()}")

    def size(self) -> int:
        """Return how many bytes its data directory takes on the disk."""
        with suppress(OSError):
            return sum(each.stat().st_blocks * 512 for each in self.data.rglob("*"))
        return 0


class Cluster:
    """The nodes, of which `start` starts all."""

    def __init__(self, folder: Path, serving: Serving, standby: Standby) -> None:
        """`serving` and `standby` have what all nodes share."""
        with ExitStack() as holding:
            inner, stomp, amqp = ([free_port(holding) for _ in NAMES] for _ in range(3))
        ports = dict(zip(NAMES, inner, strict=True))
        self.nodes: Final = {
            name: DrillNode(
                replace(
                    serving, data=str(folder / name),
                    standby=replace(
                        standby, node=name, nodes=ports, port=stomp[place], amqp_port=amqp[place]
                    ),
                ),
                folder / f"{name}.log",
            )
            for place, name in enumerate(NAMES)
        }  # fmt: skip

    def start(self) -> None:
        """Start all nodes, and wait for none."""
        for node in self.nodes.values():
            node.process.launch()

    def end(self) -> None:
        """Leave no process behind."""
        for node in self.nodes.values():
            node.process.kill()

    def leader(self) -> DrillNode | None:
        """Return the node that leads now, None if none says so."""
        for node in self.nodes.values():
            if node.status().get("role") == LEADING:
                return node
        return None

    def await_leader(self) -> DrillNode:
        """Wait until a node leads. Raises Wrong."""
        return self.await_that(self.leader, "no node leads")

    def await_whole(self) -> DrillNode:
        """Wait until a node leads, and all others have what it has now; return it. Raises Wrong."""
        leader = self.await_leader()
        wanted = int(leader.status().get("lsn", 0))

        def found() -> DrillNode | None:
            now = self.leader()
            others = now.status().get("nodes", []) if now is not None else []
            acked = [each["acknowledged_lsn"] for each in others]
            is_whole = len(acked) == len(NAMES) - 1 and all(
                lsn is not None and lsn >= wanted for lsn in acked
            )
            return now if is_whole else None

        return self.await_that(found, "some node does not follow the leader")

    def await_that(self, look: Callable[[], Found | None], otherwise: str) -> Found:
        """Wait until something is there. Raises Wrong, with the last words of all nodes."""
        by = time.monotonic() + WAIT_SECONDS
        while (found := look()) is None:
            ended = [each for each in self.nodes.values() if self.has_ended(each)]
            if ended or time.monotonic() > by:
                who = f"node {ended[0].name} ended by itself; " if ended else ""
                words = "; ".join(each.last_words() for each in self.nodes.values())
                raise Wrong("P8", f"{who}{otherwise} after {WAIT_SECONDS:.0f} s at most. {words}")
            time.sleep(POLL_SECONDS)
        return found

    @staticmethod
    def has_ended(node: DrillNode) -> bool:
        """Whether the process of a node that was started has ended, and nobody killed it."""
        return node.process.is_started and not node.process.is_running

    def lose_data(self, node: DrillNode) -> int:
        """Delete the data directory of a node that does not run; return its size."""
        size = node.size()
        shutil.rmtree(node.data)
        return size


class Addresses:
    """The list of addresses that clients have: a client connects to the first that takes it."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes: Final = list(cluster.nodes.values())
        self.is_over = False
        """Whether clients find no broker any more, and end."""

    def connecting(self, connect: Connect, *, amqp: bool) -> Connect:
        """Return a function that connects to the node that leads; the port that it is given
        does not matter."""

        def connect_to_any(port: int) -> Client:
            while not self.is_over:
                for node in random.sample(self._nodes, len(self._nodes)):
                    standby = node.standby
                    with suppress(Gone):
                        return connect(standby.amqp_port if amqp else standby.port)
                time.sleep(RETRY_SECONDS)
            raise Gone("the drill is over")

        return connect_to_any


def free_port(holding: ExitStack) -> int:
    """Return a port of this machine that nobody else gets while it is held."""
    held = holding.enter_context(socket.create_server((HOST, 0)))
    port: int = held.getsockname()[1]
    return port
