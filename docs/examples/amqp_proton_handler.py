"""Three orders through a queue over AMQP 1.0, with Apache Qpid Proton and its handlers.

The program sends as the broker gives credit, counts what is accepted, and settles what it has
received once `on_message` returns.

    pip install python-qpid-proton
    python docs/examples/amqp_proton_handler.py amqp://guest:guest@127.0.0.1:5672 orders
"""

import sys

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

ORDERS = 3


class Orders(MessagingHandler):
    """Sends orders, and receives them."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__(prefetch=10, auto_accept=True)
        self.url = url
        self.address = address
        self.sent = self.accepted = self.received = 0

    def on_start(self, event: Event) -> None:
        """Connect, and attach both links."""
        connection = event.container.connect(self.url, reconnect=[1, 2, 4])
        event.container.create_sender(connection, self.address)

    def on_sendable(self, event: Event) -> None:
        """Send as long as there is credit."""
        while event.sender.credit and self.sent < ORDERS:
            self.sent += 1
            body = f"order {self.sent}"
            event.sender.send(Message(body=body, durable=True, properties={"customer": "alice"}))

    def on_accepted(self, event: Event) -> None:
        """The broker has an order on its disk."""
        self.accepted += 1
        print(f"accepted order {self.accepted}")
        if self.accepted == ORDERS:
            event.container.create_receiver(event.connection, self.address)

    def on_rejected(self, event: Event) -> None:
        """The broker has refused an order."""
        condition = event.delivery.remote.condition
        sys.exit(f"refused: {condition.description if condition else 'without a reason'}")

    def on_message(self, event: Event) -> None:
        """Take an order; it is accepted when this returns, and rejected if this raises."""
        self.received += 1
        print(f"received {event.message.body} of {event.message.properties['customer']}")
        if self.received == ORDERS:
            event.receiver.close()
            event.connection.close()


Container(Orders(*sys.argv[1:])).run()
