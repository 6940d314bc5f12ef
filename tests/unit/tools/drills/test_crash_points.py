"""`daybook drill crash-points`: finds nothing in a sound release, and each planted mistake."""

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.engine.facts import events
from daybook.engine.facts.events import DELIVERY_COUNT, FLAGS, Row
from daybook.engine.state import apply
from daybook.engine.state.state import State
from daybook.journal import journal as journals
from daybook.journal.disk import RealDisk
from daybook.journal.segments import repair, segment
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import Behind, data_id_of
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery import directory as recoveries
from daybook.recovery.fold import fold_block
from daybook.tools import daybook
from daybook.tools.drills.command import TAIL_NAMES
from daybook.tools.drills.crash_points import rehearsal
from daybook.tools.drills.crash_points.drill import Asked, run
from daybook.tools.drills.crash_points.reckoning import Reckoning
from daybook.tools.drills.crash_points.tails import TAILS
from daybook.tools.drills.reports.report import Report
from tests.support.compiled import replaces_parts
from tests.support.histories import some_history, write_history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of several segments."""
    path = tmp_path_factory.mktemp("history") / "data"
    return write_history(path, some_history(3, 700), segment_bytes=1 << 15)


def rehearse(history: Path, *tails: str, points: int = 5, at: str = "") -> Report:
    asked = Asked(history, points, 11, 5.0, 1, tails or TAIL_NAMES, at)
    return run(asked)


def test_the_command_knows_all_tails() -> None:
    assert tuple(TAILS) == TAIL_NAMES


def test_a_sound_release_keeps_all_promises(history: Path) -> None:
    before = {path: path.read_bytes() for path in history.rglob("*") if path.is_file()}
    report = rehearse(history, points=6)
    assert report.findings == []
    assert report.right
    assert all(each.count for each in report.tried), report.tried
    assert report.spreads[0].count > 40
    after = {path: path.read_bytes() for path in history.rglob("*") if path.is_file()}
    assert {p: c for p, c in after.items() if p.suffix != ".pin"} == before


Plant = Callable[[pytest.MonkeyPatch], object]


def _believes_any_block(patch: pytest.MonkeyPatch) -> None:
    """Checksums of frames are not compared, and rows that cannot be read are empty."""
    patch.setattr(segment, "frame_crc", _Anything)


class _Anything(int):
    def __new__(cls, frame: bytes) -> "_Anything":
        return super().__new__(cls, 0)

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _cuts_a_whole_block(patch: pytest.MonkeyPatch) -> None:
    """The last block counts as torn although it is whole."""
    real = journals.find_tail

    def find_tail(segment: Any, *given: Any, **named: Any) -> Any:
        found = segment.block_at

        def block_at(offset: int, **flags: Any) -> Any:
            block = found(offset, **flags)
            if offset > segment.first_offset:
                found(offset + block.header.block_bytes, **flags)
            return block

        segment.block_at = block_at
        return real(segment, *given, **named)

    patch.setattr(journals, "find_tail", find_tail)


def _ignores_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    real = journals.find_tail
    patch.setattr(
        journals, "find_tail", lambda segment, codec, known, **more: real(segment, codec, 0, **more)
    )


def _ignores_what_follows(patch: pytest.MonkeyPatch) -> None:
    real = repair.look_behind
    patch.setattr(
        repair, "look_behind", lambda *given: Behind(0, real(*given).end)
    )  # fmt: skip


def _misses_the_successor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journals, "reserve_is_begun", lambda disk: True)


def _leaves_the_torn_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(repair, "_overwrite_with_zeros", lambda *given: None)


def _changed(kind: int, change: Callable[[Row], Row | None]) -> Plant:
    """Apply events of a kind to recovered states otherwise; the fold to compare with is right."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = apply.APPLY[kind]

        def wrong(state: State, lsn: int, row: Row, *rest: bytes) -> None:
            changed = change(row)
            if changed is not None:
                real(state, lsn, changed, *rest)

        patch.setitem(apply.APPLY, kind, wrong)

    return plant


def _with(row: Row, column: int, value: int) -> Row:
    return (*row[:column], value, *row[column + 1 :])  # type: ignore[return-value]


def _folds_too_little(patch: pytest.MonkeyPatch) -> None:
    real = recoveries.fold_block
    patch.setattr(
        recoveries, "fold_block",
        lambda block, state: real(block, state, block.last_lsn - 1) and block.last_lsn,
    )  # fmt: skip


