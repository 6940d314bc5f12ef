"""The simulation plays all that the broker can do; exceptions are listed with their reasons.

Derived from the tables of events and reasons, so that a new one makes a test fail until something
in the simulation brings it about.
"""

from collections import Counter

from daybook.engine.facts.events import BY_NUMBER, EVENT_TYPES, KIND, REASON
from daybook.engine.facts.reasons import REASONS
from tests.simulation.counts import SwarmCounts
from tests.simulation.seeds import AMQP_FROM, DIRECT_FROM, RETURNING_FROM, SWARM_FROM
from tests.simulation.simulation import Simulation
from tests.simulation.swarm import FEATURES
from tests.simulation.test_simulation import simulate

FIRST = SWARM_FROM + 3000
STEPS = 3_000
TOGETHER = (1, 16, 6, 18, 4, 7, 34)
"""Seeds, from FIRST on, that played everything once: they are tried before the others."""
WITH_AMQP = (
    AMQP_FROM + 3002, AMQP_FROM + 3014, RETURNING_FROM + 2014, RETURNING_FROM + 3045,
    DIRECT_FROM + 3002,
)  # fmt: skip
"""Seeds that played what only clients of AMQP ask for, or direct addresses."""
SEEDS_MAX = 60
"""After so many seeds what was not played is missing."""

NOT_PLAYED = {
    "Signed": "a notary beside the broker asks for it; tests/interop/history/test_signing.py",
    "SigningKeyChanged": "as Signed",
    "Forked": "a command writes it into a copy; tests/unit/recovery/salvage/test_fork.py",
    "Lost": "a command writes it into a copy; tests/unit/recovery/salvage/test_salvage.py",
    "salvaged": "as Lost",
    "restart": "only a queue that a crash left half deleted is removed for it",
    "disk-full": "a full disk blocks or refuses here, and nothing is dropped",
    "global-max-size": "the broker is full by its messages here",
}
"""Kinds and reasons that no run brings about, and why not."""
RARE = {
    "Released", "GroupsReset", "no-dead-letter-address", "disabled", "no-local", "delay-over",
    "virtual-host-max-size", "left-out", "retroactive-bytes", "no-consumers", "unreadable",
    "timeout", "page-limit-bytes", "page-limit-messages", "max-size-bytes", "limit",
    "retroactive-max-age", "unroutable", "configuration", "global-max-messages",
    "forgotten", "no-route", "no-expiry-address", "retained",
}  # fmt: skip
"""Kinds and reasons that `make simulate` plays now and then, and that a few short runs may miss."""


def played(simulation: Simulation) -> set[str]:
    """The kinds of events and the reasons that a run brought about."""
    rows = [event[1] for block in simulation.judge.blocks for event in block.events()]
    kinds = {BY_NUMBER[row[KIND]].name for row in rows}
    return kinds | {REASONS[row[REASON]][0] for row in rows}


def test_every_kind_of_event_and_every_reason_is_played() -> None:
    everything = {each.name for each in EVENT_TYPES} | {name for name, _ in REASONS.values()}
    assert set(NOT_PLAYED) | RARE <= everything
    missing = everything - RARE - set(NOT_PLAYED)
    numbers = (*TOGETHER, *range(SEEDS_MAX))
    for seed in (*WITH_AMQP, *(FIRST + number for number in numbers)):
        missing -= played(simulate(seed, STEPS))
        if not missing:
            return
    raise AssertionError(f"no run plays {sorted(missing)}: let tests.simulation.swarm draw it")


def test_every_feature_is_drawn_and_left_out() -> None:
    drawn: Counter[str] = Counter()
    swarms = [Simulation(FIRST + number).swarm for number in range(40)]
    for swarm in swarms:
        assert swarm is not None
        drawn.update(swarm.features)
    assert set(drawn) == set(FEATURES)
    assert all(5 < drawn[feature] < len(swarms) for feature in FEATURES), drawn


def test_administrators_permissions_and_the_clock_do_something() -> None:
    total = dict.fromkeys(SwarmCounts.__struct_fields__, 0)
    for seed in range(FIRST, FIRST + 4):
        swarm = simulate(seed, STEPS).swarm
        assert swarm is not None
        for name in total:
            total[name] += getattr(swarm.counts, name)
    assert min(total.values()) > 0, total
