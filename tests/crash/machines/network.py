"""What both kinds of network have in common: names, addresses, and ways that can be blocked."""

from abc import ABC, abstractmethod
from typing import Final, NamedTuple

CLIENTS: Final = "clients"
MACHINES: Final = ("a", "b", "c")
ADDRESSES: Final = {"a": "10.77.0.1", "b": "10.77.0.2", "c": "10.77.0.3", CLIENTS: "10.77.0.9"}
PORTS: Final = {"node": 61620, "etcd": 2379, "peer": 2380, "stomp": 61613, "amqp": 5672}
"""The services of a machine: `peer` is what members of etcd use among each other."""


class Place(NamedTuple):
    """Where a service is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Network(ABC):
    """Machines, and a place where the clients are. A way is (source, target, service): with an
    empty service it is all of them."""

    is_exposed: bool
    """Whether addresses are not those of the loopback, so that nodes need certificates."""

    def __init__(self) -> None:
        self.blocked: Final[set[tuple[str, str, str]]] = set()
        self.delay = 0.0
        self.loss = 0.0
        self.generations: Final = dict.fromkeys(MACHINES, 0)
        """How often the way between the clients and a machine was blocked."""

    def block(self, source: str, target: str, service: str = "") -> None:
        """Let nothing pass from one to the other."""
        self.blocked.add((source, target, service))
        for one, other in ((source, target), (target, source)):
            if one == CLIENTS:
                self.generations[other] += 1
        self.apply()

    def isolate(self, name: str, service: str = "") -> None:
        """Let a machine and the others not reach each other; clients still can."""
        for other in MACHINES:
            if other != name:
                self.blocked.update({(name, other, service), (other, name, service)})
        self.apply()

    def disturb(self, *, delay: float = 0.0, loss: float = 0.0) -> None:
        """Let packets be so many seconds late, and lose such a share of them."""
        self.delay, self.loss = delay, loss
        self.apply()

    def heal(self) -> None:
        """Let everything pass at once."""
        self.blocked.clear()
        self.disturb()

    @abstractmethod
    def apply(self) -> None:
        """Make what was asked for true, before returning."""

    @abstractmethod
    def command(self, name: str) -> list[str]:
        """Return the beginning of a command that runs on a machine."""

    @abstractmethod
    def listens(self, name: str, service: str) -> Place:
        """Return where a service of a machine listens."""

    @abstractmethod
    def reaches(self, source: str, name: str, service: str) -> Place:
        """Return where a source reaches a service of a machine."""

    @abstractmethod
    def visit(self) -> None:
        """Let the calling thread be where the clients are."""

    @abstractmethod
    def close(self) -> None:
        """End it."""
