"""Clients at work on a broker that may die at any moment: producers, consumers, forwarders.

They run in threads until the broker is gone. The next action of each comes from a seeded generator
of its own; when it happens does not, so a seed repeats the decisions of a run, not its timing.
"""

import random
import threading
import traceback
from typing import Final, TypeAlias

from daybook.tools.drills.clients.client import (
    Client,
    Connect,
    Delivery,
    Gone,
    Heard,
    Receipt,
    Refused,
    padded,
)
from daybook.tools.drills.clients.ledger import Ledger, Misordered

PREFIX: Final = "/queue/"
NAMES: Final = ("daybook-drill-orders", "daybook-drill-input", "daybook-drill-output")
DEAD_NAME: Final = "daybook-drill-dead"
ORDERS, INPUT, OUTPUT = (PREFIX + name for name in NAMES)
DEAD: Final = PREFIX + DEAD_NAME
SPACE_NAME: Final = "daybook-drill-space"
"""A queue without messages, for subscriptions that only take space."""
SPACE: Final = PREFIX + SPACE_NAME
POISON: Final = "!"
"""The end of a body that every consumer rejects, so that it becomes a dead letter."""
BACKLOG: Final = 1500
"""Producers pause above this many open messages, so that the drain at the end stays short."""

WINDOW: Final = 40
CREDIT: Final = 25
UNACKED_MAX: Final = 12
POLL: Final = 0.005


class Worker:
    """A client's thread: connects, works, connects again if it died, ends when the broker has.

    `needs_numbers` says that its client must name the broker's numbers of messages.
    """

    needs_numbers = False

    def __init__(self, name: str, ledger: Ledger, connect: Connect, port: int) -> None:
        self.name: Final = name
        self.ledger: Final = ledger
        self.random: Final = random.Random(name)
        self.connect: Final = connect
        self.port: Final = port
        self.serial = 0
        self.thread: Final = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        while True:
            try:
                client = self.connect(self.port)
            except Gone:
                return
            try:
                self.work(client)
            except Gone:
                self.ledger.dropped(self.name)
                client.cut()
            except Exception:
                self.ledger.complain(f"{self.name} failed: {traceback.format_exc()}")
                client.cut()
                return

    def next_id(self) -> str:
        self.serial += 1
        return f"{self.name}-{self.serial}"

    def work(self, client: Client) -> None:
        """Work until Gone, or return to connect again."""
        raise NotImplementedError

    def complain_of(self, heard: Heard | None) -> None:
        if isinstance(heard, Refused):
            self.ledger.complain(f"{self.name} got an ERROR: {heard.text}")


class Producer(Worker):
    """Sends with receipts, a window ahead; now and then in transactions, some of them aborted."""

    destination = ORDERS
    lengths: tuple[int, ...] = (0,)
    """Lengths of bodies to choose from; a body is at least as long as its name."""

    def padded(self, body: str) -> str:
        return padded(body, self.random.choice(self.lengths))

    def ending(self) -> str:
        """The end of the next body."""
        return ""

    def work(self, client: Client) -> None:
        waiting: dict[str, tuple[str, ...]] = {}
        while True:
            full = len(waiting) >= WINDOW or self.ledger.open > BACKLOG
            heard = client.receive(POLL if full else 0)
            self.complain_of(heard)
            if isinstance(heard, Receipt):
                self.ledger.sent_receipted(waiting.pop(heard.id))
            elif not full:
                self.send(client, waiting)

    def send(self, client: Client, waiting: dict[str, tuple[str, ...]]) -> None:
        if self.random.random() < 0.1:
            self.send_together(client, waiting)
            return
        body = receipt = self.next_id() + self.ending()
        self.ledger.sending(body)
        waiting[receipt] = (body,)
        client.send(self.destination, self.padded(body), receipt)

    def send_together(self, client: Client, waiting: dict[str, tuple[str, ...]]) -> None:
        name = self.next_id()
        bodies = tuple(f"{name}.{n}" for n in range(self.random.randint(1, 5)))
        self.ledger.sending_together(bodies)
        client.begin(name)
        for body in bodies:
            client.send(self.destination, self.padded(body), transaction=name)
        if self.random.random() < 0.3:
            self.ledger.given_up(bodies)
            waiting[name] = ()
            client.abort(name, name)
        else:
            waiting[name] = bodies
            client.commit(name, name)


class PoisonProducer(Producer):
    """Sends bodies of all sizes, some of which no consumer wants."""

    lengths = (0, 0, 200, 1_500, 4_000, 70_000)

    def ending(self) -> str:
        return POISON if self.random.random() < 0.02 else ""


class InputProducer(Producer):
    """Feeds the forwarders."""

    destination = INPUT


