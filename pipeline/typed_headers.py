"""The derived columns: what headers say, with types, for readers of the journal and of Parquet.

Each is made of the headers as journaled, and of the flags that name their format. So files that
were archived before these columns existed have them, too. Must never know where headers come from.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daybook.engine.facts.formats import Property, Typed
from daybook.engine.facts.values import Decimal, Timestamp, Value
from daybook.engine.messages.content import View, is_known
from daybook.engine.messages.conversions import plain_of, text_of
from daybook.pipeline.schema import APPLICATION_PROPERTIES, DERIVED_COLUMNS, PROPERTIES, TIME_TYPE

_LONG: Final = 1 << 63
_TIME_MIN_MS: Final = -62_135_596_800_000
_TIME_END_MS: Final = 253_402_300_800_000
"""Times of the years 1 to 9999; others have no date."""

Deriving: TypeAlias = Callable[[pa.Array, pa.Array], pa.Array]
"""Makes a column of headers (binary) and flags. Null where there are no headers, or where they are
in a format that this version does not know."""


def properties(blocks: pa.Array, flags: pa.Array) -> pa.Array:
    """The standard properties, as structs."""
    rows = [None if said is None else _standard(said) for said in _typed(blocks, flags)]
    return pa.array(rows, PROPERTIES)


def application_properties(blocks: pa.Array, flags: pa.Array) -> pa.Array:
    """The properties of the application, as maps from names to structs."""
    rows = [None if said is None else _application(said) for said in _typed(blocks, flags)]
    return pa.array(rows, APPLICATION_PROPERTIES)


DERIVED: Final[dict[str, Deriving]] = {
    "properties": properties, "application_properties": application_properties,
}  # fmt: skip
assert tuple(DERIVED) == DERIVED_COLUMNS


def _typed(blocks: pa.Array, flags: pa.Array) -> Iterator[Typed | None]:
    for block, its_flags in zip(blocks.to_pylist(), flags.to_pylist(), strict=True):
        yield View(its_flags, block).typed() if block and is_known(its_flags) else None


def _standard(said: Typed) -> dict[str, Any]:
    return {
        field.name: _as(field.type, said.standard[field.name])
        for field in PROPERTIES
        if field.name in said.standard
    }


def _as(kind: pa.DataType, value: Any) -> Any:
    if kind == TIME_TYPE:
        return value * 1000 if _TIME_MIN_MS <= value < _TIME_END_MS else None
    return text_of(value) if pa.types.is_string(kind) else value


def _application(said: Typed) -> list[tuple[str, dict[str, Any]]]:
    return [(name, _columns(each)) for name, each in said.properties.items()]


def _columns(each: Property) -> dict[str, Any]:
    value: Value = each.value
    found: dict[str, Any] = {"type": each.type}
    if value is None:
        return found
    found["text"] = text_of(value)
    if isinstance(value, bool):
        found["boolean"] = value
    elif isinstance(value, int | float | Decimal | Timestamp):
        number = plain_of(value)
        found["double"] = None if number is None else float(number)
        if isinstance(number, int) and -_LONG <= number < _LONG:
            found["integer"] = number
    return found
