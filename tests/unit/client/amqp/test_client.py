"""The synchronous AMQP client with peers other than brokers, or bad ones."""

import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.client.amqp.client import AmqpClient
from daybook.client.amqp.failures import CODE, AmqpClientError, AmqpRefused
from daybook.client.amqp.leaving import Leaving, place_of
from daybook.client.amqp.login import Login
from daybook.client.bodies import Content
from daybook.client.endpoint import AMQP, Endpoint
from daybook.protocols.amqp.wire.frames import AMQP as AMQP_HEADER
from daybook.protocols.amqp.wire.frames import SASL, frame, protocol_header
from daybook.protocols.amqp.wire.kinds import AUTH, OK, RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    SaslChallenge,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Rejected, Released, Source, Target
from tests.support.brokers.scripted_peer import peer

OFFER = protocol_header(SASL) + frame(0, SaslMechanisms(("PLAIN",)))
LOGGED_IN = frame(0, SaslOutcome(OK))
BEGIN = Begin(remote_channel=0, next_outgoing_id=0, incoming_window=100, outgoing_window=100)
OPENED = protocol_header(AMQP_HEADER) + frame(0, Open("peer", max_frame_size=4096))
BEGUN = OPENED + frame(0, BEGIN)
UP = (OFFER, LOGGED_IN, BEGUN)
PLACE = place_of("/queue/a")
MESSAGE = Leaving(PLACE)
SOON = 0.2


def attached(**values: Any) -> bytes:
    return frame(0, Attach("sender-0", 7, RECEIVER, target=Target("a"), **values))


def flow(credit: int) -> bytes:
    said = Flow(
        next_incoming_id=0, incoming_window=100, next_outgoing_id=0, outgoing_window=100,
        handle=7, delivery_count=0, link_credit=credit,
    )  # fmt: skip
    return frame(0, said)


def x(size: int = 1) -> Content:
    return Content(size, lambda: iter([b"x" * size]))


def wait_for_the_end(connection: socket.socket) -> None:
    """Read until the client is gone."""
    while connection.recv(1 << 16):
        pass


def sent(*answers: bytes, size: int = 1) -> None:
    """Send one message to a peer that gives these answers, and wait for its outcome."""
    with (
        peer(*UP, *answers, then=wait_for_the_end, protocol=AMQP) as endpoint,
        AmqpClient(endpoint, timeout=SOON) as client,
    ):
        link = client.sender(PLACE)
        client.accept(client.send(link, MESSAGE, x(size)))


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ((b"",), "closed the connection"),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "does not speak AMQP 1.0"),
        ((b"ERROR\nmessage:what\n\n\0",), "does not speak AMQP 1.0"),
        ((b"AMQP\0\0\x09\x01",), "does not speak AMQP 1.0"),
        ((protocol_header(AMQP_HEADER),), "with logins"),
        ((protocol_header(SASL) + b"\xff" * 20,), "a frame cannot have"),
        ((protocol_header(SASL) + frame(0, SaslMechanisms(("GSSAPI",))),), "needs PLAIN or ANONY"),
        ((OFFER, frame(0, SaslOutcome(AUTH))), "login or passcode is wrong"),
        ((OFFER, LOGGED_IN, frame(0, SaslOutcome(OK))), "where it must not"),
        ((OFFER, LOGGED_IN, OPENED + frame(0, Close(Error("amqp:not-found", "which")))), "which"),
        ((OFFER, LOGGED_IN, OPENED + frame(0, Flow(
            incoming_window=1, next_outgoing_id=0, outgoing_window=1))), "where it must not"),
        ((OFFER, LOGGED_IN, OPENED + frame(0, Close())), "closed the connection"),
        ((OFFER, LOGGED_IN, protocol_header(AMQP_HEADER)
          + frame(0, Open("peer", max_frame_size=100))), "frames of 100 bytes"),
    ],
)  # fmt: skip
def test_a_peer_that_is_no_broker_for_us(answers: tuple[bytes, ...], words: str) -> None:
    with peer(*answers, protocol=AMQP) as endpoint, pytest.raises(AmqpClientError, match=words):
        AmqpClient(endpoint, timeout=2)


@pytest.mark.parametrize("answers", [(), (OFFER,), (OFFER, LOGGED_IN), (OFFER, LOGGED_IN, OPENED)])
def test_a_peer_that_falls_silent_before_it_is_open(answers: tuple[bytes, ...]) -> None:
    with (
        peer(*answers, then=wait_for_the_end, protocol=AMQP) as endpoint,
        pytest.raises(AmqpClientError, match="did not answer within"),
    ):
        AmqpClient(endpoint, timeout=SOON)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(AmqpClientError, match="is a broker running there"):
        AmqpClient(Endpoint("127.0.0.1", port, "a", "b", protocol=AMQP))


