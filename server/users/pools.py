"""The pools that the server guards: those of connections that no user has, and of records.

`POOLS` is the whole table, with the pools of the engine (`engine.limits.pools`) first. Must never
know the content of a pool.
"""

from typing import Final

from daybook.engine.limits import pools
from daybook.engine.limits.pools import USER_PART, Pool

LOGINS: Final = Pool(
    name="connections that have not logged in, and logins whose passcodes are being checked",
    of_all="max-pending-logins",
    of_user="max-pending-logins-per-address",
    of_connection=1,
    charged="server.network.admission",
    beyond="the oldest connection of the address is closed; further logins are refused",
)
"""No user is known yet, so an address of peers stands for one."""
WATCHERS: Final = Pool(
    name="connections to an acceptor for probes or for administration",
    of_all="max-connections",
    of_user="a quarter of them for an address",
    of_connection=1,
    charged="server.network.listeners",
    beyond="a new connection closes the oldest one; that of its own address, if that has a quarter"
    " of them",
)
DENIALS: Final = Pool(
    name="refusals for want of a permission that are journaled one by one in a minute",
    of_all=128,
    of_user=128 // USER_PART,
    of_connection=128 // USER_PART,
    charged="server.users.denials",
    beyond="they are counted, and the number is journaled",
)


def _memory(name: str, of_connection: str, beyond: str) -> Pool:
    """A kind of memory: a quarter of the whole, and half of that for a user
    (`server.hub.shares`)."""
    return Pool(
        name=f"memory: {name}",
        of_all="a quarter of `max-memory`",
        of_user="half of that, and `max-memory-per-user` with all other kinds",
        of_connection=of_connection,
        charged="server.hub.shares",
        beyond=beyond,
    )


OUTPUT: Final = _memory(
    "output that clients do not read",
    "`buffer-size`",
    "each connection of the user gets 16 KiB at a time; those that read nothing for"
    " `stalled-timeout` are closed",
)
UNACKNOWLEDGED: Final = _memory(
    "deliveries in flight",
    "`max-unacknowledged-bytes`, and a quarter of the kind",
    "each connection of the user has 64 KiB in flight; those that settle nothing for"
    " `stalled-timeout` are closed",
)
INPUT: Final = _memory(
    "frames and messages that are not complete",
    "the limits of a frame",
    "the connections of the user with the most are closed",
)
OBJECTS: Final = _memory(
    "connections, subscriptions, queues",
    "`max-subscriptions`, `max-queues-per-user`",
    "the user makes no more",
)
MEMORY: Final = (OUTPUT, UNACKNOWLEDGED, INPUT, OBJECTS)
POOLS: Final = (*pools.POOLS, LOGINS, WATCHERS, DENIALS, *MEMORY)


def share_of_address(connections_max: int) -> int:
    """Return how many connections without a login one address may keep from others."""
    return max(1, connections_max // USER_PART)
