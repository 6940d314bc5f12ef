"""Whatever a peer of AMQP 1.0 says, its connection answers or ends, and nothing else suffers."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.facts.values import Symbol
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.writer import section_of
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from tests.support.amqp.peer import Peer, message
from tests.support.world import World

ADDRESSES = ("a", "topic://t", "a::q", "", "queue://b", "bad{", "temp.default.99.x", None)
TXN_IDS = tuple(number.to_bytes(8, "big") for number in range(4))
STATES = (
    None, Accepted(), Released(), Rejected(), Modified(True), Modified(undeliverable_here=True),
    Modified(message_annotations={"n": 1}),
    *(TransactionalState(each, Accepted()) for each in TXN_IDS),
)  # fmt: skip


def _source(chance: random.Random) -> Any:
    return chance.choice(
        [
            None,
            Source(
                chance.choice(ADDRESSES),
                durable=chance.randrange(3),
                expiry_policy=chance.choice(
                    ["link-detach", "session-end", "connection-close", "never"]
                ),
                timeout=chance.choice([0, 1]),
                dynamic=chance.random() < 0.2,
                distribution_mode=chance.choice([None, "copy", "move"]),
                filter=chance.choice(
                    [
                        None,
                        {"s": Described(Symbol("apache.org:selector-filter:string"), "n > 1")},
                        {"s": Described(0x468C00000004, "((")},
                        {"x": Described(Symbol("unknown"), [1])},
                    ]
                ),
                capabilities=chance.choice([(), ("topic",), ("shared",), ("shared", "global")]),
            ),
        ]
    )


def _target(chance: random.Random) -> Any:
    return chance.choice(
        [
            None,
            Coordinator(),
            Target(chance.choice(ADDRESSES), dynamic=chance.random() < 0.2),
            Target(chance.choice(ADDRESSES)),
        ]
    )


def _payload(chance: random.Random) -> bytes:
    return chance.choice(
        [
            message(b"x"), message("text", durable=True), message({"a": 1}), b"", b"\0\x53\x75",
            bytes(chance.randrange(256) for _ in range(chance.randrange(30))),
            section_of(0x77, COMPOSITES.encoded(Declare())),
            section_of(0x77, COMPOSITES.encoded(Discharge(chance.choice(TXN_IDS), True))),
            section_of(0x77, COMPOSITES.encoded(Discharge(chance.choice(TXN_IDS)))),
            message(bytes(3000)),
        ]
    )  # fmt: skip


def _frame(chance: random.Random) -> bytes:
    handle, channel = chance.randrange(4), chance.randrange(2)
    number = chance.randrange(6)
    kind = chance.randrange(12)
    payload = b""
    said: Any
    if kind < 2:
        said = Attach(
            f"l{chance.randrange(4)}|{chance.choice(['global', '1', ''])}", handle,
            chance.choice([SENDER, RECEIVER]), snd_settle_mode=chance.randrange(3),
            source=_source(chance), target=_target(chance), initial_delivery_count=0,
        )  # fmt: skip
    elif kind < 5:
        said = Transfer(
            handle, chance.choice([number, None]), b"t", 0, chance.choice([None, True, False]),
            chance.random() < 0.3, state=chance.choice(STATES), aborted=chance.random() < 0.1,
        )  # fmt: skip
        payload = _payload(chance)
    elif kind < 7:
        said = Flow(
            next_incoming_id=chance.choice([None, number]),
            incoming_window=chance.choice([0, 1, 99]),
            next_outgoing_id=number, outgoing_window=9,
            handle=chance.choice([None, handle]), delivery_count=chance.choice([None, number]),
            link_credit=chance.choice([None, 0, 5]), drain=chance.random() < 0.3,
            echo=chance.random() < 0.3,
        )  # fmt: skip
    elif kind < 9:
        said = Disposition(
            chance.choice([SENDER, RECEIVER]),
            number,
            chance.choice([None, number + 2, 0]),
            chance.random() < 0.7,
            chance.choice(STATES),
        )
    elif kind == 9:
        said = Detach(handle, chance.random() < 0.5)
    elif kind == 10:
        said = chance.choice(
            [
                End(), Begin(next_outgoing_id=number, incoming_window=9, outgoing_window=9),
                Begin(next_outgoing_id=number, incoming_window=9, outgoing_window=9),
            ]
        )  # fmt: skip
    else:
        said = chance.choice([Close(), Open("again"), *[Detach(handle)] * 8])
    return frame(channel, said, payload)


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
            peers.append(
                Peer(
                    world, max_message_size=5000, min_large_message_size=1000, max_links=3, credit=5
                ).open(f"c{number}")
            )
            continue
        data = _frame(chance)
        if chance.random() < 0.05:
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
