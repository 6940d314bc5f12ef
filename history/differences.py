"""What changed between two moments: two overviews of a broker, compared.

An overview is what `server.administration.overview` makes of a state. Must never know how states
are found or how answers are shown.
"""

from typing import Any, Final

KEYS: Final = {
    "addresses": ("address", ()),
    "queues": ("queue", ("added", "acknowledged", "dead_lettered", "expired", "replaced",
                         "evicted", "recalled", "messages", "ready", "in_flight", "scheduled",
                         "held", "bytes", "consumers", "browsers", "groups")),
    "diverts": ("divert", ()),
    "connections": ("connection", ("consumers", "transactions", "in_flight")),
    "consumers": ("consumer", ("in_flight", "credit_messages", "credit_bytes")),
}  # fmt: skip
"""The lists to compare, the name of each row, and its figures, which may change by themselves."""
_SILENT: Final = ("routed", "unrouted", "messages", "bytes", "queues", "queue_count", "consumers")
"""Values of an address that change with its queues and messages."""
STANDING: Final = ("ready", "in_flight", "scheduled", "held")
"""How the messages of a queue are counted by what becomes of them next: a crash moves messages in
flight back to the ready ones, though none came or left."""


def named(row: dict[str, Any], name: str) -> str:
    """Return a row of a list as a line: its name, and whom it is about."""
    keys = ("user", "client_id", "peer", "queue")
    more = [str(row[key]) for key in keys if row.get(key) and key != name]
    return f"{row[name]}" + (f" ({', '.join(more)})" if more else "")


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what changed between two overviews."""
    told: dict[str, Any] = {
        "from": {"lsn": before["lsn"], "time": before["time"]},
        "to": {"lsn": after["lsn"], "time": after["time"]},
    }
    for what, (name, figures) in KEYS.items():
        told[what] = _compared(
            {row[name]: row for row in before[f"list_of_{what}"]},
            {row[name]: row for row in after[f"list_of_{what}"]},
            (*figures, *(_SILENT if what == "addresses" else ())),
        )
    told["standing"] = _standing(before, after)
    told["traffic"] = _traffic(before, after)
    told["settings"] = [
        change
        for which in ("settings", "settings_at_run_time")
        for change in _settings(before[which], after[which], which)
    ]
    return told


def _compared(
    before: dict[Any, dict[str, Any]], after: dict[Any, dict[str, Any]], figures: tuple[str, ...]
) -> dict[str, Any]:
    """Return what began, what ended, and which attributes of the others changed."""
    changed = [
        {"name": name, "attribute": key, "from": old[key], "to": value}
        for name, row in after.items()
        # Most rows of very many are equal as they are.
        if (old := before.get(name, row)) != row
        for key, value in row.items()
        if key not in figures and old.get(key) != value
    ]
    return {
        "new": [row for name, row in after.items() if name not in before],
        "gone": [row for name, row in before.items() if name not in after],
        "changed": changed,
    }


def _standing(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the counts of messages that changed, of the queues that exist at both moments."""
    former = {row["queue"]: row for row in before["list_of_queues"]}
    return [
        {"queue": row["queue"], "messages": key, "before": old[key], "after": row[key]}
        for row in after["list_of_queues"]
        if (old := former.get(row["queue"])) is not None
        for key in STANDING
        if old[key] != row[key]
    ]


def _traffic(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what came and went in each queue that exists at the end, where anything did."""
    former = {row["queue"]: row for row in before["list_of_queues"]}
    counters = ("added", "acknowledged", "dead_lettered", "expired", "replaced", "evicted")
    rows = []
    for row in after["list_of_queues"]:
        old = former.get(row["queue"], {})
        moved = {key: row[key] - old.get(key, 0) for key in counters}
        counts = {"before": old.get("messages", 0), "after": row["messages"]}
        left = sum(moved.values()) - moved["added"]
        other = counts["before"] + moved["added"] - left - counts["after"]
        if any(moved.values()) or other:
            rows.append({"queue": row["queue"], **counts, **moved, "otherwise_left": other})
    return rows


def _settings(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]], which: str
) -> list[dict[str, Any]]:
    found_changes = []
    for match in sorted({*before, *after}):
        old, new = before.get(match, {}), after.get(match, {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                found_changes.append(
                    {"match": match, "key": key, "from": old.get(key), "to": new.get(key),
                     "at_run_time": which != "settings"}
                )  # fmt: skip
    return found_changes
