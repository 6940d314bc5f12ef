"""Attaching and detaching: queues, temporary subscriptions, durable ones."""

import pytest

from daybook.engine.commands import Attach, CreateAddress, Credit, DeleteSubscription, Detach, Send
from daybook.engine.core.core import Options
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.refusals import Code
from tests.support.topology import create_queue
from tests.support.world import World


def test_attaching_creates_an_anycast_queue(world: World) -> None:
    connection = world.connect()
    lsn = world.broker.lsn
    consumer = world.attach(connection, "q", subscription="7", cumulative=True)
    assert world.names_since(lsn) == ["AddressCreated", "QueueCreated", "ConsumerAttached"]
    assert world.journal[-1].lsn == consumer
    detail = world.journal[-1].decoded
    assert (detail.subscription, detail.ack_mode) == ("7", "client")


def test_a_consumer_without_preference_on_a_multicast_address_subscribes(world: World) -> None:
    world.ok(CreateAddress("news", (MULTICAST,)))
    world.ok(CreateAddress("both", (ANYCAST, MULTICAST)))
    connection = world.connect()
    world.attach(connection, "news")
    world.attach(connection, "both")
    assert "news" not in world.state.queue_by_name
    assert world.queue("both").definition.routing_type == ANYCAST


def test_every_subscriber_gets_everything_from_its_attaching_on(world: World) -> None:
    connection = world.connect()
    world.send("news", b"before", routing_type=MULTICAST)
    first = world.attach(connection, "news", routing_type=MULTICAST)
    world.send("news", b"1", routing_type=MULTICAST)
    second = world.attach(world.connect(), "news", routing_type=MULTICAST, filter="kind=big")
    world.send("news", b"2", routing_type=MULTICAST)
    world.send("news", b"3", routing_type=MULTICAST, headers={"kind": "big"})
    assert world.taken_bodies(first) == [b"1", b"2", b"3"]
    assert world.taken_bodies(second) == [b"3"]
    # The filter is the queue's: messages that it refuses never get there.
    assert world.state.consumers[second].queue.definition.filter == "kind=big"
    assert world.state.consumers[second].filter == ""


@pytest.mark.parametrize("how", ["detach", "close", "drop", "restart"])
def test_a_temporary_queue_ends_with_its_consumer(world: World, how: str) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "news", routing_type=MULTICAST, credit_messages=1)
    world.credit(consumer, size=-655_360)
    name = world.state.consumers[consumer].queue.name
    world.send("news", b"1", routing_type=MULTICAST)
    world.send("news", b"2", routing_type=MULTICAST)
    assert (world.in_flight(name), len(world.ready(name))) == ([b"1"], 1)
    if how == "detach":
        world.detach(consumer)
    elif how == "restart":
        world.restart()
    else:
        world.close(connection, reasons.CLOSED if how == "close" else reasons.DISCONNECTED)
    assert name not in world.state.queue_by_name
    assert world.events_named("Returned") == []
    if how != "restart":
        assert [e.reason for e in world.events_named("Removed")] == [reasons.QUEUE_REMOVED] * 2


def test_a_temporary_queue_stays_until_its_last_consumer_leaves(world: World) -> None:
    connection = world.connect()
    first = world.attach(connection, "news", routing_type=MULTICAST)
    name = world.state.consumers[first].queue.name
    second = world.attach(connection, "news", queue=name)
    message = world.send("news", b"x", routing_type=MULTICAST)
    world.detach(first)
    assert world.taken_bodies(second) == [b"x"]
    world.ack(second, message)
    world.detach(second)
    assert name not in world.state.queue_by_name


def test_a_temporary_queue_belongs_to_its_connection(world: World) -> None:
    consumer = world.attach(world.connect(), "news", routing_type=MULTICAST)
    name = world.state.consumers[consumer].queue.name
    refusal = world.refused(Attach(world.connect(), "news", queue=name))
    assert refusal.code is Code.NOT_ALLOWED
    world.send("news", b"x", queue=name)
    assert world.taken_bodies(consumer) == [b"x"]


