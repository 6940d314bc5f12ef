"""A sharded queue on three brokers, of which one is killed or hangs meanwhile (ADR 110)."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop.connectors.using import wait_until
from tests.interop.routing.three import (
    ACCEPTED,
    IN_DOUBT,
    Client,
    a_broker,
    connector,
    port_of,
    running,
    wait_for_links,
)
from tests.interop.using import audited, queues
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

SHORT: Final = 'idle-time-out = "1s"'
LINKS: Final = ("orders-out-b", "orders-in-b", "orders-out-c", "orders-in-c")
Trio = tuple[BrokerProcess, BrokerProcess, BrokerProcess]


def _sharded(*lines: str) -> str:
    return "\n".join(
        ("[[sharded-queue]]", 'name = "orders"', 'connectors = ["b", "c"]', *lines, "")
    )


@pytest.fixture
def trio(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Trio]:
    b, c = a_broker(tmp_path, "b"), a_broker(tmp_path, "c")
    lines = getattr(request, "param", ())
    ways = connector("b", port_of(b), SHORT) + connector("c", port_of(c), SHORT)
    a = a_broker(tmp_path, "a", ways + _sharded(*lines))
    with running(b, c, a):
        wait_for_links(a, *LINKS)
        yield a, b, c


def _ready(*brokers: BrokerProcess) -> list[int]:
    return [queues(each)["orders"]["ready"] for each in brokers]


def test_each_broker_has_a_share_and_all_arrives_once(trio: Trio) -> None:
    a, b, c = trio
    bodies = [str(at) for at in range(300)]
    with Client(a) as client, Client(a) as other:
        sender = client.sender("orders")
        assert set(client.outcomes([client.begin(sender, each) for each in bodies])) == {ACCEPTED}
        shares = _ready(a, b, c)
        assert sum(shares) == 300
        assert min(shares) > 50, shares
        half = client.take_all("orders", 150)
        assert sorted(half + other.take_all("orders", 150), key=int) == bodies
    for each in trio:
        audited(each)


def test_a_shard_whose_broker_is_killed_leaves_its_messages_in_doubt(trio: Trio) -> None:
    a, b, _ = trio
    with Client(a) as client:
        sender = client.sender("orders")
        before = [client.begin(sender, str(at)) for at in range(100)]
        b.kill()
        heard = client.outcomes(before)
        assert set(heard) <= {ACCEPTED, *IN_DOUBT}
        heard += client.outcomes([client.begin(sender, str(at)) for at in range(100, 200)])
        wait_until(a, "waiting", "b")
        others = client.outcomes([client.begin(sender, str(at)) for at in range(200, 300)])
        assert set(others) == {ACCEPTED}
        b.start()
        wait_for_links(a, *LINKS)
        _check(client, heard + others)
    for each in trio:
        audited(each)


def test_a_shard_whose_broker_hangs_holds_up_no_other(trio: Trio) -> None:
    a, b, _ = trio
    with Client(a) as client:
        sender = client.sender("orders")
        b.send_signal(signal.SIGSTOP)
        try:
            sent = [client.begin(sender, str(at)) for at in range(100)]
            client.connection.wait(
                lambda: sum(bool(each.remote_state) for each in sent) >= 60, msg="the others"
            )
            wait_for(lambda: queues(a)["orders"]["added"] > 0, "the shard here")
            heard = client.outcomes(sent)
            wait_until(a, "waiting", "b")
            later = client.outcomes([client.begin(sender, str(at)) for at in range(100, 150)])
        finally:
            b.send_signal(signal.SIGCONT)
        assert set(heard) <= {ACCEPTED, *IN_DOUBT}
        assert set(later) == {ACCEPTED}
        wait_for_links(a, *LINKS)
        _check(client, heard + later)
    for each in trio:
        audited(each)


def _check(client: Client, heard: list[int]) -> None:
    """Accepted messages arrive once; those in doubt, at most once."""
    accepted = {str(at) for at, each in enumerate(heard) if each == ACCEPTED}
    counts = Counter(client.drain("orders"))
    assert not accepted - set(counts), "lost"
    assert {body for body, count in counts.items() if count > 1} == set()


@pytest.mark.parametrize("trio", [('shard-by = "group"',)], indirect=True)
def test_groups_keep_their_order_and_wait_for_their_shard(trio: Trio) -> None:
    a, b, c = trio
    groups = [f"g{at}" for at in range(12)]
    with Client(a) as client:
        sender = client.sender("orders")
        heard: list[int] = []
        for turn in range(10):
            heard += client.outcomes([client.begin(sender, f"{g}:{turn}", g) for g in groups])
        assert set(heard) == {ACCEPTED}
        shares = _ready(a, b, c)
        assert [each % 10 for each in shares] == [0, 0, 0]
        assert min(shares) > 0, shares
        b.kill()
        wait_until(a, "waiting", "b")
        away = client.outcomes([client.begin(sender, f"{g}:10", g) for g in groups])
        assert away.count(ACCEPTED) == (shares[0] + shares[2]) // 10
        assert set(away) == {ACCEPTED, IN_DOUBT[0]}
        b.start()
        wait_for_links(a, *LINKS)
        again = [g for g, each in zip(groups, away, strict=True) if each != ACCEPTED]
        said = client.outcomes([client.begin(sender, f"{g}:10", g) for g in again])
        assert set(said) == {ACCEPTED}
        taken = client.take_all("orders", 12 * 11)
    for group in groups:
        turns = [int(each.split(":")[1]) for each in taken if each.startswith(f"{group}:")]
        assert turns == list(range(11)), group
