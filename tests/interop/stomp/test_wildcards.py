"""Subscriptions with wildcards on a real broker: their messages, over a kill, and their end."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.interop.using import journal, rows
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

TOPICS = ("PRICE.STOCK.NASDAQ.IBM", "PRICE.STOCK.NYSE.IBM", "PRICE.BOND.X", "WEATHER.X")


def publish(wire: Wire, topic: str, body: bytes, persistent: str = "true") -> None:
    destination = f"/topic/{topic}"
    wire.send("SEND", body, destination=destination, persistent=persistent, receipt="r")
    wire.expect("RECEIPT")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("PRICE.**", TOPICS[:3]),
        ("PRICE.#", TOPICS[:3]),
        ("PRICE.STOCK.**", TOPICS[:2]),
        ("PRICE.STOCK.NASDAQ.*", TOPICS[:1]),
        ("PRICE.STOCK.*.IBM", TOPICS[:2]),
        ("*.X", TOPICS[3:]),
        ("**", TOPICS),
    ],
)
def test_a_subscription_gets_what_it_matches(
    shared_broker: BrokerProcess, pattern: str, expected: tuple[str, ...]
) -> None:
    with Wire(shared_broker.port) as consumer, Wire(shared_broker.port) as producer:
        consumer.connect()
        producer.connect()
        consumer.send("SUBSCRIBE", id="s", destination=f"/topic/{pattern}", receipt="s")
        consumer.expect("RECEIPT")
        for topic in TOPICS:
            publish(producer, topic, topic.encode())
        got = [consumer.expect("MESSAGE") for _ in expected]
        assert tuple(frame.body.decode() for frame in got) == expected
        assert [frame.headers["destination"] for frame in got] == [f"/topic/{t}" for t in expected]
        consumer.send("UNSUBSCRIBE", id="s", receipt="u")
        consumer.expect("RECEIPT")
    assert set(rows(shared_broker, "address")) == set(TOPICS)
    assert not rows(shared_broker, "queue")


def test_a_durable_subscription_survives_a_kill_and_pages(broker: BrokerProcess) -> None:
    broker.stop()
    broker.configure('[[address-setting]]\nmatch = "PRICE.*"\nmax-size-messages = 10\n')
    broker.start()
    count = 200
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send(
            "SUBSCRIBE", id="all", destination="/topic/PRICE.*", persistent="true",
            ack="client-individual", receipt="s",
        )  # fmt: skip
        wire.expect("RECEIPT")
        wire.send("DISCONNECT", receipt="d")
        wire.expect("RECEIPT")
    with Wire(broker.port) as wire:
        wire.connect()
        for number in range(count):
            publish(wire, f"PRICE.{'ab'[number % 2]}", b"%d" % number)
    assert rows(broker, "queue")["dsub.all"]["paging"]
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id="s", destination="/dsub/all", ack="client-individual")
        for number in range(count):
            message = wire.expect("MESSAGE")
            assert message.body == b"%d" % number
            assert message.headers["destination"] == f"/topic/PRICE.{'ab'[number % 2]}"
            wire.send("ACK", id=message.headers["ack"])
        wire.send("UNSUBSCRIBE", id="s", receipt="u")
        wire.expect("RECEIPT")
    assert rows(broker, "queue")["dsub.all"]["messages"] == 0
    assert "PRICE.*" in rows(broker, "address")
    assert broker.stop() == 0
    journal(broker, "verify")


@pytest.mark.parametrize(
    ("command", "destination", "part"),
    [
        ("SEND", "/topic/PRICE.*", "wildcards are for SUBSCRIBE"),
        ("SUBSCRIBE", "/topic/PRICE.#X", "'#' must be a word of its own"),
        ("SUBSCRIBE", "/topic/PRICE.{[A-Z}", "whose regular expression is wrong: missing ]"),
    ],
)
def test_what_is_not_meant_is_said(
    shared_broker: BrokerProcess, command: str, destination: str, part: str
) -> None:
    with Wire(shared_broker.port) as wire:
        wire.connect()
        wire.send(command, id="s", destination=destination)
        frame = wire.expect("ERROR")
        assert part in frame.headers["message"] + frame.body.decode()


SEED = """
[wildcard-addresses]
enabled = true
delimiter = ","
any-words = "@"
single-word = "$"

