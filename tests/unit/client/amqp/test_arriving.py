"""Messages that arrive in frames, cut anywhere, short and long."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.client.amqp import arriving as module
from daybook.client.amqp.arriving import Arrived, Arriving
from daybook.client.amqp.failures import AmqpClientError
from daybook.engine.messages.amqp.content_codec import AMQP, stored
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    COMPOSITES,
    DATA,
    FOOTER,
    SEQUENCE,
    VALUE,
    Header,
    Properties,
)
from daybook.engine.messages.amqp.writer import encoded, map_of, of_type, section_of
from daybook.engine.messages.content import View
from tests.support.amqp.strategies import messages

LIMIT = 60


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long is what is longer than some bytes."""
    monkeypatch.setattr(module, "BODY_BYTES_IN_MEMORY", LIMIT)


def cuts(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, max(len(data), 1), size):
        yield data[at : at + size]


def arrive(data: bytes, size: int, now_ms: int = 0) -> Arrived:
    message = Arriving(3)
    for piece in cuts(data, size):
        message.take(piece)
    return message.whole("/queue/a", now_ms)


@given(messages(), st.integers(1, 500))
def test_any_message_cut_anywhere_has_the_body_that_the_codec_reads(data: bytes, size: int) -> None:
    headers, body = stored(data, places_of(data))
    found = arrive(data, size)
    assert found.body == View(AMQP, headers, body=body).plain_body
    assert found.headers["content-length"] == str(len(found.body))
    found.content.close()


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
@pytest.mark.parametrize("footer", [b"", section_of(FOOTER, map_of({}))])
@pytest.mark.parametrize("more", [(), (b"y",), (b"y" * 300, b"", b"z" * 9)])
def test_long_data_comes_in_pieces(size: int, footer: bytes, more: tuple[bytes, ...]) -> None:
    parts = (b"x" * 1000, *more)
    data = b"".join(section_of(DATA, of_type("binary", each)) for each in parts)
    properties = section_of(APPLICATION_PROPERTIES, map_of({"a": 1}))
    found = arrive(properties + data + footer, size)
    assert found.body == b"".join(parts)
    assert found.headers["a"] == "1"
    found.content.close()


def test_long_texts_are_bodies_and_other_long_values_are_read_whole() -> None:
    assert arrive(section_of(VALUE, encoded("é" * 300)), 50).body == ("é" * 300).encode()
    listed = arrive(section_of(SEQUENCE, encoded(["a"] * 40)), 50)
    assert listed.body.startswith(b'["a","a"')


def test_a_long_value_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VALUE_BYTES_MAX", 100)
    with pytest.raises(AmqpClientError, match="more than 100 bytes"):
        arrive(section_of(VALUE, encoded(["a"] * 400)), 50)


@pytest.mark.parametrize(
    "data", [b"no", b"\0\x53\x75\xb0\0\0\x10\0" + b"x" * 100, b"\0\x53\x73\xc0\x04\x02\x40"]
)
def test_a_message_that_is_malformed(data: bytes) -> None:
    with pytest.raises(AmqpClientError, match="malformed"):
        arrive(data, 30)


def test_headers_are_those_of_stomp() -> None:
    data = b"".join(
        (
            COMPOSITES.encoded(Header(durable=True, priority=7, ttl=5, delivery_count=2)),
            COMPOSITES.encoded(Properties(message_id="m", to="elsewhere", correlation_id=7)),
            section_of(APPLICATION_PROPERTIES, map_of({"n": 1.5, "priority": "mine"})),
            section_of(VALUE, encoded("t")),
        )
    )
    found = arrive(data, 1000, now_ms=1000)
    assert (found.delivery, found.attempt, found.is_redelivered) == (3, 3, True)
    assert found.headers == {
        "destination": "/queue/a", "content-length": "1", "priority": "7", "persistent": "true",
        "expires": "1005", "redelivered": "true", "delivery-count": "3", "sender-message-id": "m",
        "correlation-id": "7", "n": "1.5",
    }  # fmt: skip
    fresh = COMPOSITES.encoded(Header(first_acquirer=True)) + COMPOSITES.encoded(
        Properties(absolute_expiry_time=77)
    )
    first = arrive(fresh + section_of(DATA, b"\xa0\x00"), 9)
    assert (first.attempt, first.is_redelivered, first.headers["expires"]) == (1, False, "77")
