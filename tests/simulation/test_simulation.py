"""The whole broker under faults, from fresh seeds and from some that once found something."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.child import environment
from daybook.engine import reasons
from tests.simulation.counts import Counts, HardCounts, WayCounts
from tests.simulation.run import explain, main
from tests.simulation.seeds import (
    HARDENED_FROM,
    MIXED_FROM,
    NEAR_FROM,
    RESENDING_FROM,
    SEEDS,
    SWARM_FROM,
)
from tests.simulation.simulation import Simulation

ROOT = Path(__file__).parents[2]
FRESH_RUNS = 24
STEPS = 8_000
"""Many short runs meet more combinations of features than few long ones."""

ONCE_FOUND = (
    (6, 5_000),
    (20, 5_000),
    (25, 5_000),
    (37, 5_000),
    (44, 5_000),
    (71, 5_000),
    (77, 5_000),
    (82, 5_000),
    (87, 5_000),
    (89, 5_000),
    (122, 5_000),
    (165, 5_000),
    (190, 5_000),
    (1003, 30_000),
    (1005, 30_000),
    (310, 8_000),
    (141, 8_000),
    (5012, 8_000),
    (119, 8_000),
    (60256, 12_000),
    (1104184802, 15_000),
    (3394601095, 12_000),
    (3655493640, 15_000),
    (SWARM_FROM + 3004, 3_000),
)
"""Seeds that failed before something was mended, here or in the broker, with their steps."""


def simulate(seed: int, steps: int) -> Simulation:
    print(f"seed {seed}, {steps} steps")
    simulation = Simulation(seed)
    try:
        simulation.run(steps)
    except Exception:
        pytest.fail(explain(simulation, steps), pytrace=False)
    return simulation


@pytest.mark.parametrize("number", range(FRESH_RUNS))
def test_promises_are_kept_from_a_fresh_seed(number: int) -> None:
    simulate(random.SystemRandom().randrange(SEEDS), STEPS)


@pytest.mark.parametrize(("seed", "steps"), ONCE_FOUND)
def test_promises_are_kept_from_a_seed_that_once_failed(seed: int, steps: int) -> None:
    simulate(seed, steps)


def test_every_fault_happens() -> None:
    """A simulation in which nothing goes wrong would show nothing."""
    total = dict.fromkeys(Counts.__struct_fields__, 0)
    digests = receipts = messages = refused = full = large = evicted = checkpoints = deleted = 0
    for seed in range(300, 320):
        simulation = simulate(seed, 8_000)
        for name in total:
            total[name] += getattr(simulation.counts, name)
        digests += simulation.judge.digests_compared
        receipts += simulation.ledger.receipts
        messages += simulation.ledger.messages
        refused += simulation.ledger.errors["disk is full"]
        full += simulation.ledger.errors["' is full: it holds"]
        large += simulation.judge.shadow.large
        if simulation.index is not None:
            evicted += simulation.index.evicted
            checkpoints += simulation.index.checkpoints
            deleted += simulation.index.deleted
    assert min(total.values()) > 0, total
    assert min(digests, receipts, messages) > 500
    assert refused > 0
    assert full > 0
    assert large > 50
    assert min(evicted, checkpoints) > 100
    assert deleted > 0


def test_every_hardship_happens() -> None:
    """Hanging processes, no descriptors, and damage that is met in starts and in reads."""
    total = dict.fromkeys(HardCounts.__struct_fields__, 0)
    for seed in range(HARDENED_FROM, HARDENED_FROM + 18):
        hardships = simulate(seed, 8_000).hardships
        assert hardships is not None
        for name in total:
            total[name] += getattr(hardships.counts, name)
    assert min(total.values()) > 0, total


def test_blocks_become_durable_by_every_way() -> None:
    """At once within a turn, late though begun there, and in vain."""
    total = dict.fromkeys(WayCounts.__struct_fields__, 0)
    for seed in range(NEAR_FROM, NEAR_FROM + 14):
        ways = simulate(seed, 8_000).ways
        for name in total:
            total[name] += getattr(ways, name)
    assert min(total.values()) > 0, total
    assert min(total["near_blocks"], 5 * total["late_blocks"]) > 400, total


def test_history_leaves() -> None:
    """Rounds of retention carry, archive and remove; some fail, some hang, some find more."""
    carried = removed = failed = hung = rebased = archived = 0
    for seed in range(HARDENED_FROM + 1000, HARDENED_FROM + 1024):
        simulation = simulate(seed, 8_000)
        retention = simulation.retention
        if retention is None or simulation.index is None:
            continue
        carried += simulation.judge.shadow.carried
        removed += retention.removed
        failed += retention.failed
        hung += retention.hung
        rebased += simulation.index.rebased
        archived += retention.archive_disk is not None
    assert min(carried, removed) > 50
    assert min(failed, hung, rebased, archived) > 0, (failed, hung, rebased, archived)


def test_queues_of_all_kinds_are_used() -> None:
    """With every rule that makes a message wait, leave or go elsewhere."""
    seen: Counter[tuple[str, int]] = Counter()
    for seed in range(MIXED_FROM, MIXED_FROM + 14):
        referee = simulate(seed, 8_000).judge.referee
        assert referee is not None
        seen += referee.seen
    wanted = {
        ("Removed", reasons.REPLACED), ("Removed", reasons.RING_EVICTED),
        ("Removed", reasons.NO_CONSUMERS), ("Scheduled", reasons.DELIVERY_TIME),
        ("Scheduled", reasons.REDELIVERY_DELAY), ("Due", reasons.NO_REASON),
        ("Shown", reasons.NO_REASON), ("Recalled", reasons.HISTORY),
        ("Routed", reasons.DIVERT),
        ("QueueUpdated", reasons.ADMINISTRATION), ("Moved", reasons.ADMINISTRATION),
        ("SettingsChanged", reasons.ADMINISTRATION),
    }  # fmt: skip
    assert {each for each in wanted if not seen[each]} == set()


def test_messages_are_sent_again() -> None:
    """And dropped as duplicates, by themselves and in transactions."""
    dropped = refused = 0
    seeds = range(RESENDING_FROM, RESENDING_FROM + 30)
    for seed in [each for each in seeds if Simulation(each).resends]:
        simulation = simulate(seed, 8_000)
        dropped += simulation.judge.shadow.duplicates
        refused += simulation.judge.duplicates
        assert simulation.ledger.errors["is a duplicate"] <= simulation.judge.duplicates
    assert dropped > 50
    assert refused > 2


def test_same_seed_gives_the_same_run() -> None:
    """Also in another process, where text has other hashes and objects other addresses."""
    simulation = simulate(7, 5_000)
    program = (
        "from tests.simulation.simulation import Simulation\n"
        "s = Simulation(7); s.run(5000); print(s.trace, s.judge.shadow.lsn)"
    )
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=environment() | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [simulation.trace, str(simulation.judge.shadow.lsn)]
    assert simulate(8, 5_000).trace != simulation.trace


def test_command_line_names_the_seed_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--steps", "300", "--runs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 3, 300 steps"
    assert lines[2] == "seed 4, 300 steps"
    assert "all promises kept" in lines[1]
