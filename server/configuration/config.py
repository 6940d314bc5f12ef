"""The configuration: parses a file and flags into frozen structs, or reports all errors.

Flags override the file, and the file overrides the embedded defaults, which equal etc/broker.toml.
All problems are reported at once, each with file and line (or flag), key, and valid values. The
keys are in `server.config_keys.options` and `engine.settings.settings`. Paths are made absolute
here, once, so that they mean the same in every process. This module must never act on a
configuration: it opens no sockets and creates no folders, it only reads the one file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from daybook.engine.facts.definitions import (
    DistributionEntry,
    DivertDefinition,
    LinkRoute,
    QueueDefinition,
    Waypoint,
)
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.limits.budget import Budget
from daybook.engine.names import names
from daybook.engine.names.names import HOST
from daybook.engine.names.syntax import DEFAULT as DEFAULT_SYNTAX
from daybook.engine.names.syntax import Syntax, wrong_with_characters
from daybook.engine.routing.divert_decisions import would_come_back
from daybook.engine.settings import settings
from daybook.engine.settings.setting_key import Value as Setting
from daybook.engine.settings.setting_keys import BY_NAME, Matches
from daybook.engine.state.diverts import Diverts
from daybook.errors import DaybookError
from daybook.journal.archive.place import overlap
from daybook.journal.data_directory import USERS
from daybook.protocols.port import Value
from daybook.protocols.registry import OFFERS
from daybook.server.config_keys import kinds, options
from daybook.server.config_keys.acceptor_config import BETWEEN, CONTAINER, NORMAL, AcceptorConfig
from daybook.server.config_keys.acceptor_options import COMMON, protocol_options, table_of
from daybook.server.config_keys.config_source import (
    Block,
    Given,
    Source,
    literal,
    protocols_of,
    read_file,
    read_flags,
)
from daybook.server.config_keys.connector_options import DIALLED
from daybook.server.config_keys.kinds import Invalid
from daybook.server.config_keys.option import Option, unknown
from daybook.server.config_keys.setting_values import DEFAULT_SETTINGS, in_units
from daybook.server.configuration import (
    connector_config,
    distribution_config,
    encryption,
    host_config,
    link_checks,
)
from daybook.server.configuration.auto_link_config import (
    AutoLinkConfig,
    Found,
    LinkReader,
    ShardedQueueConfig,
    check_waypoints,
)
from daybook.server.configuration.connector_config import ConnectorConfig
from daybook.server.configuration.console_section import (
    ConsoleSection,
    check_console,
    with_paths,
)
from daybook.server.configuration.distribution_config import (
    Listed,
    by_kind,
    check_stored,
    distributions_of,
)
from daybook.server.configuration.divert_config import new_faults
from daybook.server.configuration.host_config import (
    KEY,
    VirtualHost,
    host_in,
    hosts_of,
    match_on,
    on_host,
)
from daybook.server.configuration.link_route_config import link_routes_of
from daybook.server.configuration.replication_config import (
    NODES,
    SECTION,
    ReplicationConfig,
    replication_of,
)
from daybook.server.configuration.security_config import SecurityRules, rules_of
from daybook.server.foreign.findings import Findings, Foreign
from daybook.server.foreign.reading import read_foreign

DEFAULT_MATCH: Final = "#"


class ConfigError(DaybookError):
    """The configuration is invalid; the text lists all problems, one on each line."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


