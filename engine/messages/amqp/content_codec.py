"""The sections of AMQP 1.0 as a format of content: how a message is stored, and its typed view.

A message is stored as it came, byte for byte. Its body is apart, so that plain data and texts are
the same bytes in every format, and large ones are in chunks:

| bytes of the headers | content |
|---|---|
| 1 | the framing: how the body is encoded, as listed in `FRAMINGS` |
| 4 | so many bytes at the end stood behind the body: the footer |
| ... | the sections before the body, and the framing itself, up to where the body begins |
| ... | the footer |

The body of the framing `SECTIONS_THEMSELVES` is whole sections. Of every other one it is as many
bytes as the framing says; if there are more, these are further sections. A message that came in may
be malformed inside of a section: its reader then finds nothing there.

Headers that only the broker sets (`engine.facts.own_headers`) are message annotations, because
nobody may change the bare message; all readers see them as properties. Must never know a link.
"""

import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from daybook.engine.facts.formats import FORMAT_SHIFT, Property, Standard, Typed
from daybook.engine.facts.own_headers import ANNOTATIONS, BLANKS
from daybook.engine.facts.values import Id, Symbol, Value
from daybook.engine.messages.amqp.constructors import DESCRIBED, NAME_OF
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import Place, begin_of, places_of, properties_of
from daybook.engine.messages.amqp.reader import Reader, end_of
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    COMPOSITES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    Properties,
)
from daybook.engine.messages.amqp.writer import (
    NOTHING,
    encoded,
    list_of,
    map_of_items,
    section_of,
)
from daybook.engine.messages.conversions import bytes_of

AMQP: Final = 1 << FORMAT_SHIFT
"""The flags that name the format."""

PREFIX: Final = 5
"""Bytes in front of the sections."""
_PREFIX: Final = struct.Struct(">BI")

SECTIONS_THEMSELVES: Final = 0


class Framing(NamedTuple):
    """How a body is encoded: the kind of its section, its constructor, and the bytes of its size.

    `is_text` says that the body is a text in UTF-8.
    """

    section: int
    constructor: int
    size_bytes: int
    is_text: bool = False


FRAMINGS: Final = {
    1: Framing(DATA, 0xA0, 1),
    2: Framing(DATA, 0xB0, 4),
    3: Framing(VALUE, 0xA1, 1, is_text=True),
    4: Framing(VALUE, 0xB1, 4, is_text=True),
    5: Framing(VALUE, 0xA0, 1),
    6: Framing(VALUE, 0xB0, 4),
}
"""The framings by their numbers, which journals have: they are never changed."""

_BY_SECTION: Final = {
    each.section << 8 | each.constructor: number for number, each in FRAMINGS.items()
}
_PREFIXES: Final = [_PREFIX.pack(framing, 0) for framing in range(len(FRAMINGS) + 1)]
"""What headers without a footer begin with, by the framing."""
_SIZES: Final = [0, *(each.size_bytes for each in FRAMINGS.values())]


def stored(data: bytes, places: list[Place]) -> tuple[bytes, bytes]:
    """Return the headers and the body of a message that has its sections at these places."""
    body_at = tail_at = len(data)
    framing = 0
    for place in places:
        if place.code == FOOTER:
            tail_at = min(tail_at, place.at)
        elif place.code >= DATA and body_at == len(data):
            framing = _BY_SECTION.get(place.code << 8 | data[place.value], 0)
            body_at = place.value + 1 + _SIZES[framing] if framing else place.at
    if tail_at == len(data):
        return _PREFIXES[framing] + data[:body_at], data[body_at:]
    body_at = min(body_at, tail_at)
    prefix = _PREFIX.pack(framing, len(data) - tail_at)
    return prefix + data[:body_at] + data[tail_at:], data[body_at:tail_at]


class Beginning:
    """The bytes of a message in front of the size of its body, which is all that follows.

    Messages of one sender often begin alike, and then have headers in common.
    """

    __slots__ = ("_front", "_headers", "_known", "_length", "_prefix", "_size_bytes")

    def __init__(self, known: bytes, framing: int) -> None:
        self._known: Final = known
        self._prefix: Final = _PREFIXES[framing]
        self._size_bytes: Final = _SIZES[framing]
        # Of the last message: the bytes in front of its body, its length, and its headers.
        self._front = b""
        self._length = 0
        self._headers = b""

    def headers_of(self, data: bytes) -> bytes:
        """Return the headers of a message that begins so, and b"" of any other one; its body is
        behind the bytes that they have of it."""
        if len(data) == self._length and data.startswith(self._front):
            return self._headers
        size_at = len(self._known)
        body_at = size_at + self._size_bytes
        if len(data) < body_at or not data.startswith(self._known):
            return b""
        if int.from_bytes(data[size_at:body_at], "big") != len(data) - body_at:
            return b""
        self._length = len(data)
        self._front = data[:body_at]
        self._headers = self._prefix + self._front
        return self._headers


