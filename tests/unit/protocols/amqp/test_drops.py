"""Senders that want to hear of messages that no queue takes."""

from typing import Any

import pytest

from daybook.protocols.amqp.faults import DROPPED
from daybook.protocols.amqp.wire.kinds import SENDER
from daybook.protocols.amqp.wire.performatives import Attach, Detach, Disposition
from daybook.protocols.amqp.wire.termini import Accepted, Source, Target
from tests.support.amqp.peer import Peer, message
from tests.support.world import World


def _sender(peer: Peer, handle: int, address: str, desired: tuple[str, ...] = (DROPPED,)) -> Any:
    peer.say(
        Attach(
            f"s{handle}", handle, SENDER, target=Target(address), source=Source(),
            initial_delivery_count=0, desired_capabilities=desired,
        )
    )  # fmt: skip
    return peer.hear(Attach).offered_capabilities


@pytest.mark.parametrize("size", [1, 5_000])
def test_a_sender_hears_of_drops_if_it_asks(size: int) -> None:
    peer = Peer(World(), min_large_message_size=1_000).open()
    for handle, desired in enumerate(((), (DROPPED,))):
        assert _sender(peer, handle, "topic://nobody", desired) == desired
        peer.send(handle, handle, message(b"x" * size))
    unheard, heard = peer.heard(Disposition)
    assert isinstance(unheard.state, Accepted)
    assert heard.state.error.condition == DROPPED
    assert heard.state.error.info == {DROPPED: "no-binding"}
    # Messages that a queue takes, and settled ones, are as for everybody.
    peer.receiver(2, "topic://nobody")
    peer.hear(Attach)
    peer.send(1, 2, message(b"x" * size))
    assert isinstance(peer.hear(Disposition).state, Accepted)
    peer.say(Detach(2, closed=True))
    peer.hear(Detach)
    peer.send(1, 3, message(b"x"), settled=True)
    assert not peer.heard(Disposition)
    assert not peer.heard(Detach)


def test_a_sender_that_asks_hears_of_duplicates() -> None:
    peer = Peer(World()).open()
    _sender(peer, 0, "q")
    for number in range(2):
        peer.send(0, number, message(b"x", properties={"_AMQ_DUPL_ID": "1"}))
    first, second = peer.heard(Disposition)
    assert isinstance(first.state, Accepted)
    assert second.state.error.info == {DROPPED: "duplicate"}