class BrokerConfig(msgspec.Struct, frozen=True):
    """The section [broker]; sizes in bytes."""

    name: str
    data_directory: str
    processes: int
    users_file: str
    allow_guest: bool
    populate_validated_user: bool
    persist_delivery_count_before_delivery: bool
    journal_non_persistent: str
    journal_direct: str
    persist_id_cache: bool
    spaces_in_names: bool
    default_distribution: str
    message_expiry_scan_period: int  # milliseconds; 0 or less: never
    address_queue_scan_period: int  # milliseconds; 0 or less: never
    max_connections: int
    max_connections_per_address: int  # 0 or less: no limit
    max_pending_logins: int
    max_pending_logins_per_address: int
    max_transaction_bytes: int
    max_transaction_entries: int
    max_transactions_memory: int  # 0: a quarter of max_memory
    max_open_transactions: int
    transaction_timeout: int  # milliseconds, 0: no limit
    transaction_timeout_scan_period: int  # milliseconds
    max_memory: str | int  # "50%" or bytes; 0: no limit
    max_memory_per_user: str | int  # "25%" of max_memory, or bytes; 0: no limit
    stalled_timeout: int  # milliseconds, 0: no limit
    max_unacknowledged_bytes: int  # 0: no limit
    max_connections_per_user: int  # 0: no limit
    max_queues_per_user: int  # 0: no limit
    global_max_size: int  # 0 or less: no limit
    global_max_messages: int  # 0 or less: no limit
    max_disk_usage: int  # per cent; -1: no limit
    min_disk_free: int  # -1: no limit
    disk_scan_period: int  # milliseconds
    disk_full_policy: str
    max_unindexed_bytes: int
    indexer_timeout: int  # milliseconds
    journal_damage_policy: str
    stop_timeout: int  # milliseconds


class JournalConfig(msgspec.Struct, frozen=True):
    """The section [journal]; sizes in bytes."""

    segment_bytes: int
    block_bytes: int
    max_pending_bytes: int
    device_block_size: int
    retention_max_age: int  # milliseconds, 0 for none
    retention_max_bytes: int
    retention_scan_period: int  # milliseconds
    archive_directory: str
    checkpoint_period: int  # milliseconds
    snapshot_every: int
    archive_snapshot_every: int
    catalogs: bool
    catalog_headers: str
    signing_key: str
    anchors: tuple[str, ...]
    idle_mark_delay: int  # milliseconds


class AddressConfig(msgspec.Struct, frozen=True):
    """One [[address]] with a name, created at the start."""

    name: str
    routing_types: tuple[str, ...]


class QueueConfig(msgspec.Struct, frozen=True):
    """One [[queue]], created at the start."""

    address: str
    definition: QueueDefinition

    @property
    def name(self) -> str:
        return self.definition.name


class WildcardConfig(msgspec.Struct, frozen=True):
    """The section [wildcard-addresses]."""

    enabled: bool
    routing_enabled: bool
    delimiter: str
    any_words: str
    single_word: str
    literal_match_markers: str

    @property
    def syntax(self) -> Syntax:
        """The syntax of names that is in force."""
        if not self.enabled:
            return DEFAULT_SYNTAX
        return Syntax(
            self.delimiter, self.any_words, self.single_word, self.routing_enabled,
            self.literal_match_markers,
        )  # fmt: skip


class LogConfig(msgspec.Struct, frozen=True):
    """The section [log]."""

    level: str
    format: str


class Config(msgspec.Struct, frozen=True):
    """The whole configuration, checked and complete."""

    broker: BrokerConfig
    journal: JournalConfig
    acceptors: tuple[AcceptorConfig, ...]
    address_settings: Matches
    addresses: tuple[AddressConfig, ...]
    queues: tuple[QueueConfig, ...]
    diverts: tuple[DivertDefinition, ...]
    wildcards: WildcardConfig
    log: LogConfig
    console: ConsoleSection
    security_settings: SecurityRules
    virtual_hosts: tuple[VirtualHost, ...] = ()
    host_security: dict[str, SecurityRules] = {}
    distributions: tuple[DistributionEntry, ...] = ()
    connectors: tuple[ConnectorConfig, ...] = ()
    auto_links: tuple[AutoLinkConfig, ...] = ()
    sharded_queues: tuple[ShardedQueueConfig, ...] = ()
    waypoints: tuple[Waypoint, ...] = ()
    link_routes: tuple[LinkRoute, ...] = ()
    replication: ReplicationConfig | None = None
    warnings: tuple[str, ...] = ()
    foreign: Foreign = Foreign()


