"""How a connection of AMQP 1.0 begins and ends: headers, SASL, open, idle peers, errors."""

from typing import Any

import pytest

from daybook.engine.facts import reasons
from daybook.protocols.amqp.connection import IDLE_TIME_OUT_MIN_MS
from daybook.protocols.amqp.wire.errors import (
    CONNECTION_FORCED,
    DECODE_ERROR,
    FRAMING_ERROR,
    ILLEGAL_STATE,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
)
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    EMPTY_FRAME,
    SASL,
    TLS,
    Frame,
    FrameReader,
    Header,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.kinds import AUTH, OK, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Error,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from daybook.protocols.amqp.wire.termini import Source, Target
from daybook.protocols.port import SaslStep
from tests.support.amqp.peer import Peer
from tests.support.world import SECOND, World


def test_mechanisms_are_those_of_the_caller() -> None:
    peer = Peer(World(), ("EXTERNAL", "PLAIN"))
    peer.feed(protocol_header(SASL))
    assert peer.hear(Header).protocol == SASL
    assert peer.hear(SaslMechanisms).sasl_server_mechanisms == ("EXTERNAL", "PLAIN")


def test_steps_of_a_login_are_passed_on() -> None:
    peer = Peer(World(), ("SCRAM-SHA-256",))
    connection, now = peer.connection, peer.world.now
    peer.feed(protocol_header(SASL))
    peer.say(SaslInit("SCRAM-SHA-256", b"first"))
    step = connection.login_request
    assert step == SaslStep("SCRAM-SHA-256", b"first", connection)
    connection.challenge(b"challenge", now)
    peer.settle()
    assert peer.hear(SaslChallenge).challenge == b"challenge"
    peer.say(SaslResponse(b"last"))
    assert connection.login_request == SaslStep("SCRAM-SHA-256", b"last", connection)
    connection.prove(b"proof")
    connection.authenticated("alice", "", now)
    peer.settle()
    assert peer.hear(SaslOutcome) == SaslOutcome(OK, b"proof")
    peer.feed(protocol_header(AMQP))
    peer.say(Open("c", hostname="somewhere"))
    assert connection.host_request == "default"
    connection.admitted("", now)
    peer.settle()
    opened = peer.hear(Open)
    assert (opened.container_id, opened.max_frame_size) == ("broker", 128 * 1024)
    assert peer.world.state.connections[connection.connection].user == "alice"
    assert peer.world.state.connections[connection.connection].client_id == "c"


@pytest.mark.parametrize("mechanism", ["PLAIN", "GSSAPI"])
def test_a_refused_login_ends_the_connection(mechanism: str) -> None:
    peer = Peer(World())
    peer.feed(protocol_header(SASL))
    peer.say(SaslInit(mechanism, b"\0a\0b"))
    if mechanism == "PLAIN":
        peer.connection.authenticated(None, "wrong", peer.world.now)
        peer.settle()
    assert peer.hear(SaslOutcome).code == AUTH
    assert peer.connection.closing
    assert peer.connection.refusal is not None
    assert peer.connection.refusal[0] == reasons.AUTHENTICATION


def test_a_guest_needs_no_sasl_where_guests_may_come() -> None:
    peer = Peer(World(), ("ANONYMOUS",))
    peer.feed(protocol_header(AMQP))
    assert peer.connection.login_request == SaslStep("ANONYMOUS", b"", peer.connection)
    peer.connection.authenticated("guest", "", peer.world.now)
    peer.say(Open("c"))
    assert peer.connection.host_request == "default"


@pytest.mark.parametrize(
    "data",
    [
        protocol_header(TLS),
        protocol_header(AMQP),
        b"GET / HTTP/1.1\r\n",
        b"CONNECT\n",
        b"AMQP\0\0\x09\x01",
    ],
)
def test_another_protocol_is_answered_with_what_is_spoken_here(data: bytes) -> None:
    peer = Peer(World(), ("PLAIN",))
    peer.feed(data)
    assert peer.hear(Header).protocol == SASL
    assert peer.connection.closing


def test_a_host_that_the_user_may_not_use_closes_the_connection() -> None:
    peer = Peer(World(), virtual_hosts=(("shop.example", "shop"),)).log_in()
    peer.say(Open("c", hostname="Shop.Example"))
    assert peer.connection.host_request == "shop"
    peer.connection.admitted("user 'guest' may not use it", peer.world.now)
    peer.settle()
    assert peer.hear(Close).error.condition == UNAUTHORIZED_ACCESS


