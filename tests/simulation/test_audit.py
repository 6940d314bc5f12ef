"""The audit gives no false alarm about a broker on a bad disk, with kills and torn tails."""

import pytest

from daybook.engine.core.core import Options
from daybook.engine.state.state import State
from daybook.history.audit.judge import Clock, Judge
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.tables.layout import LAYOUT
from tests.simulation.simulation import Simulation
from tests.support.auditing import LATER
from tests.support.world import SECOND

STEPS = 1_200


@pytest.mark.parametrize("seed", [3, 15, 21, 30])
def test_what_a_simulated_broker_decides_is_allowed(seed: int) -> None:
    """Its administrators purge queues without the record of a request."""
    simulation = Simulation(seed)
    simulation.run(STEPS)
    assert first_lsn_of(simulation.disk) == 1
    judge = Judge(State(), 0, Options(), Clock(LATER, SECOND))
    found = [
        breach
        for block in read_blocks(simulation.disk, LAYOUT)
        if block.count
        for breach in judge.judge(list(block.events()))
    ]
    assert judge.judged > 0
    assert [each for each in found if each.rule != "requested"] == []
