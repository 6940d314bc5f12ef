"""The meaning of seeds: those below each number are older than the feature it names.

So a seed that once found something finds it again.
"""

import random

RESENDING_FROM = 1 << 20
"""Ids of messages."""
HARDENED_FROM = 1 << 21
"""Hardships, and more queues of one address."""
NEAR_FROM = 1 << 22
"""Blocks that are written within `submit`."""
MIXED_FROM = 1 << 32
"""Queues of all kinds."""
SWARM_FROM = 1 << 33
"""Any features together, as `tests.simulation.swarm` draws them."""
ARRIVING_FROM = 1 << 35
"""Messages to several queues that enter them in slices."""
AMQP_FROM = 1 << 36
"""Clients of AMQP beside those of STOMP."""
RETURNING_FROM = 1 << 37
"""Clients of AMQP that resume links, take them over, or want to be the only ones of their id."""
DIRECT_FROM = 1 << 38
"""Clients of direct addresses beside all others."""
SHORT_FROM = 1 << 39
"""Turns that have little room, so that commands take several."""
SEEDS = 1 << 40
"""Seeds that are drawn are below: half of the runs have all of that."""


def draw_device_block(seed: int) -> int:
    """The damage that a write may do beside itself: none, or the rest of a device block."""
    if seed < HARDENED_FROM:
        return 0
    return random.Random(f"device {seed}").choice((0, 0, 512, 4096))


def draw_turn(seed: int) -> int:
    """The units of a slice of a turn; 0: as many as in a real broker."""
    if seed < SHORT_FROM:
        return 0
    return random.Random(f"turns {seed}").choice((0, 5, 20, 60))
