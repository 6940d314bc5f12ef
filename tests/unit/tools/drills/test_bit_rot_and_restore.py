"""`daybook drill bit-rot` and `restore`: pass on sound ones, and find each planted mistake.

The broker is one without a process; `tests/crash/test_drills.py` has real ones.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from daybook.history.event_finder import EventFinder
from daybook.history.verification.catalog_verification import wrong_catalogs
from daybook.journal.archive.archive import Archive
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.recovery import directory as recoveries
from daybook.tools import daybook, journal_cli
from daybook.tools.drills import bit_rot, restore
from daybook.tools.drills.reports.report import Report
from daybook.tools.drills.scratch.broker import BrokerTrouble, DrillBroker
from tests.support.brokers.quick_broker import QuickBroker
from tests.support.histories import some_history, write_history


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bit_rot, "DrillBroker", QuickBroker)
    monkeypatch.setattr(restore, "DrillBroker", QuickBroker)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "data"
    return write_history(path, some_history(4, 300), segment_bytes=1 << 13)


@pytest.fixture
def archive(history: Path, tmp_path: Path) -> Path:
    """All sealed segments of the history."""
    archived = Archive(str(tmp_path / "archive"))
    disk = RealDisk(history / "journal")
    for name in segment_names(disk)[:-1]:
        archived.put(disk, name, now=1)
    return tmp_path / "archive"


def rot(history: Path, flips: int = 4) -> Report:
    return bit_rot.run(bit_rot.Asked(history, None, flips, 5.0, 3))


def test_bits_of_a_sound_release(history: Path) -> None:
    before = {path: path.read_bytes() for path in history.rglob("*") if path.is_file()}
    report = rot(history, 9)
    assert report.findings == []
    assert report.right
    assert [each.count for each in report.tried] == [3, 3, 3]
    after = {path: path.read_bytes() for path in history.rglob("*") if path.is_file()}
    assert {path: text for path, text in after.items() if path.suffix != ".pin"} == before


def _verifies_nothing(patch: pytest.MonkeyPatch) -> None:
    real = bit_rot.verify_data

    def verify(*given: Any, **named: Any) -> Any:
        verdict = real(*given, **named)
        verdict.report.faults.clear()
        verdict.wrong.clear()
        return verdict

    patch.setattr(bit_rot, "verify_data", verify)


def _takes_any_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recoveries, "why_foreign", lambda *given: "")


def _fails_with_a_traceback(patch: pytest.MonkeyPatch) -> None:
    real = recoveries.why_foreign

    def why_foreign(*given: Any) -> str:
        assert not real(*given)
        return ""

    patch.setattr(recoveries, "why_foreign", why_foreign)


def _says_no_reason(patch: pytest.MonkeyPatch) -> None:
    real = QuickBroker.start

    def start(self: QuickBroker) -> float:
        try:
            return real(self)
        except BrokerTrouble:
            self.log.write_text("")
            raise BrokerTrouble("the broker did not start") from None

    patch.setattr(QuickBroker, "start", start)


def _serves_another_state(patch: pytest.MonkeyPatch) -> None:
    """Wherever the index was rebuilt, messages are missing."""
    real = recoveries.fold_journal
    starts: list[int] = []

    def fold_journal(disk: Any, last_lsn: int, state: Any, *rest: Any) -> int:
        found = real(disk, last_lsn, state, *rest)
        starts.append(1)
        for queue in state.queues.values() if len(starts) > 1 else ():
            queue.added += 1
        return found

    patch.setattr(recoveries, "fold_journal", fold_journal)


def test_a_start_that_is_refused_is_said_in_words(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the log of the broker looks like, and wherever the copy lies."""
    monkeypatch.setattr(bit_rot, "DrillBroker", DrillBroker)

    def launch(self: DrillBroker) -> None:
        said = {"event": "the broker cannot start", "why": f"{self.serving.data} is odd"}
        self.log.write_text('{"event":"starting"}\n' + json.dumps(said) + "\nthe end\n")
        self._output.write_text("")

    monkeypatch.setattr(DrillBroker, "launch", launch)
    done = CliRunner().invoke(daybook.cli, ["drill", "bit-rot", str(history)])
    assert done.exit_code == 1
    assert f"no broker starts on {history} as it is" in done.output
    assert f"{history} is odd" in done.output
    assert "{" not in done.output
    assert "daybook-drill-" not in done.output


Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    ("plant", "promise"),
    [
        (_verifies_nothing, "P7"),
        (_takes_any_id, "P8"),
        (_fails_with_a_traceback, "bug"),
        (_says_no_reason, "P8"),
        (_serves_another_state, "P2"),
    ],
)
def test_a_planted_mistake_about_bits_is_found(
    history: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, promise: str
) -> None:
    plant(monkeypatch)
    report = rot(history, 3)
    assert not report.right
    assert promise in {each.promise for each in report.findings}, report.findings


