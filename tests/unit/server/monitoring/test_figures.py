"""The figures of a broker: those of queues and addresses, and how many at a time."""

import time
from typing import Any

import pytest

from daybook.engine.commands import CreateAddress, CreateQueue
from daybook.engine.facts.definitions import QueueDefinition
from daybook.journal.writing.writer import SYNC_BOUNDS, SyncTimes, WriterStats
from daybook.protocols.port import ACTIVE, FAILED, Histogram
from daybook.server.monitoring import figures
from daybook.server.monitoring.figures import FAMILIES, SLICE, AcceptorFigures, ConnectorFigures
from daybook.server.monitoring.health import CONSOLE_NAME, problems, why_unready
from daybook.server.monitoring.status_view import LAGS_MAX, BrokerMonitoring, IndexLag, Phase
from tests.unit.server.hub.test_hub import Bench
from tests.unit.server.monitoring.test_cluster_health import a_leader

NUMBERS = {
    "uptime_seconds": 5.0, "connections_refused": 1, "connections_dismissed": 2,
    "logins_turned_away": 3, "logins_waiting": 4, "disk_free_bytes": None, "journal_segments": 6,
    "indexed_lsn": 1, "unindexed_bytes": 8, "index_bytes": 9, "indexer_restarts": 10,
    "signed_lsn": 11, "anchored_lsn": 12,
}  # fmt: skip


def monitoring_of(bench: Bench, **vitals: Any) -> BrokerMonitoring:
    times = SyncTimes()
    for seconds in (0.0001, 0.3, 100.0):
        times.note(seconds)
    stats = WriterStats(7, 8, 0, 0.1, 0.2, 0.3, "", tuple(times.counts), times.seconds)
    return BrokerMonitoring(
        bench.hub,
        clock=lambda: bench.now,
        stats=lambda: stats,
        vitals=lambda: vitals,
        numbers=lambda: NUMBERS,
        acceptors=lambda: [AcceptorFigures("a", "stomp", 3)],
        certificates=lambda: [("a", 1.9e9), (CONSOLE_NAME, 2e9)],
        connectors=lambda: [ConnectorFigures("east", True, 3, 2)],
        auto_links=lambda: [ACTIVE, ACTIVE, FAILED],
    )


def told(
    monitoring: BrokerMonitoring, names_max: int = 1000
) -> dict[str, dict[tuple[str, ...], Any]]:
    """All values by family and labels; each family is given in one go."""
    values: dict[str, dict[tuple[str, ...], Any]] = {}
    for reading in monitoring.readings(names_max):
        if reading is None:
            continue
        name = reading.family.name
        assert name not in values or name == list(values)[-1]
        assert len(reading.values) <= SLICE
        for labels, value in reading.values:
            assert len(labels) == len(reading.family.labels)
            assert labels not in values.get(name, {})
            values.setdefault(name, {})[labels] = value
    return values


