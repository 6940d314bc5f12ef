"""The seed's section "Message Groups", sentence by sentence, with `default-group-hashing = true`.

Shown elsewhere already:

| sentence | test in `test_groups.py` |
|---|---|
| "the stomp message_group header is used to define" | `test_each_group_sticks_to_a_consumer` |
| the same without hashing | the others |
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.interop.conftest import NO_LIMIT
from tests.interop.delivery.test_groups import Worker
from tests.interop.using import arrived, connected, daybook, sent
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

GROUPS = [f"group-{number}" for number in range(40)]
HASHED = NO_LIMIT + "default-group-hashing = true\n"


@pytest.fixture
def hashed(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose queues know groups by hashing."""
    with BrokerProcess(tmp_path / "data", config=HASHED) as process:
        yield process.start()


def put(broker: BrokerProcess, *bodies: str) -> None:
    """Send messages whose bodies begin with the names of their groups."""
    with connected(broker) as wire:
        for body in bodies:
            group = body.split()[0]
            wire.send("SEND", body.encode(), destination="/queue/jobs", message_group=group)
        sent(wire, "/topic/nobody", b"")


def done(worker: Worker) -> list[str]:
    """Acknowledge the messages that were delivered by now, and return them."""
    found = arrived(worker)
    worker.ack(*found)
    arrived_meanwhile = arrived(worker)
    worker.ack(*arrived_meanwhile)
    return [frame.body.decode() for frame in [*found, *arrived_meanwhile]]


def shares(broker: BrokerProcess, *workers: Worker) -> list[set[str]]:
    """Return the groups of each worker."""
    put(broker, *GROUPS)
    found = [set(done(worker)) for worker in workers]
    assert sum(map(len, found)) == len(GROUPS)
    return found


def test_all_messages_of_a_group_are_sent_to_its_consumer_in_order(hashed: BrokerProcess) -> None:
    """Seed: "guaranteed ordering of the processing of related messages across a single queue"."""
    with Worker(hashed) as one, Worker(hashed) as other:
        put(hashed, *(f"{group} {number}" for number in range(3) for group in GROUPS))
        found = [[body.split() for body in done(worker)] for worker in (one, other)]
    with_one, with_other = ({group for group, _ in each} for each in found)
    assert not with_one & with_other
    assert with_one | with_other == set(GROUPS)
    for group in GROUPS:
        (numbers,) = [
            [number for name, number in each if name == group]
            for each in found
            if group in {name for name, _ in each}
        ]
        assert numbers == ["0", "1", "2"]


def test_the_processing_is_balanced_across_consumers(hashed: BrokerProcess) -> None:
    """Seed: "load balancing of the processing of messages across multiple consumers"."""
    with Worker(hashed) as one, Worker(hashed) as two, Worker(hashed) as three:
        assert all(len(share) > 4 for share in shares(hashed, one, two, three))


def test_it_is_sticky_load_balancing(hashed: BrokerProcess) -> None:
    """Seed: "it provides sticky load balancing of messages across consumers", also when idle."""
    with Worker(hashed) as one, Worker(hashed) as two, Worker(hashed) as three:
        first = shares(hashed, one, two, three)
        assert shares(hashed, one, two, three) == first


def test_another_consumer_takes_over_when_one_is_disconnected(hashed: BrokerProcess) -> None:
    """Seed: "high availability / auto-failover", "or if the consumer is disconnected"."""
    with Worker(hashed) as one, Worker(hashed) as two:
        _, lost = shares(hashed, one, two)
        put(hashed, *(f"{group} {number}" for number in range(2) for group in sorted(lost)))
        assert len(arrived(two)) == 2 * len(lost)
        two.close()
        found = []
        while len(found) < 2 * len(lost):
            found += done(one)
    for group in lost:
        assert [body for body in found if body.split()[0] == group] == [f"{group} 0", f"{group} 1"]


def test_the_consumer_of_a_group_changes_only_after_all_is_acknowledged(
    hashed: BrokerProcess,
) -> None:
    """Seed: "may change but not before all messages sent to the previous consumer are acked"."""
    with Worker(hashed) as one:
        put(hashed, *(f"{group} 1" for group in GROUPS))
        frames = arrived(one)
        assert len(frames) == len(GROUPS)
        with Worker(hashed) as two:
            put(hashed, *(f"{group} 2" for group in GROUPS))
            stayed = {frame.body.decode().split()[0] for frame in arrived(one)}
            moved = set(GROUPS) - stayed
            assert stayed
            assert moved
            assert arrived(two) == []
            # One by one, in the order in which they are acknowledged.
            for frame in frames:
                group = frame.body.decode().split()[0]
                one.ack(frame)
                arrived(one)
                expected = [f"{group} 2"] if group in moved else []
                assert [each.body.decode() for each in arrived(two)] == expected


def test_a_new_subscription_rebalances_the_groups(hashed: BrokerProcess) -> None:
    """Seed: "When you add another subscription to a queue, ... rebalances the message groups".

    Consistent hashing: what moves, moves to the new one, and the broker waits for those alone.
    """
    with Worker(hashed) as one, Worker(hashed) as two:
        before = shares(hashed, one, two)
        with Worker(hashed) as three:
            *after, new = shares(hashed, one, two, three)
            assert 4 < len(new) < 25
            assert [share - new for share in before] == after
        one.send("BEGIN", transaction="x", receipt="b")
        one.expect("RECEIPT")
        assert shares(hashed, one, two) == before


def test_the_groups_in_flight_are_listed_and_none_is_reset(hashed: BrokerProcess) -> None:
    """The broker knows only the groups of messages in flight."""
    with Worker(hashed) as one:
        put(hashed, "eu 1", "us 1")
        frames = arrived(one)
        rows = msgspec.json.decode(daybook(hashed, "queue", "groups", "jobs", "--json"))
        assert [row["group"] for row in rows] == ["eu", "us"]
        one.ack(*frames)
        arrived(one)
        assert msgspec.json.decode(daybook(hashed, "queue", "groups", "jobs", "--json")) == []


def test_a_queue_that_exists_is_changed_while_it_runs(broker: BrokerProcess) -> None:
    """`group-hashing` is an attribute of queues: those that exist can get it, too."""
    with Worker(broker) as one, Worker(broker) as two:
        before = shares(broker, one, two)
        daybook(broker, "queue", "update", "jobs", "--group-hashing")
        after = shares(broker, one, two)
        assert after != before
        assert shares(broker, one, two) == after
        broker.kill()
    broker.launch()
    broker.wait_until_ready()
    with Worker(broker) as one, Worker(broker) as two:
        first = shares(broker, one, two)
        assert shares(broker, one, two) == first
