"""Deciding whether a client may create more: connections, queues, addresses, subscriptions, ids.

Each takes memory for as long as it exists, so each has a limit: some per user, some per virtual
host (`engine.hosts`), all together by memory (`Core.objects_full`, `Core.objects_over`: sentences
set by the code that measures memory). The configuration and administrators have no limit here. Must
never know how memory is measured.
"""

from daybook.engine import hosts
from daybook.engine.core import Core
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state import Address
from daybook.engine.wildcards import wrong_with_one_more


def check_connection(core: Core, user: str, host: str) -> Refusal | None:
    """Return why a user gets no further connection to a virtual host, None if one is allowed."""
    limit = core.options.max_connections_per_user
    if 0 < limit <= core.state.connections_of.get(user, 0):
        return Refusal(
            Code.LIMIT,
            f"user '{user}' has {limit} connections (max-connections-per-user); close some, or "
            "raise the limit",
        )
    return hosts.check_connection(core, host)


def check_queue(core: Core, connection: int, planned: int = 0) -> Refusal | None:
    """Return why a client may have no further queue that stays, besides those already planned."""
    peer = core.state.connections.get(connection)
    if peer is None or core.is_checked:
        return None
    if core.objects_full:
        return Refusal(Code.LIMIT, core.objects_full)
    limit = core.options.max_queues_per_user
    if limit > 0 and core.state.queues_of.get(peer.user, 0) + planned >= limit:
        return Refusal(
            Code.LIMIT,
            f"user '{peer.user}' has made {limit} queues (max-queues-per-user); delete some, or "
            "raise the limit",
        )
    return hosts.check_queue(core, peer.host, planned)


def check_address(core: Core, connection: int, name: str = "", planned: int = 0) -> Refusal | None:
    """Return why no further address is created for a client besides those already planned, None if
    one is allowed."""
    if connection not in core.state.connections or core.is_checked:
        return None
    if core.objects_full:
        return Refusal(Code.LIMIT, core.objects_full)
    return check_pattern(core, name) or hosts.check_address(
        core, core.state.connections[connection].host, planned
    )


def check_pattern(core: Core, name: str) -> Refusal | None:
    """Return why clients may have no further pattern; None if they may, or if it is a name."""
    wildcards, seekers = core.wildcards, core.seekers
    parts, regexes = wildcards.parts + seekers.parts, wildcards.regexes + seekers.regexes
    wrong = wrong_with_one_more(name, core.state.settings.syntax, parts, regexes)
    return Refusal(Code.LIMIT, wrong) if wrong is not None else None


def check_subscription(core: Core, connection: int) -> Refusal | None:
    """Return why a client gets no queue that ends with it, None if it does."""
    peer = core.state.connections.get(connection)
    if peer is None or core.is_checked:
        return None
    if core.objects_full:
        return Refusal(Code.LIMIT, core.objects_full)
    return hosts.check_queue(core, peer.host)


def check_consumer(core: Core) -> Refusal | None:
    """Return why no further consumer is attached, None if one is allowed."""
    return Refusal(Code.LIMIT, core.objects_over) if core.objects_over else None


def check_id(core: Core, name: str, address: Address | None) -> Refusal | None:
    """Return why an address cannot remember one more id; None if it can, or forgets another for
    it."""
    if not core.objects_full:
        return None
    limit = core.state.settings.resolve(name).id_cache_size
    for ids in (address.ids, address.volatile_ids) if address is not None else ():
        if ids is not None and ids.count >= limit:
            return None
    return Refusal(Code.LIMIT, core.objects_full) if limit else None
