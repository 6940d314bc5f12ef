"""Deaths of messages, as the broker wrote them into dead letters and expired messages, and their
groups. Must never know how pages of a queue are asked for.
"""

from typing import Any, Final

from daybook.engine.facts.own_headers import (
    DEATH_ADDRESS,
    DEATH_ATTEMPTS,
    DEATH_CONSUMER,
    DEATH_COUNT,
    DEATH_ENDED,
    DEATH_ERROR,
    DEATH_QUEUE,
    DEATH_REASON,
    DEATH_TIME,
    DEATH_USER,
)
from daybook.server.administration import views

LOOKED_AT_MAX: Final = 10_000
"""How many messages are looked at for one answer: finding the next page takes longer each time"""
FIELDS: Final = {
    "reason": DEATH_REASON,
    "queue": DEATH_QUEUE,
    "address": DEATH_ADDRESS,
    "error": DEATH_ERROR,
    "user": DEATH_USER,
    "ended": DEATH_ENDED,
}
"""The criteria for groups, and the header of each."""
NUMBERS: Final = {
    "count": DEATH_COUNT,
    "time": DEATH_TIME,
    "attempts": DEATH_ATTEMPTS,
    "consumer": DEATH_CONSUMER,
}


def death_in(headers: dict[str, str]) -> dict[str, Any] | None:
    """Return the death that headers describe, None without one."""
    if DEATH_REASON not in headers:
        return None
    found: dict[str, Any] = {field: headers.get(name, "") for field, name in FIELDS.items()}
    for field, name in NUMBERS.items():
        said = headers.get(name, "")
        found[field] = int(said) if said.isascii() and said.isdigit() else 0
    return found


def grouped(rows: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Return a row for each value of a field, those with the most messages first; that of messages
    that did not die is None. Times are in milliseconds since 1970."""
    found: dict[str | None, dict[str, Any]] = {}
    for row in rows:
        death = row["death"]
        value = death[field] if death is not None else None
        group = found.setdefault(
            value, {field: value, "messages": 0, "first_time": None, "last_time": None}
        )
        group["messages"] += 1
        if death is not None:
            times = [
                each
                for each in (group["first_time"], group["last_time"], death["time"])
                if each is not None
            ]
            group["first_time"], group["last_time"] = min(times), max(times)
    return sorted(found.values(), key=lambda group: (-group["messages"], str(group[field])))


def next_page(name: str, offset: int, limit: int, chosen_by: str = "") -> dict[str, Any]:
    """Return the request for the next page of a queue of which so many messages are looked at."""
    most = min(views.PAGE_MAX, limit - offset)
    return {"do": "browse", "queue": name, "offset": offset, "limit": most, "filter": chosen_by}


def chosen_by(field: str, value: str) -> str:
    """Return the filter for the messages of a group."""
    quoted = value.replace("'", "''")
    return f"{FIELDS[field]} = '{quoted}'"
