"""Where a message was before it was this one: dead letters, expired and moved messages, and copies
that diverts make (ADR 71).

The origin is a fact of the journal: part of the Routed of a copy, and of the Carried that replaces
it. Headers show it to clients and decide nothing. It describes the last step only. Must never know
why a message is copied.
"""

from typing import Final

from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.details import CarriedDetail, Death, Origin, RoutedDetail
from daybook.engine.facts.events import FLAGS, KIND, REASON, Row
from daybook.engine.facts.formats import Codec
from daybook.engine.facts.own_headers import (
    ACTUAL_EXPIRY,
    DEATH_HEADERS,
    DEATHS,
    ORIGINAL_ADDRESS,
    ORIGINAL_MESSAGE_ID,
    ORIGINAL_QUEUE,
    ORIGINAL_ROUTING_TYPE,
)
from daybook.engine.facts.values import Value
from daybook.engine.messages.content import codec_of, is_known
from daybook.engine.names.names import plain, unnumbered

OF_EVERY_COPY: Final = (
    ORIGINAL_ADDRESS, ORIGINAL_QUEUE, ORIGINAL_MESSAGE_ID, ORIGINAL_ROUTING_TYPE,
)  # fmt: skip
ORIGIN_PROPERTIES: Final = (*OF_EVERY_COPY, ACTUAL_EXPIRY, *DEATH_HEADERS)
"""Properties of an original that would be wrong in a copy."""

_WRITTEN_BY_BROKER: Final = frozenset(
    (reasons.DEAD_LETTER, reasons.EXPIRY, reasons.NO_ROUTE, reasons.DIVERT)
)
"""Reasons of a Routed for which every version wrote these headers itself, instead of those of the
original. Of messages that administrators touched only some had them from the broker."""

_ID_DIGITS_MAX: Final = 19
_NUMBERS: Final = {ANYCAST: 0, MULTICAST: 1}
_TYPES: Final[dict[Value, str]] = {
    written: name for name, number in _NUMBERS.items() for written in (number, str(number))
}


def origin(
    reason: int,
    address: str,
    queue: str,
    *,
    message: int = 0,
    routing_type: str | None = None,
    deaths: tuple[Death, ...] = (),
) -> Origin:
    """Return an origin: full names, the id of the original (0 if it never was a message), the
    routing type if somebody gave it one, and the deaths so far."""
    return Origin(
        reason=reason, message=message, address=plain(address), queue=plain(queue),
        routing_type=routing_type or "", deaths=deaths,
    )  # fmt: skip


def shown(origin: Origin) -> dict[str, Value]:
    """Return the properties that show an origin."""
    found: dict[str, Value] = {
        ORIGINAL_ADDRESS: origin.address,
        ORIGINAL_QUEUE: unnumbered(origin.queue),
    }
    if origin.message:
        found[ORIGINAL_MESSAGE_ID] = origin.message
    if origin.routing_type:
        found[ORIGINAL_ROUTING_TYPE] = _NUMBERS[origin.routing_type]
    return found


def journaled(
    row: Row, detail: RoutedDetail | CarriedDetail | None, headers: bytes
) -> Origin | None:
    """Return the origin of a message by the event that contains it, a Routed or a Carried.

    Routed events of earlier versions have it in headers alone. They are believed where the broker
    wrote them, whatever the client had sent.
    """
    if detail is not None and detail.origin is not None:
        return detail.origin
    flags = row[FLAGS]
    if row[KIND] != events.ROUTED or row[REASON] not in _WRITTEN_BY_BROKER or not is_known(flags):
        return None
    return _said(codec_of(flags), row[REASON], headers)


def says_origin(codec: Codec, headers: bytes) -> bool:
    """Whether headers say where a message was, or how it died, true or not. Those of a message with
    an origin do."""
    names = (ORIGINAL_ADDRESS, DEATHS)
    return any(codec.first(headers, name) is not None for name in names)


def _said(codec: Codec, reason: int, headers: bytes) -> Origin | None:
    """Return the origin that headers say, None if they say none."""
    address = codec.first(headers, ORIGINAL_ADDRESS)
    if not address:
        return None
    message = str(codec.first(headers, ORIGINAL_MESSAGE_ID) or "")
    written = codec.first(headers, ORIGINAL_ROUTING_TYPE)
    return Origin(
        reason=reason,
        message=int(message) if _is_id(message) else 0,
        address=plain(str(address)),
        queue=plain(str(codec.first(headers, ORIGINAL_QUEUE) or "")),
        routing_type=_TYPES.get(written, "") if written is not None else "",
    )


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS_MAX
