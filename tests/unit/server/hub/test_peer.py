"""A peer counts its unsent output, and does not write to a closed connection."""

import random
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.broker import Broker
from daybook.engine.state.state import State
from daybook.protocols.port import Body, Caller
from daybook.protocols.stomp import Session, StompOptions
from daybook.server.hub.outbox import Outbox
from daybook.server.hub.peer import CHUNKS_AT_ONCE, WRITE_HIGH_BYTES, Peer


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def buffered(self) -> int:
        return 7

    def pause_reading(self) -> None:
        raise AssertionError("a peer decides nothing")

    def notice_end(self) -> None:
        raise AssertionError("a peer decides nothing")

    def resume_reading(self) -> None:
        raise AssertionError("a peer decides nothing")

    def close(self, delay_ms: int) -> None:
        raise AssertionError("a peer decides nothing")


class Chunks:
    """Chunk N is ten times its last digit."""

    def chunks(self, lsns: Sequence[int], before: int) -> list[bytes]:
        assert 0 < len(lsns) <= CHUNKS_AT_ONCE
        return [b"%d" % (lsn % 10) * 10 for lsn in lsns]


class Pipe:
    """A transport that takes everything, until the test makes it full."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_full = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def buffered(self) -> int:
        return WRITE_HIGH_BYTES + 1 if self.is_full else 0

    def pause_reading(self) -> None:
        raise AssertionError("a peer decides nothing")

    def notice_end(self) -> None:
        raise AssertionError("a peer decides nothing")

    def resume_reading(self) -> None:
        raise AssertionError("a peer decides nothing")

    def close(self, delay_ms: int) -> None:
        raise AssertionError("a peer decides nothing")

    @property
    def text(self) -> bytes:
        return b"".join(self.written)


def piped() -> tuple[Peer, Pipe]:
    pipe = Pipe()
    session = Session(Broker(State()), StompOptions(), Caller("peer"), "server")
    return Peer(session, pipe, Caller("peer"), "stomp", 1000), pipe


SAID = st.lists(
    st.tuples(
        # The output of one turn: pieces of text, and how many chunks of a body follow each.
        st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), min_size=1, max_size=4),
        st.sampled_from((0, 1, 2)),
    ),
    max_size=6,
)


@given(SAID, st.randoms(use_true_random=False))
def test_bodies_come_where_they_belong(
    said: list[tuple[list[tuple[int, int]], int]], chance: random.Random
) -> None:
    peer, pipe = piped()
    outbox = Outbox(0)
    expected = b""
    lsn = body = 0
    for pieces, wait in said:
        parts = []
        bodies = []
        for length, count in pieces:
            parts.append(b"abcde"[:length])
            expected += parts[-1]
            if count:
                chunks = tuple(range(body + 1, body + count + 1))
                body += count
                bodies.append(Body(sum(map(len, parts)), chunks, 10 * count))
                expected += b"".join(b"%d" % (chunk % 10) * 10 for chunk in chunks)
        peer.expect(bodies)
        if wait:
            lsn += 1
            outbox.put(peer, parts, lsn)
            if lsn > outbox.closed_lsn:
                outbox.close(lsn)
        else:
            outbox.put(peer, parts, 0)
        for _ in range(chance.randint(0, 3)):
            pipe.is_full = chance.random() < 0.3
            peer.pump(Chunks())
        if chance.random() < 0.3 and outbox.closed_lsn > outbox.durable_lsn:
            outbox.durable(outbox.closed_lsn)
        assert expected.startswith(pipe.text)
    outbox.durable(outbox.closed_lsn)
    pipe.is_full = False
    while peer.pump(Chunks()):
        pass
    assert pipe.text == expected
    assert (peer.body_bytes, peer.deferred_bytes, peer.waiting_bytes) == (0, 0, 0)
    assert not peer.has_bodies


class Beating:
    """A session that has something urgent at each tick; it notes whether output waits for the
    disk."""

    def __init__(self) -> None:
        self.awaits_disk = False
        self.urgent = b""

    def tick(self, now: int) -> None:
        self.urgent = b"\n"


FRAME = re.compile(rb"<[0-9]*>")


@given(SAID, st.randoms(use_true_random=False))
def test_heart_beats_overtake_what_waits_and_interrupt_no_frame(
    said: list[tuple[list[tuple[int, int]], int]], chance: random.Random
) -> None:
    pipe = Pipe()
    session: Any = Beating()
    peer = Peer(session, pipe, Caller("peer"), "stomp", 1000)
    outbox = Outbox(0)
    beats = 0
    for lsn, (pieces, wait) in enumerate(said, 1):
        parts: list[bytes] = []
        bodies = []
        for _, count in pieces:
            parts.append(b"<")
            if count:
                bodies.append(Body(sum(map(len, parts)), tuple(range(count)), 10 * count))
            parts.append(b">")
        peer.expect(bodies)
        outbox.put(peer, parts, lsn if wait else 0)
        if wait:
            outbox.close(lsn)
        for _ in range(chance.randint(0, 3)):
            pipe.is_full = chance.random() < 0.3
            before = len(pipe.written)
            peer.tick(0)
            assert session.awaits_disk == (outbox.durable_lsn < outbox.closed_lsn)
            assert session.urgent == b""
            # Where no body is in the way nothing can hold them up.
            assert peer.has_bodies or len(pipe.written) == before + 1
            beats += len(pipe.written) - before
            peer.pump(Chunks())
        if chance.random() < 0.3 and outbox.closed_lsn > outbox.durable_lsn:
            outbox.durable(outbox.closed_lsn)
    outbox.durable(outbox.closed_lsn)
    pipe.is_full = False
    while peer.pump(Chunks()):
        pass
    frames, rest = FRAME.subn(b"", pipe.text)[::-1]
    assert rest == b"\n" * beats
    assert frames == sum(len(pieces) for pieces, _ in said)


def test_a_slice_at_a_time() -> None:
    peer, pipe = piped()
    peer.expect([Body(1, tuple(range(1, 2 * CHUNKS_AT_ONCE + 2)), 90)])
    peer.release(b"ab")
    assert pipe.written == []
    assert peer.output_bytes() == 2
    assert peer.pump(Chunks())
    assert pipe.written[0] == b"a"
    assert len(pipe.written) == 1 + CHUNKS_AT_ONCE
    assert peer.body_bytes == 90 - 10 * CHUNKS_AT_ONCE
    pipe.is_full = True
    assert not peer.pump(Chunks())
    assert len(pipe.written) == 1 + CHUNKS_AT_ONCE
    pipe.is_full = False
    assert peer.pump(Chunks())
    assert not peer.pump(Chunks())
    assert pipe.written[-1] == b"b"


def test_after_bodies_are_dropped_nothing_more_is_written() -> None:
    peer, pipe = piped()
    peer.expect([Body(1, (1,), 10)])
    peer.release(b"ab")
    peer.drop_bodies()
    peer.release(b"c")
    assert not peer.pump(Chunks())
    assert pipe.written == []
    assert peer.body_bytes == 0
    whole, other = piped()
    whole.drop_bodies()
    whole.release(b"c")
    assert other.text == b"c"


def test_output_is_what_waits_and_what_the_transport_holds() -> None:
    transport = Transport()
    session = Session(Broker(State()), StompOptions(), Caller("peer"), "server")
    peer = Peer(session, transport, Caller("peer"), "stomp", 1000)
    peer.waiting_bytes = 5
    assert peer.output_bytes() == 12
    assert peer.output_limit > peer.room
    peer.release(b"x")
    assert peer.released
    peer.closed = True
    peer.release(b"y")
    assert transport.written == [b"x"]
