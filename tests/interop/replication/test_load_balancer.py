"""HAProxy in front of a cluster, with the lines of `docs/clusters.md`."""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bench.brokers.ports import free_port
from tests.interop.replication.nodes import FAILOVER_SECONDS, Client, Nodes, running
from tests.interop.replication.test_failover import all_follow
from tests.meta import tree
from tests.support.process import wait_for

pytestmark = pytest.mark.interop

PAGE: Final = tree.ROOT / "docs" / "clusters.md"
HAPROXY: Final = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
FRONT: Final = """defaults
    timeout connect 5s
    timeout client 1m
    timeout server 1m
frontend clients
    mode tcp
    bind 127.0.0.1:{port}
    default_backend daybook
"""


def backend(cluster: Nodes) -> str:
    """Return the page's backend, with the ports of a cluster on one machine."""
    found = re.search(r"( +)backend daybook\n.*?(?=```)", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    text = found[0].replace(" port 8161", "", 1)
    machines = dict(zip(("one", "two", "three"), cluster.ports, strict=True))
    for machine, node in machines.items():
        here = f"127.0.0.1:{cluster.ports[node]} port {cluster.probes[node]}"
        text, changes = re.subn(rf"{machine}\.example\.org:61613", here, text)
        assert changes == 1
    return f"{text.rstrip()}\n"


@contextmanager
def balancing(folder: Path, cluster: Nodes) -> Iterator[int]:
    """Run HAProxy in front of a cluster; yields its port."""
    assert HAPROXY is not None
    port = free_port()
    config = folder / "haproxy.cfg"
    config.write_text(FRONT.format(port=port) + backend(cluster), "utf-8")
    subprocess.run([HAPROXY, "-c", "-q", "-f", str(config)], check=True)
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([HAPROXY, "-db", "-f", str(config)], stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.skipif(HAPROXY is None, reason="HAProxy is missing (Debian: apt install haproxy)")
def test_clients_of_a_load_balancer_find_each_leader(tmp_path: Path) -> None:
    with (
        running(tmp_path) as cluster,
        balancing(tmp_path, cluster) as port,
        Client(cluster, [port]) as client,
    ):
        client.send(20)
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
        leader = cluster.wait_for_leader()
        leader.kill()
        client.send(20)
        assert cluster.wait_for_leader().name != leader.name
        # Not behind by then: it is handed over without a failure.
        leader.start()
        wait_for(lambda: all_follow(cluster), "the return", FAILOVER_SECONDS)
        cluster.wait_for_leader().stop()
        client.send(20)
        found = client.drain(client.confirmed[-1])
    # One whose receipt was lost may be there twice.
    assert sorted(set(found)) == client.confirmed
