"""A salvage with an archive takes its whole segments, if hashes prove that they belong."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daybook.history.verification.verification import verify_data
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.format import manifest_name
from daybook.journal.data_directory import BASE, INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.directory import open_directory
from daybook.recovery.salvage.salvage import salvage
from daybook.recovery.salvage.salvage_report import Report
from tests.support.histories import HISTORY_ID, some_history, write_history

EVENTS = some_history(23, 300)
OTHERS = some_history(24, 300)


def segments(data: Path) -> list[Path]:
    return [data / JOURNAL / name for name in segment_names(RealDisk(data / JOURNAL))]


def archived(data: Path, archive: Path) -> Path:
    disk = RealDisk(data / JOURNAL)
    for name in segment_names(disk)[:-1]:
        Archive(str(archive)).put(disk, name, now=1)
    return archive


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal and its archive, and those of another history with the same data id."""
    folder = tmp_path_factory.mktemp("made")
    for name, events in (("data", EVENTS), ("other", OTHERS)):
        cuts = range(10, len(events), 10)
        write_history(folder / name, events, segment_bytes=1 << 13, cuts=cuts)
        archived(folder / name, folder / f"archive-{name}")
    assert len(segments(folder / "data")) > 6
    return folder


@pytest.fixture
def scene(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def events_in(data: Path) -> list[Any]:
    return [
        event for block in read_blocks(RealDisk(data / JOURNAL), LAYOUT) for event in block.events()
    ]


def salvaged(scene: Path, archive: str = "archive-data") -> Report:
    """Salvage; nothing but the target is changed, and a broker can start on that."""
    before = contents(scene)
    report = salvage(
        scene / "data", scene / "made", archive=Archive(str(scene / archive)), note=lambda _: None
    )
    made = scene / "made"
    assert {k: v for k, v in contents(scene).items() if not k.startswith(f"{made}/")} == before
    assert not list(scene.glob(".*"))
    verdict = verify_data(RealDisk(made / JOURNAL), lambda _: None, base=made / BASE)
    assert verdict.ok, (verdict.wrong, verdict.report.faults)
    open_directory(made, indexers=ThreadIndexers()).close()
    return report


def flip(path: Path, at: int = 3000) -> None:
    changed = bytearray(path.read_bytes())
    changed[at] ^= 4
    path.write_bytes(changed)


def one_bit(data: Path) -> list[str]:
    flip(segments(data)[3])
    return [segments(data)[3].name]


def a_header(data: Path) -> list[str]:
    flip(segments(data)[2], 20)
    return [segments(data)[2].name]


def garbage(data: Path) -> list[str]:
    path = segments(data)[4]
    path.write_bytes(bytes(range(256)) * (path.stat().st_size // 256))
    return [path.name]


def missing(data: Path) -> list[str]:
    gone = segments(data)[2:5]
    for path in gone:
        path.unlink()
    return [path.name for path in gone]


def the_first(data: Path) -> list[str]:
    gone = segments(data)[:2]
    for path in gone:
        path.unlink()
    return [path.name for path in gone]


def neighbours(data: Path) -> list[str]:
    """One is gone, and the blocks beside it are damaged."""
    before, path, behind = segments(data)[2:5]
    flip(before)
    flip(behind)
    path.unlink()
    return [before.name, path.name, behind.name]


DAMAGES = (one_bit, a_header, garbage, missing, the_first, neighbours)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_what_is_whole_in_the_archive_is_not_lost(
    scene: Path, damage: Callable[[Path], list[str]]
) -> None:
    whole = events_in(scene / "data")
    names = damage(scene / "data")
    report = salvaged(scene)
    assert [each.segment for each in report.from_archive] == names
    assert report.is_whole, (report.gaps, report.notes)
    assert events_in(scene / "made")[:-1] == whole
    for each in report.from_archive:
        assert each.why
        assert "hash" in each.proof or "sound blocks" in each.proof


def test_the_newest_segments_come_from_the_archive_too(scene: Path) -> None:
    *_, before, newest = segments(scene / "data")
    lost = int(newest.stem)
    before.unlink()
    newest.unlink()
    report = salvaged(scene)
    (taken,) = report.from_archive
    assert taken.segment == before.name
    assert "there is no segment behind it" in taken.proof
    # The newest segment was never archived: the report still says that something followed.
    assert report.last_lsn == lost - 1
    assert [gap.first_lsn for gap in report.gaps] == [lost]


def test_an_archive_of_another_history_is_not_used(scene: Path) -> None:
    """The data id is the same, as after a restored backup; only the hashes tell."""
    missing(scene / "data")
    one_bit(scene / "data")
    report = salvaged(scene, "archive-other")
    assert not report.from_archive
    assert report.gaps
    refused = [text for text in report.notes if "of the archive is not used" in text]
    assert refused
    assert all("another" in text or "no hash" in text or "history" in text for text in refused)


def test_a_history_that_diverges_after_the_source_is_not_used(scene: Path) -> None:
    """Segments that continue the source are refused if what follows them is not the source's."""
    third = int(segments(scene / "data")[3].stem)
    branch = [
        event._replace(row=(*event.row[:-1], event.row[-1] + 1)) if lsn >= third else event
        for lsn, event in enumerate(EVENTS, 1)
    ]
    cuts = range(10, len(branch), 10)
    write_history(scene / "branch", branch, segment_bytes=1 << 13, cuts=cuts)
    archived(scene / "branch", scene / "archive-branch")
    for path in segments(scene / "data")[3:5]:
        path.unlink()
    report = salvaged(scene, "archive-branch")
    assert not report.from_archive
    assert len(report.gaps) == 1
    first = segments(scene / "branch")[3].name
    assert first == f"{third:020}.seg", "it continues the source, and that alone proves nothing"
    (why,) = (text for text in report.notes if first in text)
    assert "the next segment is not of this history" in why


@pytest.mark.parametrize("which", ["segment", "manifest", "both gone"])
def test_a_damaged_archive_lends_what_is_left(scene: Path, which: str) -> None:
    names = missing(scene / "data")
    path = scene / "archive-data" / names[1]
    if which == "segment":
        flip(path)
    elif which == "manifest":
        (scene / "archive-data" / manifest_name(names[1])).write_bytes(b"{")
    else:
        path.unlink()
        (scene / "archive-data" / manifest_name(names[1])).unlink()
    report = salvaged(scene)
    assert [each.segment for each in report.from_archive] == [names[0], names[2]]
    (gap,) = report.gaps
    assert f"{gap.first_lsn:020}.seg" == names[1]
    assert any(names[1] in text for text in report.notes) == (which != "both gone")


def test_a_manifest_that_lies_is_found(scene: Path) -> None:
    (name, *_) = missing(scene / "data")
    path = scene / "archive-data" / manifest_name(name)
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"last_hash": "00" * 16}))
    report = salvaged(scene)
    assert name not in [each.segment for each in report.from_archive]
    assert any("its manifest does not agree" in text for text in report.notes)


def test_the_archive_of_another_broker_is_named(scene: Path) -> None:
    missing(scene / "data")
    for path in (scene / "archive-data").glob("*.json"):
        path.write_text(path.read_text().replace(HISTORY_ID.hex(), "ab" * 16))
    report = salvaged(scene)
    assert not report.from_archive
    assert any(f"is of data directory {'ab' * 16}" in text for text in report.notes)


def test_a_state_proves_the_newest_segments(scene: Path) -> None:
    """The index knows the hash of a block that the source has lost."""
    data = scene / "data"
    index = Index(data / INDEX, HISTORY_ID)
    end = int(segments(data)[-1].stem) - 1
    for batch in batches(RealDisk(data / JOURNAL), 0, end):
        index.advance(batch)
    index.close()
    for path in segments(data)[-2:]:
        path.unlink()
    report = salvaged(scene)
    (taken,) = report.from_archive
    assert "a sound state of the source" in taken.proof
