"""The benchmark of features measures what it says."""

from click.testing import CliRunner

from bench.features import KINDS, MATCHES, World, main, measure
from daybook.engine.facts.definitions import QUEUE_ATTRIBUTES


def test_both_brokers_do_the_same_with_the_plain_queue() -> None:
    for with_features in (False, True):
        world = World(with_features=with_features)
        world.turn()
        queue = world.broker.state.queue_by_name["plain.orders"]
        assert (queue.message_count, queue.acknowledged) == (0, 50)


def test_one_of_them_has_queues_of_every_kind_elsewhere() -> None:
    """And nothing of it covers the plain queue."""
    broker = World(with_features=True).broker
    state = broker.state
    defaults = {each.field: each.default for each in QUEUE_ATTRIBUTES}
    for kind, attributes in KINDS.items():
        definition = state.queue_by_name[f"elsewhere.{kind}"].definition
        assert all(getattr(definition, key) == value for key, value in attributes.items())
    plain = state.queue_by_name["plain.orders"].definition
    assert {key: getattr(plain, key) for key in defaults} == defaults
    assert len(state.settings.to_dict()) == MATCHES
    assert len(state.diverts) == 10
    assert broker.wildcards.count == 3
    assert sum(queue.scheduled_count for queue in state.queues.values()) > 100


def test_the_command_measures_all_three() -> None:
    assert min(measure(2)) > 0
    arguments = ["--turns", "10", "--addresses", "50", "--runs", "1"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (0, 1), result.output
    assert "beside everything" in result.output
    assert "50 addresses, 100 matches" in result.output
