"""The collector looks rarely where states are built, and frees what was built when it is asked."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from daybook.recovery import collector
from daybook.recovery.collector import (
    collected_rarely,
    free_all,
    free_what_was_built,
    keep_what_was_built,
)


class Ring:
    """An object that only the collector frees."""

    def __init__(self) -> None:
        self.other = self


@pytest.fixture
def collecting() -> Iterator[None]:
    """Let the collector work as in a program, with the objects of all tests out of its way."""
    was, thresholds = gc.isenabled(), gc.get_threshold()
    gc.freeze()
    gc.enable()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    if not was:
        gc.disable()


@pytest.mark.usefixtures("collecting")
def test_the_collector_looks_rarely_while_a_state_is_built() -> None:
    gc.set_threshold(700, 10, 10)
    gc.collect()
    before = [each["collections"] for each in gc.get_stats()]
    with collected_rarely():
        assert gc.get_threshold() == (collector.YOUNG, collector.YOUNG_ROUNDS, 10)
        kept = [Ring() for _ in range(collector.YOUNG // 4)]
        assert [each["collections"] for each in gc.get_stats()] == before
    assert gc.get_threshold() == (700, 10, 10)
    assert kept


@pytest.mark.usefixtures("collecting")
def test_a_collector_that_looks_even_more_rarely_is_left_so() -> None:
    gc.set_threshold(1_000_000, 500, 7)
    with collected_rarely():
        assert gc.get_threshold() == (1_000_000, 500, 7)
    assert gc.get_threshold() == (1_000_000, 500, 7)


@pytest.mark.usefixtures("collecting")
def test_what_was_built_is_freed_at_once_and_older_things_only_with_all() -> None:
    gc.set_threshold(collector.YOUNG, collector.YOUNG_ROUNDS, 10)
    old = weakref.ref(keep := Ring())
    gc.collect()
    new = weakref.ref(Ring())
    del keep
    free_what_was_built()
    assert new() is None
    assert old() is not None
    free_all()
    assert old() is None


@pytest.mark.usefixtures("collecting")
def test_what_is_kept_is_looked_at_no_more_until_all_is_freed() -> None:
    ring = weakref.ref(keep := Ring())
    keep_what_was_built()
    count = gc.get_freeze_count()
    assert count > 1000
    del keep
    gc.collect()
    assert ring() is not None
    free_all()
    assert ring() is None
    assert gc.get_freeze_count() > 1000


@pytest.mark.usefixtures("collecting")
def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    gc.unfreeze()
    ring = weakref.ref(Ring())
    free_what_was_built()
    keep_what_was_built()
    free_all()
    assert ring() is not None
    assert not gc.get_freeze_count()


@pytest.mark.usefixtures("collecting")
def test_a_process_that_works_looks_rarely_at_what_it_makes_and_never_at_what_it_imported() -> None:
    gc.unfreeze()
    collector.begin_work()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold() == (collector.YOUNG, *collector.WORKING_ROUNDS)


@pytest.mark.usefixtures("collecting")
def test_the_collector_looks_as_before_where_a_state_cannot_be_built() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(MemoryError), collected_rarely():
        raise MemoryError
    assert gc.get_threshold() == (700, 10, 10)
