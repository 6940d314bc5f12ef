"""`daybook link list` and the metrics: links of AMQP and subscriptions of STOMP in one list."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from proton import Message
from proton.reactor import Container
from proton.utils import BlockingConnection

from tests.interop.using import daybook
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

SECONDS = 30


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    listen = ("amqp+stomp://127.0.0.1:0", "http://127.0.0.1:0")
    with BrokerProcess(tmp_path / "data", listen=listen) as process:
        process.start()
        yield process


def listed(broker: BrokerProcess, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = msgspec.json.decode(daybook(broker, *words, "--json"))
    return rows


def test_links_are_listed_and_counted(broker: BrokerProcess) -> None:
    container = Container()
    container.container_id = "the-container"
    amqp = BlockingConnection(
        f"127.0.0.1:{broker.port}", timeout=SECONDS, container=container, allowed_mechs="ANONYMOUS"
    )
    sender = amqp.create_sender("orders", name="out")
    for _ in range(3):
        sender.send(Message(body="x"))
    receiver = amqp.create_receiver("orders", credit=2, name="in")
    receiver.receive(SECONDS)
    with Wire(broker.port) as stomp:
        assert stomp.connect().command == "CONNECTED"
        stomp.send("SUBSCRIBE", destination="/topic/news", id="s1", ack="client", receipt=1)
        stomp.expect("RECEIPT")
        first, second, third = listed(broker, "link", "list")
        assert [row["link"] for row in (first, second, third)] == ["out", "in", "s1"]
        assert [row["role"] for row in (first, second, third)] == ["sender", "receiver", "receiver"]
        assert (first["address"], first["messages"], first["in_flight"]) == ("orders", 3, 0)
        assert first["credit"] > 0
        assert (second["queue"], second["messages"], second["in_flight"]) == ("orders", 2, 2)
        assert (second["credit"], second["session"]) == (0, 1)
        assert (third["address"], third["session"]) == ("news", None)
        assert all(row["memory_bytes"] > 0 for row in (first, second, third))
        one, other = listed(broker, "connection", "list")
        assert (one["client_id"], one["protocol"]) == ("the-container", "AMQP 1.0")
        assert (one["sessions"], one["links"]) == (1, 2)
        assert (other["protocol"], other["links"]) == ("STOMP 1.2", 1)
        own = str(other["connection"])
        assert listed(broker, "link", "list", "--connection", own) == [third]
        shown = daybook(broker, "link", "list")
        assert "in flight" in shown
        assert "out" in shown
        with urlopen(f"http://127.0.0.1:{broker.ports[-1]}/metrics", timeout=SECONDS) as answer:
            metrics = answer.read().decode().splitlines()
        told = [each for each in metrics if each.startswith(("daybook_sessions", "daybook_links"))]
        assert told == [
            "daybook_sessions 1.0",
            'daybook_links{role="sender"} 1.0',
            'daybook_links{role="receiver"} 2.0',
        ]
    amqp.close()
