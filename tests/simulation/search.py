"""Simulate many seeds on all cores: `python -m tests.simulation.search --minutes N`.

Each run takes the next seed, in processes of their own. A run that fails is made smaller: features
are left out as long as the same promise is broken, and it ends where it failed. Prints the command
for each failure, and in the end how much was played and which kinds of events and reasons never
were. The exit code is 1 if a promise was broken. Ctrl-C ends it with what is known by then.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count, islice

import msgspec
import structlog

from daybook.engine.facts.events import BY_NUMBER, EVENT_TYPES, KIND, REASON
from daybook.engine.facts.reasons import REASONS
from tests.simulation.mishaps.hooks import Hooks
from tests.simulation.run import explain
from tests.simulation.seeds import SEEDS, SWARM_FROM
from tests.simulation.simulation import Simulation

STEPS = 6_000
FAILURES_MAX = 10
"""After so many the search ends: they are probably one."""
CRITICAL = 50


class Played(msgspec.Struct):
    """The events that one run played, and its failure, if any."""

    seed: int
    events: int
    names: set[str]
    failure: str = ""


def play(seed: int, steps: int) -> Played:
    """Run a seed; a failure says how to see it again."""
    # Connections that are refused or closed would each be a line of the log.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))
    simulation, broken = attempt(seed, steps)
    rows = [event[1] for block in simulation.judge.blocks for event in block.events()]
    names = {BY_NUMBER[row[KIND]].name for row in rows}
    names |= {REASONS[row[REASON]][0] for row in rows}
    if broken:
        broken = smallest(seed, steps, simulation, broken)
    return Played(seed, len(rows), names, broken)


def attempt(seed: int, steps: int, without: frozenset[str] = frozenset()) -> tuple[Simulation, str]:
    """Run a seed without some features; return what was broken, empty if nothing was."""
    simulation = Simulation(seed, Hooks(without=without))
    try:
        simulation.run(steps)
    except Exception as error:
        return simulation, f"{type(error).__name__}: {error}\n{explain(simulation, steps)}"
    return simulation, ""


def smallest(seed: int, steps: int, failed: Simulation, broken: str) -> str:
    """Leave out features as long as the failure begins with the same words."""
    left_out: frozenset[str] = frozenset()
    swarm = failed.swarm
    for feature in sorted(swarm.drawn) if swarm is not None else ():
        _, other = attempt(seed, steps, left_out | {feature})
        if other[:30] == broken[:30]:
            left_out |= {feature}
            broken = other
    return broken


def seeds(given: int | None, number: int | None) -> Iterator[int]:
    """The seeds in their order: so many, or without an end."""
    first = random.SystemRandom().randrange(SWARM_FROM, SEEDS) if given is None else given
    return islice(count(first), number)


class Tally:
    """The events that all runs played so far."""

    def __init__(self) -> None:
        self.runs = self.events = self.failures = 0
        self.missing = {each.name for each in EVENT_TYPES} | {name for name, _ in REASONS.values()}

    def add(self, played: Played) -> None:
        """Count a run, and print its failure."""
        self.runs += 1
        self.events += played.events
        self.missing -= played.names
        if played.failure:
            self.failures += 1
            print(f"seed {played.seed} failed: {played.failure}", flush=True)

    def say(self) -> None:
        """Print the sum."""
        print(f"{self.runs} seeds, {self.events:,} events, {self.failures} failed")
        print(f"never played: {', '.join(sorted(self.missing)) or 'nothing'}", flush=True)


def search(wanted: Iterator[int], steps: int, until: float, jobs: int) -> Tally:
    """Play seeds in so many processes until a time, or until there are none."""
    tally = Tally()
    running: set[Future[Played]] = set()
    with ProcessPoolExecutor(jobs) as pool:
        try:
            while tally.failures < FAILURES_MAX:
                more = islice(wanted, jobs - len(running) if time.monotonic() < until else 0)
                running |= {pool.submit(play, seed, steps) for seed in more}
                if not running:
                    break
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    tally.add(each.result())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        for each in running:
            each.cancel()
    return tally


def main(arguments: list[str] | None = None) -> int:
    """Search as told; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.search", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; drawn if it is not given")
    parser.add_argument("--seeds", type=int, help="how many seeds; all that time allows if not")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of each run")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no run after that")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    given = parser.parse_args(arguments)
    until = time.monotonic() + 60 * given.minutes
    tally = search(seeds(given.seed, given.seeds), given.steps, until, given.jobs)
    tally.say()
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
