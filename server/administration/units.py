"""How values are shown to people, in the console and on the command line, with their units.

Must never know where the values come from.
"""

from typing import Any, Final

from daybook.engine.settings.setting_keys import KEYS
from daybook.texts import printable

HEADINGS: Final = {
    "max_memory": "max memory bytes",
    "memory_held": "memory held bytes",
    "memory_resident": "memory resident bytes",
    "memory_given_back_us_longest": "memory given back microseconds longest",
    "rate": "messages per second",
    "output": "output bytes",
    "input": "input bytes",
    "unacknowledged": "unacknowledged bytes",
    "transactions_bytes": "transactions bytes",
    "messages_added": "messages added to queues that exist",
    "messages_acknowledged": "messages acknowledged in queues that exist",
    "messages_dead_lettered": "messages dead lettered by queues that exist",
    "messages_expired": "messages expired in queues that exist",
    "messages_unrouted": "messages unrouted at addresses that exist",
    "messages_delivered": "messages delivered since the start",
}
"""Headings of columns and fields whose names do not say their unit, or since when they count."""
COUNTED: Final = (
    "Messages added, acknowledged, dead lettered and expired are counted by each queue since it was"
    " created, and unrouted ones by each address, also over restarts; the counts of a deleted queue"
    " or address are gone with it. Messages delivered are those since the start of the broker."
)
"""Since when the counters of the status count, in words."""
CREDIT: Final = (
    "A consumer gets messages while one of its credits, in messages or in bytes of bodies, is above"
    " 0; a client that grants only one of them has 0 of the other."
)
"""The meaning of the two credits of a consumer, in words."""

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

NAMING: Final = frozenset(
    ("connection", "consumer", "message", "oldest_ready", "oldest_in_flight", "lsn",
     "shared_place", "bucket", "pid", "session")
)  # fmt: skip
"""Columns with numbers that name something, and so are shown without separators."""


def cell(value: Any, column: str = "") -> str:
    """Return a value of a column as text."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if column in NAMING else f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, list | tuple):
        return ", ".join(cell(each, column) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}={cell(each)}" for key, each in value.items())
    return printable(str(value))


def queues_of(row: dict[str, Any]) -> list[str]:
    """Return the queues of an address as texts, with how each is bound if the row says so, also
    those of wildcard addresses; "..." stands for more."""
    more = ["..."] if row["queue_count"] > len(row["queues"]) else []
    bound = [_bound(each) for each in row.get("bindings", ())]
    others = [_bound(each) for each in row.get("wildcard_bindings", ())]
    others += ["..."] if row.get("wildcard_queue_count", 0) > len(others) else []
    return (bound or row["queues"]) + more + others


def _bound(row: dict[str, Any]) -> str:
    at = f"at {row['address']}" if "address" in row else ""
    return f"{row['queue']} ({', '.join(filter(None, (row['routing_type'], row['filter'], at)))})"


def heading(column: str) -> str:
    """Return the heading of a column, with its unit."""
    return HEADINGS.get(column, column.replace("_", " "))


def unit_of_setting(key: str, value: Any) -> str:
    """Return the unit of the value of an address setting, empty for values without one."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return _BY_KEY.get(key, "") if is_number and value >= 0 else ""
