"""Layers between socket and session: any bytes in any pieces are input, or one documented end."""

import ssl
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daybook.server.config import load
from daybook.server.layers.certificates import Identity
from daybook.server.layers.client_names import ClientNames
from daybook.server.layers.handshakes import Handshakes
from daybook.server.layers.shell import Shell
from daybook.server.layers.tls import Tls
from tests.support.certificates import Authority
from tests.support.layered import FakeOwner

TELL = b"ERROR: with TLS, please"
SMALL = st.lists(st.integers(1, 5000), min_size=1, max_size=8)


class Encrypted:
    """A shell, and a client of the standard library that talks with it through memory."""

    def __init__(self, identity: Identity, trusting: ssl.SSLContext) -> None:
        self.owner = FakeOwner()
        self.shell = Shell(
            self.owner,
            Tls(identity.context),
            ClientNames("none", ""),
            Handshakes(self.owner.call_soon),
            lambda: TELL,
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
