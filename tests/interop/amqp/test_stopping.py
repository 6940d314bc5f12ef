"""A broker that stops: clients of AMQP hear why, and nothing that they had is lost."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

from tests.interop.using import audited, queues
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

SECONDS = 30
COUNT = 10


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", listen=("amqp+stomp://127.0.0.1:0",)) as process:
        process.start()
        yield process


class Holder(MessagingHandler):  # type: ignore[misc]
    """Takes messages, settles half of them, and stops the broker when it has all."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(prefetch=COUNT, auto_accept=False)
        self.broker = broker
        self.bodies: list[Any] = []
        self.condition: Any = None

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(
            f"127.0.0.1:{self.broker.port}", allowed_mechs="ANONYMOUS", reconnect=False
        )
        event.container.create_receiver(connection, "held")

    def on_message(self, event: Any) -> None:
        self.bodies.append(event.message.body)
        if len(self.bodies) <= COUNT // 2:
            self.accept(event.delivery)
        if len(self.bodies) == COUNT:
            event.container.schedule(1, self)

    def on_timer_task(self, event: Any) -> None:
        self.broker.send_signal(signal.SIGTERM)

    def on_connection_remote_close(self, event: Any) -> None:
        self.condition = event.connection.remote_condition


def test_clients_hear_that_the_broker_stops_and_lose_nothing(broker: BrokerProcess) -> None:
    sending = BlockingConnection(
        f"127.0.0.1:{broker.port}", timeout=SECONDS, allowed_mechs="ANONYMOUS"
    )
    sender = sending.create_sender("held")
    for number in range(COUNT):
        sender.send(Message(body=number, durable=True))
    sending.close()
    with Wire(broker.port) as stomp:
        assert stomp.connect().command == "CONNECTED"
        holder = Holder(broker)
        Container(holder).run()
        assert stomp.at_end(), "STOMP has no frame for it"
    assert holder.bodies == list(range(COUNT))
    assert holder.condition is not None
    assert holder.condition.name == "amqp:connection:forced"
    assert holder.condition.description == "the broker is stopping"
    assert broker.wait() == 0
    broker.start()
    assert queues(broker)["held"]["ready"] == COUNT // 2
    again = BlockingConnection(
        f"127.0.0.1:{broker.port}", timeout=SECONDS, allowed_mechs="ANONYMOUS"
    )
    receiver = again.create_receiver("held", COUNT)
    left = []
    for _ in range(COUNT // 2):
        found = receiver.receive(SECONDS)
        left.append(found.body)
        assert not found.first_acquirer
        receiver.accept()
    assert left == list(range(COUNT // 2, COUNT))
    again.close()
    audited(broker)


def test_a_peer_that_asks_for_a_millisecond_is_refused(broker: BrokerProcess) -> None:
    class Hasty(MessagingHandler):  # type: ignore[misc]
        condition: Any = None

        def on_start(self, event: Any) -> None:
            # Proton announces half of it.
            event.container.connect(
                f"127.0.0.1:{broker.port}", allowed_mechs="ANONYMOUS", heartbeat=0.9,
                reconnect=False,
            )  # fmt: skip

        def on_connection_error(self, event: Any) -> None:
            self.condition = event.connection.remote_condition

    hasty = Hasty()
    Container(hasty).run()
    assert hasty.condition.name == "amqp:not-allowed"
    assert "below 500 ms" in hasty.condition.description
