"""How commands end when their output goes nowhere, and what they say of paths that are none."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.tools import daybook, journal_cli
from daybook.tools.administration import health
from daybook.tools.terminal.failures import describe

ROOT = Path(journal_cli.__file__).resolve().parent.parent
COMMANDS = [
    ("daybook.tools.journal_cli", "inspect"),
    ("daybook.tools.journal_cli", "verify"),
    ("daybook.tools.daybook", "queue list --data"),
]


def shell(
    module: str, command: str, data: Path, redirection: str
) -> subprocess.CompletedProcess[str]:
    line = f'exec "$0" -m {module} {command} "$1" {redirection}'
    return subprocess.run(
        ["sh", "-c", line, sys.executable, str(data)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def journal(*arguments: object, **environment: str) -> Result:
    words = [str(each) for each in arguments]
    return CliRunner().invoke(journal_cli.cli, words, env={"DAYBOOK_DATA": None} | environment)


@pytest.mark.parametrize(("module", "command"), COMMANDS)
def test_a_closed_output_is_like_one_that_nobody_reads(
    history: Any, module: str, command: str
) -> None:
    done = shell(module, command, history.data, ">&-")
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
    assert done.returncode == 0
    assert shell(module, command, history.data, "<&- >&- 2>&-").returncode == 0


@pytest.mark.parametrize(("module", "command"), COMMANDS)
def test_a_full_output_is_named(history: Any, module: str, command: str) -> None:
    done = shell(module, command, history.data, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Error: standard output: No space left on device"
    assert ".py" not in done.stderr


def test_an_error_of_the_system_names_its_file_and_never_a_source() -> None:
    with pytest.raises(OSError, match="No such file") as caught:
        Path("/nowhere/at all").read_bytes()
    assert describe(caught.value) == "/nowhere/at all: No such file or directory"
    assert describe(OSError(5, "Input/output error")) == "Input/output error"


@pytest.mark.parametrize("command", ["inspect", "verify", "stat"])
def test_a_directory_in_place_of_a_segment(history: Any, tmp_path: Path, command: str) -> None:
    data = tmp_path / "data"
    shutil.copytree(history.data, data)
    segment = data / "journal" / segment_names(RealDisk(data / "journal"))[1]
    segment.unlink()
    segment.mkdir()
    result = journal(command, data)
    assert result.exit_code == 1
    assert f"{segment} is not a file, but has the name of a segment" in result.stderr
    offline = CliRunner().invoke(daybook.cli, ["status", "--data", str(data)])
    assert f"{segment} is not a file" in offline.stderr


def test_a_journal_without_its_beginning(history: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(history.data, data)
    first, second, *_ = segment_names(RealDisk(data / "journal"))
    (data / "journal" / first).unlink()
    result = journal("verify", data)
    lsn = int(second.removesuffix(".seg"))
    assert result.exit_code == 1
    assert f"the journal begins at LSN {lsn}: its beginning, LSN 1 to {lsn - 1}" in result.output


def test_two_data_directories_are_one_too_many(history: Any, tmp_path: Path) -> None:
    result = journal("inspect", history.data, "--data", tmp_path)
    assert result.exit_code == 2
    assert f"the argument says {history.data} and --data says {tmp_path}" in result.stderr
    same = journal("stat", history.data, "--data", history.data)
    from_environment = journal("stat", history.data, DAYBOOK_DATA=str(tmp_path))
    assert (same.exit_code, from_environment.exit_code) == (0, 0)


@pytest.mark.parametrize(
    ("cli", "words"),
    [
        (journal_cli.cli, ["inspect", "--data", ""]),
        (journal_cli.cli, ["verify", ""]),
        (journal_cli.cli, ["trail", "", "5"]),
        (daybook.cli, ["status", "--data", ""]),
        (daybook.cli, ["serve", "--data", ""]),
        (daybook.cli, ["serve", "--config", ""]),
        (daybook.cli, ["user", "list", "--users-file", ""]),
        (daybook.cli, ["init", ""]),
    ],
)
def test_an_empty_name_is_not_the_current_directory(cli: Any, words: list[str]) -> None:
    result = CliRunner().invoke(cli, words, env={"DAYBOOK_DATA": None})
    assert result.exit_code == 2
    assert "the name is empty" in result.stderr


def test_a_beginning_behind_the_end_is_explained(history: Any) -> None:
    result = journal("inspect", history.data, "--from", history.last_lsn + 1)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"the journal ends at LSN {history.last_lsn}, before --from" in result.stderr
    nothing = journal("inspect", history.data, "--kind", "Removed", "--to", 2)
    assert (nothing.exit_code, nothing.output) == (0, "")


def test_the_status_shows_what_names_something_without_separators(history: Any) -> None:
    status = {"pid": 1234567, "uptime_seconds": 93784.5, "blocks_written": 1234567}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health, "look", lambda *_: dict(status))
        result = CliRunner().invoke(daybook.cli, ["status", "--data", str(history.data)])
    assert "1234567\n" in result.stdout
    assert "1,234,567\n" in result.stdout
    assert "1 day, 2:03:04" in result.stdout
