"""Tails that were cut are kept apart, and the oldest leave."""

from pathlib import Path

import msgspec
import pytest

from daybook.journal.blocks.format import segment_name
from daybook.journal.data_directory import JOURNAL, NOTARY
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.recovery.signing.statements import Noted, Statement
from daybook.server.standbys.cut_tails import NEXT, CutTails, Limits

SECOND = 1_000_000
BEGUN = 1_790_000_000 * SECOND
SIZE = 8_192


class Tails:
    """The folder with a clock that moves by hand."""

    def __init__(self, folder: Path, *, size: int = 0, age: int = 0) -> None:
        self.folder = folder / "cut"
        self.notary = folder / NOTARY
        self.now = BEGUN
        self.said: list[str] = []
        self.cut = CutTails(self.folder, Limits(size, age), self.said.append, lambda: self.now)
        self.cut.create()

    def add(self, lsn: int) -> None:
        """Copy a tail, as a cut does."""
        self.now += SECOND
        (self.folder / NEXT / JOURNAL / segment_name(lsn)).write_bytes(b"x" * SIZE)
        self.cut.keep(self.notary)

    def lsns(self) -> list[int]:
        """Return the first events of the tails that are kept, the oldest first."""
        names = sorted(each.name for each in self.folder.iterdir() if each.name != NEXT)
        return [int(each.rpartition("-")[2]) for each in names if "-" in each]


def test_tails_of_the_same_events_are_kept_apart(tmp_path: Path) -> None:
    tails = Tails(tmp_path)
    for lsn in (7, 7, 4):
        tails.add(lsn)
    assert tails.lsns() == [7, 7, 4]
    assert tails.cut.count == 3
    assert tails.cut.bytes == 3 * SIZE
    assert not segment_names(tails.cut.kept)
    one = next(each for each in tails.folder.iterdir() if each.name.endswith("-4"))
    assert segment_names(RealDisk(one / JOURNAL)) == [segment_name(4)]
    assert str(one) in tails.said[-1]


def test_the_oldest_leave_when_all_are_too_large(tmp_path: Path) -> None:
    tails = Tails(tmp_path, size=2 * SIZE)
    for lsn in (1, 2, 3, 4):
        tails.add(lsn)
    assert tails.lsns() == [3, 4]
    assert tails.cut.removed == 2
    assert "was removed because of 'cut-max-bytes' of [replication]" in tails.said[-1]


def test_the_newest_stays_whatever_its_size(tmp_path: Path) -> None:
    tails = Tails(tmp_path, size=1)
    for lsn in (1, 2):
        tails.add(lsn)
    assert tails.lsns() == [2]


def test_all_leave_when_they_are_old(tmp_path: Path) -> None:
    tails = Tails(tmp_path, age=10 * SECOND)
    tails.add(1)
    tails.now += 5 * SECOND
    tails.add(2)
    tails.now += 8 * SECOND
    tails.cut.trim()
    assert tails.lsns() == [2]
    tails.now += 8 * SECOND
    tails.cut.trim()
    assert tails.lsns() == []
    assert "'cut-max-age'" in tails.said[-1]


def test_a_copy_that_was_interrupted_is_named_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "cut" / NEXT / JOURNAL).mkdir(parents=True)
    (tmp_path / "cut" / NEXT / JOURNAL / segment_name(9)).write_bytes(b"x")
    tails = Tails(tmp_path)
    tails.cut.keep(tails.notary)
    assert tails.lsns() == [9]


@pytest.mark.parametrize(("lsn", "goes"), [(6, False), (7, True), (9, True)])
def test_a_statement_about_the_tail_goes_along(tmp_path: Path, lsn: int, goes: bool) -> None:
    """Else the journal would lack what its own notary has signed."""
    tails = Tails(tmp_path)
    statement = Statement("0" * 32, lsn, "a" * 64, after=1)
    tails.notary.write_bytes(msgspec.json.encode(Noted(statement, journaled=False)))
    tails.add(7)
    (tail,) = [each for each in tails.folder.iterdir() if each.name != NEXT]
    assert (tail / NOTARY).exists() == goes
    assert tails.notary.exists() == (not goes)


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    tails = Tails(tmp_path, size=1, age=1)
    for name in ("mine", "journal", "20261129-7", "20261129T101530.123456Z-x"):
        (tails.folder / name).mkdir()
    tails.add(1)
    tails.add(2)
    assert {"mine", "journal", "20261129-7", NEXT} <= {each.name for each in tails.folder.iterdir()}


def test_one_that_cannot_be_removed_costs_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    tails = Tails(tmp_path, size=1)
    tails.add(1)
    monkeypatch.setattr("daybook.server.standbys.cut_tails.shutil.rmtree", fails)
    tails.add(2)
    assert tails.lsns() == [1, 2]
    assert "should leave, and cannot" in tails.said[-1]
