"""What changed between two overviews: counts of messages that differ, queue by queue."""

from typing import Any

from daybook.history.differences import difference

COUNTERS = ("added", "acknowledged", "dead_lettered", "expired", "replaced", "evicted")


def overview_of(lsn: int, **queues: dict[str, int]) -> dict[str, Any]:
    rows = []
    for name, counts in queues.items():
        standing = {"ready": 0, "in_flight": 0, "scheduled": 0, "held": 0} | counts
        row = {"queue": name, "messages": sum(standing.values())} | dict.fromkeys(COUNTERS, 0)
        rows.append(row | standing)
    lists = ("addresses", "diverts", "connections", "consumers")
    return {
        "lsn": lsn, "time": lsn, "settings": {}, "settings_at_run_time": {},
        "list_of_queues": rows, **{f"list_of_{each}": [] for each in lists},
    }  # fmt: skip


def test_messages_that_a_crash_moved_back_are_counted() -> None:
    before = overview_of(1, shipping={"ready": 362, "in_flight": 20}, same={"held": 3}, gone={})
    after = overview_of(2, shipping={"ready": 382}, same={"held": 3}, new={"ready": 1})
    told = difference(before, after)
    assert told["standing"] == [
        {"queue": "shipping", "messages": "ready", "before": 362, "after": 382},
        {"queue": "shipping", "messages": "in_flight", "before": 20, "after": 0},
    ]
    assert [row["queue"] for row in told["traffic"]] == ["new"], "no message came or left"
