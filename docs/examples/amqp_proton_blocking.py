"""Three orders through a queue over AMQP 1.0, with Apache Qpid Proton and its blocking client.

`send` returns when the broker has the order on its disk; an order that is not accepted comes again.

    pip install python-qpid-proton
    python docs/examples/amqp_proton_blocking.py amqp://guest:guest@127.0.0.1:5672 orders
"""

import sys

from proton import Delivery, Message
from proton.utils import BlockingConnection

url, address = sys.argv[1:]
connection = BlockingConnection(url, timeout=10)

sender = connection.create_sender(address)
for number in (1, 2, 3):
    order = Message(body=f"order {number}", durable=True, properties={"customer": "alice"})
    outcome = sender.send(order)
    assert outcome.remote_state == Delivery.ACCEPTED
    print(f"accepted order {number}")

receiver = connection.create_receiver(address, credit=10)
for _ in range(3):
    message = receiver.receive(timeout=10)
    print(f"received {message.body} of {message.properties['customer']}")
    receiver.accept()

connection.close()
