"""A second format of headers, for tests: a msgpack map with types, as AMQP and MQTT will have them.

`installed` adds it to the registry for a while.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from daybook.engine.facts.formats import FORMAT_SHIFT, Standard, Value
from daybook.engine.messages.content import CODECS

MAPS: Final = 5 << FORMAT_SHIFT
"""The flags that name the format."""


def encode(properties: Mapping[str, Value], **standard: Any) -> bytes:
    """Make headers."""
    return msgspec.msgpack.encode([standard, dict(properties)])


class MapsCodec:
    """Reads maps; counts how often it does."""

    flags: Final[int] = MAPS
    name: Final[str] = "maps of tests"
    is_typed: Final[bool] = True

    def __init__(self) -> None:
        self.reads = 0

    def _read(self, headers: bytes) -> tuple[dict[str, Any], dict[str, Value]]:
        self.reads += 1
        standard, properties = msgspec.msgpack.decode(headers)
        return standard, properties

    def standard(self, headers: bytes) -> Standard:
        return Standard(**self._read(headers)[0])

    def said(self, headers: bytes, field: str) -> str | int:
        found: str | int = getattr(self.standard(headers), field)
        return found

    def properties(self, headers: bytes) -> dict[str, Value]:
        return self._read(headers)[1]

    def first(self, headers: bytes, name: str) -> Value | None:
        return self._read(headers)[1].get(name)

    def copied(self, headers: bytes, left_out: Iterable[str], added: Mapping[str, Value]) -> bytes:
        standard, properties = self._read(headers)
        for name in left_out:
            properties.pop(name, None)
        return encode(properties | dict(added), **standard)

    def marked(self, headers: bytes, name: str) -> bytes:
        standard, properties = self._read(headers)
        return encode(properties | {name: True}, **standard)


@contextmanager
def installed() -> Iterator[MapsCodec]:
    """Know the format."""
    assert MAPS not in CODECS
    CODECS[MAPS] = codec = MapsCodec()
    try:
        yield codec
    finally:
        del CODECS[MAPS]
