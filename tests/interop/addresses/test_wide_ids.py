"""A broker whose next queue needs an id of more than four bytes lives like any other."""

from pathlib import Path
from typing import Any

import msgspec

from daybook.engine.commands import CreateQueue
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.facts.events import SHORT_ID_MAX
from daybook.tools.daybook import cli as daybook_cli
from daybook.tools.journal_cli import cli as journal_cli
from tests.interop.history.test_retention import drain, run, send, status
from tests.support.histories import write_history
from tests.support.process import BrokerProcess, wait_for
from tests.support.world import World
from tests.support.worlds.wide import ids_from

CONFIG = """
[[address-setting]]
match = "deep"
max-size-messages = 10
"""
WIDE = SHORT_ID_MAX + 1


def begin(data: Path) -> None:
    """Write the journal of a broker whose last queue has the largest id of four bytes."""
    with ids_from(SHORT_ID_MAX):
        world = World()
        world.ok(CreateQueue("last", QueueDefinition(name="last")))
        world.send("last", b"from before", world.connect())
        world.turn()
    write_history(data, world.journal)


def lines(text: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in text.splitlines()]


def check(data: Path) -> None:
    """Journal, index, fold and recorded digests agree."""
    run(journal_cli, "verify", "--data", data, "--index")


def test_such_queues_route_page_survive_and_are_shown(tmp_path: Path) -> None:
    data = tmp_path / "data"
    begin(data)
    with BrokerProcess(data, config=CONFIG) as broker:
        broker.start()
        send(broker, "deep", 0, 60)
        send(broker, "other", 0, 5)
        wait_for(
            lambda: status(broker)["indexed_lsn"] >= status(broker)["durable_lsn"], "the index"
        )
        broker.kill()
        check(data)
        broker.start()
        assert drain(broker, "deep", 60) == list(range(60))
        send(broker, "deep", 60, 80)
        assert broker.stop() == 0
        check(data)
        broker.start()
        assert drain(broker, "deep", 20) == list(range(60, 80))
        assert drain(broker, "other", 5) == list(range(5))
        assert broker.stop() == 0
    check(data)
    expected = [
        (SHORT_ID_MAX, SHORT_ID_MAX, "last"), (WIDE, WIDE, "deep"), (WIDE + 1, WIDE + 1, "other"),
    ]  # fmt: skip
    routed = lines(run(journal_cli, "inspect", "--data", data, "--kind", "Routed", "--json"))
    found = {(each["queue"], each["address"], each["queue_name"]) for each in routed}
    assert sorted(found) == expected
    assert run(journal_cli, "inspect", "--data", data, "--kind", "PagingStarted")
    question = "SELECT DISTINCT queue, queue_id, address_id FROM events WHERE kind = 'Routed'"
    told = lines(run(journal_cli, "sql", "--data", data, "--format", "jsonl", question))
    found = {(each["queue_id"], each["address_id"], each["queue"]) for each in told}
    assert sorted(found) == expected
    run(daybook_cli, "pipeline", "audit", "--data", data)
