"""Signatures and anchors prove the journal on each node, also after failovers."""

import subprocess
from pathlib import Path

import pytest

from tests.interop.replication.nodes import FAILOVER_SECONDS, NAMES, ANode, Client, Nodes, running
from tests.interop.replication.test_failover import all_follow
from tests.support.process import JOURNAL, wait_for


def make_keys(folder: Path, *, own: bool) -> list[Path]:
    """Make a key for all nodes, or one for each; return the public ones."""
    names = NAMES if own else ("all",)
    for name in names:
        subprocess.run([JOURNAL, "keygen", str(folder / f"{name}.pem")], check=True)
    return [folder / f"{name}.pem.pub" for name in names]


def verified(node: ANode, keys: list[Path], anchors: Path) -> str:
    """Return what `journal verify` says of a node that proves its journal."""
    command = [JOURNAL, "verify", str(node.data), "--anchor", str(anchors)]
    for key in keys:
        command += ["--public-key", str(key)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said
    return said.stdout


def anchored(anchors: Path) -> int:
    """Return how many anchors there are."""
    return len(anchors.read_bytes().splitlines()) if anchors.exists() else 0


def has_news(cluster: Nodes, anchors: Path, before: int) -> None:
    """Wait for more anchors, and until all nodes have everything."""
    wait_for(lambda: anchored(anchors) > before, "an anchor", FAILOVER_SECONDS)
    wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)


@pytest.mark.parametrize("own", [False, True], ids=["one key", "own keys"])
def test_the_journal_is_proven_after_a_failover_and_a_hand_over(tmp_path: Path, own: bool) -> None:
    keys = make_keys(tmp_path, own=own)
    anchors = tmp_path / "anchors"
    journal = (
        'checkpoint-period = "200ms"',
        f'signing-key = "{tmp_path / ("$NODE" if own else "all")}.pem"',
        f'anchors = ["file:{anchors}"]',
    )
    with running(tmp_path, journal=journal) as cluster, Client(cluster) as client:
        client.send(20)
        has_news(cluster, anchors, 0)
        first = cluster.wait_for_leader()
        first.kill()
        client.send(20)
        second = cluster.wait_for_leader(other_than=first.name)
        first.start()
        has_news(cluster, anchors, anchored(anchors))
        assert second.stop() == 0
        client.send(20)
        cluster.wait_for_leader(other_than=second.name)
        second.start()
        has_news(cluster, anchors, anchored(anchors))
        for node in cluster.nodes.values():
            said = verified(node, keys, anchors)
            assert "signed up to event" in said
            assert "anchored up to event" in said
