"""Rates of a broker, from two answers of its status, and when its disk is full.

The console compares its samples with these functions, and `daybook status --rates` two answers of
its own. Must never know how the broker was asked, nor a clock.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from daybook.texts import span

RATES: Final = {
    "in": "messages_added", "out": "messages_delivered", "acknowledged": "messages_acknowledged",
    "dead_lettered": "messages_dead_lettered", "expired": "messages_expired",
}  # fmt: skip
"""The rates that are shown, and the counter of the status behind each."""
FREE: Final = "disk_free_bytes"
JOURNAL: Final = "journal_bytes"
WRITTEN: Final = (JOURNAL, "index_bytes")
FULL_SECONDS_LEAST: Final = 50.0
"""In less time the sizes of files change too little to say when the disk is full."""
FULL_DAYS_MAX: Final = 365.0
OTHERS_MOST: Final = 2.0
"""Where the disk lost more than this times what the broker wrote, others fill it."""
SECONDS_A_DAY: Final = 86_400.0
UNKNOWN: Final = "when it is full is not known"


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


class DiskForecast(NamedTuple):
    """In how many seconds the disk is full, None if that is not to be seen; and the same, or why
    not, in words for people."""

    seconds: float | None
    words: str


def disk_forecast(
    before: Mapping[str, Any], after: Mapping[str, Any], seconds: float
) -> DiskForecast:
    """Return when the disk is full if it fills as between two answers: as the broker writes, or,
    where mostly others fill it, as its free space falls."""
    sizes = [each.get(key) for each in (before, after) for key in (FREE, *WRITTEN)]
    if None in sizes:
        return DiskForecast(None, f"{UNKNOWN}: its free space was not measured")
    if seconds < FULL_SECONDS_LEAST:
        return DiskForecast(None, f"{UNKNOWN} before {span(FULL_SECONDS_LEAST)} of figures")
    free = after[FREE]
    lost = before[FREE] - free
    grown = sum(after[key] - before[key] for key in WRITTEN)
    if lost > OTHERS_MOST * max(grown, 0):
        return _full(free, lost / seconds, "as its free space falls, mostly because of others")
    if before[JOURNAL] == after[JOURNAL]:
        # The growth of the index alone says little of what the broker writes.
        text = f"{UNKNOWN} yet: the journal grows by whole segments, and did not in {span(seconds)}"
        return DiskForecast(None, text)
    if grown > 0:
        return _full(free, grown / seconds, "as this broker writes")
    text = f"it does not fill: journal and index did not become larger in {span(seconds)}"
    return DiskForecast(None, text)


def _full(free: float, a_second: float, how: str) -> DiskForecast:
    full_in = free / a_second
    if full_in >= FULL_DAYS_MAX * SECONDS_A_DAY:
        return DiskForecast(None, f"not full within {FULL_DAYS_MAX:.0f} days {how}")
    return DiskForecast(full_in, f"full in {span(full_in)} {how}")
