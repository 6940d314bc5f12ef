"""Numbers of 32 bits that begin again at 0 (RFC 1982): ids of transfers, counts of deliveries.

Must never know what a number counts.
"""

from typing import Final

MODULUS: Final = 1 << 32
HALF: Final = 1 << 31


def after(number: int, steps: int = 1) -> int:
    """Return the number that is so many steps behind another one."""
    return (number + steps) % MODULUS


def distance(start: int, end: int) -> int:
    """Return the steps from one number to another: negative if the second one is before it.

    Two numbers that are 2^31 apart are in no order; the second one counts as before.
    """
    steps = (end - start) % MODULUS
    return steps - MODULUS if steps >= HALF else steps