def test_a_guest_needs_no_login_where_none_is_offered() -> None:
    offer = protocol_header(SASL) + frame(0, SaslMechanisms(("ANONYMOUS",)))
    answers = (offer, LOGGED_IN, BEGUN)
    with peer(*answers, protocol=AMQP) as endpoint, AmqpClient(endpoint, timeout=2):
        pass
    with (
        peer(offer, protocol=AMQP) as endpoint,
        pytest.raises(AmqpClientError, match="offers the logins ANONYMOUS"),
    ):
        AmqpClient(endpoint._replace(login="joe"), timeout=2)


def test_a_broker_that_cannot_prove_itself_gets_no_more() -> None:
    offer = protocol_header(SASL) + frame(0, SaslMechanisms(("SCRAM-SHA-256",)))
    foreign = frame(0, SaslChallenge(b"r=other,s=AAAA,i=4096"))
    with (
        peer(offer, foreign, protocol=AMQP) as endpoint,
        pytest.raises(AmqpClientError, match="not an answer to ours"),
    ):
        AmqpClient(endpoint, timeout=2)
    with (
        peer(offer, LOGGED_IN, protocol=AMQP) as endpoint,
        pytest.raises(AmqpClientError, match="did not prove"),
    ):
        AmqpClient(endpoint, timeout=2)


def test_a_link_that_is_refused_says_why() -> None:
    no = frame(0, Attach("sender-0", 7, RECEIVER)) + frame(
        0, Detach(7, True, Error("amqp:unauthorized-access", "no permission"))
    )
    with pytest.raises(AmqpRefused, match=r"refused /queue/a: no permission") as caught:
        sent(no)
    assert caught.value.condition == "amqp:unauthorized-access"


def test_a_link_that_is_never_attached() -> None:
    with pytest.raises(AmqpClientError, match="did not attach /queue/a within"):
        sent()


def test_credit_that_never_comes() -> None:
    with pytest.raises(AmqpClientError, match="gave no credit for /queue/a within"):
        sent(attached())


def test_a_window_that_never_opens() -> None:
    with pytest.raises(AmqpClientError, match="took no part of a message within"):
        sent(attached() + flow(1), size=1 << 20)


def test_an_outcome_that_never_comes() -> None:
    with pytest.raises(AmqpClientError, match="no outcome arrived within"):
        sent(attached() + flow(1))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Rejected(Error("amqp:not-allowed", "not here", {CODE: "limit"})), "the message: not here"),
        (Rejected(), "refused the message"),
        (Released(), "it was released"),
        (None, "it was released"),
    ],
)
def test_a_message_that_is_not_accepted(said: Any, words: str) -> None:
    no = frame(0, Disposition(RECEIVER, 0, settled=True, state=said))
    with pytest.raises(AmqpRefused, match=words) as caught:
        sent(attached() + flow(1), no)
    assert caught.value.code == ("limit" if "here" in words else "")


def test_a_link_that_ends_while_it_is_used() -> None:
    gone = frame(0, Detach(7, True, Error("amqp:resource-deleted", "it was deleted")))
    with pytest.raises(AmqpRefused, match="ended the link to /queue/a: it was deleted"):
        sent(attached() + gone)


def test_a_link_that_ends_before_the_outcome_says_why() -> None:
    gone = frame(0, Detach(7, True, Error("amqp:link:message-size-exceeded", "too large")))
    with pytest.raises(AmqpRefused, match="ended the link to /queue/a: too large"):
        sent(attached() + flow(1), gone)


@pytest.mark.parametrize("said", [End(Error("amqp:illegal-state", "why")), Close()])
def test_a_session_or_connection_that_ends_while_it_is_used(said: Any) -> None:
    with pytest.raises(AmqpClientError, match=r"why|closed the connection"):
        sent(attached() + flow(1), frame(0, said) + b"")


def test_a_message_that_is_larger_than_the_broker_takes() -> None:
    with pytest.raises(AmqpClientError, match="takes no more than 1,000"):
        sent(attached(max_message_size=1000) + flow(1), size=2000)


def test_a_body_that_ends_early_is_taken_back() -> None:
    with (
        peer(*UP, attached() + flow(1), then=wait_for_the_end, protocol=AMQP) as endpoint,
        AmqpClient(endpoint, timeout=SOON) as client,
    ):
        link = client.sender(PLACE)
        with pytest.raises(AmqpClientError, match="ended 2 bytes early"):
            client.send(link, MESSAGE, Content(3, lambda: iter([b"x"])))


def received(client: AmqpClient, **values: int) -> None:
    """Attach a link, and wait for a message."""
    client.receiver(PLACE, **values)
    client.message(SOON)


