"""Run the simulation from the command line: `python -m tests.simulation.run --seed N --steps M`.

Prints the seed first. A failure prints how to run it again, and what happened last; the exit code
is then 1.
"""

import argparse
import random
import subprocess
import sys
import time
import traceback

from tests.simulation.mishaps.hooks import Hooks
from tests.simulation.seeds import SEEDS
from tests.simulation.simulation import Simulation


def main(arguments: list[str] | None = None) -> int:
    """Run as told; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; drawn if it is not given")
    parser.add_argument("--steps", type=int, default=2000, help="steps of each run")
    parser.add_argument("--runs", type=int, default=1, help="runs, each with the next seed")
    parser.add_argument("--without", default="", help="features to leave out, divided by commas")
    given = parser.parse_args(arguments)
    seed = random.randrange(SEEDS) if given.seed is None else given.seed
    for number in range(given.runs):
        without = frozenset(filter(None, given.without.split(",")))
        if not run_once(seed + number, given.steps, without):
            return 1
    return 0


def run_once(seed: int, steps: int, without: frozenset[str] = frozenset()) -> bool:
    """One run; says what came of it, and returns whether all promises were kept."""
    print(f"seed {seed}, {steps} steps", flush=True)
    begun = time.perf_counter()
    simulation = Simulation(seed, Hooks(without=without))
    try:
        simulation.run(steps)
    except Exception:
        print(explain(simulation, steps), flush=True)
        return False
    seconds = time.perf_counter() - begun
    counts = simulation.counts
    ledger = simulation.ledger
    print(
        f"  all promises kept: {len(ledger.sent)} sent, {ledger.receipts} receipts, "
        f"{ledger.messages} delivered, {simulation.judge.facts.lsn} events, "
        f"{simulation.judge.digests_compared} digests compared; {counts.power_cuts} power cuts, "
        f"{counts.kills} kills, {counts.cut_tails} torn tails, {counts.failures} disk errors, "
        f"{counts.disk_full} times full, {counts.clean_stops} clean stops; "
        f"{_paging(simulation)}; {_retention(simulation)}; "
        f"{counts.steps / seconds:,.0f} steps/s, trace {simulation.trace}",
        flush=True,
    )
    return True


def _paging(simulation: Simulation) -> str:
    index = simulation.index
    if index is None:
        return "no paging"
    return (
        f"{index.commits} commits of the index, {index.evicted} entries paged out, "
        f"{index.checkpoints} checkpoints, {index.deleted} times deleted, "
        f"{index.read_errors} read errors"
    )


def _retention(simulation: Simulation) -> str:
    retention = simulation.retention
    if retention is None:
        return "no retention"
    return (
        f"{retention.rounds} rounds of retention, {retention.carried} carried, "
        f"{retention.removed} segments left, {retention.failed} rounds failed"
    )


def explain(simulation: Simulation, steps: int) -> str:
    """Describe the exception being handled, the events before it, and the command to repeat it."""
    recent = "\n".join(f"  {line}" for line in simulation.recent)
    features = ",".join(sorted(simulation.hooks.without))
    without = f' --without "{features}"' if features else ""
    # Up to there it is the same run.
    last = min(steps, simulation.counts.steps)
    return (
        f"What happened last:\n{recent}\n{traceback.format_exc()}\n"
        f"FAILED with seed {simulation.seed} after {simulation.counts.steps} steps, "
        f"at commit {commit()}. The same again:\n"
        f"  python -m tests.simulation.run --seed {simulation.seed} --steps {last}{without}"
    )


def commit() -> str:
    """The commit that is checked out, needed to repeat a run; empty if unknown."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