def load(
    path: Path | str | None = None,
    overrides: Sequence[str] = (),
    listen: Sequence[str] = (),
) -> Config:
    """Read a configuration file (None: the embedded defaults) and apply flags to it.

    `overrides` are KEY=VALUE texts of `--set`, `listen` are PROTOCOL://HOST:PORT texts that replace
    all acceptors, or are added to those of a broker.xml. Raises ConfigError.
    """
    problems: list[str] = []
    findings = Findings()
    if path is None:
        source = Source()
    else:
        foreign = read_foreign(Path(path), problems, findings)
        source = foreign if foreign is not None else read_file(Path(path), problems)
    if not any(_match_of(block) == DEFAULT_MATCH for block in source.settings):
        source.settings.insert(0, _default_settings())
    read_flags(source, overrides, listen, problems)
    builder = _Builder(problems)
    config = builder.build(source)
    console = source.sections["console"]
    check_console(console, config.console, config.acceptors, builder.problem)
    replication = builder.replication(source, config.acceptors)
    if problems:
        raise ConfigError(problems)
    found = (
        *map(encryption.warning, config.acceptors),
        *map(connector_config.warning, config.connectors),
        host_config.warning(config.virtual_hosts),
        distribution_config.warning(
            config.distributions, config.broker.default_distribution,
            config.address_settings.values(),
        ),
    )  # fmt: skip
    warnings = (*findings.lost, *builder.warnings, *filter(None, found))
    return msgspec.structs.replace(
        config, replication=replication, warnings=warnings, foreign=findings.rest()
    )


def _match_of(block: Block) -> object:
    given = block.values.get("match")
    return given.value if given else None


def _default_settings() -> Block:
    values: dict[str, object] = {"match": DEFAULT_MATCH, **DEFAULT_SETTINGS}
    return Block("", {key: Given(value, "") for key, value in values.items()})


