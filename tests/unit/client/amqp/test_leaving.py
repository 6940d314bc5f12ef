"""What headers of the command line become in AMQP 1.0."""

import pytest

from daybook.client.amqp.failures import AmqpClientError
from daybook.client.amqp.leaving import leaving_of, place_of
from daybook.client.bodies import BODY_BYTES_IN_MEMORY, Content
from daybook.engine.facts.values import Symbol, Timestamp
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import COMPOSITES, Header, Properties


def sections(content: Content) -> dict[int, object]:
    """Read the sections of a message: structs where they are lists of the specification."""
    data = b"".join(content.pieces())
    assert len(data) == content.size
    read: dict[int, object] = {}
    for each in places_of(data):
        is_struct = each.code in (0x70, 0x73)
        reader = Reader(data, each.at if is_struct else each.value, each.end, items=each.end)
        read[each.code] = COMPOSITES.read(reader) if is_struct else reader.value()
    return read


def text(body: str) -> Content:
    data = body.encode()
    return Content(len(data), lambda: iter([data]))


def test_all_that_a_header_can_say() -> None:
    headers = {
        "priority": "7", "ttl": "9", "expires": "123", "persistent": "false", "a": "b",
        "AMQ_SCHEDULED_DELAY": "5", "AMQ_SCHEDULED_TIME": "6", "reply-to": "/queue/back",
        "correlation-id": "c", "content-type": "text/plain", "JMSXGroupID": "g",
        "_AMQ_DUPL_ID": "d",
    }  # fmt: skip
    message = leaving_of("/queue/orders", headers.items())
    assert (message.place.address, message.place.capabilities) == ("orders", ("queue",))
    assert sections(message.encoded(text("é"))) == {
        0x70: Header(durable=False, priority=7, ttl=9),
        0x72: {
            Symbol("x-opt-jms-msg-type"): 5, Symbol("x-opt-delivery-delay"): 5,
            Symbol("x-opt-delivery-time"): Timestamp(6),
        },
        0x73: Properties(
            to="orders", reply_to="back", correlation_id="c", content_type="text/plain",
            absolute_expiry_time=123, group_id="g",
        ),
        0x74: {"a": "b", "_AMQ_DUPL_ID": "d"},
        0x77: "é",
    }  # fmt: skip


def test_bodies_are_texts_if_they_can_be_and_data_if_they_are_long() -> None:
    plain = leaving_of("a", [])
    assert sections(plain.encoded(text("x")))[0x70] == Header(durable=True)
    assert sections(plain.encoded(text("x")))[0x77] == "x"
    assert sections(plain.encoded(text("\0")))[0x75] == b"\0"
    assert sections(leaving_of("a", [("content-type", "image/png")]).encoded(text("x")))[0x75]
    long = "x" * (BODY_BYTES_IN_MEMORY + 1)
    assert sections(plain.encoded(text(long)))[0x75] == long.encode()
    with pytest.raises(AmqpClientError, match="4 GiB"):
        plain.encoded(Content(1 << 32, lambda: iter([])))


@pytest.mark.parametrize(
    ("destination", "address", "capabilities"),
    [
        ("/queue/a", "a", ("queue",)), ("/topic/a.b", "a.b", ("topic",)), ("a", "a", ()),
        ("a::b", "a::b", ()), ("/other/a", "/other/a", ()),
        ("queue://a", "a", ("queue",)), ("topic://a", "a", ("topic",)),
    ],
)  # fmt: skip
def test_destinations(destination: str, address: str, capabilities: tuple[str, ...]) -> None:
    assert place_of(destination)[1:] == (address, capabilities)


@pytest.mark.parametrize(
    ("destination", "header", "words"),
    [
        ("/temp-queue/a", None, "no such destinations"),
        ("/dsub/a", None, "no such destinations"),
        ("a", ("retain", "set"), "retain is one of STOMP alone"),
        ("a", ("receipt", "1"), "receipt is one of STOMP alone"),
        ("a", ("priority", "high"), "priority must be a whole number"),
        ("a", ("ttl", "-1"), "ttl must be a whole number"),
        ("a", ("destination-type", "both"), "ANYCAST or MULTICAST"),
        ("a", ("reply-to", "/temp-queue/x"), "no such destinations"),
    ],
)
def test_what_cannot_be_said(destination: str, header: tuple[str, str] | None, words: str) -> None:
    with pytest.raises(AmqpClientError, match=words):
        leaving_of(destination, [header] if header else [])


def test_a_routing_type_is_a_capability() -> None:
    assert leaving_of("a", [("destination-type", "multicast")]).place.capabilities == ("topic",)
