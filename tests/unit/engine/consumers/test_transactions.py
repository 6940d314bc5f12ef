"""Transactions: whole at commit, nothing before it, nothing after an abort."""

from collections.abc import Callable

import pytest

from daybook.engine.commands import (
    Begin,
    Chunk,
    Commit,
    ExpireTransactions,
    OpenConnection,
    Rollback,
    Send,
    Settle,
    Stop,
)
from daybook.engine.facts import reasons
from daybook.engine.facts.settlements import FAILED, OUTCOMES
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES
from daybook.engine.refusals import Code, Refusal
from tests.support.topology import create_queue
from tests.support.world import World


def delivered(world: World, count: int) -> tuple[int, int, list[int]]:
    """A connection with an open transaction, a consumer, and messages in flight to it."""
    connection = world.connect()
    sent = [world.send("q", b"%d" % number) for number in range(count)]
    consumer = world.attach(connection, "q")
    world.taken()
    world.begin(connection)
    return connection, consumer, sent


def test_nothing_happens_before_commit(world: World) -> None:
    connection, consumer, (first, second) = delivered(world, 2)
    lsn = world.broker.lsn
    assert world.send("other", b"x", connection, transaction="t") == 0
    assert world.ack(consumer, first, transaction="t") == 0
    assert world.nack(consumer, second, transaction="t") == 0
    assert world.broker.lsn == lsn
    assert world.in_flight("q") == [b"0", b"1"]
    assert "other" not in world.state.queue_by_name


def test_commit_is_one_group_of_events_in_order(world: World) -> None:
    connection, consumer, (first, second) = delivered(world, 2)
    world.send("q", b"x", connection, transaction="t")
    world.ack(consumer, first, transaction="t")
    world.nack(consumer, second, transaction="t")
    world.send("other", b"y", connection, transaction="t")
    lsn = world.broker.lsn
    answer = world.handle(Commit(connection, "t"))
    batch = world.broker.pending
    assert (batch.first_lsn, len(batch.rows)) == (lsn + 1, 7)
    world.turn()
    assert world.names_since(lsn)[:7] == [
        "Routed", "Acknowledged", "Returned", "AddressCreated", "QueueCreated", "Routed",
        "TransactionCommitted",
    ]  # fmt: skip
    committed = world.journal[lsn + 6]
    assert answer == committed.lsn
    detail = committed.decoded
    assert (detail.transaction, detail.first, detail.events) == ("t", lsn + 1, 6)
    assert world.journal[lsn].decoded.transaction == "t"
    assert world.ready("other") == [b"y"]
    assert world.refused(Commit(connection, "t")).code is Code.NOT_FOUND


def test_abort_keeps_what_was_acknowledged_with_its_consumer(world: World) -> None:
    connection, consumer, (first, second) = delivered(world, 2)
    world.send("q", b"x", connection, transaction="t")
    world.ack(consumer, second, cumulative=True, transaction="t")
    lsn = world.broker.lsn
    assert world.abort(connection) == lsn + 1
    assert world.journal[-1].reason == reasons.ROLLBACK
    assert world.in_flight("q") == [b"0", b"1"]
    assert world.taken() == []
    world.ack(consumer, first)
    world.begin(connection)
    world.ack(consumer, second, transaction="t")
    world.commit(connection)
    assert world.bodies("q") == []


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_what_a_transaction_holds_cannot_be_settled_again(world: World, outcome: int) -> None:
    connection, consumer, (first, second) = delivered(world, 2)
    world.ack(consumer, first, transaction="t")
    world.begin(connection, "u")
    for transaction in (None, "t", "u"):
        refusal = world.refused(Settle(consumer, first, transaction=transaction, outcome=outcome))
        assert refusal.code is Code.INVALID
        assert "'t'" in refusal.text
    # Cumulative settlements step over it.
    world.ack(consumer, second, cumulative=True)
    assert world.bodies("q") == [b"0"]
    world.commit(connection)
    assert world.bodies("q") == []


