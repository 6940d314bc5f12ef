"""A shop: `orders.py send` sends five orders, `orders.py work` charges for them, with stomp.py.

An order that could not be charged is given back with the reason, and comes again later. With
`orders.py work guests` orders without a customer can be charged, too. The port is the last word.

    pip install stomp.py
    python docs/examples/orders.py send
"""

import json
import queue
import sys

import stomp
from stomp.utils import Frame

ORDERS = ["ada", "bob", "cyd", None, "eve"]
IDLE_SECONDS = 6


class Inbox(stomp.ConnectionListener):
    """Hands messages and receipts to the main thread."""

    def __init__(self) -> None:
        self.frames: queue.Queue[Frame] = queue.Queue()

    def on_message(self, frame: Frame) -> None:
        """Take a message."""
        self.frames.put(frame)

    def on_receipt(self, frame: Frame) -> None:
        """Take a receipt."""
        self.frames.put(frame)


def charge(order: dict, attempt: int, guests: bool) -> str:
    """Return why an order cannot be charged, "" if it was."""
    if order["customer"] is None and not guests:
        return "no customer"
    if order["number"] == 3 and attempt == 1:
        return "the bank does not answer"
    return ""


def send(connection: stomp.Connection12, inbox: Inbox) -> None:
    """Send the orders; the receipt says that an order is on the broker's disk."""
    for number, customer in enumerate(ORDERS, 1):
        order = json.dumps({"number": number, "customer": customer})
        connection.send(
            "/queue/orders", order, headers={"order": number}, receipt=f"order {number}"
        )
        print(inbox.frames.get(timeout=10).headers["receipt-id"], "is safe")


def work(connection: stomp.Connection12, inbox: Inbox, guests: bool) -> None:
    """Charge for orders until none came for a while."""
    connection.subscribe("/queue/orders", id="shop", ack="client-individual")
    while True:
        try:
            message = inbox.frames.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            return
        order = json.loads(message.body)
        attempt = int(message.headers.get("delivery-count", 1))
        if error := charge(order, attempt, guests):
            connection.nack(message.headers["ack"], error=error)
        else:
            connection.ack(message.headers["ack"])
        print(f"order {order['number']}, attempt {attempt}: {error or 'charged'}", flush=True)


def main() -> None:
    """Do what the words say."""
    words = sys.argv[1:]
    port = int(words.pop()) if words[-1].isdigit() else 61613
    inbox = Inbox()
    connection = stomp.Connection12([("127.0.0.1", port)])
    connection.set_listener("inbox", inbox)
    connection.connect("guest", "guest", wait=True)
    if words[0] == "send":
        send(connection, inbox)
    else:
        work(connection, inbox, "guests" in words)
    connection.disconnect()


main()
