"""Annotations of a message that only the broker sets, over AMQP."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.facts.own_headers import ANNOTATIONS, OWN_HEADERS, VALIDATED_USER
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Properties,
)
from daybook.engine.messages.amqp.sections import COMPOSITES as SECTIONS
from daybook.engine.messages.amqp.writer import encoded, section_of
from daybook.engine.messages.content import view_of
from daybook.protocols.amqp import incoming
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import Disposition
from daybook.protocols.amqp.wire.termini import Modified, Rejected
from tests.support.amqp.peer import Peer, message
from tests.support.world import World


@pytest.fixture
def peer() -> Peer:
    world = World()
    world.ok(c.CreateQueue("dead", QueueDefinition(name="dead")))
    world.settings(a={"dead_letter_address": "dead"})
    return Peer(world).open()


def annotations_of(data: bytes) -> dict[Any, Any]:
    """Return the message annotations of a message, by the text of their keys."""
    found: dict[Any, Any] = next(
        (
            Reader(data, each.value, each.end).value()
            for each in places_of(data)
            if each.code == MESSAGE_ANNOTATIONS
        ),
        {},
    )
    return {key.text: value for key, value in found.items()}


def bare_of(data: bytes) -> bytes:
    """Return the bare message."""
    return data[next(each.at for each in places_of(data) if each.code >= PROPERTIES) :]


def test_a_dead_letter_has_annotations_and_the_bare_message_of_its_original(peer: Peer) -> None:
    bare = SECTIONS.encoded(Properties(message_id=7, to="a")) + section_of(DATA, encoded(b"x"))
    noted = section_of(MESSAGE_ANNOTATIONS, encoded({Symbol("x-opt-mine"): 1}))
    peer.sender(0, "a")
    peer.send(0, 0, noted + bare)
    peer.receiver(1, "a", credit=1)
    ((transfer, _),) = peer.deliveries()
    original = int.from_bytes((transfer.delivery_tag or b"")[:8])
    peer.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=Rejected()))
    peer.receiver(2, "dead", credit=1)
    ((_, dead),) = peer.deliveries()
    assert bare_of(dead) == bare
    found = annotations_of(dead)
    assert found["x-opt-mine"] == 1
    assert found["x-opt-ORIG-ADDRESS"] == "a"
    assert found["x-opt-ORIG-QUEUE"] == "a"
    assert found["x-opt-ORIG-MESSAGE-ID"] == original
    assert found["x-opt-DAYBOOK-DEATH-REASON"] == "rejected"


def test_a_filter_reads_them_as_properties(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x"))
    peer.receiver(1, "a", credit=1)
    ((transfer, _),) = peer.deliveries()
    peer.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=Rejected()))
    (entry,) = peer.world.entries("dead")
    assert view_of(entry.message).get("_AMQ_ORIG_ADDRESS") == "a"
    assert view_of(entry.message).properties["_AMQ_ORIG_ADDRESS"] == "a"


def test_a_client_cannot_forge_them(peer: Peer) -> None:
    forged = {Symbol(each): "forged" for each in ANNOTATIONS.values()}
    noted = section_of(MESSAGE_ANNOTATIONS, encoded({**forged, Symbol("x-opt-mine"): 1}))
    peer.sender(0, "a")
    names = [*OWN_HEADERS, " _AMQ_VALIDATED_USER", "_AMQ_ORIG_QUEUE\t", "\ufeffJMSXUserID"]
    named = section_of(APPLICATION_PROPERTIES, encoded(dict.fromkeys(names, "forged")))
    peer.send(0, 0, noted + named + section_of(DATA, encoded(b"x")))
    (entry,) = peer.world.entries("a")
    assert not view_of(entry.message).properties
    peer.receiver(1, "a", credit=1)
    ((transfer, data),) = peer.deliveries()
    assert annotations_of(data) == {"x-opt-mine": 1}
    state = Modified(
        delivery_failed=True, message_annotations=dict.fromkeys(ANNOTATIONS.values(), 1)
    )
    peer.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=state))
    peer.flow(1, 1, count=1)
    ((_, again),) = peer.deliveries()
    assert annotations_of(again) == {"x-opt-mine": 1}


def test_a_client_cannot_forge_an_annotation_alone(peer: Peer) -> None:
    forged = {Symbol(each): "forged" for each in ANNOTATIONS.values()}
    noted = section_of(MESSAGE_ANNOTATIONS, encoded({**forged, Symbol("x-opt-mine"): 1}))
    peer.sender(0, "a")
    peer.send(0, 0, noted + section_of(DATA, encoded(b"x")))
    peer.receiver(1, "a", credit=1)
    ((_, data),) = peer.deliveries()
    assert annotations_of(data) == {"x-opt-mine": 1}


def test_all_of_them_have_a_mark_that_is_looked_for() -> None:
    marks = incoming._OWN_MARKS
    for name in (*OWN_HEADERS, *ANNOTATIONS.values()):
        assert any(mark in name.encode() for mark in marks)


def test_messages_carry_the_login_of_their_sender_if_that_is_wanted() -> None:
    peer = Peer(World(), populate_validated_user=True).open()
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x"))
    (entry,) = peer.world.entries("a")
    assert view_of(entry.message).get(VALIDATED_USER) == "guest"
    peer.receiver(1, "a", credit=1)
    ((_, data),) = peer.deliveries()
    assert annotations_of(data) == {"x-opt-VALIDATED-USER": "guest"}


def test_a_dead_letter_of_stomp_has_them_too(peer: Peer) -> None:
    peer.world.send("a", b"x", headers={"mine": "kept"})
    peer.receiver(1, "a", credit=1)
    ((transfer, _),) = peer.deliveries()
    peer.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=Rejected()))
    peer.receiver(2, "dead", credit=1)
    ((_, dead),) = peer.deliveries()
    assert annotations_of(dead)["x-opt-ORIG-ADDRESS"] == "a"
    named = next(each for each in places_of(dead) if each.code == APPLICATION_PROPERTIES)
    assert Reader(dead, named.value, named.end).value() == {"mine": "kept"}
