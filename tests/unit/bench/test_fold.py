"""The fold is measured over a history that really exists."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from bench.fold import FoldSpeed, main, make_history, measure_fold
from daybook.journal.errors import NoJournal


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_history(tmp_path_factory.mktemp("broker"), 1000)


def test_each_message_was_routed_delivered_and_acknowledged(history: Path) -> None:
    found = measure_fold(history, 2)
    assert 3000 < found.events < 3100
    for speed in (found.columns, found.read, found.fold):
        assert 0 < speed.lowest <= speed.median <= speed.highest
        assert speed.per_cpu_second > 0


def test_the_command_measures_a_given_directory(history: Path) -> None:
    result = CliRunner().invoke(main, [str(history), "--runs", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert msgspec.json.decode(result.output, type=FoldSpeed).events > 3000
    result = CliRunner().invoke(main, [str(history), "--runs", "1"])
    assert "fold into a fresh state" in result.output


def test_a_directory_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoJournal):
        measure_fold(tmp_path, 1)
    result = CliRunner().invoke(main, [str(tmp_path)])
    assert result.exit_code == 1
    assert f"Error: {tmp_path} is not a data directory" in result.output
