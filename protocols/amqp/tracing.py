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
from daybook.engine.messages.amqp.content_codec import AMQP, annotations_of
from daybook.engine.messages.amqp.malformed import Malformed
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
    if not isinstance(found, list) or not all(
        isinstance(each, str) and _STOP.fullmatch(each) for each in found
    ):
        raise Malformed(f"the annotation {TRACE.text} must be a list of DATAID/MESSAGE/PLACE")
    return tuple(found)


def why_refused(trace: Sequence[str], broker: str, mark: str) -> str:
    """Return why a message may not come to a place of a broker; "" if it may.

    It may come back, as from a queue of another broker, but to no place where it was.
    """
    if len(trace) >= HOPS_MAX:
        return f"the message has passed {len(trace)} brokers: at most {HOPS_MAX - 1} are allowed"
    before = [each for each in trace if each.startswith(broker)]
    places = [each[-_DIGITS:] for each in before]
    if mark not in places and len(set(places)) == len(places):
        return ""
    message = before[places.index(mark) if mark in places else -1].split("/")[1]
    return (
        f"loop: the message was here before, as message {message}, and has passed {len(trace)}"
        " brokers; do not send it back to where it came from"
    )


def is_sent_once(stop: str) -> bool:
    """Whether the same stop comes again only with the same message."""
    return stop[-_DIGITS - 1] == _STORED


def onward(message: DeliveredMessage, broker: str, mark: str) -> Annotations:
    """Return the annotation with which a message leaves a place of a broker. Raises Malformed."""
    is_amqp = message.flags & FORMAT == AMQP
    before = annotations_of(message.headers).get(TRACE, []) if is_amqp else []
    kind = _STORED if message.address_id else _DIRECT
    return {TRACE: [*before, f"{broker}/{message.id}/{kind}{mark}"]}
