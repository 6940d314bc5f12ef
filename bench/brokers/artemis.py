"""Apache ActiveMQ Artemis, as `artemis create` sets up a broker on this machine.

That includes the journal (ASYNCIO where libaio is installed, otherwise NIO; datasync) and the
buffer timeout that it measures for the disk. Three settings differ: security is off, the only
acceptor speaks STOMP or AMQP, maps `/queue/` to durable anycast queues and does not close
connections after a minute of silence, and all brokers of a session have the buffer timeout of the
first, so that they are alike.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from bench.brokers.peers import INSTALL
from bench.brokers.ports import free_port
from bench.brokers.running import Running, TargetError
from bench.load.wire import STOMP, Endpoint

_CREATE_S: Final = 60.0
_POLL_S: Final = 0.05
_SYNCHRONIZED: Final = b"AMQ221024"
"""A backup has the journal of its broker, and may take over."""
_MESSAGE_HEAD_BYTES: Final = 400
"""The bytes of a MESSAGE frame besides its body, rounded up: `consumer-window-size` counts bytes.
"""
_ACCEPTOR: Final = re.compile(r'(<acceptor name="artemis">tcp://127\.0\.0\.1:\d+\?)[^<]*')
_BUFFERS: Final = "tcpSendBufferSize=1048576;tcpReceiveBufferSize=1048576;useEpoll=true"
_PREFIXES: Final = "anycastPrefix=/queue/;multicastPrefix=/topic/"
_ACCEPTORS: Final = {
    "stomp": f"{_BUFFERS};protocols=STOMP;{_PREFIXES};connectionTtl=600000",
    "amqp": (
        f"{_BUFFERS};protocols=AMQP;amqpCredits=1000;amqpLowCredits=300;"
        f"amqpMinLargeMessageSize=102400;amqpDuplicateDetection=true;{_PREFIXES};amqpIdleTimeout=0"
    ),
}  # fmt: skip
_BUFFER_TIMEOUT: Final = re.compile(r"(<journal-buffer-timeout>)(\d+)")
_PERSISTENCE: Final = re.compile(r"(<persistence-enabled>true</persistence-enabled>)")
_QUEUE: Final = '<address name="{0}"><anycast><queue name="{0}"/></anycast></address>'
_BRIDGE: Final = (
    '<bridge name="{0}"><queue-name>{0}</queue-name><forwarding-address>{0}</forwarding-address>'
    "<confirmation-window-size>1048576</confirmation-window-size><static-connectors>"
    "<connector-ref>there</connector-ref></static-connectors></bridge>"
)


class ArtemisTarget:
    """Artemis, from ARTEMIS_HOME or where the command `artemis` comes from."""

    def __init__(
        self, protocol: str = STOMP, *, is_replicated: bool = False, bridged: tuple[str, ...] = ()
    ) -> None:
        """Start nothing yet. A replicated one has a backup, which is a second broker; from queues
        that are `bridged` a core bridge takes messages to another broker."""
        self._protocol = protocol
        self._is_replicated = is_replicated
        self._bridged = bridged
        self.name = "artemis" if protocol == STOMP else f"artemis-{protocol}"
        if is_replicated:
            self.name += "-replicated"
        if bridged:
            self.name = "artemis-bridge"
        self.note = ""
        self.ports: dict[str, int] = {}
        """Where the broker and its backup listen."""
        self._buffer_timeout_ns = ""

    def missing(self) -> str:
        """Say so if Artemis or Java is not installed."""
        if not (_home() / "bin" / "artemis").exists():
            return f"ARTEMIS_HOME is not set and there is no command artemis; {INSTALL}"
        return "" if shutil.which("java") or os.environ.get("JAVA_HOME") else INSTALL

    def start(self, directory: Path) -> Running:
        """Create an instance and start its broker."""
        port = free_port()
        names = ["instance"]
        if self._is_replicated:
            names.insert(0, "backup")
        if self._bridged:
            names.insert(0, "there")
        self.ports = {name: free_port() for name in ("backup", "there")} | {"instance": port}
        for name in names:
            self._create(directory / name, name)
        commands = [[str(directory / name / "bin" / "artemis"), "run"] for name in names]
        running = Running(self.name, commands, directory, {})
        endpoint = Endpoint(
            port, "guest", "guest", "localhost", "consumer-window-size", _MESSAGE_HEAD_BYTES,
            self._protocol, consume_port=self.ports["there"] if self._bridged else 0,
        )  # fmt: skip
        running.wait_until_ready(endpoint, None)
        if self._is_replicated:
            self._await_backup(running)
        self._describe(running)
        return running

    def _await_backup(self, running: Running) -> None:
        """Wait until the backup has everything, which it says itself."""
        deadline = time.monotonic() + _CREATE_S
        while not running.has_said(_SYNCHRONIZED):
            if time.monotonic() > deadline:
                running.stop()
                raise TargetError(f"{self.name}: the backup does not follow after {_CREATE_S:g} s")
            time.sleep(_POLL_S)

    def _cluster_options(self, name: str) -> list[str]:
        """Return what makes an instance one of a pair."""
        if not self._is_replicated:
            return []
        other = self.ports["backup" if name == "instance" else "instance"]
        found = ["--clustered", "--replicated", "--cluster-user", "bench"]
        found += ["--cluster-password", "bench", "--name", name]
        found += ["--static-cluster", f"tcp://127.0.0.1:{other}"]
        return [*found, "--backup"] if name == "backup" else found

    def _create(self, instance: Path, name: str) -> None:
        port = self.ports[name]
        command = [str(_home() / "bin" / "artemis"), "create", "--silent", "--allow-anonymous"]
        command += ["--user", "guest", "--password", "guest", "--no-web"]
        command += ["--host", "127.0.0.1", "--default-port", str(port)]
        command += [f"--no-{each}-acceptor" for each in ("amqp", "hornetq", "mqtt", "stomp")]
        command += self._cluster_options(name)
        try:
            created = subprocess.run(
                [*command, str(instance)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_CREATE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TargetError(f"artemis create: {error}") from error
        file = instance / "etc" / "broker.xml"
        if created.returncode or not file.exists():
            raise TargetError(f"artemis create failed; it printed:\n{created.stdout[-2000:]}")
        text = self._changed(file.read_text("utf-8"))
        if self._bridged and name == "instance":
            text = self._with_bridges(text)
        file.write_text(text, "utf-8")

    def _changed(self, text: str) -> str:
        """Return the broker.xml of `artemis create` with the changes of the benchmark."""
        tuned = _BUFFER_TIMEOUT.search(text)
        self._buffer_timeout_ns = self._buffer_timeout_ns or (tuned[2] if tuned else "")
        acceptor = _ACCEPTORS[self._protocol]
        if self._is_replicated or self._bridged:
            # The two brokers speak CORE to each other.
            acceptor = acceptor.replace("protocols=", "protocols=CORE,")
        for pattern, after in (
            (_ACCEPTOR, acceptor),
            (_BUFFER_TIMEOUT, self._buffer_timeout_ns),
            (_PERSISTENCE, "<security-enabled>false</security-enabled>"),
        ):
            text, count = pattern.subn(rf"\g<1>{after}", text)
            if count != 1:
                raise TargetError(
                    f"in the broker.xml of artemis create, {pattern.pattern!r} matches {count} "
                    f"times and not once; the benchmark knows Artemis 2.44"
                )
        return text

    def _with_bridges(self, text: str) -> str:
        """Return a broker.xml with a core bridge from each queue to that of the other broker."""
        there = f'<connector name="there">tcp://127.0.0.1:{self.ports["there"]}</connector>'
        bridges = "".join(map(_BRIDGE.format, self._bridged))
        added = f"<connectors>{there}</connectors>\n<bridges>{bridges}</bridges>\n"
        queues = "".join(map(_QUEUE.format, self._bridged))
        return text.replace("<addresses>", f"{added}<addresses>{queues}", 1)

    def _describe(self, running: Running) -> None:
        """Make the note about this Artemis; it names its journal when it starts."""
        journal = "NIO"
        if running.has_said(b"AMQ221012"):
            journal = "ASYNCIO"
        jars = [file.stem for file in (_home() / "lib").glob("artemis-server-*.jar")]
        version = jars[0].rpartition("-")[2] if jars else "of an unknown version"
        timeout_us = int(self._buffer_timeout_ns) / 1000
        self.note = (
            f"{self.name} {version}: journal {journal} with datasync, journal-buffer-timeout "
            f"{timeout_us:g} us as artemis create measured it"
        )


def _home() -> Path:
    """Return where Artemis is installed, or else a path that does not exist."""
    home = os.environ.get("ARTEMIS_HOME")
    if home:
        return Path(home)
    command = shutil.which("artemis")
    return Path(command).resolve().parent.parent if command else Path("/nonexistent")
