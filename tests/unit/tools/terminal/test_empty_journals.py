"""Commands of history on the data directory of a node that has got nothing yet."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from daybook.journal.confirmed import ConfirmedMark
from daybook.journal.data_directory import JOURNAL, NODE
from daybook.tools.journal_cli import cli

COMMANDS = (
    ["inspect"], ["verify"], ["verify", "--from", "1"], ["stat"], ["trail", "7"], ["audit"],
    ["diff", "1", "now"], ["sql", "select 1"], ["salvage", "OUT"],
)  # fmt: skip


def said(data: Path, command: list[str]) -> str:
    """Return how a command fails."""
    name, *words = [str(data.parent / "out") if each == "OUT" else each for each in command]
    where = [str(data)] if name == "salvage" else ["--data", str(data)]
    arguments = [name, *where, *words]
    result = CliRunner().invoke(cli, arguments, env={"DAYBOOK_DATA": None})
    assert result.exit_code == 1, result.output
    return result.output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_node_that_has_got_nothing_says_so(tmp_path: Path, command: list[str]) -> None:
    data = tmp_path / "data"
    for folder in (JOURNAL, NODE):
        (data / folder).mkdir(parents=True)
    ConfirmedMark(data)
    text = said(data, command)
    assert f"there is no journal in {data} yet: it is of a node of a cluster" in text
    assert "; ask again once it follows one, which 'daybook cluster status' shows" in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_without_segments_is_named(tmp_path: Path, command: list[str]) -> None:
    data = tmp_path / "data"
    (data / JOURNAL).mkdir(parents=True)
    text = said(data, command)
    assert f"there is no journal in {data}: it has no segment" in text
    assert "; name the directory given to 'daybook serve --data'" in text
