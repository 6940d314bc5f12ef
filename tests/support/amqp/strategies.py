"""Strategies: values of every primitive type, structs of every composite type, and messages."""

from typing import Any, Final

from hypothesis import strategies as st

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid
from daybook.engine.messages.amqp.composites import Composite, Field
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.kinds import ANY, FIELDS
from daybook.engine.messages.amqp.sections import COMPOSITES as SECTIONS
from daybook.engine.messages.amqp.writer import encoded, map_of, of_type, section_of
from daybook.protocols.amqp.wire.table import COMPOSITES

symbols = st.builds(Symbol, st.text(st.characters(max_codepoint=127), max_size=20))
unsigned = {"ubyte": 8, "ushort": 16, "uint": 32, "ulong": 64}
signed = {"byte": 8, "short": 16, "int": 32, "long": 64}


def near_edges(least: int, most: int) -> st.SearchStrategy[int]:
    """Whole numbers, those where encodings change among them."""
    edges = [
        each for edge in (0, 128, 256, -128, least, most) for each in (edge - 1, edge, edge + 1)
    ]
    kept = [each for each in edges if least <= each <= most]
    return st.sampled_from(kept) | st.integers(least, most)


SIMPLE: Final[dict[str, st.SearchStrategy[Any]]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    **{name: near_edges(0, (1 << bits) - 1) for name, bits in unsigned.items()},
    **{name: near_edges(-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in signed.items()},
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "decimal32": st.builds(Decimal, st.binary(min_size=4, max_size=4)),
    "decimal64": st.builds(Decimal, st.binary(min_size=8, max_size=8)),
    "decimal128": st.builds(Decimal, st.binary(min_size=16, max_size=16)),
    "char": st.builds(Char, st.characters(exclude_categories=["Cs"])),
    "timestamp": st.builds(Timestamp, near_edges(-(1 << 63), (1 << 63) - 1)),
    "uuid": st.builds(Uuid, st.binary(min_size=16, max_size=16)),
    "binary": st.binary(max_size=300),
    "string": st.text(max_size=80) | st.just("é" * 128),
    "symbol": symbols | st.just(Symbol("s" * 256)),
}
"""A strategy for each primitive type that has no items."""

keys = st.text(max_size=10) | symbols | st.integers(0, 99) | st.binary(max_size=5)
plain: st.SearchStrategy[Any] = st.one_of(
    [SIMPLE[name] for name in ("null", "boolean", "long", "double", "char", "timestamp", "uuid",
                               "binary", "string", "symbol", "decimal32", "decimal128")]
)  # fmt: skip
values: st.SearchStrategy[Any] = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(Described, symbols | st.integers(0, 1 << 63), inner)
    ),
    max_leaves=12,
)
fields = st.dictionaries(symbols.map(lambda each: each.text), values, max_size=3)


def structs_that(provide: str) -> st.SearchStrategy[Any]:
    """Structs of the table that can be used as this."""
    return st.one_of([struct(row) for row in COMPOSITES.rows if provide in row.provides])


def struct(row: Composite) -> st.SearchStrategy[Any]:
    """Structs of a composite type, of any use of their fields."""
    return st.builds(row.struct, **{each.attribute: _given(each) for each in row.fields})


def _given(field: Field) -> st.SearchStrategy[Any]:
    found = _value(field)
    return found if field.is_mandatory else st.just(field.default) | found


def _value(field: Field) -> st.SearchStrategy[Any]:
    kind = field.kind
    if kind.choices:
        return st.sampled_from(kind.choices)
    if kind.name == FIELDS:
        return fields
    if kind.primitive == "map":
        return st.dictionaries(keys, values, max_size=3)
    if kind.provides:
        return structs_that(kind.provides)
    if kind.primitive == ANY:
        names = kind.primitives or ("string", "ulong", "binary")
    else:
        names = (kind.primitive,)
    found = st.one_of([SIMPLE[name] for name in names])
    if kind.longest:
        found = st.binary(max_size=kind.longest)
    if kind.wraps is not None:
        found = found.map(lambda each: each.text if isinstance(each, Symbol) else each.milliseconds)
    return st.lists(found, min_size=1, max_size=4).map(tuple) if kind.is_multiple else found


performatives = structs_that("frame")
sasl_performatives = structs_that("sasl-frame")
headers = struct(SECTIONS.rows[0])
properties = struct(SECTIONS.rows[1])
_annotations = st.dictionaries(symbols, plain, max_size=3)
_application = st.dictionaries(st.text(max_size=8), plain, max_size=4)
_bodies = st.one_of(
    st.binary(max_size=400).map(lambda body: section_of(0x75, of_type("binary", body))),
    st.lists(st.binary(max_size=9), max_size=3).map(
        lambda bodies: b"".join(section_of(0x75, of_type("binary", each)) for each in bodies)
    ),
    st.lists(st.lists(plain, max_size=3), max_size=3).map(
        lambda lists: b"".join(section_of(0x76, encoded(each)) for each in lists)
    ),
    values.map(lambda value: section_of(0x77, encoded(value))),
    st.just(b""),
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Messages with any sections."""
    parts = []
    if draw(st.booleans()):
        parts.append(SECTIONS.encoded(draw(headers)))
    for code in (0x71, 0x72):
        if draw(st.booleans()):
            parts.append(section_of(code, map_of(draw(_annotations))))
    if draw(st.booleans()):
        parts.append(SECTIONS.encoded(draw(properties)))
    if draw(st.booleans()):
        parts.append(section_of(0x74, map_of(draw(_application))))
    parts.append(draw(_bodies))
    if draw(st.booleans()):
        parts.append(section_of(0x78, map_of(draw(_annotations))))
    return b"".join(parts)
