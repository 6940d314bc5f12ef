"""An event that does not fit the state is reported and not papered over."""

import pytest

from daybook.engine.commands import CreateAddress
from daybook.engine.facts import events
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.state.apply import APPLY, apply
from daybook.engine.state.state import State
from tests.support.world import World, fold


def test_every_kind_can_be_applied() -> None:
    assert set(APPLY) == set(events.BY_NUMBER)


def test_a_prefix_left_out_is_noticed(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    world.ack(consumer, message)
    for start in range(2, len(world.journal)):
        with pytest.raises(MismatchError, match=r"event \d+"):
            fold(world.journal[start:])


@pytest.mark.parametrize(
    "values",
    [
        {"kind": events.ROUTED, "queue": 99, "message": 1},
        {"kind": events.DELIVERED, "queue": 99},
        {"kind": events.ACKNOWLEDGED, "queue": 1, "message": 99},
        {"kind": events.CONNECTION_CLOSED, "connection": 99},
        {"kind": events.CONSUMER_ATTACHED, "connection": 99},
        {"kind": events.ADDRESS_UPDATED, "address": 99},
        {"kind": events.QUEUE_PAUSED, "queue": 99},
        {"kind": 19},
        {"kind": 255},
    ],
)
def test_what_does_not_exist(values: dict[str, int]) -> None:
    with pytest.raises(MismatchError, match="event 7"):
        apply(State(), 7, events.row(**values), b"", b"", b"")


def test_a_detail_that_cannot_be_decoded() -> None:
    row = events.row(events.ADDRESS_CREATED, address=1)
    with pytest.raises(MismatchError, match="AddressCreated"):
        apply(State(), 7, row, b"\xc1", b"", b"")


def test_what_is_not_in_flight_is_not_given_back(world: World) -> None:
    message = world.send("q", b"x")
    queue = world.queue("q").id
    consumer = world.attach(world.connect(), "q")
    delivered = next(event for event in world.journal if event.name == "Delivered")
    state = fold(world.journal)
    with pytest.raises(MismatchError, match="not ready"):
        apply(state, 99, delivered.row, b"", b"", b"")
    row = events.row(events.RETURNED, queue=queue, message=message)
    apply(state, 99, row, b"", b"", b"")
    with pytest.raises(MismatchError, match="in flight to nobody"):
        apply(state, 100, row, b"", b"", b"")
    assert consumer in state.consumers


def test_what_is_in_use_does_not_go(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "q")
    world.send("q", b"x")
    queue = world.queue("q")
    for row in (
        events.row(events.CONNECTION_CLOSED, connection=connection),
        events.row(events.CONSUMER_DETACHED, consumer=consumer),
        events.row(events.QUEUE_DELETED, queue=queue.id),
        events.row(events.ADDRESS_DELETED, address=queue.address.id),
    ):
        with pytest.raises(MismatchError):
            apply(fold(world.journal), 99, row, b"", b"", b"")


def test_counters_count(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_policy": "DROP"})
    consumer = world.attach(world.connect(), "q")
    world.ack(consumer, world.send("q", b"1"))
    world.nack(consumer, world.send("q", b"2"))
    world.detach(consumer)
    world.send("q", b"3", expires=1)
    world.attach(world.connect(), "q")
    queue = world.queue("q")
    assert (queue.added, queue.acknowledged, queue.dead_lettered, queue.expired) == (3, 1, 1, 1)


def test_headers_and_bodies_that_were_not_journaled_are_not_needed(world: World) -> None:
    world.send("q", b"body", persistent=False, headers={"a": "b"})
    event = world.journal[-1]
    assert (event.headers, event.body) == (b"", b"")
    assert event.row[events.FLAGS] == events.BODY_OMITTED
    assert fold(world.journal).queue_by_name["q"].ready_count == 1


def test_nothing_but_knowledge(world: World) -> None:
    world.ok(CreateAddress("a", ("multicast",)))
    state = fold(world.journal)
    for kind in (events.DROPPED, events.TRANSACTION_COMMITTED, events.BROKER_STOPPED):
        apply(state, 99, events.row(kind, address=1), b"", b"", b"")
    assert list(state.addresses) == [1]
