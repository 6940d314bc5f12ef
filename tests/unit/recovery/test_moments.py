"""The state at a past event: however building it ends, the process is as it was before."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.engine.state.digest import digest
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.recovery import moments
from daybook.recovery.collector import YOUNG
from daybook.recovery.moments import course_at
from tests.support.histories import some_history, write_history
from tests.support.world import fold

EVENTS = some_history(3, 120)
LOOKS = (700, 10, 10)
"""How often the collector looks, before and afterwards."""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    before = gc.get_threshold()
    gc.set_threshold(*LOOKS)
    yield write_history(tmp_path / "data", EVENTS, cuts=range(10, len(EVENTS), 10))
    gc.set_threshold(*before)


@pytest.mark.parametrize("few", [0, moments.FEW_EVENTS], ids=["folded", "applied"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_collector_looks_rarely_only_while_a_state_is_built(
    data: Path, monkeypatch: pytest.MonkeyPatch, few: int, fails: bool
) -> None:
    meanwhile: list[int] = []
    plain = moments.fold_block

    def watched(*arguments: object) -> None:
        meanwhile.append(gc.get_threshold()[0])
        if fails:
            raise MemoryError
        plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(moments, "FEW_EVENTS", few)
    monkeypatch.setattr(moments, "fold_block", watched)
    disk = RealDisk(data / JOURNAL)
    with course_at(data, disk, 43, note=lambda _: None) as course:
        if fails:
            with pytest.raises(MemoryError), course.state_at(43):
                pass
        else:
            with course.state_at(43) as state:
                assert gc.get_threshold() == LOOKS
                assert digest(state) == digest(fold(EVENTS[:43]))
    assert set(meanwhile) == {YOUNG}
    assert gc.get_threshold() == LOOKS


def test_the_collector_looks_as_before_where_the_fold_of_an_index_fails(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        assert gc.get_threshold()[0] == YOUNG
        raise OSError("no space left on device")

    monkeypatch.setattr(moments, "FEW_EVENTS", 0)
    monkeypatch.setattr(moments, "folded", full)
    disk = RealDisk(data / JOURNAL)
    with (
        course_at(data, disk, 43, note=lambda _: None) as course,
        pytest.raises(OSError, match="no space"),
        course.state_at(43),
    ):
        pass
    assert gc.get_threshold() == LOOKS
