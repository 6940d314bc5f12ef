"""Large messages: their bodies in chunks, and what is behind them."""

import pytest

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.writer import encoded, section_of
from daybook.protocols.amqp import incoming
from daybook.protocols.amqp.wire.performatives import Disposition, Transfer
from daybook.protocols.amqp.wire.termini import Accepted
from tests.support.amqp.peer import Peer, message
from tests.support.world import World

FOOTER = section_of(0x78, encoded({Symbol("x-sum"): 1}))
LONG_FOOTER = section_of(0x78, encoded({Symbol("x-sum"): b"x" * incoming.CHUNK_BYTES}))
MORE = section_of(0x75, encoded(b"more"))


@pytest.mark.parametrize("step", [7_000, 50_000])
@pytest.mark.parametrize(
    ("behind", "in_body"),
    [(b"", 0), (FOOTER, 0), (MORE, len(MORE)), (MORE + FOOTER, len(MORE + FOOTER)),
     (LONG_FOOTER, len(LONG_FOOTER)), (b"no section", 10)],
)  # fmt: skip
def test_a_large_message_comes_in_chunks_and_leaves_as_it_came(
    step: int, behind: bytes, in_body: int
) -> None:
    peer = Peer(World(), min_large_message_size=1024).open()
    peer.sender(0, "a")
    body = bytes(range(256)) * 1000
    data = message(body, durable=True) + behind
    for at in range(0, len(data), step):
        more = at + step < len(data)
        first = {"delivery_id": 0, "delivery_tag": b"t", "message_format": 0} if not at else {}
        peer.say(Transfer(0, more=more, **first), data[at : at + step])
    assert len(peer.world.events_named("ChunkReceived")) >= 3
    assert peer.hear(Disposition).state == Accepted()
    assert not peer.connection.input_bytes
    (entry,) = peer.world.entries("a")
    assert entry.message.body_bytes == len(body) + in_body
    peer.receiver(1, "a", 1)
    while peer.connection.pulls:
        pull = peer.connection.pulls.pop(0)
        chunk = next(each for each in peer.world.journal if each.lsn == pull.chunk)
        pull.taker.take(chunk.body, peer.world.now)
        peer.settle()
    [(transfer, found)] = peer.deliveries()
    assert transfer.more
    assert found.endswith(body + behind)
