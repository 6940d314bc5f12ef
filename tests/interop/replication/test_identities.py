"""Two nodes that use one name, or ask two arbiters, are noticed before they can do harm."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.brokers.ports import free_port
from tests.interop.replication.nodes import (
    FAILOVER_SECONDS,
    ANode,
    Client,
    running,
)
from tests.interop.replication.test_failover import all_follow, has_all
from tests.support.process import DAYBOOK, wait_for


def twin_of(node: ANode, folder: Path) -> ANode:
    """Return another machine with the configuration of a node, which listens elsewhere."""
    folder.mkdir()
    text = node.config.read_text("utf-8").replace(str(node.data), str(folder / node.name))
    text = re.sub(
        r'listen = "127\.0\.0\.1:\d+"', lambda _: f'listen = "127.0.0.1:{free_port()}"', text
    )
    own = f'listen = "tcp://127.0.0.1:{free_port()}"\n'
    return ANode(folder, node.name, text.replace("[[acceptor]]", f"{own}[[acceptor]]", 1))


def ends_with(node: ANode) -> int:
    """Start a node that ends by itself; return its exit code."""
    command = [DAYBOOK, "serve", "--config", str(node.config)]
    with node.log.open("ab") as log:
        return subprocess.run(
            command, stdout=log, stderr=log, timeout=FAILOVER_SECONDS, check=False
        ).returncode


def test_a_second_node_of_one_name_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(10)
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
        leader = cluster.wait_for_leader()
        first = next(each for each in cluster.nodes.values() if each is not leader)
        for place in ("empty", "copy"):
            twin = twin_of(first, tmp_path / place)
            if place == "copy":
                shutil.copytree(first.data, twin.data, ignore=shutil.ignore_patterns("*.sock"))
            assert ends_with(twin) == 1
            said = twin.log.read_text()
            assert f"another node of the cluster 'shop' is named '{first.name}' too" in said
            assert str(first.data) in said
            assert "write another 'node' into [replication] of one of them" in said
        client.send(10)
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
        has_all(cluster, client)


def test_an_empty_node_takes_the_name_of_a_dead_one(tmp_path: Path) -> None:
    """A replacement on purpose has to wait for the end of the old claim, and for nothing else."""
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(10)
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
        leader = cluster.wait_for_leader()
        dead = next(each for each in cluster.nodes.values() if each is not leader)
        dead.kill()
        (tmp_path / "new").mkdir()
        new = tmp_path / "new" / dead.name
        text = dead.config.read_text("utf-8").replace(str(dead.data), str(new))
        empty = cluster.nodes[dead.name] = ANode(new.parent, dead.name, text)
        empty.start()
        client.send(10)
        wait_for(lambda: all_follow(cluster), "the copy", FAILOVER_SECONDS)
        has_all(cluster, client)


def has_said(node: ANode) -> bool:
    """Whether the log of a node names another arbiter."""
    return "asks another arbiter" in node.log.read_text()


@pytest.mark.parametrize("acks", ["none", "majority"])
def test_two_arbiters_are_noticed(tmp_path: Path, acks: str) -> None:
    """With a majority the others continue; where a node could lead alone, nobody does."""
    with running(tmp_path, acks=acks) as cluster:
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
        odd, other = cluster.nodes["a"], cluster.nodes["b"]
        odd.kill()
        right = odd.config.read_text("utf-8")
        wrong = right.replace(str(tmp_path / "lease"), str(tmp_path / "wrong"))
        odd.config.write_text(wrong, "utf-8")
        odd.start()
        wait_for(lambda: has_said(odd) and has_said(other), "the difference", FAILOVER_SECONDS)
        said = odd.log.read_text()
        assert f"the file {tmp_path / 'lease'}" in said
        assert f"the file {tmp_path / 'wrong'}" in said
        assert "give all nodes the same 'path' in [replication]" in said
        if acks == "majority":
            assert cluster.wait_for_leader() is not odd
            command = [DAYBOOK, "cluster", "status", "--data", str(odd.data)]
            shown = subprocess.run(command, capture_output=True, text=True, check=False)
            assert shown.returncode == 1
            assert "asks another arbiter" in shown.stderr
        else:
            wait_for(lambda: cluster.leader() is None, "the end of all leads", FAILOVER_SECONDS)
        odd.kill()
        odd.config.write_text(right, "utf-8")
        odd.start()
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
