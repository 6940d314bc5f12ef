"""Reports in a data directory: few, small, and harmless whatever is in their files."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from daybook.history.reports import report_files
from daybook.history.reports.integrity import integrity_of
from daybook.history.reports.report import AUDIT, VERIFY, Finding, Report, Table
from daybook.history.reports.report_files import (
    FILE_BYTES_MAX,
    KEPT_MAX,
    NoSuchReport,
    faults,
    keep,
    listed,
    read,
)
from daybook.journal.data_directory import LOCK, REPORTS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / LOCK).touch()
    return tmp_path


def report(begun: int = 1, kind: str = VERIFY, ok: bool = True, **parts: object) -> Report:
    told = Report(kind, begun, begun + 2_000_000, "ada", "journal verify", ok, "intact")
    return msgspec.structs.replace(told, **parts)


def test_a_report_is_kept_listed_and_read(data: Path) -> None:
    told = report(findings=[Finding("wrong", "rule", lsn=7)], finding_count=1)
    kept = keep(data, told)
    assert kept.trouble == ""
    assert read(data, kept.name) == told
    assert [each.report for each in listed(data)] == [told]
    assert (data / REPORTS).stat().st_mode & 0o777 == 0o700
    assert told.duration == "2 seconds"


def test_the_newest_of_each_kind_stay(data: Path) -> None:
    keep(data, report(1, AUDIT))
    for begun in range(1, KEPT_MAX + 6):
        keep(data, report(begun))
    found = listed(data)
    assert [each.kind for each in found].count(VERIFY) == KEPT_MAX
    assert [each.kind for each in found].count(AUDIT) == 1
    assert found[0].report is not None
    assert found[0].report.begun == KEPT_MAX + 5
    assert len(list((data / REPORTS).iterdir())) == KEPT_MAX + 1


def test_checks_of_a_part_do_not_displace_the_last_one_of_all_history(data: Path) -> None:
    keep(data, report(1, AUDIT, command="journal audit --data d --to 7"))
    for begun in range(1, 4):
        keep(data, report(begun))
    for begun in range(4, KEPT_MAX + 6):
        keep(data, report(begun, command="journal verify --data d --from 7"))

    def newest() -> list[tuple[str, int, bool]]:
        found = [each.report for each in integrity_of(data).newest if each.report]
        return [(each.kind, each.begun, each.is_partial) for each in found]

    assert newest() == [
        (VERIFY, 3, False), (VERIFY, KEPT_MAX + 5, True), (AUDIT, 1, True),
    ]  # fmt: skip
    assert [each.kind for each in listed(data)].count(VERIFY) == KEPT_MAX + 1
    keep(data, report(KEPT_MAX + 6))
    assert newest() == [(VERIFY, KEPT_MAX + 6, False), (AUDIT, 1, True)]
    assert [each.kind for each in listed(data)].count(VERIFY) == KEPT_MAX


def test_what_the_last_checks_found_is_said_until_one_of_all_history_finds_nothing(
    data: Path,
) -> None:
    assert faults(data) == []
    keep(data, report(1, ok=False, result="1 fault"))
    keep(data, report(2, AUDIT))
    said = ["the verification of 1970-01-01 00:00:00 UTC: 1 fault"]
    assert faults(data) == said
    keep(data, report(3, command="journal verify --data d --from 7"))
    assert faults(data) == said
    keep(data, report(4, AUDIT, ok=False, result="2 breaches"))
    assert faults(data) == [*said, "the audit of 1970-01-01 00:00:00 UTC: 2 breaches"]
    keep(data, report(5))
    assert faults(data) == ["the audit of 1970-01-01 00:00:00 UTC: 2 breaches"]


def test_a_report_is_small_whatever_was_found(data: Path) -> None:
    findings = [Finding("\x01" * 100_000, "rule", proof=list(range(10_000)))] * 500
    rows: list[list[str | int | float | None]] = [["x" * 50_000, 1]] * 300
    table = Table("t", ["name", "count"], rows)
    kept = keep(data, report(findings=findings, tables=[table], notes=["n" * 9999] * 999))
    found = read(data, kept.name)
    assert (data / REPORTS / f"{kept.name}.json").stat().st_size <= FILE_BYTES_MAX
    assert found.finding_count == 500
    assert 0 < len(found.findings) < 500
    assert found.tables[0].more + len(found.tables[0].rows) == 300


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "text", "large", "folder", "link"])
def test_damage_is_said_and_harms_no_other(data: Path, damage: str) -> None:
    keep(data, report(1))
    name = keep(data, report(2)).name
    file = data / REPORTS / f"{name}.json"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif damage == "link":
        file.symlink_to("/etc/passwd")
    else:
        written = {
            "bit": bytes(content), "cut": bytes(content[:90]), "empty": b"",
            "text": b"hello\n", "large": b"x" * FILE_BYTES_MAX * 2,
        }  # fmt: skip
        file.write_bytes(written[damage])
    damaged, sound = listed(data)
    assert damaged.report is None
    assert damaged.damage
    assert sound.report == report(1)
    with pytest.raises(NoSuchReport, match="cannot be shown"):
        read(data, name)
    assert integrity_of(data).newest == [sound]


@pytest.mark.parametrize("told", [b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 60_000, b"null"])
def test_a_report_that_nobody_wrote_is_damaged_whatever_its_hash(data: Path, told: bytes) -> None:
    name = keep(data, report()).name
    content = hashlib.sha256(told).hexdigest().encode() + b"\n" + told
    (data / REPORTS / f"{name}.json").write_bytes(content)
    [damaged] = listed(data)
    assert "not a report of this version" in damaged.damage
    with pytest.raises(NoSuchReport, match="cannot be shown"):
        read(data, name)
    assert integrity_of(data).newest == []


def test_names_that_are_none_lead_nowhere(data: Path) -> None:
    for name in ("", "../lock", "x" * 5000, "0000000000000000001-other", "1-verify"):
        with pytest.raises(NoSuchReport, match="not the name of a report"):
            read(data, name)
    with pytest.raises(NoSuchReport, match="does not exist"):
        read(data, f"{1:019d}-verify")


def test_other_files_stay_and_are_not_listed(data: Path) -> None:
    (data / REPORTS).mkdir()
    (data / REPORTS / "notes.txt").write_text("mine")
    for begun in range(1, KEPT_MAX + 3):
        keep(data, report(begun))
    assert (data / REPORTS / "notes.txt").read_text() == "mine"
    assert len(listed(data)) == KEPT_MAX


def test_what_killed_processes_left_is_removed(data: Path) -> None:
    (data / REPORTS).mkdir()
    for begun in range(KEPT_MAX + 5):
        (data / REPORTS / f"{begun:019d}-verify.77{report_files.PART_SUFFIX}").touch()
    keep(data, report(99))
    assert len(list((data / REPORTS).iterdir())) == KEPT_MAX + 1


def test_a_place_that_cannot_be_written_is_said(data: Path) -> None:
    (data / REPORTS).write_text("a file")
    assert "could not be kept" in keep(data, report()).trouble
    assert integrity_of(data).troubles


def test_a_directory_that_no_broker_used_gets_none(tmp_path: Path) -> None:
    assert keep(tmp_path, report()) == report_files.Kept()
    assert not (tmp_path / REPORTS).exists()
    [text] = integrity_of(tmp_path).troubles
    assert "is not a data directory" in text
