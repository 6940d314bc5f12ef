"""`docs/clusters.md` as a reader would follow it: its certificates, its etcd, its configuration.

The three machines are this one: names of hosts and ports become ports of loopback, folders become
those of the test. Etcd gets the page's file of variables.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import pytest

from bench.brokers.ports import free_ports
from tests.interop.replication.nodes import ANode
from tests.meta import tree
from tests.support.arbiters.etcd_process import ETCD, MISSING
from tests.support.process import DAYBOOK, wait_for

pytestmark = pytest.mark.interop

PAGE: Final = tree.ROOT / "docs" / "clusters.md"
NAMES: Final = ("one", "two", "three")
PORTS: Final = ("2379", "2380", "61620", "61613", "8161")
FOR_ALL: Final = ("ETCD_INITIAL_CLUSTER=", "endpoints =", "name = ", "address = ")
"""How lines begin that are the same on all machines."""
SECONDS: Final = 240.0


def block(begins: str) -> str:
    """Return the block of the page that begins so."""
    found = re.findall(r"```\w*\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (text,) = [each for each in found if each.startswith(begins)]
    assert isinstance(text, str)
    return text


class Machines:
    """The rewriting of the page's blocks for three machines that are this one."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        found = iter(free_ports(len(NAMES) * len(PORTS)))
        self._ports: Final = {(name, port): next(found) for name in NAMES for port in PORTS}
        self._members: Final[dict[str, subprocess.Popen[bytes]]] = {}

    def block(self, begins: str, name: str) -> str:
        """Return a block as it is on a machine."""
        lines = block(begins).splitlines()
        own = [
            each if each.startswith(FOR_ALL) else re.sub(r"\bone\b", name, each) for each in lines
        ]
        text = "\n".join(own)
        for (machine, port), here in self._ports.items():
            text = text.replace(f"{machine}.example.org:{port}", f"127.0.0.1:{here}")
            if machine == name:
                text = text.replace(f"0.0.0.0:{port}", f"127.0.0.1:{here}")
        text = text.replace("/etc/daybook/tls", str(self.folder))
        text = text.replace("/var/lib/etcd/orders", str(self.folder / f"etcd-{name}"))
        text = text.replace("/var/lib/daybook/data", str(self.folder / name))
        assert "example.org" not in text
        return text + "\n"

    def url(self, name: str) -> str:
        """Return where clients of STOMP find the broker of a machine."""
        return f"stomp://guest:guest@127.0.0.1:{self._ports[name, '61613']}"

    def ready(self, name: str) -> tuple[int, bytes]:
        """Return what a machine answers to a load balancer."""
        connection = HTTPConnection("127.0.0.1", self._ports[name, "8161"], timeout=10)
        with closing(connection), suppress(OSError):
            connection.request("GET", "/ready")
            answer = connection.getresponse()
            return answer.status, answer.read()
        return 0, b""

    def run(self, command: str) -> str:
        """Run a block of a shell in the folder; return its output."""
        said = subprocess.run(
            ["sh", "-eu", "-c", command], cwd=self.folder, capture_output=True, text=True
        )
        assert said.returncode == 0, said.stderr
        return said.stdout

    def start_etcd(self, name: str, **other: str) -> None:
        """Start the member of etcd of a machine, with the page's variables, some of which may have
        other values."""
        own = self.block("ETCD_NAME=", name).splitlines()
        variables = os.environ | dict(each.split("=", 1) for each in own) | other
        with (self.folder / f"etcd-{name}.log").open("ab") as log:
            self._members[name] = subprocess.Popen(
                [str(ETCD)], stdout=log, stderr=log, env=variables
            )

    def kill_etcd(self, name: str) -> None:
        """Kill the member of etcd of a machine."""
        member = self._members.pop(name)
        member.kill()
        member.wait()

    @contextmanager
    def etcd(self) -> Iterator[None]:
        """Run the three members of etcd."""
        try:
            for name in NAMES:
                self.start_etcd(name)
            yield
        finally:
            for name in list(self._members):
                self.kill_etcd(name)

    @contextmanager
    def nodes(self) -> Iterator[list[ANode]]:
        """Run the three nodes; a machine that is busy keeps their lease."""
        found = []
        for name in NAMES:
            config = self.block("data-directory =", name)
            config = config.replace("[replication]\n", '[replication]\nlease = "20s"\n')
            found.append(ANode(self.folder, name, config))
        try:
            for each in found:
                each.start()
            yield found
        finally:
            for each in found:
                each.kill()