class _Builder:
    """Checks values and builds the structs; collects problems."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.syntax: Syntax = DEFAULT_SYNTAX
        self.hosts: set[str] = {HOST}
        self.listed: list[Listed] = []
        self.warnings: list[str] = []

    def build(self, source: Source) -> Config:
        """Build the configuration; invalid values are replaced by defaults."""
        sections = {
            name: self.values(source.sections[name], table, "" if name == "broker" else f"{name}.")
            for name, table in options.SECTIONS.items()
            if name != SECTION
        }
        self.check_pending(source.sections["journal"], sections["journal"])
        broker = self.broker(sections["broker"])
        wildcards = WildcardConfig(**sections["wildcard-addresses"])
        self.check_syntax(source.sections["wildcard-addresses"], wildcards.syntax)
        hosts = hosts_of(
            source.arrays["virtual-host"],
            lambda block: self.values(block, options.VIRTUAL_HOST_TABLE, "virtual-host."),
            self.problem,
        )
        self.hosts = {host.name for host in hosts} or {HOST}
        named, patterned = by_kind(source.arrays["address"], self.problem)
        addresses = self.addresses(named)
        distributions = distributions_of(
            patterned,
            broker.default_distribution,
            lambda block: self.right_values(block, options.DISTRIBUTION_TABLE, "address."),
            self.problem,
        )
        connectors = connector_config.connectors_of(
            source.arrays["connector"], self.right_values, self.absolute, self.hosts, self.problem
        )
        links = LinkReader(
            connectors, self.hosts, self.right_values, self.check_name, self.problem
        ).read(source.arrays["auto-link"], source.arrays["sharded-queue"], distributions)
        routes = link_routes_of(
            source.arrays["link-route"], connectors, self.right_values, self.problem
        )
        self.acceptors(source.replaced)
        rules, host_rules = rules_of(
            source.arrays["security-setting"],
            lambda block: self.values(block, options.SECURITY_TABLE, "security-setting."),
            self.syntax,
            self.hosts,
            self.problem,
        )
        config = Config(
            broker=broker,
            journal=JournalConfig(**sections["journal"]),
            acceptors=self.acceptors(source.arrays["acceptor"]),
            address_settings=self.address_settings(source.settings),
            addresses=addresses,
            queues=with_shards(
                self.queues(source.arrays["queue"], addresses), links.sharded_queues
            ),
            diverts=self.diverts(source.arrays["divert"]),
            wildcards=wildcards,
            log=LogConfig(**sections["log"]),
            console=with_paths(ConsoleSection(**sections["console"]), self.absolute),
            security_settings=rules,
            virtual_hosts=hosts,
            host_security=host_rules,
            distributions=links.distributions.entries,
            connectors=connectors,
            auto_links=links.auto_links,
            sharded_queues=links.sharded_queues,
            waypoints=links.waypoints,
            link_routes=tuple(routes),
        )
        self.check_links(config, links, routes, source.settings)
        return config

    def broker(self, values: dict[str, Any]) -> BrokerConfig:
        """Return the section of the broker, with the absolute names of its files."""
        broker = BrokerConfig(**values)
        data = self.absolute(broker.data_directory)
        users_file = self.absolute(broker.users_file or str(data / USERS))
        files = {"data_directory": str(data), "users_file": str(users_file)}
        return msgspec.structs.replace(broker, **files)

    def replication(
        self, source: Source, acceptors: Sequence[AcceptorConfig]
    ) -> ReplicationConfig | None:
        """Return the standbys, None if there are none."""
        return replication_of(
            source.sections[SECTION], source.arrays[NODES], acceptors, self.right_values,
            self.absolute, self.problem, self.warn,
        )  # fmt: skip

    def check_links(
        self,
        config: Config,
        links: Found,
        routes: Mapping[LinkRoute, str],
        address_settings: Sequence[Block],
    ) -> None:
        """Find links, and names of direct addresses, that contradict something else."""
        check_stored(links.distributions, self.listed, self.problem)
        check_waypoints(links.waypoints, self.listed, self.problem)
        link_checks.check_passed_on(routes, self.listed, links.placed, self.problem, self.warn)
        link_checks.warn_of_ends(routes, address_settings, self.warn)
        link_checks.warn_of_containers(routes, links.placed, config.acceptors, self.warn)
        link_checks.warn_of_one_way(links.placed, links.distributions, self.warn)
        link_checks.warn_of_everything(routes, self.warn)

    def right_values(
        self, block: Block, table: tuple[Option, ...], prefix: str
    ) -> dict[str, Any] | None:
        """Return the values as `values` does, None if one of them is refused."""
        before = len(self.problems)
        found = self.values(block, table, prefix)
        return found if len(self.problems) == before else None

    def is_stored(self, block: Block, key: str, name: str, address: str = "") -> None:
        """Note that messages to an address must be stored, which a key of a block names."""
        where = block.values.get(key.partition(".")[2], block).where
        self.listed.append(Listed(where, key, name, address))

    def values(self, block: Block, table: tuple[Option, ...], prefix: str) -> dict[str, Any]:
        """Return the values of all keys of a table by field name; "" for missing required ones."""
        names = [option.name for option in table]
        for key, given in block.values.items():
            if key not in names:
                self.problem(given.where, unknown("key", key, names, prefix))
        values: dict[str, Any] = {}
        for option in table:
            given_or_none = block.values.get(option.name)
            if given_or_none is not None:
                value = self.value(given_or_none, option, prefix)
            else:
                value = default_of(option)
                if option.required:
                    self.problem(block.where, f"{prefix}{option.name} is missing")
            values[field_of(option.name)] = value
        return values

    def value(self, given: Given, option: Option, prefix: str) -> Value:
        value = _plain(given, as_text=option.kind.text)
        try:
            return option.kind.parse(value)
        except Invalid as wrong:
            what = "" if option.is_secret else f" is {show(value)}"
            self.problem(given.where, f"{prefix}{option.name}{what or ': wrong'}; {wrong}")
            return default_of(option)

    def absolute(self, path: str) -> Path:
        """Return the absolute path of a path that is relative to the working directory."""
        try:
            return Path(path).absolute()
        except FileNotFoundError:
            text = f"{show(path)} is relative, and the folder that this was started in is gone"
            self.problem("broker", f"{text}; name the path from the root on")
            return Path(path)

    def problem(self, where: str, text: str) -> None:
        self.problems.append(f"{where}: {text}")

    def warn(self, where: str, text: str) -> None:
        """Note what only looks wrong."""
        self.warnings.append(f"{where}: {text}")

    def check_pending(self, block: Block, values: Mapping[str, int]) -> None:
        if values["max_pending_bytes"] >= values["block_bytes"]:
            return
        given = block.values.get("max-pending-bytes") or block.values["block-bytes"]
        self.problem(
            given.where,
            f"journal.max-pending-bytes is {values['max_pending_bytes']}; it must be at least"
            f" journal.block-bytes, which is {values['block_bytes']}",
        )

    def check_syntax(self, block: Block, syntax: Syntax) -> None:
        """Ask for a usable syntax of names, with which the names that follow are checked."""
        wrong = wrong_with_characters(syntax)
        if wrong is None:
            self.syntax = syntax
            return
        given = block.values.get(wrong.partition(" ")[0].rstrip(","), block)
        self.problem(given.where, f"wildcard-addresses: {wrong}")

    def check_name(self, block: Block, key: str, name: str, *, may_match: bool = False) -> None:
        """Ask that a name follows the rules for names."""
        if not name:
            return
        check = names.wrong_with_wildcards if may_match else names.wrong_with
        wrong = check(name, self.syntax)
        if wrong:
            where = block.values.get(key.partition(".")[2], block).where
            self.problem(where, f"{key} is {show(name)}: {wrong}")

    def acceptors(self, blocks: Sequence[Block]) -> tuple[AcceptorConfig, ...]:
        built: list[AcceptorConfig] = []
        before = len(self.problems)
        rows = [self.acceptor(block) for block in blocks]
        names = {row["name"] for row in rows}
        for block, row in zip(blocks, rows, strict=True):
            row["host"], row["port"] = kinds.split_listen(row.pop("listen"))
            if not row["name"]:
                row["name"] = _free_name(BETWEEN.join(row["speaks"]), names)
                names.add(row["name"])
            for field in ("certificate", "key", "client_ca"):
                row[field] = str(self.absolute(row[field])) if row[field] else ""
            built.append(AcceptorConfig(**row))
            self.check_protocols(block, built[-1])
            for key, wrong in encryption.problems(built[-1]):
                where = block.values.get(key, block).where
                self.problem(where, f"acceptor {built[-1].name!r}: {wrong}")
        if len(self.problems) == before:
            self.unique(blocks, [acceptor.name for acceptor in built], "acceptor.name")
            self.unique_endpoints(blocks, built)
        return tuple(built)

    def acceptor(self, block: Block) -> dict[str, Any]:
        """Return the values of an acceptor by field: those of each protocol under its name."""
        protocols = protocols_of(block)
        if "protocol" in block.values and (given := block.values.get("protocols")) is not None:
            self.problem(given.where, "acceptor.protocols stands for acceptor.protocol: give one")
        row = self.values(block, table_of(protocols), "acceptor.")
        common = {field_of(key) for key in COMMON} - {"protocol", "protocols"}
        speaks = {
            each: {
                option.name: row[field_of(option.name)]
                if option.name in block.values
                else default_of(option)
                for option in protocol_options(OFFERS[each])
            }
            for each in protocols
        }
        return {field: row[field] for field in common} | {"speaks": speaks}

    def check_protocols(self, block: Block, acceptor: AcceptorConfig) -> None:
        """Ask the protocols whether the values, right one by one, also go together."""
        if acceptor.role == CONTAINER and not {*DIALLED} & {*acceptor.speaks}:
            self.problem(
                block.values["role"].where,
                f"acceptor {acceptor.name!r}: containers speak {' or '.join(DIALLED)}, which is not"
                f" spoken here; set role to {NORMAL}, or protocol to one of these",
            )
        for protocol, given in acceptor.speaks.items():
            try:
                OFFERS[protocol].check(given)
            except ValueError as error:
                self.problem(block.where, f"acceptor {acceptor.name!r}: {error}")

    def unique_endpoints(
        self, blocks: Sequence[Block], acceptors: Sequence[AcceptorConfig]
    ) -> None:
        """Ask that acceptors listen on ports of their own."""
        listening: dict[tuple[str, int], str] = {}
        for block, acceptor in zip(blocks, acceptors, strict=True):
            endpoint = (acceptor.host, acceptor.port)
            if acceptor.port and endpoint in listening:
                text = f"acceptor.listen is the same as that of acceptor {listening[endpoint]!r}"
                where = block.values.get("listen", block).where
                self.problem(where, f"{text}; every acceptor needs its own port")
            listening.setdefault(endpoint, acceptor.name)

    def unique(self, blocks: Sequence[Block], names: Sequence[str], key: str) -> None:
        """Ask that names within an array differ."""
        first: dict[str, str] = {}
        for block, name in zip(blocks, names, strict=True):
            where = block.values.get(key.partition(".")[2], block).where
            if name and name in first:
                self.problem(where, f"{key} {name!r} was used before, at {first[name]}")
            first.setdefault(name, where)

    def addresses(self, blocks: Sequence[Block]) -> tuple[AddressConfig, ...]:
        built = []
        for block in blocks:
            row = self.values(block, options.ADDRESS_TABLE, "address.")
            host = host_in(block, row, "address", self.hosts, self.problem)
            self.check_name(block, "address.name", row["name"], may_match=True)
            built.append(AddressConfig(**on_host(host, row, "name")))
            self.is_stored(block, "address.name", built[-1].name)
        self.unique(blocks, [address.name for address in built], "address.name")
        return tuple(built)

    def queues(
        self, blocks: Sequence[Block], addresses: Sequence[AddressConfig]
    ) -> tuple[QueueConfig, ...]:
        types = {address.name: address.routing_types for address in addresses}
        built = []
        for block in blocks:
            row = self.values(block, options.QUEUE_TABLE, "queue.")
            host = host_in(block, row, "queue", self.hosts, self.problem)
            row["address"] = row["address"] or row["name"]
            self.check_name(block, "queue.name", row["name"])
            if row["address"] != row["name"]:
                self.check_name(block, "queue.address", row["address"], may_match=True)
            row = on_host(host, row, "name", "address")
            queue = QueueConfig(row.pop("address"), QueueDefinition(**row))
            self.is_stored(block, "queue.name", queue.name, queue.address)
            if queue.address != queue.name:
                self.is_stored(block, "queue.address", queue.address)
            self.check_filter(block, "queue.filter", queue.definition.filter)
            routing_type = queue.definition.routing_type
            if routing_type not in types.get(queue.address, (routing_type,)):
                where = block.values.get("routing-type", block).where
                text = f"queue.routing-type is {show(routing_type)}, which the address"
                self.problem(where, f"{text} {queue.address!r} has not in its routing-types")
            built.append(queue)
        self.unique(blocks, [queue.name for queue in built], "queue.name")
        return tuple(built)

    def diverts(self, blocks: Sequence[Block]) -> tuple[DivertDefinition, ...]:
        built = []
        for block in blocks:
            row = self.values(block, options.DIVERT_TABLE, "divert.")
            host = host_in(block, row, "divert", self.hosts, self.problem)
            divert = DivertDefinition(**row)
            for wrong in new_faults(block, divert, self.syntax):
                self.problem(block.where, f"divert {show(divert.name)}: {wrong}")
            row = on_host(host, row, "name", "address", "forwarding_addresses")
            divert = DivertDefinition(**row)
            self.is_stored(block, "divert.address", divert.address)
            self.check_filter(block, "divert.filter", divert.filter)
            built.append(divert)
        before = len(self.problems)
        self.unique(blocks, [divert.name for divert in built], "divert.name")
        if len(self.problems) == before:
            self.check_paths(blocks, built)
        return tuple(built)

    def check_paths(self, blocks: Sequence[Block], built: Sequence[DivertDefinition]) -> None:
        """Ask that no message comes back to a divert."""
        together = Diverts({}, Budget())
        for block, divert in zip(blocks, built, strict=True):
            together.add(msgspec.structs.replace(divert, syntax=self.syntax.of_names))
            bad = together.too_many()
            if bad is not None:
                together.remove(divert.name)
                self.problem(block.where, f"divert {show(divert.name)} {would_come_back(bad)}")

    def check_filter(self, block: Block, key: str, text: str) -> None:
        """Ask that a filter can be understood."""
        try:
            if text:
                compile_filter(text, str)
        except ValueError as error:
            where = block.values.get("filter", block).where
            self.problem(where, f"{key} is {show(text)}: {error}")

    def address_settings(self, blocks: Sequence[Block]) -> Matches:
        built: Matches = {}
        first: dict[str, str] = {}
        for block in blocks:
            given = block.values.get("match")
            if given is None or not isinstance(given.value, str):
                where = given.where if given else block.where
                self.problem(where, 'address-setting needs a match, like match = "orders.#"')
                continue
            match = given.value
            wrong = settings.check_match(match, self.syntax)
            if wrong or names.DIVIDER in match:
                wrong = wrong or f"the match {match!r} has a '{names.DIVIDER}'; use virtual-host"
                self.problem(given.where, f"address-setting: {wrong}")
            if self.syntax.literal(match) is not None or not self.syntax.has_wildcard(match):
                name = self.syntax.literal(match) or match
                self.is_stored(block, "address-setting.match", name)
            host = self.host_of_setting(block)
            match = match_on(host, match)
            if match in first:
                self.problem(given.where, f"the match {match!r} was used before, at {first[match]}")
            first.setdefault(match, given.where)
            built[match] = self.settings_of(block)
        for match, wrong in settings.without_policy(built, self.syntax):
            self.problem(first[match], f"address-setting {match!r}: {wrong}")
        return built

    def host_of_setting(self, block: Block) -> str:
        """Return the virtual host that an address-setting is for, empty for all."""
        given = block.values.get(KEY)
        row = {"virtual_host": given.value if given else ""}
        return host_in(block, row, "address-setting", self.hosts, self.problem)

    def settings_of(self, block: Block) -> dict[str, Setting]:
        values: dict[str, Setting] = {}
        for key, given in block.values.items():
            if key in ("match", KEY):
                continue
            row = BY_NAME.get(key)
            value = _plain(given, as_text=row is not None and row.type is str)
            value = in_units(key, value)
            wrong = settings.check_value(key, value, self.syntax)
            if wrong:
                self.problem(given.where, f"address-setting: {wrong}")
            elif isinstance(value, str | int | bool | float):
                values[key] = value
        return values


def with_shards(
    queues: Sequence[QueueConfig], sharded: Sequence[ShardedQueueConfig]
) -> tuple[QueueConfig, ...]:
    """Return the queues, and those of sharded queues that [[queue]] does not describe."""
    named = {queue.name for queue in queues}
    return (
        *queues,
        *(
            QueueConfig(each.name, QueueDefinition(each.name))
            for each in sharded
            if each.local and each.name not in named
        ),
    )


def field_of(key: str) -> str:
    """Return the field of a struct that holds the value of a key."""
    return key.replace("-", "_")


def key_of(field: str) -> str:
    """Return the key whose value a field of a struct holds."""
    return field.replace("_", "-")


def _free_name(protocol: str, taken: set[str]) -> str:
    name, number = protocol, 2
    while name in taken:
        name, number = f"{protocol}-{number}", number + 1
    return name


def _plain(given: Given, *, as_text: bool) -> object:
    """The value as TOML would give it; a flag's text may be written with quotes or without."""
    value = given.value
    if not given.text or not isinstance(value, str) or (as_text and not value.startswith('"')):
        return value
    return literal(value)


def default_of(option: Option) -> Value:
    """The default of a key, as the structs hold it; "" for a key that must be given."""
    return "" if option.default is None else option.kind.parse(option.default)


def show(value: object) -> str:
    """A value as it would be written in the file."""
    if isinstance(value, float):
        return repr(value)  # JSON has no words for inf and nan, TOML has these.
    return msgspec.json.encode(value, enc_hook=str).decode()


def check_archive(config: Config) -> None:
    """Raise ConfigError if segments would be archived where they are taken from."""
    wrong = overlap(config.journal.archive_directory, Path(config.broker.data_directory))
    if wrong:
        raise ConfigError([wrong])
