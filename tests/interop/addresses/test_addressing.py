"""Addresses, queues and routing types as clients name them, on a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interop.using import publish, queues, run
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

CONFIG = """
[[acceptor]]
listen = "127.0.0.1:0"
anycast-prefix = ["anycast://", "jms.queue."]
multicast-prefix = ["multicast://"]

[[address]]
name = "both"
routing-types = ["anycast", "multicast"]

[[queue]]
name = "both"

[[queue]]
name = "both-m"
address = "both"
routing-type = "multicast"
""" + "".join(
    f'[[queue]]\nname = "{name}-{each}"\naddress = "{name}"\n'
    for name in ("even", "served", "pick", "first", "part", "sharded")
    for each in ("q1", "q2")
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("addressing") / "data"
    with BrokerProcess(directory, config=CONFIG, listen=()) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()


def ready(broker: BrokerProcess) -> dict[str, int]:
    return {name: row["ready"] + row["in_flight"] for name, row in queues(broker).items()}


def subscribe(wire: Wire, destination: str, id: str = "s", **headers: Any) -> Frame:
    wire.send("SUBSCRIBE", id=id, destination=destination, receipt="s", **headers)
    return wire.read()


def test_queues_of_an_anycast_address_take_turns(broker: BrokerProcess, wire: Wire) -> None:
    for _ in range(10):
        assert publish(wire, "even").command == "RECEIPT"
    counts = ready(broker)
    assert (counts["even-q1"], counts["even-q2"]) == (5, 5)
    assert "even" not in counts


def test_a_queue_with_a_consumer_comes_first(broker: BrokerProcess, wire: Wire) -> None:
    subscribe(wire, "served::served-q2", ack="client-individual")
    for _ in range(10):
        publish(wire, "served")
        wire.expect("MESSAGE")
    counts = ready(broker)
    assert (counts["served-q1"], counts["served-q2"]) == (0, 10)


def test_a_consumer_whose_filter_refuses_does_not_count(broker: BrokerProcess, wire: Wire) -> None:
    subscribe(wire, "part::part-q2", ack="client-individual", selector="kind = 'big'")
    for number in range(4):
        publish(wire, "part", kind="big" if number == 3 else "small")
        if number == 3:
            wire.expect("MESSAGE")
    counts = ready(broker)
    assert (counts["part-q1"], counts["part-q2"]) == (2, 2)


def test_a_group_stays_on_one_of_the_queues(broker: BrokerProcess, wire: Wire) -> None:
    for group in range(6):
        before = ready(broker)
        for _ in range(4):
            publish(wire, "sharded", JMSXGroupID=f"g{group}")
        after = ready(broker)
        grown = [after[f"sharded-{each}"] - before[f"sharded-{each}"] for each in ("q1", "q2")]
        assert sorted(grown) == [0, 4]


def test_a_full_name_says_which_queue(broker: BrokerProcess, wire: Wire) -> None:
    for number in range(3):
        publish(wire, "pick::pick-q2", b"%d" % number)
    subscribe(wire, "pick::pick-q2")
    assert [wire.expect("MESSAGE").body for _ in range(3)] == [b"0", b"1", b"2"]
    assert ready(broker)["pick-q1"] == 0


def test_a_subscription_to_an_address_takes_its_first_queue(
    broker: BrokerProcess, wire: Wire
) -> None:
    publish(wire, "first::first-q1", b"1")
    publish(wire, "first::first-q2", b"2")
    subscribe(wire, "/queue/first", ack="client-individual")
    assert wire.expect("MESSAGE").body == b"1"
    assert "first" not in ready(broker)


@pytest.mark.parametrize(
    ("destination", "headers", "targets"),
    [
        ("both", {}, {"both", "both-m"}),
        ("both", {"destination-type": "ANYCAST"}, {"both"}),
        ("both", {"destination-type": "MULTICAST"}, {"both-m"}),
        ("both", {"_AMQ_ROUTING_TYPE": "0"}, {"both"}),
        ("both", {"_AMQ_ROUTING_TYPE": "1"}, {"both-m"}),
        ("both", {"_AMQ_ROUTING_TYPE": "MULTICAST"}, {"both-m"}),
        ("anycast://both", {}, {"both"}),
        ("anycast://both/", {}, {"both"}),
        ("jms.queue.both", {}, {"both"}),
        ("multicast://both", {}, {"both-m"}),
        ("multicast://both::both-m", {}, {"both-m"}),
    ],
)
def test_routing_types(
    broker: BrokerProcess, wire: Wire, destination: str, headers: dict[str, str], targets: set[str]
) -> None:
    before = ready(broker)
    assert publish(wire, destination, **headers).command == "RECEIPT"
    after = ready(broker)
    assert {name for name in after if after[name] > before.get(name, 0)} == targets


def test_a_message_says_its_prefix(wire: Wire) -> None:
    publish(wire, "jms.queue.echo")
    subscribe(wire, "anycast://echo")
    assert wire.expect("MESSAGE").headers["destination"] == "jms.queue.echo"


def test_a_subscription_says_its_type(broker: BrokerProcess, wire: Wire) -> None:
    wire.send("SUBSCRIBE", id="t", destination="typed", receipt="s", subscription_type="MULTICAST")
    wire.expect("RECEIPT")
    publish(wire, "multicast://typed", b"m")
    assert wire.expect("MESSAGE").body == b"m"
    assert "typed" not in ready(broker)


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"_AMQ_ROUTING_TYPE": "2"}, "write 0 (ANYCAST) or 1 (MULTICAST)"),
        ({"_AMQ_ROUTING_TYPE": "1", "destination-type": "ANYCAST"}, "mean the same"),
    ],
)
def test_types_that_are_wrong(wire: Wire, headers: dict[str, str], text: str) -> None:
    frame = publish(wire, "both", **headers)
    assert frame.command == "ERROR"
    assert text in frame.body.decode() + frame.headers["message"]


@pytest.mark.parametrize("name", ["a&b", "a?b=c", "a>", "a{b}", "a#", "a*"])
def test_names_that_not_every_protocol_can_spell(
    broker: BrokerProcess, wire: Wire, name: str
) -> None:
    assert publish(wire, f"/queue/{name}").command == "ERROR"
    assert run(broker, "queue", "create", name).returncode
    assert run(broker, "address", "create", name).returncode


def test_commands_take_full_names(broker: BrokerProcess, wire: Wire) -> None:
    assert run(broker, "queue", "create", "shop::desk").returncode == 0
    publish(wire, "shop::desk", b"hello")
    shown = run(broker, "browse", "shop::desk", "--json").stdout
    assert msgspec.json.decode(shown)["messages"][0]["body"] == "hello"
    for verb in ("pause", "resume", "release", "purge", "delete"):
        wrong = run(broker, "queue", verb, "counter::desk")
        assert "queue 'desk' is on address 'shop', not on 'counter'" in wrong.stderr
        done = run(broker, "queue", verb, "shop::desk")
        assert done.returncode == 0, (verb, done.stderr)
    assert "desk" not in ready(broker)


def test_a_name_of_an_earlier_release_stays(tmp_path: Path) -> None:
    """Only new names are checked: `tests/unit/engine` folds a journal that has such a queue."""
    with BrokerProcess(tmp_path / "data") as process, Wire(process.start().port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id="s", destination="/queue/a?b", receipt="s")
        frame = wire.expect("ERROR")
        assert "not every protocol can spell" in frame.body.decode() + frame.headers["message"]
