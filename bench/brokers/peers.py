"""The peers as Debian packages them, with their defaults: RabbitMQ and ActiveMQ Classic."""

import shutil
from pathlib import Path
from typing import Final

from bench.brokers.ports import free_port
from bench.brokers.running import Running
from bench.load.wire import AMQP, STOMP, Endpoint

INSTALL: Final = "not installed; run: sudo sh bench/peers.sh"
_RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_ACTIVEMQ: Final = Path("/usr/share/activemq/lib")


class RabbitmqTarget:
    """RabbitMQ with its plugin for STOMP or that for AMQP 1.0, as Debian packages it."""

    note = ""

    def __init__(self, protocol: str = STOMP) -> None:
        self._protocol = protocol
        self.name = "rabbitmq" if protocol == STOMP else f"rabbitmq-{protocol}"

    def missing(self) -> str:
        """Say so if RabbitMQ is not installed."""
        return "" if _RABBITMQ.exists() else INSTALL

    def start(self, directory: Path) -> Running:
        """Start a node of its own, with its own epmd, on loopback."""
        stomp, amqp, names, distribution = (free_port() for _ in range(4))
        # Both versions of AMQP are spoken on one port.
        plugin = "rabbitmq_amqp1_0" if self._protocol == AMQP else "rabbitmq_stomp"
        (directory / "enabled_plugins").write_text(f"[{plugin}].\n")
        listeners = f"listeners.tcp.1 = 127.0.0.1:{amqp}\n"
        if self._protocol == STOMP:
            listeners += f"stomp.listeners.tcp.1 = 127.0.0.1:{stomp}\n"
        (directory / "rabbitmq.conf").write_text(listeners)
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
        port = amqp if self._protocol == AMQP else stomp
        endpoint = Endpoint(port, "guest", "guest", "/", "prefetch-count", protocol=self._protocol)
        running.wait_until_ready(endpoint, None)
        return running


class ActivemqTarget:
    """ActiveMQ Classic with KahaDB, which syncs its journal before it answers, as Debian has it."""

    name = "activemq"
    note = ""

    def missing(self) -> str:
        """Say so if ActiveMQ or Java is not installed."""
        if (_ACTIVEMQ / "activemq-stomp.jar").exists() and shutil.which("java"):
            return ""
        return INSTALL

    def start(self, directory: Path) -> Running:
        """Start a broker configured by a URI: only one STOMP connector."""
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
