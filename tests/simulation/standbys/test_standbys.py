"""Nothing that a cluster confirmed is lost, whatever happens to its nodes."""

import pytest

from daybook.replication.quorum import Acks
from tests.simulation.standbys.search import drawn, play

ONCE_FAILED = (100_160, 100_747, 100_782, 100_894, 200_504, 204_787, 300_953, 500_885)
"""Seeds that failed before a fix, here or in a node, and before there were lanes."""


@pytest.mark.parametrize("seed", range(30))
def test_nothing_confirmed_is_lost(seed: int) -> None:
    play(seed, *drawn(seed))


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_what_failed_once_is_right(seed: int) -> None:
    play(seed, *drawn(seed), has_lanes=False)


def test_each_rule_meets_clusters_of_several_sizes() -> None:
    found = {drawn(seed) for seed in range(30)}
    assert {acks for acks, _ in found} == {*Acks}
    assert {nodes for _, nodes in found} == {2, 3, 5}
