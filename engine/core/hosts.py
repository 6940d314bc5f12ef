"""Deciding whether a virtual host may have more, and whether there is one (ADR 58).

A host that the configuration no longer lists keeps what it has, and nobody can connect to it. Must
never know who connects.
"""

from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.limits.host_limits import UNLIMITED
from daybook.engine.names.names import HOST, host_and_name, wrong_with_host
from daybook.engine.refusals import Code, Refusal

LISTED_MAX: Final = 10
"""How many virtual hosts a refusal lists."""


def local(core: Core, full: str) -> str:
    """Return what to check of a new full name: the name on its host; all of it if there is no such
    host, and never was."""
    host, name = host_and_name(full)
    is_known = host == HOST or host in core.options.hosts or host in core.state.addresses_on
    return name if is_known else full


def check_known(core: Core, full: str) -> Refusal | None:
    """Return that there is no such virtual host as a full name says, None if there is."""
    host = host_and_name(full)[0]
    if host == HOST or host in core.options.hosts or host in core.state.addresses_on:
        return None
    known = list(core.options.hosts) or [HOST]
    listed = ", ".join(known[:LISTED_MAX]) + (", ..." if len(known) > LISTED_MAX else "")
    return Refusal(
        Code.INVALID,
        f"there is no virtual host '{host}'; name one that the configuration lists ({listed})",
    )


def check_new_address(core: Core, name: str) -> Refusal | None:
    """Refuse a new address for a queue of another name that may be a mistyped virtual host: of
    HOST::NAME nothing says that it is no ADDRESS::QUEUE."""
    hosts = core.options.hosts
    if name in core.state.address_by_name:
        return None
    if name in hosts:
        return Refusal(
            Code.INVALID,
            f"'{name}' is a virtual host; for a queue on it, name the host by itself"
            " (--virtual-host), and for an address of that name, create the address first",
        )
    if len(hosts) < 2 or wrong_with_host(name) is not None:
        return None
    return Refusal(
        Code.INVALID,
        f"there is neither an address nor a virtual host '{name}'; for a queue on a virtual host,"
        " name the host by itself (--virtual-host), and for a new address, create it first",
    )


def check_connection(core: Core, host: str) -> Refusal | None:
    """Return why a virtual host gets no further connection, None if it does."""
    limit = core.options.hosts.get(host, UNLIMITED).max_connections
    return _compare(host, "connections", core.state.connections_on.get(host, 0), limit)


def check_address(core: Core, host: str, planned: int = 0) -> Refusal | None:
    """Return why no further address is made for a client of a virtual host, None if one is."""
    limit = core.options.hosts.get(host, UNLIMITED).max_addresses
    return _compare(host, "addresses", core.state.addresses_on.get(host, 0) + planned, limit)


def check_queue(core: Core, host: str, planned: int = 0) -> Refusal | None:
    """Return why no further queue is made for a client of a virtual host, None if one is."""
    limit = core.options.hosts.get(host, UNLIMITED).max_queues
    return _compare(host, "queues", core.state.queues_on.get(host, 0) + planned, limit)


def _compare(host: str, what: str, count: int, limit: int) -> Refusal | None:
    if limit <= 0 or count < limit:
        return None
    return Refusal(
        Code.LIMIT,
        f"virtual host '{host}' has {count:,} {what}, and max-{what} is {limit:,}; end some, or"
        " raise the limit",
    )


def is_full(core: Core, full_name: str) -> bool:
    """Whether the virtual host of an address holds as many bytes of messages as it may."""
    host = host_and_name(full_name)[0]
    limit = core.options.hosts.get(host, UNLIMITED).max_size
    return 0 < limit <= core.room.sizes.of_hosts.get(host, 0)


def sentence(core: Core, full_name: str) -> str:
    """Return a sentence for users about a virtual host that is full."""
    host = host_and_name(full_name)[0]
    limit = core.options.hosts.get(host, UNLIMITED).max_size
    return (
        f"virtual host '{host}' is full: its queues hold"
        f" {core.room.sizes.of_hosts.get(host, 0)} bytes, and max-size is {limit}; try again when"
        " some were consumed"
    )