def create(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.hub.request(CreateAddress(f"q{number}", ("anycast",)))
        bench.hub.request(CreateQueue(f"q{number}", QueueDefinition(name=f"q{number}")))
        bench.run()


def test_connectors_and_auto_links_have_metrics() -> None:
    found = told(monitoring_of(Bench()))
    assert found["daybook_connector_up"] == {("east",): 1.0}
    assert found["daybook_connector_attempts_total"] == {("east",): 3}
    assert found["daybook_connector_failures_total"] == {("east",): 2}
    assert found["daybook_auto_links"] == {
        ("inactive",): 0, ("attaching",): 0, ("active",): 2, ("failed",): 1,
    }  # fmt: skip


def test_certificates_have_a_metric_also_that_of_the_console() -> None:
    found = told(monitoring_of(Bench()))["daybook_certificate_expiry_timestamp_seconds"]
    assert found == {("a",): 1.9e9, (CONSOLE_NAME,): 2e9}


def test_a_connector_that_is_down_is_a_warning() -> None:
    down = [{"connector": f"c{each}", "why": "it hangs"} for each in range(7)]
    (problem,) = problems({"connectors_in_trouble": down})
    assert (problem.code, problem.kind, problem.unready) == (0, "connector", "")
    assert problem.text.startswith("connector c0 is down: it hangs; connector c1 is down")
    assert problem.text.endswith("; 2 more connectors are down")
    (problem,) = problems({"connectors_in_trouble": down[:6]})
    assert problem.text.endswith("; 1 more connector is down")


def test_a_certificate_that_expires_is_a_warning() -> None:
    row = {"acceptor": "tls", "days_left": 3, "expires": 1_764_000_000_000}
    (problem,) = problems({"certificates_expiring": [row]})
    assert (problem.code, problem.kind, problem.unready) == (0, "certificate", "")
    assert problem.text == (
        "the certificate of acceptor tls expires on 2025-11-24 16:00 UTC, in 3 days; renew it,"
        " then send SIGHUP"
    )
    (problem,) = problems({"certificates_expiring": [row | {"days_left": -1}]})
    assert "acceptor tls expired on 2025-11-24 16:00 UTC; renew it" in problem.text
    (problem,) = problems({"certificates_expiring": [row | {"acceptor": CONSOLE_NAME}]})
    assert problem.text.startswith("the certificate of the console expires on 2025-11-24 16:00")


def test_every_family_is_told_of_a_broker_with_queues() -> None:
    bench = Bench()
    bench.connect().message(b"x")
    bench.run()
    found = told(monitoring_of(bench, cluster=a_leader()))
    assert list(found) == [family.name for family in FAMILIES]


def test_queues_and_addresses_are_counted_as_they_are() -> None:
    bench = Bench()
    client = bench.connect()
    for _ in range(3):
        client.message(b"hello")
    client.do(b"SUBSCRIBE\nid:1\nack:client-individual\ndestination:/queue/a\n\n\0")
    message = next(iter(bench.hub.broker.state.queue_by_name["a"].entries))
    client.do(b"ACK\nid:1-%d\n\n\0" % message)
    values = told(monitoring_of(bench))
    queue = ("a", "a")
    assert values["daybook_queue_messages_added_total"] == {queue: 3}
    assert values["daybook_queue_messages_acknowledged_total"] == {queue: 1}
    assert values["daybook_queue_messages_in_flight"] == {queue: 2}
    assert values["daybook_queue_messages_ready"] == {queue: 0}
    assert values["daybook_queue_consumers"] == {queue: 1}
    assert values["daybook_address_messages"] == {("a",): 2}
    size = values["daybook_queue_size_bytes"][queue]
    assert values["daybook_address_size_bytes"] == {("a",): size}
    assert size > 0
    assert values["daybook_consumers"] == {(): 1}
    assert values["daybook_messages_delivered_total"] == {(): 3}


@pytest.mark.parametrize("names_max", [0, 1, 5, 6, 100])
def test_what_is_left_out_is_summed_up(names_max: int) -> None:
    bench = Bench()
    create(bench, 5)
    client = bench.connect()
    for number in range(5):
        for _ in range(number):
            client.message(b"x", queue=f"q{number}")
    client.send(b"SUBSCRIBE\nid:1\ndestination:/topic/news\n\n\0")
    bench.run()
    queues = len(bench.hub.broker.state.queues)
    values = told(monitoring_of(bench), names_max)
    added = values["daybook_queue_messages_added_total"]
    assert sum(added.values()) == 10
    left_out = max(0, queues - names_max)
    assert values["daybook_queues_left_out"] == {(): left_out}
    assert (("", "") in added) == bool(left_out)
    assert len(added) == min(queues, names_max) + bool(left_out)
    if 0 < names_max <= 5:
        # The queue of the subscriber, which is temporary, is the first to be left out.
        assert list(added)[:names_max] == [(f"q{n}", f"q{n}") for n in range(names_max)]
    addresses = len(bench.hub.broker.state.addresses)
    assert values["daybook_addresses_left_out"] == {(): max(0, addresses - names_max)}


def test_many_queues_are_read_and_told_in_slices() -> None:
    bench = Bench()
    create(bench, 2 * SLICE + 1)
    # The machine may do something else for a moment, but hardly each time.
    best = float("inf")
    for _ in range(5):
        steps = monitoring_of(bench).readings(10_000)
        longest, begun = 0.0, time.thread_time()
        for _ in steps:
            longest = max(longest, time.thread_time() - begun)
            begun = time.thread_time()
        best = min(best, longest)
    assert best < 0.05


def test_names_that_change_between_slices_disturb_nothing() -> None:
    bench = Bench()
    create(bench, SLICE + 1)
    readings = monitoring_of(bench).readings(10_000)
    while next(readings) is not None:
        pass
    for number in range(SLICE + 1):
        bench.hub.broker.state.queues.pop(bench.hub.broker.state.queue_by_name.pop(f"q{number}").id)
    assert sum(1 for _ in readings) > 10


def test_sync_times_are_a_histogram() -> None:
    (value,) = told(monitoring_of(Bench()))["daybook_journal_sync_seconds"].values()
    assert isinstance(value, Histogram)
    assert value.buckets[0] == (SYNC_BOUNDS[0], 1)
    assert value.buckets[-2:] == ((SYNC_BOUNDS[-1], 2), (float("inf"), 3))
    assert value.sum == pytest.approx(100.3001)


def test_problems_are_counted_by_kind_and_readiness_by_what_stops_messages() -> None:
    bench = Bench()
    monitoring = monitoring_of(
        bench, retention_trouble="no archive",
        background=[{"name": "a", "trouble": "x"}, {"name": "b", "trouble": "y"}],
    )  # fmt: skip
    monitoring.phase = Phase.SERVING
    values = told(monitoring)
    assert values["daybook_problems"][("retention",)] == 1
    assert values["daybook_problems"][("background",)] == 2
    assert values["daybook_problems"][("disk",)] == 0
    assert values["daybook_ready"] == {(): 1}
    full = monitoring_of(bench, disk_full="3 bytes are free on /srv/secret")
    full.phase = Phase.SERVING
    assert told(full)["daybook_ready"] == {(): 0}
    assert full.unready() == "the disk is full"


def test_a_start_and_a_stop_are_not_ready_and_only_the_stop_is_an_end() -> None:
    monitoring = monitoring_of(Bench())
    assert (monitoring.unready(), monitoring.ending()) == ("starting", "")
    monitoring.phase = Phase.SERVING
    assert (monitoring.unready(), monitoring.ending()) == ("", "")
    monitoring.phase = Phase.STOPPING
    assert (monitoring.unready(), monitoring.ending()) == ("stopping", "stopping")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({}, ""),
        ({"disk_full": "on /srv"}, "the disk is full"),
        ({"durability_trouble": "the writer"}, "events do not become durable"),
        ({"journal_damage": "in /srv/0001.seg"}, "the journal is damaged"),
        ({"index_trouble": "no room"}, ""),
        ({"retention_trouble": "no archive"}, ""),
        ({"senders_held": "memory is full"}, "memory is full"),
        ({"index_trouble": "x", "senders_held": "the index is behind"}, "the index is behind"),
    ],
)
def test_why_no_messages_are_taken(status: dict[str, Any], why: str) -> None:
    assert why_unready(status) == why
    for problem in problems(status):
        assert problem.kind in figures.KINDS


def test_the_lag_of_the_index_is_that_of_the_oldest_event() -> None:
    lag = IndexLag()
    assert lag.microseconds(10) == 0
    lag.note(5, 5, 100)
    assert lag.microseconds(200) == 0
    lag.note(6, 5, 200)
    lag.note(9, 5, 300)
    assert lag.microseconds(500) == 300
    lag.note(9, 7, 600)
    assert lag.microseconds(700) == 400
    lag.note(9, 9, 800)
    assert lag.microseconds(900) == 0
    for number in range(3 * LAGS_MAX):
        lag.note(10 + number, 9, 1000 + number)
    assert lag.microseconds(10_000) == 9000
    lag.note(9 + 3 * LAGS_MAX, 9 + 3 * LAGS_MAX, 20_000)
    assert lag.microseconds(30_000) == 0
