"""The lead goes to another node: by a command, and when the node that leads is stopped."""

import subprocess
from pathlib import Path

from tests.interop.replication.nodes import ANode, Client, Nodes, running
from tests.interop.replication.test_failover import all_follow, has_all
from tests.support import nursery
from tests.support.process import DAYBOOK, JOURNAL, wait_for


def lead(node: ANode, *given: str) -> "subprocess.CompletedProcess[str]":
    """Run the command `lead` on a node."""
    command = [DAYBOOK, "lead", "--data", str(node.data), *given]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _has_joined(leader: ANode, node: ANode) -> bool:
    nodes = leader.status()["nodes"]
    return any(each["node"] == node.name and each["joined"] for each in nodes)


def ready(cluster: Nodes) -> tuple[ANode, list[ANode]]:
    """Wait until one node leads and the others have everything; return them."""
    wait_for(lambda: all_follow(cluster), "the followers", 180.0)
    leader = cluster.wait_for_leader()
    return leader, [each for each in cluster.nodes.values() if each is not leader]


def test_the_lead_is_handed_over_by_a_command(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(50)
        leader, (other, third) = ready(cluster)
        epoch = leader.status()["epoch"]
        said = lead(leader, "--transfer", other.name)
        assert said.returncode == 0, said
        assert said.stdout.startswith(f"{other.name} leads in epoch {epoch + 1}, after ")
        client.send(50)
        # The clean stop of the first leader is in the journal of the next one, and shown by one
        # that follows as soon as that knows what is confirmed.
        command = [JOURNAL, "inspect", str(third.data)]
        wait_for(
            lambda: "BrokerStopped" in nursery.run(command, capture_output=True, text=True).stdout,
            "the clean stop",
        )
        leader, _ = ready(cluster)
        assert leader is other
        # Without a name, it goes to the one that has most.
        said = lead(other, "--transfer")
        assert said.returncode == 0, said
        assert f"leads in epoch {epoch + 2}" in said.stdout
        client.send(50)
        assert cluster.wait_for_leader().name == said.stdout.split()[0] != other.name
        has_all(cluster, client)


def test_a_leader_that_is_stopped_hands_the_lead_over(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(50)
        leader, _ = ready(cluster)
        epoch = leader.status()["epoch"]
        assert leader.stop() == 0
        client.send(50)
        following = cluster.wait_for_leader(other_than=leader.name)
        assert following.status()["epoch"] == epoch + 1
        inspected = subprocess.run(
            [JOURNAL, "inspect", str(following.data)], capture_output=True, text=True, check=True
        )
        assert "BrokerStopped" in inspected.stdout
        leader.start()
        ready(cluster)
        has_all(cluster, client)


def test_the_command_says_who_leads_and_why_it_refuses(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        leader, (other, third) = ready(cluster)
        for node in cluster.nodes.values():
            # A follower knows the leader when it has joined.
            said = wait_for(
                lambda node=node: (done := lead(node)).returncode == 0 and done, "the leader"
            )
            assert said.stdout == f"{leader.name} leads in epoch {leader.status()['epoch']}\n"
        for node, name, why in (
            (other, third.name, f"'{other.name}' does not lead; '{leader.name}' does"),
            (leader, "nobody", "there is no node 'nobody'; the others are"),
            (leader, leader.name, f"'{leader.name}' leads already"),
        ):
            said = lead(node, "--transfer", name)
            assert said.returncode == 1, said
            assert why in said.stderr
        third.kill()
        wait_for(lambda: not _has_joined(leader, third), "the loss of a follower")
        said = lead(leader, "--transfer", third.name)
        assert said.returncode == 1, said
        assert "does not follow now" in said.stderr
        assert leader.status()["role"] == "leading"
        leader.kill()
        said = lead(leader)
        assert said.returncode == 3
        assert "no node" in said.stderr
