"""The benchmark of filters measures what it says."""

from click.testing import CliRunner

from bench.filters import CONDITIONS, WHOLE, main


def test_each_filter_is_measured() -> None:
    result = CliRunner().invoke(main, ["--times", "20"])
    assert result.exit_code in (0, 1), result.output
    for text in (*CONDITIONS, WHOLE):
        assert text in result.output
    assert " us " in result.output
