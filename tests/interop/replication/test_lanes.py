"""Small messages of a real cluster go over lanes, and nothing is lost when those end."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from daybook.client.control import ControlError, ask
from tests.interop.replication.nodes import ANode, Client, Nodes, running
from tests.interop.replication.test_failover import all_follow, has_all
from tests.support.process import JOURNAL, wait_for

SECONDS = 120.0
ANY_DISK = """
from daybook.journal.writing import commit_choice
commit_choice.QUICK_SECONDS = commit_choice.SLOW_SECONDS = 60.0
"""
"""Small blocks are committed in the broker's process, which is what lanes are for, however slow the
disk of a busy machine is."""


@pytest.fixture
def any_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "code").mkdir()
    (folder / "sitecustomize.py").write_text(ANY_DISK)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def lanes(node: ANode) -> dict[str, Any]:
    """Return the part of the status of a leader's broker that is about its lanes."""
    try:
        answer = ask(node.data, {"do": "status"}, 10.0)
    except (ControlError, OSError):
        return {}
    return answer.get("lanes", {}) if answer is not None else {}


def are_open(cluster: Nodes, leader: ANode, count: int) -> bool:
    return len(lanes(leader).get("open", ())) == count


def blocks_after(leader: ANode, client: Client, count: int) -> int:
    """Send messages one by one; return how many blocks went over lanes since."""
    before = lanes(leader)["blocks"]
    client.send(count)
    return int(lanes(leader)["blocks"]) - before


def test_small_messages_go_over_lanes_also_of_the_next_leader(
    tmp_path: Path, any_disk: None
) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        first = cluster.wait_for_leader()
        wait_for(lambda: are_open(cluster, first, 2), "the lanes", SECONDS)
        # Not before a row of small commits.
        client.send(30)
        assert blocks_after(first, client, 30) > 0
        wait_for(lambda: all_follow(cluster), "the followers", SECONDS)
        first.kill()
        client.send(20)
        second = cluster.wait_for_leader(other_than=first.name)
        # One lane is enough for a majority of three.
        wait_for(lambda: are_open(cluster, second, 1), "the lane", SECONDS)
        client.send(30)
        assert blocks_after(second, client, 30) > 0
        first.start()
        wait_for(lambda: are_open(cluster, second, 2), "the lane of the node that is back", SECONDS)
        client.send(30)
        wait_for(lambda: all_follow(cluster), "the followers", SECONDS)
        has_all(cluster, client)
    for node in cluster.nodes.values():
        verified = subprocess.run(
            [JOURNAL, "verify", str(node.data)], capture_output=True, text=True
        )
        assert verified.returncode == 0, verified.stdout


def test_a_follower_that_stands_still_keeps_nobody_waiting(tmp_path: Path, any_disk: None) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        leader = cluster.wait_for_leader()
        wait_for(lambda: are_open(cluster, leader, 2), "the lanes", SECONDS)
        client.send(30)
        other = next(each for each in cluster.nodes.values() if each is not leader)
        other.signal(signal.SIGSTOP)
        client.send(100)
        wait_for(lambda: are_open(cluster, leader, 1), "the end of its lane", SECONDS)
        other.signal(signal.SIGCONT)
        wait_for(lambda: are_open(cluster, leader, 2), "its next lane", SECONDS)
        client.send(30)
        wait_for(lambda: all_follow(cluster), "the followers", SECONDS)
        has_all(cluster, client)
