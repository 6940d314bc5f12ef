"""Names that nobody uses any more, on a real broker."""

from pathlib import Path

import pytest

from tests.interop.using import connected, rows
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
address-queue-scan-period = 100

[[address-setting]]
match = "#"

[[address-setting]]
match = "later.#"
auto-delete-queues-delay = "6s"

[[address-setting]]
match = "counted"
auto-delete-queues-message-count = -1

[[address-setting]]
match = "topics.#"
default-address-routing-type = "MULTICAST"
"""


def used(wire: Wire, destination: str, **headers: str) -> None:
    wire.send("SUBSCRIBE", id=destination, destination=destination, receipt="s", **headers)
    wire.expect("RECEIPT")
    wire.send("UNSUBSCRIBE", id=destination, receipt="u")
    wire.expect("RECEIPT")


def sent(wire: Wire, destination: str, body: bytes = b"x") -> None:
    wire.send("SEND", body, destination=destination, receipt="r")
    wire.expect("RECEIPT")


def test_used_names_go_and_messages_and_bookings_stay(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker, connected(broker.start()) as w:
        sent(w, "/queue/holds")
        sent(w, "/queue/counted")
        used(w, "/queue/used")
        w.send("SUBSCRIBE", id="booking", destination="/topic/news", receipt="s", persistent="true")
        w.expect("RECEIPT")
        w.send("DISCONNECT", receipt="bye")
        w.expect("RECEIPT")
        wait_for(lambda: not rows(broker, "queue").keys() & {"used", "counted"}, "the scan")
        wait_for(lambda: rows(broker, "address").keys() == {"holds", "news"}, "the addresses")
        assert rows(broker, "queue").keys() == {"holds", "dsub.booking"}
        broker.kill()
        broker.start()
        assert rows(broker, "queue").keys() == {"holds", "dsub.booking"}
        with connected(broker) as again:
            sent(again, "/topic/news", b"for the booking")
            again.send("SUBSCRIBE", id="booking", destination="/topic/news", persistent="true")
            assert again.expect("MESSAGE").body == b"for the booking"


def test_the_delay_survives_a_kill_and_counts_from_the_start(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker:
        with connected(broker.start()) as wire:
            used(wire, "/queue/later.a")
        assert "later.a" in rows(broker, "queue")
        broker.kill()
        broker.start()
        assert "later.a" in rows(broker, "queue")
        wait_for(lambda: "later.a" not in rows(broker, "queue"), "the delay")
        wait_for(lambda: "later.a" not in rows(broker, "address"), "the address")


def test_what_a_name_without_a_type_becomes(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker, connected(broker.start()) as w:
        w.send("SUBSCRIBE", id="s", destination="topics.a", receipt="s")
        w.expect("RECEIPT")
        sent(w, "queues.a")
        assert "queues.a" in rows(broker, "queue")
        assert not {"topics.a"} & rows(broker, "queue").keys()
        w.send("SEND", b"to all", destination="topics.a")
        assert w.expect("MESSAGE").body == b"to all"