def test_a_queue_that_has_the_name_of_a_temporary_one(world: World) -> None:
    connection = world.connect()
    world.ok(CreateAddress("news", (MULTICAST,)))
    taken = f"news.sub-{world.broker.next_lsn + 3}"
    world.ok(create_queue(taken, "mine"))
    world.send("mine", b"x")
    assert world.broker.next_lsn == int(taken.partition("-")[2])
    consumer = world.attach(connection, "news")
    assert world.state.consumers[consumer].queue.name == taken + "-"
    assert world.ready(taken) == [b"x"]


def test_two_temporary_queues_of_one_connection_differ(world: World) -> None:
    connection = world.connect()
    for _ in range(2):
        world.attach(connection, "news", routing_type=MULTICAST)
    assert len(world.state.queue_by_name) == 2


def test_a_durable_subscription_outlives_connection_and_broker(world: World) -> None:
    world.attach(world.connect(), "news", durable_name="d")
    world.restart()
    world.send("news", b"x", routing_type=MULTICAST)
    world.restart()
    lsn = world.broker.lsn
    consumer = world.attach(world.connect(), "news", durable_name="d")
    assert "QueueUpdated" not in world.names_since(lsn)
    assert world.taken_bodies(consumer) == [b"x"]


def test_a_durable_subscription_is_bound_anew_and_keeps_its_messages(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "news", durable_name="d")
    world.detach(consumer)
    world.send("news", b"1", routing_type=MULTICAST)
    world.attach(
        connection, "mail", durable_name="d", filter="k=1", credit_messages=0, credit_bytes=0
    )
    world.send("news", b"2", routing_type=MULTICAST)
    world.send("mail", b"3", routing_type=MULTICAST)
    world.send("mail", b"4", routing_type=MULTICAST, headers={"k": "1"})
    queue = world.queue("dsub.d")
    assert (queue.address.name, queue.definition.filter) == ("mail", "k=1")
    assert world.ready("dsub.d") == [b"1", b"4"]
    world.restart()
    world.send("mail", b"5", routing_type=MULTICAST)
    world.send("mail", b"6", routing_type=MULTICAST, headers={"k": "1"})
    assert world.ready("dsub.d") == [b"1", b"4", b"6"]


def test_the_new_filter_counts_where_the_old_one_was_used(world: World) -> None:
    connection = world.connect()
    for value in ("1", "2"):
        consumer = world.attach(connection, "news", durable_name="d", filter=f"k={value}")
        for body in ("1", "2"):
            world.send("news", body.encode(), routing_type=MULTICAST, headers={"k": body})
        assert world.taken_bodies(consumer)[-1:] == [value.encode()]
        world.detach(consumer)
    assert world.ready("dsub.d") == [b"1", b"2"]


def test_bound_anew_while_messages_are_in_flight(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "news", durable_name="d", credit_messages=2)
    world.credit(consumer, size=-655_360)
    sent = [world.send("news", b"%d" % number, routing_type=MULTICAST) for number in range(3)]
    other = world.attach(connection, "mail", durable_name="d", credit_messages=0, credit_bytes=0)
    world.ack(consumer, sent[1])
    world.nack(consumer, sent[0])
    assert world.taken_bodies(consumer) == [b"0", b"1", b"2", b"0"]
    world.detach(consumer)
    world.credit(other, 5)
    assert world.taken_bodies(other) == [b"0", b"2"]
    assert world.bodies("dsub.d") == [b"0", b"2"]


