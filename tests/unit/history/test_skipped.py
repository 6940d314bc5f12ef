"""LSNs that a start after a crash skipped: one row for thousands, and steps go over them."""

from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from daybook.console.jobs import history
from daybook.engine import commands as c
from daybook.history import selection
from daybook.tools.journal_cli import cli
from tests.support.histories import write_history
from tests.support.world import World


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A history with two starts after crashes."""
    # It starts one.
    world = World()
    for version in ("2", "3"):
        world.ok(c.Start(version=version, skipped=500))
    return write_history(tmp_path / "data", world.journal)


def inspected(data: Path, *arguments: str) -> list[str]:
    result = CliRunner().invoke(cli, ["inspect", str(data), *arguments])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.parametrize("span", [1, 7, 300, 4096])
def test_the_last_events_count_them_as_one(
    crashed: Path, span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "LAST_SPAN", span)
    lines = inspected(crashed)
    assert [int(line.split()[0]) for line in lines] == [1, 2, 502, 503, 1003]
    for count in range(1, 7):
        assert inspected(crashed, "--last", str(count)) == lines[-count:]
    assert len(inspected(crashed, "--last", "400", "--json")) == 400


def test_a_page_shows_them_in_one_row(crashed: Path) -> None:
    newest = history.events(str(crashed), {}, 2, last=True)
    assert [each["lsn"] for each in newest["events"]] == [1003, 503]
    assert newest["events"][1]["text"].startswith("500 LSNs up to 1002; the broker before was ki")
    older = history.events(str(crashed), {"to_lsn": newest["more_lsn"]}, 1, last=True)
    assert [each["lsn"] for each in older["events"]] == [502]
    # The page before begins with all of them, not with the first.
    older = history.events(str(crashed), {"to_lsn": older["more_lsn"]}, 9, last=True)
    assert [(each["lsn"], each["until"]) for each in older["events"]] == [(2, 501), (1, 1)]
    first = history.events(str(crashed), {}, 2)
    assert [each["lsn"] for each in first["events"]] == [1, 2]
    assert first["more_lsn"] == 502


def test_steps_go_over_them(crashed: Path) -> None:
    data = str(crashed)
    for before, after in pairwise((1, 502, 1003)):
        assert history.beside(data, before)["after"] == after
        assert history.beside(data, after)["before"] == before
    found = history.beside(data, 250)
    assert (found["before"], found["after"]) == (1, 502)
    # Each start is a mark, too.
    assert (found["mark_before"], found["mark_after"]) == (1, 502)
    assert history.beside(data, 1)["before"] is None
    assert history.beside(data, 1003)["after"] is None
