"""A short soak, the law that it judges by, and a broker that leaks, which it must notice."""

import os
from pathlib import Path

import pytest

from tests.soak.run import soak
from tests.soak.watching import MIB, WARM_UP, Sample, grown

SECONDS = float(os.environ.get("DAYBOOK_SOAK_SECONDS", "30"))
WARMING_SLACK = 12 * MIB
"""In the first minute a broker still fills its caches and pools."""

LEAK = """
import os, sys
if os.path.basename(sys.argv[0]) == "daybook":
    from daybook.server.hub import hub
    right, kept = hub.Hub.lost, {}
    def lost(self, peer):
        if not peer.closed:
            kept[peer] = bytes(range(256)) * 1500, os.dup(1)
        right(self, peer)
    hub.Hub.lost = lost
"""


def samples(memory: float, files: float, count: int = 300) -> list[Sample]:
    """A broker that warms up by 30 MiB, and then grows by so much a minute."""
    found = []
    for number in range(count):
        minutes = number / 120
        warm = 30 * MIB * min(1.0, number / (count * WARM_UP))
        noise = (number * 7919 % 13) * MIB // 26
        own = int(60 * MIB + warm + memory * minutes * MIB + noise)
        found.append(
            Sample(minutes * 60, (own, 40 * MIB, 30 * MIB), (50 + int(files * minutes), 20, 10))
        )
    return found


def test_the_law_allows_noise_and_a_warm_up() -> None:
    assert grown(samples(memory=0, files=0)) == []


def test_the_law_sees_memory_that_grows() -> None:
    (found,) = grown(samples(memory=8, files=0))
    assert found.startswith("the broker grew from ")
    assert grown(samples(memory=1, files=0, count=2400)) != []


def test_the_law_sees_descriptors_that_stay_open() -> None:
    (found,) = grown(samples(memory=0, files=30))
    assert "open files" in found


@pytest.mark.slow
def test_a_short_soak(tmp_path: Path) -> None:
    result = soak(tmp_path / "data", SECONDS, seed=1, idle=300, slack=WARMING_SLACK)
    assert result.wrong == []
    assert result.messages > 100
    assert all(result.counts.values()), result.counts


@pytest.mark.slow
def test_a_leak_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "leak").mkdir()
    (tmp_path / "leak" / "sitecustomize.py").write_text(LEAK)
    environment = {"PYTHONPATH": str(tmp_path / "leak")}
    result = soak(
        tmp_path / "data", SECONDS / 2, seed=1, idle=20, pace=20.0,
        environment=environment, slack=WARMING_SLACK,
    )  # fmt: skip
    text = " ".join(result.wrong)
    assert "the broker grew from" in text
    assert "open files" in text
