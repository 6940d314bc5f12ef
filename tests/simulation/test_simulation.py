"""The whole broker under faults, from fresh seeds and from some that once found something."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import asdict

from bench.load.child import environment
from daybook.engine.facts import events, reasons
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
from tests.support.suite.chance import seed_of

ROOT = Path(__file__).parents[2]
FRESH_RUNS = 16
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
    (1003, 8_000),
    (1005, 8_000),
    (310, 8_000),
    (141, 8_000),
    (5012, 8_000),
    (119, 8_000),
    (60256, 12_000),
    (1104184802, 15_000),
    (3394601095, 12_000),
    (3655493640, 15_000),
    (SWARM_FROM + 3004, 3_000),
    (11325120216, 8_000),
    (8241918753, 8_000),
    (32362202674, 8_000),
    (18315301673, 8_000),
    (63902265038, 8_000),
    (98861854438, 8_000),
    (137438953614, 2_997),
    (137438953707, 1_848),
    (137438953892, 7_271),
    (158552797060, 2_704),
    (243973343482, 1_749),
    (250161872933, 1_376),
    (137438962478, 3_442),
    (285_167_339_064, 3_236),
    (358_794_821_623, 534),
    (301_933_846_931, 6_397),
)
"""Seeds that failed before a fix, here or in the broker, with their steps."""


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
    simulate(seed_of(f"fresh {number}", bits=64) % SEEDS, STEPS)


@pytest.mark.parametrize(("seed", "steps"), ONCE_FOUND)
def test_promises_are_kept_from_a_seed_that_once_failed(seed: int, steps: int) -> None:
    simulate(seed, steps)


def play_until(
    seeds: Iterable[int], wanted: dict[str, int], tell: Callable[[Simulation], dict[str, int]]
) -> None:
    """Play seeds until each of these things has happened more often than that."""
    total: Counter[str] = Counter()
    for seed in seeds:
        total.update(tell(simulate(seed, STEPS)))
        if all(total[name] > least for name, least in wanted.items()):
            return
    pytest.fail(f"{dict(total)}, and wanted are more than {wanted}")


def never(counts: type[msgspec.Struct]) -> dict[str, int]:
    """Each of these counts must be above zero."""
    return dict.fromkeys(counts.__struct_fields__, 0)


def test_every_fault_happens() -> None:
    """A simulation in which nothing goes wrong would show nothing."""
    wanted = {
        **never(Counts), "digests": 500, "receipts": 500, "messages": 500, "refused": 0, "full": 0,
        "large": 50, "evicted": 100, "checkpoints": 100, "deleted": 0,
    }  # fmt: skip

    def tell(simulation: Simulation) -> dict[str, int]:
        ledger, judge, index = simulation.ledger, simulation.judge, simulation.index
        told = {
            **asdict(simulation.counts),
            "digests": judge.digests_compared, "receipts": ledger.receipts,
            "messages": ledger.messages, "refused": ledger.errors["disk is full"],
            "full": ledger.errors["' is full: it holds"], "large": judge.facts.large,
        }  # fmt: skip
        if index is not None:
            told |= {"evicted": index.evicted, "checkpoints": index.checkpoints}
            told["deleted"] = index.deleted
        return told

    play_until(range(300, 340), wanted, tell)


def test_every_hardship_happens() -> None:
    """Hanging processes, no descriptors, and damage that is met in starts and in reads."""
    # Two showed all of them once.
    seeds = (HARDENED_FROM + number for number in (4, 9, *range(40)))
    play_until(seeds, never(HardCounts), _hardships)


def _hardships(simulation: Simulation) -> dict[str, int]:
    assert simulation.hardships is not None
    return asdict(simulation.hardships.counts)


def test_blocks_become_durable_by_every_way() -> None:
    """At once within a turn, late though begun there, and in vain."""
    wanted = {**never(WayCounts), "near_blocks": 400, "late_blocks": 80}
    # The first seven were enough once.
    seeds = (NEAR_FROM + number for number in (7, 9, 12, 5, 0, 2, 4, *range(40)))
    play_until(seeds, wanted, lambda simulation: asdict(simulation.ways))


def test_history_leaves() -> None:
    """Rounds of retention carry, archive and remove; some fail, some hang, some find more."""
    wanted = {"carried": 50, "removed": 50, "failed": 0, "hung": 0, "rebased": 0, "archived": 0}

    def tell(simulation: Simulation) -> dict[str, int]:
        retention = simulation.retention
        if retention is None or simulation.index is None:
            return {}
        return {
            "carried": simulation.judge.facts.carried, "removed": retention.removed,
            "failed": retention.failed, "hung": retention.hung,
            "rebased": simulation.index.rebased, "archived": retention.archive_disk is not None,
        }  # fmt: skip

    # The first three did it all once.
    seeds = (HARDENED_FROM + 1000 + number for number in (5, 18, 21, *range(60)))
    play_until(seeds, wanted, tell)


def test_queues_of_all_kinds_are_used() -> None:
    """With every rule that makes a message wait, leave or go elsewhere."""
    wanted = (
        ("Removed", reasons.REPLACED), ("Removed", reasons.RING_EVICTED),
        ("Removed", reasons.NO_CONSUMERS), ("Scheduled", reasons.DELIVERY_TIME),
        ("Scheduled", reasons.REDELIVERY_DELAY), ("Due", reasons.NO_REASON),
        ("Shown", reasons.NO_REASON), ("Recalled", reasons.HISTORY),
        ("Routed", reasons.DIVERT),
        ("QueueUpdated", reasons.ADMINISTRATION), ("Moved", reasons.ADMINISTRATION),
        ("SettingsChanged", reasons.ADMINISTRATION),
    )  # fmt: skip

    def tell(simulation: Simulation) -> dict[str, int]:
        rows = [event[1] for block in simulation.judge.blocks for event in block.events()]
        seen = Counter(
            (events.BY_NUMBER[row[events.KIND]].name, row[events.REASON]) for row in rows
        )
        return {str(each): seen[each] for each in wanted}

    # The first three did it all once.
    seeds = (MIXED_FROM + number for number in (23, 0, 1, *range(40)))
    play_until(seeds, dict.fromkeys(map(str, wanted), 0), tell)


def test_messages_are_sent_again() -> None:
    """And dropped as duplicates, by themselves and in transactions."""

    def tell(simulation: Simulation) -> dict[str, int]:
        refused = simulation.judge.duplicates
        assert simulation.ledger.errors["is a duplicate"] <= refused
        return {"dropped": simulation.judge.facts.duplicates, "refused": refused}

    # The first three were enough once.
    seeds = (RESENDING_FROM + number for number in (14, 16, 20, *range(60)))
    resending = (each for each in seeds if Simulation(each).resends)
    play_until(resending, {"dropped": 50, "refused": 2}, tell)


def test_same_seed_gives_the_same_run() -> None:
    """Also in another process, where text has other hashes and objects other addresses."""
    simulation = simulate(7, 5_000)
    program = (
        "from tests.simulation.simulation import Simulation\n"
        "s = Simulation(7); s.run(5000); print(s.trace, s.judge.facts.lsn)"
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
        assert done.stdout.split() == [simulation.trace, str(simulation.judge.facts.lsn)]
    assert simulate(8, 5_000).trace != simulation.trace


def test_command_line_names_the_seed_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--steps", "300", "--runs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 3, 300 steps"
    assert lines[2] == "seed 4, 300 steps"
    assert "all promises kept" in lines[1]
