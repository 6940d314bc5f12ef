"""The options of drills: bad numbers are refused, and a finding's command repeats all options."""

import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from daybook.journal.archive.archive import Archive
from daybook.paging.tables.tables import IndexUnwritable
from daybook.tools import daybook
from daybook.tools.drills import bit_rot, restore
from daybook.tools.drills.campaigns import drills
from daybook.tools.drills.campaigns.drills import Asked
from daybook.tools.drills.command import drill_group
from daybook.tools.drills.crash_points import drill
from daybook.tools.drills.failover import drill as failover
from tests.support.histories import some_history, write_history


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "-1", "0", "1e9", "many"])
@pytest.mark.parametrize(
    ("name", "option"),
    [("kill", "--minutes"), ("slow-disk", "--delay-ms"), ("bit-rot", "--minutes"),
     ("crash-points", "--minutes")],
)  # fmt: skip
def test_what_is_no_number_is_refused(tmp_path: Path, name: str, option: str, value: str) -> None:
    words = ["drill", name, f"{option}={value}"]
    words += [str(tmp_path)] if name in ("bit-rot", "crash-points") else []
    done = CliRunner().invoke(daybook.cli, words)
    assert done.exit_code == 2
    assert option in done.output
    assert "Traceback" not in done.output


NOT_REPEATED = {"html", "as_json", "data", "keep", "points"}
"""Where things are written; another name of DATA; the sample, of which one point is named."""


def test_the_command_of_a_finding_has_all_options(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    for name in ("kill", "power-cut", "slow-disk", "disk-full"):
        check(name, drills._again(Asked(name, config, 3, 2.5, 7, 30.0)))
    flipping = bit_rot.Asked(tmp_path, config, 3, 2.5, 7)
    check("bit-rot", bit_rot.again(flipping))
    check("restore", restore.Asked(Archive(str(tmp_path)), tmp_path, config, 7).again())
    losing = failover.Asked(tmp_path, config, 3, 2.5, 7, "one", 4_000, "etcd", protocol="both")
    check("failover", losing.again())
    point = drill.Asked(tmp_path, 3, 7, 2.5, 2, ("inside",))
    check("crash-points", drill.again(point, "a.seg:4096", "inside"))


def check(name: str, again: str) -> None:
    words = shlex.split(again)
    assert words[:3] == ["daybook", "drill", name]
    command = drill_group.commands[name]
    for option in command.params:
        if isinstance(option, click.Option) and option.name not in NOT_REPEATED:
            assert set(option.opts) & set(words), f"{again} lacks {option.opts}"
    if "--seed" in words:
        assert words[words.index("--seed") + 1] == "7"
    if "--minutes" in words:
        assert words[words.index("--minutes") + 1] == "2.5"
    if "--delay-ms" in words:
        assert words[words.index("--delay-ms") + 1] == "30"


@pytest.mark.parametrize("lease", ["0.5", "nan", "0", "4000"])
def test_a_lease_that_no_cluster_has_is_refused(lease: str) -> None:
    done = CliRunner().invoke(daybook.cli, ["drill", "failover", "--lease", lease])
    assert done.exit_code == 2
    assert "--lease" in done.output


def test_a_place_without_space_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is tried: a broker that finds no space would be blamed for it."""
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
    done = CliRunner().invoke(daybook.cli, ["drill", "kill", "--keep", str(tmp_path / "kept")])
    assert done.exit_code == 1
    assert "and 4,096 bytes are free: set TMPDIR, or name another folder with --keep" in done.output
    assert "WRONG" not in done.output


def test_scratch_data_that_cannot_be_written_is_no_fault_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_history(tmp_path / "data", some_history(4, 100))

    def rehearse(*given: Any) -> Any:
        raise IndexUnwritable("No space left on device")

    monkeypatch.setattr(drill.Rehearsals, "rehearse", rehearse)
    done = CliRunner().invoke(daybook.cli, ["drill", "crash-points", str(data), "--jobs", "1"])
    assert done.exit_code == 1
    assert "No space left on device" in done.output
    assert "set TMPDIR to another folder" in done.output
    assert "WRONG" not in done.output


def test_a_restore_from_nowhere_says_where_it_looked(tmp_path: Path) -> None:
    done = CliRunner().invoke(daybook.cli, ["drill", "restore", str(tmp_path / "nothing")])
    assert done.exit_code == 1
    assert f"no segment is archived in {tmp_path / 'nothing' / 'archive'}" in done.output
    assert "nothing is not a data directory: name the archive with --archive URL" in done.output
