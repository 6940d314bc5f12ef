"""Brokers that know each other by connectors, and clients of Qpid that send and receive there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from proton import Delivery, Message
from proton.reactor import Container
from proton.utils import BlockingConnection

from bench.brokers.ports import free_port
from tests.interop.connectors.using import listed, wait_for_link
from tests.support.process import BrokerProcess

SECONDS: Final = 30
ACCEPTED: Final = Delivery.ACCEPTED
IN_DOUBT: Final = (Delivery.RELEASED, Delivery.MODIFIED)


def connector(name: str, port: int, *lines: str) -> str:
    """Return a connector that tries again quickly, and finds out soon that its peer hangs."""
    return "\n".join(
        (
            "[[connector]]", f'name = "{name}"', f'url = "amqp://127.0.0.1:{port}"',
            'reconnect-delay = "100ms"', 'reconnect-delay-max = "300ms"',
            'connect-timeout = "1s"', *lines, "",
        )
    )  # fmt: skip


def auto_link(address: str, direction: str, name: str, *lines: str) -> str:
    """Return an auto-link."""
    return "\n".join(
        (
            "[[auto-link]]", f'address = "{address}"', f'direction = "{direction}"',
            f'connector = "{name}"', *lines, "",
        )
    )  # fmt: skip


def a_broker(folder: Path, name: str, config: str = "", port: int = 0) -> BrokerProcess:
    """Return a broker, not started, whose port is the same after each start."""
    port = port or free_port()
    return BrokerProcess(
        folder / name, config=config, listen=(f"amqp://127.0.0.1:{port}",),
        settings=[f"name={name}"], processes=1,
    )  # fmt: skip


def port_of(broker: BrokerProcess) -> int:
    """Return the port of a broker, also before it has started."""
    return int(broker.listen[0].rpartition(":")[2])


@contextmanager
def running(*brokers: BrokerProcess) -> Iterator[None]:
    """Start brokers side by side; they are gone at the end."""
    try:
        for each in brokers:
            each.launch()
        for each in brokers:
            each.wait_until_ready()
        yield
    finally:
        for each in brokers:
            each.kill()


def wait_for_links(broker: BrokerProcess, *names: str) -> None:
    """Wait until auto-links are attached."""
    for name in names:
        wait_for_link(broker, name)


def links_of(broker: BrokerProcess) -> dict[str, dict[str, Any]]:
    """Return the auto-links by their names."""
    return {each["auto_link"]: each for each in listed(broker, "auto-link", "list")}


class Client:
    """A connection of Qpid's client that sends without waiting for each outcome."""

    def __init__(self, broker: BrokerProcess, container: str = "") -> None:
        reactor = Container()
        if container:
            reactor.container_id = container
        self.connection: Final = BlockingConnection(
            f"127.0.0.1:{broker.port}", timeout=SECONDS, allowed_mechs="ANONYMOUS",
            container=reactor,
        )  # fmt: skip

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):
            self.connection.close()

    def sender(self, address: str) -> Any:
        """Return a link that has credit."""
        sender = self.connection.create_sender(address)
        self.connection.wait(lambda: sender.link.credit > 0, msg="credit")
        return sender

    def begin(self, sender: Any, body: str, group: str | None = None) -> Any:
        """Send a message; return its delivery, whose outcome is to come."""
        self.connection.wait(lambda: sender.link.credit > 0, msg="credit")
        message = Message(body=body, durable=True)
        if group is not None:
            message.group_id = group
        delivery = sender.link.send(message)
        self.flush()
        return delivery

    def flush(self) -> None:
        """Write all that the client has to say."""
        self.connection.container.process()
        transport = self.connection.conn.transport
        self.connection.wait(lambda: not transport.pending(), msg="the output to leave")

    def outcomes(self, deliveries: Sequence[Any]) -> list[int]:
        """Wait until all outcomes are there."""
        self.connection.wait(
            lambda: all(each.remote_state for each in deliveries), msg="the outcomes"
        )
        found = [each.remote_state for each in deliveries]
        for each in deliveries:
            each.settle()
        return found

    def take(self, receiver: Any, seconds: float = SECONDS) -> str:
        """Return the body of the next message, once it is accepted."""
        body: str = receiver.receive(seconds).body
        receiver.accept()
        self.flush()
        return body

    def take_all(self, address: str, count: int) -> list[str]:
        """Receive and accept so many messages; there must be no other for a moment."""
        receiver = self.connection.create_receiver(address, credit=100)
        found = [self.take(receiver) for _ in range(count)]
        receiver.close()
        return found

    def drain(self, address: str, quiet: float = 2.0) -> list[str]:
        """Receive and accept messages until none comes for some time."""
        receiver = self.connection.create_receiver(address, credit=100)
        found = []
        with suppress(Exception):
            while True:
                found.append(self.take(receiver, quiet))
        with suppress(Exception):
            receiver.close()
        return found
