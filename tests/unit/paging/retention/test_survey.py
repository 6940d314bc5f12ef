"""What must be carried before segments can leave: all that is queued in them, and nothing else."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daybook.engine.administration.retention_commands import CarryChunk
from daybook.engine.facts.events import chunk_lsns
from daybook.paging.retention.survey import Survey
from daybook.paging.tables.checked import Transaction
from tests.support.compiled import replaces_parts
from tests.support.stored.leaving import Leaving
from tests.support.world import World

ANYCAST = "anycast"


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[Leaving]:
    with closing(Leaving(tmp_path / "data", World())) as made:
        yield made


def ids(leaving: Leaving, last_lsn: int) -> list[int]:
    leaving.write()
    return sorted(place.message for place in leaving.places(last_lsn))


def test_only_what_is_queued_and_before_the_limit(leaving: Leaving) -> None:
    world = leaving.world
    first = world.send("q", b"1", routing_type=ANYCAST)
    second = world.send("q", b"2", routing_type=ANYCAST)
    third = world.send("q", b"3", routing_type=ANYCAST)
    assert ids(leaving, second) == [first, second]
    assert ids(leaving, first - 1) == []
    connection = world.connect()
    consumer = world.attach(connection, "q", credit_messages=2)
    assert ids(leaving, third) == [first, second, third], "what is in flight is queued"
    world.ack(consumer, first)
    assert ids(leaving, third) == [second, third]


def test_what_was_carried_is_elsewhere(leaving: Leaving) -> None:
    message = leaving.world.send("q", b"1", routing_type=ANYCAST)
    leaving.write()
    last = leaving.world.broker.lsn
    assert leaving.carry(last) == 1
    assert ids(leaving, last) == []
    assert ids(leaving, leaving.world.broker.lsn) == [message]


def test_what_has_no_body_in_the_journal_is_left_alone(leaving: Leaving) -> None:
    message = leaving.world.send("q", b"1", routing_type=ANYCAST, persistent=False)
    assert ids(leaving, message) == []


def test_a_large_message_that_begins_before_the_limit(leaving: Leaving) -> None:
    world = leaving.world
    message = world.send_large("q", [b"one", b"two"], routing_type=ANYCAST)
    first = world.journal[message - 1].decoded.chunks[0]
    assert ids(leaving, first - 1) == []
    assert ids(leaving, first) == [message], "its Routed stays, its first chunk does not"
    leaving.write()
    ((place),) = leaving.places(first)
    assert (place.lsn, place.first) == (message, first)
    world.attach(world.connect(), "q", credit_messages=1)
    assert ids(leaving, first) == [message], "in flight"
    world.ack(max(world.state.consumers), message)
    assert ids(leaving, first) == []


def test_a_large_message_whose_carried_chunks_begin_before_the_limit(leaving: Leaving) -> None:
    """It is carried again: what was carried once can leave like everything else."""
    world = leaving.world
    message = world.send_large("q", [b"one", b"two"], routing_type=ANYCAST)
    leaving.write()
    leaving.carry(message)
    new = chunk_lsns(world.journal[-1].decoded)
    assert ids(leaving, new[0] - 1) == []
    assert ids(leaving, new[0]) == [message]
    leaving.carry(new[0])
    assert ids(leaving, new[0]) == []


def test_each_segment_is_weighed(leaving: Leaving) -> None:
    world = leaving.world
    world.send("q", b"q" * 5000, routing_type=ANYCAST)
    while len(leaving.disk.names()) < 5:
        world.ok(CarryChunk(bytes(range(256)) * 16))
        world.ok(CarryChunk(leaving._random.randbytes(4000)))
        leaving.write()
    last = world.broker.lsn
    with closing(Survey.of(leaving.data, last)) as survey:
        weights = survey.weigh()
    assert weights[0].first_lsn == 1
    assert 5000 <= weights[0].queued_bytes < 5100
    assert weights[0].bytes > weights[0].queued_bytes
    assert weights[1].queued_bytes == 0
    assert weights[1].bytes > 4000


def test_a_message_in_two_queues_weighs_once(leaving: Leaving) -> None:
    world = leaving.world
    for name in ("one", "two"):
        world.attach(world.connect(), "news", routing_type="multicast", durable_name=name)
    message = world.send("news", b"x" * 1000, routing_type="multicast")
    leaving.write()
    with closing(Survey.of(leaving.data, message)) as survey:
        assert survey.count() == 2
        assert 1000 <= survey.weigh()[0].queued_bytes < 1100


@replaces_parts
def test_a_large_message_is_looked_for_where_it_was_routed(
    leaving: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in all queues: there may be as many large messages, and their copies, as queues."""
    world = leaving.world
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
    leaving.write()
    with closing(Survey.of(leaving.data, first)) as survey:
        assert survey.count() == 21
    assert looked == [world.queue("q").id]
