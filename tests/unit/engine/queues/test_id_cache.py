"""The last ids: those remembered, those that leave first, and those that cannot have been."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.queues.id_cache import KEY_BYTES, IdCache, key_of


def keys(*numbers: int) -> list[bytes]:
    return [key_of(str(number)) for number in numbers]


def filled(count: int, size: int) -> IdCache:
    ids = IdCache()
    for key in keys(*range(count)):
        ids.add(key, size)
    return ids


def test_a_key_is_short_whatever_the_id_is() -> None:
    assert len(key_of("")) == len(key_of("x" * 100_000)) == KEY_BYTES
    assert key_of("a") == key_of("a") != key_of("A")
    assert key_of("\N{SNOWMAN}\udc80") != key_of("\N{SNOWMAN}")


def test_the_oldest_leave_first() -> None:
    ids = filled(5, 3)
    assert ids.newest(9) == keys(2, 3, 4)
    assert ids.newest(2) == keys(3, 4)
    assert ids.newest(0) == []
    assert ids.joined() == b"".join(keys(2, 3, 4))
    assert (ids.count, ids.first, ids.recorded) == (3, 2, 5)
    assert [ids.has(key) for key in keys(1, 2, 4, 5)] == [False, True, True, False]


def test_what_left_may_come_again() -> None:
    ids = filled(4, 3)
    ids.add(key_of("0"), 3)
    assert ids.newest(9) == keys(2, 3, 0)
    assert ids.is_sound()


def test_another_size_takes_effect_at_once() -> None:
    ids = filled(5, 5)
    ids.resize(7)
    assert ids.count == 5
    ids.resize(2)
    assert ids.newest(9) == keys(3, 4)
    ids.resize(0)
    assert (ids.count, ids.first, ids.recorded) == (0, 5, 5)
    ids.add(key_of("x"), 0)
    assert (ids.count, ids.recorded) == (0, 6)


def test_numbers_go_on_when_all_are_forgotten() -> None:
    ids = filled(3, 5)
    ids.clear()
    assert (ids.count, ids.first, ids.recorded) == (0, 3, 3)
    assert not ids.has(key_of("1"))
    ids.add(key_of("1"), 5)
    assert (ids.first, ids.newest(9)) == (3, keys(1))


def test_it_is_restored_as_it_was() -> None:
    ids = IdCache()
    ids.restore(7, keys(1, 2, 3))
    assert (ids.count, ids.first, ids.recorded) == (3, 4, 7)
    assert ids.has(key_of("2"))
    ids.add(key_of("4"), 3)
    assert ids.newest(9) == keys(2, 3, 4)


@pytest.mark.parametrize(("recorded", "numbers"), [(2, (1, 2, 3)), (9, (1, 2, 1))])
def test_what_cannot_have_been_is_refused(recorded: int, numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="twice, or more ids than ever came"):
        IdCache().restore(recorded, keys(*numbers))


@given(st.lists(st.integers(-3, 12), max_size=60))
def test_it_is_a_list_of_the_last_ones(steps: list[int]) -> None:
    """Against the plainest model: -3 clears, -2 and -1 change the size, the rest are ids."""
    ids, model, size, recorded = IdCache(), list[int](), 4, 0
    for step in steps:
        if step == -3:
            ids.clear()
            model.clear()
        elif step < 0:
            size = (4 + step) % 5
            ids.resize(size)
        elif not ids.has(key_of(str(step))):
            assert step not in model
            ids.add(key_of(str(step)), size)
            model.append(step)
            recorded += 1
        del model[: max(0, len(model) - size)]
        assert ids.newest(99) == keys(*model)
        assert (ids.count, ids.recorded) == (len(model), recorded)
        assert ids.is_sound()
