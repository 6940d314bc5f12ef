"""The journal is damaged while a broker runs: it says so once, and all else continues."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daybook.journal.data_directory import JOURNAL
from tests.interop.hardships.test_hanging import indexer_of, stopped
from tests.interop.hardships.test_index_damage import check_log, index_file, status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

SETTINGS = ("journal.checkpoint-period=0",)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as process:
        yield process


def flip(file: Path, mark: bytes) -> Callable[[], None]:
    """Turn a bit where these bytes stand last; return how to heal it."""
    whole = file.read_bytes()
    at = whole.rindex(mark)
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(bytes([whole[at] ^ 1]))

    def heal() -> None:
        with file.open("r+b") as opened:
            opened.seek(at)
            opened.write(whole[at : at + 1])

    return heal


def damage_what_comes(broker: BrokerProcess) -> Callable[[], None]:
    """Damage a block that is durable and not indexed; messages of the queue `damaged` are in it."""
    mark = os.urandom(400)
    with Wire(broker.port) as producer, stopped(indexer_of(broker)):
        producer.connect()
        for name in ("before", "damaged"):
            body = mark if name == "damaged" else b"sound"
            producer.send("SEND", body, destination=f"/queue/{name}", persistent="true", receipt=1)
            producer.expect("RECEIPT")
        segment = max((broker.directory / JOURNAL).glob("*.seg"))
        heal = flip(segment, mark[:100])
    return heal


def test_senders_are_told_and_consumers_go_on(broker: BrokerProcess) -> None:
    broker.start()
    heal = damage_what_comes(broker)
    wait_for(lambda: "the journal is damaged" in broker.log_text(), "a word about the damage")
    with Wire(broker.port) as producer, Wire(broker.port) as consumer:
        producer.connect()
        producer.send("SEND", b"x", destination="/queue/new", persistent="true")
        refused = producer.expect("ERROR")
        assert "journal is damaged" in refused.headers["message"] + refused.body.decode()
        consumer.connect()
        consumer.send("SUBSCRIBE", id=1, destination="/queue/before", ack="client-individual")
        consumer.send("ACK", id=consumer.expect("MESSAGE").headers["ack"], receipt="acked")
        consumer.expect("RECEIPT")
        found = status(broker)
        assert "segment" in found["journal_damage"]
        assert found["indexer_restarts"] <= 5
        assert broker.log_text().count("the journal is damaged") == 1
        # Somebody brings the bytes back: the broker continues by itself.
        heal()
        wait_for(lambda: not status(broker)["journal_damage"], "the end of it", every=0.2)
        with Wire(broker.port) as another:
            another.connect()
            another.send("SEND", b"x", destination="/queue/new", persistent="true", receipt=1)
            another.expect("RECEIPT")
    assert broker.stop() == 0
    check_log(broker)


PAGED = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1
max-size-messages = 0
max-read-page-messages = 50
"""


def fill(broker: BrokerProcess) -> list[Path]:
    """Queue messages in many segments and start again: none of them is in memory."""
    broker.configure(PAGED)
    broker.settings.append("journal.segment-bytes=64KiB")
    broker.start()
    with Wire(broker.port) as producer:
        producer.connect()
        for number in range(200):
            # One after the other, so that they are in blocks, and these in segments, of their own.
            headers = {"destination": "/queue/long", "persistent": "true", "number": number}
            producer.send("SEND", os.urandom(2_000), receipt=1, **headers)
            producer.expect("RECEIPT")
        producer.send("SEND", b"x", destination="/queue/short", persistent="true", receipt=1)
        producer.expect("RECEIPT")
    assert broker.stop() == 0
    segments = sorted((broker.directory / JOURNAL).glob("*.seg"))
    assert len(segments) > 5
    return segments


def test_a_segment_lost_while_it_runs_is_the_matter_of_its_queue(broker: BrokerProcess) -> None:
    segments = fill(broker)
    broker.start()
    index = index_file(broker).stat().st_ino
    lost = segments[3]
    away = lost.rename(broker.directory.with_name("away"))
    with Wire(broker.port) as consumer:
        consumer.connect()
        consumer.send("SUBSCRIBE", id=1, destination="/queue/long", ack="client-individual")
        before = 0
        wait_for(lambda: status(broker)["queues_unreadable"], "the queue that waits", every=0.2)
        (waiting,) = status(broker)["queues_unreadable"]
        assert waiting["queue"] == "long"
        assert f"(LSN {int(lost.stem)}): the segment that follows is missing" in waiting["why"]
        with Wire(broker.port) as other:
            other.connect()
            other.send("SUBSCRIBE", id=1, destination="/queue/short", ack="client-individual")
            other.send("ACK", id=other.expect("MESSAGE").headers["ack"], receipt="acked")
            other.expect("RECEIPT")
        assert broker.log_text().count("queue 'long' waits") == 1
        away.rename(lost)
        while before < 200:
            message = consumer.expect("MESSAGE")
            assert message.headers["number"] == str(before)
            consumer.send("ACK", id=message.headers["ack"])
            before += 1
    assert index_file(broker).stat().st_ino == index
    assert broker.stop() == 0
    assert "queue 'long' can be read again" in broker.log_text()
    check_log(broker)


@pytest.mark.parametrize("place", [0, 3, -2])
def test_a_lost_segment_is_named_at_the_start(broker: BrokerProcess, place: int) -> None:
    """Any that is lost: in the middle, beside the newest, and the first."""
    segments = fill(broker)
    lost = segments[place]
    away = lost.rename(broker.directory.with_name("away"))
    said = broker.refuse()
    first, last = (int(each.stem) for each in (lost, segments[segments.index(lost) + 1]))
    assert f"events {first} to {last - 1} are missing" in said
    assert index_file(broker).exists()
    away.rename(lost)
    broker.start()
    assert status(broker)["messages_ready"] == 201
    assert "index is rebuilt" not in broker.log_text()
    assert broker.stop() == 0


def test_or_the_broker_stops(broker: BrokerProcess) -> None:
    broker.settings.append("broker.journal-damage-policy=STOP")
    broker.start()
    heal = damage_what_comes(broker)
    assert broker.wait() == 1
    assert "the journal is damaged, the broker stops" in broker.log_text()
    assert index_file(broker).exists()
    assert "Nothing was changed" in broker.refuse()
    heal()
    broker.start()
    assert status(broker)["messages_ready"] == 2
    assert broker.stop() == 0
