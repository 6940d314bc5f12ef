"""The standbys of a configuration: [replication] and its [[replication-node]]s, checked.

Must never read files nor open sockets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.config_keys.config_source import Block
from daybook.server.config_keys.option import Option
from daybook.server.config_keys.replication_options import (
    ETCD,
    FILE,
    MAJORITY,
    NO_ACKS,
    ONE,
    REPLICATION,
    REPLICATION_NODE,
)
from daybook.server.configuration.console_section import taken
from daybook.server.configuration.encryption import is_loopback
from daybook.server.configuration.host_config import Problem

SECTION: Final = "replication"
NODES: Final = "replication-node"
TLS: Final = "tls"
NODES_MAX: Final = 64
_PORT_MAX: Final = 65_535
_FILES: Final = (
    "passcode_file", "path", "certificate", "key", "authority", "etcd_certificate", "etcd_key",
    "etcd_authority",
)  # fmt: skip
_OF_ETCD: Final = (
    "endpoints", "login", "passcode-file", "etcd-certificate", "etcd-key", "etcd-authority",
)  # fmt: skip
_OF_TLS: Final = ("certificate", "key", "authority")
Values = Callable[[Block, tuple[Option, ...], str], dict[str, Any] | None]
Fault = tuple[str, str]
"""The key to point at, and the remedy."""


class Place(msgspec.Struct, frozen=True):
    """Where a node listens or is reached."""

    tls: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TLS if self.tls else 'tcp'}://{host}:{self.port}"


class ReplicationConfig(msgspec.Struct, frozen=True):
    """The section [replication], with the addresses of all nodes by name; durations in
    milliseconds, sizes in bytes, paths absolute. Keys and files for etcd that were left empty are
    filled in."""

    cluster: str
    node: str
    listen: Place
    nodes: dict[str, Place]
    acks: str
    lease: int
    lag_max: int
    cut_max_bytes: int
    cut_max_age: int
    arbiter: str
    endpoints: tuple[str, ...]
    prefix: str
    login: str
    passcode_file: str
    path: str
    certificate: str
    key: str
    authority: str
    etcd_certificate: str
    etcd_key: str
    etcd_authority: str

    @property
    def address(self) -> Place:
        """Where the others reach this node."""
        return self.nodes[self.node]


def replication_of(
    section: Block,
    nodes: Sequence[Block],
    acceptors: Sequence[AcceptorConfig],
    values: Values,
    absolute: Callable[[str], Path],
    problem: Problem,
    warn: Problem,
) -> ReplicationConfig | None:
    """Return the standbys, None if there are none, or if something about them is wrong; `values`
    gives the values of a block by field, None if one of them was refused."""
    if not section.where and not section.values:
        for block in nodes[:1]:
            problem(block.where, f"[[{NODES}]] needs a section [{SECTION}]")
        return None
    where = section.where or next(iter(section.values.values())).where
    row = values(Block(where, section.values), REPLICATION, f"{SECTION}.")
    found = _nodes(where, nodes, values, problem)
    if row is None or found is None:
        return None
    faults = list(_faults_of_nodes(row, found))
    if row["node"] in found and not faults:
        for field in _FILES:
            row[field] = str(absolute(row[field])) if row[field] else ""
        row["listen"] = _place(row["listen"]) if row["listen"] else found[row["node"]]
        faults = [*_tls_faults(row, found), *_arbiter_faults(row)]
        if wrong := taken(row["listen"].host, row["listen"].port, acceptors):
            faults.append(("listen", f"{row['listen']} {wrong}"))
    for key, wrong in faults:
        problem(_where(section, where, key), f"{SECTION}: {wrong}")
    if faults:
        return None
    for key, wrong in _warnings(row, found):
        warn(_where(section, where, key), f"{SECTION}: {wrong}")
    return ReplicationConfig(nodes=found, **_complete(row))


def _where(section: Block, where: str, key: str) -> str:
    return section.values[key].where if key in section.values else where


def _place(address: str) -> Place:
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    return Place(scheme == TLS, host.strip("[]"), int(port))


def _nodes(
    where: str, blocks: Sequence[Block], values: Values, problem: Problem
) -> dict[str, Place] | None:
    """Return the nodes by name, None if one of them is wrong."""
    if not blocks:
        text = f"[{SECTION}] needs a [[{NODES}]] with name and address for each node"
        problem(where, f"{text}, also for this one")
        return None
    found: dict[str, Place] = {}
    first: dict[object, str] = {}
    is_right = True
    for block in blocks:
        row = values(block, REPLICATION_NODE, f"{NODES}.")
        if row is None:
            is_right = False
            continue
        place = _place(row["address"])
        for key, value in (("name", row["name"]), ("address", place)):
            at = block.values[key].where
            if value in first:
                problem(at, f"{NODES}.{key} {str(value)!r} was used before, at {first[value]}")
                is_right = False
            first.setdefault(value, at)
        if not 0 < place.port <= _PORT_MAX:
            text = f"has port {place.port}; it must be from 1 to {_PORT_MAX}"
            problem(block.values["address"].where, f"{NODES}.address {text}")
            is_right = False
        found[row["name"]] = place
    return found if is_right else None


def _faults_of_nodes(row: Mapping[str, Any], nodes: Mapping[str, Place]) -> Iterator[Fault]:
    if row["node"] not in nodes:
        text = f"node is {row['node']!r}, and there is no [[{NODES}]] of that name"
        yield "node", f"{text}; there are {', '.join(nodes)}"
    if row["acks"] != NO_ACKS and len(nodes) == 1:
        yield (
            "acks",
            f"acks is {row['acks']!r}, but there is one node, which has no follower: nothing would"
            f' be confirmed; list the others as [[{NODES}]], or set acks = "{NO_ACKS}"',
        )
    if len(nodes) > NODES_MAX:
        yield "node", f"there are {len(nodes)} nodes; a cluster has {NODES_MAX} at most"
    if row["listen"] and not 0 < _place(row["listen"]).port <= _PORT_MAX:
        yield "listen", f"listen has a port that is not from 1 to {_PORT_MAX}"


def _tls_faults(row: Mapping[str, Any], nodes: Mapping[str, Place]) -> Iterator[Fault]:
    places = [row["listen"], *nodes.values()]
    for place in dict.fromkeys(places):
        if not place.tls and not is_loopback(place.host):
            key = "listen" if place == row["listen"] else "node"
            yield (
                key,
                f"{place} can be reached from other machines, which needs TLS: write tls:// in all"
                " addresses, and give certificate, key and authority",
            )
            return
    if len({place.tls for place in places}) > 1:
        yield "node", "some addresses begin with tls:// and some with tcp://; write tls:// in all"
    elif row["listen"].tls:
        missing = [key for key in ("certificate", "authority") if not row[key]]
        for key in missing:
            yield key, f"{key} is missing: tls:// needs certificates of both sides, in PEM format"
    else:
        for key in _OF_TLS:
            if row[key]:
                yield key, f"{key} is for TLS, which the addresses are without; write tls://"


def _arbiter_faults(row: Mapping[str, Any]) -> Iterator[Fault]:
    if row["arbiter"] == FILE:
        if not row["path"]:
            yield "arbiter", f'path is missing: arbiter = "{FILE}" needs the file of the lease'
        for key in _OF_ETCD:
            if row[key.replace("-", "_")]:
                yield key, f'{key} is for arbiter = "{ETCD}"; remove it, or set that'
        return
    if row["path"]:
        yield "path", f'path is for arbiter = "{FILE}"; remove it, or set that'
    if not row["endpoints"]:
        yield (
            "arbiter",
            f'endpoints is missing: arbiter = "{ETCD}" needs the members of etcd, like'
            ' endpoints = ["https://etcd-1.example.org:2379"]',
        )
    for each in row["endpoints"]:
        if wrong := _wrong_with_endpoint(each):
            yield "endpoints", f"endpoints has {wrong}"
    if len(set(row["endpoints"])) < len(row["endpoints"]):
        yield "endpoints", "endpoints has a member twice; remove one of them"
    if row["login"] and not row["passcode_file"]:
        yield "login", "login is given without passcode-file: name the file that has the passcode"
    if row["passcode_file"] and not row["login"]:
        yield "passcode-file", "passcode-file is given without login; write it, or remove this"


def _wrong_with_endpoint(endpoint: str) -> str:
    """Return the fault of a URL of etcd, without a passcode in it; empty if it has none."""
    wanted = "http:// or https://HOST:PORT, and nothing behind it"
    try:
        parts = urlsplit(endpoint)
        if parts.username is not None or parts.password is not None:
            return "a URL with a login; write login and passcode-file instead"
        is_right = (
            parts.scheme in ("http", "https") and parts.hostname and parts.port
            and not (parts.path.strip("/") or parts.query or parts.fragment)
            and not any(each.isspace() for each in endpoint)
        )  # fmt: skip
    except ValueError:
        is_right = False
    return "" if is_right else f"{endpoint!r}; it must be {wanted}"


def _warnings(row: Mapping[str, Any], nodes: Mapping[str, Place]) -> Iterator[Fault]:
    if row["acks"] in (ONE, MAJORITY) and len(nodes) == 2:
        yield (
            "acks",
            f'of two nodes both must have each event (acks = "{row["acks"]}"): while one of them is'
            " lost, nothing is confirmed; with a third node the other two continue",
        )
    if row["arbiter"] == FILE and not all(is_loopback(each.host) for each in nodes.values()):
        text = f'arbiter = "{FILE}" is for nodes on one machine, and others can reach these'
        yield "arbiter", f'{text}; set arbiter = "{ETCD}"'
    for each in row["endpoints"]:
        parts = urlsplit(each)
        if parts.scheme == "http" and not is_loopback(str(parts.hostname)):
            what = "the passcode, and who leads" if row["login"] else "and change who leads"
            yield (
                "endpoints",
                f"{each} is without TLS: everybody on the way can read {what}; write https://",
            )


def _complete(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with those for etcd where only the ones for the nodes are given, and each
    key in the file of its certificate."""
    key = row["key"] or row["certificate"]
    found = {**row, "key": key, "endpoints": tuple(each.rstrip("/") for each in row["endpoints"])}
    if row["etcd_certificate"]:
        found["etcd_key"] = row["etcd_key"] or row["etcd_certificate"]
    else:
        found |= {"etcd_certificate": row["certificate"], "etcd_key": row["etcd_key"] or key}
    return found | {"etcd_authority": row["etcd_authority"] or row["authority"]}