def beginning_of(data: bytes, places: list[Place]) -> Beginning | None:
    """Return how a message begins that has its sections at these places; None if its body has no
    size, or something follows it."""
    if not places:
        return None
    last = places[-1]
    framing = _BY_SECTION.get(last.code << 8 | data[last.value], 0)
    if not framing or (len(places) > 1 and places[-2].code >= DATA):
        return None
    return Beginning(data[: last.value + 1], framing)


def begun(data: bytes) -> tuple[bytes, int, list[Place]] | None:
    """Return the headers of a message that has begun, where its body begins, and the sections in
    front of it. Return None if too little of it is there, or if it is malformed so far.

    Sections behind the body belong to it, but for a footer that `with_footer` takes.
    """
    places: list[Place] = []
    at, end = 0, len(data)
    try:
        while True:
            code, value = begin_of(data, at, end)
            if code >= DATA:
                break
            after = end_of(data, value, end)
            places.append(Place(code, at, value, after))
            at = after
    except Malformed:
        return None
    if value >= end:
        return None
    framing = _BY_SECTION.get(code << 8 | data[value], 0)
    body_at = value + 1 + _SIZES[framing] if framing else at
    if body_at > end:
        return None
    return _PREFIXES[framing] + data[:body_at], body_at, places


def size_of_body(headers: bytes) -> int:
    """Return how long the body of a message is by its framing; -1 if it says no size."""
    framing = headers[0]
    return int.from_bytes(headers[-_SIZES[framing] :], "big") if framing else -1


def with_footer(headers: bytes, data: bytes) -> bytes | None:
    """Return headers without a footer with the one that stood behind the body; None if that is none
    or has something behind it."""
    try:
        code, value = begin_of(data, 0, len(data))
        if code != FOOTER or end_of(data, value, len(data)) != len(data):
            return None
    except Malformed:
        return None
    return _PREFIX.pack(headers[0], len(data)) + headers[PREFIX:] + data


def whole(headers: bytes, body: bytes) -> bytes:
    """Return a message as it came."""
    tail_at = len(headers) - _tail_bytes(headers)
    return b"".join((headers[PREFIX:tail_at], body, headers[tail_at:]))


def bare_at(headers: bytes) -> tuple[int, int]:
    """Return where in the headers the message annotations begin, and where the bare message does.

    What is in front of the first is for the transfer in which the message came. Raises Malformed.
    """
    at, end = PREFIX, len(headers)
    annotations = at
    while at < end and not is_bare(headers, at):
        code, value = begin_of(headers, at, end)
        if code > MESSAGE_ANNOTATIONS:
            break
        at = end_of(headers, value, end)
        if code <= DELIVERY_ANNOTATIONS:
            annotations = at
    return annotations, at


def is_bare(headers: bytes, at: int) -> bool:
    """Return quickly whether a section belongs to the bare message, as most senders encode it."""
    if at + 2 >= len(headers) or headers[at] != DESCRIBED or headers[at + 1] != 0x53:
        return False
    return headers[at + 2] > MESSAGE_ANNOTATIONS


def leaving(headers: bytes, body: bytes, front: bytes) -> list[bytes]:
    """Return the parts of a message as it leaves: behind other sections for its transfer, which are
    encoded. Raises Malformed.
    """
    at = bare_at(headers)[0]
    tail = _tail_bytes(headers)
    if not tail:
        return [front, headers[at:], body]
    tail_at = len(headers) - tail
    return [front, headers[at:tail_at], body, headers[tail_at:]]


def annotated(headers: bytes, noted: Mapping[Any, Value]) -> bytes:
    """Return headers whose message annotations are merged with others, which replace those of the
    same keys. Raises Malformed."""
    at, bare = bare_at(headers)
    section = section_of(MESSAGE_ANNOTATIONS, encoded({**annotations_of(headers), **noted}))
    return headers[:at] + section + headers[bare:]


def annotations_of(headers: bytes) -> dict[Any, Any]:
    """Return the message annotations. Raises Malformed."""
    at, bare = bare_at(headers)
    if at == bare:
        return {}
    found: dict[Any, Any] = Reader(headers, begin_of(headers, at, bare)[1], bare).value()
    return found


def has_footer(headers: bytes) -> bool:
    """Whether a message has a footer."""
    return _tail_bytes(headers) > 0


def _tail_bytes(headers: bytes) -> int:
    return headers[1] << 24 | headers[2] << 16 | headers[3] << 8 | headers[4]


