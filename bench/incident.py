"""A long history of a shop whose broker has bad days: `python -m bench.incident DIR --events N`.

The real engine and journal without sockets, as in `bench.history`, but with the subjects of
questions after an incident: messages with headers (`order`, `producer`), several consumers of a
queue under logins of their own, one that rejects much, deaths of the broker with messages in
flight, messages that expire for want of a consumer, poison that becomes dead letters, and operators
who pause, purge, move messages and change settings. The events are drawn from a fixed seed, so
that the same order has the same story each time.
"""

import random
import time
from collections import deque
from pathlib import Path
from typing import Final

import click

from bench.history import MANY, write_history
from bench.load.frames import LoadError, make_body
from daybook.engine import commands as c
from daybook.engine.broker import Broker
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.facts.settlements import FAILED
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.journal.journal import Journal

QUEUES: Final = 200
BODIES: Final = 20_000
BODY_BYTES: Final = 256
BEGIN_US: Final = 1_700_000_000_000_000
TURN_US: Final = 500_000
TURN_MESSAGES: Final = 500
IN_FLIGHT: Final = 2000
DEATH_TURNS: Final = 2500
"""Turns from one death of the broker to the next."""
OPERATOR_TURNS: Final = 600
"""Turns from one act of an operator to the next."""
OFFERS: Final = "offers"
"""It has no consumers, and its messages expire."""
OFFER_TURNS: Final = 20
OFFER_US: Final = 3_600_000_000
EXPIRED: Final = "expired"
POISONOUS: Final = 2000
"""One in so many orders is rejected until it is a dead letter."""
REJECTED: Final = 0.002
REJECTED_BY_CARELESS: Final = 0.05
ATTEMPTS: Final = 5
PRODUCERS: Final = ("checkout", "mobile", "partner", "backoffice")
CONSUMERS: Final = ("warehouse", "billing", "mail", "careless")


class Shop:
    """Producers, consumers and operators, whose broker writes a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal: Final = journal
        self._state: Final = State()
        self._chance: Final = random.Random(1)
        self._bodies: Final = [
            make_body(number % 4, number, BODY_BYTES, self._chance) for number in range(BODIES)
        ]
        self._queues: Final = [f"orders.{number}" for number in range(QUEUES)]
        self._weights: Final = [1 / number for number in range(1, QUEUES + 1)]
        self._now = BEGIN_US
        self._turns = 0
        self._orders = 0
        self._paused = ""
        self._begin()
        expired = QueueDefinition(EXPIRED)
        self._ask("queue.create", c.CreateQueue(EXPIRED, expired))

    def _begin(self) -> None:
        """Start a broker on the state, and connect everybody."""
        self._broker = Broker(self._state, self._journal.next_lsn)
        self._flying: deque[tuple[int, int]] = deque()
        self._do(c.Start("bench"))
        settings: dict[str, str | int | bool | float] = {
            "max-delivery-attempts": ATTEMPTS,
            "dead-letter-address": "dead",
            "expiry-address": EXPIRED,
        }
        self._do(c.ChangeSettings({"#": settings}))
        self._producers = [self._connect(login, number) for number, login in enumerate(PRODUCERS)]
        self._careless: set[int] = set()
        for number, login in enumerate(CONSUMERS):
            connection = self._connect(login, 100 + number)
            for queue in self._queues[number % 2 :: 2]:
                consumer = self._do(
                    c.Attach(connection, queue, credit_messages=50, credit_bytes=MANY)
                )
                if login == "careless":
                    self._careless.add(consumer)

    def _connect(self, login: str, number: int) -> int:
        peer = f"10.0.{number}.7:{40_000 + self._turns % 20_000}"
        return self._do(c.OpenConnection("stomp", peer, login, client_id=login, room=MANY))

    def turn(self) -> None:
        """Send some, settle old deliveries, and write the decisions."""
        self._turns += 1
        if self._turns % DEATH_TURNS == 0:
            self._now += 7_000_000
            self._begin()
        if self._turns % OPERATOR_TURNS == 0:
            self._operate(self._turns // OPERATOR_TURNS)
        for queue in self._chance.choices(self._queues, self._weights, k=TURN_MESSAGES):
            self._send(queue)
        if self._turns % OFFER_TURNS == 0:
            self._send(OFFERS, expires=(self._now + OFFER_US) // 1000)
        while len(self._flying) > IN_FLIGHT:
            self._settle(*self._flying.popleft())
        self._now += TURN_US
        self._broker.dispatch(self._now)
        self._do(c.ExpireDue())
        self._flying.extend(
            (effect[0].id, effect[1].id)
            for effect in self._broker.effects
            if isinstance(effect, tuple)
        )
        self._broker.effects.clear()
        batch = self._broker.take()
        assert batch is not None
        self._journal.append(batch)

    def _send(self, queue: str, expires: int = 0) -> None:
        producer = self._orders % len(PRODUCERS)
        headers = b"order:%d\nproducer:%b\n" % (self._orders, PRODUCERS[producer].encode())
        body = self._bodies[self._orders % BODIES]
        self._orders += 1
        self._do(c.Send(self._producers[producer], queue, headers, body, expires=expires))

    def _settle(self, consumer: int, message: int) -> None:
        share = REJECTED_BY_CARELESS if consumer in self._careless else REJECTED
        if message % POISONOUS == 0 or self._chance.random() < share:
            self._do(c.Settle(consumer, message, outcome=FAILED))
        else:
            self._do(c.Settle(consumer, message))

    def _operate(self, number: int) -> None:
        """Do one of the things that operators do, as `daybook` does them."""
        if self._paused:
            self._ask("queue.resume", c.ResumeQueue(self._paused))
            self._paused = ""
        elif number % 7 == 0:
            self._paused = self._queues[number % 20]
            self._ask("queue.pause", c.PauseQueue(self._paused))
        elif number % 11 == 0:
            self._ask("queue.purge", c.PurgeQueue(EXPIRED))
        elif number % 13 == 0:
            match = f"orders.{number % 20}"
            self._ask("settings.set", c.SetSettings(match, {"max-delivery-attempts": 3}))

    def _ask(self, request: str, command: c.Command) -> None:
        self._do(c.Administer("olga from 10.0.0.9", request, command))

    def _do(self, command: c.Command) -> int:
        answer = self._broker.handle(command, self._now)
        if isinstance(answer, Refusal):
            raise LoadError(f"the engine refused a command of the shop: {answer.text}")
        return answer


def make_incident(directory: Path, events: int) -> int:
    """Make a data directory with at least so many events in place of what is there; return how
    many there are."""
    return write_history(directory, events, Shop)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--events", default=1_000_000, show_default=True, help="How many, at least.")
def main(directory: Path, events: int) -> None:
    """Write the history of a shop to DIRECTORY, which must be new or empty."""
    if directory.exists() and any(directory.iterdir()):
        raise click.UsageError(f"{directory} is not empty")
    begin = time.perf_counter()
    made = make_incident(directory, events)
    seconds = time.perf_counter() - begin
    click.echo(f"{made:,} events in {seconds:,.0f} s ({made / seconds:,.0f} a second)")


if __name__ == "__main__":
    main()
