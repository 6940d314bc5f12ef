"""Queues that belong to links, sessions and connections: when their time begins, and what ends with
their owner (ADR 102)."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.core.owners import Owner, Owners
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import (
    ANYCAST,
    CONNECTION_CLOSE,
    LINK_DETACH,
    MULTICAST,
    NEVER,
    SESSION_END,
)
from daybook.engine.names.names import DURABLE, temporary_name
from daybook.engine.refusals import UNFINISHED, Code
from daybook.engine.topology import ownership
from tests.support.compiled import replaces_parts
from tests.support.world import World

QUEUE = f"{DURABLE}mine"


def _subscribe(world: World, connection: int, policy: str, **values: Any) -> int:
    given = {"routing_type": MULTICAST, "durable_name": "mine", "session": 1, **values}
    return world.attach(connection, "news", expiry_policy=policy, **given)


def _names(world: World) -> set[str]:
    """The queues there are, after a scan for those that nobody uses."""
    world.ok(c.DeleteUnused())
    while world.broker.scans_names:
        world.ok(c.DeleteUnused())
    world.check()
    return set(world.state.queue_by_name)


# ---- when the time begins


def test_by_link_the_time_begins_when_the_last_consumer_leaves() -> None:
    world = World()
    connection = world.connect()
    first, second = (_subscribe(world, connection, LINK_DETACH, expiry_ms=5000) for _ in range(2))
    world.detach(first)
    world.sleep(60)
    assert QUEUE in _names(world), "it has a consumer"
    world.detach(second)
    world.send("news", b"kept", connection)
    world.sleep(4)
    assert QUEUE in _names(world)
    world.sleep(1)
    assert QUEUE not in _names(world), "also with messages"


def test_by_link_and_without_a_time_it_goes_with_its_last_consumer() -> None:
    world = World()
    connection = world.connect()
    first, second = (_subscribe(world, connection, LINK_DETACH) for _ in range(2))
    world.send("news", b"lost", connection)
    world.detach(first)
    assert QUEUE in world.state.queue_by_name
    world.detach(second)
    assert QUEUE not in world.state.queue_by_name
    assert world.events_named("QueueDeleted")[-1].reason == reasons.AUTO_DELETE


def test_by_session_the_time_begins_when_the_session_ends() -> None:
    world = World()
    connection = world.connect()
    world.detach(_subscribe(world, connection, SESSION_END, expiry_ms=5000))
    world.sleep(60)
    assert QUEUE in _names(world), "its session is open"
    world.ok(c.EndOwner(connection, session=2))
    world.ok(c.EndOwner(connection, link=1))
    world.sleep(60)
    assert QUEUE in _names(world), "another session ended, and a link"
    world.ok(c.EndOwner(connection, session=1))
    [ended] = world.events_named("OwnerEnded")
    assert ended.row[events.CONNECTION] == connection
    world.sleep(4)
    assert QUEUE in _names(world)
    world.sleep(1)
    assert QUEUE not in _names(world)


def test_by_connection_the_time_begins_when_the_connection_is_closed() -> None:
    world = World()
    connection = world.connect()
    world.detach(_subscribe(world, connection, CONNECTION_CLOSE, expiry_ms=5000))
    world.ok(c.EndOwner(connection, session=1))
    world.sleep(60)
    assert QUEUE in _names(world), "its session ended, and its connection is open"
    world.close(connection)
    world.sleep(4)
    assert QUEUE in _names(world)
    world.sleep(1)
    assert QUEUE not in _names(world)


@pytest.mark.parametrize("policy", [SESSION_END, CONNECTION_CLOSE])
def test_a_lost_connection_ends_its_sessions(policy: str) -> None:
    world = World()
    connection = world.connect()
    _subscribe(world, connection, policy, expiry_ms=5000)
    world.close(connection, reasons.DISCONNECTED)
    assert len(world.events_named("OwnerEnded")) == 1
    world.sleep(5)
    assert QUEUE not in _names(world)


@pytest.mark.parametrize("policy", [SESSION_END, CONNECTION_CLOSE])
def test_without_a_time_it_goes_at_once_with_its_owner(policy: str) -> None:
    world = World()
    connection = world.connect()
    world.detach(_subscribe(world, connection, policy))
    assert QUEUE in _names(world)
    world.close(connection)
    assert QUEUE not in world.state.queue_by_name


def test_one_that_never_expires_stays() -> None:
    world = World()
    connection = world.connect()
    _subscribe(world, connection, NEVER, expiry_ms=1)
    world.close(connection)
    world.sleep(1_000_000)
    assert QUEUE in _names(world)


@pytest.mark.parametrize("policy", [SESSION_END, CONNECTION_CLOSE])
def test_a_consumer_that_comes_back_stops_the_time(policy: str) -> None:
    world = World()
    first = world.connect()
    _subscribe(world, first, policy, expiry_ms=5000)
    world.close(first)
    world.sleep(4)
    second = world.connect()
    consumer = _subscribe(world, second, policy, expiry_ms=5000)
    world.sleep(60)
    assert QUEUE in _names(world)
    world.detach(consumer)
    world.sleep(60)
    assert QUEUE in _names(world), "it belongs to the second connection now"
    world.close(second)
    world.sleep(5)
    assert QUEUE not in _names(world)


def test_a_browser_neither_owns_a_queue_nor_stops_its_time() -> None:
    world = World()
    connection, other = world.connect(), world.connect()
    world.detach(_subscribe(world, connection, CONNECTION_CLOSE, expiry_ms=5000))
    browser = world.attach(other, "news", queue=QUEUE, browses=True, listens=True)
    world.close(connection)
    world.sleep(60)
    assert QUEUE in _names(world), "it is being read"
    world.detach(browser)
    assert QUEUE not in _names(world)


@pytest.mark.parametrize("policy", [SESSION_END, CONNECTION_CLOSE])
@pytest.mark.parametrize("has_left", [True, False])
def test_a_crash_ends_every_session(policy: str, has_left: bool) -> None:
    world = World()
    connection = world.connect()
    consumer = _subscribe(world, connection, policy, expiry_ms=5000)
    if has_left:
        world.detach(consumer)
    world.sleep(60)
    world.restart()
    assert QUEUE in _names(world), "the time begins with the start"
    world.sleep(5)
    assert QUEUE not in _names(world)


def test_one_that_is_not_durable_outlives_its_connection_and_no_restart() -> None:
    world = World()
    connection = world.connect()
    _subscribe(world, connection, CONNECTION_CLOSE, expiry_ms=60_000, durable=False)
    world.close(connection)
    assert QUEUE in _names(world)
    world.restart()
    assert QUEUE not in world.state.queue_by_name


def test_a_subscriber_may_change_its_policy() -> None:
    world = World()
    connection = world.connect()
    _subscribe(world, connection, NEVER)
    queue = world.queue(QUEUE).id
    _subscribe(world, connection, LINK_DETACH, expiry_ms=5000)
    assert world.queue(QUEUE).id == queue
    definition = world.queue(QUEUE).definition
    assert (definition.expiry_policy, definition.auto_delete_delay) == (LINK_DETACH, 5000)
    world.close(connection)
    world.sleep(5)
    assert QUEUE not in _names(world)


@pytest.mark.parametrize("policy", [NEVER, LINK_DETACH])
def test_what_it_belonged_to_ends_after_it_got_another_policy(policy: str) -> None:
    world = World()
    first = world.connect()
    world.detach(_subscribe(world, first, SESSION_END, expiry_ms=1000))
    world.detach(_subscribe(world, world.connect(), policy, expiry_ms=1000))
    world.close(first)
    assert QUEUE in _names(world)


def test_an_administrator_can_keep_it() -> None:
    world = World()
    connection = world.connect()
    _subscribe(world, connection, CONNECTION_CLOSE)
    world.ok(c.UpdateQueue(QUEUE, {"auto_delete": False}))
    world.close(connection)
    assert QUEUE in _names(world)
    world.ok(c.UpdateQueue(QUEUE, {"auto_delete": True}))
    assert QUEUE not in _names(world)


def test_settings_of_the_address_do_not_change_when_it_goes() -> None:
    world = World()
    world.settings(
        **{
            "#": {
                "auto-delete-queues": False,
                "auto-delete-queues-skip-usage-check": True,
                "auto-delete-created-queues": True,
            }
        }
    )
    connection = world.connect()
    world.detach(_subscribe(world, connection, SESSION_END, expiry_ms=5000))
    world.sleep(60)
    assert QUEUE in _names(world)
    world.close(connection)
    world.sleep(5)
    assert QUEUE not in _names(world)


# ---- subscriptions without a name


@pytest.mark.parametrize("policy", [SESSION_END, CONNECTION_CLOSE])
def test_a_topics_queue_may_outlive_its_consumer(policy: str) -> None:
    world = World()
    connection = world.connect()
    consumer = world.attach(
        connection, "news", routing_type=MULTICAST, expiry_policy=policy, session=1
    )
    queue = world.state.consumers[consumer].queue.name
    world.detach(consumer)
    world.send("news", b"meanwhile")
    again = world.attach(connection, "news", queue=queue, session=1)
    assert world.taken_bodies(again) == [b"meanwhile"]
    world.detach(again)
    world.ok(c.EndOwner(connection, session=1))
    assert (queue in world.state.queue_by_name) == (policy == CONNECTION_CLOSE)
    world.close(connection)
    assert queue not in world.state.queue_by_name


def _of_topic(world: World, connection: int, policy: str = SESSION_END, **values: Any) -> int:
    given = {"routing_type": MULTICAST, "session": 1, "subscription": "s", **values}
    return world.attach(connection, given.pop("address", "news"), expiry_policy=policy, **given)


def _queue_of(world: World, consumer: int) -> str:
    return world.state.consumers[consumer].queue.name


@pytest.mark.parametrize("policy", [SESSION_END, CONNECTION_CLOSE])
def test_a_subscription_finds_what_it_left(policy: str) -> None:
    world = World()
    connection = world.connect()
    first = _of_topic(world, connection, policy)
    queue = _queue_of(world, first)
    world.detach(first)
    world.send("news", b"meanwhile")
    # Nobody else finds it.
    for other in (
        _of_topic(world, world.connect(), policy),
        _of_topic(world, connection, policy, subscription="t"),
    ):
        assert _queue_of(world, other) != queue
        world.detach(other, closes=True)
    again = _of_topic(world, connection, policy, session=2)
    assert _queue_of(world, again) == queue
    assert world.taken_bodies(again) == [b"meanwhile"]
    # While it is used, another one of its name has a queue of its own.
    beside = _of_topic(world, connection, policy)
    assert _queue_of(world, beside) != queue
    world.detach(beside, closes=True)
    world.detach(again)
    world.ok(c.EndOwner(connection, session=1))
    assert queue in world.state.queue_by_name, "it is of another session now"
    world.close(connection)
    assert queue not in world.state.queue_by_name
    world.check()


@pytest.mark.parametrize(
    "changed",
    [{"address": "other"}, {"filter": "a = 1"}, {"no_local": True}, {"policy": CONNECTION_CLOSE}],
)
def test_another_subscription_of_its_name_takes_its_place(changed: dict[str, Any]) -> None:
    world = World()
    connection = world.connect()
    first = _of_topic(world, connection)
    queue = _queue_of(world, first)
    world.detach(first)
    second = _of_topic(world, connection, **changed)
    assert queue not in world.state.queue_by_name
    world.detach(second)
    assert len(world.state.queue_by_name) == 1
    world.check()


def test_of_two_that_leave_the_later_one_is_kept() -> None:
    world = World()
    connection = world.connect()
    first, second = (_of_topic(world, connection) for _ in range(2))
    kept = _queue_of(world, second)
    world.detach(first)
    world.detach(second)
    assert set(world.state.queue_by_name) == {kept}
    world.check()


@pytest.mark.parametrize("policy", [SESSION_END, CONNECTION_CLOSE])
def test_a_subscription_that_is_closed_leaves_nothing(policy: str) -> None:
    world = World()
    connection = world.connect()
    closed = _of_topic(world, connection, policy)
    world.send("news", b"x")
    world.ok(c.Detach(closed, closes=True))
    assert not world.state.queue_by_name
    # A lost connection ends it with the message that is in flight, which does not count.
    lost = _of_topic(world, connection, policy)
    world.send("news", b"y")
    assert world.taken_bodies(lost) == [b"y"]
    world.close(connection, reasons.DISCONNECTED)
    assert not world.state.queue_by_name
    assert not world.events_named("Returned")
    world.check()


@replaces_parts
def test_a_connection_leaves_a_limited_number_of_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "TEMPORARIES_MAX", 2)
    world = World()
    connection = world.connect()
    for number in range(4):
        world.detach(_of_topic(world, connection, subscription=str(number)))
    assert len(world.state.queue_by_name) == world.broker.owners.left_count(connection) == 2
    world.close(connection)
    assert world.broker.owners.left_count(connection) == 0
    world.check()


@pytest.mark.parametrize("values", [{"expiry_policy": NEVER}, {"expiry_ms": 1}, {"durable": False}])
def test_without_a_name_none_outlives_its_connection(values: dict[str, Any]) -> None:
    world = World()
    connection = world.connect()
    refused = world.refused(c.Attach(connection, "news", routing_type=MULTICAST, **values))
    assert refused.code is Code.INVALID
    assert "give it one" in refused.text


def test_a_policy_and_a_time_that_do_not_exist_are_refused() -> None:
    world = World()
    connection = world.connect()
    for values in ({"expiry_policy": "sometimes"}, {"expiry_ms": -1}, {"expiry_ms": 1 << 60}):
        asked = c.Attach(connection, "news", durable_name="mine", **values)  # type: ignore[arg-type]
        refused = world.refused(asked)
        assert refused.code is Code.INVALID


# ---- who may delete


def test_its_clients_delete_it_as_a_durable_subscription() -> None:
    world = World()
    connection = world.connect()
    consumer = _subscribe(world, connection, SESSION_END, expiry_ms=5000)
    world.detach(consumer, delete_durable=True)
    assert QUEUE not in world.state.queue_by_name


def test_a_topics_queue_is_no_durable_subscription() -> None:
    world = World()
    connection = world.connect()
    consumer = world.attach(
        connection, "news", routing_type=MULTICAST, expiry_policy=SESSION_END, session=1
    )
    refused = world.refused(c.Detach(consumer, delete_durable=True))
    assert refused.code is Code.NOT_ALLOWED


def test_a_durable_subscription_is_none_that_is_not_durable() -> None:
    world = World()
    connection = world.connect()
    _subscribe(world, connection, NEVER)
    asked = c.Attach(connection, "news", durable_name="mine", durable=False)
    assert world.refused(asked).code is Code.ALREADY_EXISTS


# ---- temporary destinations of links and sessions


@pytest.mark.parametrize("routing_type", [ANYCAST, MULTICAST])
@pytest.mark.parametrize("owner", [{"session": 3}, {"link": 3}, {"session": 3, "link": 3}])
def test_a_temporary_destination_ends_with_its_owner(
    routing_type: str, owner: dict[str, int]
) -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "replies")
    world.ok(c.CreateTemporary(connection, name, routing_type, **owner))
    consumer = world.attach(connection, name, routing_type=routing_type)
    world.send(name, b"answer")
    assert world.taken_bodies(consumer) == [b"answer"]
    others: tuple[dict[str, int], ...] = ({"session": 4}, {"link": 4})
    for other in others:
        world.ok(c.EndOwner(connection, **other))
    assert name in world.state.address_by_name
    world.detach(consumer)
    world.ok(c.EndOwner(connection, **owner))
    assert name not in world.state.address_by_name
    world.check()


def test_without_a_link_or_session_it_ends_with_its_connection() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "replies")
    world.ok(c.CreateTemporary(connection, name))
    assert world.queue(name).definition.temporary
    world.close(connection)
    assert name not in world.state.address_by_name


def test_a_long_queue_takes_its_address_along_in_the_end() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "replies")
    world.ok(c.CreateTemporary(connection, name, link=1))
    for _ in range(3000):
        world.send(name, b"x")
    world.broker.budget.allow(10)
    while world.handle(c.EndOwner(connection, link=1)) == UNFINISHED:
        world.broker.budget.allow(10)
    assert name not in world.state.queue_by_name
    assert name in world.state.address_by_name, "its queue is being emptied"
    while world.broker.work.emptying:
        world.broker.budget.allow(10)
        world.broker.go_on(world.now)
    assert name not in world.state.address_by_name
    world.check()


def test_many_of_them_end_in_slices() -> None:
    world = World()
    connection = world.connect()
    for number in range(100):
        world.ok(c.CreateTemporary(connection, temporary_name(connection, f"r{number}"), link=1))
    world.broker.budget.allow(25)
    assert world.handle(c.EndOwner(connection, link=1)) is UNFINISHED
    assert 80 < len(world.state.temporaries[connection]) < 100
    world.broker.budget.allow(1_000_000)
    world.ok(c.EndOwner(connection, link=1))
    assert connection not in world.state.temporaries


@pytest.mark.parametrize(
    ("name", "code"), [("orders", Code.INVALID), ("temp.default.99.x", Code.NOT_ALLOWED)]
)
def test_names_that_are_not_its_own_are_refused(name: str, code: Code) -> None:
    world = World()
    connection = world.connect()
    before = world.broker.lsn
    assert world.refused(c.CreateTemporary(connection, name)).code is code
    assert world.broker.lsn == before


def test_a_temporary_destination_is_created_once() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "replies")
    world.ok(c.CreateTemporary(connection, name, link=1))
    assert world.refused(c.CreateTemporary(connection, name, link=2)).code is Code.ALREADY_EXISTS


def test_an_owner_is_a_link_or_a_session() -> None:
    world = World()
    assert world.refused(c.EndOwner(world.connect())).code is Code.INVALID


# ---- the table


def test_nothing_is_left_of_what_is_gone() -> None:
    owners = Owners()
    owners.own(Owner(1, session=2), 10)
    owners.own(Owner(1, link=3), -5)
    owners.own(Owner(1, session=4), 10)
    assert owners.first_of(Owner(1, session=2)) == 0
    assert owners.first_of(Owner(1, session=4)) == 10
    assert {owners.first_of(Owner(1))} <= {10, -5}
    for owned in (10, -5, 77):
        owners.disown(owned)
    assert owners.first_of(Owner(1)) == 0
    assert not owners._by_connection
    assert not owners._owner_of


def test_deleting_and_attaching_leaves_nothing_in_the_table() -> None:
    world = World()
    connection = world.connect()
    for _ in range(3):
        consumer = _subscribe(world, connection, SESSION_END)
        assert not world.broker.owners._owner_of
        world.detach(consumer)
        assert len(world.broker.owners._owner_of) == 1
    world.ok(c.DeleteQueue(QUEUE))
    assert not world.broker.owners._owner_of
    name = temporary_name(connection, "replies")
    world.ok(c.CreateTemporary(connection, name, link=1))
    world.ok(c.DeleteAddress(name, force=True))
    assert not world.broker.owners._owner_of


# ---- destinations that stay without their owner


LINKS = c.StaysWith(links=True)
MESSAGES = c.StaysWith(messages=True)
EITHER = c.StaysWith(links=True, messages=True)


def test_a_destination_stays_with_its_links() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "node")
    world.ok(c.CreateTemporary(connection, name, ANYCAST, link=7, stays_with=LINKS))
    other = world.connect()
    world.ok(c.AttachSender(other, name, link=3))
    world.send(name, b"one", other)
    consumer = world.attach(connection, name)
    world.ok(c.EndOwner(connection, link=7))
    assert name in _names(world)
    world.detach(consumer)
    assert name in _names(world), "a link of another connection sends to it"
    world.ok(c.GiveUpSend(other, 3))
    assert name not in world.state.queue_by_name, "also with messages"
    assert name not in world.state.address_by_name
    assert _names(world) == set()


def test_the_last_link_may_be_one_that_receives() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "node")
    world.ok(c.CreateTemporary(connection, name, ANYCAST, link=7, stays_with=LINKS))
    consumer = world.attach(connection, name)
    world.ok(c.EndOwner(connection, link=7))
    assert name in _names(world)
    world.detach(consumer)
    assert name not in world.state.queue_by_name


def test_a_destination_stays_with_its_messages() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "node")
    world.ok(c.CreateTemporary(connection, name, ANYCAST, link=7, stays_with=MESSAGES))
    world.send(name, b"one", connection)
    world.ok(c.EndOwner(connection, link=7))
    assert name in _names(world)
    consumer = world.attach(connection, name)
    world.dispatch()
    [message] = world.state.consumers[consumer].unacked
    assert name in _names(world), "a message on its way is there"
    world.ok(c.Settle(consumer, message))
    assert name not in _names(world), "whatever links it has"


def test_a_destination_stays_with_either() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "node")
    world.ok(c.CreateTemporary(connection, name, ANYCAST, link=7, stays_with=EITHER))
    world.send(name, b"one", connection)
    world.ok(c.EndOwner(connection, link=7))
    consumer = world.attach(connection, name)
    world.dispatch()
    [message] = world.state.consumers[consumer].unacked
    world.ok(c.Settle(consumer, message))
    assert name in _names(world), "it has a consumer"
    world.detach(consumer)
    assert name not in world.state.queue_by_name


@pytest.mark.parametrize("stays_with", [c.NOTHING, LINKS, MESSAGES, EITHER])
def test_without_links_and_messages_a_destination_ends_with_its_owner(
    stays_with: c.StaysWith,
) -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "node")
    world.ok(c.CreateTemporary(connection, name, ANYCAST, link=7, stays_with=stays_with))
    world.ok(c.EndOwner(connection, link=7))
    assert name not in world.state.queue_by_name


def test_nothing_stays_without_its_connection() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "node")
    world.ok(c.CreateTemporary(connection, name, ANYCAST, link=7, stays_with=EITHER))
    other = world.connect()
    world.ok(c.AttachSender(other, name, link=3))
    world.send(name, b"one", other)
    world.ok(c.EndOwner(connection, link=7))
    assert name in _names(world)
    world.close(connection)
    assert name not in _names(world)
    owners = world.broker.owners
    assert [*owners.lingering, *owners.stays_with, *owners.targets] == []


def test_links_of_a_connection_that_ends_keep_nothing() -> None:
    world = World()
    connection = world.connect()
    name = temporary_name(connection, "node")
    world.ok(c.CreateTemporary(connection, name, ANYCAST, link=7, stays_with=LINKS))
    other = world.connect()
    world.ok(c.AttachSender(other, name, link=3))
    world.ok(c.AttachSender(other, name, link=4))
    world.ok(c.EndOwner(connection, link=7))
    world.close(other)
    assert name not in _names(world)


def test_a_scan_looks_at_what_stays_in_turns() -> None:
    world = World()
    connection = world.connect()
    names = [temporary_name(connection, f"node{number}") for number in range(5)]
    for number, name in enumerate(names, 1):
        world.ok(
            c.CreateTemporary(connection, name, ANYCAST, link=number, stays_with=MESSAGES)
        )  # fmt: skip
        world.send(name, b"one", connection)
        world.ok(c.EndOwner(connection, link=number))
    world.ok(c.PurgeQueue(names[-1]))
    for _ in range(10):
        world.broker.budget.allow(2)
        world.broker.handle(c.DeleteUnused(), world.now)
    world.broker.budget.allow(1 << 40)
    assert names[-1] not in world.state.queue_by_name
    assert set(names[:-1]) <= set(world.state.queue_by_name)
