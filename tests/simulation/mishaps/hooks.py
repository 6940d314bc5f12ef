"""Where tests plant mistakes of their own into a simulated run."""

from collections.abc import Callable

import msgspec

from daybook.paging.retention.retention_round import Rounds
from daybook.recovery.directory import Recovered
from tests.simulation.judges.checkers import Judge
from tests.simulation.machine.disk import FaultyDisk
from tests.simulation.machine.incarnation import WriterFactory
from tests.simulation.machine.paging import SimulatedIndex
from tests.simulation.machine.writer import SteppedWriter
from tests.support.stored.recovering import recover

Recover = Callable[..., Recovered]
Disk = Callable[..., FaultyDisk]
IndexFactory = Callable[[int, bytes, Judge], SimulatedIndex]


class Hooks(msgspec.Struct):
    """Where a test plants a mistake of its own, to see whether the checkers find it."""

    recover: Recover = recover
    make_writer: WriterFactory = SteppedWriter
    make_disk: Disk = FaultyDisk
    counts_are_durable: bool | None = None
    make_index: IndexFactory = SimulatedIndex
    pages: bool | None = None
    make_rounds: Callable[[], Rounds] = Rounds
    # Features that are left out although the seed draws them.
    without: frozenset[str] = frozenset()
