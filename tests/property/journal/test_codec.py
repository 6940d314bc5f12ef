"""Events survive the way into bytes and back, whatever they hold."""

from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.broker import Broker
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import Detail
from daybook.engine.facts.events import COLUMNS, EVENT_TYPES, ROW_STRUCT
from daybook.engine.facts.pending import Pending
from daybook.engine.facts.rows import pack_wide
from daybook.engine.state.state import State
from tests.support.world import unpack

BITS = {"B": (0, 8), "H": (0, 16), "I": (0, 32), "Q": (0, 64), "q": (63, 63)}


def integers(code: str) -> st.SearchStrategy[int]:
    below, above = BITS[code]
    return st.integers(-(1 << below) if below else 0, (1 << above) - 1)


rows = st.tuples(*(integers(column.code) for column in COLUMNS))
strings = st.binary(max_size=20)
# The strings of a journal are UTF-8, in which lone surrogates have no form.
text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
FIELDS = {
    str: text,
    int: st.integers(0, 1 << 62),
    bool: st.booleans(),
    tuple[int, ...]: st.lists(st.integers(0, 1 << 31), max_size=3).map(tuple),
    tuple[str, ...]: st.lists(text, max_size=3).map(tuple),
    dict[int, str]: st.dictionaries(st.integers(0, 1 << 31), text, max_size=3),
    dict[str, dict[str, str | int | bool | float]]: st.dictionaries(
        text,
        st.dictionaries(
            text, text | st.integers(0, 99) | st.booleans() | st.floats(0, 9), max_size=3
        ),
        max_size=3,
    ),
}


def plain(kind: Any) -> Any:
    """A type without what is only said about it."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type: one of the table, a struct, a tuple of structs, or one of several types."""
    if kind in FIELDS:
        return FIELDS[kind]
    if kind is type(None):
        return st.none()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return details_of(kind)
    if get_origin(kind) is tuple:
        return st.lists(values_of(plain(get_args(kind)[0])), max_size=2).map(tuple)
    return st.one_of([values_of(each) for each in get_args(kind)])


def details_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: values_of(plain(field.type)) for field in fields})


NUMBERS = {entry.detail: entry.number for entry in EVENT_TYPES if entry.detail is not None}
details = st.one_of([details_of(kind) for kind in NUMBERS])


@given(st.lists(st.tuples(rows, strings, strings, strings), max_size=8), st.integers(1, 1 << 60))
def test_a_batch_gives_its_events_back(
    written: list[tuple[events.Row, bytes, bytes, bytes]], first_lsn: int
) -> None:
    batch = Pending(first_lsn)
    for row, *parts in written:
        batch.rows.append(pack_wide(row, *map(len, parts)))
        for heap, part in zip(batch.heaps, parts, strict=True):
            if part:
                heap.append(part)
    read = unpack(batch)
    assert [(e.row, e.detail, e.headers, e.body) for e in read] == written
    assert [e.lsn for e in read] == list(range(first_lsn, first_lsn + len(written)))
    assert batch.last_lsn == first_lsn + len(written) - 1


@given(details)
def test_details_come_back_as_they_were(detail: Detail) -> None:
    encoded = events.encode_detail(detail)
    assert events.decode_detail(NUMBERS[type(detail)], encoded) == detail


@given(details)
def test_details_may_have_grown_fields_that_we_do_not_know(detail: Detail) -> None:
    known = msgspec.msgpack.decode(events.encode_detail(detail) or b"\x80")
    grown = msgspec.msgpack.encode({**known, "a field of tomorrow": [1, {"x": None}]})
    assert events.decode_detail(NUMBERS[type(detail)], grown) == detail


@pytest.mark.parametrize("kind", NUMBERS.values())
def test_a_detail_of_defaults_is_no_bytes(kind: int) -> None:
    detail = events.decode_detail(kind, b"")
    assert detail is not None
    assert events.encode_detail(detail) == b""


@given(st.integers(0, 255), st.binary(max_size=30))
def test_any_bytes_are_a_detail_or_a_decoding_error(kind: int, encoded: bytes) -> None:
    try:
        detail = events.decode_detail(kind, encoded)
    except msgspec.MsgspecError:
        return
    assert detail is None or type(detail) in NUMBERS


def test_columns_say_where_the_struct_puts_them() -> None:
    for position, column in enumerate(COLUMNS):
        values = [0] * 15
        values[position] = 1
        packed = ROW_STRUCT.pack(*values)
        assert packed.index(1) == column.offset
    lengths = ROW_STRUCT.pack(*[0] * 12, 1, 2, 3)
    assert lengths[events.LENGTHS_OFFSET :: 4][:3] == bytes([1, 2, 3])


def test_every_kind_fills_columns_that_exist_and_every_reason_has_words() -> None:
    names = {column.name for column in COLUMNS}
    for entry in EVENT_TYPES:
        assert set(entry.columns) <= names
        assert entry.doc.endswith(".")
    assert len({name for name, _ in reasons.REASONS.values()}) == len(reasons.REASONS)


def test_an_empty_batch_is_none() -> None:
    assert Broker(State()).take() is None
