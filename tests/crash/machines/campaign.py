"""Rounds in which something goes wrong with a cluster while clients work, and the proof."""

import json
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from daybook.tools.drills.clients.workload import INPUT, ORDERS, OUTPUT
from tests.crash.machines.clients import ANSWER_SECONDS, MAKERS, Crowd
from tests.crash.machines.cluster import MAJORITY, Cluster, Libraries
from tests.crash.machines.judge import judge
from tests.crash.machines.mishaps import MISHAPS, Bad, Mishap
from tests.crash.machines.network import Network
from tests.support.process import DAYBOOK


class Campaign:
    """The cluster, its clients, and what becomes of both."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster: Final = cluster
        self.chance: Final = random.Random(seed)
        self.crowd: Final = Crowd(cluster.network)
        self.bad: Final = Bad(cluster, self.crowd, self.chance)
        self.seed: Final = seed
        self.is_timely = True
        """Whether clocks are right, so that no confirm comes after one of a newer epoch."""
        self.lane_blocks = 0
        """The most blocks that were seen to go over the lanes of one lead."""
        self._left: list[Mishap] = []

    def play(self, rounds: int) -> None:
        """Let mishaps happen, each kind as often as each other one."""
        for _ in range(rounds):
            if not self._left:
                self._left = self.chance.sample(MISHAPS, len(MISHAPS))
            self.round(self._left.pop())
        self.cluster.wait_for(self._lanes_are_used, "a block that goes over lanes")

    def _lanes_are_used(self) -> bool:
        leader = self.cluster.leader()
        if leader is not None:
            self.lane_blocks = max(self.lane_blocks, leader.lane_blocks())
        return self.lane_blocks > 0

    def round(self, mishap: Mishap) -> None:
        """Let one thing go wrong, and end it."""
        begun = time.monotonic()
        mishap(self.bad)
        self.crowd.patience.update(dict.fromkeys(MAKERS, ANSWER_SECONDS))
        self.cluster.restore()
        self.cluster.wait_until_all_have_all()
        self.bad.wait_for_confirms()
        assert not self.crowd.ledger.violations, self.report()
        self._lanes_are_used()
        print(f"{mishap.__name__}: {time.monotonic() - begun:.1f} s", flush=True)

    def finish(self) -> None:
        """End the clients, take all that is left, stop everything, and judge."""
        self.crowd.end()
        self.crowd.drain(self._is_empty, (ORDERS, INPUT, OUTPUT))
        self.cluster.wait_until_all_have_all()
        # The leader last: otherwise another one would begin where it has not ended.
        leader = self.cluster.wait_for_leader()
        for machine in sorted(self.cluster.machines.values(), key=lambda each: each is leader):
            assert machine.stop() == 0, self.cluster.report()
        wrong = list(judge(self.cluster, self.crowd, is_timely=self.is_timely))
        print(f"seed {self.seed}: {self.crowd.ledger.summary()}, lane blocks {self.lane_blocks}")
        assert not wrong, "\n".join([*wrong[:20], self.report()])
        assert self.crowd.ledger.confirmed, "the clients got nothing done"

    def _is_empty(self) -> bool:
        leader = self.cluster.leader()
        if leader is None:
            return False
        done = subprocess.run(
            [DAYBOOK, "queue", "list", "--json", "--data", leader.data],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return False
        return not sum(queue["messages"] for queue in json.loads(done.stdout))

    def report(self) -> str:
        """Return what clients and nodes say."""
        ledger = self.crowd.ledger
        shown = "\n".join(ledger.violations[:20])
        return f"seed {self.seed}: {ledger.summary()}\n{shown}\n{self.cluster.report()}"


@contextmanager
def campaign(
    folder: Path, network: Network, libraries: Libraries, seed: int, *mistakes: str,
    acks: str = MAJORITY,
) -> Iterator[Campaign]:  # fmt: skip
    """Run a cluster with clients at work, whose nodes make mistakes; kill all in the end."""
    with Cluster(folder, network, libraries, mistakes, acks=acks) as cluster:
        made = Campaign(cluster, seed)
        made.crowd.begin()
        try:
            made.bad.wait_for_confirms()
            # A node that never had anything does not lead without all others.
            cluster.wait_until_all_have_all()
            yield made
        finally:
            made.crowd.is_over = True
