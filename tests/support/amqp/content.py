"""Messages of AMQP 1.0 as a broker stores them."""

from collections.abc import Iterable

from daybook.engine.facts.values import Symbol, Timestamp
from daybook.engine.messages.amqp.content_codec import AMQP, stored
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    COMPOSITES,
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Properties,
)
from daybook.engine.messages.amqp.writer import encoded, section_of

FORMAT = AMQP


def headers_for(body: bytes, properties: Iterable[tuple[str, str]], group: str = "") -> bytes:
    """Return the headers of a message with data as its body: the properties beside typed ones, an
    annotation, an expiry that a copy must not have, and a footer."""
    named = {**dict(properties), "number": 7, "flag": True}
    standard = Properties(group_id=group or None, absolute_expiry_time=1)
    data = b"".join(
        (
            section_of(MESSAGE_ANNOTATIONS, encoded({Symbol("x-opt-at"): Timestamp(5)})),
            COMPOSITES.encoded(standard),
            section_of(APPLICATION_PROPERTIES, encoded(named)),
            section_of(DATA, encoded(body)),
            section_of(FOOTER, encoded({Symbol("x-opt-end"): 1})),
        )
    )
    headers, found = stored(data, places_of(data))
    assert found == body
    return headers
