"""The pools that the server guards: those of connections that no user has, and of records.

`POOLS` is the whole table, with the pools of the engine (`engine.pools`) first. Must never know
what is kept in a pool.
"""

from typing import Final

from daybook.engine import pools
from daybook.engine.pools import USER_PART, Pool

LOGINS: Final = Pool(
    name="connections that have not logged in, and logins whose passcodes are being checked",
    of_all="max-pending-logins",
    of_user="max-pending-logins-per-address",
    of_connection=1,
    charged="server.admission",
    beyond="the oldest connection of the address is closed; further logins are refused",
)
"""No user is known yet, so an address of peers stands for one."""
WATCHERS: Final = Pool(
    name="connections to an acceptor for probes or for administration",
    of_all="max-connections",
    of_user="a quarter of them for an address",
    of_connection=1,
    charged="server.listeners",
    beyond="a new connection closes the oldest one; that of its own address, if that has a quarter"
    " of them",
)
DENIALS: Final = Pool(
    name="refusals for want of a permission that are journaled one by one in a minute",
    of_all=128,
    of_user=128 // USER_PART,
    of_connection=128 // USER_PART,
    charged="server.denials",
    beyond="they are counted, and the number is journaled",
)
POOLS: Final = (*pools.POOLS, LOGINS, WATCHERS, DENIALS)


def share_of_address(connections_max: int) -> int:
    """Return how many connections without a login one address may keep from others."""
    return max(1, connections_max // USER_PART)
