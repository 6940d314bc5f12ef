"""A broker in one process: the same promises, the same files, and nothing beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.using import journal, status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1

[[address-setting]]
match = "paging"
max-size-messages = 20
max-read-page-messages = 50
"""
SETTINGS = ("journal.checkpoint-period=200", "journal.segment-bytes=1MiB")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", config=CONFIG, settings=SETTINGS, processes=1) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()
        assert "Traceback" not in process.log_text()
        journal(process, "verify", "--index")


def fill(broker: BrokerProcess, queue: str, numbers: range) -> None:
    """Send messages, and wait for the receipt of the last."""
    with Wire(broker.port) as wire:
        wire.connect()
        for number in numbers:
            headers = {"receipt": number} if number == numbers[-1] else {}
            where = f"/queue/{queue}"
            wire.send("SEND", b"%d" % number, destination=where, persistent="true", **headers)
        wire.expect("RECEIPT")


def drain(broker: BrokerProcess, queue: str, count: int) -> list[int]:
    """Take messages, one acknowledged after the other."""
    found = []
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id=1, destination=f"/queue/{queue}", ack="client-individual")
        for frame in wire.frames(count):
            found.append(int(frame.body))
            wire.send("ACK", id=frame.headers["ack"])
        wire.send("DISCONNECT", receipt="bye")
        wire.expect("RECEIPT")
    return found


@pytest.mark.usefixtures("own_interpreter")
def test_there_is_nothing_beside_it(broker: BrokerProcess) -> None:
    assert broker.children() == []
    assert status(broker)["indexer_pid"] == broker.process.pid


def test_what_waits_survives_kills_whatever_the_number_of_processes(broker: BrokerProcess) -> None:
    fill(broker, "work", range(1000))
    for settings in ((*SETTINGS,), (*SETTINGS, "processes=1")):
        broker.kill()
        broker.settings = list(settings)
        broker.start()
    assert drain(broker, "work", 1000) == list(range(1000))


def test_queues_page_while_others_are_served(broker: BrokerProcess) -> None:
    count = 20_000
    fill(broker, "paging", range(count))
    wait_for(lambda: not status(broker)["unindexed_bytes"], "the index")
    fill(broker, "work", range(1000))
    assert drain(broker, "work", 1000) == list(range(1000))
    broker.kill()
    broker.start()
    assert drain(broker, "paging", count) == list(range(count))


def test_an_index_that_was_deleted_is_built_again(broker: BrokerProcess) -> None:
    fill(broker, "paging", range(2000))
    assert broker.stop() == 0
    (broker.data / "index" / "data.mdb").unlink()
    broker.start()
    assert drain(broker, "paging", 2000) == list(range(2000))
