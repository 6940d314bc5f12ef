"""What leaves the leader leaves the followers too; who lacks what has left gets the base."""

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import ARCHIVE, BASE, BASE_DESCRIPTION, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import first_lsn_of
from tests.interop.replication.nodes import ANode, Client, Nodes, running
from tests.interop.replication.test_failover import all_follow, has_all
from tests.support.process import JOURNAL as JOURNAL_COMMAND
from tests.support.process import wait_for

SECONDS: Final = 120.0
SMALL: Final = (
    'segment-bytes = "64KiB"', "retention-scan-period = 100", 'retention-max-bytes = "300KiB"',
)  # fmt: skip


def fill(cluster: Nodes, client: Client, bytes_wanted: int) -> None:
    """Write history that nobody needs: bodies that do not compress, consumed at once."""
    wire = client.connected()
    wire.send("SUBSCRIBE", id="f", destination="/queue/fill", ack="auto")
    for number in range(bytes_wanted // 4_000):
        body = random.Random(number).randbytes(2_000).hex().encode()
        wire.send("SEND", body, destination="/queue/fill", persistent="true")
        assert wire.read().command == "MESSAGE"
    wire.send("UNSUBSCRIBE", id="f", receipt="over")
    assert wire.read().headers["receipt-id"] == "over"


def first_lsn(node: ANode) -> int:
    return first_lsn_of(RealDisk(node.data / JOURNAL))


def others(cluster: Nodes, leader: ANode) -> list[ANode]:
    return [each for each in cluster.nodes.values() if each is not leader]


def leaves(cluster: Nodes, client: Client, node: Callable[[], ANode], more_than: int) -> None:
    """Write until history leaves a node."""

    def has_left() -> bool:
        if first_lsn(node()) > more_than:
            return True
        fill(cluster, client, 200_000)
        return False

    wait_for(has_left, "history to leave", SECONDS)


def is_sound(node: ANode) -> None:
    said = subprocess.run(
        [JOURNAL_COMMAND, "verify", str(node.data)], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said


def test_what_leaves_the_leader_leaves_the_followers(tmp_path: Path) -> None:
    with running(tmp_path, journal=SMALL) as cluster, Client(cluster) as client:
        client.send(5)
        leader = cluster.wait_for_leader()
        leaves(cluster, client, lambda: leader, 1)
        there = first_lsn(leader)
        for node in others(cluster, leader):
            wait_for(lambda node=node: first_lsn(node) >= there, "history to leave", SECONDS)
            assert first_lsn(node) <= first_lsn(leader)
            assert (node.data / BASE / BASE_DESCRIPTION).exists()
            is_sound(node)
        # One of them leads from there on, and has what was queued before.
        leader.kill()
        client.send(5)
        second = cluster.wait_for_leader(other_than=leader.name)
        leaves(cluster, client, lambda: second, first_lsn(second))
        has_all(cluster, client)
        # The first one was away while history left.
        leader.start()
        wait_for(lambda: all_follow(cluster), "the return of the first leader", SECONDS)
        is_sound(leader)


def test_a_node_without_its_data_gets_the_base(tmp_path: Path) -> None:
    with running(tmp_path, journal=SMALL) as cluster, Client(cluster) as client:
        client.send(10)
        leader = cluster.wait_for_leader()
        other = others(cluster, leader)[0]
        other.kill()
        shutil.rmtree(other.data)
        leaves(cluster, client, lambda: leader, 1)
        other.start()
        wait_for(lambda: all_follow(cluster), "the copy", SECONDS)
        assert first_lsn(other) > 1
        wait_for(
            lambda: other.status()["indexed_lsn"] == other.status()["lsn"], "its index", SECONDS
        )
        is_sound(other)
        # It acknowledges events: the cluster confirms without the third node.
        [third] = [each for each in others(cluster, leader) if each is not other]
        third.kill()
        client.send(5)
        leader.kill()
        third.start()
        client.send(5)
        has_all(cluster, client)


def test_an_archive_that_all_share_has_no_gap(tmp_path: Path) -> None:
    archive = tmp_path / ARCHIVE
    lines = (*SMALL, f'archive-directory = "{archive}"')
    with running(tmp_path, journal=lines) as cluster, Client(cluster) as client:
        client.send(5)
        leader = cluster.wait_for_leader()
        leaves(cluster, client, lambda: leader, 1)
        leader.kill()
        client.send(5)
        second = cluster.wait_for_leader(other_than=leader.name)
        leaves(cluster, client, lambda: second, first_lsn(second))
        command = [JOURNAL_COMMAND, "archive", "verify", str(second.data), "--archive", archive]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said
        names = sorted(each.stem for each in archive.glob("*.seg"))
        assert int(names[0]) == 1
        # Each follows the one before, and none is there twice: verify has looked at that.
        has_all(cluster, client)
