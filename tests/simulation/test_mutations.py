"""Do the checkers bite? Mistakes are planted around the broker; each must be found soon.

The broker's code is not touched: a mistake is a writer, a recovery or a disk that does almost what
the real one does.
"""

from collections.abc import Callable
from typing import Any

import pytest

from engine import events
from engine.apply import MisfitError, apply
from engine.state import State
from journal.batch import BatchLike
from journal.reader import read_blocks
from paging.layout import LAYOUT
from recovery.directory import Recovered, recover
from tests.simulation.disk import FaultyDisk, FaultyFile
from tests.simulation.simulation import Hooks, Simulation
from tests.simulation.violation import Violation
from tests.simulation.writer import SteppedWriter

STEPS = 5_000
SEEDS_MAX = 30


class HastyWriter(SteppedWriter):
    """Says that a block is durable as soon as it has it, as an outbox that releases early."""

    def submit(self, batch: BatchLike) -> None:
        super().submit(batch)
        self.tell("durable", batch.first_lsn + len(batch.rows) - 1)


class UnsyncedFile(FaultyFile):
    """A file whose fdatasync does nothing, as on a disk that lies about its cache."""

    def fdatasync(self) -> None:
        self._disk.check_power()


class UnsyncedDisk(FaultyDisk):
    """A disk of such files."""

    def open_for_writing(self, name: str) -> FaultyFile:
        super().open_for_writing(name)
        return UnsyncedFile(self, self._files[name], name)


def refolded(skip: Callable[[events.Row], bool], *, last_block: bool = True) -> Any:
    """A recovery that leaves out some events, or the last block."""

    def recover_badly(disk: FaultyDisk, **options: Any) -> Recovered:
        recovered = recover(disk, **options)
        blocks = [block for block in read_blocks(disk, LAYOUT) if block.count]
        state = State()
        for block in blocks if last_block else blocks[:-1]:
            for event in block.events():
                if not skip(event[1]):
                    apply(state, *event)
        return recovered._replace(state=state)

    return recover_badly


def nothing(row: events.Row) -> bool:
    return False


def returned(row: events.Row) -> bool:
    return row[events.KIND] == events.RETURNED


PLANTED = {
    "bytes leave before the sync": Hooks(make_writer=HastyWriter),
    "fdatasync does nothing": Hooks(make_disk=UnsyncedDisk),
    "recovery leaves out the last block": Hooks(
        recover=refolded(lambda _: False, last_block=False)
    ),
    "the fold ignores Returned": Hooks(recover=refolded(returned)),
    "MESSAGE does not wait for its count": Hooks(counts_are_durable=True),
}


def is_found(hooks: Hooks, seed: int) -> bool:
    """Whether a run fails; a fold that leaves out events may also meet one that does not fit."""
    try:
        Simulation(seed, hooks).run(STEPS)
    except (Violation, MisfitError):
        return True
    return False


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistake_is_found(mistake: str) -> None:
    assert any(is_found(PLANTED[mistake], seed) for seed in range(SEEDS_MAX))
