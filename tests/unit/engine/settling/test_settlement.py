"""How a delivery ends, when it counts as an attempt, and when it was the last."""

from collections.abc import Callable

import pytest

from daybook.engine.commands import AcceptAll, PurgeQueue, Settle, Stop, Withhold
from daybook.engine.facts import events, reasons
from daybook.engine.facts.details import ReturnedDetail
from daybook.engine.facts.own_headers import DEATH_ERROR
from daybook.engine.facts.settlements import FAILED, REJECTED, RELEASED
from daybook.engine.messages.deaths import CONDITION_LENGTH_MAX, ERROR_LENGTH_MAX
from daybook.engine.messages.headers import as_dict
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.digest import entry_hash
from tests.support.topology import create_queue
from tests.support.world import Delivery, World, fold
from tests.support.worlds.deaths import other_headers


def deliver(world: World, count: int, **values: object) -> tuple[int, int, list[Delivery]]:
    """A connection with a consumer that has so many messages in flight."""
    connection = world.connect()
    for number in range(count):
        world.send("q", b"%d" % number)
    consumer = world.attach(connection, "q", **values)
    return connection, consumer, world.taken()


def test_an_acknowledged_message_is_gone(world: World) -> None:
    _, consumer, (first, second) = deliver(world, 2)
    answer = world.ack(consumer, second.message)
    assert answer == world.events_named("Acknowledged")[0].lsn
    assert world.bodies("q") == [b"0"]
    refusal = world.refused(Settle(consumer, second.message))
    assert refusal.code is Code.NOT_FOUND
    assert world.refused(Settle(12345, first.message)).code is Code.NOT_FOUND
    assert world.refused(Settle(12345, first.message, outcome=FAILED)).code is Code.NOT_FOUND
    assert (
        world.refused(Settle(consumer, second.message, cumulative=True, outcome=FAILED)).code
        is Code.NOT_FOUND
    )
    world.restart()
    assert world.bodies("q") == [b"0"]


def test_a_consumer_settles_only_what_it_has(world: World) -> None:
    connection, _, (first,) = deliver(world, 1)
    other = world.attach(connection, "q")
    assert world.refused(Settle(other, first.message)).code is Code.NOT_FOUND


def test_cumulative_is_everything_delivered_before(world: World) -> None:
    _, consumer, taken = deliver(world, 5)
    world.ack(consumer, taken[2].message, cumulative=True)
    assert world.in_flight("q") == [b"3", b"4"]
    world.nack(consumer, taken[3].message, cumulative=True)
    # Returned messages went out again, behind those in flight all the time.
    (again,) = world.taken()
    assert (again.body, again.attempt) == (b"3", 2)
    world.ack(consumer, taken[4].message, cumulative=True)
    assert world.bodies("q") == [b"3"]
    world.ack(consumer, again.message, cumulative=True)
    assert world.bodies("q") == []


def test_deliveries_are_accepted_together(world: World) -> None:
    _, consumer, taken = deliver(world, 4, credit_messages=4, credit_bytes=0)
    spent = world.broker.budget.spent
    chosen = [taken[2].message, 4711, taken[0].message]
    answer = world.ok(AcceptAll(consumer, chosen))
    assert world.broker.budget.spent - spent >= 3
    settled = world.events_named("Acknowledged")
    assert [each.row[events.MESSAGE] for each in settled] == [taken[2].message, taken[0].message]
    assert {each.reason for each in settled} == {reasons.BY_CONSUMER}
    assert answer == settled[-1].lsn
    assert world.state.consumers[consumer].credit_messages == 2
    assert world.in_flight("q") == [b"1", b"3"]
    assert world.refused(AcceptAll(4711, chosen)).code is Code.NOT_FOUND
    world.check()


def test_what_a_transaction_settled_is_not_accepted_with_others(world: World) -> None:
    connection, consumer, taken = deliver(world, 3)
    first, second, third = (each.message for each in taken)
    world.begin(connection)
    world.ack(consumer, second, transaction="t")
    world.ok(AcceptAll(consumer, [first, second, third]))
    assert world.in_flight("q") == [b"1"]
    world.commit(connection)
    assert world.bodies("q") == []


