"""The open transactions of all connections: their operations, and the memory they take together.

Kept by `engine.consumers.transactions`, which decides. `weight` is an estimate of memory: headers,
bodies and a fixed part for each operation. Volatile: no part of the logical state. Must never know
limits.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from daybook.engine.commands import Send, Settle
from daybook.engine.limits.pools import Charges
from daybook.engine.limits.waiting_senders import Sender
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.entry import Entry

Operation: TypeAlias = Send | Settle

TRANSACTION_WEIGHT: Final = 1024
"""The weight of an open transaction without any operation: bytes of memory."""

SEND_WEIGHT: Final = 192
"""The weight of a message in a transaction beyond its headers and body."""

SETTLEMENT_WEIGHT: Final = 512
"""The weight of a settlement in a transaction, and of each delivery that it settles."""


class Transaction:
    """The operations that a client wants to happen together, in order, and their weight.

    `doomed` says why it cannot be committed, empty if it can. A transaction that the broker
    rolled back has `ended` by the event with this LSN: it holds nothing, and is kept only so that
    its client learns the reason.
    `entries` is how many entries of queues it settles or creates: as many events, in one turn.
    """

    __slots__ = (
        "bytes", "connection", "doomed", "ended", "entries", "name", "operations", "owners",
        "sender", "settled", "since", "user", "weight",
    )  # fmt: skip

    def __init__(self, name: str, connection: int = 0, since: int = 0, user: str = "") -> None:
        self.name = name
        self.user = user
        self.connection = connection
        # The sender whose commit waits for room.
        self.sender: Sender = connection, 0
        self.since = since
        self.operations: list[Operation] = []
        self.settled: dict[int, tuple[Consumer, list[Entry]]] = {}
        # By operation, the consumers of its entries, if they are those of a bundle.
        self.owners: dict[int, list[Consumer]] = {}
        self.bytes = 0
        self.entries = 0
        self.weight = 0
        self.doomed = ""
        self.ended = 0

    def settlements(self) -> Iterator[tuple[Consumer, Entry]]:
        """Yield the deliveries that it settles, each with its consumer when it was settled."""
        for position, (consumer, entries) in self.settled.items():
            owners = self.owners.get(position)
            if owners is None:
                for entry in entries:
                    yield consumer, entry
            else:
                yield from zip(owners, entries, strict=True)


class OpenTransactions:
    """Transactions in the order in which they began, and their weight together."""

    __slots__ = ("_open", "charges", "weight")

    def __init__(self) -> None:
        self._open: dict[Transaction, None] = {}
        self.charges = Charges()
        self.weight = 0

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def add(self, transaction: Transaction) -> None:
        """Add a transaction that began."""
        self._open[transaction] = None
        self.grow(transaction, TRANSACTION_WEIGHT + len(transaction.name))

    def grow(self, transaction: Transaction, weight: int) -> None:
        """Add to the weight of a transaction."""
        transaction.weight += weight
        self.weight += weight
        self.charges.add(transaction.user, transaction.connection, weight)

    def remove(self, transaction: Transaction) -> None:
        """Remove a transaction that ended, unless it was removed before."""
        if transaction in self._open:
            del self._open[transaction]
            self.weight -= transaction.weight
            self.charges.remove(transaction.user, transaction.connection, transaction.weight)
            transaction.weight = 0

    def begun_before(self, moment: int) -> list[Transaction]:
        """Return those that began before a moment (microseconds), the oldest first."""
        found = []
        for transaction in self._open:
            if transaction.since >= moment:
                break
            found.append(transaction)
        return found

    def clock_stepped(self, step: int) -> None:
        """Keep the age of each transaction when the clock was set by so many microseconds."""
        for transaction in self._open:
            transaction.since += step

    def by_connection(self) -> dict[int, int]:
        """Return what the transactions of each connection weigh."""
        return dict(self.charges.of_connection)

    def of_user(self, user: str) -> dict[int, int]:
        """Return what the transactions of each connection of a user weigh."""
        weights: dict[int, int] = {}
        for transaction in self._open:
            if transaction.user == user:
                weights[transaction.connection] = self.charges.of_connection[transaction.connection]
        return weights

    def of_connection(self, connection: int) -> list[Transaction]:
        """Return the transactions of one connection, the heaviest first."""
        found = [each for each in self._open if each.connection == connection]
        found.sort(key=_weight_of, reverse=True)
        return found


def _weight_of(transaction: Transaction) -> int:
    return transaction.weight


def doom_transactions(consumer: Consumer) -> None:
    """Mark the transactions that settled deliveries of this consumer: they cannot be committed."""
    for name in set(consumer.enlisted.values()):
        transaction = consumer.connection.transactions.get(name)
        if transaction is not None:
            transaction.doomed = (
                f"subscription '{consumer.subscription}' ended before the commit, and the "
                "deliveries that the transaction settled went back to their queue"
            )
