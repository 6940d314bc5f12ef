"""The process of a drill's broker: the broker of this installation with the operator's
configuration, on scratch data.

Settings that would touch the operator's data, network or users are replaced (`drilled`); `REPLACED`
lists them in reports. Started by `broker.py`, with one argument: a Serving as JSON. Ends with the
drill that started it, however that ends.
"""

import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from daybook.engine.facts.definitions import STORED
from daybook.engine.settings.setting_key import Value
from daybook.journal.disk import RealDisk
from daybook.journal.writing.lifeline import end_with
from daybook.server.config_keys import acceptor_config
from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.config_keys.replication_options import ETCD
from daybook.server.config_keys.replication_options import FILE as LEASE_FILE
from daybook.server.configuration.anchor_targets import FILE, LOG
from daybook.server.configuration.config import Config, ConfigError, JournalConfig, LogConfig, load
from daybook.server.configuration.console_section import NO_CONSOLE
from daybook.server.configuration.replication_config import Place, ReplicationConfig
from daybook.server.history.alone import Alone
from daybook.server.process.service_manager import SUPERVISOR
from daybook.server.service import run
from daybook.tools.drills.clients.witness import BEAT_MS, HEADER_BYTES
from daybook.tools.drills.clients.workload import DEAD_NAME, NAMES, PREFIX, SPACE_NAME
from daybook.tools.drills.disks.undo_log import DiskPlan, NotingDisk

HOST: Final = "127.0.0.1"
LAG_MAX_MS: Final = 10_000
STOMP: Final = "stomp"
AMQP: Final = "amqp"
KEY: Final = "drill-signing.pem"
ANCHORS: Final = "drill-anchors"
ATTEMPTS_MAX: Final = 5
REPLACED: Final = (
    "replaced in the configuration: data directory, users and archive (scratch), signing key and"
    " anchors where there are any (a key made for the drill, and a file beside the scratch data),"
    " acceptors (one on loopback for each protocol of the drill, with the options of the first for"
    " it, without TLS, that of STOMP with quick heart-beats and headers of 10 KiB),"
    " security settings,"
    " addresses, queues, diverts, virtual hosts and standbys (none, or three nodes on"
    " loopback), and the settings of the"
    " drill's own queues (dead letters after 5 attempts, no limits)"
)
SETTINGS: Final[dict[str, Value]] = {
    "max-delivery-attempts": ATTEMPTS_MAX, "dead-letter-address": DEAD_NAME, "redelivery-delay": 0,
    "auto-create-addresses": True, "auto-create-queues": True, "no-expiry": True,
    "default-address-routing-type": "ANYCAST", "default-queue-routing-type": "ANYCAST",
    "auto-delete-queues": False, "auto-delete-addresses": False, "max-size-bytes": -1,
    "max-size-messages": -1, "page-limit-bytes": -1, "page-limit-messages": -1,
    "default-ring-size": -1, "default-last-value-queue": False, "default-non-destructive": False,
    "default-exclusive-queue": False, "default-max-consumers": -1, "default-group-buckets": 0,
    "default-purge-on-no-consumers": False, "default-consumers-before-dispatch": 0,
    "default-delay-before-dispatch": -1, "default-last-value-key": "",
    "slow-consumer-threshold": -1,
}  # fmt: skip
"""The settings of the addresses of a drill, whatever the configuration says of all addresses."""


class Standby(msgspec.Struct, frozen=True):
    """What makes a broker a node of a drill's cluster, all of which is on this machine.

    `nodes` are the ports of all nodes for each other, `port` and `amqp_port` those of this one for
    clients. `path` is the file of the arbiter, or `endpoints` are the members of etcd.
    """

    node: str
    nodes: dict[str, int]
    port: int
    amqp_port: int
    acks: str
    lease_ms: int
    path: str = ""
    endpoints: tuple[str, ...] = ()

    def config(self, given: ReplicationConfig | None) -> ReplicationConfig:
        """Return the section [replication]; `given` is the operator's."""
        nodes = {name: Place(False, HOST, port) for name, port in self.nodes.items()}
        return ReplicationConfig(
            cluster="daybook-drill", node=self.node, listen=nodes[self.node], nodes=nodes,
            acks=self.acks, lease=self.lease_ms,
            lag_max=given.lag_max if given is not None else LAG_MAX_MS,
            cut_max_bytes=given.cut_max_bytes if given is not None else 0,
            cut_max_age=given.cut_max_age if given is not None else 0,
            arbiter=ETCD if self.endpoints else LEASE_FILE, endpoints=self.endpoints,
            prefix="daybook-drill", login="", passcode_file="", path=self.path, certificate="",
            key="", authority="", etcd_certificate="", etcd_key="", etcd_authority="",
        )  # fmt: skip


class Serving(msgspec.Struct, frozen=True):
    """What to serve: configuration file ("" for the defaults), data directory, further settings as
    for `--set`, the behaviour of the journal's disk, the process with which it ends (0: with none),
    whether it speaks AMQP, too, and the node of a cluster that it is, if it is one.
    """

    config: str
    data: str
    settings: tuple[str, ...] = ()
    disk: DiskPlan = DiskPlan()
    starter: int = 0
    speaks_amqp: bool = False
    standby: Standby | None = None


