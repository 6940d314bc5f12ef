"""What the exit code of `status` and `health` says."""

from typing import Any

import pytest

from daybook.server.health import EXIT_DISK, EXIT_INDEX, EXIT_NOT_RUNNING, problems

WELL: dict[str, Any] = {
    "running": True, "disk_full": "", "index_trouble": "", "unindexed_bytes": 100,
    "max_unindexed_bytes": 1000, "background": [{"name": "retention", "trouble": ""}],
}  # fmt: skip


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
        ({"durability_trouble": "nothing becomes durable"}, [1]),
        ({"background": [{"name": "retention", "trouble": "the archive is gone"}]}, [1]),
        ({"disk_full": "x", "index_trouble": "y"}, [EXIT_DISK, EXIT_INDEX]),
    ],
)
def test_problems(changed: dict[str, Any], codes: list[int]) -> None:
    found = problems(WELL | changed)
    assert [problem.code for problem in found] == codes
    for value in changed.values():
        assert not isinstance(value, str) or any(value in problem.text for problem in found)
