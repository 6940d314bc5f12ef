"""The types of fields: primitive ones, and those that restrict one of them (`Kind`).

A field of a composite type is declared with one of the names at the end; the table of fields is
read from there. Must never know a single composite type.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from daybook.engine.facts.values import Symbol, Timestamp, Uuid

ANY: Final = "*"
FIELDS: Final = "fields"


class Kind(NamedTuple):
    """A type as the specification names it, and the primitive type that it restricts.

    `choices` are its values, () for all; `longest` is the length of a value in bytes, 0 for any. A
    value of the type `*` is one of these `primitives`, or of a composite type that `provides` this.
    `wraps` is set where a value in Python is less than `engine.facts.values` has: a symbol is a
    text, and a timestamp a number.
    """

    name: str
    primitive: str
    choices: tuple[Any, ...] = ()
    longest: int = 0
    primitives: tuple[str, ...] = ()
    provides: str = ""
    is_multiple: bool = False
    wraps: Callable[[Any], Any] | None = None


def _kind(name: str, primitive: str = "", **more: Any) -> Kind:
    return Kind(name, primitive or name, **more)


def _names(name: str, **more: Any) -> Kind:
    return _kind(name, "symbol", wraps=Symbol, **more)


Boolean: TypeAlias = Annotated[bool, _kind("boolean")]
UByte: TypeAlias = Annotated[int, _kind("ubyte")]
UShort: TypeAlias = Annotated[int, _kind("ushort")]
UInt: TypeAlias = Annotated[int, _kind("uint")]
ULong: TypeAlias = Annotated[int, _kind("ulong")]
Binary: TypeAlias = Annotated[bytes, _kind("binary")]
String: TypeAlias = Annotated[str, _kind("string")]
Name: TypeAlias = Annotated[str, _names("symbol")]
Names: TypeAlias = Annotated[tuple[str, ...], _names("symbol", is_multiple=True)]
Moment: TypeAlias = Annotated[int, _kind("timestamp", wraps=Timestamp)]
Anything: TypeAlias = Annotated[Any, _kind(ANY)]
Map: TypeAlias = Annotated[dict[Any, Any], _kind("map")]

Milliseconds: TypeAlias = Annotated[int, _kind("milliseconds", "uint")]
Seconds: TypeAlias = Annotated[int, _kind("seconds", "uint")]
Fields: TypeAlias = Annotated[dict[str, Any], _kind(FIELDS, "map")]
"""A map whose keys are symbols: texts in Python."""
Address: TypeAlias = Annotated[str, _kind("address", ANY, primitives=("string",))]
MessageId: TypeAlias = Annotated[
    int | Uuid | bytes | str,
    _kind("message-id", ANY, primitives=("ulong", "uuid", "binary", "string")),
]