[[address-setting]]
match = "news,@"
max-delivery-attempts = 3
"""


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("@", ("news,europe", "x"), ()),
        (
            "news,europe,@",
            ("news,europe", "news,europe,sport", "news,europe,politics,fr"),
            ("news,usa", "europe"),
        ),
        ("news,$", ("news,europe", "news,usa"), ("news,europe,sport",)),
        ("news,$,sport", ("news,europe,sport", "news,usa,sport"), ("news,europe,fr,sport",)),
        ("news,$$", ("news,europe,sport", "news"), ("usa",)),
    ],
)
def test_other_characters(
    seed_broker: BrokerProcess, pattern: str, matched: tuple[str, ...], others: tuple[str, ...]
) -> None:
    with Wire(seed_broker.port) as consumer, Wire(seed_broker.port) as producer:
        consumer.connect()
        producer.connect()
        consumer.send("SUBSCRIBE", id="s", destination=f"/topic/{pattern}", receipt="s")
        consumer.expect("RECEIPT")
        for topic in (*others, *matched):
            publish(producer, topic, topic.encode())
        got = [consumer.expect("MESSAGE") for _ in matched]
        assert tuple(frame.body.decode() for frame in got) == matched


@pytest.fixture(scope="module")
def seed_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("characters") / "data"
    with BrokerProcess(directory, config=SEED) as process:
        yield process.start()


def test_settings_match_by_other_characters(seed_broker: BrokerProcess) -> None:
    command = [sys.executable, "-m", "daybook", "settings", "news,europe", "--json"]
    command += ["--data", str(seed_broker.data)]
    found = nursery.run(command, capture_output=True, check=True).stdout
    settings = {row["key"]: row for row in msgspec.json.decode(found)["settings"]}
    assert settings["max-delivery-attempts"]["value"] == 3
    assert settings["max-delivery-attempts"]["match"] == "news,@"


def test_characters_that_were_changed_after_a_kill(tmp_path: Path) -> None:
    """A pattern keeps the syntax that it was made with."""
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send(
                "SUBSCRIBE", id="old", destination="/topic/n.*", persistent="true", receipt="s"
            )
            wire.expect("RECEIPT")
        broker.kill()
        broker.configure(SEED)
        broker.start()
        with Wire(broker.port) as wire:
            wire.connect()
            publish(wire, "n.a", b"dots")
            publish(wire, "n,a", b"commas")
            wire.send("SUBSCRIBE", id="x", destination="/dsub/old")
            assert wire.expect("MESSAGE").body == b"dots"


def test_a_literal_match(tmp_path: Path) -> None:
    config = """
[wildcard-addresses]
routing-enabled = false
literal-match-markers = "()"

[[address-setting]]
match = "orders.#"
max-delivery-attempts = 3

[[address-setting]]
match = "(a.#)"
max-delivery-attempts = 5
"""
    with BrokerProcess(tmp_path / "data", config=config) as broker:
        broker.start()
        for name, attempts in (("orders.eu", 3), ("a.#", 5), ("a.b", 10)):
            command = [sys.executable, "-m", "daybook", "settings", name, "--json"]
            command += ["--data", str(broker.data)]
            found = nursery.run(command, capture_output=True, check=True).stdout
            settings = {row["key"]: row["value"] for row in msgspec.json.decode(found)["settings"]}
            assert settings["max-delivery-attempts"] == attempts, name
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SEND", b"x", destination="/queue/a.#", receipt="r")
            wire.expect("RECEIPT")
        assert rows(broker, "queue")["a.#"]["ready"] == 1
