"""Records decode to their source; anything else is damage with a name."""

import numpy as np
import pytest

from daybook.engine.facts.definitions import QueueDefinition, SharedTexts
from daybook.engine.facts.events import LARGE, PERSISTENT, REDELIVERED
from daybook.engine.facts.formats import FORMAT_SHIFT
from daybook.engine.messages.message import message_without_content
from daybook.engine.queues.entry import READY
from daybook.engine.state.digest import STATES, entry_hash
from daybook.paging.tables import pages, records
from daybook.paging.tables.records import (
    AddressRecord,
    FlightRecord,
    QueueRecord,
    entry_of,
    ready_entry,
)
from daybook.paging.tables.tables import IndexDamaged
from tests.support.world import World

FLIGHT = FlightRecord(1 << 60, 2, 9, 1, 1 << 40, 65535, 1 << 62)


def test_a_record_gives_back_what_it_was_made_of() -> None:
    assert records.decode(FlightRecord, records.encode(FLIGHT), "it") == FLIGHT


@pytest.mark.parametrize("length", [0, 3])
def test_what_is_too_short_is_damage(length: int) -> None:
    with pytest.raises(IndexDamaged, match="it cannot be read"):
        records.decode(FlightRecord, records.encode(FLIGHT)[:length], "it")


def test_a_record_of_another_kind_is_damage() -> None:
    with pytest.raises(IndexDamaged, match="it cannot be read"):
        records.decode(QueueRecord, records.encode(FLIGHT), "it")


def test_records_of_before_have_defaults_for_what_came_later() -> None:
    record = AddressRecord(1, "default", "orders", ("anycast",), True, [1], [])
    assert record.paging is False


def test_everything_that_there_is_becomes_a_record() -> None:
    world = World()
    world.settings(all={"max_delivery_attempts": 3})
    connection = world.connect(client_id="me")
    consumer = world.attach(connection, "orders", credit_messages=9, filter="kind=big")
    ids = [world.send("orders", headers={"kind": "big"}) for _ in range(2)]
    state = world.state
    queue = world.queue("orders")
    assert records.address_record(queue.address).anycast == [queue.id]
    assert records.connection_record(state.connections[connection]).client_id == "me"
    made = records.consumer_record(state.consumers[consumer])
    assert (made.queue, made.filter) == (queue.id, "kind=big")
    assert made.in_flight == b"".join(number.to_bytes(8, "little") for number in ids)
    flight = records.flight_record(queue.entries[ids[0]])
    assert (flight.consumer, flight.delivery_count) == (consumer, 1)
    settings = records.settings_record(state)
    assert settings.settings == {"#": {"max-delivery-attempts": 3}}
    assert settings.next_queue == queue.id + 1
    assert records.queue_record(queue, [], 5).added == 2


def test_an_entry_of_the_index_has_no_content() -> None:
    entry = ready_entry(7, 9, 300, 2, 4, 1, 99)
    message = entry.message
    assert (message.id, message.priority, message.size, message.address_id) == (7, 9, 300, 2)
    assert (entry.delivery_count, entry.state, message.expires) == (4, READY, 99)
    assert not message.resident


@pytest.mark.parametrize("content_format", range(8))
@pytest.mark.parametrize("level", [7, *sorted(STATES)])
def test_the_index_knows_flags_and_priority_in_every_level(level: int, content_format: int) -> None:
    flags = PERSISTENT | LARGE | content_format << FORMAT_SHIFT
    message = message_without_content(5, 1, 7, flags, 0, 300)
    entry = entry_of(message, level, 2, REDELIVERED)
    known = records.flags_of(entry)
    # Where there is one format, they are what they were before there were more.
    assert (known < 256) == (level == 7 or content_format == 0)
    found = ready_entry(5, level, 300, 1, 2, known, 0)
    assert (found.message.flags, found.message.priority) == (flags, 7)
    assert found.redelivered
    rows = pages.rows_of([(5, 300, 1, 2, known, 0, 0, 0)])
    [hashed] = pages.entry_hashes(np.array([9], pages.U32), np.array([level], pages.U8), rows)
    assert hashed == entry_hash(9, entry)


def test_the_attributes_of_a_queue_are_read_once() -> None:
    """Each commit writes the records of all queues that anything happened to."""
    world = World()
    for number in range(50):
        world.send(f"q{number}")
    for _ in range(2):
        before = records._beyond.cache_info().misses
        made = [records.queue_record(each, [], 0) for each in world.state.queues.values()]
    assert records._beyond.cache_info().misses == before
    assert [each.name for each in made] == [f"q{number}" for number in range(50)]


def queue_record(**more: object) -> QueueRecord:
    """The record of a queue with these later attributes, as it is read."""
    record = QueueRecord(
        7, "q", 3, "multicast", "k=1", True, False, True, 0, False, 0, 0, 0, 0, 0, [], 0, "joe",
        more=more,
    )  # fmt: skip
    return records.decode(QueueRecord, records.encode(record), "it")


def test_a_definition_has_all_attributes_of_its_record() -> None:
    found = records.definition_of(
        QueueDefinition, queue_record(auto_delete=True, ring_size=5, unheard_of=1), SharedTexts()
    )
    assert found == QueueDefinition(
        name="q", routing_type="multicast", filter="k=1", auto_created=True, user="joe",
        auto_delete=True, ring_size=5,
    )  # fmt: skip


def test_a_number_is_not_taken_for_the_truth_value_that_equals_it() -> None:
    texts = SharedTexts()
    assert records.definition_of(QueueDefinition, queue_record(exclusive=True), texts).exclusive
    with pytest.raises(IndexDamaged, match="'q' is defined so: Expected `bool`, got `int`"):
        records.definition_of(QueueDefinition, queue_record(exclusive=1), texts)
    with pytest.raises(IndexDamaged, match="'q' is defined so: Expected `bool`, got `array`"):
        records.definition_of(QueueDefinition, queue_record(exclusive=[1]), texts)


def test_definitions_share_their_texts() -> None:
    texts = SharedTexts()
    name = "".join("q")
    one, other = [
        records.definition_of(QueueDefinition, queue_record(), texts, name) for _ in range(2)
    ]
    assert one.user is other.user
    assert one.filter is other.filter
    assert one.name is name
