"""The acceptors of supervisors and Prometheus while a node follows: it is alive, and not ready.

The broker that the node starts listens at the same ports: the node lets go of them before, and
takes them back when the broker has ended. Fault model: a port may still be in use, or a certificate
unusable; then it is tried again, and the node follows nevertheless.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from daybook.protocols.port import Reading
from daybook.protocols.registry import OFFERS
from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.monitoring.cluster_figures import cluster_readings
from daybook.server.monitoring.cluster_health import role_for_clients
from daybook.server.monitoring.figures import process_readings
from daybook.server.network.admission import Admission, Limits
from daybook.server.network.entrances import Entrance, watching_entrance
from daybook.server.network.layers.certificates import TlsError
from daybook.server.network.listeners import Acceptor
from daybook.server.network.onlookers import Onlookers
from daybook.server.process.descriptors import Descriptors
from daybook.server.process.logs import logger

TICK_SECONDS: Final = 0.1
AGAIN_SECONDS: Final = 1.0

log = logger("probe")


class NodeFigures:
    """The MonitoringView of a node; `status` returns its state."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status: Final = status
        self._began: Final = time.monotonic()

    def ending(self) -> str:
        """A node that ends listens no more."""
        return ""

    def unready(self) -> str:
        """Return why no messages are accepted, in words for anybody."""
        return role_for_clients(self._status()) or "this node is about to lead"

    def readings(self, names_max: int) -> Iterator[Reading | None]:
        """Yield all metrics."""
        yield from process_readings(time.monotonic() - self._began)
        yield from cluster_readings(self._status())


class NodeProbe:
    """Listens while no broker does. Use it in the event loop."""

    def __init__(
        self, acceptors: Sequence[AcceptorConfig], status: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Raises TooFewDescriptors."""
        self._configs = watched(acceptors)
        self._onlookers: Final = Onlookers(NodeFigures(status), clock=_now, schedule=self._soon)
        count = sum(each.max_connections for each in self._configs)
        self._admission: Final = Admission(Descriptors(lambda: count), lambda: _NO_LIMITS, _now)
        self._acceptors: list[Acceptor] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen from now on."""
        if self._task is None and self._configs:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Listen no more; the ports are free when this returns."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        for acceptor in self._acceptors:
            acceptor.stop()
            acceptor.close_all()
        self._acceptors = []

    def configure(self, acceptors: Sequence[AcceptorConfig]) -> None:
        """Apply a changed configuration, and renewed certificates."""
        new = {each.name: each for each in watched(acceptors)}
        self._configs = [new.get(each.name, each) for each in self._configs]
        for acceptor in self._acceptors:
            acceptor.configure(new.get(acceptor.name, acceptor.config))

    def make(self, config: AcceptorConfig) -> Entrance:
        """Create the entrance of an acceptor."""
        return watching_entrance(self._onlookers, config)

    async def _run(self) -> None:
        for config in self._configs:
            await self._listen(config)
        while True:
            self._onlookers.tick()
            for acceptor in self._acceptors:
                acceptor.tick()
            await asyncio.sleep(TICK_SECONDS)

    async def _listen(self, config: AcceptorConfig) -> None:
        told = ""
        while True:
            try:
                acceptor = Acceptor(self, config, self._admission)
                await acceptor.bind()
                self._acceptors.append(acceptor)
                await acceptor.start()
                return
            except (OSError, TlsError) as error:
                if str(error) != told:
                    told = str(error)
                    log.warning(
                        "this node does not listen yet", acceptor=config.name,
                        listen=f"{config.host}:{config.port}", why=told,
                    )  # fmt: skip
            await asyncio.sleep(AGAIN_SECONDS)

    def _soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._onlookers.step)


def watched(acceptors: Sequence[AcceptorConfig]) -> list[AcceptorConfig]:
    """Return the acceptors that a node serves while it follows."""
    return [
        each for each in acceptors
        if all(OFFERS[protocol].watching is not None for protocol in each.speaks)
    ]  # fmt: skip


_NO_LIMITS: Final = Limits(0, 0, 0)


def _now() -> int:
    return time.time_ns() // 1000
