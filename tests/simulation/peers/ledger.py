"""The knowledge of the clients: their messages, the answers, their settlements.

Filled by clients when they hand bytes to the network, and read by the checkers. It survives all
crashes of the broker.
"""

from collections import Counter

import msgspec

from tests.simulation.peers.amqp_memory import LinkMemory


class Sent(msgspec.Struct):
    """A message that a client sent; its tag begins its body.

    One with an id may be sent again, with the same `headers`, in `transactions` or by itself. It is
    `withdrawn` as long as its last frame was not sent, and `refused` once the broker has said so.
    `bare` is the part of a message of AMQP that nobody may change, `tail` its sections behind the
    body, which belong to the body of a large one.
    """

    tag: int
    destination: str
    body: bytes
    persistent: bool
    priority: int
    expires_ms: int
    transaction: str
    promised: bool = False
    has_id: bool = False
    headers: list[tuple[str, str]] = []
    transactions: set[str] = set()
    withdrawn: bool = False
    refused: bool = False
    bare: bytes = b""

    def has_body(self, body: bytes) -> bool:
        """Whether this is its body."""
        return body == self.body

    @property
    def places(self) -> int:
        """At how many destinations it becomes a message."""
        return self.destination.count(",") + 1


class SubscriptionRecord(msgspec.Struct, eq=False):
    """A subscription as its client sees it. `queue` tells queues apart: the name, or the id.

    `closed_cleanly` is set when UNSUBSCRIBE or DISCONNECT was sent: the attempts that were in
    flight may be taken back, by design. One that `is_vague` is to several queues, or to one that
    others may end, or takes nothing: its answers may be incomplete. One that `steals` takes its
    queue over from all others.
    """

    link: int
    name: str
    destination: str
    queue: str
    ack_mode: str
    closed_cleanly: bool = False
    is_vague: bool = False
    steals: bool = False


class Said(msgspec.Struct, eq=False):
    """A MESSAGE that left the broker as attempt number `count`, and whether it was rejected.

    `flagged` says whether it had the header redelivered:true.
    """

    subscription: SubscriptionRecord
    count: int
    flagged: bool
    rejected: bool = False
    released: bool = False

    @property
    def is_spent(self) -> bool:
        """Whether the attempt counts for sure: a clean close takes back what it finds in flight."""
        return not self.released and (self.rejected or not self.subscription.closed_cleanly)


class Expectation(msgspec.Struct):
    """The meaning of a receipt: the `kind` of the frame, and details for the checker."""

    kind: str
    tag: int = 0
    name: str = ""
    tags: list[int] = []
    settled: list[tuple[str, int]] = []


class TransactionRecord(msgspec.Struct):
    """The content of a client's transaction, to be compared with the journal."""

    name: str
    tags: list[int] = []
    acks: list[tuple[str, int]] = []
    nacks: list[tuple[str, int]] = []
    released: list[tuple[str, int]] = []
    refused: list[tuple[str, int]] = []
    committing: bool = False


class Ledger:
    """All that clients know. Serials distinguish links."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self.expected: dict[tuple[int, str], Expectation] = {}
        self.subscriptions: dict[tuple[int, str], SubscriptionRecord] = {}
        # By (link, subscription, message): the settlements of the client.
        self.acks: set[tuple[int, str, int]] = set()
        self.nacks: set[tuple[int, str, int]] = set()
        self.released: set[tuple[int, str, int]] = set()
        self.refused: set[tuple[int, str, int]] = set()
        # Messages that a link does not want any more.
        self.not_here: set[tuple[int, str, int]] = set()
        # Put into a transaction, whatever became of that.
        self.attempted: set[tuple[int, str, int]] = set()
        self.transactions: dict[tuple[int, str], TransactionRecord] = {}
        # By (queue, message): the broker's deliveries, and the acks with a receipt.
        self.said: dict[tuple[str, int], list[Said]] = {}
        self.said_tags: set[int] = set()
        self.acks_promised: set[tuple[str, int]] = set()
        # Keys of `said` that belong to messages which do not outlive the broker.
        self.transient: set[tuple[str, int]] = set()
        self.purges = 0
        # What containers know of links that they lost, by virtual host and id; deliveries that they
        # resumed, as `acks`; ids of containers by link; the links that want to be the only one, by
        # number; and how many these were when a link ended.
        self.memories: dict[tuple[str, str], list[LinkMemory]] = {}
        self.resumed: set[tuple[int, str, int]] = set()
        self.containers: dict[int, tuple[str, str]] = {}
        self.only: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        # Temporary destinations, as others than their connections name them.
        self.temporaries: list[str] = []
        self.errors: Counter[str] = Counter()
        self.receipts = 0
        # Deeds of clients of AMQP by their number, and of messages between protocols.
        self.deeds: Counter[str] = Counter()
        self.messages = 0
        # Tags of messages with an id, and how often one was sent again.
        self.resendable: list[int] = []
        self.resent = 0

    def ask_to_be_only(self, link: int) -> None:
        """A link wants to be the only one of its container."""
        self.only[link] = len(self.only)

    def may_keep_out(self, other: int, link: int) -> bool:
        """Whether another link was there when this one asked to be the only one."""
        is_one = other != link and self.containers.get(other) == self.containers[link]
        return is_one and self.ends.get(other, len(self.only)) > self.only[link]

    def end(self, link: int) -> None:
        """The broker's side of a link has ended."""
        self.ends.setdefault(link, len(self.only))

    def forget_transient(self) -> None:
        """The broker died: ids of messages that were not durable may come again."""
        for key in self.transient:
            self.said.pop(key, None)
            self.acks_promised.discard(key)
        self.transient.clear()
