"""The wishes of links: consumer priority, lifetimes of dynamic nodes, addresses of other
protocols."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.places import places_of, properties_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import MESSAGE_ANNOTATIONS, PROPERTIES
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from daybook.protocols.amqp.wire.errors import (
    DECODE_ERROR,
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    RESOURCE_DELETED,
    UNAUTHORIZED_ACCESS,
)
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Close,
    Detach,
    Disposition,
    Flow,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Accepted, Coordinator, Source, Target
from tests.support.amqp.peer import Peer, message
from tests.support.world import World


@pytest.fixture
def peer() -> Peer:
    return Peer(World()).open()


def test_consumers_of_a_higher_priority_come_first(peer: Peer) -> None:
    peer.receiver(0, "a", credit=5)
    peer.receiver(1, "a", credit=1, of_link={"priority": 7})
    peer.sender(2, "a")
    for each in range(2):
        peer.send(2, each, message())
    assert [transfer.handle for transfer, _ in peer.deliveries()] == [1, 0]


@pytest.mark.parametrize("priority", ["high", True, 1 << 40])
def test_a_priority_is_a_number(peer: Peer, priority: Any) -> None:
    peer.receiver(0, "a", of_link={"priority": priority})
    assert peer.hear(Detach).error.condition == INVALID_FIELD


@pytest.mark.parametrize(
    ("asked", "given"), [(0x2B, 0x2B), (0x2C, 0x2C), (0x2D, 0x2D), (0x2E, 0x2E), (0x26, 0x2B)]
)
def test_a_dynamic_node_says_how_long_it_lives(peer: Peer, asked: int, given: int) -> None:
    properties = {"lifetime-policy": Described(asked, []), "supported-dist-modes": "move"}
    peer.receiver(0, None, dynamic=True, dynamic_node_properties=properties)
    made = peer.hear(Attach).source
    assert made.dynamic_node_properties == {
        **properties, "lifetime-policy": Described(given, []),
    }  # fmt: skip


@pytest.mark.parametrize("policy", [0x2B, 0x2C, 0x2D, 0x2E])
def test_a_dynamic_node_lives_as_long_as_it_says(peer: Peer, policy: int) -> None:
    properties = {"lifetime-policy": Described(policy, [])}
    peer.sender(0, None, dynamic=True, dynamic_node_properties=properties)
    node = peer.hear(Attach).target.address
    other = Peer(peer.world).open("other")
    other.sender(0, node)
    other.send(0, 0, message(b"answer", durable=True))
    peer.say(Detach(0, True))
    addresses = peer.world.state.address_by_name
    assert (node in addresses) is (policy != 0x2B)
    if policy == 0x2B:
        return
    peer.receiver(1, node, credit=1)
    ((transfer, _),) = peer.deliveries()
    peer.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=Accepted()))
    other.say(Detach(0, True))
    peer.world.ok(c.DeleteUnused())
    peer.settle()
    if policy == 0x2D:
        # It has no message, and a link does not keep it.
        assert node not in addresses
        assert peer.heard(Detach)[-1].error.condition == RESOURCE_DELETED
        return
    assert node in addresses
    peer.say(Detach(1, True))
    assert node not in addresses
    peer.world.check()


def test_messages_are_not_acquired_in_transactions(peer: Peer) -> None:
    peer.world.send("a", b"m")
    peer.receiver(0, "a")
    peer.receiver(1, "a")
    peer.flow(0, 1, properties={"txn-id": b"1"})
    detached = peer.hear(Detach)
    assert (detached.handle, detached.closed) == (0, True)
    assert detached.error.condition == NOT_IMPLEMENTED
    assert peer.deliveries() == []
    # The other link of the session is not affected.
    peer.flow(1, 1)
    assert len(peer.deliveries()) == 1


def test_a_coordinator_says_what_it_can_do(peer: Peer) -> None:
    wished = Coordinator(("amqp:distributed-transactions", "amqp:local-transactions"))
    peer.say(Attach("tx", 0, SENDER, source=Source(), target=wished, initial_delivery_count=0))
    can = set(peer.hear(Attach).target.capabilities)
    multi = {"amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"}
    assert can == {"amqp:local-transactions", *multi}


def test_addresses_of_stomp_are_those_of_amqp(peer: Peer) -> None:
    headers = {"destination": "/queue/a", "reply-to": "/topic/answers"}
    peer.world.send("a", b"m", headers=headers)
    peer.receiver(0, "a", credit=1)
    ((_, data),) = peer.deliveries()
    places = {each.code: each for each in places_of(data)}
    standard = properties_of(data, places[PROPERTIES])
    assert (standard.to, standard.reply_to) == ("a", "answers")
    place = places[MESSAGE_ANNOTATIONS]
    noted = Reader(data, place.value, place.end).value()
    kinds = {key.text: value for key, value in noted.items()}
    assert kinds == {"x-opt-jms-msg-type": 5, "x-opt-jms-dest": 0, "x-opt-jms-reply-to": 1}
    # A reply to the address as STOMP spells it arrives there, too.
    peer.sender(1, "/queue/a")
    peer.send(1, 0, message(b"answer"))
    assert len(peer.world.entries("a")) == 2


def test_attach_and_detach_in_one_write_are_both_answered(peer: Peer) -> None:
    asked = Attach("n", 3, RECEIVER, source=Source("a"), target=Target())
    peer.feed(frame(0, asked) + frame(0, Detach(3, closed=True)))
    assert peer.hear(Attach).source.address == "a"
    detached = peer.hear(Detach)
    assert (detached.handle, detached.closed, detached.error) == (3, True, None)


def test_a_sender_that_may_not_send_is_refused(peer: Peer) -> None:
    anyone = {name: ("*",) for name in PERMISSIONS}
    rules = {"#": anyone, "locked": {}, "new": {"send": ("*",)}}
    peer.world.broker.permit(Permissions(rules))
    for handle, address in enumerate(("locked", "locked::q", "queue://locked", "new")):
        peer.sender(handle, address)
        answer, end = peer.hear(Attach), peer.hear(Detach)
        assert (answer.handle, answer.role, answer.target) == (handle, RECEIVER, None)
        assert (end.handle, end.closed, end.error.condition) == (handle, True, UNAUTHORIZED_ACCESS)
        assert peer.heard(Flow) == []
        peer.say(Detach(handle, closed=True))
    denied = [(each.permission, each.address) for each in peer.world.broker.rights.denials]
    assert denied == [("send", "locked")] * 3 + [("create-durable-queue", "new")]
    # Nothing else is refused so early: it may be otherwise when a message comes.
    peer.world.ok(c.SetSettings("closed", {"auto-create-queues": False}))
    for handle, open_address in enumerate(("a", "closed", "bad.*", None)):
        peer.sender(handle, open_address)
        assert peer.hear(Attach).target.address == open_address
    assert peer.heard(Detach) == []


def test_an_anonymous_sender_is_refused_by_message(peer: Peer) -> None:
    peer.world.broker.permit(Permissions({"locked": {}}))
    peer.sender(0, None)
    peer.send(0, 0, message(to="locked"))
    assert peer.hear(Disposition).state.error.condition == UNAUTHORIZED_ACCESS


def test_a_tag_of_33_bytes_closes_the_connection(peer: Peer) -> None:
    peer.sender(0, "a")
    data = frame(0, Transfer(0, 0, b"t" * 32, 0), message())
    at = data.index(b"\xa0\x20" + b"t" * 32)
    size = int.from_bytes(data[:4]) + 1
    longer = size.to_bytes(4, "big") + data[4:at] + b"\xa0\x21" + b"t" * 33 + data[at + 34 :]
    head = longer.index(b"\xc0")
    longer = longer[: head + 1] + bytes((longer[head + 1] + 1,)) + longer[head + 2 :]
    peer.feed(longer)
    assert peer.hear(Close).error.condition == DECODE_ERROR


def test_messages_that_are_not_whole_are_input_of_their_connection(peer: Peer) -> None:
    without = peer.connection.buffered_bytes
    links = 0
    for handle in range(6):
        peer.sender(handle, "a")
        links = peer.connection.buffered_bytes - without - handle * 1000
        peer.send(handle, handle, bytes(1000), more=True)
    assert peer.connection.input_bytes == 6000
    assert peer.connection.buffered_bytes == without + links + 6000
    assert peer.heard(Detach) == []
    for handle in range(6):
        peer.say(Transfer(handle, aborted=True))
    assert peer.connection.input_bytes == 0


def test_a_delivery_ends_before_the_next_one_begins(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.send(0, 0, message(), more=True)
    peer.send(0, 1, message())
    assert peer.hear(Detach).error.condition == NOT_ALLOWED
