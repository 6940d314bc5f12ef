"""The histories that are measured are what a broker would have written, and are made once."""

from collections import Counter
from pathlib import Path

from bench.history import BODY_BYTES, DONE, make_history
from daybook.engine.facts.events import BY_NUMBER, KIND
from daybook.engine.state.invariants import check
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from tests.support.stored.folded import folded_state


def test_a_history_has_all_that_busy_queues_have(tmp_path: Path) -> None:
    data = make_history(tmp_path / "some", 40_000)
    kinds: Counter[str] = Counter()
    bodies = []
    for block in read_blocks(RealDisk(data / "journal")):
        for _, row, _, _, body in block.events():
            kinds[BY_NUMBER[row[KIND]].name] += 1
            bodies += [body] if body else []
    assert sum(kinds.values()) == int((data / DONE).read_text()) >= 40_000
    assert kinds["Routed"] > 10_000
    assert kinds["Acknowledged"] > 10_000
    assert kinds["Returned"] > 100
    assert kinds["DeadLettered"] > 0
    assert {len(body) for body in bodies} == {BODY_BYTES}
    assert len(set(bodies)) > 10_000
    state, lsn = folded_state(data)
    assert lsn == sum(kinds.values())
    assert check(state) == []


def test_it_is_made_once_unless_it_was_cut_short(tmp_path: Path) -> None:
    make_history(tmp_path, 2000)
    (segment,) = (tmp_path / "journal").glob("*.seg")
    made = segment.stat().st_mtime_ns
    make_history(tmp_path, 1000)
    assert segment.stat().st_mtime_ns == made
    (tmp_path / DONE).unlink()
    (tmp_path / "journal" / "remains").touch()
    make_history(tmp_path, 1000)
    assert not (tmp_path / "journal" / "remains").exists()