def _forgets_flags_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """The first command of the broker gives back what was in flight as if never delivered."""
    real = rehearsal.Broker.handle

    def handle(self: Any, command: Any, now: int) -> Any:
        answer = real(self, command, now)
        for queue in self.state.queues.values():
            for entry in queue.entries.values():
                entry.redelivered, entry.delivery_count = False, 0
        return answer

    patch.setattr(rehearsal.Broker, "handle", handle)


PLANTS: list[tuple[str, Plant, tuple[str, ...], set[str]]] = [
    ("cuts a whole block", _cuts_a_whole_block, ("whole",), {"P8"}),
    ("believes any block", _believes_any_block, ("garbage", "sector"), {"P8", "bug"}),
    ("ignores the checkpoint", _ignores_the_checkpoint, ("proven",), {"P8"}),
    ("ignores what follows damage", _ignores_what_follows, ("rotten",), {"P8"}),
    ("misses that a segment is gone", _misses_the_successor, ("no-successor",), {"P8"}),
    ("leaves torn bytes behind", _leaves_the_torn_bytes, ("garbage", "reordered"), {"P7", "P8"}),
    ("loses acknowledgements", _changed(events.ACKNOWLEDGED, lambda row: None), ("whole",),
     {"P1", "P8"}),
    ("loses delivery counts",
     _changed(events.DELIVERED, lambda row: _with(row, DELIVERY_COUNT, 0)), ("whole",),
     {"P5", "P8"}),
    ("takes all messages for transient", _changed(events.ROUTED, lambda row: _with(row, FLAGS, 0)),
     ("whole",), {"P2"}),
    ("folds too little", _folds_too_little, ("nothing",), {"P1", "P2", "P5", "P8", "bug"}),
    ("forgets that it delivered", _forgets_flags_at_the_start, ("nothing",), {"P5"}),
]  # fmt: skip


@replaces_parts
@pytest.mark.parametrize(
    ("plant", "tails", "promises"), [each[1:] for each in PLANTS], ids=[each[0] for each in PLANTS]
)
def test_a_planted_mistake_is_found(
    history: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Plant,
    tails: tuple[str, ...],
    promises: set[str],
) -> None:
    plant(monkeypatch)
    report = rehearse(history, *tails, points=30 if tails == ("no-successor",) else 4)
    assert not report.right
    assert {each.promise for each in report.findings} & promises, report.findings
    assert any(each.again for each in report.findings), report.findings


def reckoned(history: Path) -> tuple[Reckoning, State]:
    """The promises to clients by the end of a history, and the state there."""
    reckoning, state = Reckoning(State()), State()
    for block in read_blocks(RealDisk(history / "journal"), LAYOUT):
        reckoning.follow(block)
        fold_block(block, state)
    return reckoning, state


def _lose(queue: Any, entry: Any) -> None:
    del queue.entries[entry.message.id]


def _miscount(queue: Any, entry: Any) -> None:
    entry.delivery_count += 1


def _take(queue: Any, entry: Any) -> None:
    entry.consumer = None


@pytest.mark.parametrize(
    ("tamper", "promise"), [(None, ""), (_lose, "P1"), (_miscount, "P5"), (_take, "P5")]
)
def test_the_reckoning_contradicts_a_state_that_is_wrong(
    history: Path, tamper: Callable[[Any, Any], None] | None, promise: str
) -> None:
    reckoning, state = reckoned(history)
    for queue in state.queues.values() if tamper is not None else ():
        for entry in list(queue.entries.values()):
            tamper(queue, entry)  # type: ignore[misc]
    found = reckoning.contradictions(state, random.Random(1))
    assert {each.promise for each in found} == ({promise} if promise else set())


def test_the_reckoning_knows_what_had_left(history: Path) -> None:
    reckoning, state = reckoned(history)
    one = next(queue for queue in state.queues.values() if queue.entries)
    entry = next(iter(one.entries.values()))
    for queue, message in list(reckoning._gone):
        state.queues[queue].entries[message] = entry
    found = reckoning.contradictions(state, random.Random(1))
    assert any("it had left" in each.what for each in found), found


