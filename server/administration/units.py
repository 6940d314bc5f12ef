"""The units of numbers that are shown to people.

Must never know where the numbers come from.
"""

from typing import Any, Final

from daybook.engine.settings.setting_keys import KEYS

HEADINGS: Final = {
    "max_memory": "max memory bytes",
    "memory_held": "memory held bytes",
    "memory_resident": "memory resident bytes",
    "rate": "messages per second",
    "output": "output bytes",
    "input": "input bytes",
    "unacknowledged": "unacknowledged bytes",
    "transactions_bytes": "transactions bytes",
}
"""Headings of columns and fields whose names do not say their unit."""

_OF_SETTINGS: Final = {
    "max-delivery-attempts": "attempts",
    "auto-delete-queues-message-count": "messages",
    "default-max-consumers": "consumers",
    "default-ring-size": "messages",
    "default-consumers-before-dispatch": "consumers",
    "default-group-buckets": "buckets",
    "retroactive-message-count": "messages",
    "max-size-messages": "messages",
    "page-limit-messages": "messages",
    "max-read-page-messages": "messages",
    "prefetch-page-messages": "messages",
    "id-cache-size": "ids",
    "slow-consumer-threshold": "messages per second",
    "slow-consumer-check-period": "seconds",
}
_BY_KEY: Final = {
    key.name: "bytes" if key.is_size else "ms" if key.is_time else _OF_SETTINGS.get(key.name, "")
    for key in KEYS
}


def heading(column: str) -> str:
    """Return the heading of a column, with its unit."""
    return HEADINGS.get(column, column.replace("_", " "))


def unit_of_setting(key: str, value: Any) -> str:
    """Return the unit of the value of an address setting, empty for values without one."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return _BY_KEY.get(key, "") if is_number and value >= 0 else ""
