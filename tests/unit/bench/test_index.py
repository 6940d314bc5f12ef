"""The index is measured over histories of every kind, all of which it folds."""

from pathlib import Path

import msgspec
from click.testing import CliRunner

from bench.index import IndexSpeed, main, measure


def test_every_work_is_measured(tmp_path: Path) -> None:
    found = {speed.work: speed for speed in measure(tmp_path, 1200, 1)}
    assert found["fill of one queue"].events > 1200
    assert found["drain of one queue"].events > 2400
    assert found["fill of 1,000 queues"].events > 2400
    assert found["drain of 1,000 queues"].events > 2400
    assert found["pipe"].events > 2400
    for speed in found.values():
        assert 0 < speed.fold_lowest <= speed.fold_per_second <= speed.fold_highest
        assert 0 < speed.read_and_fold_per_second < speed.fold_highest
        assert speed.commits > 0


def test_the_command_prints_and_tells_programs() -> None:
    result = CliRunner().invoke(main, ["--messages", "1000", "--runs", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert len(msgspec.json.decode(result.output, type=list[IndexSpeed])) == 5
    result = CliRunner().invoke(main, ["--messages", "1000", "--runs", "1"])
    assert "drain of 1,000 queues" in result.output