def test_acknowledging_in_a_transaction_gives_credit_once(world: World) -> None:
    connection = world.connect()
    for number in range(6):
        world.send("q", b"%d" % number)
    consumer = world.attach(connection, "q", credit_messages=1, credit_bytes=0, credits_early=True)
    (first,) = world.taken()
    world.begin(connection)
    world.ack(consumer, first.message, transaction="t")
    assert world.taken_bodies() == [b"1"]
    world.abort(connection)
    assert world.taken() == []
    world.begin(connection)
    world.ack(consumer, first.message, transaction="t")
    assert world.taken() == []
    world.commit(connection)
    assert world.taken() == []
    assert world.state.consumers[consumer].credit_messages == 0


def test_without_asking_for_that_it_gives_credit_at_commit(world: World) -> None:
    connection = world.connect()
    for number in range(3):
        world.send("q", b"%d" % number)
    for name in ("q", "several"):
        values = {"credit_messages": 1, "credit_bytes": 0}
        if name == "q":
            consumer = world.attach(connection, "q", **values)
        else:
            consumer = world.attach_all(connection, "q", "r", **values)
        (first,) = world.taken()
        world.begin(connection)
        world.ack(consumer, first.message, transaction="t")
        assert world.taken() == []
        world.abort(connection)
        assert world.taken() == []
        world.begin(connection)
        world.ack(consumer, first.message, transaction="t")
        world.commit(connection)
        (second,) = world.taken()
        world.detach(consumer)
        assert second.message != first.message
    world.check()


def test_a_rejection_in_a_transaction_gives_credit_at_commit(world: World) -> None:
    connection, consumer, (first,) = delivered(world, 1)
    before = world.state.consumers[consumer].credit_messages
    world.nack(consumer, first, transaction="t")
    assert world.state.consumers[consumer].credit_messages == before
    world.commit(connection)
    (again,) = world.taken()
    assert again.attempt == 2
    assert world.state.consumers[consumer].credit_messages == before


def test_a_transaction_whose_consumer_left_is_doomed(world: World) -> None:
    connection, consumer, (first,) = delivered(world, 1)
    world.ack(consumer, first, transaction="t")
    world.send("other", b"x", connection, transaction="t")
    world.detach(consumer)
    assert world.ready("q") == [b"0"]
    lsn = world.broker.lsn
    answer = world.handle(Commit(connection, "t"))
    assert isinstance(answer, Refusal)
    assert "ended before the commit" in answer.text
    world.turn()
    assert world.names_since(lsn) == ["TransactionRolledBack"]
    assert world.journal[-1].reason == reasons.COMMIT_REFUSED
    assert "other" not in world.state.queue_by_name
    assert world.refused(Rollback(connection, "t")).code is Code.NOT_FOUND


def test_an_abandoned_transaction_is_aborted(world: World) -> None:
    connection, consumer, (first,) = delivered(world, 1)
    world.ack(consumer, first, transaction="t")
    world.close(connection, reasons.DISCONNECTED)
    (event,) = world.events_named("TransactionRolledBack")
    assert event.reason == reasons.DISCONNECTED
    assert world.counts("q") == {b"0": 1}


@pytest.mark.parametrize("cleanly", [False, True])
def test_an_open_transaction_does_not_outlive_the_broker(world: World, cleanly: bool) -> None:
    connection, consumer, (first,) = delivered(world, 1)
    world.ack(consumer, first, transaction="t")
    world.send("other", b"x", connection, transaction="t")
    if cleanly:
        world.ok(Stop())
    world.restart()
    assert world.ready("q") == [b"0"]
    assert "other" not in world.state.queue_by_name


def test_transactions_belong_to_their_connection(world: World) -> None:
    connection, other = world.connect(), world.connect()
    world.begin(connection)
    world.begin(other)
    assert world.refused(Begin(connection, "t")).code is Code.ALREADY_EXISTS
    assert world.refused(Begin(99, "t")).code is Code.NOT_FOUND
    world.send("q", b"x", other, transaction="t")
    world.commit(connection)
    assert "q" not in world.state.queue_by_name
    world.commit(other)
    assert world.ready("q") == [b"x"]


def test_what_is_not_open_cannot_be_used(world: World) -> None:
    connection, consumer, (first,) = delivered(world, 1)
    for command in (
        Send(connection, "q", b"", b"", transaction="u"),
        Settle(consumer, first, transaction="u"),
        Settle(99, first, transaction="t"),
        Settle(consumer, 99, transaction="t"),
        Settle(consumer, first, transaction="", outcome=FAILED),
        Commit(connection, "u"),
        Rollback(connection, "u"),
        Commit(99, "t"),
    ):
        assert world.refused(command).code is Code.NOT_FOUND


