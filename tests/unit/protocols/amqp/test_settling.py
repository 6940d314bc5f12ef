"""Settle modes of both directions, and the tags of deliveries (part 2, 2.6.12)."""

import pytest

from daybook.protocols.amqp.wire.errors import INVALID_FIELD, UNKNOWN_ID
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import FIRST, RECEIVER, SECOND, SENDER
from daybook.protocols.amqp.wire.performatives import Attach, Detach, Disposition, Flow
from daybook.protocols.amqp.wire.termini import Accepted, Rejected, Released, TransactionalState
from tests.support.amqp.peer import Peer, message
from tests.support.world import World


@pytest.fixture
def peer() -> Peer:
    return Peer(World(), credit=4).open()


def test_a_sender_of_mode_second_settles_what_was_accepted(peer: Peer) -> None:
    peer.sender(0, "a", mode=SECOND)
    assert peer.hear(Attach).rcv_settle_mode == SECOND
    peer.send(0, 0, message(durable=True))
    accepted = peer.hear(Disposition)
    assert (accepted.role, accepted.settled, accepted.state) == (RECEIVER, False, Accepted())
    peer.say(Disposition(SENDER, 0, settled=True, state=Accepted()))
    assert not peer.heard(Disposition)


def test_what_the_sender_did_not_settle_uses_up_its_credit(peer: Peer) -> None:
    peer.sender(0, "a", mode=SECOND)
    (granted,) = peer.heard(Flow)
    assert granted.link_credit == 4
    for each in range(4):
        peer.send(0, each, message())
    assert not [each for each in peer.heard(Flow) if each.link_credit]
    peer.say(Disposition(SENDER, 0, 2, settled=True))
    assert peer.heard(Flow)[-1].link_credit == 3


def test_a_rejection_waits_for_its_sender_too(peer: Peer) -> None:
    peer.sender(0, None, mode=SECOND)
    peer.send(0, 0, message())
    refused = peer.hear(Disposition)
    assert isinstance(refused.state, Rejected)
    assert not refused.settled


def test_a_transfer_may_ask_for_mode_first_and_never_for_second(peer: Peer) -> None:
    peer.sender(0, "a", mode=SECOND)
    peer.send(0, 0, message(), rcv_settle_mode=FIRST)
    assert peer.hear(Disposition).settled
    peer.sender(1, "a")
    peer.send(1, 1, message(), rcv_settle_mode=SECOND)
    assert peer.hear(Detach).error.condition == INVALID_FIELD


def test_a_link_that_ends_leaves_nothing_unsettled(peer: Peer) -> None:
    peer.sender(0, "a", mode=SECOND)
    peer.send(0, 0, message())
    peer.say(Detach(0, closed=True))
    peer.hear(Detach)
    session = peer.connection._sessions[0]
    assert not session.unsettled_by_peer
    peer.say(Disposition(SENDER, 0, settled=True))
    assert not peer.connection.closing


def test_a_receiver_of_mode_second_is_told_that_its_delivery_is_settled(peer: Peer) -> None:
    peer.world.send("a", b"m")
    peer.receiver(0, "a", credit=1, mode=SECOND)
    assert peer.hear(Attach).rcv_settle_mode == SECOND
    ((transfer, _),) = peer.deliveries()
    peer.say(Disposition(RECEIVER, transfer.delivery_id, state=Accepted()))
    settled = peer.hear(Disposition)
    assert (settled.role, settled.settled, settled.state) == (SENDER, True, Accepted())
    assert not peer.world.entries("a")


def test_a_range_settles_the_deliveries_of_several_links(peer: Peer) -> None:
    for handle, address in enumerate(("a", "b")):
        for _ in range(3):
            peer.world.send(address, b"m")
        peer.receiver(handle, address, credit=10)
    assert len(peer.deliveries()) == 6
    peer.world.broker.budget.allow(2)
    data = frame(0, Disposition(RECEIVER, 1, 4, settled=True, state=Accepted()))
    peer.connection.receive(data, peer.world.now)
    assert peer.connection.has_more
    peer.settle()
    session = peer.connection._sessions[0]
    assert sorted(session.unsettled) == [0, 5]
    assert sorted(each for link in session.links.values() for each in link.unsettled) == [0, 5]
    assert [len(peer.world.entries(address)) for address in ("a", "b")] == [1, 1]
    peer.say(Disposition(RECEIVER, 0, 5, settled=True, state=Accepted()))
    assert not session.unsettled
    assert not peer.world.entries("a") + peer.world.entries("b")


def test_a_range_in_a_transaction_waits_for_it(peer: Peer) -> None:
    for _ in range(3):
        peer.world.send("a", b"m")
    peer.receiver(0, "a", credit=10)
    assert len(peer.deliveries()) == 3
    peer.hear(Attach)
    peer.say(
        Disposition(RECEIVER, 0, 2, settled=True, state=TransactionalState(b"none", Accepted()))
    )
    assert peer.hear(Detach).error.condition == UNKNOWN_ID
    assert len(peer.world.entries("a")) == 3


def test_an_echo_says_what_is_left_of_the_credit(peer: Peer) -> None:
    peer.world.send("a", b"m")
    peer.receiver(0, "a", credit=3)
    assert len(peer.deliveries()) == 1
    peer.flow(0, 3, drain=True)
    drained = peer.heard(Flow)[-1]
    assert (drained.delivery_count, drained.link_credit, drained.drain) == (3, 0, True)
    peer.flow(0, 2, count=3, echo=True)
    echoed = peer.heard(Flow)[-1]
    assert (echoed.delivery_count, echoed.link_credit) == (3, 2)


def test_a_link_continues_when_its_delivery_count_begins_again(peer: Peer) -> None:
    last = 0xFFFF_FFFF
    peer.receiver(0, "a", credit=1)
    link = peer.connection._sessions[0].links[0]
    consumer = peer.world.broker.state.consumers[link.consumer]
    link._count = consumer.handed = last
    peer.flow(0, 2, count=last)
    peer.sender(1, "a")
    for each in range(2):
        peer.send(1, each, message())
    assert len(peer.deliveries()) == 2
    peer.flow(0, 1, count=1)
    peer.send(1, 2, message())
    assert len(peer.deliveries()) == 1


def test_the_tag_of_a_delivery_begins_with_the_id_of_its_message(peer: Peer) -> None:
    first = peer.world.send("a", b"m")
    peer.receiver(0, "a", credit=2)
    ((transfer, _),) = peer.deliveries()
    assert len(transfer.delivery_tag) == 16
    assert transfer.delivery_tag[:8] == first.to_bytes(8, "big")
    peer.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=Released()))
    ((again, _),) = peer.deliveries()
    assert again.delivery_tag == transfer.delivery_tag


def test_an_echo_says_no_more_credit_than_its_field_can_hold(peer: Peer) -> None:
    peer.receiver(0, "a")
    peer.flow(0, 0xFFFF_FFFF, count=1, echo=True)
    assert peer.heard(Flow)[-1].link_credit == 0xFFFF_FFFF
