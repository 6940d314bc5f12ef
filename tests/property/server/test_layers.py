"""Layers between socket and session: any bytes in any pieces are input, or one documented end."""

import hashlib
import ssl
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from daybook.server.configuration.config import load
from daybook.server.network.layers.certificates import Identity
from daybook.server.network.layers.client_names import ClientNames
from daybook.server.network.layers.handshakes import Handshakes
from daybook.server.network.layers.shell import Shell
from daybook.server.network.layers.tls import Tls
from daybook.server.network.layers.websocket import WebSocket, WebSocketOptions
from tests.support.brokers.certificates import Authority
from tests.support.worlds.layered import FakeOwner

TELL = b"ERROR: with TLS, please"
SMALL = st.lists(st.integers(1, 5000), min_size=1, max_size=8)


class Encrypted:
    """A shell, and a client of the standard library that talks with it through memory."""

    def __init__(self, identity: Identity, trusting: ssl.SSLContext) -> None:
        self.owner = FakeOwner()
        self.shell = Shell(
            self.owner,
            Tls(identity.context, identity.end_point),
            ClientNames("none", ""),
            Handshakes(self.owner.call_soon),
            lambda _: TELL,
        )
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = trusting.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def feed(self, data: bytes, sizes: list[int]) -> None:
        """Give the shell bytes in pieces; sizes are repeated."""
        at = count = 0
        while at < len(data):
            size = sizes[count % len(sizes)]
            self.shell.received(data[at : at + size])
            self.owner.turn()
            at, count = at + size, count + 1

    def connect(self, sizes: list[int]) -> None:
        """Do the handshake, cut into pieces."""
        for _ in range(10):
            done = True
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                done = False
            self.feed(self.outgoing.read(), sizes)
            self.incoming.write(self.owner.fake.take())
            if done:
                return
        raise AssertionError("the handshake does not end")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Path:
    return authority.issue("localhost")


@pytest.fixture(scope="module")
def identity(certificate: Path) -> Identity:
    acceptor = load().acceptors[0]
    return Identity(msgspec.structs.replace(acceptor, tls=True, certificate=str(certificate)))


