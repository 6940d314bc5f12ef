"""Chapter 12.1 of Interconnect: brokers behind a router, with three brokers. Clients
connect to one, which has connectors to the two others.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any, Final

import pytest
from proton import Delivery, Timeout

from tests.interop.connectors.using import listed
from tests.interop.routing.three import (
    ACCEPTED,
    Client,
    a_broker,
    auto_link,
    connector,
    port_of,
    running,
    wait_for_links,
)
from tests.interop.using import audited, events, queues
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

Trio = tuple[BrokerProcess, BrokerProcess, BrokerProcess]
Connect = Callable[[BrokerProcess], Client]


def _address(prefix: str, *lines: str) -> str:
    return "\n".join(("[[address]]", f'prefix = "{prefix}"', *lines, ""))


WAYPOINT: Final = "waypoint = true"
FALLBACK: Final = "enable-fallback = true"
NUMBERS: Final = count()
STORED: Final = ("my_queue", "one_each", "renamed")
DIRECT: Final = ("spread", "near", "cheap", "copies")
AWAY: Final = "".join(
    _address(name, 'distribution = "multicast"' if name == "copies" else "") for name in DIRECT
)
"""The direct addresses of the brokers that the links lead to."""
ROUTES: Final = "".join(
    f'[[link-route]]\nprefix = "far"\ndirection = "{way}"\nconnector = "b"\n'
    for way in ("in", "out")
)
HERE: Final = "".join(
    (
        *(_address(name, WAYPOINT) for name in (*STORED, "sharded")),
        *(auto_link(name, way, "b") for name in STORED[:2] for way in ("out", "in")),
        *(auto_link("renamed", way, "b", 'external-address = "its.own"') for way in ("out", "in")),
        *(auto_link("sharded", way, name) for way in ("out", "in") for name in "bc"),
        _address("my_address", FALLBACK),
        *(auto_link("my_address.2", way, "b", "fallback = true") for way in ("out", "in")),
        auto_link("my_address.3", "out", "b", "fallback = true"),
        _address("spread"),
        auto_link("spread", "out", "b"),
        _address("near", 'distribution = "closest"'),
        _address("cheap", 'distribution = "closest"'),
        _address("copies", 'distribution = "multicast"'),
        *(auto_link(address, "out", name) for address in DIRECT[1:] for name in "bc"),
        ROUTES,
    )
)


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    folder = tmp_path_factory.mktemp("three")
    b, c = a_broker(folder, "b", AWAY), a_broker(folder, "c", AWAY)
    ways = connector("b", port_of(b), "cost = 2") + connector("c", port_of(c), "cost = 9")
    a = a_broker(folder, "a", ways + HERE)
    with running(b, c, a):
        wait_for_links(a, "my_queue-in-b", "sharded-in-c", "my_address.3-out-b-fallback")
        yield a, b, c


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as opened:
        yield lambda broker: opened.enter_context(Client(broker))


def _receiver(client: Client, address: str, credit: int = 100) -> Any:
    receiver = client.connection.create_receiver(address, credit=credit)
    client.flush()
    return receiver


def _send(client: Client, address: str, *bodies: str) -> list[Any]:
    sender = client.connection.create_sender(address, name=f"sender {next(NUMBERS)}")
    return [client.begin(sender, each) for each in bodies]


def _ready(broker: BrokerProcess, name: str) -> int:
    found: int = queues(broker).get(name, {"ready": 0})["ready"]
    return found


def _numbers(count: int) -> list[str]:
    return [str(at) for at in range(count)]


# ---- 12.1.4.1 and 12.1.4.2: queues of other brokers


def test_messages_wait_in_the_queue_of_the_broker_until_a_receiver_comes(
    trio: Trio, connect: Connect
) -> None:
    a, b, c = trio
    client = connect(a)
    assert set(client.outcomes(_send(client, "my_queue", *_numbers(10)))) == {ACCEPTED}
    assert (_ready(b, "my_queue"), "my_queue" in queues(a), "my_queue" in queues(c)) == (
        10, False, False,
    )  # fmt: skip
    assert connect(a).take_all("my_queue", 10) == _numbers(10)
    wait_for(lambda: _ready(b, "my_queue") == 0, "the messages to leave")


def test_a_queue_has_one_producer_and_one_consumer_however_many_clients_there_are(
    trio: Trio, connect: Connect
) -> None:
    a, b, _ = trio
    clients = [connect(a) for _ in range(3)]
    receivers = [_receiver(each, "one_each", 10) for each in clients]
    senders = [each.sender("one_each") for each in clients]
    sent = [each.begin(link, "x") for each, link in zip(clients, senders, strict=True)]
    for client, delivery in zip(clients, sent, strict=True):
        assert client.outcomes([delivery]) == [ACCEPTED]
    links = [each for each in listed(b, "link", "list") if "one_each" in str(each)]
    assert sorted(each["role"] for each in links) == ["receiver", "sender"]
    [queue] = [each for each in listed(b, "queue", "list") if each["queue"] == "one_each"]
    assert queue["consumers"] == 1
    assert len([each for each in listed(a, "link", "list") if "one_each" in str(each)]) >= 6
    for client, receiver in zip(clients, receivers, strict=True):
        assert client.take(receiver) == "x"


def test_the_queue_may_have_another_address_than_clients_use(trio: Trio, connect: Connect) -> None:
    a, b, _ = trio
    client = connect(a)
    assert client.outcomes(_send(client, "renamed", "x")) == [ACCEPTED]
    found = queues(b)
    assert found["its.own"]["ready"] == 1
    assert "renamed" not in found
    assert client.take_all("renamed", 1) == ["x"]


def test_a_queue_with_a_shard_on_each_of_two_brokers(trio: Trio, connect: Connect) -> None:
    """Clients of the broker that has no shard get all; those of one that has, what it has."""
    a, b, c = trio
    client = connect(a)
    assert set(client.outcomes(_send(client, "sharded", *_numbers(40)))) == {ACCEPTED}
    assert _ready(b, "sharded") + _ready(c, "sharded") == 40
    assert min(_ready(b, "sharded"), _ready(c, "sharded")) > 10
    there = connect(c)
    assert there.outcomes(_send(there, "sharded", "sent to the shard")) == [ACCEPTED]
    first = there.take_all("sharded", 1)
    rest = client.take_all("sharded", 40)
    assert sorted(first + rest) == sorted([*_numbers(40), "sent to the shard"])


# ---- 12.1.4.3: fallback


def test_messages_wait_at_the_fallback_in_their_order(trio: Trio, connect: Connect) -> None:
    a, b, _ = trio
    client = connect(a)
    sent = _send(client, "my_address.2", *_numbers(20))
    assert set(client.outcomes(sent)) == {ACCEPTED}
    assert _ready(b, "my_address.2") == 20
    consumer = connect(a)
    receiver = _receiver(consumer, "my_address.2")
    found = [consumer.take(receiver) for _ in range(5)]
    later = _send(client, "my_address.2", "new 0", "new 1")
    found += [consumer.take(receiver) for _ in range(17)]
    assert set(client.outcomes(later)) == {ACCEPTED}
    assert [each for each in found if each.isdigit()] == _numbers(20)
    assert [each for each in found if not each.isdigit()] == ["new 0", "new 1"]
    assert queues(b)["my_address.2"]["added"] == 20, "new ones go to the receiver at once"


def test_without_the_link_in_what_is_stored_stays_at_the_fallback(
    trio: Trio, connect: Connect
) -> None:
    a, b, _ = trio
    client, consumer = connect(a), connect(a)
    assert client.outcomes(_send(client, "my_address.3", "stored")) == [ACCEPTED]
    receiver = _receiver(consumer, "my_address.3")
    sent = _send(client, "my_address.3", "direct")
    assert consumer.take(receiver) == "direct"
    assert client.outcomes(sent) == [ACCEPTED]
    assert _ready(b, "my_address.3") == 1
    assert connect(b).take_all("my_address.3", 1) == ["stored"]


# ---- 12.1.1.3: who gets a message


def _attached(trio: Trio, connect: Connect, address: str, where: str) -> dict[str, tuple[Any, Any]]:
    """Receivers on these brokers; the links of the first one to the others have credit."""
    brokers = dict(zip("abc", trio, strict=True))
    found = {}
    for name in where:
        client = connect(brokers[name])
        found[name] = client, _receiver(client, address)
    return found


def _share(
    sender: Client, receivers: dict[str, tuple[Any, Any]], address: str, most: int
) -> dict[str, int]:
    """Send messages, and return how many each of the receivers got."""
    sent = _send(sender, address, *_numbers(most))
    got: Counter[str] = Counter()
    while got.total() < most:
        for name, (client, receiver) in receivers.items():
            with suppress(Timeout):
                while True:
                    client.take(receiver, 0.2)
                    got[name] += 1
    assert set(sender.outcomes(sent)) == {ACCEPTED}
    return got


def test_balanced_spreads_over_receivers_whatever_the_way_costs(
    trio: Trio, connect: Connect
) -> None:
    receivers = _attached(trio, connect, "spread", "ab")
    assert _share(connect(trio[0]), receivers, "spread", 20) == {"a": 10, "b": 10}


def test_closest_takes_the_receiver_here_as_long_as_there_is_one(
    trio: Trio, connect: Connect
) -> None:
    receivers = _attached(trio, connect, "near", "abc")
    sender = connect(trio[0])
    assert _share(sender, receivers, "near", 10) == {"a": 10}
    receivers.pop("a")[0].connection.close()
    assert _share(sender, receivers, "near", 10) == {"b": 10}


def test_multicast_gives_each_receiver_on_each_broker_one_copy(
    trio: Trio, connect: Connect
) -> None:
    receivers = _attached(trio, connect, "copies", "abc")
    client = connect(trio[0])
    sent = _send(client, "copies", *_numbers(5))
    for each, receiver in receivers.values():
        assert [each.take(receiver) for _ in range(5)] == _numbers(5)
    assert set(client.outcomes(sent)) == {ACCEPTED}
    more = _send(client, "copies", "one rejects it")
    for name, (each, receiver) in receivers.items():
        assert receiver.receive(30).body == "one rejects it"
        receiver.settle(Delivery.REJECTED if name == "c" else Delivery.ACCEPTED)
        each.flush()
    assert client.outcomes(more) == [Delivery.REJECTED]


# ---- links that are passed on


def test_a_link_route_keeps_what_a_consumer_says_of_a_message(trio: Trio, connect: Connect) -> None:
    """A message that is not for a consumer (undeliverable-here) goes to another one."""
    a, b, _ = trio
    first, second = connect(a), connect(a)
    receiver = _receiver(first, "far.q", 1)
    sent = _send(first, "far.q", "for another one")
    assert first.outcomes(sent) == [ACCEPTED]
    assert receiver.receive(30).body == "for another one"
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.undeliverable = True
    delivery.local.failed = True
    delivery.update(Delivery.MODIFIED)
    delivery.settle()
    receiver.flow(1)
    first.flush()
    assert second.take(_receiver(second, "far.q", 1)) == "for another one"
    assert not receiver.fetcher.has_message
    wait_for(lambda: _ready(b, "far.q") == 0, "the message to leave")


def test_the_journals_are_right(trio: Trio) -> None:
    """The last test of the brokers, which it stops."""
    for each in trio:
        audited(each)
    kinds = {each["kind"] for each in events(trio[0])}
    assert {"Forwarded", "ForwardSettled", "LinkAttached"} <= kinds
