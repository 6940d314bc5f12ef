"""Rates of a broker, from two answers of its status.

The console compares its samples with these functions, and `daybook status --rates` two answers of
its own. Must never know how the broker was asked, nor a clock.
"""

from collections.abc import Mapping
from typing import Any, Final

RATES: Final = {
    "in": "messages_added", "out": "messages_delivered", "acknowledged": "messages_acknowledged",
    "dead_lettered": "messages_dead_lettered", "expired": "messages_expired",
}  # fmt: skip
"""The rates that are shown, and the counter of the status behind each."""
FREE: Final = "disk_free_bytes"
WRITTEN: Final = ("journal_bytes", "index_bytes")
FULL_SECONDS_LEAST: Final = 50.0
"""In less time the sizes of files change too little to say when the disk is full."""
FULL_DAYS_MAX: Final = 365.0
OTHERS_MOST: Final = 2.0
"""Where the disk lost more than this times what the broker wrote, others fill it."""
SECONDS_A_DAY: Final = 86_400.0


def rates_between(
    before: Mapping[str, Any], after: Mapping[str, Any], seconds: float
) -> dict[str, float | None]:
    """Return how many messages a second came, left and were settled between two answers; None where
    a counter is not known, or began at 0 because the broker started again."""
    found: dict[str, float | None] = {}
    for name, key in RATES.items():
        change = after[key] - before.get(key, 0) if key in after else -1
        found[name] = change / seconds if change >= 0 and seconds > 0 else None
    return found


def disk_full_in(
    before: Mapping[str, Any], after: Mapping[str, Any], seconds: float
) -> float | None:
    """Return in how many seconds the disk is full if the broker writes on as between two answers;
    None if that is not to be seen, or if mostly others fill the disk."""
    sizes = [each.get(key) for each in (before, after) for key in (FREE, *WRITTEN)]
    if seconds < FULL_SECONDS_LEAST or None in sizes:
        return None
    free = after[FREE]
    grown = sum(after[key] - before[key] for key in WRITTEN)
    if grown <= 0 or before[FREE] - free > OTHERS_MOST * grown:
        return None
    full_in: float = free / (grown / seconds)
    return full_in if full_in < FULL_DAYS_MAX * SECONDS_A_DAY else None
