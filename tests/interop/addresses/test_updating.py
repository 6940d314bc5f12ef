"""Changes of queues and addresses of a real broker, by command and by configuration."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.interop.using import connected, daybook, events, queues, sent
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

QUEUE = """
[[queue]]
name = "orders"
{}
"""


def administered(broker: BrokerProcess) -> list[dict[str, Any]]:
    """Return the administrators and their requests in the durable part of the journal."""
    return [event["detail"] for event in events(broker, "Administered")]


def test_a_reload_changes_a_queue_with_its_messages(tmp_path: Path) -> None:
    config = QUEUE.format("")
    with BrokerProcess(tmp_path / "data", config=config) as broker, connected(broker.start()) as w:
        sent(w, "/queue/orders", b"before")
        broker.configure(QUEUE.format("filter = \"region = 'eu'\"\nmax-consumers = 1"))
        broker.send_signal(signal.SIGHUP)
        wait_for(lambda: queues(broker)["orders"]["max_consumers"] == 1, "the reload")
        sent(w, "/queue/orders", b"us", region="us")
        sent(w, "/queue/orders", b"eu", region="eu")
        broker.kill()
        broker.start()
        with connected(broker) as again:
            again.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="auto")
            assert [again.expect("MESSAGE").body for _ in range(2)] == [b"before", b"eu"]
            with connected(broker) as other:
                other.send("SUBSCRIBE", id="s", destination="/queue/orders")
                assert b"max-consumers is 1" in other.expect("ERROR").body


def test_a_disabled_queue_is_drained_and_takes_nothing(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        sent(wire, "/queue/q", b"kept")
        assert daybook(broker, "queue", "update", "q", "--not-enabled") == "updated queue 'q'\n"
        said = daybook(broker, "queue", "update", "q", "--not-enabled")
        assert said == "already set; nothing changed\n"
        sent(wire, "/queue/q", b"dropped")
        wire.send("SUBSCRIBE", id="s", destination="/queue/q", ack="auto")
        assert wire.expect("MESSAGE").body == b"kept"
        daybook(broker, "queue", "update", "q", "--enabled", "--max-consumers", "2")
        wire.send("SEND", b"taken", destination="/queue/q")
        assert wire.expect("MESSAGE").body == b"taken"


def test_a_paused_address_delivers_again_when_it_is_resumed(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        sent(wire, "/queue/q", b"first")
        daybook(broker, "address", "pause", "q")
    broker.kill()
    broker.start()
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination="/queue/q", ack="auto", receipt="s")
        wire.expect("RECEIPT")
        sent(wire, "/queue/q", b"second")
        assert queues(broker)["q"]["ready"] == 2
        daybook(broker, "address", "resume", "q")
        assert [wire.expect("MESSAGE").body for _ in range(2)] == [b"first", b"second"]
    found = wait_for(lambda: administered(broker)[1:], "the journal")
    (resumed,) = found
    assert resumed["request"] == '{"do":"resume-address","address":"q"}'
    assert "(uid " in resumed["by"]
