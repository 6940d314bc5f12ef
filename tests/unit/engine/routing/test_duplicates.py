"""Duplicates: a repeated message is not routed again, and its transaction is refused.

That what is remembered survives a restart is checked of every world here when its test ends.
"""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine.commands import Chunk, ClearDuplicateIds, Commit, DeleteAddress, ExpireDue, Send
from daybook.engine.core.core import Options
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing.duplicates import NOTICE_MICROSECONDS, remembered
from tests.support.topology import create_queue
from tests.support.world import World


def send(world: World, duplicate_id: str, body: bytes = b"x", **values: Any) -> int:
    return world.send(values.pop("address", "q"), body, duplicate_id=duplicate_id, **values)


def ids_of(world: World, name: str = "q") -> int:
    return remembered(world.state.address_by_name[name])


def drops(world: World) -> list[tuple[int, str]]:
    found = world.events_named("Dropped")
    return [(event.reason, event.decoded.duplicate_id) for event in found]


def test_an_id_is_recorded_behind_its_message(world: World) -> None:
    send(world, "before")
    lsn = world.broker.lsn
    answer = send(world, "a")
    assert world.names_since(lsn) == ["Routed", "DuplicateIdRecorded"]
    routed, recorded = world.journal[lsn:]
    assert recorded.row[events.RELATED] == routed.lsn
    assert recorded.row[events.ADDRESS] == routed.row[events.ADDRESS]
    assert recorded.row[events.MESSAGE] == 0
    assert recorded.decoded.duplicate_id == "a"
    assert answer == recorded.lsn


def test_a_message_without_an_id_costs_no_event(world: World) -> None:
    send(world, "a")
    lsn = world.broker.lsn
    world.send("q", b"y")
    world.send("q", b"y")
    assert world.names_since(lsn) == ["Routed", "Routed"]
    assert ids_of(world) == 1


def test_what_comes_again_is_dropped_and_its_sender_sees_success(world: World) -> None:
    send(world, "a", b"1")
    lsn = world.broker.lsn
    answer = send(world, "a", b"2", priority=7)
    assert world.names_since(lsn) == ["Dropped"]
    assert answer == world.broker.lsn
    assert drops(world) == [(reasons.DUPLICATE, "a")]
    assert world.journal[lsn].row[events.PRIORITY] == 7
    assert world.bodies("q") == [b"1"]


def test_a_duplicate_waits_for_the_message_itself(world: World) -> None:
    """Also if it says that it need not: the first message may not be durable yet."""
    send(world, "a")
    assert send(world, "a", persistent=False) == world.broker.lsn


def test_ids_are_remembered_by_address(world: World) -> None:
    send(world, "a")
    send(world, "a", address="other")
    assert drops(world) == []
    assert (ids_of(world), ids_of(world, "other")) == (1, 1)


def test_a_queue_by_its_full_name_is_of_its_address(world: World) -> None:
    world.ok(create_queue("one", "q"))
    world.ok(create_queue("two", "q"))
    send(world, "a", queue="one")
    send(world, "a", address="", queue="two")
    send(world, "a")
    assert drops(world) == [(reasons.DUPLICATE, "a")] * 2
    send(world, "b", address="new", queue="three")
    send(world, "b", address="new", queue="three")
    assert drops(world)[2:] == [(reasons.DUPLICATE, "b")]
    assert world.bodies("three") == [b"x"]


def test_several_queues_get_it_once(world: World) -> None:
    for name in ("one", "two"):
        world.ok(create_queue(name, "news", MULTICAST))
    for _ in range(2):
        send(world, "a", address="news", routing_type=MULTICAST)
    assert world.bodies("one") == world.bodies("two") == [b"x"]
    assert len(world.events_named("DuplicateIdRecorded")) == 1


