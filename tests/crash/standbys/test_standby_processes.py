"""Nothing that counted is lost, whatever happens to the processes of a cluster and its network.

More mishaps, and longer: DAYBOOK_KILLS=100 pytest tests/crash/standbys.
"""

import time
from pathlib import Path
from random import Random

import pytest
import trustme

from tests.crash.standbys.cluster import Broken, Cluster

pytestmark = pytest.mark.crash


def test_another_node_leads_when_the_leader_fails(tmp_path: Path) -> None:
    """Killed, stopped, cut off, and with a broker that hangs: each time the others continue."""
    with Cluster(tmp_path) as cluster:
        leader = cluster.wait_for_followers()
        cluster.wait_for_confirms()
        cluster.kill(leader)
        second = cluster.wait_for_leader(besides=leader)
        cluster.wait_for_confirms()
        cluster.start(leader)
        cluster.wait_for("joining", lambda: leader in cluster.state(second).acked)
        cluster.freeze(cluster.processes[second].pid)
        third = cluster.wait_for_leader(besides=second)
        cluster.wait_for_confirms()
        cluster.thaw()
        cluster.wait_for("stepping down", lambda: cluster.state(second).role == "following")
        cluster.freeze(cluster.state(third).broker)
        fourth = cluster.wait_for_leader(besides=third)
        cluster.isolate(fourth)
        cluster.wait_for_leader(besides=fourth)
        cluster.wait_for_confirms()
        assert cluster.finish() > 30


def test_nothing_that_counted_is_lost(tmp_path: Path, kills: int, seed: int) -> None:
    chance = Random(seed)
    with Cluster(tmp_path) as cluster:
        cluster.wait_for_followers()
        for _ in range(kills):
            print(cluster.mishap(chance))
            time.sleep(chance.uniform(0.1, 4))
            if chance.random() < 0.6:
                cluster.restore()
        cluster.finish()


def test_nodes_with_certificates_lead_and_follow(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority")
    with Cluster(tmp_path) as cluster:
        for name in cluster.names:
            issued = authority.issue_cert(name)
            issued.cert_chain_pems[0].write_to_path(tmp_path / f"certificate-{name}")
            issued.private_key_pem.write_to_path(tmp_path / f"key-{name}")
            cluster.security[name] = (
                str(tmp_path / f"certificate-{name}"), str(tmp_path / f"key-{name}"),
                str(tmp_path / "authority"),
            )  # fmt: skip
            cluster.kill(name)
            cluster.start(name)
        leader = cluster.wait_for_followers()
        cluster.wait_for_confirms()
        cluster.kill(leader)
        cluster.wait_for_leader(besides=leader)
        assert cluster.finish() > 10


def an_isolated_leader(cluster: Cluster) -> None:
    """A leader that writes alone is killed, and comes back when others have continued."""
    leader = cluster.wait_for_followers()
    cluster.wait_for_confirms()
    cluster.isolate(leader)
    time.sleep(0.5)
    cluster.kill(leader)
    cluster.heal()
    cluster.wait_for_leader(besides=leader)
    cluster.finish()


def test_what_an_isolated_leader_wrote_is_cut_off(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        an_isolated_leader(cluster)
    assert any(path.stat().st_size for path in tmp_path.glob("*/cut/*.seg"))


@pytest.mark.parametrize(
    ("mistake", "found"),
    [("alone", "in a later epoch|counted, and|are missing"), ("tails", "catching up|counted, and")],
)
def test_planted_mistakes_are_found(tmp_path: Path, mistake: str, found: str) -> None:
    with Cluster(tmp_path, mistake=mistake) as cluster:
        cluster.patience = 30
        with pytest.raises(Broken, match=found):
            an_isolated_leader(cluster)
