"""The virtual hosts of a configuration: [[virtual-host]], and references in other tables.

The first one is `default`: it has every object that names no other host, also those journaled
before there were hosts, and clients that name no host get it. Must never know the objects of a
host.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from daybook.engine.limits.host_limits import HostLimits
from daybook.engine.names.names import DIVIDER, HOST, qualified, wrong_with_host
from daybook.server.config_keys.config_source import Block

KEY: Final = "virtual-host"
HOSTS_MAX: Final = 1_000
NAMES_MAX: Final = 1_000
"""How many names a virtual host may have."""

Problem = Callable[[str, str], None]
"""Takes the place of a fault, and its text."""


class VirtualHost(msgspec.Struct, frozen=True):
    """One [[virtual-host]]: its name, those that clients may give, and its limits, 0 for none."""

    name: str
    host_names: tuple[str, ...]
    max_connections: int
    max_addresses: int
    max_queues: int
    max_size: int

    @property
    def limits(self) -> HostLimits:
        """Its limits, for the engine."""
        return HostLimits(self.max_connections, self.max_addresses, self.max_queues, self.max_size)

    @property
    def asked_for(self) -> tuple[str, ...]:
        """The names by which clients ask for it, in lower case; one is its own."""
        return tuple(dict.fromkeys(name.lower() for name in (*self.host_names, self.name)))


def limits_of(hosts: Sequence[VirtualHost]) -> dict[str, HostLimits]:
    """Return the limits by virtual host, for the engine."""
    return {host.name: host.limits for host in hosts}


def all_names(hosts: Sequence[VirtualHost]) -> set[str]:
    """Return the names of the virtual hosts, for names and for users."""
    return {host.name for host in hosts} or {HOST}


def known_names(hosts: Sequence[VirtualHost]) -> tuple[str, ...]:
    """Return the names that clients may give, each with its host behind a space, for sessions."""
    return tuple(f"{name} {host.name}" for host in hosts for name in host.asked_for)


def warning(hosts: Sequence[VirtualHost]) -> str:
    """Return a surprise for clients in the names of the default host, empty without one."""
    default = next((host for host in hosts if host.name == HOST), None)
    if default is None or default.host_names:
        return ""
    return (
        f"virtual-host.host-names of '{HOST}' is empty, so a client that sends another host than"
        f" '{HOST}' is refused, and many send the name that they connect to; list those names"
    )


def hosts_of(
    blocks: Sequence[Block], values: Callable[[Block], dict[str, Any]], problem: Problem
) -> tuple[VirtualHost, ...]:
    """Return the virtual hosts; `values` gives the values of a block by field."""
    hosts = [VirtualHost(**values(block)) for block in blocks]
    names: dict[str, str] = {}
    asked: dict[str, str] = {}
    if len(hosts) > HOSTS_MAX:
        problem(blocks[HOSTS_MAX].where, f"there are more than {HOSTS_MAX:,} virtual hosts")
    for block, host in zip(blocks, hosts, strict=True):
        where = block.values["name"].where if "name" in block.values else block.where
        wrong = wrong_with_host(host.name) if host.name else None
        if wrong:
            problem(where, f"virtual-host.name is {host.name!r}; {wrong}")
        if host.name.lower() in names:
            at = names[host.name.lower()]
            problem(where, f"virtual-host.name {host.name!r} was used before, at {at}")
        names.setdefault(host.name.lower(), where)
        where = block.values["host-names"].where if "host-names" in block.values else where
        if len(host.host_names) > NAMES_MAX:
            problem(where, f"virtual-host.host-names has more than {NAMES_MAX:,} names")
        for name in host.asked_for:
            if not name or any(character.isspace() for character in name):
                problem(where, f"virtual-host.host-names has {name!r}; names have no spaces")
            elif asked.setdefault(name, host.name) != host.name:
                problem(where, f"virtual-host.host-names: {name!r} is a name of {asked[name]!r}")
    if hosts and hosts[0].name and hosts[0].name != HOST:
        problem(
            blocks[0].where,
            f"the first virtual host is {hosts[0].name!r}; it must be {HOST!r}, which has the "
            f"earlier objects, and is for clients that name no host",
        )
    return tuple(hosts)


def host_in(block: Block, row: dict[str, Any], what: str, known: set[str], problem: Problem) -> str:
    """Take the virtual host out of the values of a table, and check that there is one."""
    host = str(row.pop("virtual_host"))
    if host and host not in known:
        where = block.values[KEY].where if KEY in block.values else block.where
        problem(where, f"{what}.{KEY} is {host!r}, and there is no [[{KEY}]] of that name")
    return host


def match_on(host: str, match: str) -> str:
    """Return the match of an address setting for one virtual host, or for all if it is empty."""
    return f"{host}{DIVIDER}{match}" if host else match


def on_host(host: str, values: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    """Return values with full names in some fields."""
    found = dict(values)
    for field in fields:
        value = found[field]
        if isinstance(value, tuple):
            found[field] = tuple(qualified(host or HOST, each) for each in value)
        elif value:
            found[field] = qualified(host or HOST, value)
    return found
