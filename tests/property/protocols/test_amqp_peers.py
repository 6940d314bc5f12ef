"""Whatever a peer of AMQP 1.0 says, its connection answers or ends, and nothing else suffers."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.filters.compiling import compile_filter
from tests.support.amqp.apt_frames import an_apt_frame
from tests.support.amqp.frames_by_chance import a_frame
from tests.support.amqp.peer import Peer
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


@settings(max_examples=60, deadline=None)
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
