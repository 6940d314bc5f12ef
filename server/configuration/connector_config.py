"""The connectors of a configuration: each [[connector]], checked.

Must never read files nor open sockets.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from daybook.protocols.port import Value
from daybook.protocols.registry import OFFERS
from daybook.server.config_keys.config_source import Block
from daybook.server.config_keys.connector_options import (
    CONNECTOR,
    DIALLED,
    EXTERNAL,
    MECHANISMS,
    OF_PROTOCOLS,
    TABLE,
    WITH_PASSCODE,
)
from daybook.server.config_keys.kinds import split_url
from daybook.server.config_keys.option import Option, unknown
from daybook.server.configuration.encryption import is_loopback
from daybook.server.configuration.host_config import Problem, host_in

TLS_PORT: Final = -1
"""How far the port with TLS is from that without, by default: 5671 and 5672."""
_TLS_KEYS: Final = ("trusted-certificates", "certificate", "private-key")
_COMMON: Final = frozenset(option.name for option in TABLE)


class Secret:
    """A text that nothing shows: neither a log line, nor the changes of a reload."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text: Final = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "..." if self._text else ""

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


class ConnectorConfig(msgspec.Struct, frozen=True):
    """One [[connector]]; durations in milliseconds. `options` are those of its protocol, by key."""

    name: str
    protocol: str
    host: str
    port: int
    tls: bool
    cost: int
    host_name: str
    container: str
    login: str
    passcode_file: str
    passcode: Secret
    mechanisms: tuple[str, ...]
    user: str
    virtual_host: str
    reconnect_delay: int
    reconnect_delay_max: int
    connect_timeout: int
    tcp_keepalive: int
    trusted_certificates: str
    certificate: str
    private_key: str
    verify_host_name: bool
    tls_min_version: str
    options: dict[str, Value] = {}

    @property
    def url(self) -> str:
        """The URL, with its port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.protocol}{'s' * self.tls}://{host}:{self.port}"


def connectors_of(
    blocks: Sequence[Block],
    values: Callable[[Block, tuple[Option, ...], str], dict[str, Any] | None],
    absolute: Callable[[str], object],
    hosts: set[str],
    problem: Problem,
) -> tuple[ConnectorConfig, ...]:
    """Return the connectors; `values` gives the values of a block by field, None if one of them was
    refused, `absolute` the absolute path of a file."""
    built: list[ConnectorConfig] = []
    first: dict[str, str] = {}
    for block in blocks:
        row = values(block, CONNECTOR, "connector.")
        if row is None:
            continue
        row["virtual_host"] = host_in(block, row, "connector", hosts, problem)
        connector = _connector(block, row, absolute, problem)
        if connector is None:
            continue
        where = block.values["name"].where
        if connector.name in first:
            at = first[connector.name]
            problem(where, f"connector.name {connector.name!r} was used before, at {at}")
        first.setdefault(connector.name, where)
        for key, wrong in _faults_of(connector):
            problem(_where(block, key), f"connector {connector.name!r}: {wrong}")
        built.append(connector)
    return tuple(built)


def _connector(
    block: Block, row: dict[str, Any], absolute: Callable[[str], object], problem: Problem
) -> ConnectorConfig | None:
    scheme, host, port = split_url(row.pop("url"))
    protocol = scheme if scheme in DIALLED else scheme.removesuffix("s")
    if protocol not in DIALLED:
        listed = " or ".join(f"{each}:// or {each}s://" for each in DIALLED)
        text = f"connector.url begins with {scheme}://; the broker connects by {listed}"
        problem(_where(block, "url"), text)
        return None
    is_tls = scheme != protocol
    for field in ("passcode_file", "trusted_certificates", "certificate", "private_key"):
        row[field] = str(absolute(row[field])) if row[field] else ""
    if not port:
        _, _, port = split_url(f"{protocol}://{OFFERS[protocol].listen}")
        port += TLS_PORT * is_tls
    further = {
        option.name: row.pop(option.name.replace("-", "_"))
        for option in OF_PROTOCOLS[protocol]
        if option.name not in _COMMON
    }
    row["passcode"] = Secret(row["passcode"])
    return ConnectorConfig(
        protocol=protocol, host=host, port=port, tls=is_tls, options=further, **row
    )


def _faults_of(connector: ConnectorConfig) -> list[tuple[str, str]]:
    """Return the faults of a connector: the key to point at, and the remedy."""
    found = [*_login_faults(connector), *_mechanism_faults(connector)]
    if not connector.tls:
        found += [
            (key, f"{key} is for TLS, which the URL is without; write {connector.protocol}s://")
            for key in _TLS_KEYS
            if getattr(connector, key.replace("-", "_"))
        ]
    elif connector.private_key and not connector.certificate:
        text = "private-key is given without certificate: name the file of the certificate"
        found.append(("private-key", text))
    if connector.reconnect_delay > connector.reconnect_delay_max:
        text = (
            f"reconnect-delay is {connector.reconnect_delay} ms, longer than reconnect-delay-max,"
            f" which is {connector.reconnect_delay_max} ms; make it shorter"
        )
        found.append(("reconnect-delay", text))
    return found


def _login_faults(connector: ConnectorConfig) -> list[tuple[str, str]]:
    has_passcode = bool(connector.passcode or connector.passcode_file)
    if connector.passcode and connector.passcode_file:
        return [("passcode", "it has a passcode and a passcode-file; remove one of them")]
    if connector.login and not has_passcode:
        text = "login is given without a passcode; write the file that has it in passcode-file"
        return [("login", text)]
    if has_passcode and not connector.login:
        key = "passcode-file" if connector.passcode_file else "passcode"
        return [(key, f"{key} is given without a login; write the login, or remove it")]
    return []


def _mechanism_faults(connector: ConnectorConfig) -> list[tuple[str, str]]:
    found = []
    for each in connector.mechanisms:
        if each not in MECHANISMS:
            found.append(f"mechanisms has {each!r}; there are {', '.join(MECHANISMS)}")
        elif each in WITH_PASSCODE and not connector.login:
            found.append(f"mechanisms has {each}, which needs login and passcode-file")
        elif each == EXTERNAL and not (connector.tls and connector.certificate):
            found.append(f"mechanisms has {each}, which needs TLS and a certificate")
    return [("mechanisms", text) for text in found]


def wrong_peer(connector: str, container: str) -> str:
    """Return why a link is not for one peer, and the remedy: it names a connector or the id of a
    container. Empty if it does."""
    if connector and container:
        return "it has both connector and container; remove one of them"
    if not connector and not container:
        return 'it has neither connector nor container, like connector = "east"; give one'
    return ""


def unknown_connector(name: str, known: Sequence[str]) -> str:
    """Return the text for a connector that there is not."""
    if not known:
        return f"unknown connector {name!r}; write a [[connector]] with this name"
    return unknown("connector", name, known)


def is_plain_text(connector: ConnectorConfig) -> bool:
    """Return whether others can read what a connector sends and gets."""
    return not connector.tls and not is_loopback(connector.host)


def warning(connector: ConnectorConfig) -> str:
    """Return the warning about a connector without TLS, "" without one."""
    if not is_plain_text(connector):
        return ""
    return (
        f"connector {connector.name!r} connects to {connector.host} without TLS: everybody on the"
        " way can read messages"
    )


def _where(block: Block, key: str) -> str:
    return block.values.get(key, block).where
