"""Reading an arriving message: its sections become a `Send`.

Its bytes stay as they came. Must never know a link.
"""

from typing import Any, Final

from daybook.engine.commands import Send
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.values import Symbol, Timestamp
from daybook.engine.messages.amqp.content_codec import (
    AMQP,
    PREFIX,
    Beginning,
    beginning_of,
    begun,
    is_bare,
    stored,
)
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import Place as SectionPlace
from daybook.engine.messages.amqp.places import header_of, places_of, properties_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Properties,
)
from daybook.engine.messages.message import DEFAULT_PRIORITY
from daybook.protocols.amqp.addressing import Place
from daybook.protocols.amqp.tracing import TRACE, trace_of, written_at

_US_PER_MS: Final = 1000
_PRIORITY_MAX: Final = 9
_DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
_DUPLICATE_BYTES: Final = _DUPLICATE_ID.encode()
_TIME: Final = Symbol("x-opt-delivery-time")
_DELAY: Final = Symbol("x-opt-delivery-delay")
_NO_PROPERTIES: Final = Properties()


class Said:
    """The wishes of a message for the broker: `to` and `group` are empty for none, `expires` and
    `due` are milliseconds since 1970, 0 for none. `has_names` says that there are annotations or
    application properties, which only have names that the sender chose. `trace` are the brokers
    that it passed (`protocols.amqp.tracing`). `attempts` is how many failed before, `is_again` says
    that there may have been one, which most senders do not deny.
    """

    __slots__ = (
        "attempts", "due", "duplicate_id", "expires", "group", "has_names", "is_again",
        "persistent", "priority", "to", "trace",
    )  # fmt: skip

    def __init__(
        self, data: bytes, places: list[SectionPlace], now: int, properties_max: int
    ) -> None:
        """Read the sections; raises Malformed."""
        self.persistent = False
        self.priority = DEFAULT_PRIORITY
        self.expires = 0
        self.due = 0
        self.to = ""
        self.group = ""
        self.duplicate_id = ""
        self.has_names = False
        self.trace: tuple[str, ...] = ()
        self.attempts, self.is_again = 0, False
        ttl: int | None = None
        for place in places:
            if place.code == HEADER:
                header = header_of(data, place)
                self.persistent = header.durable
                self.priority = min(header.priority, _PRIORITY_MAX)
                ttl = header.ttl
                self.attempts = header.delivery_count
                self.is_again = not header.first_acquirer
            elif place.code == MESSAGE_ANNOTATIONS:
                self.has_names = True
                self._take_annotations(Reader(data, place.value, place.end).value(), now)
            elif place.code == PROPERTIES:
                self._take_properties(properties_of(data, place))
            elif place.code == APPLICATION_PROPERTIES:
                self.has_names = True
                if Reader(data, place.value, place.end).begin_map()[0] >> 1 > properties_max:
                    raise Malformed(f"there are more than {properties_max:,} properties")
                if data.find(_DUPLICATE_BYTES) < 0:
                    continue
                self._take_duplicate(Reader(data, place.value, place.end).value())
        if ttl:
            self.expires = now // _US_PER_MS + ttl

    def _take_annotations(self, found: Any, now: int) -> None:
        if not isinstance(found, dict):
            raise Malformed("message annotations must be a map")
        time, delay = found.get(_TIME), found.get(_DELAY)
        if isinstance(time, Timestamp):
            time = time.milliseconds
        if isinstance(time, int):
            self.due = max(0, time)
        elif isinstance(delay, int) and delay > 0:
            self.due = now // _US_PER_MS + delay
        if TRACE in found:
            self.trace = trace_of(found[TRACE])

    def _take_properties(self, found: Properties) -> None:
        self.to = found.to or ""
        self.group = found.group_id or ""
        self.expires = found.absolute_expiry_time or 0

    def _take_duplicate(self, found: Any) -> None:
        value = found.get(_DUPLICATE_ID) if isinstance(found, dict) else None
        if isinstance(value, bytes):
            self.duplicate_id = value.hex()
        elif value is not None:
            self.duplicate_id = str(value)


def send_of(
    said: Said,
    place: Place,
    headers: bytes,
    body: bytes,
    *,
    connection: int,
    link: int,
    transaction: str | None,
) -> Send:
    """Return the command for a message; one whose body comes in chunks has none yet."""
    # Names of arguments take time.
    return Send(
        connection, place.address, headers, body, place.routing_type, place.queue, said.priority,
        said.persistent, said.expires, transaction, (), 0, said.duplicate_id,
        AMQP | (GROUPED if said.group else 0), said.due, link=link,
    )  # fmt: skip


class Arrivals:
    """Reads the messages of a link. Most have nothing but a header in front of their body, as the
    one before: then it says the same."""

    __slots__ = ("_beginning", "_properties_max", "_said")

    def __init__(self, properties_max: int) -> None:
        """Refuse messages with more application properties."""
        self._properties_max: Final = properties_max
        self._beginning: Beginning | None = None
        self._said: Said | None = None

    def read(self, data: bytes, now: int) -> tuple[Said, bytes, bytes, tuple[str, ...]]:
        """Return what a whole message says, its headers, its body, and its trace. Raises
        Malformed."""
        if (known := self._like_before(data)) is not None:
            said, headers, body = known
            return said, headers, body, ()
        at = _behind_header(data)
        trace, end = written_at(data, at)
        if not trace or not is_bare(data, end):
            said, headers, body = self._read(data, now)
            return said, headers, body, said.trace
        # Without it a message begins as the others do.
        rest = data[:at] + data[end:]
        said, headers, body = self._like_before(rest) or self._read(rest, now)
        at += PREFIX
        headers = b"".join((headers[:at], data[at - PREFIX : end], headers[at:]))
        return said, headers, body, trace

    def _like_before(self, data: bytes) -> tuple[Said, bytes, bytes] | None:
        """Return what a message says that begins as the one before, with its headers and body."""
        if self._beginning is None or self._said is None:
            return None
        headers = self._beginning.headers_of(data)
        return (self._said, headers, data[len(headers) - PREFIX :]) if headers else None

    def _read(self, data: bytes, now: int) -> tuple[Said, bytes, bytes]:
        """Read a message from its beginning. Raises Malformed."""
        places = places_of(data)
        said = Said(data, places, now, self._properties_max)
        if len(places) == 2 and places[0].code == HEADER and not said.expires:
            self._beginning = beginning_of(data, places)
            self._said = said
        headers, body = stored(data, places)
        return said, headers, body


def _behind_header(data: bytes) -> int:
    """Return where the header section ends, as most senders write it; 0 if there is none."""
    if len(data) <= _HEADER_BYTES or not data.startswith(_HEADER_BEGINS):
        return 0
    return 4 if data[3] == _LIST0 else _HEADER_BYTES + data[4] if data[3] == _LIST8 else 0


_HEADER_BEGINS: Final = bytes((0, 0x53, HEADER))
_HEADER_BYTES: Final = 5
_LIST0: Final = 0x45
_LIST8: Final = 0xC0


def begin_large(data: bytes, now: int, properties_max: int) -> tuple[bytes, int, Said] | None:
    """Return the headers of a message of which this is the beginning, where its body begins, and
    what its sections say; None if its body has not begun. Raises Malformed."""
    found = begun(data)
    if found is None:
        return None
    headers, body_at, places = found
    return headers, body_at, Said(data, places, now, properties_max)
