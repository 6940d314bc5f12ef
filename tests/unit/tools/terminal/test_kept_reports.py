"""The reports that commands keep, and `journal reports`, which shows them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.engine.commands import PurgeQueue
from daybook.history.reports.report_files import listed
from daybook.journal.data_directory import JOURNAL, LOCK, REPORTS
from daybook.tools.drills.reports import output
from daybook.tools.drills.reports.report import Finding, Tried
from daybook.tools.journal_cli import cli
from tests.support.forging.breaches import copy_with_another_body
from tests.support.histories import some_history, write_history
from tests.support.worlds.auditing import DoorWorld


def journal(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], env={"DAYBOOK_DATA": None})


def reports(data: Path, *words: str) -> Any:
    answer = journal("reports", data, "--json", *words)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    world = DoorWorld()
    connection = world.connect()
    for _ in range(5):
        world.send("orders", b"x" * 100, connection)
    world.ok(PurgeQueue("orders", limit=1))
    world.turn()
    found = write_history(tmp_path / "data", world.journal, cuts=world.ends)
    (found / LOCK).touch()
    return found


def test_verify_and_audit_keep_what_they_found(data: Path) -> None:
    for command in ("verify", "audit"):
        assert journal(command, data).exit_code == 0
    told = reports(data)
    assert [each["kind"] for each in told["reports"]] == ["audit", "verify"]
    assert all(each["ok"] for each in told["reports"])
    assert "(uid " in told["reports"][0]["by"]
    assert told["troubles"] == []
    shown = journal("reports", data).output
    assert "every decision was allowed" in shown
    assert "intact" in shown
    one = reports(data, "--report", told["reports"][0]["name"])
    assert one["tables"][0]["rows"][0][0] == "orders"
    whole = journal("reports", data, "--report", one["name"]).output
    assert f"journal audit --data {data}" in whole
    assert "orders" in whole
    assert "not the name of a report" in journal("reports", data, "--report", "x").output


def test_a_fault_is_in_the_report_with_its_event(tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", some_history(1, 300), segment_bytes=8192)
    (data / LOCK).touch()
    segment = sorted((data / JOURNAL).glob("*.seg"))[1]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    assert journal("verify", data).exit_code == 1
    [newest] = reports(data)["newest"]
    assert newest["findings"] == len(newest["first_findings"])
    assert newest["first_findings"][0]["lsn"] > 0
    assert "fault" in newest["result"]
    assert "damaged" in journal("reports", data, "--report", newest["name"]).output


def test_a_breach_is_in_the_report_with_its_proof(tmp_path: Path) -> None:
    planted = copy_with_another_body()
    data = write_history(tmp_path / "data", planted.history, cuts=planted.ends)
    (data / LOCK).touch()
    assert journal("audit", data).exit_code == 1
    [newest] = reports(data)["newest"]
    [finding] = newest["first_findings"]
    assert (finding["kind"], finding["lsn"]) == (planted.rule, planted.lsn)
    assert finding["proof"]
    assert finding["message"]


def test_a_directory_that_cannot_be_written_is_noted(data: Path) -> None:
    (data / REPORTS).write_text("")
    answer = journal("verify", data)
    assert answer.exit_code == 0
    assert "note: the report could not be kept" in answer.stderr


def test_what_is_left_to_resume_is_said(data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert reports(data)["sound"] is None
    assert journal("verify", data, "--resume").exit_code == 0
    sound = reports(data)["sound"]
    assert sound["segments"] < sound["of_segments"]
    assert "found sound before" in journal("reports", data).output


def test_a_drill_keeps_its_report_in_the_data_directory(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = output.begun("kill", "about", {"rounds": 3}, 7)
    told.tried = [Tried("rounds", 3, 2)]
    told.findings = [Finding("P1", "lost", "round 3", "daybook drill kill --seed 7")]
    output.finish(told, 1.5)
    with pytest.raises(SystemExit):
        output.give(told, html=None, as_json=False, data=data)
    [kept] = listed(data)
    assert kept.report is not None
    assert kept.report.result == "kill: 1 finding in 3 trials of 1 kind"
    assert kept.report.findings[0].again == "daybook drill kill --seed 7"
    assert ("seed", "7") in kept.report.facts
    assert capsys.readouterr().out