def calm(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@calm(40)
@given(sizes=SMALL, bodies=st.lists(st.binary(max_size=40_000), max_size=4))
def test_tls_is_invisible(
    identity: Identity, authority: Authority, sizes: list[int], bodies: list[bytes]
) -> None:
    here = Encrypted(identity, authority.trusting())
    here.connect(sizes)
    for body in bodies:
        if body:
            here.client.write(body)
    here.feed(here.outgoing.read(), sizes)
    assert bytes(here.owner.input) == b"".join(bodies)
    assert not here.owner.failure
    assert not here.owner.is_busy
    for body in bodies:
        here.owner.fake.write(here.shell.write(body))
    here.incoming.write(here.owner.fake.take())
    answer = bytearray()
    while len(answer) < sum(map(len, bodies)):
        answer += here.client.read(1 << 20)
    assert bytes(answer) == b"".join(bodies)
    here.incoming.write(here.shell.farewell())
    assert here.client.read(1) == b"", "the end is told"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_ends_know_what_binds_a_login_to_the_connection(
    identity: Identity, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = authority.trusting()
    context.minimum_version = context.maximum_version = version
    here = Encrypted(identity, context)
    here.connect([5000])
    shown = here.client.getpeercert(binary_form=True)
    assert shown is not None
    expected = {"tls-server-end-point": hashlib.sha256(shown).digest()}
    if version == ssl.TLSVersion.TLSv1_2:
        expected["tls-unique"] = here.client.get_channel_binding() or b""
    assert here.owner.bindings == expected
    assert here.owner.certificate is None


@calm(100)
@given(data=st.binary(min_size=1, max_size=3000), sizes=SMALL)
def test_any_bytes_end_or_wait(
    identity: Identity, authority: Authority, data: bytes, sizes: list[int]
) -> None:
    here = Encrypted(identity, authority.trusting())
    here.feed(data, sizes)
    owner = here.owner
    assert not owner.input
    if data[0] != 0x16:
        assert bytes(owner.fake.written) == TELL
        assert "without it" in owner.failure
    # Before the end of a handshake nothing of the session leaves.
    assert here.shell.write(b"ERROR") == b""
    assert here.shell.farewell() == b""


@calm(100)
@given(
    noise=st.binary(min_size=1, max_size=200),
    place=st.floats(0, 1),
    sizes=SMALL,
    after=st.booleans(),
)
def test_damage_within_a_connection_ends_it(
    identity: Identity,
    authority: Authority,
    noise: bytes,
    place: float,
    sizes: list[int],
    after: bool,
) -> None:
    here = Encrypted(identity, authority.trusting())
    if after:
        here.connect([5000])
        here.client.write(b"x" * 2000)
    else:
        with pytest.raises(ssl.SSLWantReadError):
            here.client.do_handshake()
    said = bytearray(here.outgoing.read())
    at = int(place * (len(said) - 1))
    said[at : at + len(noise)] = noise
    here.feed(bytes(said), sizes)
    assert set(here.owner.input) <= {ord("x")}
    if here.owner.failure:
        before = len(here.owner.input)
        here.shell.received(b"more")
        assert len(here.owner.input) == before


# ---- WebSocket


REQUEST = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
CODES = {1002, 1007, 1009}


class Framed:
    """WebSocket of a connection that has logged in, unless `is_stranger`."""

    def __init__(self, *, is_stranger: bool = False) -> None:
        self.owner = FakeOwner()
        self.owner.has_logged_in = not is_stranger
        self.web = WebSocket(
            self.owner,
            WebSocketOptions(("v12.stomp",), "", (), 1 << 16),
            None,
            self.owner.call_soon,
            self.owner.pass_on,
        )

    def feed(self, data: bytes, sizes: list[int]) -> None:
        """Give bytes in pieces, as a socket does: none while reading is paused."""
        at = count = 0
        while at < len(data):
            size = sizes[count % len(sizes)]
            self.web.received(data[at : at + size])
            if self.owner.is_busy:
                self.owner.turn()
            assert not self.owner.is_busy or self.owner.failure or self.owner.is_finished
            at, count = at + size, count + 1

    def open(self) -> "Framed":
        """Agree on WebSocket."""
        self.feed(REQUEST, [4096])
        assert self.owner.fake.take().startswith(b"HTTP/1.1 101 ")
        return self


def ended(here: Framed) -> None:
    """Check that a connection that has failed said so by a close frame, or by an answer."""
    said = bytes(here.owner.fake.written)
    close = said.rfind(b"\x88")
    assert int.from_bytes(said[close + 2 : close + 4]) in CODES
    before = len(here.owner.input)
    here.web.received(b"more")
    assert len(here.owner.input) == before
    assert here.web.encode(b"x") == here.web.farewell("") == b""


messages = st.lists(
    st.tuples(st.booleans(), st.text(max_size=300), st.lists(st.integers(0, 300), max_size=4)),
    max_size=6,
)


@calm(150)
@given(said=messages, sizes=SMALL, pings=st.booleans())
def test_websocket_is_invisible(
    said: list[tuple[bool, str, list[int]]], sizes: list[int], pings: bool
) -> None:
    here = Framed().open()
    client = ClientProtocol(parse_uri("ws://localhost/"), state=State.OPEN)
    expected = b""
    for is_text, body, cuts in said:
        data = body.encode()
        expected += data
        places = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
        start = 0
        for number, place in enumerate(places):
            part, fin = data[start:place], place == places[-1]
            if number:
                client.send_continuation(part, fin)
            elif is_text:
                client.send_text(part, fin)
            else:
                client.send_binary(part, fin)
            if pings:
                client.send_ping(part[:100])
            start = place
    here.feed(b"".join(client.data_to_send()), sizes)
    assert bytes(here.owner.input) == expected
    assert not here.owner.failure
    for output in (b"\n", expected, b"\xff" + expected):
        encoded = here.web.encode(output)
        here.owner.fake.write(encoded)
    client.receive_data(here.owner.fake.take())
    got = [event for event in client.events_received() if isinstance(event, Frame)]
    found = [bytes(one.data) for one in got if one.opcode in (Opcode.TEXT, Opcode.BINARY)]
    assert found == [one for one in (b"\n", expected, b"\xff" + expected) if one]
    for one in got:
        if one.opcode is Opcode.TEXT:
            bytes(one.data).decode()
    client.send_close(1000)
    here.feed(b"".join(client.data_to_send()), sizes)
    assert here.owner.is_finished


@calm(300)
@given(data=st.binary(min_size=1, max_size=4000), sizes=SMALL)
def test_any_bytes_after_the_request(data: bytes, sizes: list[int]) -> None:
    here = Framed().open()
    here.feed(data, sizes)
    if here.owner.failure:
        ended(here)


@calm(300)
@given(data=st.binary(max_size=3000), sizes=SMALL, head=st.sampled_from([b"G", b"GET / HTTP/1.1"]))
def test_any_bytes_instead_of_a_request(data: bytes, sizes: list[int], head: bytes) -> None:
    here = Framed(is_stranger=True)
    here.feed(head + data, sizes)
    assert not here.owner.input
    assert here.web.encode(b"ERROR") == b""
    if here.owner.failure:
        assert bytes(here.owner.fake.written).startswith(b"HTTP/1.1 4")


@calm(100)
@given(
    place=st.floats(0, 1),
    noise=st.binary(min_size=1, max_size=30),
    sizes=SMALL,
)
def test_a_damaged_request(place: float, noise: bytes, sizes: list[int]) -> None:
    here = Framed(is_stranger=True)
    said = bytearray(REQUEST)
    at = 1 + int(place * (len(said) - 2))
    said[at : at + len(noise)] = noise
    here.feed(bytes(said), sizes)
    written = bytes(here.owner.fake.written)
    assert not written or written.startswith(b"HTTP/1.1 ")


def test_many_small_frames_take_many_turns() -> None:
    here = Framed().open()
    ping, letter = b"\x89\x80\0\0\0\0", b"\x82\x81\0\0\0\0x"
    here.web.received((ping + letter) * 5000)
    turns = 0
    while here.owner.scheduled:
        assert here.owner.is_busy
        before = len(here.owner.input)
        here.owner.scheduled.pop(0)()
        assert len(here.owner.input) - before <= 400
        turns += 1
    assert turns > 10
    assert not here.owner.is_busy
    assert bytes(here.owner.input) == b"x" * 5000
    # One answer for each slice at most.
    assert here.owner.fake.written.count(b"\x8a") < 100


def test_nothing_is_decoded_while_the_owner_waits() -> None:
    here = Framed().open()
    here.web.received(b"\x82\x81\0\0\0\0x" * 5000)
    here.owner.is_paused = True
    here.owner.turn()
    before = len(here.owner.input)
    assert before < 5000
    assert here.owner.charged_input > 0
    here.owner.is_paused = False
    here.web.resume()
    here.owner.turn()
    assert bytes(here.owner.input) == b"x" * 5000
    assert here.owner.charged_input == 0


def test_a_peer_that_does_not_read_gets_no_answers_to_pings() -> None:
    here = Framed().open()
    here.owner.fake.is_stuck = True
    here.owner.fake.write(b"x" * 100_000)
    here.feed(b"\x89\x80\0\0\0\0" * 1000, [600])
    assert len(here.owner.fake.written) == 100_000


def test_a_stranger_holds_little() -> None:
    here = Framed(is_stranger=True).open()
    here.feed(b"\x82\xff" + (60_000).to_bytes(8) + b"\0" * 4 + b"x" * 50_000, [4096])
    assert "before the login" in here.owner.failure
    ended(here)