def drilled(serving: Serving) -> Config:
    """Return the operator's configuration for scratch data. Raises ConfigError."""
    config = load(serving.config or None, [f"data-directory={serving.data}", *serving.settings])
    broker = replace(
        config.broker, data_directory=serving.data, users_file=f"{serving.data}/users.toml",
        allow_guest=True, populate_validated_user=False, default_distribution=STORED,
    )  # fmt: skip
    journal = _signing(config.journal, Path(serving.data).parent)
    if not any(each.startswith("journal.archive-directory=") for each in serving.settings):
        journal = replace(journal, archive_directory="")
    settings = dict(config.address_settings)
    for name in (*NAMES, DEAD_NAME, SPACE_NAME):
        settings[name] = {**settings.get(name, {}), **SETTINGS}
    node = serving.standby
    acceptors = [_stomp_acceptor(config, node.port if node is not None else 0)]
    if serving.speaks_amqp:
        acceptors.append(_acceptor(config, AMQP, {}, node.amqp_port if node is not None else 0))
    return replace(
        config, broker=broker, journal=journal, acceptors=tuple(acceptors),
        address_settings=settings, addresses=(), queues=(), diverts=(), security_settings={},
        virtual_hosts=(), host_security={}, warnings=(), log=_log(config), distributions=(),
        # A drill shows itself to nobody, and never connects to others.
        console=NO_CONSOLE,
        connectors=(), auto_links=(), sharded_queues=(), waypoints=(), link_routes=(),
        replication=node.config(config.replication) if node is not None else None,
    )  # fmt: skip


def _signing(journal: JournalConfig, folder: Path) -> JournalConfig:
    """Sign where the operator signs, but never with that key, nor beside those anchors: statements
    of a scratch broker would make the operator's journal look forged.
    """
    if not journal.signing_key:
        return journal
    places = [each for each in journal.anchors if each == LOG]
    if len(places) < len(journal.anchors):
        places.append(f"{FILE}{folder / ANCHORS}")
    return replace(journal, signing_key=str(folder / KEY), anchors=tuple(places))


def make_key(config: Config) -> None:
    """Make the key of a drill, if the operator's configuration signs. Raises OSError."""
    if config.journal.signing_key:
        # Slow to load, and never in the broker's process.
        from daybook.recovery.signing.signing_keys import make_pair  # noqa: PLC0415

        make_pair(Path(config.journal.signing_key))


def _log(config: Config) -> LogConfig:
    """A drill reads the broker's warnings."""
    return replace(config.log, level="warning") if config.log.level == "error" else config.log


def _stomp_acceptor(config: Config, port: int) -> AcceptorConfig:
    return _acceptor(
        config, STOMP,
        {
            "queue-prefix": PREFIX, "hosts": (), "percent-encoding": False,
            "default-persistent": True, "path-separator": "", "heart-beat-send": BEAT_MS,
            "max-header-length": HEADER_BYTES,
        },
        port,
    )  # fmt: skip


def _acceptor(config: Config, protocol: str, replaced: dict[str, Any], port: int) -> AcceptorConfig:
    """Return an acceptor with the options of the first one for a protocol, or the defaults."""
    own = [each for each in config.acceptors if protocol in each.speaks]
    one = (own or load(None, listen=[f"{protocol}://127.0.0.1:0"]).acceptors)[0]
    return replace(
        one, name=f"drill-{protocol}", host=HOST, port=port,
        speaks={protocol: {**one.speaks[protocol], **replaced}}, tls=False, certificate="",
        key="", client_certificates=acceptor_config.NONE, client_ca="",
        certificate_login=acceptor_config.NONE, certificate_pattern="", allow_cleartext=True,
    )  # fmt: skip


def main() -> None:
    """Serve as the argument says."""
    serving = msgspec.json.decode(sys.argv[1], type=Serving)
    if serving.starter and not end_with(serving.starter):
        sys.exit("the drill is gone")
    try:
        config = drilled(serving)
    except ConfigError as error:
        sys.exit(str(error))

    for name in SUPERVISOR:
        # A supervisor of the drill must not take its broker for the operator's.
        os.environ.pop(name, None)

    def disk_of(path: Path) -> RealDisk:
        return NotingDisk(path, serving.disk)

    cluster = _cluster(config, serving) if config.replication is not None else None
    disk = disk_of if serving.disk != DiskPlan() else RealDisk
    sys.exit(run(config, disk_of=disk, cluster=cluster))


def _cluster(config: Config, serving: Serving) -> Alone:
    """Run a node of the cluster, as `daybook serve` does; return what connects its broker to it."""
    # Only where there are standbys.
    from daybook.server.standbys import node_service  # noqa: PLC0415
    from daybook.server.standbys.led import led  # noqa: PLC0415

    if (found := led()) is not None:
        return found
    # The broker ends with its node, and is not started by the drill.
    own = msgspec.json.encode(replace(serving, starter=0)).decode()
    command = [sys.executable, *sys.orig_argv[1:-1], own]
    sys.exit(node_service.run(config, lambda: config, command))


if __name__ == "__main__":
    main()