def test_an_unknown_host_is_refused_after_the_login() -> None:
    peer = Peer(World(), virtual_hosts=(("shop.example", "shop"),)).log_in()
    peer.say(Open("c", hostname="other"))
    assert peer.connection.host_request == ""


@pytest.mark.parametrize(
    ("said", "condition"),
    [
        (Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), ILLEGAL_STATE),
        (Open("c", max_frame_size=100), NOT_ALLOWED),
    ],
)
def test_what_must_not_come_first_closes_the_connection(said: Any, condition: str) -> None:
    peer = Peer(World()).log_in()
    peer.say(said)
    assert peer.hear(Open)
    assert peer.hear(Close).error.condition == condition
    assert peer.connection.closing


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"\x7f\xff\xff\xff\x02\0\0\0", FRAMING_ERROR),
        (b"\0\0\0\x0c\x02\0\0\0\0\x53\x99\x45", DECODE_ERROR),
        (frame(0, Open("again")), ILLEGAL_STATE),
        (frame(7, End()), NOT_ALLOWED),
        (frame(0, Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)), NOT_ALLOWED),
        (frame(300, Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)), NOT_ALLOWED),
    ],
)
def test_a_fault_closes_its_connection_alone(data: bytes, condition: str) -> None:
    world = World()
    peer, other = Peer(world).open("one"), Peer(world).open("two")
    peer.feed(data)
    assert peer.hear(Close).error.condition == condition
    assert peer.connection.closing
    assert peer.connection.error
    assert not other.connection.closing
    assert len(world.state.connections) == 1
    assert world.events_named("ConnectionClosed")[-1].reason == reasons.PROTOCOL_ERROR


def test_a_close_is_answered() -> None:
    world = World()
    peer = Peer(world).open()
    peer.say(Close())
    assert peer.hear(Close).error is None
    assert peer.connection.closing
    assert world.events_named("ConnectionClosed")[-1].reason == reasons.CLOSED


def test_the_broker_ends_a_connection_with_a_reason() -> None:
    peer = Peer(World()).open()
    peer.connection.dismiss("memory is short", "read faster", peer.world.now)
    peer.settle()
    problem = peer.hear(Close).error
    assert (problem.condition, problem.description) == (
        CONNECTION_FORCED, "memory is short; read faster",
    )  # fmt: skip


def test_a_peer_that_does_not_open_in_time_is_ended() -> None:
    peer = Peer(World(), connect_timeout_ms=2000)
    peer.feed(protocol_header(SASL))
    assert peer.connection.next_deadline == peer.world.now + 2 * SECOND
    peer.world.sleep(2)
    peer.connection.tick(peer.world.now)
    assert peer.connection.closing


def test_a_silent_peer_is_ended_and_one_that_sends_empty_frames_is_not() -> None:
    peer = Peer(World(), idle_time_out_ms=4000).open()
    assert peer.hear(Open).idle_time_out == 2000
    for _ in range(5):
        peer.world.sleep(3)
        peer.feed(EMPTY_FRAME)
        peer.connection.tick(peer.world.now)
        assert not peer.connection.closing
    peer.world.sleep(4)
    peer.connection.tick(peer.world.now)
    peer.settle()
    assert peer.hear(Close).error.condition == RESOURCE_LIMIT_EXCEEDED


def test_a_peer_hears_something_in_half_of_its_time() -> None:
    peer = Peer(World(), idle_time_out_ms=0).open(idle_time_out=4000)
    assert peer.connection.next_deadline == peer.world.now + 2 * SECOND
    peer.world.sleep(2)
    peer.connection.tick(peer.world.now)
    assert peer.connection.out == [EMPTY_FRAME]


@pytest.mark.parametrize("asked", [1, 2, IDLE_TIME_OUT_MIN_MS - 1])
def test_a_peer_that_cannot_wait_is_refused(asked: int) -> None:
    peer = Peer(World()).log_in()
    peer.say(Open("c", idle_time_out=asked))
    peer.settle()
    peer.hear(Open)
    problem = peer.hear(Close).error
    assert problem.condition == NOT_ALLOWED
    assert problem.description == f"idle-time-out is {asked} ms, and below 500 ms"
    assert peer.connection.closing


@pytest.mark.parametrize("asked", [None, 0, IDLE_TIME_OUT_MIN_MS, 0xFFFF_FFFF])
def test_any_other_time_of_a_peer_holds(asked: int | None) -> None:
    peer = Peer(World(), idle_time_out_ms=0).open(idle_time_out=asked)
    peer.hear(Open)
    assert not peer.connection.closing
    wanted = peer.world.now + asked * 500 if asked else 0
    assert peer.connection.next_deadline == wanted


