"""Whatever a peer of AMQP 1.0 says, its connection answers or ends, and nothing else suffers."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daybook.engine.commands import PurgeQueue
from daybook.engine.filters.compiling import compile_filter
from daybook.protocols.amqp.wire.frames import FrameReader
from daybook.protocols.amqp.wire.kinds import SECOND
from tests.support.amqp.apt_frames import an_apt_frame
from tests.support.amqp.frames_by_chance import a_frame
from tests.support.amqp.peer import Peer, message
from tests.support.amqp.strategies import messages
from tests.support.compiled import replaces_parts
from tests.support.world import World
from tests.support.worlds.auditing import judged


def _play(seed: int, steps: int) -> World:
    chance = random.Random(seed)
    world = World(compile_filter=compile_filter)
    peers = [
        Peer(world, max_message_size=5000, min_large_message_size=1000, max_links=3, credit=5).open(
            f"c{number}"
        )
        for number in range(2)
    ]
    for number in range(steps):
        peer = chance.choice(peers)
        if peer.connection.closing or number % 40 == 39:
            peer.connection.connection_lost(world.now)
            peer.settle()
            peers.remove(peer)
            # Often a container comes back, and takes its subscriptions over.
            peers.append(
                Peer(
                    world, max_message_size=5000, min_large_message_size=1000, max_links=3, credit=5
                ).open(f"c{number % 3}")
            )
            continue
        is_apt = chance.random() < 0.95
        data = an_apt_frame(chance, peer.connection) if is_apt else a_frame(chance)
        if chance.random() < 0.01:
            at = chance.randrange(len(data))
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        peer.feed(data)
        world.now += 1000
    for peer in peers:
        peer.connection.connection_lost(world.now)
        peer.settle()
        assert peer.connection.input_bytes == peer.connection.unsent_bytes == 0
    world.check()
    assert not world.state.connections
    assert not [each.text for each in judged(world.journal, options=world.options)]
    return world


@given(st.integers(0, 1 << 32))
def test_no_sequence_of_frames_breaks_the_broker(seed: int) -> None:
    _play(seed, 120)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_break_a_connection(data: bytes, logs_in: bool) -> None:
    world = World()
    peer = Peer(world)
    if logs_in:
        peer.open()
    peer.feed(data)
    peer.connection.connection_lost(world.now)
    world.check()


def _answers(steps: list[tuple[int, bytes, bool]], *, at_once: bool) -> tuple[object, object]:
    """Send messages by three links, and return what the broker says and records. The first soon
    waits for room: 3 in place of a link makes some, and 4 also tells it."""
    with pytest.MonkeyPatch.context() as patch:
        if not at_once:
            patch.setattr(FrameReader, "next_single", lambda self: None)
        world = World()
        world.settings(**{"full": {"max-size-messages": 3, "address-full-policy": "BLOCK"}})
        peer = Peer(world, credit=8, max_message_size=900, min_large_message_size=600).open()
        peer.said.clear()
        peer.sender(0, "full")
        peer.sender(1, "other")
        peer.sender(2, "other", mode=SECOND)
        for number, (link, data, settled) in enumerate(steps):
            if link < 3:
                peer.send(link, number, data, settled=settled)
                continue
            world.handle(PurgeQueue("full"))
            if link == 4:
                for each in filter(peer.connection.is_sender_waiting, range(9)):
                    peer.connection.resume_sender(each, world.now)
                peer.settle()
        world.turn()
        assert peer.connection.input_bytes >= 0
        return peer.said, [
            (each.row, each.detail, each.headers, each.body) for each in world.journal
        ]


_X = message(b"x", durable=True)
_alike = st.sampled_from([_X, message(b"y" * 300), message(b"z" * 700)])


@replaces_parts
@given(
    st.lists(
        st.tuples(st.integers(0, 4), _alike | messages() | st.binary(max_size=9), st.booleans()),
        max_size=25,
    )
)
@example([(0, _X, False)] * 4 + [(3, _X, False), (0, _X, False), (4, _X, False)])
def test_a_message_that_is_taken_at_once_is_answered_as_one_in_parts(
    steps: list[tuple[int, bytes, bool]],
) -> None:
    assert _answers(steps, at_once=True) == _answers(steps, at_once=False)
