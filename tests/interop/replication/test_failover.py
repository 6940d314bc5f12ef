"""A machine may be lost, stand still, or lose its disk: nothing that was confirmed is lost."""

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.replication.nodes import Client, Nodes, running
from tests.support.process import DAYBOOK, JOURNAL, wait_for


def has_all(cluster: Nodes, client: Client) -> None:
    """Check that confirmed messages come in their order; those sent again may come twice."""
    last = client.confirmed[-1]
    found = client.drain(last)
    once = list(dict.fromkeys(found))
    assert once == client.confirmed


def all_follow(cluster: Nodes) -> bool:
    """Whether all other nodes have what the leader has, and know it, so that they may lead: while
    a cluster is new, they have everything before there is anything. One that has just joined does
    not know who leads before a beat of the leader."""
    leader = cluster.leader()
    if leader is None:
        return False
    status = leader.status()
    has_all = all(each["behind"] == 0 for each in status.get("nodes", [{"behind": None}]))
    return has_all and all(_knows(node.status(), leader.name) for node in cluster.nodes.values())


def _knows(status: dict[str, Any], leader: str) -> bool:
    return status.get("whole", False) is True and status.get("leader") == leader


def test_what_was_confirmed_survives_the_leader(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(50)
        first = cluster.wait_for_leader()
        first.kill()
        client.send(50)
        second = cluster.wait_for_leader(other_than=first.name)
        assert second.status()["epoch"] > 1
        # It comes back, and follows; then the next one is lost.
        first.start()
        wait_for(lambda: all_follow(cluster), "the return of the first leader", 180.0)
        second.kill()
        client.send(50)
        has_all(cluster, client)


def test_a_leader_that_stood_still_confirms_nothing_and_follows(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(20)
        first = cluster.wait_for_leader()
        first.signal(signal.SIGSTOP)
        client.lose()
        client.send(20)
        second = cluster.wait_for_leader(other_than=first.name)
        first.signal(signal.SIGCONT)
        wait_for(lambda: all_follow(cluster), "the return of the first leader", 180.0)
        assert first.status()["role"] == "following"
        assert cluster.wait_for_leader().name == second.name
        has_all(cluster, client)


def test_a_node_without_its_data_gets_all_of_it_again(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(30)
        leader = cluster.wait_for_leader()
        other = next(each for each in cluster.nodes.values() if each is not leader)
        other.kill()
        shutil.rmtree(other.data)
        other.start()
        client.send(10)
        wait_for(lambda: all_follow(cluster), "the copy", 180.0)
        wait_for(lambda: other.status()["indexed_lsn"] == other.status()["lsn"], "its index")
        said = subprocess.run([JOURNAL, "verify", str(other.data)], capture_output=True, text=True)
        assert said.returncode == 0, said
        # A clean stop of all: the journals are the same, but for what only the leader wrote.
        for node in cluster.nodes.values():
            if node is not leader:
                assert node.stop() == 0
        common = other.segments().keys() & leader.segments().keys()
        assert common
        sealed = sorted(common)[:-1]
        assert [other.segments()[each] for each in sealed] == [
            leader.segments()[each] for each in sealed
        ]


def test_with_all_a_follower_that_is_lost_is_left_behind(tmp_path: Path) -> None:
    """Nothing is confirmed for a while; then without it, until it has caught up."""
    with running(tmp_path, acks="all") as cluster, Client(cluster) as client:
        client.send(10)
        wait_for(lambda: all_follow(cluster), "the followers", 180.0)
        leader = cluster.wait_for_leader()
        lost = next(each for each in cluster.nodes.values() if each is not leader)

        def in_sync() -> bool | None:
            return next(
                (each["in_sync"] for each in leader.status()["nodes"] if each["node"] == lost.name),
                None,
            )

        lost.kill()
        client.send(20)
        wait_for(lambda: in_sync() is False, "a list without it")
        assert f"'{lost.name}' is not in sync" in leader.log.read_text()
        lost.start()
        wait_for(in_sync, "its return to the list", 180.0)
        leader.kill()
        client.send(10)
        has_all(cluster, client)


def test_other_acks_come_node_by_node_and_lose_nothing(tmp_path: Path) -> None:
    """As an upgrade does it: the followers are restarted first, the leader last."""
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(10)
        wait_for(lambda: all_follow(cluster), "the followers", 180.0)
        leader = cluster.wait_for_leader()
        for node in sorted(cluster.nodes.values(), key=lambda each: each is leader):
            text = node.config.read_text("utf-8")
            node.config.write_text(text.replace('acks = "majority"', 'acks = "one"'), "utf-8")
            assert node.stop() == 0
            node.start()
            client.send(10)
            wait_for(lambda: all_follow(cluster), f"the return of {node.name}", 180.0)
        assert cluster.wait_for_leader().status()["acks"] == "one"
        has_all(cluster, client)


def test_the_command_shows_who_leads(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        leader = cluster.wait_for_leader()
        wait_for(lambda: all_follow(cluster), "the followers", 180.0)
        follower = next(each for each in cluster.nodes.values() if each is not leader)
        for node in (leader, follower):
            command = [DAYBOOK, "cluster", "status", "--data", str(node.data)]
            said = subprocess.run(command, capture_output=True, text=True)
            assert said.returncode == 0, said
            assert leader.name in said.stdout
        follower.kill()
        said = subprocess.run(command, capture_output=True, text=True)
        assert said.returncode == 3
        assert "no node" in said.stderr
