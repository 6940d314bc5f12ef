"""The benchmark of routing measures what it says."""

import msgspec
import pytest
from click.testing import CliRunner

from bench.routing import BINDINGS, KINDS, SETTINGS, Routing, main, name_of, prepare, send_all


def test_each_address_is_covered_by_one_match() -> None:
    broker, _ = prepare(SETTINGS, 30, 10, 10)
    for number in range(30):
        resolved = broker.state.settings.resolve(name_of(number, 10))
        assert resolved.max_size_messages == 1_000_000 + number % 10


def test_each_message_goes_to_the_queue_of_one_pattern() -> None:
    broker, sends = prepare(BINDINGS, 30, 10, 5)
    send_all(broker, sends)
    counts = [broker.state.queue_by_name[f"q{number}"].message_count for number in range(10)]
    assert counts == [6] * 5 + [0] * 5
    assert len(broker.state.queues) == 10


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_measures_both(kind: str) -> None:
    arguments = ["--addresses", "50", "--patterns", "20", "--runs", "1", "--kind", kind]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code in (0, 1), result.output
    found = msgspec.json.decode(result.output, type=Routing)
    assert (found.kind, found.addresses, found.patterns) == (kind, 50, 20)
    assert min(found.few_us, found.many_us, found.spread_us, found.new_few_us) > 0
    assert "many us" in CliRunner().invoke(main, arguments).output
