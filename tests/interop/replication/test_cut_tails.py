"""A leader that is lost may have what no other node has: it is cut off, and kept for a while."""

import re
import subprocess
from pathlib import Path

from tests.interop.replication.nodes import FAILOVER_SECONDS, Client, running
from tests.interop.replication.test_failover import all_follow, has_all
from tests.support.process import JOURNAL, wait_for


def last_lsn(data: Path) -> int:
    """Return the LSN of the last event of a node that does not run, confirmed or not."""
    said = subprocess.run([JOURNAL, "verify", data], capture_output=True, text=True)
    found = re.search(r" events? \(LSN \d+ to (\d+)\) ", said.stdout)
    return int(found[1]) if found else 0


def test_a_tail_of_a_lost_leader_is_kept_in_a_folder_of_its_own(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(10)
        wait_for(lambda: all_follow(cluster), "the followers", FAILOVER_SECONDS)
        first = cluster.wait_for_leader()
        others = [each for each in cluster.nodes.values() if each is not first]
        for each in others:
            each.kill()
        # Not what its node says: that one hears of small blocks once the followers have them.
        before = max(last_lsn(each.data) for each in others)
        client.connected().send("SEND", b"lost", destination="/queue/q")
        wait_for(lambda: first.status().get("lsn", 0) > before, "an event of its own")
        first.kill()
        client.lose()
        for each in others:
            each.start()
        client.send(10)
        cluster.wait_for_leader(other_than=first.name)
        first.start()
        wait_for(lambda: all_follow(cluster), "its return", FAILOVER_SECONDS)
        (tail,) = [each for each in (first.data / "cut").iterdir() if each.name != "next"]
        assert tail.name.endswith(f"-{before + 1}")
        assert f"was cut off, and is kept in {tail}" in first.log.read_text()
        status = first.status()
        assert status["cut_tails"] == 1
        assert status["cut_bytes"] > 0
        said = subprocess.run([JOURNAL, "inspect", tail], capture_output=True, text=True)
        assert said.returncode == 0, said
        assert said.stdout.split()[0] == str(before + 1)
        rescued = tmp_path / "rescued"
        salvaged = subprocess.run(
            [JOURNAL, "salvage", tail, rescued], capture_output=True, text=True
        )
        # Messages that were queued before these events are not known there.
        assert salvaged.returncode == 1, salvaged
        assert last_lsn(rescued) > before
        has_all(cluster, client)