@pytest.mark.skipif(ETCD is None, reason=MISSING)
def test_the_page_makes_a_cluster(tmp_path: Path) -> None:
    machines = Machines(tmp_path)
    machines.run(block("openssl req"))
    checked = machines.run("openssl verify -CAfile ca.pem one.pem two.pem three.pem")
    assert checked.count("OK") == len(NAMES)
    with machines.etcd(), machines.nodes() as nodes:
        if shutil.which("etcdctl"):
            _is_healthy(machines)
        for node in nodes:
            machines.run(f"{DAYBOOK} config check {node.config}")

        leader = _whole(nodes)
        for node in nodes:
            # On a busy machine a lease may end, and begin again.
            status = f"{DAYBOOK} cluster status --data {node.data}"
            wait_for(lambda: _succeeds(machines, status), "a leader", SECONDS)  # noqa: B023
        leader = _whole(nodes)
        assert leader.name in machines.run(f"{DAYBOOK} cluster status --data {leader.data}")
        follows = f"not ready: follows {leader.name}".encode()
        for node in nodes:
            wanted = 200 if node is leader else 503
            wait_for(lambda: machines.ready(node.name)[0] == wanted, "an answer", SECONDS)  # noqa: B023
            assert node is leader or follows in machines.ready(node.name)[1]
        machines.run(f"{DAYBOOK} send --url {machines.url(leader.name)} /queue/orders first")


@pytest.mark.slow
@pytest.mark.skipif(ETCD is None or not shutil.which("etcdctl"), reason=MISSING)
def test_a_machine_is_replaced_and_one_goes_on_alone(tmp_path: Path) -> None:
    machines = Machines(tmp_path)
    machines.run(block("openssl req"))
    with machines.etcd(), machines.nodes() as nodes:
        one, two, three = nodes
        leader = _whole(nodes)
        machines.run(f"{DAYBOOK} send --url {machines.url(leader.name)} /queue/orders first")
        _is_healthy(machines)
        # The machine `three` is lost, and replaced.
        three.kill()
        machines.kill_etcd("three")
        shutil.rmtree(three.data)
        shutil.rmtree(tmp_path / "etcd-three")
        *exports, remove, add = machines.block("export ETCDCTL_API", "one").splitlines()
        # Etcd refuses both while it is not sure of its other members; each is done once.
        known = f"etcdctl member list | grep -q {add.split()[-1]}"
        for what, step in (("without", remove), ("with", f"{add} || {known}")):
            command = "\n".join([*exports, step])
            wait_for(lambda: _succeeds(machines, command), f"etcd {what} the member", SECONDS)  # noqa: B023
        machines.start_etcd("three", ETCD_INITIAL_CLUSTER_STATE="existing")
        _is_healthy(machines)
        three.start()
        _whole(nodes)
        wait_for(lambda: three.status().get("whole"), "a whole node", SECONDS)
        # `two` and `three` are lost for good.
        for name, node in (("two", two), ("three", three)):
            node.kill()
            machines.kill_etcd(name)
        one.stop()
        machines.kill_etcd("one")
        machines.start_etcd("one", ETCD_FORCE_NEW_CLUSTER="true")
        one.config.write_text(_alone(one.config.read_text("utf-8")), "utf-8")
        machines.run(f"{DAYBOOK} config check {one.config}")
        one.start()
        wait_for(lambda: one.status().get("role") == "leading", "the lead of one", SECONDS)
        wait_for(lambda: machines.ready("one")[0] == 200, "an answer", SECONDS)
        got = machines.run(f"{DAYBOOK} receive --url {machines.url('one')} /queue/orders")
        assert "first" in got


def _alone(config: str) -> str:
    """Return the configuration of a node that is left, as the page says."""
    config = config.replace('acks = "majority"', 'acks = "none"')
    config = re.sub(r'endpoints = \[("[^"]*"), .*\]', r"endpoints = [\1]", config)
    return re.sub(r'\[\[replication-node\]\]\nname = "t.*"\naddress = .*\n', "", config)


def _whole(nodes: list[ANode]) -> ANode:
    """Wait for a node that leads, and that all others follow; return it."""

    def found() -> ANode | None:
        for node in nodes:
            status = node.status()
            if status.get("role") == "leading" and all(
                each["behind"] == 0 for each in status["nodes"]
            ):
                return node
        return None

    leader = wait_for(found, "a leader that both follow", SECONDS)
    assert isinstance(leader, ANode)
    return leader


def _is_healthy(machines: Machines) -> None:
    health = machines.block("ETCDCTL_API", "one")
    wait_for(lambda: _succeeds(machines, health), "the health of etcd", SECONDS)


def _succeeds(machines: Machines, command: str) -> bool:
    with suppress(AssertionError):
        machines.run(command)
        return True
    return False