def arrival(payload: bytes, *, more: bool = False) -> bytes:
    attach = Attach("receiver-0", 7, SENDER, source=Source("a"), initial_delivery_count=0)
    return frame(0, attach) + frame(0, Transfer(7, 0, b"t", 0, more=more), payload)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (arrival(b"\0\x53\x75\xa0\x05x"), "a message is malformed"),
        (arrival(b"nonsense"), "a message is malformed"),
        (arrival(b"\0\x53\x75\xa0\x01x", more=True), "in the middle of a message"),
        (frame(0, Attach("other", 7, SENDER)), "where it must not"),
        (frame(0, Transfer(3, 0, b"t", 0)), "not attached"),
        (frame(0, Disposition(SENDER, 0, 1 << 31, settled=True)), "a disposition is of"),
    ],
)
def test_a_peer_that_delivers_nonsense(said: bytes, words: str) -> None:
    with (
        peer(*UP, said, then=wait_for_the_end, protocol=AMQP) as endpoint,
        AmqpClient(endpoint, timeout=SOON) as client,
        pytest.raises(AmqpClientError, match=words),
    ):
        received(client)


def test_a_delivery_without_credit_is_a_fault_of_the_peer() -> None:
    extra = b"".join(
        frame(0, Transfer(7, each, b"t", 0), b"\0\x53\x75\xa0\x01x") for each in (1, 2)
    )
    with (
        peer(*UP, arrival(b"\0\x53\x75\xa0\x01x") + extra, protocol=AMQP) as endpoint,
        AmqpClient(endpoint, timeout=SOON) as client,
        pytest.raises(AmqpClientError, match="without credit"),
    ):
        received(client, window=2, wanted=2)


def test_a_silent_client_says_that_it_lives() -> None:
    heard: list[bytes] = []

    def listen(connection: socket.socket) -> None:
        connection.settimeout(5)
        while data := connection.recv(1 << 16):
            heard.append(data)

    idle = protocol_header(AMQP_HEADER) + frame(0, Open("peer", idle_time_out=100))
    with (
        peer(OFFER, LOGGED_IN, idle + frame(0, BEGIN), then=listen, protocol=AMQP) as endpoint,
        AmqpClient(endpoint) as client,
    ):
        begun = time.monotonic()
        assert not client.poll(0.5)
        assert time.monotonic() - begun >= 0.5
        assert client.silence >= 0.4
    assert b"".join(heard).count(b"\0\0\0\x08\x02\0\0\0") >= 5


def test_the_end_is_waited_for() -> None:
    with (
        peer(*UP, then=wait_for_the_end, protocol=AMQP) as endpoint,
        AmqpClient(endpoint, timeout=SOON) as client,
        pytest.raises(AmqpClientError, match="did not close the connection within"),
    ):
        client.disconnect()


@given(st.binary(max_size=200), st.sampled_from([b"", OFFER, OFFER + LOGGED_IN, b"".join(UP)]))
def test_any_bytes_are_a_fault_or_nothing(data: bytes, before: bytes) -> None:
    ours, theirs = socket.socketpair()
    gone = threading.Thread(target=lambda: (theirs.sendall(before + data), theirs.close()))

    class Pair(Endpoint):
        def connect(self, timeout: float) -> socket.socket:
            return ours

    def read_all() -> None:
        with AmqpClient(Pair("x", 1, "a", "b"), timeout=5) as client:
            while True:
                client.poll(5)

    with ours:
        gone.start()
        with pytest.raises(AmqpClientError):
            read_all()
        gone.join()


@pytest.mark.parametrize(
    ("offered", "words"),
    [((), "perhaps it is full"), (("daybook:direct",), "from which nobody receives")],
)
def test_why_credit_may_not_come(offered: tuple[str, ...], words: str) -> None:
    answer = Attach("sender-0", 7, RECEIVER, target=Target("a"), offered_capabilities=offered)
    with pytest.raises(AmqpClientError, match=words):
        sent(frame(0, answer))


@pytest.mark.parametrize(
    ("offered", "login", "chosen"),
    [
        (("SCRAM-SHA-256", "PLAIN", "ANONYMOUS"), "guest", "PLAIN"),
        (("SCRAM-SHA-256", "ANONYMOUS"), "guest", "ANONYMOUS"),
        (("SCRAM-SHA-256",), "guest", "SCRAM-SHA-256"),
        (("SCRAM-SHA-256", "PLAIN", "ANONYMOUS"), "joe", "SCRAM-SHA-256"),
    ],
)
def test_a_guest_shows_the_passcode_that_everybody_knows(
    offered: tuple[str, ...], login: str, chosen: str
) -> None:
    endpoint = Endpoint("127.0.0.1", 1, login, login, protocol=AMQP)
    assert Login(endpoint).choose(offered)[0] == chosen
