"""Many seeds: `python -m tests.simulation.standbys.search --seeds 10000`, on all cores.

Prints what failed, with the seed that shows it again; the exit code is 1 if anything did.
"""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor

from daybook.replication.quorum import Acks
from tests.simulation.standbys import mishaps
from tests.simulation.standbys.cluster import Cluster
from tests.simulation.standbys.world import MS

STEPS = 25
KINDS = (
    (Acks.MAJORITY, 3), (Acks.ALL, 3), (Acks.ONE, 3), (Acks.MAJORITY, 5), (Acks.ALL, 2),
    (Acks.NONE, 3), (Acks.MAJORITY, 2), (Acks.ONE, 2), (Acks.ALL, 5), (Acks.MAJORITY, 3),
    (Acks.ONE, 5), (Acks.ALL, 3), (Acks.NONE, 2),
)  # fmt: skip
CHUNK = 10


def drawn(seed: int) -> tuple[Acks, int]:
    """Return how many must have what is confirmed, of how many nodes."""
    return KINDS[seed // 2 % len(KINDS)]


def play(
    seed: int, acks: Acks = Acks.MAJORITY, nodes: int = 3, *, has_lanes: bool | None = None
) -> Cluster:
    """Let things go wrong for a while, and then be right again; with odd seeds clocks, too. Of four
    seeds three have lanes, if it is not said."""
    cluster = Cluster(
        seed, acks=acks, nodes=nodes, clocks_are_right=seed % 2 == 0,
        has_lanes=seed // 2 % 4 != 0 if has_lanes is None else has_lanes,
    )  # fmt: skip
    cluster.start()
    cluster.world.run(3_000 * MS)
    for _ in range(STEPS):
        mishaps.one(cluster)
        cluster.world.run(cluster.world.now + cluster.world.chance.randint(10, 3_000) * MS)
    cluster.rest()
    return cluster


def attempt(seed: int) -> str:
    """Play a seed; return what was broken, empty if nothing was."""
    try:
        play(seed, *drawn(seed))
    except Exception as error:
        acks, nodes = drawn(seed)
        return f"seed {seed} ({acks.value}, {nodes} nodes): {type(error).__name__}: {error}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Search as told; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    given = parser.parse_args(arguments)
    seeds = range(given.seed, given.seed + given.seeds)
    failures = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for done, failure in enumerate(pool.map(attempt, seeds, chunksize=CHUNK), 1):
            failures += bool(failure)
            if failure or done % 1_000 == 0:
                print(failure or f"{done:,} seeds", flush=True)
    print(f"{given.seeds:,} seeds, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
