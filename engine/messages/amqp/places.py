"""Where the sections of a message are in its bytes.

They are found by their descriptors and are not decoded, so their inside may be malformed. Must
never know what a queue or a link does with a message.
"""

from typing import Final

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.constructors import BY_NAME, CONSTRUCTORS, DESCRIBED, NULL
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader, end_of
from daybook.engine.messages.amqp.sections import (
    COMPOSITES,
    DATA,
    FOOTER,
    HEADER,
    SECTIONS,
    VALUE,
    Header,
    Properties,
)


def _codes(type_name: str) -> bytes:
    known = CONSTRUCTORS.values() if type_name == "*" else BY_NAME[type_name].constructors
    return bytes([each.code for each in known] + ([DESCRIBED] if type_name == "*" else []))


_ALLOWED: Final = {each.code: _codes(each.type) for each in SECTIONS}
_REPEATS: Final = {each.code: each.may_repeat for each in SECTIONS}
_BY_SYMBOL: Final = {
    Symbol(f"amqp:{each.name}:{each.type}"): each.code for each in SECTIONS
}  # fmt: skip


class Place:
    """A section: its kind, where it begins, where its value begins, and where it ends."""

    __slots__ = ("at", "code", "end", "value")

    def __init__(self, code: int, at: int, value: int, end: int) -> None:
        self.code: Final = code
        self.at: Final = at
        self.value: Final = value
        self.end: Final = end


def places_of(data: bytes) -> list[Place]:
    """Return the sections of a message in their order. Raises Malformed."""
    at, end = 0, len(data)
    found: list[Place] = []
    before = 0
    while at < end:
        code, value = begin_of(data, at, end)
        if value >= end or data[value] not in _ALLOWED[code]:
            raise Malformed(f"a section 0x{code:02x} has a value of another type")
        if code < before or (code == before and not _REPEATS[code]):
            raise Malformed(f"a section 0x{code:02x} is behind one of 0x{before:02x}")
        if DATA <= before < code <= VALUE:
            raise Malformed("a message has two bodies")
        before = code
        after = end_of(data, value, end)
        found.append(Place(code, at, value, after))
        at = after
    return found


def begin_of(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the kind of the section that begins at a place, and where its value begins. Raises
    Malformed, also if nothing is there."""
    if end - at >= 3 and data[at] == 0 and data[at + 1] == 0x53:
        code, value = data[at + 2], at + 3
    else:
        if at >= end or data[at] != 0:
            raise Malformed("a section is not described")
        reader = Reader(data, at + 1, end)
        descriptor = reader.value()
        value = reader.at
        if isinstance(descriptor, Symbol):
            code = _BY_SYMBOL.get(descriptor, 0)
        else:
            code = descriptor if type(descriptor) is int else 0
    if code < HEADER or code > FOOTER:
        raise Malformed("a section is of no kind that messages have")
    return code, value


def header_of(data: bytes, place: Place) -> Header:
    """Return the header of a message. Raises Malformed."""
    reader = Reader(data, place.value, place.end)
    try:
        count, stop = reader.begin_list()
        if count <= 5:
            durable = count > 0 and reader.boolean()
            priority = _priority(reader) if count > 1 else _PRIORITY
            ttl = reader.uint() if count > 2 else -1
            first_acquirer = count > 3 and reader.boolean()
            delivery_count = reader.uint() if count > 4 else 0
            if reader.at == stop == place.end:
                return Header(
                    durable, priority, None if ttl < 0 else ttl, first_acquirer,
                    0 if delivery_count < 0 else delivery_count,
                )  # fmt: skip
    except Malformed:
        pass  # what few peers encode like this is left to the table, with all its checks
    found: Header = COMPOSITES.read(Reader(data, place.at, place.end))
    return found


def _priority(reader: Reader) -> int:
    code = reader.code()
    if code == NULL:
        reader.at += 1
        return _PRIORITY
    if code != 0x50 or reader.at + 1 >= reader.end:
        raise Malformed("left to the table")
    reader.at += 2
    return reader.data[reader.at - 1]


_PRIORITY: Final = Header().priority


def properties_of(data: bytes, place: Place) -> Properties:
    """Return the standard properties of a message. Raises Malformed."""
    found: Properties = COMPOSITES.read(Reader(data, place.at, place.end))
    return found
