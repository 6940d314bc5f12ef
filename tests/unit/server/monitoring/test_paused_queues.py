"""Paused queues with messages are found, a few of them at a time."""

from daybook.engine.commands import PauseAddress, PauseQueue, ResumeAddress, ResumeQueue
from daybook.server.monitoring.paused_queues import LOOKED_AT, NAMED_MAX, PausedQueues
from tests.unit.server.hub.test_hub import Bench
from tests.unit.server.monitoring.test_figures import create, monitoring_of, told


def full(bench: Bench, count: int) -> None:
    create(bench, count)
    client = bench.connect()
    for number in range(count):
        client.message(b"x", queue=f"q{number}")
    bench.run()


def test_what_is_paused_by_itself_or_by_its_address_is_found() -> None:
    bench = Bench()
    full(bench, 4)
    bench.hub.request(PauseQueue("q1"))
    bench.hub.request(PauseAddress("q2"))
    bench.run()
    watch = PausedQueues()
    watch.look(bench.hub.broker.state)
    assert watch.status() == {
        "count": 2,
        "queues": [
            {"queue": "q1", "address": "q1", "messages": 1, "paused": "queue"},
            {"queue": "q2", "address": "q2", "messages": 1, "paused": "address"},
        ],
    }
    paused = told(monitoring_of(bench))["daybook_queue_paused"]
    assert {name for (_, name), value in paused.items() if value} == {"q1", "q2"}
    bench.hub.request(ResumeQueue("q1"))
    bench.hub.request(ResumeAddress("q2"))
    bench.run()
    watch.look(bench.hub.broker.state)
    assert watch.status() == {"count": 0, "queues": []}


def test_a_tick_looks_at_few_of_many() -> None:
    bench = Bench()
    count = 2 * LOOKED_AT + 1
    full(bench, count)
    for number in range(count):
        bench.hub.request(PauseQueue(f"q{number}"))
    bench.run()
    watch = PausedQueues()
    state = bench.hub.broker.state
    for _ in range(2):
        watch.look(state)
        assert watch.status()["count"] == 0
    watch.look(state)
    assert watch.status()["count"] == count
    assert len(watch.status()["queues"]) == NAMED_MAX