def test_sends_are_checked_when_they_come_and_again_at_commit(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    bad = Send(connection, "a::b", b"", b"", transaction="t")
    assert world.refused(bad).code is Code.INVALID
    bad = Send(connection, "q", b"", b"", priority=10, transaction="t")
    assert world.refused(bad).code is Code.INVALID
    world.send("first", b"x", connection, transaction="t")
    world.send("late", b"x", connection, transaction="t")
    world.settings(late={"auto_create_queues": False})
    answer = world.handle(Commit(connection, "t"))
    assert isinstance(answer, Refusal)
    assert answer.code is Code.NOT_FOUND
    world.turn()
    assert "first" not in world.state.queue_by_name


def test_two_sends_that_would_create_one_queue_on_two_addresses(world: World) -> None:
    for sends in (
        [("a", "x"), ("b", "x")],
        [("x", None), ("b", "x")],
        [("a", "x"), ("x", None)],
    ):
        connection = world.connect()
        world.begin(connection)
        for address, queue in sends:
            world.send(address, b"", connection, queue=queue, transaction="t")
        answer = world.handle(Commit(connection, "t"))
        assert isinstance(answer, Refusal)
        assert answer.code is Code.ALREADY_EXISTS
        world.turn()
        assert world.state.queues == {}


def test_sends_to_one_new_queue_are_no_conflict(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    world.send("a", b"1", connection, queue="q", transaction="t")
    world.send("a", b"2", connection, queue="q", transaction="t")
    world.send("b", b"3", connection, transaction="t")
    world.send("b", b"4", connection, queue="b", transaction="t")
    world.commit(connection)
    assert world.ready("q") == [b"1", b"2"]
    assert world.ready("b") == [b"3", b"4"]


def test_a_rejection_that_creates_the_dead_letter_queue_before_a_send(world: World) -> None:
    connection, consumer, (first,) = delivered(world, 1)
    world.nack(consumer, first, transaction="t")
    world.send("elsewhere", b"x", connection, queue="dead", transaction="t")
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    answer = world.handle(Commit(connection, "t"))
    assert isinstance(answer, Refusal)
    assert answer.code is Code.NOT_ALLOWED
    world.turn()
    assert world.in_flight("q") == [b"0"]


def test_a_transaction_has_a_limit(worlds: Callable[..., World]) -> None:
    world = worlds(max_transaction_bytes=10 + 2 * MESSAGE_OVERHEAD_BYTES)
    connection = world.connect()
    world.begin(connection)
    world.send("q", b"12345", connection, transaction="t")
    refusal = world.refused(Send(connection, "q", b"", b"123456", transaction="t"))
    assert refusal.code is Code.LIMIT
    world.send("q", b"12345", connection, transaction="t")
    assert world.refused(Send(connection, "q", b"", b"", transaction="t")).code is Code.LIMIT
    world.commit(connection)
    assert len(world.ready("q")) == 2


def test_a_connection_has_a_limit_of_open_transactions(world: World) -> None:
    connection = world.connect()
    for number in range(world.broker.options.max_open_transactions):
        world.begin(connection, str(number))
    assert world.refused(Begin(connection, "t")).code is Code.LIMIT
    world.commit(connection, "7")
    world.begin(connection)


def test_rejections_at_commit_keep_order_and_dead_letter(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    connection, consumer, sent = delivered(world, 3)
    world.nack(consumer, sent[2], cumulative=True, transaction="t")
    world.commit(connection)
    assert world.ready("dead") == [b"0", b"1", b"2"]


def test_an_empty_transaction_commits(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    assert world.commit(connection) == world.broker.lsn


def test_filters_decide_at_commit(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    world.send("a", b"x", connection, transaction="t", routing_type="multicast")
    world.ok(create_queue("s", "a", "multicast", filter="k=1"))
    world.commit(connection)
    assert world.events_named("Dropped")[0].reason == reasons.NO_MATCHING_FILTER
    assert world.events_named("Dropped")[0].decoded.transaction == "t"


def fill(world: World, connection: int, size: int, name: str = "t") -> int | Refusal:
    return world.handle(Send(connection, "q", b"", bytes(size), transaction=name))


def test_all_transactions_together_have_a_limit() -> None:
    world = World(max_transactions_memory=400_000)
    connection = world.connect()
    world.begin(connection)
    assert fill(world, connection, 60_000) == 0
    refusal = world.refused(Send(connection, "q", b"", bytes(60_000), transaction="t"))
    assert refusal.code is Code.LIMIT
    assert "max-transactions-memory" in refusal.text
    # Refused, it is as it was.
    world.commit(connection)
    assert [len(body) for body in world.ready("q")] == [60_000]
    assert world.broker.transactions.weight == world.broker.transactions.count == 0


@pytest.mark.parametrize("is_one_user", [True, False])
def test_who_holds_the_most_is_rolled_back_for_others(is_one_user: bool) -> None:
    """All together have a limit, a user has half of it, and a connection a quarter."""
    world = World(max_transactions_memory=400_000 if is_one_user else 200_000)

    def login(user: str) -> int:
        return world.connect() if is_one_user else world.ok(OpenConnection("stomp", "peer", user))

    # Of a user, or of all, this is nearly 200,000.
    heavy = [login(user) for user in ("ann", "bob", "eve", "ida")]
    greedy, modest = login("sue"), login("tom")
    world.begin(greedy)
    assert fill(world, greedy, 46_000) == 0
    for connection in heavy:
        world.begin(connection)
        assert fill(world, connection, 36_000) == 0
    world.begin(modest)
    assert fill(world, modest, 30_000) == 0
    world.turn()
    ended = [each for each in (greedy, *heavy) if isinstance(fill(world, each, 1), Refusal)]
    assert ended[0] == greedy
    assert len(ended) == 2
    assert "max-transactions-memory" in world.broker.notices[0]
    # The answer to its next command says why, and its name is free again.
    assert "max-transactions-memory" in world.refused(Chunk(
        Send(greedy, "q", b"", b"", transaction="t"), b"x")).text  # fmt: skip
    assert "max-transactions-memory" in world.refused(Commit(greedy, "t")).text
    world.begin(greedy)
    for connection in (greedy, *heavy):
        world.close(connection)
    world.commit(modest)
    weights = world.broker.transactions
    assert (weights.weight, weights.charges.of_user, weights.charges.of_connection) == (0, {}, {})
    world.check()


def test_a_connection_has_a_quarter_of_what_transactions_may_take() -> None:
    world = World(max_transactions_memory=100_000)
    connection, other = world.connect(), world.ok(OpenConnection("stomp", "peer", "other"))
    world.begin(connection)
    assert fill(world, connection, 20_000) == 0
    refusal = world.refused(Send(connection, "q", b"", bytes(6_000), transaction="t"))
    assert "max-transactions-memory" in refusal.text
    world.begin(other)
    assert fill(world, other, 20_000) == 0


def test_a_transaction_that_stays_open_is_rolled_back(world: World) -> None:
    connection, consumer, (first, second) = delivered(world, 2)
    world.ack(consumer, first, transaction="t")
    world.sleep(200)
    world.begin(connection, "young")
    world.sleep(101)
    lsn = world.broker.lsn
    world.ok(ExpireTransactions(300_000_000))
    assert world.names_since(lsn) == ["TransactionRolledBack"]
    rolled_back = world.journal[-1]
    assert "transaction-timeout" in rolled_back.decoded.text
    # Its settled messages are in flight as before and can be settled again.
    world.ack(consumer, first)
    assert "300 seconds" in world.refused(Settle(consumer, second, transaction="t")).text
    # The receipt waits until that is on the disk.
    assert world.abort(connection) == rolled_back.lsn
    assert world.refused(Rollback(connection, "t")).code is Code.NOT_FOUND
    world.commit(connection, "young")
    world.check()


def test_a_step_of_the_clock_ends_no_transaction(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    world.sleep(3600)
    world.broker.transactions.clock_stepped(3_600_000_000)
    lsn = world.broker.lsn
    world.ok(ExpireTransactions(300_000_000))
    assert world.broker.lsn == lsn
    world.commit(connection)