def without(headers: bytes, names: Container[str]) -> bytes:
    """Return headers without the properties of these names, also with blanks around them, and the
    annotations that mean the same; without any, the same headers."""
    for section in (APPLICATION_PROPERTIES, MESSAGE_ANNOTATIONS):
        named = {pair.name for pair in _pairs(headers, section) if pair.name is not None}
        found = {name for name in named if name.strip(BLANKS) in names}
        if found:
            headers = _changed(headers, section, found)
    return headers


def with_own(headers: bytes, added: Mapping[str, Value]) -> bytes:
    """Return headers that show these headers of the broker, instead of others of their names."""
    return _changed(headers, MESSAGE_ANNOTATIONS, added, added)


class SectionsCodec:
    """The codec of the format, for `engine.messages.content`."""

    flags: Final = AMQP
    name: Final = "sections of AMQP 1.0"
    is_typed: Final = True

    def __init__(self) -> None:
        # The headers of the last question for a property, and where its properties are.
        self._last: tuple[bytes, dict[str, _Pair]] = b"", {}

    def standard(self, headers: bytes) -> Standard:
        """Return what the standard properties say."""
        found = _properties(headers)
        return Standard(
            destination=found.to or "",
            content_type=found.content_type or "",
            reply_to=found.reply_to or "",
            correlation_id=_id(found.correlation_id),
            group_id=found.group_id or "",
            type=found.subject or "",
            timestamp=found.creation_time or 0,
            message_id=_id(found.message_id),
            user_id=found.user_id or b"",
            content_encoding=found.content_encoding or "",
            group_sequence=found.group_sequence or 0,
            reply_to_group_id=found.reply_to_group_id or "",
        )

    def said(self, headers: bytes, field: str) -> Id:
        """Return one field of `Standard`."""
        found: Id = getattr(self.standard(headers), field)
        return found

    def properties(self, headers: bytes) -> dict[str, Value]:
        """Return the application properties, and behind them those of the broker."""
        sections = APPLICATION_PROPERTIES, MESSAGE_ANNOTATIONS
        pairs = [pair for section in sections for pair in _pairs(headers, section)]
        return {pair.name: pair.read(headers) for pair in pairs if pair.name is not None}

    def typed(self, headers: bytes) -> Typed:
        """As `Codec.typed`; a property that is malformed has the type of its constructor."""
        said = msgspec.structs.asdict(_properties(headers))
        sections = APPLICATION_PROPERTIES, MESSAGE_ANNOTATIONS
        pairs = [pair for section in sections for pair in _pairs(headers, section)]
        return Typed(
            {name: value for name, value in said.items() if value is not None},
            {
                pair.name: Property(pair.type_in(headers), pair.read(headers))
                for pair in pairs
                if pair.name is not None
            },
        )

    def first(self, headers: bytes, name: str) -> Value | None:
        """Return one property, None if there is none; those of the broker hide others."""
        last, found = self._last
        if last is not headers:
            found = {}
            for section in (MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES):
                for pair in _pairs(headers, section):
                    if pair.name is not None:
                        found.setdefault(pair.name, pair)
            self._last = headers, found
        pair_of_name = found.get(name)
        return pair_of_name.read(headers) if pair_of_name is not None else None

    def unread(self, headers: bytes) -> int:
        """As `Codec.unread`: all names are decoded at the first question."""
        return 0 if self._last[0] is headers else len(headers)

    def body(self, headers: bytes, body: bytes) -> Value:
        """Return the body: bytes for data, else the value, or the list, that it is."""
        framing = FRAMINGS.get(headers[0])
        try:
            if framing is None:
                return _value_of(body)
            tail_at = len(headers) - _tail_bytes(headers)
            size = int.from_bytes(headers[tail_at - framing.size_bytes : tail_at])
            if len(body) > size:
                return body[:size] + bytes_of(_value_of(body[size:]))
            return body.decode() if framing.is_text else body
        except ValueError:
            return body

    def copied(self, headers: bytes, left_out: Iterable[str], added: Mapping[str, Value]) -> bytes:
        """Return the headers of a copy that never expires, without some properties and with
        others."""
        own = {name: value for name, value in added.items() if name in _OWN}
        others = {name: value for name, value in added.items() if name not in _OWN}
        names = {*left_out, *added}
        headers = _changed(headers, MESSAGE_ANNOTATIONS, names, own)
        return _without_expiry(_changed(headers, APPLICATION_PROPERTIES, names, others))

    def marked(self, headers: bytes, name: str) -> bytes:
        """Return the headers with a property that is true, instead of others of its name."""
        return _changed(headers, APPLICATION_PROPERTIES, {name}, {name: True})


_OWN: Final = {name: Symbol(annotation) for name, annotation in ANNOTATIONS.items()}
_NAMES: Final = {annotation: name for name, annotation in _OWN.items()}


def _name_of_property(key: Any) -> str | None:
    return key if isinstance(key, str) else None


def _name_of_annotation(key: Any) -> str | None:
    return _NAMES.get(key) if isinstance(key, Symbol) else None


