"""Deciding whether a client may create more: connections, queues, addresses, subscriptions, ids.

Each takes memory for as long as it exists, so each has a limit: some per user, some per virtual
host (`engine.core.hosts`), all together by memory (`Core.objects_full`, `Core.objects_over`:
sentences set by the code that measures memory). The configuration and administrators have no limit
here. Must never know how memory is measured.
"""

from typing import Final

from daybook.engine.core import hosts
from daybook.engine.core.core import Core
from daybook.engine.limits.pools import CONNECTIONS, PARTS, QUEUES, REGEXES, Pool, partial_words
from daybook.engine.queues.queue import Address
from daybook.engine.refusals import Code, Refusal

NOT_SHORT: Final = ("", "")


def user_limit(core: Core, pool: Pool) -> int:
    """Return what one user may have of a pool whose limits are keys; 0 or less for no limit."""
    return int(getattr(core.options, str(pool.of_user).replace("-", "_")))


def check_connection(core: Core, user: str, host: str) -> Refusal | None:
    """Return why a user gets no further connection to a virtual host, None if one is allowed."""
    limit = user_limit(core, CONNECTIONS)
    if 0 < limit <= core.state.connections_of.get(user, 0):
        return Refusal(
            Code.LIMIT,
            f"user '{user}' has {limit} connections ({CONNECTIONS.of_user}); close some, or "
            "raise the limit",
        )
    return hosts.check_connection(core, host)


def check_queue(core: Core, connection: int, planned: int = 0) -> Refusal | None:
    """Return why a client may have no further queue that stays, besides those already planned."""
    peer = core.state.connections.get(connection)
    if peer is None or core.is_checked:
        return None
    full = full_for(core, peer.user)
    if full:
        return Refusal(Code.LIMIT, full)
    limit = user_limit(core, QUEUES)
    if limit > 0 and core.state.queues_of.get(peer.user, 0) + planned >= limit:
        return Refusal(
            Code.LIMIT,
            f"user '{peer.user}' has made {limit} queues ({QUEUES.of_user}); delete some, or "
            "raise the limit",
        )
    return hosts.check_queue(core, peer.host, planned)


def check_address(core: Core, connection: int, name: str = "", planned: int = 0) -> Refusal | None:
    """Return why no further address is created for a client besides those already planned, None if
    one is allowed."""
    peer = core.state.connections.get(connection)
    if peer is None or core.is_checked:
        return None
    full = full_for(core, peer.user)
    if full:
        return Refusal(Code.LIMIT, full)
    return check_pattern(core, connection, name) or hosts.check_address(core, peer.host, planned)


def check_pattern(core: Core, connection: int, name: str) -> Refusal | None:
    """Return why a client may not subscribe to one more pattern; None if it may, or if it is a
    name."""
    words = partial_words(name, core.state.settings.syntax)
    peer = core.state.connections.get(connection)
    if not words or peer is None:
        return None
    charged, wildcards = core.pattern_charges, core.wildcards
    subscriptions = core.wildcard_subscriptions
    for pool, of_all, charges, more in (
        (PARTS, wildcards.parts + subscriptions.parts, charged.parts, len(words)),
        (
            REGEXES,
            wildcards.regexes + subscriptions.regexes,
            charged.regexes,
            sum([is_regex for _, is_regex in words]),
        ),
    ):
        wrong = None
        if more:
            wrong = pool.refusal((*charges.of(peer.user, connection), of_all), more, peer.user)
        if wrong is not None:
            advice = "end subscriptions with such names, or name whole words"
            return Refusal(Code.LIMIT, f"{wrong}; {advice}")
    return None


def check_subscription(core: Core, connection: int) -> Refusal | None:
    """Return why a client gets no queue that ends with it, None if it does."""
    peer = core.state.connections.get(connection)
    if peer is None or core.is_checked:
        return None
    full = full_for(core, peer.user)
    if full:
        return Refusal(Code.LIMIT, full)
    return hosts.check_queue(core, peer.host)


def check_consumer(core: Core, connection: int) -> Refusal | None:
    """Return why no further consumer is attached, None if one is allowed."""
    if core.room.objects_over:
        return Refusal(Code.LIMIT, core.room.objects_over)
    if not core.room.users_short:
        return None
    peer = core.state.connections.get(connection)
    over = core.room.users_short.get(peer.user, NOT_SHORT)[1] if peer is not None else ""
    return Refusal(Code.LIMIT, over) if over else None


def full_for(core: Core, user: str) -> str:
    """Return why clients of a user make no more queues, addresses and ids; empty if they may."""
    return core.room.objects_full or core.room.users_short.get(user, NOT_SHORT)[0]


def check_id(core: Core, name: str, address: Address | None) -> Refusal | None:
    """Return why an address cannot remember one more id; None if it can, or forgets another for
    it."""
    if not core.room.objects_full:
        return None
    limit = core.state.settings.resolve(name).id_cache_size
    for ids in (address.ids, address.volatile_ids) if address is not None else ():
        if ids is not None and ids.count >= limit:
            return None
    return Refusal(Code.LIMIT, core.room.objects_full) if limit else None
