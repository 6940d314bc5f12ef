"""Archived snapshots: right or passed over, and they hold nothing back."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import NamedTuple

import msgspec
import pytest
from click.testing import CliRunner

from daybook.engine.state.digest import digest
from daybook.journal.archive import snapshots as shelf
from daybook.journal.archive.archive import Archive
from daybook.journal.archive.snapshots import ArchivedSnapshots, decode_entry
from daybook.journal.archive.store import LocalStore
from daybook.journal.blocks.format import manifest_name, snapshot_name
from daybook.journal.data_directory import JOURNAL, SNAPSHOTS, TABLES
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError
from daybook.journal.segments.segment import data_id_of, first_lsn_of, segment_names
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.retention import retirement
from daybook.paging.retention.retirement import Order, keep_snapshots, keep_snapshots_patiently
from daybook.paging.snapshots import snapshot_archive
from daybook.paging.snapshots.archived_snapshots import archived_lsns
from daybook.paging.snapshots.snapshot_archive import archive_snapshots
from daybook.paging.snapshots.snapshots import restore_nearest
from daybook.recovery.moments import state_at
from daybook.recovery.salvage.fork import fork
from daybook.tools.journal_cli import cli
from tests.support.histories import HISTORY_ID, some_history
from tests.support.stored.archived import archived_history
from tests.support.world import fold as fold_events

EVENTS = some_history(1, 300)
LAST = len(EVENTS)
CUTS = [LAST // 6, LAST // 3, LAST // 2, 2 * LAST // 3]


class Scene(NamedTuple):
    """A data directory whose first segments are in the archive alone, with four snapshots there."""

    data: Path
    archive: Path

    def nearest(self, lsn: int, target: Path) -> tuple[int, list[str]]:
        """Restore the nearest snapshot; return its event and the notes."""
        notes: list[str] = []
        with Archive(str(self.archive)).reading(RealDisk(self.data / JOURNAL)) as disk:
            found = restore_nearest(
                self.data / SNAPSHOTS, disk, HISTORY_ID, lsn, target, notes.append
            )
        return found, notes

    def is_right(self, lsn: int) -> list[str]:
        """Compare the state at an event with the fold of the events; return the notes."""
        notes: list[str] = []
        with (
            Archive(str(self.archive)).reading(RealDisk(self.data / JOURNAL)) as disk,
            state_at(self.data, disk, lsn, note=notes.append) as state,
        ):
            assert digest(state) == digest(fold_events(EVENTS[:lsn]))
        return notes

    def archived(self) -> list[int]:
        return archived_lsns(RealDisk(self.archive))

    def object(self, lsn: int) -> Path:
        return self.archive / snapshot_name(lsn)

    def manifest(self, lsn: int) -> Path:
        return self.archive / manifest_name(snapshot_name(lsn))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archived")
    assert archived_history(folder, EVENTS, CUTS) == []
    return folder


@pytest.fixture
def scene(made: Path, tmp_path: Path) -> Scene:
    shutil.copytree(made, tmp_path / "scene")
    return Scene(tmp_path / "scene" / "data", tmp_path / "scene" / "archive")


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << position % 8
    path.write_bytes(content)


def test_the_nearest_is_taken_from_the_archive(scene: Scene, tmp_path: Path) -> None:
    assert not list((scene.data / SNAPSHOTS).iterdir())
    assert scene.archived() == CUTS[::-1]
    for asked, found in [
        (CUTS[0] - 1, 0), (CUTS[0], CUTS[0]), (CUTS[2] - 1, CUTS[1]), (LAST, CUTS[3]),
    ]:  # fmt: skip
        assert scene.nearest(asked, tmp_path / f"i{asked}") == (found, [])
        assert scene.is_right(asked) == []


@pytest.mark.parametrize("what", ["flipped", "short", "gone", "longer", "empty"])
def test_a_damaged_object_is_passed_over_and_said(scene: Scene, tmp_path: Path, what: str) -> None:
    path = scene.object(CUTS[2])
    content = path.read_bytes()
    if what == "flipped":
        flip(path, len(content) // 2)
    elif what == "short":
        path.write_bytes(content[: len(content) // 2])
    elif what == "longer":
        path.write_bytes(content + b"more")
    elif what == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    found, notes = scene.nearest(CUTS[3] - 1, tmp_path / "i")
    assert found == CUTS[1]
    # Without the object the snapshot is not in the archive.
    assert len(notes) == (what != "gone")
    assert all(f"{path.name} is passed over" in note for note in notes)
    assert scene.is_right(CUTS[2]) == notes


def test_no_flipped_bit_of_an_object_changes_an_answer(scene: Scene, tmp_path: Path) -> None:
    path = scene.object(CUTS[2])
    whole = path.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 40)):
        flip(path, position)
        found, (note,) = scene.nearest(CUTS[2], tmp_path / f"i{position}")
        assert found == CUTS[1]
        assert "is passed over" in note
        path.write_bytes(whole)


def test_no_flipped_bit_of_a_manifest_changes_an_answer(scene: Scene, tmp_path: Path) -> None:
    path = scene.manifest(CUTS[2])
    whole = path.read_bytes()
    for position in range(0, len(whole), 5):
        flip(path, position)
        found, notes = scene.nearest(CUTS[2], tmp_path / f"i{position}")
        # The time of archiving, and what JSON does not mind, mean nothing.
        assert (found, notes) == (CUTS[2], []) or (found == CUTS[1] and len(notes) == 1)
        path.write_bytes(whole)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"{}", b"x" * (1 << 17)])
def test_a_manifest_that_is_none(scene: Scene, tmp_path: Path, content: bytes) -> None:
    scene.manifest(CUTS[3]).write_bytes(content)
    found, (note,) = scene.nearest(LAST, tmp_path / "i")
    assert found == CUTS[2]
    assert "its manifest cannot be read" in note


def test_a_snapshot_under_another_name_is_passed_over(scene: Scene, tmp_path: Path) -> None:
    shutil.copy(scene.object(CUTS[1]), scene.object(CUTS[2]))
    shutil.copy(scene.manifest(CUTS[1]), scene.manifest(CUTS[2]))
    found, (note,) = scene.nearest(CUTS[2], tmp_path / "i")
    assert found == CUTS[1]
    assert "describes the snapshot at event" in note


def test_snapshots_of_another_history_are_passed_over(scene: Scene, tmp_path: Path) -> None:
    other = tmp_path / "other"
    events = some_history(7, 300)
    assert archived_history(other, events, CUTS) == []
    for lsn in CUTS:
        shutil.copy(other / "archive" / snapshot_name(lsn), scene.object(lsn))
        shutil.copy(other / "archive" / manifest_name(snapshot_name(lsn)), scene.manifest(lsn))
    found, notes = scene.nearest(LAST, tmp_path / "i")
    assert found == 0
    assert len(notes) == len(CUTS)
    assert all("it is of another journal" in note for note in notes)
    assert len(scene.is_right(CUTS[3])) == len(CUTS)


def test_the_id_of_another_directory_is_foreign(scene: Scene, tmp_path: Path) -> None:
    path = scene.manifest(CUTS[3])
    told = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(told | {"data_id": "ab" * 16}))
    found, (note,) = scene.nearest(LAST, tmp_path / "i")
    assert found == CUTS[2]
    assert "it is of data directory abab" in note


def test_a_bomb_is_not_unpacked(scene: Scene, tmp_path: Path) -> None:
    path = scene.manifest(CUTS[3])
    told = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(told | {"tables_bytes": 4096}))
    _, (note,) = scene.nearest(LAST, tmp_path / "i")
    assert "it has more than its manifest says" in note


def test_an_archive_without_snapshots_is_read_as_before(scene: Scene, tmp_path: Path) -> None:
    for lsn in CUTS:
        scene.object(lsn).unlink()
        scene.manifest(lsn).unlink()
    assert scene.nearest(LAST, tmp_path / "i") == (0, [])
    assert scene.is_right(CUTS[1]) == []


def test_without_the_first_segments_a_snapshot_is_a_beginning(scene: Scene) -> None:
    """An operator deleted the oldest objects: history behind a snapshot can still be read."""
    gone = [name for name in segment_names(RealDisk(scene.archive)) if int(name[:20]) < CUTS[1]]
    for name in gone[:-1]:
        (scene.archive / name).unlink()
        (scene.archive / manifest_name(name)).unlink()
    assert first_lsn_of(RealDisk(scene.archive)) > 1
    assert scene.is_right(CUTS[1] + 1) == []


# ---- writing


@pytest.fixture
def before(tmp_path: Path) -> Scene:
    """The same before snapshots are archived: segments are, and are live, too."""
    archived_history(tmp_path, EVENTS, CUTS, with_snapshots=False)
    return Scene(tmp_path / "data", tmp_path / "archive")


def keep(scene: Scene, every: int = 1) -> list[str]:
    return keep_snapshots(scene.data, LAST, Order(str(scene.archive), every))


@pytest.fixture
def no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "SHARE", 0)


@pytest.mark.usefixtures("no_share")
def test_again_changes_nothing(before: Scene) -> None:
    assert keep(before) == []
    content = {path.name: path.read_bytes() for path in before.archive.iterdir()}
    assert keep(before) == []
    assert {path.name: path.read_bytes() for path in before.archive.iterdir()} == content


def test_they_take_at_most_a_tenth(before: Scene) -> None:
    assert keep(before) == []
    files = list(before.archive.iterdir())
    segments = sum(path.stat().st_size for path in files if path.suffix == ".seg")
    packed = [path.stat().st_size for path in files if path.suffix == ".zst"]
    assert sum(packed) * 10 <= segments or len(packed) == 1


@pytest.mark.usefixtures("no_share")
def test_a_damaged_snapshot_is_not_archived(before: Scene) -> None:
    flip(before.data / SNAPSHOTS / f"{CUTS[1]:020}.mdb", 5000)
    (note,) = keep(before)
    assert "its SHA-256 is not that of the description" in note
    assert str(CUTS[1]) in note
    assert before.archived() == [CUTS[3], CUTS[2], CUTS[0]]


class Faulty(LocalStore):
    """A store that fails, or dies, at one of its calls and after so many pieces."""

    def __init__(self, path: Path, at: int, error: BaseException) -> None:
        super().__init__(RealDisk(path), str(path))
        self.left = at
        self.error = error
        self.fails_again = False

    def _count(self) -> None:
        self.left -= 1
        if not self.left or (self.fails_again and self.left < 0):
            raise self.error

    def read(self, name: str) -> Iterator[bytes]:
        self._count()
        yield from super().read(name)

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        self._count()
        super().write(name, self._counted(pieces))
        self._count()

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._count()
            yield piece


def put(scene: Scene, store: LocalStore) -> list[str]:
    disk = RealDisk(scene.data / JOURNAL)
    return list(
        archive_snapshots(
            ArchivedSnapshots(store), scene.data / SNAPSHOTS, disk, HISTORY_ID, LAST, 1,
            now=1, tick=lambda: None,
        )
    )  # fmt: skip


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.usefixtures("no_share")
def test_a_kill_anywhere_leaves_whole_snapshots_alone(before: Scene, tmp_path: Path) -> None:
    at = 0
    seen = set()
    while True:
        at += 1
        store = Faulty(before.archive, at, Killed())
        try:
            put(before, store)
            killed = False
        except Killed:
            killed = True
        listed = before.archived()
        seen.add(len(listed))
        found, notes = before.nearest(LAST, tmp_path / f"i{at}")
        # Those in the directory are still there; no archived one is wrong.
        assert (found, notes) == (CUTS[3], [])
        assert keep(before) == []
        assert before.archived() == CUTS[::-1]
        for lsn in CUTS:
            before.object(lsn).unlink()
            before.manifest(lsn).unlink()
        if not killed:
            break
    assert seen == set(range(len(CUTS) + 1))


@pytest.mark.usefixtures("no_share")
def test_a_failure_is_tried_again_and_then_given_up(
    before: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_archive, "PAUSES", (0.0, 0.0))
    for at in range(1, 12):
        assert put(before, Faulty(before.archive, at, ArchiveError("x", "it is away"))) == []
        for lsn in CUTS:
            before.object(lsn).unlink()
            before.manifest(lsn).unlink()
    store = Faulty(before.archive, 8, ArchiveError("x", "it is away"))
    store.fails_again = True
    (note,) = put(before, store)
    assert "x: it is away. No events are lost" in note
    assert before.archived() == [CUTS[0]]


def test_a_store_that_hangs_is_given_up(before: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    free = Event()
    monkeypatch.setattr(LocalStore, "write", lambda *_: free.wait())
    order = Order(str(before.archive), 1)
    assert keep_snapshots_patiently(before.data, LAST, order, 0.2) is None
    free.set()


def test_an_archive_that_is_away_is_a_sentence(before: Scene) -> None:
    order = Order("s3:/x", 1)
    (note,) = keep_snapshots(before.data, LAST, order)
    assert "no more snapshots were archived" in note


HANGING = """
import sys, threading
from daybook.journal.archive.store import LocalStore
from daybook.paging.retention import retirement
retirement.IDLE_SECONDS = 0.2
retirement.retire = lambda *words: 0
retirement.end_with = lambda broker: True
LocalStore.write = lambda *words: threading.Event().wait()
sys.exit(retirement.main(sys.argv[1:]))
"""


def test_the_process_of_retention_ends_although_the_store_hangs(before: Scene) -> None:
    words = [sys.executable, "-c", HANGING, retirement.RETIRE, str(before.data), str(LAST), "0"]
    order = msgspec.json.encode(Order(str(before.archive), 1))
    done = subprocess.run(words, input=order, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"0\n")
    assert b"archiving snapshots was given up" in done.stderr
    assert before.archived() == []


def test_the_reader_needs_no_local_snapshots(scene: Scene) -> None:
    shutil.rmtree(scene.data / SNAPSHOTS)
    assert scene.is_right(CUTS[3] + 1) == []


def test_a_fork_begins_at_snapshots_of_its_source(scene: Scene, tmp_path: Path) -> None:
    live = RealDisk(scene.data / JOURNAL)
    with Archive(str(scene.archive)).reading(live) as disk:
        made = fork(
            scene.data, disk, LAST, tmp_path / "made", now=1, shares=False, note=lambda _: None
        )
    ours = RealDisk(tmp_path / "made" / JOURNAL)
    assert data_id_of(ours) != HISTORY_ID
    # What left the source before is in its archive alone.
    for name in segment_names(ours):
        if int(name[:20]) < first_lsn_of(live):
            (ours.path / name).unlink()
    notes: list[str] = []
    with Archive(str(scene.archive)).reading(ours) as disk:
        for lsn in (CUTS[1], CUTS[1] + 1, CUTS[3] + 5):
            target = tmp_path / f"i{lsn}"
            place = tmp_path / "made" / SNAPSHOTS
            found = restore_nearest(place, disk, data_id_of(disk), lsn, target, notes.append)
            assert found in CUTS
            with state_at(tmp_path / "made", disk, lsn, note=notes.append) as state:
                assert digest(state) == digest(fold_events(EVENTS[:lsn]))
    assert notes == []
    assert made.lsn == LAST


# ---- commands


def journal(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def test_list_and_verify_know_them(scene: Scene) -> None:
    flags = ("--data", scene.data, "--archive", scene.archive)
    assert "4 snapshots, " in journal("archive", "list", *flags)
    listed = msgspec.json.decode(journal("archive", "list", *flags, "--json"))["snapshots"]
    assert [(each["lsn"], each["bytes"]) for each in listed] == [
        (lsn, scene.object(lsn).stat().st_size) for lsn in CUTS
    ]
    assert "; 4 snapshots" in journal("archive", "verify", *flags)
    assert "4 archived snapshots, " in journal("stat", *flags)
    told = msgspec.json.decode(journal("stat", *flags, "--json"))
    assert told["archived_snapshots"] == 4
    assert told["archived_snapshot_bytes"] == sum(each["bytes"] for each in listed)
    assert "snapshots: 4 compared, all equal" in journal("verify", "--index", *flags)


@pytest.mark.parametrize("what", ["object", "manifest", "foreign", "cut"])
def test_verify_names_damage(scene: Scene, what: str) -> None:
    path = scene.object(CUTS[1])
    told = scene.manifest(CUTS[1])
    if what == "object":
        flip(path, 100)
    elif what == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif what == "manifest":
        flip(told, 50)
    else:
        content = msgspec.json.decode(told.read_bytes())
        told.write_bytes(msgspec.json.encode(content | {"block_hash": "ab" * 16}))
    for command, code in ((("archive", "verify"), 1), (("verify", "--index"), 6)):
        said = journal(*command, "--data", scene.data, "--archive", scene.archive, code=code)
        assert path.name in said
        assert "Delete it" in said


def test_verify_names_a_manifest_whose_snapshot_is_gone(scene: Scene) -> None:
    scene.object(CUTS[1]).unlink()
    said = journal("archive", "verify", "--archive", scene.archive, code=1)
    assert f"DAMAGED {scene.object(CUTS[1])}" in said
    assert "the snapshot is missing, though its manifest is there. Delete that, too" in said
    assert "intact" not in said


def test_verify_finds_a_false_state_with_right_hashes(scene: Scene, tmp_path: Path) -> None:
    """Somebody changed the tables, and computed every hash again."""
    with closing(Index(tmp_path / "false", HISTORY_ID)) as index:
        index.advance(next(batches(RealDisk(scene.archive), 0, CUTS[0], {CUTS[0]})))
        block_hash = msgspec.json.decode(scene.manifest(CUTS[1]).read_bytes())["block_hash"]
        index.tables.write(
            lambda txn: index.tables.set_position(txn, CUTS[1], bytes.fromhex(block_hash), 1)
        )
        (tmp_path / "copy").mkdir()
        index.tables.copy_to(tmp_path / "copy")
    tables = (tmp_path / "copy" / TABLES).read_bytes()
    entry = decode_entry(scene.manifest(CUTS[1]).read_bytes(), CUTS[1])
    changed = msgspec.structs.replace(
        entry, tables_bytes=len(tables), tables_sha256=sha256(tables).hexdigest()
    )
    Archive(str(scene.archive)).snapshots.put(changed, iter([tables]), lambda: None)
    said = journal("verify", "--index", "--data", scene.data, "--archive", scene.archive, code=6)
    assert scene.object(CUTS[1]).name in said
    assert "folding the journal gives" in said


def test_a_fetched_directory_has_them(scene: Scene, tmp_path: Path) -> None:
    words = ("archive", "fetch", tmp_path / "there", "--archive", scene.archive)
    journal(*words, "--from", CUTS[1], "--to", CUTS[3])
    fetched = RealDisk(tmp_path / "there" / JOURNAL)
    assert archived_lsns(fetched) == CUTS[:0:-1]
    told = journal("inspect", tmp_path / "there", "--at", CUTS[2] + 3, "--json")
    wanted = journal(
        "inspect", scene.data, "--at", CUTS[2] + 3, "--json", "--archive", scene.archive
    )
    assert told == wanted
    # Again, and with a snapshot that cannot be read.
    scene.object(CUTS[2]).unlink()
    scene.object(CUTS[2]).mkdir()
    journal(*words, "--from", CUTS[1], "--to", CUTS[3])
    assert archived_lsns(fetched) == CUTS[:0:-1]
    journal("archive", "restore", tmp_path / "whole", "--archive", scene.archive)
    assert archived_lsns(RealDisk(tmp_path / "whole" / JOURNAL)) == []
