"""Do the checkers bite? Mistakes are planted around the broker; each must be found soon.

The broker's code is not touched: a mistake is a writer, a recovery or a disk that does almost what
the real one does.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec
import pytest

from daybook.engine.facts import events
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.queues.entry import IN_FLIGHT
from daybook.engine.queues.queue import Loaded, Queue, StoreError
from daybook.engine.queues.window import Window
from daybook.engine.routing import routing
from daybook.engine.state.apply import apply
from daybook.engine.state.state import State
from daybook.journal.blocks.batch import BatchLike
from daybook.journal.errors import Corruption
from daybook.journal.segments.reader import read_blocks
from daybook.paging.content.store import IndexStore
from daybook.paging.retention.retention_round import Find, Look, Retire, Rounds
from daybook.paging.tables.layout import LAYOUT
from daybook.protocols.port import DeliveredMessage
from daybook.protocols.stomp.subscription import Subscription
from daybook.recovery.directory import Recovered, RecoveryError
from daybook.recovery.fold import FoldError
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.disk import FaultyDisk, FaultyFile
from tests.simulation.machine.paging import SimulatedIndex
from tests.simulation.machine.writer import SteppedWriter
from tests.simulation.mishaps.hooks import Hooks
from tests.simulation.seeds import HARDENED_FROM, RESENDING_FROM
from tests.simulation.simulation import Simulation
from tests.support.compiled import replaces_parts
from tests.support.stored.recovering import recover

STEPS = 5_000
SEEDS_MAX = 30
PAUSES = 120


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


class SpoilingDisk(FaultyDisk):
    """A disk whose torn writes spoil their device block, below blocks that share one."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **{**options, "collateral_bytes": 4096})


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
    "a torn write spoils what is beside it": Hooks(make_disk=SpoilingDisk),
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
    except (Violation, MismatchError, FoldError, RecoveryError, StoreError, Corruption):
        return True
    return False


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistake_is_found(mistake: str) -> None:
    assert any(is_found(PLANTED[mistake], seed) for seed in range(SEEDS_MAX))


@pytest.mark.parametrize("mistake", PLANTED_AMONG_IDS)
def test_planted_mistake_among_ids_is_found(mistake: str) -> None:
    seeds = range(RESENDING_FROM, RESENDING_FROM + SEEDS_MAX)
    assert any(is_found(PLANTED_AMONG_IDS[mistake], seed) for seed in seeds)


class AnyCrc:
    """Equal to every crc."""

    def __ne__(self, other: object) -> bool:
        return False


def test_damage_that_is_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Content is read without looking at its crc, while bits turn under the running broker."""
    monkeypatch.setattr("daybook.paging.content.content.frame_crc", lambda frame: AnyCrc())

    def invents(seed: int) -> bool:
        simulation = Simulation(seed, Hooks(pages=True))
        assert simulation.hardships is not None
        simulation.hardships.only_damage()
        try:
            simulation.run(STEPS)
        except (Violation, ValueError, msgspec.DecodeError):
            return True
        return False

    assert any(invents(HARDENED_FROM + number) for number in range(SEEDS_MAX))


def test_qualified_name_that_means_any_queue_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`address::queue` is taken for `address`, so that its queues take turns."""
    send_to = routing._send_to
    monkeypatch.setattr(
        "daybook.engine.routing.routing._send_to",
        lambda core, command, address, others, queue=None: send_to(core, command, address, others),
    )
    assert any(is_found(Hooks(), HARDENED_FROM + number) for number in range(SEEDS_MAX))


@replaces_parts
def test_attempts_that_are_all_the_first_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a MESSAGE does not wait for its count."""
    deliver = Subscription.deliver

    def deliver_afresh(
        self: Subscription, message: DeliveredMessage, count: int, redelivered: bool, gate: int
    ) -> None:
        deliver(self, message, 1, redelivered, gate)

    monkeypatch.setattr(Subscription, "deliver", deliver_afresh)
    undurable = (seed for seed in range(400) if not Simulation(seed).judge.counts_are_durable)
    assert any(is_found(Hooks(), seed) for seed in islice(undurable, SEEDS_MAX))


class SlowRounds(Rounds):
    """Pauses between its steps, which is allowed."""

    def _locate_chunks(self, last_lsn: int, indexed_lsn: int) -> Any:
        yield from super()._locate_chunks(last_lsn, indexed_lsn)
        for _ in range(PAUSES):
            yield Look()


class HastyRounds(SlowRounds):
    """Sets the chunks of what is in memory before the index knows of the new ones."""

    def _await_index(self) -> Any:
        yield from ()
        return 1 << 63


class ForgetfulRounds(Rounds):
    """Leaves messages in memory with the chunks that they had."""

    def _locate_chunks(self, last_lsn: int, indexed_lsn: int) -> Any:
        yield from ()


class LazyRounds(Rounds):
    """Carries nothing, and believes that nothing is left."""

    def round(self, limits: Any, archive: str) -> Any:
        for step in super().round(limits, archive):
            if isinstance(step, Find):
                step.places = None
                continue
            yield step
            if isinstance(step, Retire):
                step.left = 0


ROUNDS = {HastyRounds: 49, ForgetfulRounds: 22, LazyRounds: 3}
"""With the seed, from HARDENED_FROM on, that is tried first, because it found each once."""


@pytest.mark.parametrize("rounds", ROUNDS, ids=lambda rounds: rounds.__name__)
def test_planted_mistake_in_a_round_of_retention_is_found(rounds: type[Rounds]) -> None:
    hooks = Hooks(make_rounds=rounds, pages=True)
    numbers = (ROUNDS[rounds], *range(SEEDS_MAX))
    assert any(is_found(hooks, HARDENED_FROM + number) for number in numbers)


def test_rounds_that_are_only_slow_break_nothing() -> None:
    hooks = Hooks(make_rounds=SlowRounds, pages=True)
    assert not any(is_found(hooks, HARDENED_FROM + number) for number in ROUNDS.values())
