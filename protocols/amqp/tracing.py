"""Where a message has been: the brokers that it passed, as an annotation of the message (ADR 111).

Each broker adds a stop when the message leaves by a traced link: an auto-link, or a link whose peer
asks for it. What peers say decides no right; it only makes the broker refuse a message, or drop one
that the same peer sends again. Must never know who receives a message.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from daybook.engine.facts.events import FORMAT
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.content_codec import AMQP, annotations_of, bare_at, has_footer
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.writer import encoded
from daybook.engine.messages.annotations import Annotations
from daybook.protocols.port import DeliveredMessage

TRACE: Final = Symbol("x-opt-daybook-trace")
"""The annotation: a list of stops, the first one first, each `DATAID/MESSAGE/PLACE`."""
TRACED: Final = "daybook-trace"
"""The capability of a link on which each message gets a stop: its sender offers it, its receiver
desires it."""
HOPS_MAX: Final = 16
"""How many brokers a message may pass."""
_STOP: Final = re.compile(r"[0-9a-f]{32}/[1-9][0-9]{0,18}/[qd][0-9a-f]{8}")
_STORED: Final = "q"
"""In front of a place: a queue keeps the message there until its outcome is known."""
_DIRECT: Final = "d"
_DIGITS: Final = 8


@lru_cache(maxsize=1024)
def mark_of(
    address: str, queue: str | None = None, phase: int = 0, *, is_fallback: bool = False
) -> str:
    """Return what names a place to its own broker alone: an address, or a queue that was named; the
    phase, and whether a link leads from there to a fallback."""
    text = f"{address}\n{queue}\n{phase}\n{is_fallback}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def trace_of(found: Any) -> tuple[str, ...]:
    """Return the stops that an annotation lists. Raises Malformed."""
    stops = found if isinstance(found, list) else [None]
    for each in stops:
        if not isinstance(each, str) or _STOP.fullmatch(each) is None:
            raise Malformed(f"the annotation {TRACE.text} must be a list of DATAID/MESSAGE/PLACE")
    return tuple(stops)


def written_at(data: bytes, at: int) -> tuple[tuple[str, ...], int]:
    """Return the stops that the section at a place lists, and where it ends, if it has nothing else
    and is written as `section_with` does; otherwise none. Raises Malformed."""
    head = data[at : at + _SECTION_BYTES]
    if not _is_section(head):
        return (), at
    place, end = at + _SECTION_BYTES, at + _MAP_AT + 1 + head[_MAP_AT]
    if end > len(data):
        return (), at
    stops: list[str] = []
    while place < end and data[place] == _TEXT:
        after = place + 2 + data[place + 1]
        if after > end:
            break
        stops.append(data[place + 2 : after].decode("latin-1"))
        place = after
    if place != end or len(stops) != head[_COUNT_AT]:
        return (), at
    return trace_of(stops), end


def section_with(headers: bytes, at: int, end: int, stop: str) -> bytes:
    """Return the section with one more stop than the one at a place has, if there is one; b"" if
    that has something else, or if it gets too long: then the table writes it."""
    known, count = b"", 0
    if at < end:
        head = headers[at : at + _SECTION_BYTES]
        if not _is_section(head) or at + _MAP_AT + 1 + head[_MAP_AT] != end:
            return b""
        known, count = headers[at + _SECTION_BYTES : end], head[_COUNT_AT]
    last = stop.encode()
    size = len(known) + 2 + len(last)
    if size > _ITEMS_MAX:
        return b""
    return b"".join(
        (
            _BEGINNING, bytes((size + _KEY_BYTES + 4, 2)), _KEY,
            bytes((0xC0, size + 1, count + 1)), known, bytes((_TEXT, len(last))), last,
        )
    )  # fmt: skip


def _is_section(head: bytes) -> bool:
    """Whether a section begins so that has only a list of stops: its size tells where it ends, that
    of the list has to tell the same."""
    return (
        len(head) == _SECTION_BYTES
        and head.startswith(_BEGINNING)
        and head.startswith(_KEY, _KEY_AT)
        and head[_MAP_AT + 1] == 2
        and head[_LIST_AT] == _LIST
        and head[_MAP_AT] - head[_LIST_AT + 1] == _LIST_AT + 1 - _MAP_AT
    )


# A section with a trace alone, as brokers write it: constructors, sizes and counts of one byte.
_BEGINNING: Final = b"\0\x53\x72\xc1"
_KEY: Final = encoded(TRACE)
_KEY_BYTES: Final = len(_KEY)
_LIST: Final = 0xC0
_TEXT: Final = 0xA1
_MAP_AT: Final = len(_BEGINNING)
_KEY_AT: Final = _MAP_AT + 2
_LIST_AT: Final = _KEY_AT + _KEY_BYTES
_COUNT_AT: Final = _LIST_AT + 2
_SECTION_BYTES: Final = _COUNT_AT + 1
"""Where the size of the map is, its key, the list, and how many stops that has; they follow."""
_ITEMS_MAX: Final = 254 - _KEY_BYTES - 4
"""How long all stops may be."""


def why_refused(trace: Sequence[str], broker: str, mark: str) -> str:
    """Return why a message may not come to a place of a broker; "" if it may.

    It may come back, as from a queue of another broker, but to no place where it was.
    """
    if len(trace) >= HOPS_MAX:
        return f"the message has passed {len(trace)} brokers: at most {HOPS_MAX - 1} are allowed"
    places: list[str] = []
    for each in trace:
        if each.startswith(broker):
            place = each[-_DIGITS:]
            if place == mark or place in places:
                return _loop_of(trace, broker, mark)
            places.append(place)
    return ""


def _loop_of(trace: Sequence[str], broker: str, mark: str) -> str:
    """Return the words for a message that has come round."""
    before = [each for each in trace if each.startswith(broker)]
    here = [each for each in before if each.endswith(mark)]
    message = (here or before[-1:])[0].split("/")[1]
    return (
        f"loop: the message was here before, as message {message}, and has passed {len(trace)}"
        " brokers; do not send it back to where it came from"
    )


def is_sent_once(stop: str) -> bool:
    """Whether the same stop comes again only with the same message."""
    return stop[-_DIGITS - 1] == _STORED


def stop_of(message: DeliveredMessage, broker: str, mark: str) -> str:
    """Return the stop with which a message leaves a place of a broker."""
    return f"{broker}/{message.id}/{_STORED if message.address_id else _DIRECT}{mark}"


def onward(message: DeliveredMessage, stop: str) -> Annotations:
    """Return the annotation with which a message leaves. Raises Malformed."""
    is_amqp = message.flags & FORMAT == AMQP
    before = annotations_of(message.headers).get(TRACE, []) if is_amqp else []
    return {TRACE: [*before, stop]}


def with_stop(message: DeliveredMessage, front: bytes, stop: str) -> list[bytes]:
    """Return the parts of a message as it leaves, behind its header section; none if it has other
    annotations, or anything else that few messages have: then `onward` tells. Raises Malformed."""
    headers = message.headers
    if message.flags & FORMAT != AMQP or message.annotations or has_footer(headers):
        return []
    at, bare = bare_at(headers)
    section = section_with(headers, at, bare, stop)
    return [front, section, headers[bare:], message.body] if section else []
