"""P8 and P7: damage to what was durable is refused or reported, and never becomes another state."""

import random
from copy import deepcopy

import pytest

from daybook.engine.state.digest import digest
from daybook.journal.errors import JournalError
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.verify import verify
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.directory import RecoveryError
from tests.simulation.machine.disk import FaultyDisk
from tests.simulation.simulation import DATA_ID, Simulation
from tests.support.stored.recovering import recover

SEEDS = range(6)
FLIPS = 60


def after_clean_stop(seed: int) -> tuple[FaultyDisk, str]:
    """A disk that a simulated broker left behind, and the digest of its state."""
    simulation = Simulation(seed)
    simulation.run_unsettled(3_000)
    simulation.stop()
    simulation.disk.faults = type(simulation.disk.faults)()
    return simulation.disk, digest(simulation.judge.folded)


def recovered_digest(disk: FaultyDisk) -> str:
    """The digest of what recovery makes of the disk, or what it says when it refuses."""
    try:
        return digest(recover(disk, data_id=DATA_ID, segment_bytes=8_192).state)
    except (JournalError, RecoveryError) as error:
        return str(error)


@pytest.mark.parametrize("seed", SEEDS)
def test_flipped_bit_is_refused_or_reported(seed: int) -> None:
    disk, before = after_clean_stop(seed)
    assert verify(disk).ok
    assert recovered_digest(deepcopy(disk)) == before
    events_at = [
        (block.segment, block.offset, block.offset + block.header.block_bytes)
        for block in read_blocks(disk, LAYOUT)
        if block.count
    ]
    chance = random.Random(seed)
    for _ in range(FLIPS):
        name, start, end = chance.choice(events_at)
        bit = chance.randrange(start * 8, end * 8)
        damaged = deepcopy(disk)
        damaged.flip(name, bit)
        report = verify(damaged)
        assert [fault for fault in report.faults if fault.segment == name], (name, bit)
        assert name in recovered_digest(damaged)


@pytest.mark.parametrize("seed", SEEDS)
def test_flipped_bit_anywhere_never_changes_the_state_unseen(seed: int) -> None:
    disk, before = after_clean_stop(seed)
    chance = random.Random(seed)
    names = [name for name in disk.names() if name.endswith(".seg")]
    for _ in range(FLIPS):
        damaged = deepcopy(disk)
        name = chance.choice(names)
        file = damaged.open(name)
        damaged.flip(name, chance.randrange(file.size() * 8))
        found = recovered_digest(damaged)
        assert found == before or name in found
