"""Content to carry before segments can leave: all that is queued in them, and nothing else."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daybook.engine.administration.retention_commands import CarryChunk
from daybook.engine.facts.events import chunk_lsns
from daybook.paging.retention.survey import Survey
from daybook.paging.tables.checked import Transaction
from tests.support.compiled import replaces_parts
from tests.support.stored.retention_world import RetentionWorld
from tests.support.world import World

ANYCAST = "anycast"


@pytest.fixture
def retention(tmp_path: Path) -> Iterator[RetentionWorld]:
    with closing(RetentionWorld(tmp_path / "data", World())) as made:
        yield made


def ids(retention: RetentionWorld, last_lsn: int) -> list[int]:
    retention.write()
    return sorted(place.message for place in retention.places(last_lsn))


def test_only_what_is_queued_and_before_the_limit(retention: RetentionWorld) -> None:
    world = retention.world
    first = world.send("q", b"1", routing_type=ANYCAST)
    second = world.send("q", b"2", routing_type=ANYCAST)
    third = world.send("q", b"3", routing_type=ANYCAST)
    assert ids(retention, second) == [first, second]
    assert ids(retention, first - 1) == []
    connection = world.connect()
    consumer = world.attach(connection, "q", credit_messages=2)
    assert ids(retention, third) == [first, second, third], "what is in flight is queued"
    world.ack(consumer, first)
    assert ids(retention, third) == [second, third]


def test_what_was_carried_is_elsewhere(retention: RetentionWorld) -> None:
    message = retention.world.send("q", b"1", routing_type=ANYCAST)
    retention.write()
    last = retention.world.broker.lsn
    assert retention.carry(last) == 1
    assert ids(retention, last) == []
    assert ids(retention, retention.world.broker.lsn) == [message]


def test_what_has_no_body_in_the_journal_is_left_alone(retention: RetentionWorld) -> None:
    message = retention.world.send("q", b"1", routing_type=ANYCAST, persistent=False)
    assert ids(retention, message) == []


def test_a_large_message_that_begins_before_the_limit(retention: RetentionWorld) -> None:
    world = retention.world
    message = world.send_large("q", [b"one", b"two"], routing_type=ANYCAST)
    first = world.journal[message - 1].decoded.chunks[0]
    assert ids(retention, first - 1) == []
    assert ids(retention, first) == [message], "its Routed stays, its first chunk does not"
    retention.write()
    ((place),) = retention.places(first)
    assert (place.lsn, place.first) == (message, first)
    world.attach(world.connect(), "q", credit_messages=1)
    assert ids(retention, first) == [message], "in flight"
    world.ack(max(world.state.consumers), message)
    assert ids(retention, first) == []


def test_a_large_message_whose_carried_chunks_begin_before_the_limit(
    retention: RetentionWorld,
) -> None:
    """It is carried again: carried content can leave like everything else."""
    world = retention.world
    message = world.send_large("q", [b"one", b"two"], routing_type=ANYCAST)
    retention.write()
    retention.carry(message)
    new = chunk_lsns(world.journal[-1].decoded)
    assert ids(retention, new[0] - 1) == []
    assert ids(retention, new[0]) == [message]
    retention.carry(new[0])
    assert ids(retention, new[0]) == []


def test_each_segment_is_weighed(retention: RetentionWorld) -> None:
    world = retention.world
    world.send("q", b"q" * 5000, routing_type=ANYCAST)
    while len(retention.disk.names()) < 5:
        world.ok(CarryChunk(bytes(range(256)) * 16))
        world.ok(CarryChunk(retention._random.randbytes(4000)))
        retention.write()
    last = world.broker.lsn
    with closing(Survey.of(retention.data, last)) as survey:
        weights = survey.weigh()
    assert weights[0].first_lsn == 1
    assert 5000 <= weights[0].queued_bytes < 5100
    assert weights[0].bytes > weights[0].queued_bytes
    assert weights[1].queued_bytes == 0
    assert weights[1].bytes > 4000


def test_a_message_in_two_queues_weighs_once(retention: RetentionWorld) -> None:
    world = retention.world
    for name in ("one", "two"):
        world.attach(world.connect(), "news", routing_type="multicast", durable_name=name)
    message = world.send("news", b"x" * 1000, routing_type="multicast")
    retention.write()
    with closing(Survey.of(retention.data, message)) as survey:
        assert survey.count() == 2
        assert 1000 <= survey.weigh()[0].queued_bytes < 1100


@replaces_parts
def test_a_large_message_is_looked_for_where_it_was_routed(
    retention: RetentionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in all queues: there may be as many large messages, and their copies, as queues."""
    world = retention.world
    for number in range(20):
        world.send(f"other{number}", b"x", routing_type=ANYCAST)
    message = world.send_large("q", [b"one", b"two"], routing_type=ANYCAST)
    first = world.journal[message - 1].decoded.chunks[0]
    looked = []
    known = Survey._is_queued

    def look(self: Survey, txn: Transaction, queue: int, priority: int, message_id: int) -> bool:
        looked.append(queue)
        return known(self, txn, queue, priority, message_id)

    monkeypatch.setattr(Survey, "_is_queued", look)
    retention.write()
    with closing(Survey.of(retention.data, first)) as survey:
        assert survey.count() == 21
    assert looked == [world.queue("q").id]