def test_deleting_a_durable_subscription(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "news", durable_name="d")
    assert world.refused(DeleteSubscription("d")).code is Code.NOT_ALLOWED
    assert world.refused(DeleteSubscription("e")).code is Code.NOT_FOUND
    world.send("news", b"x", routing_type=MULTICAST)
    other = world.attach(connection, "news", durable_name="d")
    assert world.refused(Detach(consumer, delete_durable=True)).code is Code.NOT_ALLOWED
    world.detach(other)
    lsn = world.broker.lsn
    answer = world.detach(consumer, delete_durable=True)
    assert world.names_since(lsn) == ["Returned", "ConsumerDetached", "Removed", "QueueDeleted"]
    assert answer == world.broker.lsn
    world.detach(world.attach(connection, "news", durable_name="d"))
    world.ok(DeleteSubscription("d"))
    assert "dsub.d" not in world.state.queue_by_name


def test_detaching_deletes_no_queue_that_is_no_durable_subscription(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    assert world.refused(Detach(consumer, delete_durable=True)).code is Code.NOT_ALLOWED
    assert "q" in world.state.queue_by_name


@pytest.mark.parametrize("name", ["", "a::b", "a\tb"])
def test_names_that_no_durable_subscription_can_have(world: World, name: str) -> None:
    connection = world.connect()
    assert world.refused(Attach(connection, "n", durable_name=name)).code is Code.INVALID


@pytest.mark.parametrize("values", [{"routing_type": ANYCAST}, {"durable": False}])
def test_a_queue_with_the_name_of_a_durable_subscription(
    world: World, values: dict[str, object]
) -> None:
    world.ok(create_queue("dsub.d", "a", **{"routing_type": MULTICAST, **values}))
    connection = world.connect()
    refusal = world.refused(Attach(connection, "a", durable_name="d"))
    assert refusal.code is Code.ALREADY_EXISTS


def test_what_cannot_be_attached_to(world: World) -> None:
    connection = world.connect()
    world.ok(create_queue("q", "a"))
    assert world.refused(Attach(99, "a")).code is Code.NOT_FOUND
    assert world.refused(Attach(connection, "a::q")).code is Code.INVALID
    assert world.refused(Attach(connection, "")).code is Code.INVALID
    assert world.refused(Attach(connection, "a", filter="rubbish")).code is Code.INVALID
    assert world.refused(Attach(connection, "b", queue="q")).code is Code.ALREADY_EXISTS
    assert world.refused(Attach(connection, "", queue="p")).code is Code.NOT_FOUND
    assert world.refused(Attach(connection, "", durable_name="d")).code is Code.INVALID
    world.settings(all={"auto_create_addresses": False})
    for values in ({}, {"routing_type": MULTICAST}, {"durable_name": "d"}, {"queue": "p"}):
        assert world.refused(Attach(connection, "new", **values)).code is Code.NOT_FOUND
    world.settings(all={"auto_create_queues": False})
    assert "auto-create-queues" in world.refused(Attach(connection, "new")).text
    world.attach(connection, "new", routing_type=MULTICAST)


def test_filters_that_mean_nothing(world: World) -> None:
    connection = world.connect()
    world.broker.configure(Options())
    for command in (Attach(connection, "q", filter="k=="), create_queue("q", "q", filter="k==")):
        refusal = world.refused(command)
        assert refusal.code is Code.INVALID
        assert "the filter is wrong: column 3: found '=' where a value must be" in refusal.text


def test_what_is_not_there_gets_no_credit_and_cannot_leave(world: World) -> None:
    assert world.refused(Credit(99, 1)).code is Code.NOT_FOUND
    assert world.refused(Detach(99)).code is Code.NOT_FOUND


def test_the_receiver_comes_back_with_each_delivery(world: World) -> None:
    receiver = object()
    world.attach(world.connect(), "q", receiver=receiver)
    world.handle(Send(0, "q", b"", b"x"))
    world.broker.dispatch(world.now)
    ((consumer, message, count, redelivered, _),) = world.broker.effects
    assert consumer.receiver is receiver
    assert (message.body, count, redelivered) == (b"x", 1, False)
