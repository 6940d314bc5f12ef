"""Connections, and the broker's own start and stop."""

from daybook.engine import details, events, reasons
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
from daybook.engine.digest import digest
from daybook.engine.refusals import Code
from daybook.engine.state import State
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
