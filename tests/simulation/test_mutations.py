"""Do the checkers bite? Mistakes are planted around the broker; each must be found soon.

The broker's code is not touched: a mistake is a writer, a recovery or a disk that does almost what
the real one does.
"""

from collections.abc import Callable
from typing import Any

import pytest

from engine import events
from engine.apply import MisfitError, apply
from engine.message import IN_FLIGHT
from engine.queues import Loaded, Queue, StoreError, Window
from engine.state import State
from journal.batch import BatchLike
from journal.reader import read_blocks
from paging.layout import LAYOUT
from paging.store import IndexStore
from recovery.directory import Recovered, RecoveryError, recover
from recovery.fold import FoldError
from tests.simulation.disk import FaultyDisk, FaultyFile
from tests.simulation.paging import SimulatedIndex
from tests.simulation.simulation import RESENDING_FROM, Hooks, Simulation
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


def returned(row: events.Row) -> bool:
    return row[events.KIND] == events.RETURNED


def recorded(row: events.Row) -> bool:
    return row[events.KIND] == events.DUPLICATE_ID_RECORDED


class BoastfulStore(IndexStore):
    """Says that more is indexed than is, so that entries leave memory which nobody has."""

    @property
    def indexed_lsn(self) -> int:
        return super().indexed_lsn + 40


class ForgetfulStore(IndexStore):
    """Gives back what left the queue since the last commit."""

    def load(self, queue: Queue, priority: int, after: int, window: Window) -> Loaded:
        gone, queue.gone = queue.gone, {}
        try:
            return super().load(queue, priority, after, window)
        finally:
            queue.gone = gone


class SkippingStore(IndexStore):
    """A window that leaves out the one after its last."""

    def load(self, queue: Queue, priority: int, after: int, window: Window) -> Loaded:
        loaded = super().load(queue, priority, after, window)
        entries = loaded.entries
        if len(entries) > 1:
            return Loaded(entries[:-1], entries[-1].message.id)
        return loaded


class UncountedStore(IndexStore):
    """Entries come back as if nobody had ever tried to deliver them."""

    def load(self, queue: Queue, priority: int, after: int, window: Window) -> Loaded:
        loaded = super().load(queue, priority, after, window)
        for entry in loaded.entries:
            entry.delivery_count = 0
        return loaded


class FlightlessStore(IndexStore):
    """The checkpoint has lost what is in flight."""

    def checkpoint(self) -> State:
        state = super().checkpoint()
        for consumer in state.consumers.values():
            consumer.unacked.clear()
        for queue in state.queues.values():
            for message_id in [m for m, e in queue.entries.items() if e.state == IN_FLIGHT]:
                del queue.entries[message_id]
        return state


class IdlessStore(IndexStore):
    """The checkpoint has lost what addresses remember."""

    def checkpoint(self) -> State:
        state = super().checkpoint()
        for address in state.addresses.values():
            address.ids = None
        return state


def paged_by(store: type[IndexStore]) -> Hooks:
    """A broker that pages into a store with a mistake."""

    class Mistaken(SimulatedIndex):
        store_type = store

    return Hooks(make_index=Mistaken, pages=True)


PLANTED = {
    "bytes leave before the sync": Hooks(make_writer=HastyWriter),
    "fdatasync does nothing": Hooks(make_disk=UnsyncedDisk),
    "recovery leaves out the last block": Hooks(
        recover=refolded(lambda _: False, last_block=False)
    ),
    "the fold ignores Returned": Hooks(recover=refolded(returned)),
    "MESSAGE does not wait for its count": Hooks(counts_are_durable=True),
    "what is not indexed leaves memory": paged_by(BoastfulStore),
    "what is gone comes back from the index": paged_by(ForgetfulStore),
    "a window skips one": paged_by(SkippingStore),
    "delivery counts do not come back": paged_by(UncountedStore),
    "the checkpoint forgets what is in flight": paged_by(FlightlessStore),
}
PLANTED_AMONG_IDS = {
    "the fold forgets ids": Hooks(recover=refolded(recorded)),
    "the checkpoint forgets ids": paged_by(IdlessStore),
}
"""To be found where messages are sent again."""


def is_found(hooks: Hooks, seed: int) -> bool:
    """Whether a run fails, or the broker itself notices that something does not fit."""
    try:
        Simulation(seed, hooks).run(STEPS)
    except (Violation, MisfitError, FoldError, RecoveryError, StoreError):
        return True
    return False


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistake_is_found(mistake: str) -> None:
    assert any(is_found(PLANTED[mistake], seed) for seed in range(SEEDS_MAX))


@pytest.mark.parametrize("mistake", PLANTED_AMONG_IDS)
def test_planted_mistake_among_ids_is_found(mistake: str) -> None:
    seeds = range(RESENDING_FROM, RESENDING_FROM + SEEDS_MAX)
    assert any(is_found(PLANTED_AMONG_IDS[mistake], seed) for seed in seeds)
