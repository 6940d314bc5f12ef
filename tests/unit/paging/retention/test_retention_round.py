"""The steps of a round: in which order they come, and what may happen in between."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from daybook.engine.commands import ActOnMessages, Settle
from daybook.engine.core.residency import page_out
from daybook.engine.facts.settlements import FAILED
from daybook.engine.messages.annotations import unpacked
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import Queue
from daybook.engine.queues.window import Window
from daybook.journal.retention import Limits
from daybook.journal.segments.segment import segment_names
from daybook.paging.content.content import ContentReader
from daybook.paging.retention.retention_round import (
    AskFirstChunk,
    AwaitIndex,
    ChooseSegments,
    Do,
    Find,
    FindResident,
    Look,
    Read,
    Remove,
    Retire,
    Rounds,
    Step,
    Weigh,
    Where,
)
from daybook.paging.tables.layout import LAYOUT
from tests.support.stored.retention_world import SEGMENT_BYTES, RetentionWorld
from tests.support.world import World

PIECES = [b"one" * 100, b"two" * 100]


class OpenedEachTime:
    """The index as the store of a world, open only while it is asked: others open it, too."""

    def __init__(self, retention: RetentionWorld) -> None:
        self._retention = retention

    def __getattr__(self, name: str) -> Any:
        with closing(self._retention.store()) as store:
            found = getattr(store, name)
        return self._call(name) if callable(found) else found

    def _call(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            with closing(self._retention.store()) as store:
                return getattr(store, name)(*arguments)

        return call


@pytest.fixture
def retention(tmp_path: Path) -> Iterator[RetentionWorld]:
    """A large message in queue `q` that only the index has, in a segment that can leave."""
    world = World()
    with closing(RetentionWorld(tmp_path / "data", world)) as made:
        world.send_large("q", PIECES, routing_type="anycast")
        world.send("r", made._random.randbytes(SEGMENT_BYTES), routing_type="anycast")
        made.write()
        world.state.attach_store(OpenedEachTime(made))
        page_out(world.queue("q"), world.broker.lsn, 0, 0)
        assert world.queue("q").paged_count == 1
        yield made


def body_of(retention: RetentionWorld, entry: Entry) -> bytes:
    with closing(ContentReader(retention.disk, LAYOUT)) as reader:
        return b"".join(reader.chunks(entry.message.chunks, 0))


@pytest.mark.parametrize(
    ("kind", "nth"),
    [
        (Look, 1), (ChooseSegments, 1), (Weigh, 1), (Find, 1), (Where, 1), (Read, 1), (Read, 2),
        (Do, 1), (Do, 2), (Do, 3), (AwaitIndex, 1), (FindResident, 1),
        (AwaitIndex, 2), (Retire, 1), (AskFirstChunk, 1), (Remove, 1),
    ],
)  # fmt: skip
def test_a_large_message_comes_into_memory_before_any_step(
    retention: RetentionWorld, kind: type[Step], nth: int
) -> None:
    queue = retention.world.queue("q")
    came: list[Entry] = []
    seen = 0

    def meanwhile(step: Step) -> None:
        nonlocal seen
        seen += isinstance(step, kind)
        if seen == nth and not came:
            entry = queue.head()
            assert entry is not None
            came.append(entry)

    assert retention.round(9, meanwhile)
    assert came[0].message.chunks[0] > retention.removed_lsn
    assert body_of(retention, came[0]) == b"".join(PIECES)
    with closing(retention.store()) as store:
        assert stored(store, queue) == [came[0].message.id]


def stored(store: Any, queue: Queue) -> list[int]:
    """Messages that the index gives, read to the end of their bodies."""
    others = Queue(queue.id, queue.definition, queue.address)
    found = [
        entry
        for priority in range(PRIORITIES)
        for entry in store.load(others, priority, 0, Window()).entries
    ]
    assert all(store.content.chunks(entry.message.chunks, 0) for entry in found)
    return [entry.message.id for entry in found]


def test_what_is_annotated_while_chunks_are_located_has_the_new_ones(
    retention: RetentionWorld,
) -> None:
    """It has another message object then, made of the one that was found."""
    world = retention.world
    consumer = world.attach(world.connect(), "q", credit_messages=1)
    message = next(iter(world.state.consumers[consumer].unacked))
    noted = 0

    def meanwhile(step: Step) -> None:
        nonlocal noted
        if isinstance(step, Where):
            noted += 1
            world.ok(Settle(consumer, message, outcome=FAILED, annotations={noted: "x"}))

    assert retention.round(9, meanwhile)
    assert noted
    (entry,) = [each for each in world.entries("q") if each.message.id == message]
    assert len(unpacked(entry.message.annotations)) == noted
    assert body_of(retention, entry) == b"".join(PIECES)
    assert entry.message.chunks[0] > retention.removed_lsn


def test_what_is_dead_lettered_meanwhile_holds_its_chunks_until_it_is_carried(
    retention: RetentionWorld,
) -> None:
    """Its copy refers to the old chunks, by an event that no survey has seen."""
    world = retention.world
    world.settings(all={"max-delivery-attempts": 1, "dead-letter-address": "dead"})
    consumer = world.attach(world.connect(), "q", credit_messages=1)
    message = next(iter(world.state.consumers[consumer].unacked))

    def meanwhile(step: Step) -> None:
        if isinstance(step, FindResident) and message in world.queue("q").entries:
            world.nack(consumer, message)

    assert retention.round(9, meanwhile)
    (copy,) = world.entries("dead")
    assert body_of(retention, copy) == b"".join(PIECES)
    assert copy.message.chunks[0] > retention.removed_lsn


def test_a_body_that_is_sent_when_all_is_proven_holds_its_segments(
    retention: RetentionWorld,
) -> None:
    def meanwhile(step: Step) -> None:
        if isinstance(step, AskFirstChunk):
            retention.first_chunk = 3

    names = segment_names(retention.disk)
    assert not retention.round(9, meanwhile)
    assert segment_names(retention.disk)[: len(names)] == names


def test_chunks_that_left_before_do_not_hold_history(retention: RetentionWorld) -> None:
    """A loss is reported once, the headers stay, and retention continues."""
    first = retention.world.journal[-1].lsn
    rounds = Rounds()
    warnings = []
    for _ in range(2):
        for step in rounds.round(Limits(max_bytes=0), ""):
            retention.perform(step, 9)
            if isinstance(step, ChooseSegments):
                # As if it began behind the large message.
                step.first_lsn = first
        warnings += retention.warnings
        retention.warnings.clear()
        retention.write()
    (said,) = warnings
    assert "of its body is not in the journal" in said


def test_a_dead_letter_that_was_carried_goes_back_to_where_it_was(tmp_path: Path) -> None:
    world = World()
    with closing(RetentionWorld(tmp_path / "data", world)) as made:
        world.settings(all={"max-delivery-attempts": 1, "dead-letter-address": "dead"})
        consumer = world.attach(world.connect(), "q", credit_messages=1)
        world.send("q", b"x", routing_type="anycast", headers={"_AMQ_ORIG_ADDRESS": "payroll"})
        (delivery,) = world.taken(consumer)
        world.nack(consumer, delivery.message)
        (entry,) = world.entries("dead")
        origin = entry.message.origin
        assert origin is not None
        for _ in range(2):
            filling = made._random.randbytes(SEGMENT_BYTES)
            world.send("r", filling, routing_type="anycast")
            made.write()
            assert made.round(9)
        assert made.removed_lsn > entry.message.id
        assert made.carried >= 2
        world.state.attach_store(OpenedEachTime(made))
        page_out(world.queue("dead"), world.broker.lsn, 0, 0)
        (found,) = world.entries("dead")
        assert world.broker.origin_of(found.message) == origin
        command = ActOnMessages("dead", "retry")
        world.ok(command)
        assert command.acted == 1
        assert world.bodies("q") == [b"x"]
