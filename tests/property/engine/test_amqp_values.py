"""Laws of the types of AMQP: values survive a round trip, and bytes raise only Malformed."""

import struct as layout
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.messages.amqp.constructors import BY_NAME
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader, decoded, end_of
from daybook.engine.messages.amqp.sections import COMPOSITES
from daybook.engine.messages.amqp.writer import array_of, described, encoded, of_type
from tests.support.amqp.strategies import SIMPLE, headers, properties, values

typed = st.sampled_from(sorted(SIMPLE)).flatmap(lambda name: st.tuples(st.just(name), SIMPLE[name]))


@given(typed)
def test_every_primitive_type_comes_back(case: tuple[str, Any]) -> None:
    name, value = case
    data = of_type(name, value)
    assert decoded(data) == value
    assert type(decoded(data)) is type(value)
    assert data[0] in {each.code for each in BY_NAME[name].constructors}
    assert end_of(data + b"more", 0, len(data) + 4) == len(data)


@given(typed)
def test_the_shortest_constructor_is_chosen(case: tuple[str, Any]) -> None:
    name, value = case
    data = of_type(name, value)
    for constructor in BY_NAME[name].constructors:
        assert constructor.pack is not None
        try:
            raw = constructor.pack(value)
        except layout.error:
            continue
        if raw is not None and constructor.code >> 4 not in (0xA, 0xB):
            assert len(data) <= 1 + len(raw)


@given(values)
def test_values_in_values_come_back(value: Any) -> None:
    data = encoded(value)
    assert decoded(data) == value
    assert end_of(data, 0, len(data)) == len(data)


@given(typed.flatmap(lambda case: st.tuples(st.just(case[0]), st.lists(SIMPLE[case[0]]))))
def test_arrays_come_back(case: tuple[str, list[Any]]) -> None:
    name, items = case
    assert decoded(array_of(name, items)) == items


@given(st.lists(SIMPLE["string"], max_size=9), SIMPLE["ulong"] | SIMPLE["symbol"])
def test_arrays_of_described_values_come_back(items: list[str], descriptor: Any) -> None:
    name = "ulong" if isinstance(descriptor, int) else "symbol"
    data = array_of("string", items, of_type(name, descriptor))
    assert decoded(data) == [Described(descriptor, each) for each in items]


@given(headers | properties)
def test_the_lists_of_a_message_come_back(value: Any) -> None:
    data = COMPOSITES.encoded(value)
    assert COMPOSITES.read(Reader(data, 0, len(data))) == value


@given(values, st.data())
def test_a_value_that_is_cut_is_malformed(value: Any, data: st.DataObject) -> None:
    whole = encoded(value)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for read in (lambda: decoded(cut), lambda: end_of(cut, 0, len(cut))):
        try:
            read()
        except Malformed:
            continue
        raise AssertionError(cut)


@given(st.binary(max_size=60) | values.map(lambda value: described(b"\x44", encoded(value))))
def test_any_bytes_are_a_value_or_malformed(data: bytes) -> None:
    try:
        value = decoded(data)
    except Malformed:
        return
    assert end_of(data, 0, len(data)) == len(data)
    assert repr(decoded(data)) == repr(value)