def test_ids_survive_acknowledgement_expiry_and_restart(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    world.ack(consumer, send(world, "a") - 1)
    send(world, "b", address="p", expires=world.now // 1000 + 1)
    world.sleep(1)
    world.ok(ExpireDue())
    assert world.bodies("q") == world.bodies("p") == []
    world.restart()
    send(world, "a")
    send(world, "b", address="p")
    assert world.bodies("q") == world.bodies("p") == []
    assert len(drops(world)) == 2


def test_what_no_queue_took_is_not_remembered(world: World) -> None:
    send(world, "a", address="news", routing_type=MULTICAST)
    assert drops(world) == [(reasons.NO_BINDING, "a")]
    world.ok(create_queue("one", "news", MULTICAST, filter="kind=big"))
    send(world, "a", address="news", routing_type=MULTICAST)
    assert drops(world)[1:] == [(reasons.NO_MATCHING_FILTER, "a")]
    world.settings(news={"max_size_messages": 0, "address_full_policy": "DROP"})
    send(world, "a", address="news", headers={"kind": "big"})
    assert drops(world)[2:] == [(reasons.MAX_SIZE_MESSAGES, "a")]
    assert ids_of(world, "news") == 0


def test_a_duplicate_needs_no_room(world: World) -> None:
    send(world, "a")
    world.settings(q={"max_size_messages": 1, "address_full_policy": "FAIL"})
    assert world.refused(Send(0, "q", b"", b"x", duplicate_id="b")).code is Code.LIMIT
    send(world, "a")
    assert drops(world) == [(reasons.DUPLICATE, "a")]


def test_the_oldest_is_forgotten_and_may_come_again(world: World) -> None:
    world.settings(all={"id_cache_size": 2})
    for number in ("a", "b", "c", "a"):
        send(world, number)
    assert drops(world) == []
    assert ids_of(world) == 2
    send(world, "c")
    assert drops(world) == [(reasons.DUPLICATE, "c")]


def test_a_smaller_size_forgets_at_once_and_a_larger_brings_nothing_back(world: World) -> None:
    for number in range(5):
        send(world, str(number))
    world.settings(q={"id_cache_size": 2})
    assert ids_of(world) == 2
    world.settings(q={"id_cache_size": 5})
    send(world, "2")
    send(world, "3")
    assert drops(world) == [(reasons.DUPLICATE, "3")]


def test_it_can_be_switched_off_for_an_address(world: World) -> None:
    send(world, "a")
    world.settings(q={"id_cache_size": 0})
    lsn = world.broker.lsn
    send(world, "a")
    send(world, "a")
    assert world.names_since(lsn) == ["Routed", "Routed"]
    assert ids_of(world) == 0
    connection = world.connect()
    world.begin(connection)
    send(world, "a", connection=connection, transaction="t")
    send(world, "a", connection=connection, transaction="t")
    world.commit(connection)
    assert len(world.bodies("q")) == 5


def test_copies_of_the_broker_are_neither_checked_nor_remembered(world: World) -> None:
    world.settings(q={"dead_letter_address": "dead", "max_delivery_attempts": 1})
    send(world, "a", address="dead")
    consumer = world.attach(world.connect(), "q", credit_messages=1)
    send(world, "a", headers={"_AMQ_DUPL_ID": "a"})
    (delivery,) = world.taken()
    world.nack(consumer, delivery.message)
    assert len(world.bodies("dead")) == 2
    assert ids_of(world, "dead") == 1


def test_an_administrator_clears_what_an_address_remembers(world: World) -> None:
    send(world, "a")
    send(world, "b")
    lsn = world.broker.lsn
    answer = world.ok(ClearDuplicateIds("q"))
    assert world.names_since(lsn) == ["DuplicateIdsCleared"]
    assert world.journal[lsn].reason == reasons.ADMINISTRATION
    assert answer == world.broker.lsn
    assert ids_of(world) == 0
    send(world, "a")
    assert len(world.bodies("q")) == 3
    refusal = world.refused(ClearDuplicateIds("nowhere"))
    assert refusal.code is Code.NOT_FOUND
    assert "'nowhere'" in refusal.text


def test_a_deleted_address_takes_its_ids_with_it(world: World) -> None:
    send(world, "a")
    world.ok(DeleteAddress("q", force=True))
    send(world, "a")
    assert world.bodies("q") == [b"x"]
    assert drops(world) == []


def test_ids_that_are_not_persisted_are_gone_with_a_restart(
    worlds: Callable[..., World],
) -> None:
    world = worlds(persist_id_cache=False)
    world.settings(all={"id_cache_size": 2})
    for number in ("a", "b", "c", "c"):
        send(world, number)
    assert world.events_named("DuplicateIdRecorded") == []
    assert drops(world) == [(reasons.DUPLICATE, "c")]
    assert ids_of(world) == 2
    world.settings(all={"id_cache_size": 1})
    assert ids_of(world) == 1
    world.ok(ClearDuplicateIds("q"))
    assert ids_of(world) == 0
    send(world, "c")
    world.restart()
    send(world, "c")
    assert len(drops(world)) == 1


def test_ids_that_were_persisted_are_known_also_when_no_more_are(world: World) -> None:
    send(world, "a")
    world.broker.configure(Options(persist_id_cache=False))
    send(world, "a")
    send(world, "b")
    send(world, "b")
    assert [each for _, each in drops(world)] == ["a", "b"]
    assert ids_of(world) == 2


def test_of_non_persistent_messages_ids_are_journaled(world: World) -> None:
    send(world, "a", persistent=False)
    assert len(world.events_named("DuplicateIdRecorded")) == 1
    world.restart()
    send(world, "a", persistent=False)
    assert world.bodies("q") == []


def test_people_are_told_of_duplicates_but_not_of_each(world: World) -> None:
    send(world, "a" * 200)
    for _ in range(3):
        send(world, "a" * 200)
    (notice,) = world.broker.notices
    assert "address 'q'" in notice
    assert "number 1 since" in notice
    assert len(notice) < 300
    world.now += NOTICE_MICROSECONDS
    send(world, "a" * 200)
    assert len(world.broker.notices) == 2
    assert "number 4 since" in world.broker.notices[1]


# Transactions.


def test_a_transaction_records_its_ids_in_order_and_as_one(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    for number in ("a", "b"):
        assert send(world, number, connection=connection, transaction="t") == 0
    lsn = world.broker.lsn
    world.commit(connection)
    assert world.names_since(lsn) == [
        "AddressCreated", "QueueCreated", "Routed", "DuplicateIdRecorded",
        "Routed", "DuplicateIdRecorded", "TransactionCommitted",
    ]  # fmt: skip
    recorded = world.events_named("DuplicateIdRecorded")
    assert [event.decoded.duplicate_id for event in recorded] == ["a", "b"]


def refused_commit(world: World, connection: int) -> Refusal:
    answer = world.handle(Commit(connection, "t"))
    assert isinstance(answer, Refusal)
    world.turn()
    return answer


def test_a_transaction_with_a_duplicate_leaves_nothing(world: World) -> None:
    send(world, "a", b"1")
    connection = world.connect()
    world.begin(connection)
    consumer = world.attach(connection, "q")
    (delivery,) = world.taken()
    world.ack(consumer, delivery.message, transaction="t")
    send(world, "new", b"2", connection=connection, transaction="t")
    send(world, "a", b"3", connection=connection, transaction="t", address="q")
    lsn = world.broker.lsn
    refusal = refused_commit(world, connection)
    assert refusal.code is Code.DUPLICATE
    assert "'q'" in refusal.text
    assert "'a'" in refusal.text
    assert world.names_since(lsn) == ["TransactionRolledBack"]
    rolled_back = world.journal[lsn]
    assert rolled_back.reason == reasons.COMMIT_REFUSED
    assert rolled_back.decoded.text == refusal.text
    assert world.in_flight("q") == [b"1"]
    assert ids_of(world) == 1
    assert world.refused(Commit(connection, "t")).code is Code.NOT_FOUND


@pytest.mark.parametrize("other", [{}, {"address": "q", "queue": "q"}, {"routing_type": ANYCAST}])
def test_an_id_twice_in_a_transaction_is_refused(world: World, other: dict[str, Any]) -> None:
    """Whether the address exists or not; but not as a duplicate, for nothing of it is there."""
    connection = world.connect()
    for _ in range(2):
        world.begin(connection)
        send(world, "a", connection=connection, transaction="t")
        send(world, "b", connection=connection, transaction="t")
        send(world, "a", connection=connection, transaction="t", **other)
        refusal = refused_commit(world, connection)
        assert refusal.code is Code.INVALID
        assert "two messages with the duplicate id 'a' to address 'q'" in refusal.text
        assert world.journal[-1].name == "TransactionRolledBack"
        send(world, "c" + str(world.now))
        world.sleep(1)


def test_a_transaction_is_remembered_by_what_no_queue_took_too(world: World) -> None:
    """Or the rest of it would be routed twice."""
    connection = world.connect()
    for body in (b"1", b"2"):
        world.begin(connection)
        send(
            world, "a", address="news", routing_type=MULTICAST, connection=connection,
            transaction="t",
        )  # fmt: skip
        world.send("q", body, connection=connection, transaction="t")
        lsn = world.broker.lsn
        if body == b"1":
            world.commit(connection)
            assert world.names_since(lsn)[1:3] == ["Dropped", "DuplicateIdRecorded"]
            assert world.journal[lsn + 2].row[events.RELATED] == lsn + 2
        else:
            assert refused_commit(world, connection).code is Code.DUPLICATE
    assert world.bodies("q") == [b"1"]


def test_the_same_id_at_two_addresses_in_a_transaction_is_none(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    send(world, "a", connection=connection, transaction="t")
    send(world, "a", connection=connection, transaction="t", address="other")
    world.commit(connection)
    assert world.bodies("q") == world.bodies("other") == [b"x"]


def test_of_two_transactions_with_one_id_the_first_to_commit_wins(world: World) -> None:
    first, second = world.connect(), world.connect()
    for connection in (first, second):
        world.begin(connection)
        send(world, "a", b"%d" % connection, connection=connection, transaction="t")
    world.commit(second)
    assert refused_commit(world, first).code is Code.DUPLICATE
    assert world.bodies("q") == [b"%d" % second]


def test_an_id_may_be_used_again_after_a_rollback(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    send(world, "a", connection=connection, transaction="t")
    world.abort(connection)
    send(world, "a")
    assert world.bodies("q") == [b"x"]


def test_a_blocked_transaction_is_checked_again(world: World) -> None:
    """Somebody else may have committed it while it waited."""
    world.settings(q={"max_size_messages": 1, "address_full_policy": "BLOCK"})
    send(world, "full")
    connection = world.connect()
    world.begin(connection)
    send(world, "a", connection=connection, transaction="t")
    assert world.refused(Commit(connection, "t")).code is Code.BLOCKED
    world.settings()
    send(world, "a")
    assert refused_commit(world, connection).code is Code.DUPLICATE


# Large messages.


def test_a_large_message_is_checked_when_it_begins(world: World) -> None:
    world.send_large("q", (b"1", b"2"), duplicate_id="a")
    lsn = world.broker.lsn
    world.send_large("q", (b"1", b"2"), duplicate_id="a")
    assert world.names_since(lsn) == ["Dropped"]
    assert world.journal[lsn].row[events.FLAGS] & events.LARGE


def test_a_large_message_is_checked_when_it_is_whole(world: World) -> None:
    command = Send(0, "q", b"", b"", duplicate_id="a")
    command.chunks = (world.ok(Chunk(command, b"1")),)
    command.body_bytes = 1
    send(world, "a", b"small")
    lsn = world.broker.lsn
    world.ok(command)
    assert world.names_since(lsn) == ["Dropped"]
    assert world.bodies("q") == [b"small"]


def test_a_large_message_whose_id_was_forgotten_on_its_way_is_refused(world: World) -> None:
    """Its beginning was not kept, so it cannot be routed; and dropped it would be lost."""
    send(world, "a")
    command = Send(0, "q", b"", b"", duplicate_id="a")
    assert world.ok(Chunk(command, b"1")) == 0
    world.ok(ClearDuplicateIds("q"))
    command.chunks = (0, world.ok(Chunk(command, b"2")))
    command.body_bytes = 2
    refusal = world.refused(command)
    assert refusal.code is Code.NOT_FOUND
    assert "send it again" in refusal.text


def test_chunks_in_a_transaction_are_kept_for_its_commit(world: World) -> None:
    send(world, "a")
    connection = world.connect()
    world.begin(connection)
    command = Send(connection, "q", b"", b"", transaction="t", duplicate_id="a")
    lsn = world.ok(Chunk(command, b"1"))
    assert lsn > 0
    command.chunks, command.body_bytes = (lsn,), 1
    world.ok(command)
    assert refused_commit(world, connection).code is Code.DUPLICATE
