"""The benchmark of AMQP's codec measures what it says."""

from click.testing import CliRunner

from bench.amqp import main


def test_each_step_is_measured() -> None:
    result = CliRunner().invoke(main, ["--times", "20"])
    assert result.exit_code in (0, 1), result.output
    for text in ("read the frame", "find the sections", "a message in and out"):
        assert text in result.output
    assert " us, compiled: " in result.output
