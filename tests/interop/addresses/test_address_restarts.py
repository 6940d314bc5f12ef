"""Points of the address model that need a broker of their own, most of them to kill it."""

import signal
import time
from pathlib import Path

import pytest

from tests.interop.addresses.test_address_model import queues, subscribe, taken
from tests.interop.using import connected, daybook, rows, sent
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop


def test_a_queue_that_is_not_durable_ends_with_the_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        daybook(broker, "queue", "create", "short", "--not-durable")
        with connected(broker) as wire:
            sent(wire, "/queue/short", b"x")
            sent(wire, "/queue/long", b"x")
            sent(wire, "/queue/long", b"y", persistent="false")
        broker.kill()
        broker.start()
        assert {name: row["messages"] for name, row in queues(broker).items()} == {"long": 1}


def test_what_cannot_change_of_a_queue_is_reported(tmp_path: Path) -> None:
    config = '[[queue]]\nname = "q"\naddress = "q"\ndurable = {}\n'
    with BrokerProcess(tmp_path / "data", config=config.format("true")) as broker:
        broker.start()
        broker.configure(config.format("false"))
        broker.send_signal(signal.SIGHUP)
        text = "queue 'q' differs from the configuration in durable, which cannot change"
        wait_for(lambda: text in broker.log_text(), "the log")
        assert queues(broker)["q"]["durable"]


def test_a_paused_queue_takes_messages_and_survives_a_restart(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        daybook(broker, "queue", "create", "q")
        daybook(broker, "queue", "pause", "q")
        with connected(broker) as wire:
            sent(wire, "/queue/q", b"x")
        broker.kill()
        broker.start()
        with connected(broker) as wire:
            subscribe(wire, "/queue/q")
            assert queues(broker)["q"]["ready"] == 1
            daybook(broker, "queue", "resume", "q")
            assert wire.expect("MESSAGE").body == b"x"


def test_without_a_scan_nothing_expired_is_delivered(tmp_path: Path) -> None:
    config = 'message-expiry-scan-period = -1\n[[address-setting]]\nmatch = "#"\n'
    config += 'expiry-address = "late"\n'
    with BrokerProcess(tmp_path / "data", config=config) as broker:
        broker.start()
        with connected(broker) as wire:
            sent(wire, "/queue/q", b"old", ttl="1")
            sent(wire, "/queue/late", b"at the expiry address", ttl="1")
            time.sleep(0.3)
            assert queues(broker)["q"]["messages"] == 1
            sent(wire, "/queue/q", b"new")
            subscribe(wire, "/queue/q")
            message = wire.expect("MESSAGE")
            assert (message.body, "delivery-count" in message.headers) == (b"new", False)
        row = queues(broker)["q"]
        assert (row["expired"], row["messages"]) == (1, 1)
        # Messages that are there already do not expire again.
        assert taken(broker, "/queue/late").body == b"at the expiry address"
        assert taken(broker, "/queue/late").body == b"old"


def test_counters_of_addresses_are_kept_over_a_kill(tmp_path: Path) -> None:
    def of_addresses(broker: BrokerProcess) -> dict[str, tuple[int, int]]:
        found = rows(broker, "address")
        return {name: (row["routed"], row["unrouted"]) for name, row in found.items()}

    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        with connected(broker) as wire:
            for _ in range(300):
                wire.send("SEND", b"x", destination="/queue/counted")
            sent(wire, "/queue/counted", b"x")
            sent(wire, "/topic/unheard", b"x")
        wanted = {"counted": (301, 0), "unheard": (0, 1)}
        assert of_addresses(broker) == wanted
        for end in (broker.kill, broker.stop):
            end()
            assert of_addresses(broker) == wanted
            broker.start()
            assert of_addresses(broker) == wanted
