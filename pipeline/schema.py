"""The columns of `events` for SQL, derived from the table in `engine.facts.events`.

Integers are widened to signed types, which Spark needs. An id of "none" is 0, as in the journal,
and its name is null. Must never know where events come from.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, NamedTuple

import pyarrow as pa

from daybook.engine.facts import events
from daybook.pipeline.selection import SelectionError

LSN: Final = "lsn"
TIME_TYPE: Final = pa.timestamp("us", tz="UTC")
WIDENED: Final = {
    "B": pa.int16(), "H": pa.int32(), "I": pa.int64(), "Q": pa.int64(), "q": TIME_TYPE,
}  # fmt: skip
"""Signed Arrow types that hold every value of a column, by its struct code."""

PROPERTIES: Final = pa.struct(
    [
        ("message_id", pa.string()),
        ("user_id", pa.binary()),
        ("to", pa.string()),
        ("subject", pa.string()),
        ("reply_to", pa.string()),
        ("correlation_id", pa.string()),
        ("content_type", pa.string()),
        ("content_encoding", pa.string()),
        ("absolute_expiry_time", TIME_TYPE),
        ("creation_time", TIME_TYPE),
        ("group_id", pa.string()),
        ("group_sequence", pa.int64()),
        ("reply_to_group_id", pa.string()),
    ]
)
"""The standard properties of AMQP 1.0 (part 3, 3.2.4), in their order."""
APPLICATION_PROPERTY: Final = pa.struct(
    [
        ("type", pa.string()),
        ("text", pa.string()),
        ("integer", pa.int64()),
        ("double", pa.float64()),
        ("boolean", pa.bool_()),
    ]
)
APPLICATION_PROPERTIES: Final = pa.map_(pa.string(), APPLICATION_PROPERTY)

DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


class TypeForms(NamedTuple):
    """How an engine writes types: the names of simple ones, and the forms of those with parts."""

    simple: dict[pa.DataType, str]
    field: str
    between_fields: str
    struct: str
    map: str
    list: str


SPARK: Final = TypeForms(
    {
        pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint", pa.bool_(): "boolean",
        pa.string(): "string", pa.binary(): "binary", pa.float64(): "double",
        TIME_TYPE: "timestamp",
    },
    "{}:{}", ",", "struct<{}>", "map<{},{}>", "array<{}>",
)  # fmt: skip
DUCK: Final = TypeForms(
    {
        pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN",
        pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.float64(): "DOUBLE",
        TIME_TYPE: "TIMESTAMPTZ",
    },
    '"{}" {}', ", ", "STRUCT({})", "MAP({}, {})", "{}[]",
)  # fmt: skip


class SchemaError(SelectionError):
    """An unknown column; the text says which ones exist."""


class EventColumn(NamedTuple):
    """A column of `events`: its name, Arrow type and meaning.

    `raw` columns have the same content as numbers, or as bytes on disk; `derived` ones are made of
    raw ones alone, and Parquet files do not have them. Both must be named explicitly.
    """

    name: str
    type: pa.DataType
    doc: str
    raw: bool = False
    derived: bool = False

    @property
    def must_be_named(self) -> bool:
        """Whether `*` leaves it out."""
        return self.raw or self.derived


def _of_row(name: str, to: str = "", doc: str = "") -> EventColumn:
    """Make a column from a column of the row, with its name or another."""
    column = next(column for column in events.COLUMNS if column.name == name)
    kind = WIDENED[column.code]
    return EventColumn(to or name, kind, doc or column.doc, raw=bool(to))


EVENT_COLUMNS: Final = (
    EventColumn(LSN, pa.int64(), "the event's place in the journal"),
    _of_row("time"),
    EventColumn("kind", pa.string(), "what happened: the name of the kind"),
    EventColumn("reason", pa.string(), "why the broker decided so; empty when the kind says it"),
    EventColumn("address", pa.string(), "name of the address, null for none"),
    EventColumn("queue", pa.string(), "name of the queue, null for none or for several"),
    EventColumn("queues", pa.list_(pa.string()), "names of all queues that the event is about"),
    _of_row("message"),
    _of_row("consumer"),
    _of_row("connection"),
    _of_row("related"),
    _of_row("delivery_count"),
    _of_row("priority"),
    EventColumn("persistent", pa.bool_(), "whether the message outlives a restart"),
    EventColumn("detail", pa.string(), "what only this kind has, as JSON; null if nothing"),
    EventColumn("headers", pa.map_(pa.string(), pa.string()), "headers of the message, or null"),
    EventColumn(
        "properties", PROPERTIES, "the properties that every protocol has, by the names of "
        "AMQP 1.0: null where the message does not say them; ids as text", derived=True,
    ),
    EventColumn(
        "application_properties", APPLICATION_PROPERTIES, "the other properties: the type that "
        "AMQP 1.0 calls so, and the value as text, and as a number or a boolean if it is one",
        derived=True,
    ),
    EventColumn("body", pa.binary(), "body of the message, or a piece of it (ChunkReceived)"),
    EventColumn("headers_bytes", pa.int64(), "length of the headers as they are journaled"),
    EventColumn("body_bytes", pa.int64(), "length of `body`"),
    _of_row("kind", "kind_id"),
    _of_row("reason", "reason_id"),
    _of_row("address", "address_id"),
    _of_row("queue", "queue_id"),
    _of_row("flags", "flags"),
    EventColumn("detail_raw", pa.binary(), "the detail as journaled: msgpack", raw=True),
    EventColumn("headers_raw", pa.binary(), "the headers as journaled, in their format", raw=True),
    EventColumn("segment", pa.string(), "file that has the event", raw=True),
    EventColumn("block_offset", pa.int64(), "where its block begins in that file", raw=True),
)  # fmt: skip
BY_NAME: Final = {column.name: column for column in EVENT_COLUMNS}
SOURCES: Final = ("headers_raw", "flags")
"""The columns that derived ones are made of."""
_RAW_NAMES: Final = {
    "kind": "kind_id", "reason": "reason_id", "address": "address_id", "queue": "queue_id",
}  # fmt: skip
ROW_COLUMNS: Final = tuple(_RAW_NAMES.get(each.name, each.name) for each in events.COLUMNS)
"""The columns of an event's row, in its order."""
assert len(BY_NAME) == len(EVENT_COLUMNS)

