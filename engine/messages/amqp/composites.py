"""Composite types (part 1, section 1.4): structs, their fields as a table, and both as bytes.

A struct says everything once: the names of its fields with `_` for `-`, their types (`kinds`), and
their defaults; a field without a default is mandatory. Must never know a single composite type.
"""

from collections.abc import Sequence
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.constructors import BY_NAME, DESCRIBED, NULL
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.kinds import ANY, FIELDS, Kind
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.writer import (
    NOTHING,
    array_of,
    encoded,
    list_of,
    of_type,
    section_of,
)


class Field(NamedTuple):
    """A field: its name in the specification, its name in Python, and what values it may have.

    `codes` are the constructors of its primitive types; it has none if every one is right.
    """

    name: str
    attribute: str
    kind: Kind
    is_mandatory: bool
    default: Any
    codes: frozenset[int]


class Composite(NamedTuple):
    """A composite type: the name and the number of its descriptor, and its struct.

    `provides` says what it can be used as; `fields` come from the struct.
    """

    name: str
    code: int
    struct: type
    provides: tuple[str, ...]
    fields: tuple[Field, ...]

    @property
    def symbol(self) -> str:
        """Its descriptor as a symbol."""
        return f"amqp:{self.name}:list"


def composite(name: str, code: int, struct: type[msgspec.Struct], *provides: str) -> Composite:
    """Return the row of a struct."""
    hints = get_type_hints(struct, include_extras=True)
    fields = [_field(each, _kind_of(hints[each.name])) for each in msgspec.structs.fields(struct)]
    return Composite(name, code, struct, provides, tuple(fields))


def _kind_of(hint: Any) -> Kind:
    if get_origin(hint) in (Union, UnionType):
        hint = next(each for each in get_args(hint) if get_origin(each) is Annotated)
    (kind,) = (each for each in hint.__metadata__ if isinstance(each, Kind))
    return kind


def _field(info: msgspec.structs.FieldInfo, kind: Kind) -> Field:
    names = kind.primitives if kind.primitive == ANY else (kind.primitive,)
    codes = {each.code for name in names for each in BY_NAME[name].constructors}
    if kind.is_multiple:
        codes |= {each.code for each in BY_NAME["array"].constructors}
    default = None if info.required else info.default
    name = info.name.replace("_", "-")
    return Field(name, info.name, kind, info.required, default, frozenset(codes))


class Composites:
    """Reads and writes the composite types of a table."""

    __slots__ = ("_by_descriptor", "_by_struct", "rows")

    def __init__(self, rows: Sequence[Composite]) -> None:
        """Take the types that the table has."""
        self.rows: Final = tuple(rows)
        self._by_struct: Final[dict[type, Composite]] = {row.struct: row for row in rows}
        self._by_descriptor: Final[dict[Any, Composite]] = {
            descriptor: row for row in rows for descriptor in (row.code, Symbol(row.symbol))
        }

    def read(self, reader: Reader) -> Any:
        """Read a described value: the struct of a known type, or `Described`. Raises Malformed."""
        if reader.code() != DESCRIBED:
            raise Malformed(f"a described value is expected, not constructor 0x{reader.code():02x}")
        reader.at += 1
        descriptor = reader.value()
        try:
            row = self._by_descriptor.get(descriptor)
        except TypeError:
            row = None
        if row is None:
            return Described(descriptor, reader.value())
        return row.struct(**self._fields(row, reader))

    def struct_of(self, value: Any) -> Any:
        """Return the struct that a value of no declared type is, as in a map: None if it is none of
        the table, or malformed."""
        if not isinstance(value, Described):
            return None
        with suppress(Malformed, ValueError):
            data = encoded(value)
            found = self.read(Reader(data, 0, len(data)))
            return found if self.row_of(found) is not None else None
        return None

    def row_of(self, value: Any) -> Composite | None:
        """Return the row of a struct; None for what is none of the table."""
        return self._by_struct.get(type(value))

    def encoded(self, value: Any) -> bytes:
        """Encode a struct: fields that have their defaults are null, and omitted at the end.

        Anything else is encoded as a value of no composite type. Raises ValueError.
        """
        row = self._by_struct.get(type(value))
        if row is None:
            return encoded(value)
        items: list[bytes] = []
        length = 0
        for field in row.fields:
            item = self._item(field, getattr(value, field.attribute))
            items.append(item)
            if item is not NOTHING:
                length = len(items)
        return section_of(row.code, list_of(items[:length]))

    def _fields(self, row: Composite, reader: Reader) -> dict[str, Any]:
        """Read the list of a composite type."""
        count, stop = reader.begin_list()
        if count > len(row.fields):
            raise Malformed(f"{row.name} has {len(row.fields)} fields, not {count}")
        outer, reader.end = reader.end, stop
        values: dict[str, Any] = {}
        for field in row.fields[:count]:
            if reader.code() == NULL:
                reader.at += 1
            else:
                values[field.attribute] = self._value(row, field, reader)
        if reader.at != stop:
            raise Malformed(f"the size of {row.name} is wrong")
        reader.end = outer
        for field in row.fields:
            if field.is_mandatory and field.attribute not in values:
                raise Malformed(f"{row.name} lacks the mandatory field {field.name}")
        return values

    def _value(self, row: Composite, field: Field, reader: Reader) -> Any:
        kind = field.kind
        code = reader.code()
        if code in field.codes:
            value = reader.value()
            if kind.is_multiple:
                listed = value if isinstance(value, list) else [value]
                return tuple([self._checked(row, field, each) for each in listed])
            return self._checked(row, field, value)
        if kind.primitive != ANY or (code != DESCRIBED and field.codes):
            raise Malformed(f"{field.name} of {row.name} is not of type {kind.name}")
        if not kind.provides:
            return reader.value()
        value = self.read(reader)
        found = self._by_struct.get(type(value))
        if found is not None and kind.provides not in found.provides:
            raise Malformed(f"{field.name} of {row.name} cannot be {found.name}")
        return value

    def _checked(self, row: Composite, field: Field, value: Any) -> Any:
        """Return a value as it is in Python, if it is one of those that the type has."""
        kind = field.kind
        if kind.wraps is not None:
            if type(value) is not kind.wraps:
                raise Malformed(f"{field.name} of {row.name} is not of type {kind.name}")
            value = value.text if isinstance(value, Symbol) else value.milliseconds
        if kind.choices and value not in kind.choices:
            raise Malformed(f"{field.name} of {row.name} cannot be {value!r}")
        if kind.longest and len(value) > kind.longest:
            raise Malformed(f"{field.name} of {row.name} has more than {kind.longest} bytes")
        if kind.name == FIELDS:
            return {_text(row, field, key): each for key, each in value.items()}
        return value

    def _item(self, field: Field, value: Any) -> bytes:
        if value is None or (not field.is_mandatory and value == field.default):
            return NOTHING
        kind = field.kind
        if kind.name == FIELDS:
            return encoded({Symbol(name): each for name, each in value.items()})
        if kind.is_multiple:
            wraps = kind.wraps
            return array_of(kind.primitive, [wraps(each) if wraps else each for each in value])
        if kind.primitive != ANY:
            return of_type(kind.primitive, kind.wraps(value) if kind.wraps else value)
        if kind.provides or not kind.primitives:
            return self.encoded(value)
        return of_type("ulong", value) if isinstance(value, int) else encoded(value)


def _text(row: Composite, field: Field, key: Any) -> str:
    if not isinstance(key, Symbol):
        raise Malformed(f"a key of {field.name} of {row.name} is not a symbol")
    return key.text