_NAMING: Final[dict[int, Callable[[Any], str | None]]] = {
    APPLICATION_PROPERTIES: _name_of_property, MESSAGE_ANNOTATIONS: _name_of_annotation,
}  # fmt: skip
"""How keys of a section name properties."""


class _Pair(NamedTuple):
    """A property in one of two sections: its name, None if its key names none, and where it, its
    value and its end are."""

    name: str | None
    at: int
    value: int
    end: int

    def type_in(self, headers: bytes) -> str:
        """Return the name of its type, "" for a constructor that no type has."""
        at = self.value
        while headers[at] == DESCRIBED:
            at = end_of(headers, at + 1, self.end)
        return NAME_OF.get(headers[at], "")

    def read(self, headers: bytes) -> Value:
        """Return its value; None for one that is malformed."""
        try:
            return undescribed(Reader(headers, self.value, self.end).value())
        except Malformed:
            return None


def _find(headers: bytes, wanted: int) -> Place:
    """Return where a section in front of the body is, or, empty, where it would be."""
    at, end = PREFIX, len(headers) - _tail_bytes(headers)
    try:
        while at < end:
            code, value = begin_of(headers, at, end)
            if code > wanted:
                break
            after = end_of(headers, value, end)
            if code == wanted:
                return Place(code, at, value, after)
            at = after
    except Malformed:
        pass  # a body of sections, or none: the wanted section would be here
    return Place(0, at, at, at)


def _properties(headers: bytes) -> Properties:
    """Return the standard properties; none if they are malformed."""
    place = _find(headers, PROPERTIES)
    try:
        return properties_of(headers, place) if place.code else Properties()
    except Malformed:
        return Properties()


def _pairs(headers: bytes, section: int) -> Iterator[_Pair]:
    """Find the properties in a section up to the first one that is malformed."""
    place = _find(headers, section)
    if not place.code:
        return
    name_of = _NAMING[section]
    reader = Reader(headers, place.value, place.end)
    try:
        count, stop = reader.begin_map()
        for _ in range(count >> 1):
            at = reader.at
            name = reader.value()
            value = reader.at
            reader.at = end_of(headers, value, stop)
            yield _Pair(name_of(name), at, value, reader.at)
    except Malformed:
        return


def _changed(
    headers: bytes, section: int, left_out: Container[str], added: Mapping[str, Value] | None = None
) -> bytes:
    """Return headers without some properties of a section, and with others; the same headers if
    none is left out and none is added. A section that becomes empty is removed."""
    pairs = list(_pairs(headers, section))
    kept = [pair for pair in pairs if pair.name is None or pair.name not in left_out]
    if not added and len(kept) == len(pairs):
        return headers
    items = [
        item
        for pair in kept
        for item in (headers[pair.at : pair.value], headers[pair.value : pair.end])
    ]
    for name, value in (added or {}).items():
        key = name if section == APPLICATION_PROPERTIES else _OWN[name]
        items += (encoded(key), encoded(value))
    place = _find(headers, section)
    found = section_of(section, map_of_items(items)) if items else b""
    return headers[: place.at] + found + headers[place.end :]


def _without_expiry(headers: bytes) -> bytes:
    """Return headers whose standard properties name no expiry."""
    place = _find(headers, PROPERTIES)
    if not place.code:
        return headers
    reader = Reader(headers, place.value, place.end)
    items = []
    try:
        count, stop = reader.begin_list()
        for _ in range(count):
            at = reader.at
            reader.at = end_of(headers, at, stop)
            items.append(headers[at : reader.at])
    except Malformed:
        return headers
    if len(items) <= _EXPIRY:
        return headers
    items[_EXPIRY] = NOTHING
    section = section_of(PROPERTIES, list_of(items))
    return headers[: place.at] + section + headers[place.end :]


_EXPIRY: Final = [field.name for field in COMPOSITES.rows[1].fields].index("absolute-expiry-time")


def _value_of(sections: bytes) -> Value:
    """Return what sections of a body are: data as bytes, else the value, or one list. Raises
    Malformed."""
    places = places_of(sections)
    read = [Reader(sections, each.value, each.end, items=each.end).value() for each in places]
    if not places or places[0].code == DATA:
        return b"".join(read)
    if places[0].code == SEQUENCE:
        return [undescribed(each) for items in read for each in items]
    return undescribed(read[0])


def undescribed(value: Any) -> Value:
    """Return a value without the descriptors in it."""
    if isinstance(value, Described):
        return undescribed(value.value)
    if isinstance(value, list):
        return [undescribed(each) for each in value]
    if isinstance(value, dict):
        return {undescribed(key): undescribed(each) for key, each in value.items()}
    plain: Value = value
    return plain


def _id(value: Id | None) -> Id:
    return "" if value is None else value