def test_a_broker_that_stops_says_so_and_decides_nothing() -> None:
    peer = Peer(World())
    assert peer.connection.farewell("over") == b""
    peer.log_in()
    assert peer.connection.farewell("over") == b""
    peer.say(Open("c"))
    peer.connection.admitted("", peer.world.now)
    before = peer.world.broker.lsn
    last = peer.connection.farewell("over")
    assert peer.world.broker.lsn == before
    reader = FrameReader(512)
    reader.receive(protocol_header(AMQP) + last)
    assert isinstance(reader.next(), Header)
    said = reader.next()
    assert isinstance(said, Frame)
    assert said.performative == Close(Error(CONNECTION_FORCED, "over"))


def test_an_empty_frame_leaves_before_what_waits_for_the_disk() -> None:
    peer = Peer(World(), idle_time_out_ms=0).open(idle_time_out=4000)
    peer.world.sleep(2)
    peer.connection.awaits_disk = True
    peer.connection.tick(peer.world.now)
    assert (peer.connection.out, peer.connection.urgent) == ([], EMPTY_FRAME)


def test_sessions_end_and_channels_are_used_again() -> None:
    peer = Peer(World()).open()
    peer.heard(Begin)
    peer.begin(3)
    assert peer.hear(Begin).remote_channel == 3
    peer.say(End(), channel=3)
    assert peer.hear(End).error is None
    peer.begin(3)
    assert peer.hear(Begin).remote_channel == 3


def test_an_echo_is_answered() -> None:
    peer = Peer(World()).open()
    peer.say(
        Flow(
            next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, echo=True
        )
    )
    assert peer.hear(Flow).incoming_window == 2048


def test_many_small_frames_take_several_turns() -> None:
    peer = Peer(World()).open()
    peer.world.broker.budget.allow(10)
    peer.connection.receive(EMPTY_FRAME * 100, peer.world.now)
    assert peer.connection.has_more
    turns = 0
    while peer.connection.has_more:
        turns += 1
        peer.world.broker.budget.allow(10)
        peer.connection.proceed(peer.world.now)
    assert turns >= 9


def test_links_are_charged_and_limited() -> None:
    peer = Peer(World(), max_links=3).open()
    for number in range(3):
        peer.sender(number, "a", name="n" * 500)
    assert 4500 <= peer.connection.buffered_bytes < 5000
    peer.begin(1)
    peer.say(Attach("one more", 0, SENDER, source=Source(), target=Target("a")), channel=1)
    assert peer.hear(Detach).error.condition == RESOURCE_LIMIT_EXCEEDED
    peer.say(Detach(0, True), channel=1)
    for number in range(3):
        peer.say(Detach(number, True))
    assert peer.connection.buffered_bytes == 0
    peer.sender(0, "a", name="n" * 5000)
    assert peer.heard(Detach)[-1].error.condition == RESOURCE_LIMIT_EXCEEDED
    peer.say(Attach("l", 3, SENDER, source=Source(), target=Target("a")))
    assert peer.hear(Close).error.condition == FRAMING_ERROR


def test_a_container_has_a_name_of_bounded_length() -> None:
    peer = Peer(World()).log_in()
    peer.say(Open("c" * 5000))
    assert peer.hear(Close).error.condition == RESOURCE_LIMIT_EXCEEDED


def test_a_session_with_many_links_ends_in_slices() -> None:
    peer = Peer(World()).open()
    for number in range(50):
        peer.receiver(number, f"q{number}")
    peer.world.broker.budget.allow(40)
    peer.connection.receive(frame(0, End()), peer.world.now)
    assert peer.connection.has_more
    assert 30 < len(peer.world.state.consumers) < 50
    peer.settle()
    assert peer.hear(End).error is None
    assert not peer.world.state.consumers


def test_a_connection_with_much_in_flight_ends_in_slices_though_its_session_is_over() -> None:
    world = World()
    for number in range(100):
        world.send("q", b"%d" % number)
    peer = Peer(world).open()
    peer.receiver(0, "q", 100)
    assert len(peer.deliveries()) == 100
    world.broker.budget.allow(20)
    peer.connection.receive(frame(0, Close()), world.now)
    assert peer.connection.closing
    peer.connection.connection_lost(world.now)
    slices = 0
    while world.broker.has_more:
        slices += 1
        world.broker.budget.allow(20)
        world.broker.go_on(world.now)
    assert slices > 1
    assert not world.state.connections
    assert world.ready("q") == [b"%d" % number for number in range(100)]
    # It had said goodbye.
    assert set(world.counts("q").values()) == {0}