def test_a_subscription_to_several_queues_accepts_together(world: World) -> None:
    bundle = world.attach_all(world.connect(), "a", "b")
    for name in ("a", "b", "a"):
        world.send(name)
    taken = [each.message for each in world.taken()]
    world.ok(AcceptAll(bundle, taken[:2]))
    assert [len(world.entries(name)) for name in ("a", "b")] == [1, 0]
    world.check()


def test_a_rejected_message_comes_back_to_its_place_and_counts(world: World) -> None:
    _, consumer, (first, second, third) = deliver(world, 3, credit_messages=3, credit_bytes=0)
    world.attach(world.connect(), "q", credit_messages=0, credit_bytes=0)
    world.send("q", b"3")
    world.nack(consumer, second.message)
    (event,) = world.events_named("Returned")
    assert (event.reason, event.row[events.DELIVERY_COUNT]) == (reasons.NACK, 1)
    (again,) = world.taken()
    assert (again.body, again.attempt) == (b"1", 2)
    world.nack(consumer, first.message)
    assert world.taken_bodies() == [b"0"]
    world.ack(consumer, third.message)
    assert world.taken_bodies() == [b"3"]


def test_order_survives_returns_with_tombstones(world: World) -> None:
    """Selective consumers take from the middle, which leaves gaps to come back to."""
    connection, other = world.connect(), world.connect()
    for number in range(200):
        world.send("q", b"%d" % number, headers={"k": str(number % 3)})
    one = world.attach(connection, "q", filter="k=1")
    two = world.attach(other, "q", filter="k=2")
    taken = world.taken(one)
    for delivery in taken[::2]:
        world.ack(one, delivery.message)
    world.close(connection)
    assert world.in_flight("q") == [b"%d" % n for n in range(200) if n % 3 == 2]
    world.detach(two)
    gone = {delivery.body for delivery in taken[::2]}
    assert world.ready("q") == [b"%d" % n for n in range(200) if b"%d" % n not in gone]


def test_non_persistent_messages_keep_their_place_too(world: World) -> None:
    connection = world.connect()
    for number in range(8):
        world.send("q", b"%d" % number, persistent=number % 3 == 0)
    consumer = world.attach(connection, "q", credit_messages=6, credit_bytes=0)
    world.detach(consumer)
    assert world.ready("q") == [b"%d" % number for number in range(8)]
    consumer = world.attach(connection, "q", credit_messages=5, credit_bytes=0)
    world.ack(consumer, world.taken()[-5].message)
    world.detach(consumer)
    assert world.ready("q") == [b"%d" % number for number in range(1, 8)]


@pytest.mark.parametrize(
    ("reason", "count"),
    [
        (reasons.CLOSED, 0),
        (reasons.DISCONNECTED, 1),
        (reasons.TIMEOUT, 1),
        (reasons.PROTOCOL_ERROR, 1),
    ],
)
def test_what_the_end_of_a_connection_means_for_counts(
    world: World, reason: int, count: int
) -> None:
    connection, _, _ = deliver(world, 3)
    world.close(connection, reason)
    assert world.counts("q") == {b"0": count, b"1": count, b"2": count}
    assert world.ready("q") == [b"0", b"1", b"2"]
    assert {event.reason for event in world.events_named("Returned")} == {reason}
    world.attach(world.connect(), "q")
    assert [delivery.attempt for delivery in world.taken()] == [count + 1] * 3


def test_a_clean_detach_gives_the_attempt_back(world: World) -> None:
    _, consumer, (first, _) = deliver(world, 2)
    world.nack(consumer, first.message)
    world.detach(consumer)
    assert world.counts("q") == {b"0": 1, b"1": 0}
    assert world.ready("q") == [b"0", b"1"]


@pytest.mark.parametrize("cleanly", [False, True])
def test_restart_and_shutdown_count(world: World, cleanly: bool) -> None:
    deliver(world, 2)
    if cleanly:
        world.ok(Stop())
    world.restart()
    assert world.counts("q") == {b"0": 1, b"1": 1}
    world.attach(world.connect(), "q")
    assert [(each.body, each.attempt) for each in world.taken()] == [(b"0", 2), (b"1", 2)]


