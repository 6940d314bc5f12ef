"""The clients of the demo: producers and consumers on stomp.py, and their records.

The ledger is written by the clients alone; the broker is not asked. Every order is sent exactly
once, so an order that was in transfer when the broker was killed stays *in doubt*: it may or may
not have arrived, and both are right.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import stomp  # type: ignore[import-untyped]
from stomp.exception import StompException  # type: ignore[import-untyped]

QUEUE: Final = "/queue/orders"
DESK_QUEUE: Final = "/queue/review"
DOUBTFUL: Final = 8
"""At a crash at most one in so many orders is in doubt, and the others suffice for the next one."""

PAUSE_EVERY: Final = 5
PAUSE_SECONDS: Final = 0.004
WAIT_SECONDS: Final = 0.02
NACK_EVERY: Final = 41
PREFETCH: Final = 40


class Delivery:
    """One attempt as seen by a client."""

    __slots__ = ("count", "flagged", "message")

    def __init__(self, message: int, count: int, flagged: bool) -> None:
        self.message = message
        self.count = count
        self.flagged = flagged


class Order:
    """The record of the clients for one order. Counts are delivery counts; 0 means never."""

    __slots__ = (
        "acked_count", "confirmed_count", "deliveries", "first_acked_count", "nacked", "receipted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.receipted = False
        self.deliveries: list[Delivery] = []
        self.acked_count = 0
        self.first_acked_count = 0
        self.confirmed_count = 0
        self.nacked = 0


class Ledger:
    """Everything that the clients observed; shared by their threads."""

    def __init__(self) -> None:
        self.lock: Final = threading.Lock()
        self.orders: dict[int, Order] = {}
        self.invented: list[str] = []
        self.connections = 0
        self.dropped = 0

    def sent(self, number: int) -> None:
        """An order is about to be sent."""
        with self.lock:
            self.orders[number] = Order()

    def receipted(self, number: int) -> None:
        """The broker confirmed that the order is safe."""
        with self.lock:
            self.orders[number].receipted = True

    def delivered(self, headers: dict[str, str], body: str) -> tuple[int, Delivery] | None:
        """A message came. Return its order, None if no client sent it in this form."""
        delivery = Delivery(
            int(headers["message-id"]),
            int(headers.get("delivery-count", "1")),
            headers.get("redelivered") == "true",
        )
        number = int(headers.get("order", "-1"))
        with self.lock:
            order = self.orders.get(number)
            if order is None or body != body_of(number):
                self.invented.append(f"message {delivery.message}, order {number}")
                return None
            order.deliveries.append(delivery)
        return number, delivery

    def acked(self, number: int, count: int) -> None:
        """A consumer is about to acknowledge the order."""
        with self.lock:
            order = self.orders[number]
            order.acked_count = max(count, order.acked_count)
            order.first_acked_count = order.first_acked_count or count

    def confirmed(self, number: int, count: int) -> None:
        """The broker confirmed that the acknowledgement is safe."""
        with self.lock:
            self.orders[number].confirmed_count = count

    def nacked(self, number: int) -> None:
        """A consumer is about to reject the order."""
        with self.lock:
            self.orders[number].nacked += 1

    def count(self, wanted: Callable[[Order], bool]) -> int:
        """How many orders satisfy a condition."""
        with self.lock:
            return sum(1 for order in self.orders.values() if wanted(order))


def body_of(number: int) -> str:
    """The body of an order, which a consumer must get unchanged."""
    return f'{{"order": {number}, "article": "A-{number * 7919 % 1000:03}", "quantity": 1}}'


class Client(stomp.ConnectionListener):  # type: ignore[misc]
    """A client that reconnects whenever its connection is lost, until it is stopped."""

    def __init__(self, name: str, port: int, ledger: Ledger) -> None:
        self.name: Final = name
        self.port: Final = port
        self.ledger: Final = ledger
        self.stopping: Final = threading.Event()
        self.lost: Final = threading.Event()
        self.changed: Final = threading.Condition()
        self.failure = ""
        self._connection: Any = None
        self.thread: Final = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            while not self.stopping.is_set() and self.work_left():
                if self._connect():
                    self.work()
                    self.close()
        except Exception as error:
            self.failure = f"{self.name}: {error!r}"
            raise

    def _connect(self) -> bool:
        """Try to connect once; a broker that is restarting refuses connections for a moment."""
        connection = stomp.Connection12(
            [("127.0.0.1", self.port)], heartbeats=(0, 0), reconnect_attempts_max=1
        )
        connection.set_listener(self.name, self)
        self.lost.clear()
        try:
            connection.connect("guest", "guest", wait=True)
        except (StompException, OSError):
            self.stopping.wait(WAIT_SECONDS)
            return False
        self._connection = connection
        with self.ledger.lock:
            self.ledger.connections += 1
        return True

    def work_left(self) -> bool:
        """Whether connecting again is useful."""
        return True

    def work(self) -> None:
        """Do the work of this client on a connection, until that is lost or all is done."""
        raise NotImplementedError

    def attempt(self, method: str, *arguments: Any, **options: Any) -> bool:
        """Send a frame; return whether the connection accepted it, not whether the broker has
        it."""
        try:
            getattr(self._connection, method)(*arguments, **options)
        except (StompException, OSError, AttributeError):
            # stomp.py sets its socket to None after losing it; a sender in another thread then gets
            # an AttributeError.
            return False
        return True

    def drop(self) -> None:
        """Close the connection without DISCONNECT."""
        self._connection.transport.disconnect_socket()

    def close(self) -> None:
        """Disconnect cleanly if that is still possible."""
        if not self.lost.is_set():
            self.attempt("disconnect")

    def on_disconnected(self) -> None:
        self.lost.set()
        with self.changed:
            self.changed.notify_all()


class Producer(Client):
    """Sends its orders, each once, and requests a receipt for each."""

    def __init__(self, name: str, port: int, ledger: Ledger, numbers: range) -> None:
        super().__init__(name, port, ledger)
        self._numbers: Final = iter(numbers)
        self._window: Final = len(numbers) // DOUBTFUL
        self._waiting: set[int] = set()
        self.done = False

    def work_left(self) -> bool:
        return not self.done

    def work(self) -> None:
        self._waiting.clear()
        while not self.lost.is_set():
            number = next(self._numbers, None)
            if number is None:
                self._settle(0)
                self.done = True
                return
            self._send(number)
            if number % PAUSE_EVERY == 0:
                time.sleep(PAUSE_SECONDS)
            self._settle(self._window)

    def _send(self, number: int) -> None:
        self.ledger.sent(number)
        with self.changed:
            self._waiting.add(number)
        destination = DESK_QUEUE if is_for_desk(number) else QUEUE
        headers = {"order": str(number), "receipt": str(number), "persistent": "true"}
        self.attempt("send", destination, body_of(number), headers=headers)

    def _settle(self, left: int) -> None:
        """Wait until at most `left` receipts are missing, or the connection is lost."""
        with self.changed:
            self.changed.wait_for(lambda: len(self._waiting) <= left or self.lost.is_set())

    def on_receipt(self, frame: Any) -> None:
        receipt = frame.headers["receipt-id"]
        if receipt.isdigit():
            self.ledger.receipted(int(receipt))
            with self.changed:
                self._waiting.discard(int(receipt))
                self.changed.notify_all()


def is_for_desk(number: int) -> bool:
    """Whether an order needs a review, as some of the first do; it takes longer than the whole
    demo."""
    return number % 100 == 7 and number < 1000


class Consumer(Client):
    """Acknowledges orders one by one; rejects some once, and dies after a number of them."""

    queue = QUEUE

    def __init__(self, name: str, port: int, ledger: Ledger, dies_after: int = 0) -> None:
        super().__init__(name, port, ledger)
        self._dies_after: Final = dies_after
        self._seen = 0

    def work(self) -> None:
        headers = {"credit": f"{PREFETCH},0"}
        self.attempt(
            "subscribe", self.queue, id=self.name, ack="client-individual", headers=headers
        )
        with self.changed:
            self.changed.wait_for(lambda: self.lost.is_set() or self.stopping.is_set())

    def on_message(self, frame: Any) -> None:
        known = self.ledger.delivered(frame.headers, frame.body)
        if known is None:
            return
        number, delivery = known
        self._seen += 1
        if self._dies_after and self._seen % self._dies_after == 0:
            with self.ledger.lock:
                self.ledger.dropped += 1
            self.drop()
            return
        self.settle(number, delivery, frame.headers["ack"])

    def settle(self, number: int, delivery: Delivery, ack: str) -> None:
        """Acknowledge or reject a delivery."""
        if number % NACK_EVERY == 0 and delivery.count == 1:
            self.ledger.nacked(number)
            self.attempt("nack", ack)
            return
        self.acknowledge(number, delivery, ack)

    def acknowledge(self, number: int, delivery: Delivery, ack: str) -> None:
        """Acknowledge a delivery with a receipt."""
        self.ledger.acked(number, delivery.count)
        self.attempt("ack", ack, receipt=f"{number}/{delivery.count}")

    def on_receipt(self, frame: Any) -> None:
        number, slash, count = frame.headers["receipt-id"].partition("/")
        if slash:
            self.ledger.confirmed(int(number), int(count))


class Desk(Consumer):
    """Reviews its orders for a long time: does not acknowledge them before `finish` is called."""

    queue = DESK_QUEUE

    def __init__(self, name: str, port: int, ledger: Ledger) -> None:
        super().__init__(name, port, ledger)
        self._finishing = False
        self._unacked: list[tuple[int, Delivery, str]] = []

    def work(self) -> None:
        with self.changed:
            # Deliveries of a lost connection cannot be settled any more.
            self._unacked.clear()
        super().work()

    def settle(self, number: int, delivery: Delivery, ack: str) -> None:
        with self.changed:
            if not self._finishing:
                self._unacked.append((number, delivery, ack))
                return
        self.acknowledge(number, delivery, ack)

    def finish(self) -> None:
        """Acknowledge the orders that it has, and from now on each new one."""
        with self.changed:
            self._finishing = True
            unacked, self._unacked = self._unacked, []
        for number, delivery, ack in unacked:
            self.acknowledge(number, delivery, ack)
