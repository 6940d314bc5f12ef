"""Connections, and the broker's own start and stop."""

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import (
    ChangeSettings,
    CloseConnection,
    OpenConnection,
    RefuseConnection,
    Room,
    Start,
    Stop,
)
from daybook.engine.consumers import connections
from daybook.engine.facts import details, events, reasons
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.queues.queue import Binding, place_of
from daybook.engine.refusals import UNFINISHED, Code
from daybook.engine.state.digest import QUEUE_COST, digest
from daybook.engine.state.state import State
from tests.support.compiled import replaces_parts
from tests.support.world import World, fold, unpack


def test_a_connection_is_known_by_the_number_of_its_event(world: World) -> None:
    connection = world.ok(OpenConnection("stomp/1.2", "1.2.3.4:5", "ann", client_id="c", room=7))
    event = world.journal[-1]
    assert event.lsn == connection == event.row[events.CONNECTION]
    detail = event.decoded
    assert (detail.protocol, detail.peer, detail.user) == ("stomp/1.2", "1.2.3.4:5", "ann")
    assert detail.client_id == world.state.connections[connection].client_id == "c"
    assert world.state.connections[connection].room == 7


def test_whoever_is_not_let_in_is_remembered(world: World) -> None:
    command = RefuseConnection(reasons.AUTHENTICATION, "stomp", "peer", "eve", "wrong passcode")
    lsn = world.ok(command)
    event = world.journal[lsn - 1]
    assert (event.name, event.reason) == ("ConnectionRefused", reasons.AUTHENTICATION)
    assert event.decoded.text == "wrong passcode"
    assert world.state.connections == {}


def test_everything_that_hangs_on_a_connection_goes_first(world: World) -> None:
    connection = world.connect()
    world.send("q", b"x")
    world.attach(connection, "q")
    world.attach(connection, "news", routing_type="multicast")
    world.begin(connection)
    lsn = world.broker.lsn
    answer = world.ok(CloseConnection(connection, reasons.TIMEOUT, "silent for 30 s"))
    assert world.names_since(lsn) == [
        "TransactionRolledBack", "Returned", "ConsumerDetached", "ConsumerDetached",
        "QueueDeleted", "ConnectionClosed",
    ]  # fmt: skip
    closed = world.journal[-1]
    assert (closed.lsn, closed.reason) == (answer, reasons.TIMEOUT)
    assert closed.decoded.text == "silent for 30 s"
    assert world.refused(CloseConnection(connection, reasons.CLOSED)).code is Code.NOT_FOUND
    assert world.refused(Room(connection, 1)).code is Code.NOT_FOUND


def test_what_a_closed_connection_had_goes_to_the_next_consumer_in_order(world: World) -> None:
    first = world.connect()
    world.attach(first, "q")
    for number in range(5):
        world.send("q", b"%d" % number)
    second = world.attach(world.connect(), "q")
    world.close(first, reasons.DISCONNECTED)
    assert [(d.body, d.attempt) for d in world.taken(second)] == [
        (b"%d" % number, 2) for number in range(5)
    ]


def test_the_start_says_what_recovery_found(world: World) -> None:
    world.ok(Start("1.2.3", cut_bytes=17, cut_segment="0001.seg", cut_offset=4096))
    detail = world.journal[-1].decoded
    assert (detail.version, detail.cut_bytes) == ("1.2.3", 17)
    assert (detail.cut_segment, detail.cut_offset) == ("0001.seg", 4096)


def test_a_stop_closes_everything_and_records_the_digest(world: World) -> None:
    connection = world.connect()
    world.attach(connection, "q")
    world.attach(connection, "news", routing_type="multicast")
    world.send("q", b"x")
    world.send("q", b"y", persistent=False)
    lsn = world.ok(Stop())
    stopped = world.journal[lsn - 1]
    assert stopped.name == "BrokerStopped"
    assert world.state.connections == world.state.consumers == {}
    assert stopped.decoded.digest == digest(fold(world.journal[: lsn - 1]))
    assert {event.reason for event in world.events_named("Returned")} == {reasons.SHUTDOWN}
    assert world.counts("q")[b"x"] == 1


def test_after_a_stop_nothing_is_handed_out(world: World) -> None:
    world.attach(world.connect(), "q")
    world.attach(world.connect(), "q")
    world.send("q", b"x")
    world.taken()
    world.ok(Stop())
    assert world.taken() == []


def test_a_start_drops_what_does_not_outlive_a_broker(world: World) -> None:
    world.ok(ChangeSettings({}, "full"))
    world.send("q", b"1", persistent=False)
    world.send("q", b"2")
    world.send("q", b"3", persistent=False)
    world.attach(world.connect(), "q")
    world.restart()
    assert world.bodies("q") == [b"2"]
    assert world.counts("q") == {b"2": 1}
    assert world.state.connections == world.state.consumers == {}


def test_settings_are_in_force_when_they_are_journaled(world: World) -> None:
    settings = {"a.#": {"max-delivery-attempts": 3}}
    lsn = world.ok(ChangeSettings(settings, "full"))
    assert lsn == world.broker.lsn
    assert world.state.settings.resolve("a.b").max_delivery_attempts == 3
    assert world.ok(ChangeSettings(settings, "full")) == 0
    assert world.broker.lsn == lsn
    world.restart()
    assert world.state.settings.to_dict() == settings
    assert world.state.journal_non_persistent == "full"
    assert world.ok(ChangeSettings(settings, "full")) == 0


