"""Draining the queues of a drill at its end: all that waits is taken, and answered.

Each wait is for an event, with a limit that a busy machine does not reach. Must never know the
broker's insides.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from daybook.tools.drills.clients.client import Client, Connect, Delivery, Receipt, Refused
from daybook.tools.drills.clients.ledger import Ledger
from daybook.tools.drills.clients.witness import Wrong
from daybook.tools.drills.clients.workload import DEAD, INPUT, ORDERS, OUTPUT, POISON

DRAIN_SECONDS: Final = 30.0
END_SECONDS: Final = 300.0
SILENCE_SECONDS: Final = 1.0
"""After so much silence queues count as empty; the check of the journal decides."""
Take: TypeAlias = Callable[[Ledger, Client, Delivery, set[str]], None]


def drain(ledger: Ledger, connect: Connect, connect_by_number: Connect, port: int) -> None:
    """Take everything from the queues of the workload, then the dead letters, whose client must
    name the broker's numbers. Raises Gone and Wrong."""
    with customer(connect, port) as client:
        for number, destination in enumerate((ORDERS, INPUT, OUTPUT)):
            client.subscribe(destination, str(number), 1000)
        _drain(ledger, client, _take)
    # A dead letter has the destination that it was sent to: it needs a client of its own.
    with customer(connect_by_number, port) as undertaker:
        undertaker.subscribe(DEAD, "1", 1000)
        _drain(ledger, undertaker, _bury)


@contextmanager
def customer(connect: Connect, port: int) -> Iterator[Client]:
    """Connect, and drop the connection at the end. Raises Gone."""
    client = connect(port)
    try:
        yield client
    finally:
        client.cut()


def _drain(ledger: Ledger, client: Client, take: Take) -> None:
    """Consume until no message is left and every answer has come."""
    waiting: set[str] = set()
    begun = silent_since = time.monotonic()
    while True:
        heard = client.receive(0.5)
        now = time.monotonic()
        if isinstance(heard, Receipt):
            waiting.discard(heard.id)
            if not heard.id.endswith(POISON):
                ledger.ack_receipted(heard.id)
        elif isinstance(heard, Delivery):
            silent_since = now
            take(ledger, client, heard, waiting)
        elif isinstance(heard, Refused):
            raise Wrong("P1", f"the broker refused while it was drained: {heard.text}")
        elif not waiting and now - silent_since > SILENCE_SECONDS:
            return
        if now - silent_since > DRAIN_SECONDS or now - begun > END_SECONDS:
            raise Wrong("P1", f"the queues do not become empty; {len(waiting)} answers are missing")


def _take(ledger: Ledger, client: Client, delivery: Delivery, waiting: set[str]) -> None:
    body = delivery.body
    ledger.delivered(body, delivery.delivery_count, delivery.is_flagged)
    waiting.add(body)
    if body.endswith(POISON):
        client.nack(delivery, body)
    else:
        ledger.drained.add(body)
        client.ack(delivery, body)


def _bury(ledger: Ledger, client: Client, delivery: Delivery, waiting: set[str]) -> None:
    ledger.buried(delivery.body, delivery.id, is_flagged=delivery.is_flagged)
    waiting.add(delivery.body + POISON)
    client.ack(delivery, delivery.body + POISON)