@pytest.mark.parametrize("cleanly", [False, True])
def test_restart_and_shutdown_never_dead_letter(world: World, cleanly: bool) -> None:
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    deliver(world, 1)
    if cleanly:
        world.ok(Stop())
    world.restart()
    assert world.ready("q") == [b"0"]
    consumer = world.attach(world.connect(), "q")
    (delivery,) = world.taken()
    assert delivery.attempt == 2
    world.nack(consumer, delivery.message)
    assert world.bodies("q") == []
    assert world.ready("dead") == [b"0"]


def test_the_last_attempt_goes_to_the_dead_letter_address(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 3, "dead_letter_address": "dead"})
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x", headers={"a": "b", "expires": "77"}, priority=8)
    for attempt in (1, 2, 3):
        (delivery,) = world.taken()
        assert (delivery.message, delivery.attempt) == (message, attempt)
        answer = world.nack(consumer, message)
    assert world.bodies("q") == []
    (dead,) = world.events_named("DeadLettered")
    copy = world.journal[dead.lsn]
    assert (copy.name, copy.reason) == ("Routed", reasons.DEAD_LETTER)
    assert dead.row[events.RELATED] == copy.lsn == copy.row[events.MESSAGE]
    assert copy.row[events.RELATED] == dead.row[events.MESSAGE] == message
    assert dead.row[events.DELIVERY_COUNT] == 3
    assert answer == copy.lsn
    (entry,) = world.queue("dead").entries.values()
    assert (entry.delivery_count, entry.message.priority, entry.message.expires) == (0, 8, 0)
    assert other_headers(entry.message.headers) == {
        "a": "b",
        "_AMQ_ORIG_ADDRESS": "q",
        "_AMQ_ORIG_QUEUE": "q",
        "_AMQ_ORIG_MESSAGE_ID": str(message),
        "_AMQ_ORIG_ROUTING_TYPE": "0",
    }
    assert world.queue("q").dead_lettered == 1


