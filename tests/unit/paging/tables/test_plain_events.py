"""Plain events are found by message and queue; all others keep their order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.commands import PurgeQueue
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES
from daybook.paging.tables import plain_events
from daybook.paging.tables.columns import Columns
from daybook.paging.tables.plain_events import Run, classify, everything, ranks
from tests.support.stored.blocks import Chain
from tests.support.world import World

TOPOLOGY = {
    "BrokerStarted", "AddressCreated", "AddressUpdated", "QueueCreated", "ConnectionOpened",
    "ConsumerAttached", "ConsumerDetached", "SettingsChanged",
}  # fmt: skip


def nobody(queue_id: int, message_id: int) -> bool:
    return False


def run_of(
    world: World, first: int = 0, flying: Callable[[int, int], bool] = nobody
) -> tuple[Run, list[str]]:
    """The result of the journal after an LSN, and the kinds that are left to `apply`."""
    world.turn()
    journal = world.journal[first:]
    run = classify(Columns([Chain().block(journal)]), 0, len(journal), flying)
    return run, [journal[position].name for position in run.rest.tolist()]


def names_in(found: Any, world: World) -> list[str]:
    return [world.state.queues[number].name for number in found.tolist()]


@given(values=st.lists(st.integers(0, 1 << 40), max_size=30), small=st.booleans())
def test_ranks_are_positions_among_the_distinct(values: list[int], small: bool) -> None:
    array = np.array(values, np.uint64) % np.uint64(1000) if small else np.array(values, np.uint64)
    distinct, rank = ranks(array)
    assert distinct.tolist() == sorted(set(array.tolist()))
    assert distinct[rank].tolist() == array.tolist() if values else not len(rank)


def test_what_was_only_routed_is_appended() -> None:
    world = World()
    ids = [world.send("orders", b"12345", priority=priority) for priority in (4, 9)]
    run, rest = run_of(world)
    assert set(rest) <= TOPOLOGY
    assert run.appended.rows.message.tolist() == ids == run.newest.tolist()
    assert run.appended.priority.tolist() == [4, 9]
    assert run.appended.rows.size.tolist() == [5 + MESSAGE_OVERHEAD_BYTES] * 2
    assert names_in(run.appended.queue, world) == names_in(run.added, world) == ["orders"] * 2
    assert not len(run.taken.message)


def test_what_comes_and_goes_only_counts() -> None:
    world = World()
    consumer = world.attach(world.connect(), "orders", credit_messages=9)
    for _ in range(3):
        world.ack(consumer, world.send("orders"))
    run, rest = run_of(world)
    assert set(rest) <= TOPOLOGY
    assert len(run.added) == len(run.ended["acknowledged"]) == 3
    assert not len(run.appended.queue)
    assert not len(run.taken.queue)


def test_what_was_there_before_and_leaves_is_taken_out() -> None:
    world = World()
    ids = [world.send("orders") for _ in range(3)]
    before = world.broker.lsn
    consumer = world.attach(world.connect(), "orders", credit_messages=9)
    for message in ids:
        world.ack(consumer, message)
    run, rest = run_of(world, before)
    assert set(rest) <= TOPOLOGY
    assert run.taken.message.tolist() == ids
    assert run.taken.priority.tolist() == [4] * 3
    assert len(run.ended["acknowledged"]) == 3
    assert not len(run.added)


def test_what_stays_in_flight_is_left_to_apply() -> None:
    world = World()
    consumer = world.attach(world.connect(), "orders", credit_messages=9)
    first, _ = world.send("orders"), world.send("orders")
    world.ack(consumer, first)
    run, rest = run_of(world)
    assert [name for name in rest if name not in TOPOLOGY] == ["Routed", "Delivered"]
    assert len(run.added) == len(run.ended["acknowledged"]) == 1


def test_what_was_in_flight_before_is_left_to_apply() -> None:
    world = World()
    consumer = world.attach(world.connect(), "orders", credit_messages=9)
    first, second = world.send("orders"), world.send("orders")
    before = world.broker.lsn
    world.ack(consumer, first)
    world.nack(consumer, second)
    _, rest = run_of(world, before)
    assert rest == ["Acknowledged", "Returned", "Delivered"]


def test_what_came_back_has_its_count() -> None:
    world = World()
    consumer = world.attach(world.connect(), "orders", credit_messages=1)
    message = world.send("orders")
    world.ok(c.PauseQueue("orders"))
    world.nack(consumer, message)
    run, rest = run_of(world)
    assert not {"Routed", "Delivered", "Returned"} & set(rest)
    assert run.appended.rows.delivery_count.tolist() == [1]


def test_several_queues_are_plain_if_all_are() -> None:
    world = World()
    connection = world.connect()
    for name in ("one", "two"):
        world.attach(
            connection,
            "news",
            routing_type=MULTICAST,
            durable_name=name,
            credit_messages=0,
            credit_bytes=0,
        )
    first, second = (world.send("news", b"1", routing_type=MULTICAST) for _ in range(2))
    run, rest = run_of(world)
    assert set(rest) <= TOPOLOGY
    assert run.appended.rows.message.tolist() == [first, first, second, second]
    assert len(set(run.appended.queue.tolist())) == 2
    assert run.added.tolist() == run.appended.queue.tolist()


def test_several_queues_are_left_to_apply_if_one_is_odd() -> None:
    world = World()
    connection = world.connect()
    world.attach(
        connection,
        "news",
        routing_type=MULTICAST,
        durable_name="one",
        credit_messages=1,
        credit_bytes=0,
    )
    world.attach(
        connection,
        "news",
        routing_type=MULTICAST,
        durable_name="two",
        credit_messages=0,
        credit_bytes=0,
    )
    odd = world.send("news", routing_type=MULTICAST)
    plain_one = world.send("news", routing_type=MULTICAST)
    run, rest = run_of(world)
    assert [name for name in rest if name not in TOPOLOGY] == ["Routed", "Delivered"]
    assert run.appended.rows.message.tolist() == [plain_one] * 2
    assert odd not in run.newest.tolist()


def test_what_its_sender_schedules_is_not_plain() -> None:
    world = World()
    later = world.send("orders", due=world.now // 1000 + 500)
    plain_one = world.send("orders", expires=world.now // 1000 + 500)
    run, rest = run_of(world)
    assert [name for name in rest if name not in TOPOLOGY] == ["Routed"]
    assert run.appended.rows.message.tolist() == [plain_one]
    assert later not in run.newest.tolist()


def test_details_are_read_for_what_stays() -> None:
    world = World()
    connection = world.connect()
    world.send("orders", expires=world.now // 1000 + 500)
    world.begin(connection)
    world.send("orders", connection=connection, transaction="t")
    world.commit(connection)
    run, rest = run_of(world)
    assert set(rest) <= TOPOLOGY
    assert run.appended.rows.expires.tolist() == [world.now // 1000 + 500, 0]


def test_what_was_purged_is_taken_out_unless_it_was_in_flight() -> None:
    world = World()
    ids = [world.send("orders") for _ in range(4)]
    before = world.broker.lsn
    new = world.send("orders")
    world.ok(PurgeQueue("orders"))
    run, rest = run_of(world, before)
    assert rest == []
    assert run.taken.message.tolist() == ids
    assert run.newest.tolist() == [new]
    run, rest = run_of(world, before, lambda queue_id, message_id: message_id == ids[1])
    assert rest == ["Removed"]
    assert run.taken.message.tolist() == [ids[0], *ids[2:]]


def test_endings_are_counted_by_their_kind() -> None:
    world = World()
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    consumer = world.attach(world.connect(), "orders", credit_messages=9)
    world.nack(consumer, world.send("orders"))
    world.send("mails", expires=world.now // 1000 + 1)
    world.sleep(1)
    world.ok(c.ExpireDue(10))
    run, rest = run_of(world)
    assert set(rest) <= TOPOLOGY
    assert names_in(run.ended["dead_lettered"], world) == ["orders"]
    assert names_in(run.ended["expired"], world) == ["mails"]
    assert names_in(run.appended.queue, world) == ["dead"]


def test_a_large_message_is_left_to_apply() -> None:
    world = World()
    world.send("orders", b"")
    world.turn()
    journal = world.journal[-1:]
    large = (*journal[0].row[: events.FLAGS], 1 | events.LARGE, *journal[0].row[events.FLAGS + 1 :])
    block = Chain().block([journal[0]._replace(row=large)])
    assert classify(Columns([block]), 0, 1, nobody).rest.tolist() == [0]


def test_an_event_of_no_queue_makes_the_message_odd_in_all() -> None:
    """As events of kinds to come may be."""
    world = World()
    consumer = world.attach(world.connect(), "orders", credit_messages=9)
    message = world.send("orders")
    before = world.broker.lsn
    world.ack(consumer, message)
    world.turn()
    journal = world.journal[before:]
    other = events.row(events.PAGING_STARTED, message=message, time=1)
    journal.append(journal[-1]._replace(lsn=journal[-1].lsn + 1, row=other, detail=b""))
    found = classify(Columns([Chain().block(journal)]), 0, len(journal), nobody)
    assert found.rest.tolist() == list(range(len(journal)))


def test_content_that_was_carried_forward_changes_no_entry() -> None:
    world = World()
    message = world.send("orders")
    world.turn()
    journal = world.journal[-1:]
    row = events.row(events.CARRIED, message=message, related=message, time=1)
    journal.append(journal[0]._replace(lsn=journal[0].lsn + 1, row=row))
    found = classify(Columns([Chain().block(journal)]), 0, 2, nobody)
    assert found.rest.tolist() == []
    assert found.appended.rows.message.tolist() == [message]


def test_silent_kinds_are_left_out() -> None:
    assert plain_events.SILENT_KINDS[events.DROPPED]
    assert not plain_events.SILENT_KINDS[events.ROUTED]
    world = World()
    world.ok(c.RefuseConnection(reasons.AUTHENTICATION, "stomp", "p", "u", "no"))
    world.turn()
    columns = Columns([Chain().block(world.journal)])
    names = [world.journal[p].name for p in everything(columns, 0, columns.count).rest.tolist()]
    assert "ConnectionRefused" not in names
    assert "BrokerStarted" in names


@pytest.mark.parametrize("kind", sorted(events.BY_NUMBER))
def test_every_kind_of_event_is_known(kind: int) -> None:
    assert kind < plain_events.KINDS