@pytest.fixture(scope="module")
def catalogued(history: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history with its catalogs."""
    data = tmp_path_factory.mktemp("catalogued") / "data"
    shutil.copytree(history, data)
    done = CliRunner().invoke(journal_cli.cli, ["catalog", str(data)])
    assert done.exit_code == 0, done.output
    assert list((data / "catalogs").iterdir())
    return data


def test_a_bit_in_a_catalog_changes_no_answer(catalogued: Path) -> None:
    report = rot(catalogued, 8)
    assert report.findings == []
    assert [each.what for each in report.tried if "catalogs" in each.what]


def _believes_any_catalog(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bit_rot, "wrong_catalogs", lambda *given: iter([]))


def _answers_otherwise(patch: pytest.MonkeyPatch) -> None:
    """With a damaged catalog the end of a story is missing."""
    real = bit_rot.follow

    def follow(finder: EventFinder, message: int, data: Path) -> Any:
        told = real(finder, message, data)
        is_wrong = any(wrong_catalogs(data, finder.disk))
        return told._replace(steps=told.steps[:-1]) if is_wrong else told

    patch.setattr(bit_rot, "follow", follow)


@pytest.mark.parametrize(
    ("plant", "promise"), [(_believes_any_catalog, "P7"), (_answers_otherwise, "P6")]
)
def test_a_planted_mistake_about_catalogs_is_found(
    catalogued: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, promise: str
) -> None:
    plant(monkeypatch)
    report = rot(catalogued, 8)
    assert promise in {each.promise for each in report.findings}, report.findings


def rebuild(history: Path, archive: Path) -> Report:
    return restore.run(restore.Asked(Archive(str(archive)), history, None, 1))


def test_an_archive_is_enough(history: Path, archive: Path) -> None:
    report = rebuild(history, archive)
    assert report.findings == []
    assert len(report.tried) == 7
    assert "digest at the last archived event" in report.figures
    assert report.lines[0].points


def test_an_archive_is_enough_without_the_original(tmp_path: Path, archive: Path) -> None:
    report = rebuild(tmp_path / "gone", archive)
    assert report.findings == []
    assert any("comparing with the original" in each for each in report.could_not)


def _objects(archive: Path) -> list[Path]:
    return sorted(archive.glob("*.seg"))


def _loses_a_segment(history: Path, archive: Path) -> None:
    assert len(_objects(archive)) > 2
    for path in archive.glob(f"{_objects(archive)[1].stem}*"):
        path.unlink()


def _is_behind(history: Path, archive: Path) -> None:
    """Segments left the live journal, and not all of them are in the archive."""
    for path in archive.glob(f"{_objects(archive)[-1].stem}*"):
        path.unlink()
    left = segment_names(RealDisk(history / "journal"))[:-1]
    for name in left:
        (history / "journal" / name).unlink()


def _loses_the_first_segment(history: Path, archive: Path) -> None:
    for path in archive.glob(f"{_objects(archive)[0].stem}*"):
        path.unlink()


def _has_a_flipped_bit(history: Path, archive: Path) -> None:
    content = bytearray(_objects(archive)[0].read_bytes())
    content[5000] ^= 1
    _objects(archive)[0].write_bytes(content)


def _is_cut(history: Path, archive: Path) -> None:
    content = _objects(archive)[-1].read_bytes()
    _objects(archive)[-1].write_bytes(content[:-100])


def _is_empty(history: Path, archive: Path) -> None:
    for path in archive.iterdir():
        path.unlink()


def _has_another_manifest(history: Path, archive: Path) -> None:
    manifest = next(path for path in archive.iterdir() if path.suffix != ".seg")
    told = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps(told | {"sha256": "0" * 64}))


@pytest.mark.parametrize(
    "harm",
    [_loses_a_segment, _is_behind, _loses_the_first_segment, _has_a_flipped_bit, _is_cut, _is_empty,
     _has_another_manifest],
)  # fmt: skip
def test_an_archive_that_is_not_enough_is_found(
    history: Path, archive: Path, tmp_path: Path, harm: Callable[[Path, Path], None]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(history, copy)
    harm(copy, archive)
    report = rebuild(copy, archive)
    assert not report.right
    assert report.findings[0].again.startswith("daybook drill restore")


def test_another_original_is_found(tmp_path: Path, archive: Path) -> None:
    other = write_history(tmp_path / "other", some_history(5, 300), segment_bytes=1 << 14)
    report = rebuild(other, archive)
    assert {each.promise for each in report.findings} == {"P2"}


def test_an_archive_is_restored_for_good(tmp_path: Path, archive: Path) -> None:
    target = tmp_path / "restored"
    words = ["archive", "restore", str(target), "--archive", str(archive)]
    done = CliRunner().invoke(journal_cli.cli, words)
    assert done.exit_code == 0, done.output
    opened = recoveries.open_directory(target)
    last_lsn = opened.recovered.events
    opened.close()
    assert f"to {last_lsn}" in done.output
    assert "give it an archive and anchors of its own" in " ".join(done.output.split())
    again = CliRunner().invoke(journal_cli.cli, words)
    assert again.exit_code == 1
    assert "is the data directory of a broker" in again.output


def test_an_interrupted_restore_is_repeated(tmp_path: Path, archive: Path) -> None:
    target = tmp_path / "restored"
    Archive(str(archive)).fetch(_made(target), names=[_objects(archive)[0].name])
    words = ["archive", "restore", str(target), "--archive", str(archive), "--json"]
    assert CliRunner().invoke(journal_cli.cli, words).exit_code == 0
    assert not [path for path in (target / "journal").iterdir() if path.suffix == ".json"]
    recoveries.open_directory(target).close()


def _made(target: Path) -> RealDisk:
    disk = RealDisk(target / "journal")
    disk.create()
    return disk


def test_bad_use(tmp_path: Path, history: Path) -> None:
    def drill(*words: object) -> int:
        return CliRunner().invoke(daybook.cli, ["drill", *map(str, words)]).exit_code

    shutil.copytree(history, tmp_path / "kept")
    assert drill("bit-rot", history, "--flips", 0) == 2
    assert drill("bit-rot", tmp_path / "nothing") == 1
    assert drill("bit-rot", history, "--keep", tmp_path / "kept") == 1
    assert drill("restore", history, "--archive", "") == 2
    assert drill("kill", "--config", tmp_path / "missing.toml") == 2
    assert drill("kill", "--rounds", "many") == 2
    (tmp_path / "wrong.toml").write_text("[broker]\nnonsense = 1\n")
    assert drill("kill", "--config", tmp_path / "wrong.toml") == 2
