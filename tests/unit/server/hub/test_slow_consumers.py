"""Slow consumers: those that could have consumed more, and nobody else."""

from daybook.engine.commands import ChangeSettings, PauseQueue
from tests.support.topology import create_queue
from tests.unit.server.hub.test_hub import Bench, Client

SECOND = 1_000_000


def bench_with(policy: str = "NOTIFY", threshold: int = 2) -> Bench:
    """A hub whose consumers of `a` must consume 2 messages a second, looked at over 5 seconds."""
    bench = Bench()
    settings: dict[str, str | int | bool] = {
        "slow-consumer-threshold": threshold,
        "slow-consumer-policy": policy,
    }
    bench.hub.request(ChangeSettings({"a": settings}))
    bench.run()
    return bench


def subscribe(client: Client, queue: str = "a", **headers: str) -> None:
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    client.do(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\n{lines}\n\0".encode())


def fill(client: Client, count: int, queue: str = "a") -> None:
    for _ in range(count):
        client.message(b"x", queue)
    client.bench.run()


def tick(bench: Bench, seconds: int) -> None:
    for _ in range(seconds):
        bench.now += SECOND
        bench.hub.tick()
        bench.run()


def slow(bench: Bench) -> list[str]:
    return [row["queue"] for row in bench.hub.status()["slow_consumers"]]


def test_who_consumes_nothing_is_named_once() -> None:
    bench = bench_with()
    client = bench.connect()
    fill(client, 100)
    subscribe(client, ack="client-individual")
    tick(bench, 20)
    [row] = bench.hub.status()["slow_consumers"]
    assert (row["queue"], row["rate"], row["user"]) == ("a", 0, "guest")
    [notice] = [each for each in bench.notices if "is slow" in each]
    assert "slow-consumer-threshold is 2" in notice
    assert client.transport.closed_after_ms is None


def test_who_acknowledges_enough_is_not_slow() -> None:
    bench = bench_with()
    client = bench.connect()
    fill(client, 100)
    subscribe(client, ack="client-individual", credit="100")
    [consumer] = bench.hub.broker.state.consumers.values()
    for _ in range(20):
        for message in list(consumer.unacked)[:2]:
            client.do(b"ACK\nid:1-%d\n\n\0" % message)
        tick(bench, 1)
    assert slow(bench) == []
    # Then it stops, is found, and is forgotten when it is quick again.
    tick(bench, 6)
    assert slow(bench) == ["a"]
    for message in list(consumer.unacked):
        client.do(b"ACK\nid:1-%d\n\n\0" % message)
    tick(bench, 6)
    assert slow(bench) == []


def test_who_has_nothing_to_consume_is_not_slow() -> None:
    bench = bench_with()
    client, lazy = bench.connect(), bench.connect()
    subscribe(lazy)
    subscribe(client, "free", ack="client")
    fill(client, 3, "free")
    tick(bench, 8)
    fill(client, 2)
    tick(bench, 12)
    bench.hub.request(PauseQueue("a"))
    fill(client, 100)
    tick(bench, 12)
    assert slow(bench) == []


def test_who_waits_for_other_consumers_is_not_slow() -> None:
    bench = bench_with()
    client = bench.connect()
    bench.hub.request(create_queue("a", "a", consumers_before_dispatch=2))
    fill(client, 100)
    subscribe(client, ack="client-individual")
    tick(bench, 20)
    assert slow(bench) == []


def test_who_reads_nothing_is_slow_without_acknowledging() -> None:
    bench = bench_with("KILL")
    client, deaf = bench.connect(), bench.connect()
    deaf.transport.stuck = 10 << 20
    subscribe(deaf)
    fill(client, 20_000)
    tick(bench, 12)
    assert "slow-consumer-threshold" in deaf.transport.take().decode()
    assert deaf.transport.closed_after_ms is not None
    assert client.transport.closed_after_ms is None
    bench.hub.lost(deaf.peer)
    bench.run()
    assert any("is closed" in each for each in bench.notices)
    assert slow(bench) == []


def test_a_clock_that_was_set_back_begins_anew() -> None:
    bench = bench_with()
    client = bench.connect()
    fill(client, 100)
    subscribe(client, ack="client")
    tick(bench, 2)
    bench.now -= 100 * SECOND
    tick(bench, 104)
    assert slow(bench) == ["a"]


def test_a_queue_that_waits_for_the_credit_of_its_subscription_is_not_slow() -> None:
    """A subscription to several queues consumes fast enough, though one of them gets little."""
    bench = bench_with()
    client = bench.connect()
    fill(client, 100)
    fill(client, 100, "b")
    client.do(
        b"SUBSCRIBE\nid:1\ndestination:/queue/b,/queue/a\nack:client-individual\ncredit:3,0\n\n\0"
    )
    [bundle] = bench.hub.broker.bundles.values()
    for _ in range(12):
        for message in list(bundle.holding):
            client.do(b"ACK\nid:1-%d\n\n\0" % message)
        tick(bench, 1)
    assert slow(bench) == []
    tick(bench, 7)
    assert slow(bench) == ["a"]