class Consumer(Worker):
    """Acks with receipts; nacks some, holds some, drops its connection now and then."""

    destination = ORDERS

    def work(self, client: Client) -> None:
        self.acks: dict[str, str] = {}
        self.unacked: list[Delivery] = []
        newest: dict[str, int] = {}
        client.subscribe(self.destination, "1", CREDIT)
        while True:
            heard = client.receive(POLL * 4)
            self.complain_of(heard)
            if isinstance(heard, Receipt):
                self.on_receipt(heard)
            elif isinstance(heard, Delivery):
                self.ledger.delivered(heard.body, heard.delivery_count, heard.is_flagged)
                if heard.delivery_count == 1:
                    # Messages without an earlier delivery arrive in the order in which they were
                    # sent.
                    before = newest.get(heard.producer, 0)
                    if heard.id < before:
                        said = f"{self.name}: {heard.producer} {heard.id} came after {before}"
                        self.ledger.complain(Misordered(said))
                    newest[heard.producer] = heard.id
                if self.random.random() < 0.004:
                    client.cut()
                    return
                self.on_delivery(client, heard)
            elif self.unacked:
                self.settle(client, self.unacked.pop(0))

    def on_receipt(self, receipt: Receipt) -> None:
        body = self.acks.pop(receipt.id)
        if body:
            self.ledger.ack_receipted(body)

    def on_delivery(self, client: Client, delivery: Delivery) -> None:
        draw = self.random.random()
        if draw < 0.06 or delivery.body.endswith(POISON):
            receipt = self.next_id()
            self.acks[receipt] = ""
            client.nack(delivery, receipt)
        elif draw < 0.2 and len(self.unacked) < UNACKED_MAX:
            self.unacked.append(delivery)
        else:
            self.settle(client, delivery)

    def settle(self, client: Client, delivery: Delivery) -> None:
        receipt = self.next_id()
        self.acks[receipt] = delivery.body
        self.ledger.acknowledging(delivery.body)
        client.ack(delivery, receipt)


class Forwarder(Consumer):
    """Takes from one queue and sends to another in one transaction: both happen, or neither."""

    destination = INPUT

    def on_delivery(self, client: Client, delivery: Delivery) -> None:
        name = self.next_id()
        output = f"{delivery.body}>{delivery.delivery_count}"
        if output in self.ledger.sent:
            # This count was said before, which the ledger has noted.
            return
        self.ledger.sending(output)
        client.begin(name)
        client.ack(delivery, "", name)
        client.send(OUTPUT, output, transaction=name)
        if self.random.random() < 0.1:
            self.ledger.given_up([output])
            self.acks[name] = ""
            client.abort(name, name)
            if client.keeps_what_was_undone:
                # The delivery can be settled again.
                self.settle(client, delivery)
            return
        self.outputs[name] = output
        self.acks[name] = delivery.body
        self.ledger.acknowledging(delivery.body, output)
        client.commit(name, name)

    def work(self, client: Client) -> None:
        self.outputs: dict[str, str] = {}
        super().work(client)

    def on_receipt(self, receipt: Receipt) -> None:
        if receipt.id in self.outputs:
            self.ledger.sent_receipted([self.outputs.pop(receipt.id)])
        super().on_receipt(receipt)


class Undertaker(Worker):
    """Takes dead letters, whose numbers show that each was made once."""

    needs_numbers = True

    def work(self, client: Client) -> None:
        client.subscribe(DEAD, "1", CREDIT)
        while True:
            heard = client.receive(POLL * 4)
            self.complain_of(heard)
            if isinstance(heard, Delivery):
                self.ledger.buried(heard.body, heard.id, is_flagged=heard.is_flagged)
                client.ack(heard, "")


class LargeProducer(Producer):
    """Sends bodies of all sizes, from none to several chunks."""

    lengths = (0, 0, 0, 200, 1_500, 4_000, 70_000, 200_000)


Staff: TypeAlias = tuple[type[Worker], ...]
STAFF: Final[Staff] = (Producer, InputProducer, Consumer, Consumer, Forwarder)
LARGE_STAFF: Final[Staff] = (LargeProducer, InputProducer, Consumer, Consumer, Forwarder)
DRILL_STAFF: Final[Staff] = (
    PoisonProducer, Producer, InputProducer, Consumer, Consumer, Forwarder, Undertaker
)  # fmt: skip
FILLING: Final[Staff] = (LargeProducer, Producer, InputProducer)
DRAINING: Final[Staff] = (Consumer, Consumer, Forwarder)


def begin_work(
    ledger: Ledger,
    connect: Connect,
    port: int,
    name: str,
    staff: Staff = STAFF,
    others: tuple[Connect, ...] = (),
) -> list[Worker]:
    """Start all clients of a round; names and so bodies begin with `name`.

    `connect` makes clients that name numbers of messages. If there are `others`, these make the
    clients that need none, in turn.
    """
    makers = others or (connect,)
    workers = [
        kind(
            f"{name}{chr(ord('a') + number)}", ledger,
            connect if kind.needs_numbers else makers[number % len(makers)], port,
        )
        for number, kind in enumerate(staff)
    ]  # fmt: skip
    for worker in workers:
        worker.thread.start()
    return workers


def end_work(workers: list[Worker]) -> None:
    """Wait until all clients have noticed that the broker is gone."""
    for worker in workers:
        worker.thread.join(60)
        assert not worker.thread.is_alive(), f"{worker.name} still believes in the broker"
