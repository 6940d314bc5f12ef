"""Clients that roam: they use whichever machine serves, and record what it confirmed.

Their work and its record are those of the drills (`tools.drills.clients`). Here is what a list of
addresses adds: which machine confirmed what, and when. A client whose way to its machine was
blocked drops the connection, as one with heart-beats does; so what arrives was said just before.
"""

import math
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from daybook.tools.drills.clients.amqp_client import AmqpDrillClient
from daybook.tools.drills.clients.client import Client, Delivery, Gone, Heard, Receipt, StompClient
from daybook.tools.drills.clients.ledger import Ledger
from daybook.tools.drills.clients.workload import STAFF, Worker, begin_work
from tests.crash.machines.network import CLIENTS, MACHINES, Network

ROUTED: Final = "Routed"
ACKNOWLEDGED: Final = "Acknowledged"
ANSWER_SECONDS: Final = 8.0
"""A client that waits longer for an answer tries another machine."""
CONNECT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.005
"""How long a client rests before each message, so that the tests do not measure processors."""
MAKERS: Final[dict[str, Callable[..., Client]]] = {"stomp": StompClient, "amqp": AmqpDrillClient}


class Done(NamedTuple):
    """A deed of a client: the kind of its event, and the body of the message."""

    kind: str
    body: str


class Confirm(NamedTuple):
    """A machine confirmed something to a client, which read it at this moment (monotonic)."""

    machine: str
    moment: float
    done: Done


class Roaming:
    """A client that is connected to a machine of the crowd's cluster."""

    def __init__(self, crowd: "Crowd", protocol: str, machine: str) -> None:
        """Raises Gone."""
        place = crowd.network.reaches(CLIENTS, machine, protocol)
        self._crowd: Final = crowd
        self._generation: Final = crowd.network.generations[machine]
        self._client: Final = MAKERS[protocol](place.port, place.host, timeout=CONNECT_SECONDS)
        self.machine: Final = machine
        self._protocol: Final = protocol
        self.keeps_what_was_undone: Final = self._client.keeps_what_was_undone
        self._awaited: Final[dict[str, tuple[float, list[Done]]]] = {}
        self._transactions: Final[dict[str, list[Done]]] = {}

    def _check(self) -> None:
        if self._crowd.is_over or self._crowd.network.generations[self.machine] != self._generation:
            raise Gone
        begun, _ = next(iter(self._awaited.values()), (math.inf, []))
        if time.monotonic() - begun > self._crowd.patience[self._protocol]:
            raise Gone

    def _await(self, receipt: str, *done: Done, transaction: str = "") -> None:
        self._check()
        if transaction:
            self._transactions[transaction].extend(done)
        if receipt:
            self._awaited[receipt] = time.monotonic(), list(done)

    def send(self, destination: str, body: str, receipt: str = "", transaction: str = "") -> None:
        time.sleep(PAUSE_SECONDS)
        self._await(receipt, Done(ROUTED, body), transaction=transaction)
        self._client.send(destination, body, receipt, transaction)

    def subscribe(self, destination: str, id: str, credit: int) -> None:
        self._client.subscribe(destination, id, credit)

    def ack(self, delivery: Delivery, receipt: str, transaction: str = "") -> None:
        self._await(receipt, Done(ACKNOWLEDGED, delivery.body), transaction=transaction)
        self._client.ack(delivery, receipt, transaction)

    def nack(self, delivery: Delivery, receipt: str) -> None:
        self._await(receipt)
        self._client.nack(delivery, receipt)

    def begin(self, transaction: str) -> None:
        self._client.begin(transaction)
        self._transactions[transaction] = []

    def commit(self, transaction: str, receipt: str) -> None:
        self._await(receipt, *self._transactions.pop(transaction))
        self._client.commit(transaction, receipt)

    def abort(self, transaction: str, receipt: str) -> None:
        self._await(receipt)
        del self._transactions[transaction]
        self._client.abort(transaction, receipt)

    def receive(self, seconds: float) -> Heard | None:
        self._check()
        heard = self._client.receive(seconds)
        # A blocked way may let through at last something that was said long ago.
        self._check()
        if isinstance(heard, Receipt):
            _, done = self._awaited.pop(heard.id)
            moment = time.monotonic()
            self._crowd.confirms.extend(Confirm(self.machine, moment, each) for each in done)
        return heard

    def cut(self) -> None:
        self._client.cut()


