"""A second format of headers, for tests: a msgpack map with types, as AMQP and MQTT will have them.

`installed` adds it to the registry for a while.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from daybook.engine.facts.events import FORMAT
from daybook.engine.facts.formats import FORMAT_SHIFT, Property, Standard, Typed
from daybook.engine.facts.values import Char, Decimal, Id, Symbol, Timestamp, Uuid, Value
from daybook.engine.messages.amqp.writer import type_of
from daybook.engine.messages.content import CODECS

MAPS: Final = 5 << FORMAT_SHIFT
"""The flags that name the format."""


_TYPES: Final[dict[int, Any]] = {1: Char, 2: Symbol, 3: Timestamp, 4: Uuid, 5: Decimal}
_CODES: Final = {kind: code for code, kind in _TYPES.items()}


def pack(value: Any) -> bytes:
    """Encode a value of any type."""
    return msgspec.msgpack.encode(_packed(value))


def unpack(data: bytes) -> Any:
    """Decode a value of any type."""
    return msgspec.msgpack.decode(data, ext_hook=_unpacked)


def _packed(value: Any) -> Any:
    if isinstance(value, dict):
        return {_packed(name): _packed(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(each) for each in value]
    code = _CODES.get(type(value))
    if code is None:
        return value
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(msgspec.structs.astuple(value)[0]))


def _unpacked(code: int, data: memoryview) -> Any:
    return _TYPES[code](msgspec.msgpack.decode(data))


def encode(properties: Mapping[str, Value], **standard: Any) -> bytes:
    """Make headers."""
    return pack([standard, dict(properties), False])


def encode_typed(properties: Mapping[str, Value], **standard: Any) -> bytes:
    """Make headers of a message whose body is a value that `pack` has encoded."""
    return pack([standard, dict(properties), True])


def has_typed_body(flags: int, headers: bytes) -> bool:
    """Whether the headers say so."""
    return flags & FORMAT == MAPS and bool(unpack(headers)[2])


class MapsCodec:
    """Reads maps; counts how often it does."""

    flags: Final[int] = MAPS
    name: Final[str] = "maps of tests"
    is_typed: Final[bool] = True

    def __init__(self) -> None:
        self.reads = 0

    def _read(self, headers: bytes) -> tuple[dict[str, Any], dict[str, Value]]:
        self.reads += 1
        standard, properties, _ = unpack(headers)
        return standard, properties

    def standard(self, headers: bytes) -> Standard:
        return Standard(**self._read(headers)[0])

    def said(self, headers: bytes, field: str) -> Id:
        found: Id = getattr(self.standard(headers), field)
        return found

    def properties(self, headers: bytes) -> dict[str, Value]:
        return self._read(headers)[1]

    def typed(self, headers: bytes) -> Typed:
        properties = self._read(headers)[1].items()
        return Typed({}, {name: Property(type_of(value), value) for name, value in properties})

    def first(self, headers: bytes, name: str) -> Value | None:
        return self._read(headers)[1].get(name)

    def unread(self, headers: bytes) -> int:
        return 0

    def body(self, headers: bytes, body: bytes) -> Value:
        has_type = unpack(headers)[2]
        value: Value = unpack(body) if has_type else body
        return value

    def copied(self, headers: bytes, left_out: Iterable[str], added: Mapping[str, Value]) -> bytes:
        standard, properties = self._read(headers)
        for name in left_out:
            properties.pop(name, None)
        return self._encoded(headers, standard, properties | dict(added))

    def marked(self, headers: bytes, name: str) -> bytes:
        standard, properties = self._read(headers)
        return self._encoded(headers, standard, properties | {name: True})

    def _encoded(
        self, headers: bytes, standard: dict[str, Any], properties: dict[str, Value]
    ) -> bytes:
        """Encode headers; the body stays as it is."""
        return pack([standard, properties, unpack(headers)[2]])


@contextmanager
def installed() -> Iterator[MapsCodec]:
    """Know the format."""
    assert MAPS not in CODECS
    CODECS[MAPS] = codec = MapsCodec()
    try:
        yield codec
    finally:
        del CODECS[MAPS]
