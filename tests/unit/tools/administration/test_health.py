"""The meaning of the exit codes of `status` and `health`."""

from typing import Any

import pytest

from daybook.server.monitoring.health import (
    EXIT_DISK,
    EXIT_INDEX,
    EXIT_NOT_RUNNING,
    EXIT_WARNING,
    problems,
)

WELL: dict[str, Any] = {
    "running": True, "disk_full": "", "index_trouble": "", "unindexed_bytes": 100,
    "max_unindexed_bytes": 1000, "background": [{"name": "retention", "trouble": ""}],
}  # fmt: skip


PAUSED = {"queue": "a", "address": "a", "messages": 2000, "paused": "queue"}


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({}, []),
        ({"running": False}, [EXIT_NOT_RUNNING]),
        ({"disk_full": "3 MiB free"}, [EXIT_DISK]),
        ({"index_trouble": "no room"}, [EXIT_INDEX]),
        ({"unindexed_bytes": 500}, []),
        ({"unindexed_bytes": 501}, [EXIT_INDEX]),
        ({"retention_trouble": "the archive is gone"}, [1]),
        ({"durability_trouble": "events do not become durable"}, [1]),
        ({"background": [{"name": "retention", "trouble": "the archive is gone"}]}, [1]),
        ({"queues_paused": {"count": 0, "queues": []}}, []),
        ({"queues_paused": {"count": 1, "queues": [PAUSED]}}, [EXIT_WARNING]),
        ({"disk_full": "x", "index_trouble": "y"}, [EXIT_DISK, EXIT_INDEX]),
    ],
)
def test_problems(changed: dict[str, Any], codes: list[int]) -> None:
    found = problems(WELL | changed)
    assert [problem.code for problem in found] == codes
    for value in changed.values():
        assert not isinstance(value, str) or any(value in problem.text for problem in found)


def test_some_of_many_paused_queues_are_named() -> None:
    (found,) = problems(WELL | {"queues_paused": {"count": 100_000, "queues": 20 * [PAUSED]}})
    first, *_, last = found.text.split("; ")
    assert first == "queue a is paused, and 2,000 messages wait in it"
    assert last == "messages wait in 99,995 more paused queues"
    assert found.text.count("queue a") == 5
