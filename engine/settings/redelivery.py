"""How long a message waits after a failed delivery (seed on redelivery, "Delayed Redelivery").

Pure functions of the settings: a fold computes nothing here, because `Scheduled` says when an entry
is due.
"""

from typing import Final

from daybook.engine.settings.settings import AddressSettings

LONGEST_OF_DELAYS: Final = 10
"""How many times redelivery-delay the longest delay is, unless max-redelivery-delay says it."""
U64: Final = (1 << 64) - 1
SPREADS: Final = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9)


def delay_of(settings: AddressSettings, failures: int, message_id: int) -> int:
    """Return the milliseconds before the next delivery of a message; `failures` is 1 or more."""
    delay = settings.redelivery_delay
    if not delay:
        return 0
    longest = settings.max_redelivery_delay
    if longest < 0:
        longest = LONGEST_OF_DELAYS * delay
    try:
        multiplied = float(delay) * settings.redelivery_delay_multiplier ** (failures - 1)
    except OverflowError:
        multiplied = float(longest)
    multiplied = min(multiplied, float(longest))
    factor = settings.redelivery_collision_avoidance_factor
    if factor:
        multiplied *= 1 + factor * spread(message_id, failures)
    return min(int(multiplied), longest)


def spread(message_id: int, failures: int) -> float:
    """Return a number from -1 to 1 that differs from message to message and is always the same."""
    mixed = (message_id * SPREADS[0] + failures * SPREADS[1]) & U64
    mixed = (mixed ^ (mixed >> 31)) * SPREADS[1] & U64
    return (mixed >> 11) / (1 << 52) - 1
