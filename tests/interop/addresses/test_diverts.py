"""Diverts on a real broker: their copies after a kill, with paging, and by commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interop.using import journal, publish, queues, run
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

CONFIG = """
[[divert]]
name = "copy"
address = "orders"
forwarding-addresses = ["audit", "archive"]
add-properties = ["source=orders"]
remove-properties = ["secret"]
rename-properties = ["kind=sort"]

[[divert]]
name = "big"
address = "sales.#"
forwarding-addresses = ["big"]
exclusive = true
filter = "size > 100"

[[divert]]
name = "letters"
address = "DLA"
forwarding-addresses = ["letters"]
exclusive = true

[[divert]]
name = "typed"
address = "typed"
forwarding-addresses = ["target"]
routing-type = "pass"

[[queue]]
name = "target"

[[queue]]
name = "target-m"
address = "target"
routing-type = "multicast"

[[address]]
name = "typed"
routing-types = ["anycast", "multicast"]

[[address-setting]]
match = "retried"
max-delivery-attempts = 1
dead-letter-address = "DLA"

[[address-setting]]
match = "narrow"
max-size-messages = 1
address-full-policy = "FAIL"

[[address-setting]]
match = "paged.#"
max-size-messages = 5

[[divert]]
name = "narrow"
address = "wide"
forwarding-addresses = ["narrow"]

[[divert]]
name = "paged"
address = "paged.from"
forwarding-addresses = ["paged.to"]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("diverts") / "data"
    with BrokerProcess(directory, config=CONFIG) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()


def counts(broker: BrokerProcess) -> dict[str, int]:
    return {name: row["messages"] for name, row in queues(broker).items()}


def receive(wire: Wire, queue: str) -> Frame:
    wire.send("SUBSCRIBE", id=queue, destination=f"/queue/{queue}")
    found = wire.expect("MESSAGE")
    wire.send("UNSUBSCRIBE", id=queue, receipt="u")
    wire.expect("RECEIPT")
    return found


def test_copies_have_other_properties_and_say_where_they_come_from(wire: Wire) -> None:
    assert publish(wire, "/queue/orders", b"1", kind="k", secret="s").command == "RECEIPT"
    original = receive(wire, "orders")
    assert original.headers["secret"] == "s"
    for name in ("audit", "archive"):
        found = receive(wire, name)
        assert found.body == b"1"
        assert found.headers["_AMQ_ORIG_ADDRESS"] == "orders"
        assert found.headers["_AMQ_ORIG_QUEUE"] == "copy"
        assert found.headers["_AMQ_ORIG_MESSAGE_ID"].isdigit()
        assert found.headers["source"] == "orders"
        assert found.headers["sort"] == "k"
        assert not {"secret", "kind"} & found.headers.keys()


def test_an_exclusive_divert_with_a_filter_and_wildcards(broker: BrokerProcess, wire: Wire) -> None:
    for size in (50, 150, 151):
        publish(wire, "/queue/sales.eu", b"%d" % size, size=size)
    found = counts(broker)
    assert (found["sales.eu"], found["big"]) == (1, 2)


def test_the_routing_type_passes(broker: BrokerProcess, wire: Wire) -> None:
    before = counts(broker)
    publish(wire, "/topic/typed")
    after = counts(broker)
    assert (after["target"], after["target-m"]) == (before["target"], before["target-m"] + 1)


def test_a_full_target_refuses_the_sender(broker: BrokerProcess, wire: Wire) -> None:
    assert publish(wire, "/queue/wide").command == "RECEIPT"
    frame = publish(wire, "/queue/wide")
    assert frame.command == "ERROR"
    assert "address 'narrow'" in frame.body.decode() + frame.headers["message"]
    assert counts(broker)["wide"] == 1


