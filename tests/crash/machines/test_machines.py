"""Nothing that was confirmed is lost, whatever happens to the machines of a cluster.

Whole brokers, each above a black box and with a member of etcd, in namespaces where they can be
had. The seed is printed. DAYBOOK_KILLS=300 pytest tests/crash/machines has more rounds than the 10
of each run.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.crash.machines.campaign import campaign
from tests.crash.machines.cluster import Libraries
from tests.crash.machines.loopback import Loopback
from tests.crash.machines.mishaps import (
    cut_power_of_two,
    freeze_follower,
    isolate_leader,
    kill_leader,
    lose_disk_of_follower,
)
from tests.crash.machines.network import Network
from tests.crash.machines.spaces import NoSpaces, Spaces
from tests.support.arbiters.etcd_process import ETCD, MISSING

ROUNDS: Final = int(os.environ.get("DAYBOOK_KILLS", "10"))
ROUND_SECONDS: Final = 240
"""More than a round takes on a machine that is busy with much else."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(ETCD is None, reason=MISSING),
    pytest.mark.timeout(ROUND_SECONDS * (ROUNDS + 2)),
]


def network() -> Network:
    """Return namespaces, or the loopback where they cannot be had."""
    try:
        return Spaces()
    except NoSpaces as error:
        print(f"on the loopback, where no packet is lost, since there are no namespaces: {error}")
        return Loopback()


def test_nothing_confirmed_is_lost(tmp_path: Path, libraries: Libraries, seed: int) -> None:
    with campaign(tmp_path, network(), libraries, seed) as rounds:
        rounds.play(ROUNDS)
        rounds.finish()


def test_nothing_that_all_in_sync_have_is_lost(
    tmp_path: Path, libraries: Libraries, seed: int
) -> None:
    """A follower that lags leaves the list of those that count."""
    with campaign(tmp_path, network(), libraries, seed, acks="all") as rounds:
        for mishap in (isolate_leader, cut_power_of_two, freeze_follower, kill_leader):
            rounds.round(mishap)
        rounds.finish()


def test_nothing_confirmed_is_lost_on_the_loopback(
    tmp_path: Path, libraries: Libraries, seed: int
) -> None:
    with campaign(tmp_path, Loopback(), libraries, seed) as rounds:
        rounds.round(kill_leader)
        rounds.round(lose_disk_of_follower)
        rounds.finish()
