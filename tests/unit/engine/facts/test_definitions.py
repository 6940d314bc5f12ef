"""Each attribute of a queue arrives wherever attributes go, and old forms mean what they meant."""

import msgspec
import pytest

from daybook.engine.commands import Attach, Detach
from daybook.engine.facts import details, events
from daybook.engine.facts.definitions import (
    MULTICAST,
    QUEUE_ATTRIBUTES,
    AddressDefinition,
    Detail,
    QueueDefinition,
    SharedTexts,
    not_requestable,
)
from daybook.engine.refusals import Code
from daybook.engine.state.apply import apply
from daybook.engine.state.digest import digest
from daybook.engine.state.state import State
from daybook.history.initial_state import _topology
from daybook.paging.tables import records
from daybook.server.administration import views
from daybook.server.config_keys import options
from tests.support.topology import create_queue
from tests.support.world import World

OTHER = {str: "other", bool: None, int: 7}
ADDRESS = events.row(events.ADDRESS_CREATED, address=1)
QUEUE = events.row(events.QUEUE_CREATED, address=1, queue=1)
FIELDS = [field.name for field in msgspec.structs.fields(QueueDefinition)]


def another(definition: type[Detail], name: str) -> object:
    """A value of an attribute that is not its default."""
    (default,) = [f.default for f in msgspec.structs.fields(definition) if f.name == name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, tuple):
        return (MULTICAST,)
    return 7 if isinstance(default, int) else MULTICAST if name == "routing_type" else "other"


def state_with(*details: Detail) -> State:
    """A state with one address and one queue, as these events made it."""
    state = State()
    named = AddressDefinition(name="a", routing_types=("anycast", "multicast"))
    apply(state, 1, ADDRESS, events.encode_detail(named), b"", b"")
    for number, detail in enumerate(details):
        row = QUEUE if number == 0 else events.row(events.QUEUE_UPDATED, address=1, queue=1)
        apply(state, 2 + number, row, events.encode_detail(detail), b"", b"")
    return state


def defined(**attributes: object) -> QueueDefinition:
    return msgspec.convert({"name": "q"} | attributes, QueueDefinition)


@pytest.mark.parametrize("name", FIELDS)
def test_an_attribute_arrives_everywhere(name: str) -> None:
    wanted = defined(**{name: another(QueueDefinition, name)})
    state = state_with(wanted)
    queue = state.queues[1]
    assert queue.definition == wanted
    # The index, and history that begins with a base.
    record = records.queue_record(queue, [], 0)
    kept = records.decode(records.QueueRecord, records.encode(record), "it")
    assert records.definition_of(QueueDefinition, kept, SharedTexts()) == wanted
    (told,) = [each for each in _topology(state) if each.row[0] == events.QUEUE_CREATED]
    assert (
        state_with(events.decode_detail(events.QUEUE_CREATED, told.detail)).queues[1].definition
        == wanted
    )
    # The digest tells it from the default, and views show it.
    assert digest(state) != digest(state_with(QueueDefinition(name="default")))
    (row,) = views.every_queue(state)
    assert row["queue" if name == "name" else name] == getattr(wanted, name)


@pytest.mark.parametrize("name", ["routing_types", "auto_created", "host", "name"])
def test_an_attribute_of_an_address_is_kept(name: str) -> None:
    wanted = msgspec.convert(
        {"name": "a", name: another(AddressDefinition, name)}, AddressDefinition
    )
    state = State()
    apply(state, 1, ADDRESS, events.encode_detail(wanted), b"", b"")
    record = records.address_record(state.addresses[1])
    kept = records.decode(records.AddressRecord, records.encode(record), "it")
    assert records.definition_of(AddressDefinition, kept, SharedTexts()) == wanted


def test_what_an_update_changes_is_what_it_lists() -> None:
    before = defined(user="joe", durable=False, max_consumers=3)
    listed = details.QueueDetail(
        name="q", max_consumers=5, filter="k=1", changed=("max_consumers",)
    )
    state = state_with(before, listed)
    assert state.queues[1].definition == msgspec.structs.replace(before, max_consumers=5)


def test_an_update_from_before_there_was_a_list_changes_type_and_filter() -> None:
    before = defined(user="joe", durable=False)
    state = state_with(before, details.QueueDetail(name="q", routing_type=MULTICAST, filter="k=1"))
    wanted = msgspec.structs.replace(before, routing_type=MULTICAST, filter="k=1")
    assert state.queues[1].definition == wanted


def test_what_can_be_asked_for_is_a_key_and_the_rest_is_refused() -> None:
    keys = [option.name for option in options.QUEUE_TABLE]
    assert keys == [
        "name",
        "address",
        *(attribute.key for attribute in QUEUE_ATTRIBUTES),
        "virtual-host",
    ]
    assert [attribute.key for attribute in QUEUE_ATTRIBUTES] == [
        "routing-type", "filter", "durable", "max-consumers", "exclusive",
        "non-destructive",
        "auto-delete", "auto-delete-delay", "auto-delete-message-count", "enabled",
        "last-value", "last-value-key", "ring-size",
        "consumers-before-dispatch", "delay-before-dispatch", "purge-on-no-consumers",
        "group-rebalance", "group-rebalance-pause-dispatch", "group-buckets", "group-hashing",
        "group-first-key",
    ]  # fmt: skip
    assert not_requestable(defined(durable=False, max_consumers=1)) == []
    assert not_requestable(defined(user="joe", owner=3)) == ["owner", "user"]


def test_a_queue_has_no_more_consumers_than_it_may() -> None:
    world = World()
    world.ok(create_queue("q", "q", max_consumers=1))
    connection = world.connect()
    first = world.ok(Attach(connection, "q"))
    refusal = world.refused(Attach(connection, "q"))
    assert refusal.code is Code.LIMIT
    assert refusal.text == (
        "queue 'q' has 1 consumers, and its max-consumers is 1; end one of them, or raise"
        " max-consumers"
    )
    world.ok(Detach(first))
    world.ok(Attach(connection, "q"))
    world.ok(create_queue("closed", "closed", max_consumers=0))
    assert "max-consumers is 0" in world.refused(Attach(connection, "closed")).text


def test_what_is_made_by_being_used_has_the_default_of_its_address() -> None:
    world = World()
    world.settings(all={"default_max_consumers": 1})
    connection = world.connect()
    world.ok(Attach(connection, "used"))
    assert "max-consumers is 1" in world.refused(Attach(connection, "used")).text
    world.ok(create_queue("asked", "asked"))
    for _ in range(2):
        world.ok(Attach(connection, "asked"))
    world.ok(Attach(connection, "news", durable_name="d", routing_type=MULTICAST))
    assert world.queue("dsub.d").definition.max_consumers == 1
    world.restart()
    assert world.queue("dsub.d").definition.max_consumers == 1
