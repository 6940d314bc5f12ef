"""Peers that are given up: half a body, heart-beats in a lifetime, too much before the login."""

import pytest

from daybook.engine.commands import CloseConnection, Send
from daybook.engine.facts.reasons import TIMEOUT
from daybook.protocols.stomp import StompOptions
from daybook.protocols.stomp.wire.handshake import HEART_BEAT_MS_MAX
from tests.unit.protocols.stomp.fakes import Peer, connected

SECOND = 1_000_000
HALF = b"SEND\ndestination:/queue/a\ncontent-length:200000\n\n" + bytes(100_000)


def wait(peer: Peer, seconds: float) -> bytes:
    """Let time pass, and call the session when it wants to be called."""
    end = peer.now + int(seconds * SECOND)
    while 0 < peer.session.next_deadline <= end:
        peer.now = max(peer.now, peer.session.next_deadline)
        peer.session.tick(peer.now)
    peer.now = end
    return peer.taken()


def test_half_a_body_is_waited_for_and_given_up() -> None:
    peer = connected(options=StompOptions(body_timeout_ms=5_000))
    assert peer.send(HALF) == b""
    assert wait(peer, 4.9) == b""
    output = wait(peer, 0.2)
    assert b"less than 64 KiB of it came within 5000 ms" in output
    assert peer.session.has_stalled
    assert peer.broker.of(CloseConnection)[0].reason == TIMEOUT


def test_each_chunk_gives_more_time() -> None:
    peer = connected(options=StompOptions(body_timeout_ms=5_000))
    peer.send(HALF.replace(b"200000", b"900000"))
    for _ in range(3):
        assert wait(peer, 4) == b""
        assert peer.send(bytes(66_000)) == b""
    assert wait(peer, 4) == b""
    assert peer.send(bytes(1_000)) == b""
    # Less than a chunk gives none.
    assert b"ERROR" in wait(peer, 1.1)


def test_a_body_that_is_whole_leaves_no_deadline() -> None:
    peer = connected(options=StompOptions(body_timeout_ms=5_000))
    peer.send(HALF)
    peer.send(bytes(100_000) + b"\0")
    assert wait(peer, 60) == b""
    assert len(peer.broker.of(Send)) == 1
    assert peer.session.next_deadline == 0


def test_a_peer_that_is_not_read_is_waited_for() -> None:
    peer = connected(options=StompOptions(body_timeout_ms=5_000))
    peer.send(HALF)
    peer.session.is_unheard = True
    assert wait(peer, 60) == b""
    peer.session.listen_again(peer.now)
    assert wait(peer, 4) == b""
    assert b"ERROR" in wait(peer, 2)


def test_zero_waits_for_ever() -> None:
    peer = connected(options=StompOptions(body_timeout_ms=0))
    peer.send(HALF)
    assert wait(peer, 86_400) == b""


def test_heart_beats_in_a_lifetime_count_as_none() -> None:
    peer = Peer()
    peer.connect("1.2", b"heart-beat:999999999999,999999999999\n")
    assert peer.session.next_deadline <= peer.now + HEART_BEAT_MS_MAX * 1000
    assert wait(peer, 2 * HEART_BEAT_MS_MAX / 1000).strip(b"\n") == b""
    assert not peer.session.closing


@pytest.mark.parametrize(
    "data", [b"\n" * 101, b"\r\n" * 60, b"CONNECT\nlogin:" + b"x" * 101, b"x" * 101]
)
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_little_is_taken_before_the_login(data: bytes, piece: int) -> None:
    peer = Peer(StompOptions(max_early_data=100))
    output = b"".join(peer.send(data[at : at + piece]) for at in range(0, len(data), piece))
    assert output.startswith(b"ERROR\n")
    assert peer.session.closing


@pytest.mark.parametrize("ends", [b"\n" * 5000, b"\r\n" * 5000])
def test_line_feeds_between_frames_are_skipped(ends: bytes) -> None:
    peer = connected()
    frame = b"SEND\ndestination:/queue/a\n\nx\0"
    peer.send(ends + frame + ends + frame + ends)
    assert len(peer.broker.of(Send)) == 2
