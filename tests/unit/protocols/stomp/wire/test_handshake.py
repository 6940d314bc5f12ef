"""CONNECT and STOMP: versions, hosts, logins, heart-beats."""

import pytest

from daybook.engine.commands import CloseConnection, OpenConnection, Send
from daybook.engine.facts.reasons import AUTHENTICATION, PROTOCOL_ERROR, TIMEOUT
from daybook.engine.refusals import Code
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.fakes import SECOND, FakeBroker, Peer, connected, frame


@pytest.mark.parametrize(
    ("accepted", "version"),
    [
        (None, "1.0"),
        ("1.0", "1.0"),
        ("1.1", "1.1"),
        ("1.2", "1.2"),
        ("1.0,1.1", "1.1"),
        ("1.2,1.1,1.0", "1.2"),
        ("1.1,2.0", "1.1"),
        (" 1.0 , 1.2 ", "1.2"),
    ],
)
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_the_highest_common_version_wins(command: str, accepted: str | None, version: str) -> None:
    peer = Peer()
    head = f"{command}\nhost:h" + (f"\naccept-version:{accepted}" if accepted else "")
    assert peer.send(frame(head)) == b""
    peer.log_in("u")
    assert peer.taken().startswith(f"CONNECTED\nversion:{version}\nsession:1\n".encode())
    assert peer.broker.of(OpenConnection)[0].protocol == f"STOMP {version}"


@pytest.mark.parametrize("accepted", ["2.0", "", "1", "1.2.1", "abc"])
def test_no_common_version(accepted: str) -> None:
    peer = Peer()
    output = peer.send(frame(f"CONNECT\nhost:h\naccept-version:{accepted}"))
    assert output.startswith(b"ERROR\n")
    assert b"\nversion:1.0,1.1,1.2\n" in output
    assert peer.session.closing
    assert peer.session.refusal is not None
    assert peer.session.refusal[0] == PROTOCOL_ERROR


def test_connected_waits_for_its_event_and_tells_who_answers() -> None:
    peer = Peer()
    answer = peer.connect("1.2", b"login:joe\npasscode:x\nclient-id:c\n")
    assert answer == (
        b"CONNECTED\nversion:1.2\nsession:1\nserver:daybook/0\nhost-id:default\nuser-id:user\n"
        b"heart-beat:1000,10000\n\n\0"
    )
    assert peer.session.gate == 1
    opened = peer.broker.of(OpenConnection)[0]
    assert (opened.peer, opened.user, opened.client_id) == ("127.0.0.1:5", "user", "c")


def test_login_is_asked_for_and_never_escaped() -> None:
    peer = Peer()
    peer.send(b"CONNECT\naccept-version:1.2\nhost:h\nlogin:a\\cb\npasscode:p:w\\n\n\n\0")
    assert peer.session.login_request == ("a\\cb", "p:w\\n", False)
    assert peer.taken() == b""


def test_a_refused_login() -> None:
    peer = Peer()
    peer.send(b"CONNECT\naccept-version:1.2\nhost:h\nlogin:joe\npasscode:secret\n\n\0")
    peer.log_in(None, "login or passcode are wrong")
    output = peer.taken()
    assert output.startswith(b"ERROR\nmessage:login or passcode are wrong; ")
    assert b"secret" not in output
    assert peer.session.closing
    assert peer.session.refusal == (
        AUTHENTICATION, "STOMP 1.2", "joe", "login or passcode are wrong"
    )  # fmt: skip
    assert peer.broker.of(CloseConnection) == []


def test_a_refused_connection() -> None:
    peer = Peer()
    peer.broker.refuse(OpenConnection, Code.LIMIT, "too many connections")
    assert peer.connect().startswith(b"ERROR\nmessage:too many connections\n")
    assert peer.session.closing


def test_input_is_buffered_until_the_login_is_decided() -> None:
    peer = Peer()
    peer.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\n\n1\0SEND\n")
    assert peer.send(b"destination:/queue/b\n\n2\0") == b""
    assert peer.broker.commands == []
    peer.log_in("u")
    assert [each.body for each in peer.broker.of(Send)] == [b"1", b"2"]


def test_the_buffered_input_is_bounded() -> None:
    peer = Peer(StompOptions(max_early_data=100))
    peer.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0" + b"x" * 60)
    output = peer.send(b"x" * 60)
    assert b"max-early-data" in output
    assert peer.session.closing
    peer.log_in("u")
    assert peer.taken() == b""
    assert peer.broker.of(OpenConnection) == []


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("header", ["", "\nhost:"], ids=["without", "empty"])
def test_host_is_required_where_there_is_a_choice(version: str, header: str) -> None:
    """stomp.py leaves it out in 1.1, stompest leaves it empty."""
    connect = frame(f"CONNECT\naccept-version:{version}{header}")
    peer = Peer()
    assert peer.send(connect) == b""
    assert peer.session.login_request is not None
    output = Peer(StompOptions(hosts=("here",))).send(connect)
    assert output.startswith(b"ERROR\nmessage:CONNECT without host")


def test_hosts_are_checked_when_they_are_listed() -> None:
    options = StompOptions(hosts=("here",))
    assert connected("1.2", options).session.state == "connected"
    peer = Peer(options)
    output = peer.send(frame("CONNECT\naccept-version:1.2\nhost:there"))
    assert b"'there'" in output
    assert peer.session.closing
    peer = Peer(options)
    assert peer.connect(None).startswith(b"CONNECTED\n")