def test_without_a_dead_letter_address_it_is_dropped_if_that_is_the_policy(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_policy": "DROP"})
    _, consumer, (delivery,) = deliver(world, 1)
    world.nack(consumer, delivery.message)
    (dead,) = world.events_named("DeadLettered")
    assert (dead.reason, dead.row[events.RELATED]) == (reasons.NO_DEAD_LETTER_ADDRESS, 0)
    assert world.bodies("q") == []


def test_a_dead_letter_address_where_no_queue_takes_it(world: World) -> None:
    world.ok(create_queue("picky", "dead", filter="kind=big"))
    world.settings(
        q={
            "max_delivery_attempts": 1, "dead_letter_address": "dead", "dead_letter_policy": "DROP",
        }
    )  # fmt: skip
    _, consumer, (delivery,) = deliver(world, 1)
    world.nack(consumer, delivery.message)
    (dead,) = world.events_named("DeadLettered")
    assert (dead.reason, dead.row[events.RELATED]) == (reasons.UNROUTABLE, 0)


def test_a_dead_letter_address_that_may_not_be_created(world: World) -> None:
    world.send("q", b"x")
    world.settings(
        q={
            "max_delivery_attempts": 1, "dead_letter_address": "dead", "dead_letter_policy": "DROP",
        },
        dead={"auto_create_queues": False},
    )  # fmt: skip
    consumer = world.attach(world.connect(), "q")
    world.nack(consumer, world.taken()[0].message)
    assert world.events_named("DeadLettered")[0].reason == reasons.UNROUTABLE
    assert "dead" not in world.state.queue_by_name


def test_multicast_subscriptions_dead_letter_each_their_own(world: World) -> None:
    world.settings(news={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    for name in ("s1", "s2"):
        world.ok(create_queue(name, "news", "multicast"))
    connection = world.connect()
    consumers = [world.attach(connection, "news", queue=name) for name in ("s1", "s2")]
    message = world.send("news", b"x")
    for consumer in consumers:
        world.nack(consumer, message)
    queues = [
        as_dict(entry.message.headers)["_AMQ_ORIG_QUEUE"]
        for entry in world.queue("dead").entries.values()
    ]
    assert queues == ["s1", "s2"]


def test_in_its_own_dead_letter_address_a_message_never_dies(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    world.send("dead", b"x")
    consumer = world.attach(world.connect(), "dead")
    for attempt in range(1, 5):
        (delivery,) = world.taken()
        assert delivery.attempt == attempt
        world.nack(consumer, delivery.message)
    assert world.events_named("DeadLettered") == []


def test_a_dead_letter_address_may_have_one_of_its_own(world: World) -> None:
    world.settings(
        q={"max_delivery_attempts": 1, "dead_letter_address": "dead"},
        dead={"max_delivery_attempts": 2, "dead_letter_address": "buried"},
    )
    connection, consumer, (delivery,) = deliver(world, 1)
    world.nack(consumer, delivery.message)
    gravedigger = world.attach(connection, "dead")
    for _ in range(2):
        world.nack(gravedigger, world.taken(gravedigger)[0].message)
    (entry,) = world.queue("buried").entries.values()
    origin = as_dict(entry.message.headers)
    assert (origin["_AMQ_ORIG_ADDRESS"], origin["_AMQ_ORIG_QUEUE"]) == ("dead", "dead")
    assert world.bodies("q") == world.bodies("dead") == []


@pytest.mark.parametrize("limit", [-1, 0])
def test_no_limit_means_no_limit(world: World, limit: int) -> None:
    world.settings(q={"max_delivery_attempts": limit, "dead_letter_address": "dead"})
    consumer = world.attach(world.connect(), "q")
    world.send("q", b"x")
    for attempt in range(1, 40):
        (delivery,) = world.taken()
        assert delivery.attempt == attempt
        world.nack(consumer, delivery.message)


def test_dead_letters_are_in_the_order_in_which_they_were_delivered(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    connection, consumer, taken = deliver(world, 6)
    world.nack(consumer, taken[2].message, cumulative=True)
    world.close(connection, reasons.DISCONNECTED)
    assert world.ready("dead") == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_some_die_and_some_return_each_in_order(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 2, "dead_letter_address": "dead"})
    connection, _, _ = deliver(world, 4, credit_messages=2, credit_bytes=0)
    world.close(connection, reasons.DISCONNECTED)
    connection = world.connect()
    world.attach(connection, "q")
    world.close(connection, reasons.DISCONNECTED)
    assert world.ready("dead") == [b"0", b"1"]
    assert world.counts("q") == {b"2": 1, b"3": 1}
    assert world.ready("q") == [b"2", b"3"]


def test_a_clean_close_looks_at_the_limit_after_giving_back(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 2})
    connection, consumer, (delivery,) = deliver(world, 1)
    world.nack(consumer, delivery.message)
    world.close(connection)
    assert world.counts("q") == {b"0": 1}
    connection = world.connect()
    world.attach(connection, "q")
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    world.close(connection)
    assert world.bodies("q") == []
    assert world.bodies("dead") == [b"0"]


def test_delivery_goes_on_after_the_last_attempt_of_one(world: World) -> None:
    """The credit of what was dead-lettered serves the next."""
    world.settings(q={"max_delivery_attempts": 1})
    _, consumer, (first,) = deliver(world, 2, credit_messages=1, credit_bytes=0)
    world.nack(consumer, first.message)
    assert world.taken_bodies(consumer) == [b"1"]


def test_settings_that_change_count_for_what_is_in_flight(world: World) -> None:
    _, consumer, (delivery,) = deliver(world, 1)
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    world.nack(consumer, delivery.message)
    assert world.ready("dead") == [b"0"]


@pytest.mark.parametrize("mode", ["decisions", "full"])
def test_non_persistent_messages_die_with_headers_and_body(
    worlds: Callable[..., World], mode: str
) -> None:
    world = worlds()
    world.settings(mode, q={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    consumer = world.attach(world.connect(), "q")
    world.send("q", b"x", persistent=False, headers={"a": "b"})
    assert world.nack(consumer, world.taken()[0].message) == 0
    (entry,) = world.queue("dead").entries.values()
    assert entry.message.body == b"x"
    assert as_dict(entry.message.headers)["a"] == "b"
    assert not entry.message.persistent


def test_credit_comes_back_with_every_end_of_a_delivery(world: World) -> None:
    _, consumer, (first, second) = deliver(world, 2, credit_messages=2, credit_bytes=500)
    attached = world.state.consumers[consumer]
    assert (attached.credit_messages, attached.credit_bytes) == (0, 498)
    world.ack(consumer, first.message)
    world.nack(consumer, second.message)
    assert (attached.credit_messages, attached.credit_bytes) == (1, 499)


@pytest.mark.parametrize(
    ("persistent", "waits_for"), [((True, True), 1), ((True, False), 0), ((False, False), None)]
)
def test_a_cumulative_acknowledgement_waits_for_the_last_that_must_be_kept(
    world: World, persistent: tuple[bool, bool], waits_for: int | None
) -> None:
    consumer = world.attach(world.connect(), "q")
    for each in persistent:
        world.send("q", b"x", persistent=each)
    answer = world.ack(consumer, world.taken()[-1].message, cumulative=True)
    lsns = [event.lsn for event in world.events_named("Acknowledged")]
    assert answer == (lsns[waits_for] if waits_for is not None else 0)


@pytest.mark.parametrize("outcome", [FAILED, RELEASED, REJECTED])
def test_what_a_consumer_says_of_a_failure_is_kept(world: World, outcome: int) -> None:
    connection, consumer, taken = deliver(world, 3)
    said = {"outcome": outcome, "condition": "amqp:not-allowed", "error": "no such customer"}
    world.ok(Settle(consumer, taken[1].message, True, **said))
    world.begin(connection)
    world.ok(Settle(consumer, taken[2].message, False, "t", **said))
    world.commit(connection)
    events_ = [each for each in world.events_named("Returned") if each.detail]
    assert len(events_) == 3
    for event in events_:
        assert (event.decoded.condition, event.decoded.error) == (said["condition"], said["error"])
    world.check()


def test_nothing_said_is_nothing_kept(world: World) -> None:
    connection, consumer, (first, _) = deliver(world, 2)
    world.nack(consumer, first.message)
    world.close(connection, reasons.DISCONNECTED)
    assert [each.detail for each in world.events_named("Returned")] == [b""] * 3
    assert {each.decoded for each in world.events_named("Returned")} == {ReturnedDetail()}


def test_long_words_are_cut(world: World) -> None:
    _, consumer, (first,) = deliver(world, 1)
    world.nack(consumer, first.message, condition="c" * 5000, error="e" * 5000)
    (event,) = world.events_named("Returned")
    assert event.decoded.condition == "c" * CONDITION_LENGTH_MAX
    assert event.decoded.error == "e" * ERROR_LENGTH_MAX


@pytest.mark.parametrize(
    ("condition", "error", "shown"),
    [("c", "e", "c: e"), ("c", "", "c"), ("", "e", "e"), ("", "", None)],
)
def test_a_dead_letter_says_both(
    world: World, condition: str, error: str, shown: str | None
) -> None:
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    _, consumer, (first,) = deliver(world, 1)
    world.nack(consumer, first.message, condition=condition, error=error)
    (entry,) = world.queue("dead").entries.values()
    assert as_dict(entry.message.headers).get(DEATH_ERROR) == shown
    world.check()


def test_what_is_held_keeps_it_as_well(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 1})
    _, consumer, (first,) = deliver(world, 1)
    world.nack(consumer, first.message, condition="c", error="e")
    assert world.queue("q").held_count == 1
    (event,) = world.events_named("Returned")
    assert (event.decoded.condition, event.decoded.error) == ("c", "e")


def again(world: World) -> list[tuple[bytes, int, bool]]:
    """The delivery to a new consumer: body, attempt, and the flag redelivered."""
    world.attach(world.connect(), "q")
    return [(each.body, each.attempt, each.redelivered) for each in world.taken()]


@pytest.mark.parametrize("by", ["detach", "close"])
@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_only_prefetched_is_flagged_and_does_not_count(
    world: World, by: str, restarted: bool
) -> None:
    connection, consumer, taken = deliver(world, 2)
    assert not any(each.redelivered for each in taken)
    world.detach(consumer) if by == "detach" else world.close(connection)
    world.send("q", b"new")
    if restarted:
        world.restart()
    assert again(world) == [(b"0", 1, True), (b"1", 1, True), (b"new", 1, False)]


@pytest.mark.parametrize("by", ["detach", "close"])
@pytest.mark.parametrize("ended", ["abort", "open"])
@pytest.mark.parametrize("kind", ["ack", "nack"])
def test_what_was_part_of_a_transaction_counts_after_a_clean_close(
    world: World, by: str, ended: str, kind: str
) -> None:
    connection, consumer, taken = deliver(world, 2)
    world.begin(connection)
    getattr(world, kind)(consumer, taken[0].message, transaction="t")
    if ended == "abort":
        world.abort(connection)
    world.detach(consumer) if by == "detach" else world.close(connection)
    assert world.counts("q") == {b"0": 1, b"1": 0}
    assert again(world) == [(b"0", 2, True), (b"1", 1, True)]


def test_an_attempt_in_a_transaction_is_not_an_attempt_of_the_next_delivery(world: World) -> None:
    connection, consumer, (first,) = deliver(world, 1)
    world.begin(connection)
    world.ack(consumer, first.message, transaction="t")
    world.abort(connection)
    world.nack(consumer, first.message)
    assert [(each.attempt, each.redelivered) for each in world.taken()] == [(2, True)]
    world.detach(consumer)
    assert world.counts("q") == {b"0": 1}


def test_a_clean_close_after_a_transaction_can_be_the_last_attempt(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    connection, consumer, (first, _) = deliver(world, 2)
    world.begin(connection)
    world.ack(consumer, first.message, transaction="t")
    world.close(connection)
    assert world.bodies("dead") == [b"0"]
    assert again(world) == [(b"1", 1, True)]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_lost_connection_flags_and_counts(world: World, restarted: bool) -> None:
    connection, _, _ = deliver(world, 1)
    if restarted:
        world.restart()
    else:
        world.close(connection, reasons.DISCONNECTED)
    assert again(world) == [(b"0", 2, True)]


def test_an_old_event_that_gave_an_attempt_back_means_what_it_meant(world: World) -> None:
    """Without the flag of Returned the count alone says what was delivered; digests stay equal."""
    _, consumer, _ = deliver(world, 1)
    world.detach(consumer)
    journal = [
        event._replace(row=(*event.row[:6], event.row[6] & ~events.REDELIVERED, *event.row[7:]))
        for event in world.journal
    ]
    (entry,) = fold(journal).queue_by_name["q"].entries.values()
    assert (entry.redelivered, entry.delivery_count) == (False, 0)
    (flagged,) = fold(world.journal).queue_by_name["q"].entries.values()
    assert (flagged.redelivered, flagged.delivery_count) == (True, 0)
    assert entry_hash(1, flagged) != entry_hash(1, entry)
    flagged.redelivered = False
    assert entry_hash(1, flagged) == entry_hash(1, entry)


def test_what_is_withheld_stays_in_its_queue_and_is_not_delivered(world: World) -> None:
    for body in (b"1", b"2", b"3"):
        world.send("q", body, routing_type="anycast")
    first, second, _ = [entry.message.id for entry in world.entries("q")]
    queue = world.queue("q")
    world.ok(Withhold(queue.id, second))
    world.ok(Withhold(queue.id, second))
    connection = world.connect()
    consumer = world.attach(connection, "q", credit_messages=9)
    assert world.taken_bodies() == [b"1", b"3"]
    refusal = world.handle(Withhold(queue.id, first))
    assert isinstance(refusal, Refusal), "it is in flight"
    assert (queue.message_count, queue.ready_count) == (3, 1)
    assert world.ready("q") == [b"2"]
    world.close(connection, reasons.DISCONNECTED)
    assert sorted(world.ready("q")) == [b"1", b"2", b"3"]
    world.check()
    # It can be removed like all the others.
    world.ok(PurgeQueue("q", world.broker.lsn))
    assert queue.message_count == 0
    assert queue.withheld == {}
    assert consumer
    world.check()


def test_a_body_that_the_broker_cannot_read_costs_nobody_an_attempt(world: World) -> None:
    world.settings(all={"max-delivery-attempts": 1, "dead-letter-address": "dead"})
    for body in (b"1", b"2"):
        world.send("q", body, routing_type="anycast")
    for _ in range(3):
        connection = world.connect()
        consumer = world.attach(connection, "q", credit_messages=9)
        world.begin(connection)
        # Not even one that was attempted in a transaction.
        world.ack(consumer, world.taken(consumer)[0].message, transaction="t")
        world.close(connection, reasons.UNREADABLE)
        assert world.counts("q") == {b"1": 0, b"2": 0}
    assert all(entry.redelivered for entry in world.entries("q"))
    world.check()