def test_dead_letters_are_diverted(broker: BrokerProcess, wire: Wire) -> None:
    publish(wire, "/queue/retried", b"bad")
    wire.send("SUBSCRIBE", id="s", destination="/queue/retried", ack="client-individual")
    wire.send("NACK", id=wire.expect("MESSAGE").headers["ack"], receipt="n")
    wire.expect("RECEIPT")
    found = receive(wire, "letters")
    assert found.body == b"bad"
    assert found.headers["_AMQ_ORIG_ADDRESS"] == "DLA"


def test_copies_are_in_the_transaction(broker: BrokerProcess, wire: Wire) -> None:
    before = counts(broker).get("audit", 0)
    for end in ("ABORT", "COMMIT"):
        wire.send("BEGIN", transaction="t")
        wire.send("SEND", b"tx", destination="/queue/orders", transaction="t")
        wire.send(end, transaction="t", receipt="e")
        wire.expect("RECEIPT")
    assert counts(broker)["audit"] == before + 1


def test_a_large_message_is_copied(wire: Wire) -> None:
    body = bytes(range(1, 251)) * 2000
    head = f"SEND\ndestination:/queue/orders\nreceipt:r\ncontent-length:{len(body)}\n\n"
    wire.write(head.encode() + body + b"\0")
    wire.expect("RECEIPT")
    wire.send("SUBSCRIBE", id="a", destination="/queue/archive")
    while (found := wire.expect("MESSAGE")).body == b"tx":
        pass
    assert found.body == body


def test_commands(broker: BrokerProcess, wire: Wire) -> None:
    done = run(
        broker, "divert", "create", "by-hand", "--address", "here", "--forwarding-addresses",
        "there", "--forwarding-addresses", "elsewhere", "--exclusive", "--add-properties", "a=b",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    publish(wire, "/queue/here", b"1")
    assert receive(wire, "elsewhere").headers["a"] == "b"
    rows = msgspec.json.decode(run(broker, "divert", "list", "--json").stdout, type=list[Any])
    row = next(each for each in rows if each["divert"] == "by-hand")
    assert row["forwarding_addresses"] == ["there", "elsewhere"]
    assert row["exclusive"]
    assert "by-hand" in run(broker, "divert", "list").stdout
    again = ("divert", "create", "by-hand", "--address", "here", "--forwarding-addresses", "there")
    assert "exists already" in run(broker, *again).stderr
    assert run(broker, *again, "--replace").returncode == 0
    assert run(broker, *again, "--if-missing").stdout.startswith("it exists already")
    circle = ("divert", "create", "c", "--address", "there", "--forwarding-addresses", "here")
    assert "in a circle" in run(broker, *circle).stderr
    wrong = ("divert", "create", "c", "--address", "x", "--forwarding-addresses", "y")
    assert "the filter is wrong" in run(broker, *wrong, "--filter", "a =").stderr
    assert run(broker, "divert", "delete", "by-hand").returncode == 0
    assert "there is no divert" in run(broker, "divert", "delete", "by-hand").stderr


def test_diverts_survive_a_kill_and_copies_page(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker:
        broker.start()
        added = ("divert", "create", "more", "--address", "x", "--forwarding-addresses", "y")
        assert run(broker, *added).returncode == 0
        with Wire(broker.port) as wire:
            wire.connect()
            for number in range(100):
                publish(wire, "/queue/paged.from", b"%d" % number)
        broker.kill()
        broker.start()
        with Wire(broker.port) as wire:
            wire.connect()
            publish(wire, "/queue/x", b"after")
            assert receive(wire, "y").body == b"after"
            for name in ("paged.from", "paged.to"):
                wire.send("SUBSCRIBE", id=name, destination=f"/queue/{name}")
                got = [wire.expect("MESSAGE").body for _ in range(100)]
                assert got == [b"%d" % number for number in range(100)]
        assert broker.stop() == 0
        offline = run(broker, "divert", "list", "--json")
        assert "more" in offline.stdout
        journal(broker, "verify")
