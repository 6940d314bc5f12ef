"""The properties of a copy that say where the original was: dead letters, expired and moved
messages, and what diverts copy. They describe the last step only.

Must never know why a message is copied.
"""

from typing import Final

from daybook.engine.definitions import ANYCAST, MULTICAST
from daybook.engine.formats import Codec, Value
from daybook.engine.names import plain

ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
QUEUE: Final = "_AMQ_ORIG_QUEUE"
MESSAGE_ID: Final = "_AMQ_ORIG_MESSAGE_ID"
ROUTING_TYPE: Final = "_AMQ_ORIG_ROUTING_TYPE"
ACTUAL_EXPIRY: Final = "_AMQ_ACTUAL_EXPIRY"

OF_EVERY_COPY: Final = (ADDRESS, QUEUE, MESSAGE_ID, ROUTING_TYPE)
ORIGIN_PROPERTIES: Final = (*OF_EVERY_COPY, ACTUAL_EXPIRY)
"""Properties of an original that would be wrong in a copy."""

_NUMBERS: Final = {ANYCAST: 0, MULTICAST: 1}
_TYPES: Final[dict[Value, str]] = {
    written: name for name, number in _NUMBERS.items() for written in (number, str(number))
}


def origin(
    address: str, queue: str, *, message: int = 0, routing_type: str | None = None
) -> dict[str, Value]:
    """Return the properties; without the id of an original that never was a message, and without a
    routing type that nobody gave it."""
    found: dict[str, Value] = {ADDRESS: plain(address), QUEUE: plain(queue)}
    if message:
        found[MESSAGE_ID] = message
    if routing_type is not None:
        found[ROUTING_TYPE] = _NUMBERS[routing_type]
    return found


def address_in(codec: Codec, headers: bytes) -> str:
    """Return the address that the original was sent to, empty if the headers do not say it."""
    return str(codec.first(headers, ADDRESS) or "")


def queue_in(codec: Codec, headers: bytes) -> str:
    """Return the queue that the original was in, empty if it was in none."""
    return str(codec.first(headers, QUEUE) or "")


def routing_type_in(codec: Codec, headers: bytes) -> str | None:
    """Return the routing type of the original, None if the headers do not say it."""
    said = codec.first(headers, ROUTING_TYPE)
    return _TYPES.get(said) if said is not None else None