PLAIN_COLUMNS: Final = tuple(column.name for column in EVENT_COLUMNS if not column.must_be_named)
"""The columns of `*`."""
ALL_COLUMNS: Final = tuple(BY_NAME)
DERIVED_COLUMNS: Final = tuple(column.name for column in EVENT_COLUMNS if column.derived)
STORED_COLUMNS: Final = tuple(name for name in ALL_COLUMNS if name not in DERIVED_COLUMNS)
"""The columns of Parquet files, whose proofs compare all of them."""
NAMED_COLUMNS: Final = frozenset({"address", "queue", "queues"})
"""Columns that need the names of addresses or queues."""
ENCODED_COLUMNS: Final = frozenset({"kind", "reason", "address", "queue"})
"""Columns with few different texts, which can be dictionary-encoded."""
HEAP_COLUMNS: Final = frozenset(
    {"detail", "headers", "body", "detail_raw", "headers_raw", *DERIVED_COLUMNS}
)
"""Columns for which the heap of a block must be decompressed."""


def check_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Check names of columns and expand `*` to all plain ones; raises SchemaError."""
    found: list[str] = []
    for name in names:
        for each in PLAIN_COLUMNS if name == "*" else (name,):
            if each not in BY_NAME:
                close = get_close_matches(each.lower(), ALL_COLUMNS, n=1)
                hint = f"did you mean {close[0]}?" if close else f"columns: {', '.join(BY_NAME)}"
                raise SchemaError(f"events have no column '{each}'; {hint}")
            if each not in found:
                found.append(each)
    if not found:
        raise SchemaError("no column is named; name one, or * for all plain ones")
    return tuple(found)


def arrow_schema(names: Iterable[str], *, encoded: bool = False) -> pa.Schema:
    """Return the Arrow schema of these columns; texts are dictionary-encoded if `encoded`."""
    return pa.schema(
        [
            pa.field(name, DICTIONARY if encoded and name in ENCODED_COLUMNS else column.type)
            for name, column in ((name, BY_NAME[name]) for name in names)
        ]
    )


def spark_ddl(names: Iterable[str]) -> str:
    """Return the schema of these columns for Spark, as DDL."""
    return ", ".join(f"{name} {type_name(BY_NAME[name].type, SPARK)}" for name in names)


def type_name(kind: pa.DataType, forms: TypeForms) -> str:
    """Return the name that an engine has for a type."""
    if pa.types.is_struct(kind):
        fields = (forms.field.format(each.name, type_name(each.type, forms)) for each in kind)
        return forms.struct.format(forms.between_fields.join(fields))
    if pa.types.is_map(kind):
        return forms.map.format(type_name(kind.key_type, forms), type_name(kind.item_type, forms))
    if pa.types.is_list(kind):
        return forms.list.format(type_name(kind.value_type, forms))
    return forms.simple[kind]


def stored(names: Iterable[str]) -> tuple[str, ...]:
    """Return the stored columns of which these can be made, in their order."""
    needed = {part for name in names for part in (SOURCES if BY_NAME[name].derived else (name,))}
    return tuple(name for name in STORED_COLUMNS if name in needed)


def listed(kinds: Iterable[int]) -> str:
    """Return the numbers of kinds as a list for SQL."""
    return ", ".join(str(kind) for kind in sorted(kinds))