class Crowd:
    """All clients of a cluster, and what they recorded. `is_over` ends them."""

    def __init__(self, network: Network) -> None:
        self.network: Final = network
        self.ledger: Final = Ledger()
        self.confirms: Final[list[Confirm]] = []
        self.is_over = False
        self.patience = dict.fromkeys(MAKERS, ANSWER_SECONDS)
        self._workers: Final[list[Worker]] = []
        self._here: Final = threading.local()

    def connect(self, protocol: str, port: int = 0) -> Client:
        """Connect to whichever machine serves, at its own port; raises Gone at the end."""
        if not hasattr(self._here, "chance"):
            self.network.visit()
            self._here.chance = random.Random(threading.current_thread().name)
        names = list(MACHINES)
        while not self.is_over:
            self._here.chance.shuffle(names)
            for name in names:
                try:
                    return Roaming(self, protocol, name)
                except Gone:
                    continue
            time.sleep(0.1)
        raise Gone

    def begin(self, protocols: tuple[str, ...] = ("stomp", "amqp")) -> None:
        """Let a staff begin to work for each protocol."""
        for protocol in protocols:
            connect = partial(self.connect, protocol)
            self._workers.extend(begin_work(self.ledger, connect, 0, protocol[0], STAFF))

    def end(self) -> None:
        """Let all end, and wait for them."""
        self.is_over = True
        for worker in self._workers:
            worker.thread.join(60)
            assert not worker.thread.is_alive(), f"{worker.name} still works"

    def drain(self, is_empty: Callable[[], bool], destinations: tuple[str, ...]) -> None:
        """Take all that is left with one more client, until the broker says that this is all."""
        self.is_over = False
        thread = Drain(self, is_empty, destinations)
        thread.start()
        thread.join()
        self.is_over = True
        if thread.failure is not None:
            raise thread.failure


class Drain(threading.Thread):
    """Takes and acknowledges everything."""

    def __init__(
        self, crowd: Crowd, is_empty: Callable[[], bool], destinations: tuple[str, ...]
    ) -> None:
        super().__init__(name="drain", daemon=True)
        self.failure: BaseException | None = None
        self._crowd: Final = crowd
        self._is_empty: Final = is_empty
        self._destinations: Final = destinations

    def run(self) -> None:
        try:
            while not self._drain(self._crowd.connect("stomp")):
                pass
        except BaseException as error:
            self.failure = error

    def _drain(self, client: Client) -> bool:
        """Return whether that was all; if not, the connection was lost."""
        try:
            self._take_all(client)
        except Gone:
            return False
        finally:
            client.cut()
        return True

    def _take_all(self, client: Client) -> None:
        ledger = self._crowd.ledger
        for number, destination in enumerate(self._destinations):
            client.subscribe(destination, str(number), 1_000)
        newest: dict[Any, int] = {}
        acks: dict[str, str] = {}
        while True:
            heard = client.receive(0.5)
            if isinstance(heard, Receipt):
                ledger.ack_receipted(acks.pop(heard.id))
            elif isinstance(heard, Delivery):
                ledger.delivered(heard.body, heard.delivery_count, heard.is_flagged)
                assert heard.id > newest.get(heard.destination, 0), (newest, heard)
                newest[heard.destination] = heard.id
                ledger.drained.add(heard.body)
                receipt = f"drained {heard.id}"
                acks[receipt] = heard.body
                client.ack(heard, receipt)
            else:
                assert heard is None, heard
                if not acks and self._is_empty():
                    return