def test_a_finding_is_found_again_alone(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ignores_the_checkpoint(monkeypatch)
    found = rehearse(history, "proven", points=4).findings[0]
    words = found.again.split()
    assert words[:4] == ["daybook", "drill", "crash-points", str(history)]
    place, tail = words[words.index("--at") + 1], words[words.index("--tail") + 1]
    again = rehearse(history, tail, at=place).findings
    assert [(each.what, each.where) for each in again] == [(found.what, found.where)]


def test_a_tail_that_cannot_be_is_not_tried(history: Path) -> None:
    report = rehearse(history, "inside", "no-successor", points=1)
    assert [each.what.partition(":")[0] for each in report.tried] == ["inside"]
    assert any(each.startswith("no-successor: ") for each in report.could_not)
    assert report.extent == "1 trial of 1 kind"


def drill(*arguments: object) -> Result:
    words = ["drill", "crash-points", *map(str, arguments)]
    return CliRunner().invoke(daybook.cli, words)


def test_the_report_is_written_whole(history: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "drill.html"
    done = drill(history, "--points", 2, "--tail", "inside", "--seed", 5, "--jobs", 2,
                 "--report", page, "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(page.with_suffix(".json").read_text("utf-8"))
    assert told == json.loads(done.output)
    assert told["right"]
    assert told["seed"] == 5
    assert [each["count"] for each in told["tried"]] == [2]
    text = page.read_text("utf-8")
    assert "No faults found" in text
    assert "<svg" in text
    assert "<script" not in text
    assert "http" not in text
    assert sorted(path.name for path in page.parent.iterdir()) == ["drill.html", "drill.json"]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_report_that_cannot_be_written_does_not_cost_the_result(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    def write_bytes(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    page = tmp_path / "drill.html"
    done = drill(history, "--points", 1, "--tail", "inside", "--jobs", 1, "--report", page, *flags)
    assert done.exit_code == 1
    assert ('"right": true' if flags else "no faults") in done.output
    assert f"{page}: No space left on device" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_drill_without_time_has_not_passed(history: Path) -> None:
    done = drill(history, "--minutes", 0.0000001, "--jobs", 1)
    assert done.exit_code == 1
    assert "nothing was tried" in done.output
    assert "--minutes" in done.output


def test_damage_of_the_journal_itself_is_said(history: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data" / "journal"
    copy.mkdir(parents=True)
    for path in (history / "journal").iterdir():
        copy.joinpath(path.name).write_bytes(path.read_bytes())
    chance = random.Random(1)
    first = sorted(copy.glob("*.seg"))[0]
    content = bytearray(first.read_bytes())
    content[chance.randrange(8000, 9000)] ^= 8
    first.write_bytes(content)
    done = drill(tmp_path / "data", "--points", 40, "--jobs", 2)
    assert done.exit_code == 1
    assert first.name in done.output
    assert "Traceback" not in done.output


def copied(history: Path, target: Path) -> Path:
    shutil.copytree(history, target)
    return target


def _without_the_last_segment(data: Path) -> None:
    sorted((data / "journal").glob("*.seg"))[-1].unlink()


def _with_a_foreign_id(data: Path) -> None:
    (data / "data-id").write_text("0" * 32 + "\n")


@pytest.mark.parametrize("harm", [_without_the_last_segment, _with_a_foreign_id])
@pytest.mark.parametrize("name", ["crash-points", "bit-rot"])
def test_a_directory_on_which_no_broker_starts_is_refused(
    history: Path, tmp_path: Path, harm: Callable[[Path], None], name: str
) -> None:
    data = copied(history, tmp_path / "data")
    harm(data)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    done = CliRunner().invoke(daybook.cli, ["drill", name, str(data)])
    assert done.exit_code == 1
    assert f"no broker starts on {data}" in done.output
    assert "no faults" not in done.output
    assert {p: p.read_bytes() for p in data.rglob("*") if p.suffix != ".pin" and p.is_file()} == {
        path: content for path, content in before.items() if path.suffix != ".pin"
    }


def test_a_journal_that_ends_before_the_index_is_refused(history: Path, tmp_path: Path) -> None:
    data = copied(history, tmp_path / "data")
    disk = RealDisk(data / "journal")
    blocks = [(each.segment, each.offset, each.last_lsn) for each in read_blocks(disk, LAYOUT)]
    segment, offset, last = blocks[-1]
    index = Index(data / "index", data_id_of(disk))
    for batch in batches(disk, 0, last):
        index.advance(batch)
    index.close()
    path = data / "journal" / segment
    content = path.read_bytes()
    path.write_bytes(content[:offset] + bytes(len(content) - offset))
    done = drill(data, "--points", 1)
    assert done.exit_code == 1
    assert f"no broker starts on {data}" in done.output
    assert str(last) in done.output


def test_bad_use(history: Path, tmp_path: Path) -> None:
    assert drill(history, "--tail", "sideways").exit_code == 2
    assert drill(history, "--points", 0).exit_code == 2
    missing = drill(tmp_path / "nothing")
    assert missing.exit_code == 1
    assert "not a data directory" in missing.output
    far = drill(history, "--at", 999_999_999)
    assert far.exit_code == 1
    assert "no block has event 999999999" in far.output
