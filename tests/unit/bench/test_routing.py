"""The benchmark of routing measures what it says."""

import msgspec
from click.testing import CliRunner

from bench.routing import Routing, main, name_of, settings_for
from daybook.engine.settings import Settings


def test_each_address_is_covered_by_one_pattern() -> None:
    settings = Settings(settings_for(10))
    for number in range(30):
        resolved = settings.resolve(name_of(number, 10))
        assert resolved.max_size_messages == 1_000_000 + number % 10


def test_the_command_measures_both() -> None:
    arguments = ["--addresses", "50", "--patterns", "20", "--runs", "1"]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code in (0, 1), result.output
    found = msgspec.json.decode(result.output, type=Routing)
    assert (found.addresses, found.patterns) == (50, 20)
    assert found.few_us > 0
    assert found.many_us > 0
    assert "many us" in CliRunner().invoke(main, arguments).output
