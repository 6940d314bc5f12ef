"""Entries that leave the configuration file of a real broker, over reloads, restarts and kills."""

import signal
from pathlib import Path

import msgspec
import pytest

from tests.interop.using import connected, daybook, queues, reload, sent
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

FORCE = """
[[address-setting]]
match = "#"
config-delete-queues = "FORCE"
config-delete-addresses = "FORCE"
config-delete-diverts = "FORCE"
"""
LISTED = """
[[address]]
name = "orders"
routing-types = ["anycast", "multicast"]

[[queue]]
name = "orders"
address = "orders"

[[divert]]
name = "audit"
address = "orders"
forwarding-addresses = ["audit"]
"""


def received(broker: BrokerProcess, destination: str) -> bytes:
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination=destination, ack="auto")
        return wire.expect("MESSAGE").body


def test_without_the_setting_it_stays(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=LISTED) as broker:
        broker.start()
        with connected(broker) as wire:
            sent(wire, "/queue/orders", b"x")
        reload(broker, "")
        wait_for(lambda: "they stay: divert 'audit'" in broker.log_text(), "the log")
        assert received(broker, "/queue/orders") == b"x"
        assert received(broker, "/queue/audit") == b"x"


def test_a_reload_deletes_with_messages_and_consumers(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=FORCE + LISTED) as broker:
        broker.start()
        with connected(broker) as wire, connected(broker) as other:
            wire.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client")
            sent(other, "/queue/orders", b"x")
            wire.expect("MESSAGE")
            sent(other, "/queue/untouched", b"x")
            reload(broker, FORCE)
            error = wire.expect("ERROR")
            assert "queue 'orders' was deleted" in error.headers["message"]
            assert wire.at_end()
            wait_for(lambda: "orders" not in queues(broker), "the deletion")
            # Neither its copies nor what nobody listed.
            assert queues(broker).keys() == {"audit", "untouched"}
            assert "deleted, because the configuration lists them no more" in broker.log_text()
            sent(other, "/queue/orders", b"y")
            assert received(broker, "/queue/orders") == b"y"
            found = daybook(broker, "divert", "list", "--json")
            assert msgspec.json.decode(found) == []


def test_a_restart_deletes_too_and_a_kill_brings_nothing_back(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=FORCE + LISTED) as broker:
        broker.start()
        with connected(broker) as wire:
            sent(wire, "/queue/orders", b"x")
        broker.kill()
        broker.configure(FORCE)
        broker.start()
        assert queues(broker).keys() == {"audit"}
        broker.kill()
        broker.start()
        assert queues(broker).keys() == {"audit"}


def test_reloads_that_follow_each_other_end_with_the_last_file(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=FORCE) as broker:
        broker.start()
        for _ in range(5):
            broker.configure(FORCE)
            broker.send_signal(signal.SIGHUP)
            broker.configure(FORCE + LISTED)
            broker.send_signal(signal.SIGHUP)
        reload(broker, FORCE + LISTED)
        wait_for(lambda: queues(broker).keys() == {"orders"}, "the queue")


def test_broker_xml_says_it_too(tmp_path: Path) -> None:
    listed = '<address name="orders"><anycast><queue name="orders"/></anycast></address>'
    text = (
        "<configuration><core><address-settings><address-setting match='#'>"
        "<config-delete-queues>FORCE</config-delete-queues>"
        "<config-delete-addresses>force</config-delete-addresses>"
        "</address-setting></address-settings><addresses>{}</addresses></core></configuration>"
    )
    with BrokerProcess(tmp_path / "data", config=text.format(listed)) as broker:
        broker.start()
        assert queues(broker).keys() == {"orders"}
        reload(broker, text.format(""))
        wait_for(lambda: not queues(broker), "the deletion")