def test_settings_that_are_wrong_are_refused(world: World) -> None:
    assert world.refused(ChangeSettings({"a": {"nonsense": 1}})).code is Code.INVALID
    assert world.refused(ChangeSettings({"a": {"max-delivery-attempts": "x"}})).code is Code.INVALID
    for mode in ("sometimes", "off"):
        refusal = world.refused(ChangeSettings({}, mode))
        assert f"'{mode}'" in refusal.text


def test_where_nothing_was_journaled_of_non_persistent_messages_decisions_are(world: World) -> None:
    """A journal whose settings say "off" folds to the digest it had; a broker on it says more."""
    world.send("q", b"before")
    detail = details.SettingsDetail(journal_non_persistent="off")
    row = events.row(events.SETTINGS_CHANGED, reason=reasons.CONFIGURATION, time=world.now)
    world.broker.emit(row, events.encode_detail(detail))
    world.send("q", b"after", persistent=False)
    routed = world.events_named("Routed")[-1]
    assert (routed.row[events.FLAGS], routed.body) == (events.BODY_OMITTED, b"")
    assert world.bodies("q") == [b"before", b"after"]
    world.check()
    folded = fold(world.journal)
    assert folded.journal_non_persistent == "off"
    assert digest(folded) == digest(world.state)
    assert world.ok(ChangeSettings({}, "decisions")) == world.broker.lsn


def test_a_journal_that_begins_without_a_start_can_be_folded() -> None:
    broker = Broker(State())
    connection = broker.handle(OpenConnection("stomp", "peer", "guest"), 5)
    assert connection == 1
    batch = broker.take()
    assert digest(fold(unpack(batch))) == digest(broker.state)


def subscribed(world: World, count: int, messages: int) -> int:
    """Return a connection with so many subscriptions to a topic, which hold messages."""
    connection = world.connect()
    for number in range(count):
        world.attach(
            connection, "news", routing_type="multicast", subscription=str(number),
            credit_messages=2, credit_bytes=-(1 << 40),
        )  # fmt: skip
    for _ in range(messages):
        world.send("news", b"x", routing_type="multicast")
    return connection


def test_leaving_with_many_subscriptions_is_cut_into_slices(world: World) -> None:
    connection = subscribed(world, 200, 5)
    broker = world.broker
    world.send("q", b"for somebody else")
    broker.budget.allow(50)
    before = broker.budget.spent
    assert world.handle(CloseConnection(connection, reasons.DISCONNECTED)) is UNFINISHED
    slices = 0
    while broker.has_more:
        assert broker.budget.spent - before < 50 + 80
        # Nothing is delivered to it any more, whatever room its socket has.
        world.taken()
        world.ok(Room(connection, 1 << 20))
        assert world.taken() == []
        before = broker.budget.spent
        broker.budget.allow(50)
        broker.go_on(world.now)
        slices += 1
    broker.budget.limit = NO_LIMIT
    assert slices >= 100
    assert world.state.connections == {}
    assert [queue.name for queue in world.state.queues.values()] == ["q"]
    world.check()


@replaces_parts
def test_a_stop_leaves_to_the_next_start_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    monkeypatch.setattr(connections, "STOP_UNITS", 100)
    patient = world.connect()
    world.attach(patient, "q", credit_messages=9, credit_bytes=9999)
    subscribed(world, 100, 5)
    world.send("q", b"kept")
    world.taken()
    lsn = world.broker.lsn
    stopped = world.ok(Stop())
    assert stopped - lsn < 100
    assert world.journal[stopped - 1].decoded.digest == digest(fold(world.journal[: stopped - 1]))
    assert world.state.connections
    world.restart()
    assert world.state.connections == world.state.consumers == {}
    assert [queue.name for queue in world.state.queues.values()] == ["q"]
    assert world.counts("q")[b"kept"] == 1
    world.check()


@replaces_parts
def test_a_stop_with_very_much_computes_no_digest(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    for number in range(20):
        world.send("q", b"%d" % number)
    monkeypatch.setattr(connections, "DIGESTED_MAX", 20 + QUEUE_COST)
    stopped = world.journal[world.ok(Stop()) - 1].decoded
    assert (stopped.digest != "", stopped.hurried) == (True, False)
    world.restart()
    world.send("q", b"one more")
    stopped = world.journal[world.ok(Stop()) - 1].decoded
    assert (stopped.digest, stopped.hurried) == ("", True)
    world.restart()
    world.check()


def test_a_stop_continues_what_was_leaving(world: World) -> None:
    connection = subscribed(world, 20, 2)
    world.broker.budget.allow(1)
    assert world.handle(CloseConnection(connection, reasons.DISCONNECTED)) is UNFINISHED
    world.ok(Stop())
    assert world.state.connections == {}
    closed = world.events_named("ConnectionClosed")
    assert [event.reason for event in closed] == [reasons.DISCONNECTED]


def test_bindings_are_found_by_their_number(world: World) -> None:
    subscribed(world, 5, 0)
    address = world.state.address_by_name["news"]
    first, *_, last = address.multicast
    for consumer in list(address.multicast[2].queue.consumers):
        world.detach(consumer.id)
    assert (address.multicast[0], address.multicast[-1]) == (first, last)
    numbers = [each.number for each in address.multicast]
    assert numbers == sorted(set(numbers))
    assert [place_of(address.multicast, each) for each in (first, last)] == [0, 3]
    stranger = Binding("news", first.queue)
    with pytest.raises(ValueError, match="is not bound"):
        place_of(address.multicast, stranger)
