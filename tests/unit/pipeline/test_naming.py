"""Names by id, for whole columns at once, and back; also after a pickle's journey."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.pipeline.naming import NO_NAMES, NameTable
from daybook.pipeline.selection import SelectionError

ids = st.integers(1, 12) | st.integers(1, 1 << 32)


@given(st.dictionaries(ids, st.text(max_size=5), max_size=8), st.data())
def test_each_id_has_its_name(names: dict[int, str], data: st.DataObject) -> None:
    known = st.sampled_from([0, *names])
    wanted = data.draw(st.lists(known | ids, max_size=10) | st.lists(known, max_size=10))
    expected = [names.get(number, f"#{number}") if number else None for number in wanted]
    table = NameTable(names)
    for each in (table, copy.copy(table)):
        assert each.encoded(np.array(wanted, np.uint64)).to_pylist() == expected
        # A table can be queried again.
        assert each.encoded(np.array(wanted, np.uint64)).to_pylist() == expected


def test_a_name_may_have_had_several_ids() -> None:
    table = NameTable({7: "a", 3: "b", 5: "a"})
    assert table.ids_of(("a",), "queue").tolist() == [5, 7]
    assert table.ids_of(("a", "b"), "queue").tolist() == [3, 5, 7]
    assert table.ids_of((), "queue").tolist() == []


def test_names_that_nobody_had() -> None:
    with pytest.raises(
        SelectionError, match=r"^history has no queue 'ordrs'; did you mean 'orders'\?$"
    ):
        NameTable({1: "orders"}).ids_of(("ordrs",), "queue")
    with pytest.raises(SelectionError, match=r"^history has no address 'x'$"):
        NO_NAMES.addresses.ids_of(("x",), "address")