def test_blanks_around_values_in_1_0() -> None:
    peer = Peer()
    peer.send(b"CONNECT\nlogin: joe\npasscode: x \n\n\0")
    assert peer.session.login_request == ("joe", "x", False)
    peer = Peer()
    peer.send(b"CONNECT\nlogin:\tjoe\t\npasscode:\xc2\xa0x\xc2\xa0\n\n\0")
    assert peer.session.login_request == ("joe", "\xa0x\xa0", False)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_blanks_are_part_of_values_from_1_1_on(version: str) -> None:
    peer = Peer()
    peer.send(f"CONNECT\naccept-version:{version}\nhost:h\nlogin: joe\npasscode:x \n\n\0".encode())
    assert peer.session.login_request == (" joe", "x ", False)


def test_1_0_is_told_the_version_and_no_heart_beat() -> None:
    answer = Peer().connect(None)
    assert answer == (
        b"CONNECTED\nversion:1.0\nsession:1\nserver:daybook/0\nhost-id:default\nuser-id:user\n\n\0"
    )


@pytest.mark.parametrize("given", ["1", "a,b", "1,", ",1", "-1,1", "1,1,1", "1.5,0"])
def test_malformed_heart_beat(given: str) -> None:
    peer = Peer()
    output = peer.send(frame(f"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:{given}"))
    assert b"message:heart-beat is" in output


@pytest.mark.parametrize(
    ("client", "offer", "send_every_ms", "give_up_ms"),
    [
        ("0,0", (1000, 1000), 0, 0),
        ("0,500", (1000, 1000), 1000, 0),
        ("0,5000", (1000, 1000), 5000, 0),
        ("500,0", (1000, 1000), 0, 2000),
        ("3000,0", (1000, 1000), 0, 6000),
        ("3000,3000", (0, 0), 0, 0),
    ],
)
def test_heart_beats_are_negotiated(
    client: str, offer: tuple[int, int], send_every_ms: int, give_up_ms: int
) -> None:
    """Steps of 100 ms with a silent peer: when does the broker speak, when does it give up."""
    options = StompOptions(heart_beat_send_ms=offer[0], heart_beat_receive_ms=offer[1])
    peer = Peer(options)
    peer.connect("1.2", f"heart-beat:{client}\n".encode())
    spoken, given_up = [], 0
    for step in range(1, 200):
        now = peer.now + step * SECOND // 10
        peer.session.tick(now)
        output = peer.taken()
        if output == b"\n":
            spoken.append(step * 100)
        elif output:
            given_up = step * 100
            break
    assert given_up == give_up_ms
    if send_every_ms == 0:
        assert spoken == []
    else:
        intervals = [after - before for before, after in zip([0, *spoken], spoken, strict=False)]
        assert max(intervals) <= send_every_ms
        assert min(intervals) >= send_every_ms / 2


def test_silence_ends_the_connection_with_the_reason_timeout() -> None:
    peer = Peer()
    peer.connect("1.2", b"heart-beat:10000,0\n")
    peer.session.receive(b"\n", peer.now + 5 * SECOND)
    peer.session.tick(peer.now + 24 * SECOND)
    assert not peer.session.closing
    peer.session.tick(peer.now + 25 * SECOND)
    assert peer.session.closing
    assert peer.broker.of(CloseConnection)[0].reason == TIMEOUT
    assert peer.taken().startswith(b"ERROR\nmessage:nothing was heard for 20000 ms; ")


def test_no_heart_beat_while_there_is_traffic() -> None:
    peer = Peer()
    peer.connect("1.2", b"heart-beat:0,1000\n")
    for step in range(1, 50):
        now = peer.now + step * SECOND // 10
        assert b"RECEIPT" in peer_send_at(peer, now)
        peer.session.tick(now)
        assert peer.taken() == b""


def peer_send_at(peer: Peer, now: int) -> bytes:
    peer.session.receive(b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0", now)
    return peer.taken()


def test_deadlines_are_enough_to_be_on_time() -> None:
    """Ticks only at `next_deadline` miss nothing."""
    peer = Peer()
    peer.connect("1.2", b"heart-beat:10000,1000\n")
    last = peer.now
    while not peer.session.closing:
        deadline = peer.session.next_deadline
        assert deadline > last
        last = deadline
        peer.session.tick(deadline)
        peer.taken()
    assert last == peer.now + 20 * SECOND
    assert peer.session.next_deadline == 0


def test_the_time_to_log_in_is_limited() -> None:
    peer = Peer(StompOptions(connect_timeout_ms=1000))
    assert peer.session.next_deadline == peer.now + SECOND
    peer.session.tick(peer.now + SECOND - 1)
    assert not peer.session.closing
    peer.session.tick(peer.now + SECOND)
    assert peer.session.closing
    assert b"raise connect-timeout in" in peer.taken()


def test_the_time_to_log_in_stands_still_while_nothing_is_read() -> None:
    peer = Peer(StompOptions(connect_timeout_ms=1000))
    peer.send(b"C")
    peer.session.is_unheard = True
    for _ in range(20):
        peer.now += SECOND
        peer.session.tick(peer.now)
        assert peer.session.next_deadline > peer.now
    peer.now += SECOND
    peer.session.listen_again(peer.now)
    peer.session.tick(peer.now)
    assert not peer.session.closing
    peer.session.tick(peer.now + SECOND)
    assert b"not connected within" in peer.taken()


def test_without_a_limit_to_log_in() -> None:
    peer = Peer(StompOptions(connect_timeout_ms=0))
    peer.session.tick(peer.now + 1000 * SECOND)
    peer.session.listen_again(peer.now + 1000 * SECOND)
    peer.session.tick(peer.now + 2000 * SECOND)
    assert not peer.session.closing
    assert peer.session.next_deadline == 0


def test_an_early_loss_of_the_connection_is_nobodys_business() -> None:
    peer = Peer(broker=FakeBroker())
    peer.session.connection_lost(peer.now)
    assert peer.broker.commands == []
