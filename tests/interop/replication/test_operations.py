"""Supervisors, Prometheus and operators see the state of a cluster, on each of its nodes."""

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.interop.replication.nodes import ANode, Client, Nodes, running
from tests.support.process import DAYBOOK, wait_for

SECONDS = 180.0


def get(cluster: Nodes, node: ANode, path: str) -> tuple[int, str]:
    """Return status and text of an answer; 0 if nobody listens."""
    url = f"http://127.0.0.1:{cluster.probes[node.name]}{path}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def metric(cluster: Nodes, node: ANode, name: str) -> float | None:
    """Return the value of a metric of a node, None if it is not there."""
    with suppress(OSError):
        for line in get(cluster, node, "/metrics")[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[-1])
    return None


def daybook(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DAYBOOK, *words], capture_output=True, text=True, check=False)


def followers(cluster: Nodes, leader: ANode) -> list[ANode]:
    return [each for each in cluster.nodes.values() if each is not leader]


def test_load_balancers_and_prometheus_find_out_who_leads(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(20)
        leader = cluster.wait_for_leader()
        assert get(cluster, leader, "/ready") == (200, "ready\n")
        assert metric(cluster, leader, "daybook_ready") == 1
        role = f'cluster_role{{cluster="shop",node="{leader.name}",role="leading"}}'
        wait_for(lambda: metric(cluster, leader, f"daybook_{role}") == 1, "the role", SECONDS)
        for each in followers(cluster, leader):
            wait_for(lambda each=each: get(cluster, each, "/ready")[0] == 503, "a probe", SECONDS)
            assert get(cluster, each, "/live") == (200, "live\n")
            wait_for(
                lambda each=each: get(cluster, each, "/ready")
                == (503, f"not ready: follows {leader.name}\n"),
                "the leader's name", SECONDS,
            )  # fmt: skip
            role = f'cluster_role{{cluster="shop",node="{each.name}",role="following"}}'
            assert metric(cluster, each, f"daybook_{role}") == 1
            assert metric(cluster, each, "daybook_ready") == 0
            assert metric(cluster, each, "daybook_cluster_arbiter_up") == 1
            assert metric(cluster, each, "daybook_queues") is None
            name = f'daybook_cluster_follower_joined{{follower="{each.name}"}}'
            wait_for(lambda name=name: metric(cluster, leader, name) == 1, name, SECONDS)
        # A new leader's broker listens where its node did.
        leader.kill()
        second = cluster.wait_for_leader(other_than=leader.name)
        wait_for(lambda: get(cluster, second, "/ready")[0] == 200, "readiness", SECONDS)
        name = f'daybook_cluster_follower_joined{{follower="{leader.name}"}}'
        wait_for(lambda: metric(cluster, second, name) == 0, "the loss", SECONDS)
        # And a node whose broker has ended listens again.
        broker = second.status()["broker_pid"]
        subprocess.run(["kill", "-9", str(broker)], check=True)
        wait_for(lambda: get(cluster, second, "/live")[0] == 200, "the probe", SECONDS)


def test_commands_say_what_a_node_does_and_what_is_wrong(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(5)
        leader = cluster.wait_for_leader()
        one, other = followers(cluster, leader)

        def is_healthy(node: ANode, text: str) -> bool:
            done = daybook("health", "--data", str(node.data))
            return (done.returncode, done.stdout) == (0, f"{text}\n")

        wait_for(lambda: is_healthy(leader, "healthy"), "a healthy leader", SECONDS)
        wait_for(
            lambda: is_healthy(one, f"healthy: follows {leader.name}"), "its follower", SECONDS
        )
        other.kill()

        def problems() -> list[str]:
            done = daybook("cluster", "status", "--json", "--data", str(leader.data))
            assert done.returncode in (0, 1)
            found: list[str] = json.loads(done.stdout)["problems"]
            return found

        wait_for(problems, "the loss of a follower", SECONDS)
        assert problems()[0].startswith(f"'{other.name}' does not follow")

        def is_told() -> bool:
            done = daybook("health", "--data", str(leader.data))
            return f"warning: '{other.name}' does not follow" in done.stdout and not done.returncode

        wait_for(is_told, "the warning", SECONDS)
        done = daybook("cluster", "status", "--data", str(other.data))
        assert (done.returncode, done.stdout) == (3, "")
        assert "no node of a cluster runs on" in done.stderr


def test_a_second_process_on_the_directory_of_a_node_ends_and_disturbs_nothing(
    tmp_path: Path,
) -> None:
    with running(tmp_path, names=("a",), acks="none") as cluster:
        node = cluster.wait_for_leader()
        before = node.status()["broker_pid"]
        done = daybook("serve", "--config", str(node.config))
        assert done.returncode == 1
        assert "only one broker may use a data directory" in done.stderr
        assert "Traceback" not in done.stderr
        status = node.status()
        assert (status["role"], status["broker_pid"]) == ("leading", before)


def test_a_supervisor_hears_the_node_and_a_hang_up_renews_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(str(tmp_path / "notify"))
    heard.settimeout(SECONDS)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "600000000")
    with heard, running(tmp_path, names=("a",), acks="none") as cluster:
        node = cluster.wait_for_leader()
        wait_for(lambda: get(cluster, node, "/ready")[0] == 200, "readiness", SECONDS)
        assert node._process is not None
        os.kill(node._process.pid, signal.SIGHUP)
        wait_for(lambda: "read its certificates again" in node.log.read_text(), "both", SECONDS)
        assert node.stop() == 0
        # The broker says nothing: its words would be those of the service.
        said = {heard.recv(1000) for _ in range(3)}
        assert said == {b"READY=1\nSTATUS=node a of shop", b"WATCHDOG=1", b"STOPPING=1"}
        heard.setblocking(False)
        with pytest.raises(BlockingIOError):
            heard.recv(1000)
