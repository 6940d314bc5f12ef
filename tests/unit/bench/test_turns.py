"""The benchmark of round trips in turn measures what it says."""

from pathlib import Path

import msgspec
from click.testing import CliRunner

from bench.turns import Trips, main


def test_the_floor_and_a_broker_are_measured_in_turn(tmp_path: Path) -> None:
    arguments = ["--rounds", "2", "--each", "10", "--clients", "3", "--data", str(tmp_path)]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    floor, daybook, amqp = msgspec.json.decode(result.stdout, type=list[Trips])
    assert (floor.name, daybook.name, amqp.name) == ("floor", "daybook", "daybook-amqp")
    assert {share.process for share in daybook.shares} >= {"broker", "writer"}
    for one in (floor, daybook, amqp):
        assert 0 < one.p10_us <= one.p50_us <= one.p99_us
    assert list(tmp_path.iterdir()) == []


def test_a_table_compares_with_the_floor(tmp_path: Path) -> None:
    arguments = ["--rounds", "1", "--each", "10", "--data", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    lines = [line.split("|")[1].strip() for line in result.stdout.splitlines() if "|" in line]
    assert lines[-3:] == ["floor", "daybook", "daybook-amqp"]


def test_a_version_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--also", "nothing", "--data", str(tmp_path)])
    assert result.exit_code == 2
