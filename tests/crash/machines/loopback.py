"""The network on this machine's loopback, where namespaces cannot be had.

Each way goes through a proxy, where bytes stand still or are late; no packet is lost. Members of
etcd reach each other always.
"""

from functools import partial
from typing import Final

from bench.brokers.ports import free_ports
from tests.crash.machines.network import CLIENTS, MACHINES, Network, Place
from tests.crash.machines.spaces import WITH_US
from tests.crash.standbys.proxy import Network as Proxy

HOST: Final = "127.0.0.1"
PROXIED: Final = ("node", "etcd", "stomp", "amqp")
SERVICES: Final = (*PROXIED, "peer")


class Loopback(Network):
    """The network of a cluster."""

    is_exposed = False

    def __init__(self) -> None:
        super().__init__()
        each = [(name, service) for name in MACHINES for service in SERVICES]
        self._ports: Final = dict(zip(each, free_ports(len(each)), strict=True))
        self._proxies: Final = {
            service: Proxy([*MACHINES, CLIENTS], partial(self._port, service))
            for service in PROXIED
        }

    def _port(self, service: str, name: str) -> int:
        return self._ports[name, service]

    def apply(self) -> None:
        """See Network."""
        for service, proxy in self._proxies.items():
            proxy.blocked = {
                (one, other) for one, other, only in self.blocked if only in ("", service)
            }
            proxy.delay = self.delay

    def command(self, name: str) -> list[str]:
        """See Network."""
        return list(WITH_US)

    def listens(self, name: str, service: str) -> Place:
        """See Network."""
        return Place(HOST, self._ports[name, service])

    def reaches(self, source: str, name: str, service: str) -> Place:
        """See Network."""
        if source == name or service not in PROXIED:
            return self.listens(name, service)
        return Place(HOST, self._proxies[service].ports[source, name])

    def visit(self) -> None:
        """See Network."""

    def close(self) -> None:
        """See Network."""
        for proxy in self._proxies.values():
            proxy.close()
