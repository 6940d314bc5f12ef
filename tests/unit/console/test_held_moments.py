"""States of the past that a worker of the console keeps: a later one begins with an earlier one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from daybook.console.jobs import history
from daybook.engine.state.digest import digest
from daybook.recovery import moments
from daybook.recovery.moments import Course, course_at
from tests.support.histories import some_history, write_history
from tests.support.world import fold

EVENTS = some_history(3, 120)
CUTS = range(10, len(EVENTS), 10)


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(write_history(tmp_path / "data", EVENTS, cuts=CUTS))


@pytest.fixture
def begins(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The events that folds begin after, in their order; nothing is kept in memory before."""
    found: list[int] = []

    @contextmanager
    def watched(*arguments: Any, **options: Any) -> Iterator[Course]:
        with course_at(*arguments, **options) as course:
            found.append(course.index.lsn)
            yield course

    monkeypatch.setattr(moments, "FEW_EVENTS", 0)
    monkeypatch.setattr(history, "course_at", watched)
    held = history._Held()
    monkeypatch.setattr(history, "_held", held)
    yield found
    close(held)


def close(held: history._Held) -> None:
    for each in held._open.values():
        each.opened.close()


def held_digest(data: str, lsn: int) -> str:
    return digest(history._held.state(data, lsn))


def test_two_moments_are_folded_once(data: str, begins: list[int]) -> None:
    told = history.compare(data, 43, 217)
    assert begins == [0, 40]
    again = history._Held()
    for lsn in (43, 217):
        assert digest(again.state(data, lsn)) == held_digest(data, lsn)
        assert held_digest(data, lsn) == digest(fold(EVENTS[:lsn]))
    close(again)
    assert history.compare(data, 43, 217) == told


def test_a_comparison_drops_all_others_at_once(
    data: str, begins: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = []
    monkeypatch.setattr(history, "free_all", lambda: freed.append(list(history._held._open)))
    for lsn in (60, 160):
        held_digest(data, lsn)
    history.compare(data, 43, 217)
    assert freed == [[]]
    assert list(history._held._open) == [(data, 43), (data, 217)]
    count = len(begins)
    history.compare(data, 43, 217)
    assert len(begins) == count
    assert len(freed) == 1


def test_a_step_folds_what_happened_in_it_and_a_step_back_all(data: str, begins: list[int]) -> None:
    for lsn in (100, 101, 109, 110, 160, 60, 61):
        assert held_digest(data, lsn) == digest(fold(EVENTS[:lsn]))
    assert begins == [0, 100, 100, 100, 110, 0, 60]
    # The last two are still there.
    assert held_digest(data, 60) == digest(fold(EVENTS[:60]))
    assert len(begins) == 7


def test_few_events_need_no_fold_of_an_index(
    data: str, begins: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    held_digest(data, 100)
    monkeypatch.setattr(moments, "FEW_EVENTS", 30)
    for lsn in (121, 130, 131):
        assert held_digest(data, lsn) == digest(fold(EVENTS[:lsn]))
    assert [each.reached.lsn for each in history._held._open.values()] == [100, 130]
    monkeypatch.setattr(moments, "FEW_BYTES", 0)
    assert held_digest(data, 141) == digest(fold(EVENTS[:141]))
    assert begins == [0, 100, 100, 100, 130]


def test_a_moment_of_another_journal_is_no_place_to_begin_at(
    data: str, begins: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither beside it, nor where it has taken the place of the one before."""
    others = some_history(4, 120)
    other = str(write_history(tmp_path / "other", others, cuts=CUTS, data_id=b"another journal!"))
    held_digest(data, 100)
    assert held_digest(other, 120) == digest(fold(others[:120]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").symlink_to(data)
    held_digest("here", 100)
    (tmp_path / "here").unlink()
    (tmp_path / "here").symlink_to(other)
    assert held_digest("here", 150) == digest(fold(others[:150]))
    assert begins == [0, 0, 0, 0]
