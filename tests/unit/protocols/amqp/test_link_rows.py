"""What administrators see of the links of a connection."""

from daybook.protocols.amqp.sessions import LINK_BYTES
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import Attach, Detach, Flow, Transfer
from daybook.protocols.amqp.wire.termini import Coordinator, Source, Target
from daybook.protocols.port import COORDINATES, RECEIVES, SENDS, LinkCounts
from tests.support.amqp.peer import Peer, message
from tests.support.world import World


def test_links_of_all_sessions_are_there_with_what_they_hold() -> None:
    peer = Peer(World(), credit=20).open()
    peer.begin(1)
    connection = peer.connection
    assert connection.link_counts == LinkCounts(2, 0, 0)
    peer.sender(0, "q")
    peer.sender(1, None, name="anywhere")
    peer.receiver(2, "q", 5)
    peer.send(0, 0, message(b"one"), settled=True)
    peer.send(0, 1, message(b"two"), settled=True)
    assert connection.link_counts == LinkCounts(2, 2, 1)
    first, anonymous, receiver = connection.link_rows(0, 10)
    assert (first.name, first.role, first.session, first.address) == ("s0", SENDS, 1, "q")
    assert (first.total, first.in_flight, first.waits, first.consumer) == (2, 0, False, 0)
    assert first.credit > 0
    assert first.memory_bytes == LINK_BYTES + 2
    assert (anonymous.name, anonymous.address) == ("anywhere", None)
    assert (receiver.name, receiver.role, receiver.waits) == ("r2", RECEIVES, False)
    assert receiver.consumer in peer.world.broker.state.consumers
    assert connection.link_rows(1, 1) == [anonymous]
    peer.say(Detach(0, True))
    assert connection.link_counts == LinkCounts(2, 1, 1)
    peer.say(Detach(2, True))
    assert connection.link_counts == LinkCounts(2, 1, 0)


def test_sessions_are_there_with_their_windows() -> None:
    peer = Peer(World(), credit=20).open()
    peer.begin(1, window=7)
    peer.sender(0, "q")
    peer.receiver(2, "q", 5)
    peer.send(0, 0, message(b"one"), settled=True)
    first, second = peer.connection.session_rows(0, 10)
    assert (first.number, first.links, first.unsettled) == (1, 2, 1)
    assert (second.links, second.outgoing_window, second.waiting_bytes) == (0, 7, 0)
    assert second.incoming_window == first.incoming_window + 1
    assert peer.connection.session_rows(1, 5) == [second]


def test_a_message_that_arrives_is_in_flight_and_takes_memory() -> None:
    peer = Peer(World()).open()
    peer.sender(0, "q")
    peer.say(Transfer(0, 0, b"t", 0, more=True), message(b"x" * 1000)[:500])
    (row,) = peer.connection.link_rows(0, 1)
    assert (row.in_flight, row.total) == (1, 1)
    assert row.memory_bytes == LINK_BYTES + 2 + 500


def test_a_receiver_waits_for_the_window_of_its_peer() -> None:
    peer = Peer(World()).open()
    peer.begin(1, window=0)
    peer.sender(0, "q")
    peer.say(Attach("r", 0, RECEIVER, source=Source("q"), target=Target()), channel=1)
    peer.say(
        Flow(
            next_incoming_id=0, incoming_window=0, next_outgoing_id=0, outgoing_window=9, handle=0,
            delivery_count=0, link_credit=5,
        ),
        channel=1,
    )  # fmt: skip
    assert not peer.connection.link_rows(1, 1)[0].waits
    peer.send(0, 0, message(b"one"), settled=True)
    (row,) = peer.connection.link_rows(1, 1)
    assert (row.session, row.waits) == (2, True)


def test_a_coordinator_is_called_so() -> None:
    peer = Peer(World()).open()
    peer.say(
        Attach("tx", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    (row,) = peer.connection.link_rows(0, 1)
    assert (row.role, row.address) == (COORDINATES, None)
    assert peer.connection.link_counts == LinkCounts(1, 1, 0)
