"""Deciding whether a virtual host may have more, and whether there is one (ADR 58).

A host that the configuration no longer lists keeps what it has, and nobody can connect to it. Must
never know who connects.
"""

from daybook.engine.core import Core
from daybook.engine.host_limits import UNLIMITED
from daybook.engine.names import HOST, host_and_name
from daybook.engine.refusals import Code, Refusal


def local(core: Core, full: str) -> str:
    """Return what to check of a new full name: the name on its host; all of it if there is no such
    host, and never was."""
    host, name = host_and_name(full)
    is_known = host == HOST or host in core.options.hosts or host in core.state.addresses_on
    return name if is_known else full


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
    return 0 < limit <= core.sizes.of_hosts.get(host, 0)


def sentence(core: Core, full_name: str) -> str:
    """Return a sentence for users about a virtual host that is full."""
    host = host_and_name(full_name)[0]
    limit = core.options.hosts.get(host, UNLIMITED).max_size
    return (
        f"virtual host '{host}' is full: its queues hold {core.sizes.of_hosts.get(host, 0)} bytes,"
        f" and max-size is {limit}; try again when some were consumed"
    )
