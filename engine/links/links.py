"""Links of direct addresses, their messages in flight, and the addresses themselves.

A direct address stores nothing: it is there as long as it has links. All of this is volatile, as
connections are; events say what happened (ADR 109). Must never know how a receiver is chosen.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from daybook.engine.facts.definitions import BALANCED, BY_GROUP, Distribution, Waypoint
from daybook.engine.facts.events import FORWARD_SETTLED, FORWARDED
from daybook.engine.facts.rows import TAKER_STRUCT, RowHead
from daybook.engine.facts.settlements import ACCEPTED, BY_SETTLEMENT, FAILED, REJECTED, RELEASED
from daybook.engine.messages.annotations import Annotations, packed
from daybook.engine.messages.message import PRIORITIES, Message
from daybook.engine.queues.consumer import Connection
from daybook.engine.queues.entry import Taker

CAPACITY: Final = 250
"""How many deliveries may wait for a receiver, or be unsettled by it, before what nobody hears of
is dropped."""
WAITING_MAX: Final = 2_500
"""The most messages that wait for a receiver."""
WAITING_BYTES_MAX: Final = 16 << 20
"""The most bytes that wait for a receiver, beyond its first message."""

INFO_BYTES: Final = 4096
"""The most that a protocol passes on of what else a receiver says of an error."""


class Ending(NamedTuple):
    """How a receiver ended a delivery (`engine.commands.Settle`)."""

    outcome: int
    error: str = ""
    condition: str = ""
    not_here: bool = False
    annotations: Annotations | None = None
    modified: bool = False
    info: dict[Any, Any] | None = None

    @property
    def strength(self) -> tuple[int, bool]:
        """Its rank among those of several receivers, of which the highest counts: rejected,
        accepted, modified, released (12.1.1.4); among equals, one that says more."""
        rank = _RANKS.get(self.outcome, 1 if self.modified else 0)
        return rank, bool(self.error or self.condition)

    @property
    def said_bytes(self) -> int:
        """About how many bytes of memory the words of the receiver take."""
        annotations = len(packed(self.annotations)) if self.annotations else 0
        info = INFO_BYTES if self.info else 0
        return annotations + info + len(self.error) + len(self.condition)


_RANKS: Final = {REJECTED: 4, ACCEPTED: 3, FAILED: 2}
UNTRIED: Final = Ending(RELEASED)
"""Nobody got the message."""
IN_DOUBT: Final = Ending(FAILED, modified=True)
"""A receiver may have got it, and is gone."""


FALLBACK: Final = -1
"""In the place of a phase: there auto-links receive what nobody else can get."""


class SendingLink(Taker):
    """A link by which a peer sends to an address, or with none to those that its messages name.

    `number` is the one that it has among the links of its connection. Its messages
    reach receivers while it `is_open`. One with `is_fallback` brings those that were stored
    elsewhere. `to_settle` are, by token, the ids of messages whose end it heard and has
    to confirm, with the receivers that await it.
    """

    __slots__ = ("address", "is_fallback", "is_open", "number", "to_settle")

    def __init__(
        self,
        link_id: int,
        connection: Connection,
        number: int,
        address: "DirectAddress | None",
        *,
        is_fallback: bool = False,
    ) -> None:
        super().__init__(link_id, connection.id, connection.user)
        self.number: Final = number
        self.address: Final = address
        self.is_fallback: Final = is_fallback
        self.is_open = False
        self.to_settle: Final[dict[Any, tuple[int, list[ReceivingLink]]]] = {}


class Forwarding:
    """A message on its way to receivers. `waits` is how many have not ended it, `ending` the
    strongest end so far. `token` is what its sender knows it by; without a `sender` nobody is to
    hear of its end. `attempt` and `marks` are as in `effects.Delivered`: a queue may have delivered
    it before. `awaiting` are receivers that ended it and await the settlement of its sender, which
    `confirms` the end by one, or else settles with hearing of it. The connection `speaker` is
    charged for the `said_bytes` of `ending`."""

    __slots__ = (
        "attempt", "awaiting", "confirms", "ending", "marks", "message", "said_bytes", "sender",
        "speaker", "token", "waits",
    )  # fmt: skip

    def __init__(
        self,
        message: Message,
        sender: SendingLink | None,
        token: Any,
        waits: int,
        attempt: int = 1,
        marks: int = 0,
        *,
        confirms: bool = False,
    ) -> None:
        self.message: Final = message
        self.sender: Final = sender
        self.confirms: Final = confirms
        self.awaiting: list[ReceivingLink] | None = None
        self.token: Final = token
        self.waits = waits
        self.attempt: Final = attempt
        self.marks: Final = marks
        self.ending: Ending | None = None
        self.speaker: Connection | None = None
        self.said_bytes = 0

    def end(self, ending: Ending, connection: Connection) -> bool:
        """Note that a receiver ended it, on a connection; return whether it was the last.

        The words of a receiver are charged to it until the others have ended the message."""
        known = self.ending
        self.waits -= 1
        if known is None or ending.strength > known.strength:
            self._charge(-1)
            self.ending, self.speaker = ending, connection
            self.said_bytes = ending.said_bytes if self.waits else 0
            self._charge(1)
        elif not self.waits:
            self._charge(-1)
        return not self.waits

    def _charge(self, times: int) -> None:
        if self.said_bytes and self.speaker is not None:
            self.speaker.unacked_bytes += times * self.said_bytes
            self.speaker.forwarded_bytes += times * self.said_bytes


class ReceivingLink(Taker):
    """A link by which a peer receives from a direct address.

    `outstanding` are the messages that it has not settled, `waiting` those that wait for its
    credit, by priority; both make its load, and are charged to its connection. It `drains` until
    it has what there is. `cost` is how far away it is, `shard` the queue of others that it leads
    to. `holders` is shared by receivers of a connection that settle by message:
    by that, the ids of those that have not settled it; None for all others. `packed`, with the two
    heads, is what rows about its deliveries begin with and say of it.
    """

    __slots__ = (
        "_connection", "_sender", "_taken", "address", "connection", "cost", "drains",
        "forwarded_head", "holders", "outstanding", "packed", "settled_head", "shard", "waiting",
        "waiting_bytes", "waits",
    )  # fmt: skip

    def __init__(
        self,
        link_id: int,
        connection: Connection,
        address: "DirectAddress",
        cost: int = 0,
        shard: str = "",
    ) -> None:
        super().__init__(link_id, connection.id, connection.user)
        self.connection: Final = connection
        self.address: Final = address
        self.cost: Final = cost
        self.shard: Final = shard
        self.outstanding: Final[dict[int, Forwarding]] = {}
        self.waiting: Final[dict[int, deque[Forwarding]]] = {}
        self.waits = 0
        self.waiting_bytes = 0
        self.drains = False
        self.holders: dict[int, list[int]] | None = None
        self.packed: Final = TAKER_STRUCT.pack(link_id, connection.id, 0)
        self.forwarded_head: Final = RowHead(FORWARDED)
        self.settled_head: Final = RowHead(FORWARD_SETTLED)
        self._connection = self._sender = -1
        self._taken = b""

    def packed_from(self, connection: int, sender: int) -> bytes:
        """Return what the row of a message to it says of receiver and sender."""
        if sender != self._sender or connection != self._connection:
            self._connection, self._sender = connection, sender
            self._taken = TAKER_STRUCT.pack(self.id, connection, sender)
        return self._taken

    @property
    def load(self) -> int:
        """How many messages it has to settle, or to get."""
        return self.waits + len(self.outstanding)

    @property
    def can_take(self) -> bool:
        """Whether it may get a message now."""
        has_credit = self.credit_messages > 0 or self.credit_bytes > 0
        return has_credit and self.connection.room > 0 and not self.detaching

    @property
    def first_priority(self) -> int:
        """The priority of what it gets next; -1 if nothing waits."""
        return max(self.waiting, default=-1)

    @property
    def is_full(self) -> bool:
        """Whether no more may wait for it."""
        return self.waits >= WAITING_MAX or self.waiting_bytes >= WAITING_BYTES_MAX

    def charge(self, message: Message, times: int) -> None:
        """Charge a message to its connection, or with -1 no more."""
        self.connection.unacked_bytes += times * message.weight
        self.connection.forwarded_bytes += times * message.weight

    def add(self, forwarding: Forwarding) -> None:
        """Let a message wait, behind those of its priority."""
        message = forwarding.message
        self.waiting.setdefault(message.priority, deque()).append(forwarding)
        self.waits += 1
        self.waiting_bytes += message.size

    def pop(self) -> Forwarding:
        """Take the message that comes next."""
        priority = self.first_priority
        line = self.waiting[priority]
        first = line.popleft()
        if not line:
            del self.waiting[priority]
        self.waits -= 1
        self.waiting_bytes -= first.message.size
        return first

    def drop_unwanted(self) -> list[Forwarding]:
        """Remove what waits and has no sender to hear of it, but for the first message; return
        it."""
        head = self.waiting[self.first_priority][0] if self.waits else None
        dropped: list[Forwarding] = []
        for priority in list(self.waiting):
            line = self.waiting[priority]
            kept = deque(each for each in line if each is head or each.sender is not None)
            dropped += [each for each in line if each is not head and each.sender is None]
            self.waiting[priority] = kept
            if not kept:
                del self.waiting[priority]
        self.waits -= len(dropped)
        self.waiting_bytes -= sum(each.message.size for each in dropped)
        return dropped

    def spend(self, message: Message) -> None:
        """Note that it got a message."""
        self.handed += 1
        self.connection.room -= message.size
        if self.credit_policy:
            self.credit_messages -= 1
            self.credit_bytes -= message.body_bytes

    def hold(self, forwarding: Forwarding) -> None:
        """Note that it has a message to settle."""
        number = forwarding.message.id
        self.outstanding[number] = forwarding
        if self.holders is not None:
            self.holders.setdefault(number, []).append(self.id)

    def let_go(self, number: int) -> Forwarding:
        """Return a message that it has no more to settle."""
        if self.holders is not None:
            holding = self.holders[number]
            holding.remove(self.id)
            if not holding:
                del self.holders[number]
        return self.outstanding.pop(number)

    def restore(self, message: Message) -> None:
        """Return the credit of a message that it settled, if it returns by settlement."""
        if self.credit_policy == BY_SETTLEMENT:
            self.credit_messages += 1
            self.credit_bytes += message.body_bytes


class Copies:
    """A message on its way to very many receivers, which get it in slices: `at` is the place of the
    next one. Copies for the same receivers share them."""

    __slots__ = ("at", "forwarding", "receivers")

    def __init__(self, forwarding: Forwarding, receivers: "tuple[ReceivingLink, ...]") -> None:
        self.forwarding: Final = forwarding
        self.receivers: Final = receivers
        self.at = 0

    def awaits(self, link: "ReceivingLink") -> bool:
        """Whether a receiver has still to get it."""
        place = bisect_left(self.receivers, link.id, self.at, key=_id_of)
        return place < len(self.receivers) and self.receivers[place] is link


def _id_of(link: "ReceivingLink") -> int:
    return link.id


class OwnShard:
    """The queue of this broker as one of the shards of an address.

    `load` is how many messages entered it in the batch of events that began with event `batch`:
    those before are durable, or nearly so. `others` is how many went elsewhere since its turn.
    """

    __slots__ = ("batch", "load", "others")

    def __init__(self) -> None:
        self.batch = 0
        self.load = 0
        self.others = 0

    def takes(self, batch: int, least: int, others: int) -> bool:
        """Whether a message is for this shard; the least load of `others` other ones is `least`."""
        if batch != self.batch:
            self.batch = batch
            self.load = 0
        if self.load < least or (self.load == least and self.others >= others):
            self.load += 1
            self.others = 0
            return True
        self.others += 1
        return False


class DirectAddress:
    """A direct address that is in use, at one of its phases, with its links.

    `entry` is what the table said when it came into use, but for the shards of groups. Phase 0 has
    all others, and FALLBACK, as `later`. `receivers` are in the order in which they came, and those
    with an equal cost in that of their turns. `details` are those of its Forwarded with these
    receivers, encoded, by what differs between messages; `copies` are messages that not all
    receivers have got.
    """

    __slots__ = (
        "_by_cost", "_everybody", "_least", "_loads", "_root", "by_group", "copies", "details",
        "distribution", "entry", "is_sharded", "later", "name", "own_shard", "phase", "receivers",
        "senders",
    )  # fmt: skip

    def __init__(
        self, name: str, entry: Distribution, phase: int = 0, root: "DirectAddress | None" = None
    ) -> None:
        self.name: Final = name
        self.entry = entry
        self.phase: Final = phase
        self._root: Final = root
        self.later: Final[dict[int, DirectAddress]] = {}
        self.distribution: Final = entry.distribution if phase >= 0 else BALANCED
        self.own_shard: Final = OwnShard() if entry.has_shard and not phase else None
        through = entry.through
        self.by_group: Final = through is not None and through.shard_by == BY_GROUP
        self.is_sharded: Final = not phase and (self.by_group or self.own_shard is not None)
        self.details: Final[dict[int, bytes]] = {}
        self.copies: Final[deque[Copies]] = deque()
        self._everybody: tuple[ReceivingLink, ...] = ()
        self.senders: Final[dict[int, SendingLink]] = {}
        self.receivers: Final[dict[int, ReceivingLink]] = {}
        # Receivers by their cost, and several by their load, each in the order of turns; and the
        # least load at most.
        self._by_cost: Final[dict[int, dict[int, ReceivingLink]]] = {}
        self._loads: Final[dict[int, dict[int, ReceivingLink]]] = {}
        self._least = 0

    @property
    def root(self) -> "DirectAddress":
        """The address at phase 0."""
        return self._root if self._root is not None else self

    @property
    def is_used(self) -> bool:
        """Whether it has links."""
        return bool(self.senders or self.receivers or self.later)

    @property
    def fallback(self) -> "DirectAddress | None":
        """Where auto-links receive what nobody else can get; None if there are none."""
        return self.later.get(FALLBACK)

    @property
    def stores(self) -> bool:
        """Whether a queue of this broker takes what no receiver can get, or some of all."""
        return not self.phase and self.entry.stores_here

    def at(self, phase: int) -> "DirectAddress":
        """Return the address at another phase, which comes into use if it is not."""
        if not phase:
            return self.root
        later = self.root.later
        if phase not in later:
            later[phase] = DirectAddress(self.name, self.entry, phase, self.root)
        return later[phase]

    def found_at(self, phase: int) -> "DirectAddress | None":
        """Return the address at a phase, None if that has no links."""
        return self.root.later.get(phase) if phase else self.root

    @property
    def shards(self) -> tuple[str, ...]:
        """Its shards on other brokers."""
        return self.entry.through.shards if self.entry.through is not None else ()

    def follow(self, waypoint: Waypoint, *older: str) -> None:
        """Choose the shards of groups among those of another table from now on, and `older` ones,
        if groups are what decides in both."""
        through = self.entry.through
        if through is not None and self.by_group and waypoint.shard_by == BY_GROUP:
            shards = (*older, *(each for each in waypoint.shards if each not in older))
            self.entry = replace(self.entry, through=replace(through, shards=shards))

    def is_open_to(self, sender: SendingLink) -> bool:
        """Whether somebody gets what a sender sends, now or later."""
        if self.receivers:
            return True
        return not sender.is_fallback and (self.stores or self.fallback is not None)

    def join(self, link: ReceivingLink) -> None:
        """Add a receiver."""
        self._forget()
        if len(self.receivers) == 1:
            for only in self.receivers.values():
                self._loads.setdefault(only.load, {})[only.id] = only
        self.receivers[link.id] = link
        self._by_cost.setdefault(link.cost, {})[link.id] = link
        if len(self.receivers) > 1:
            self._loads.setdefault(0, {})[link.id] = link
        self._least = 0

    def leave(self, link: ReceivingLink) -> None:
        """Remove a receiver, whose load is 0."""
        self._forget()
        del self.receivers[link.id]
        near = self._by_cost[link.cost]
        del near[link.id]
        if not near:
            del self._by_cost[link.cost]
        if len(self.receivers) > 1:
            self._take(link, 0)
        else:
            self._loads.clear()

    @property
    def compares_loads(self) -> bool:
        """Whether it has to know the loads of its receivers."""
        return bool(self._loads)

    def reload(self, link: ReceivingLink, before: int) -> None:
        """Note that the load of a receiver changed."""
        if not self._loads:
            return
        now = link.load
        if now == before:
            return
        self._take(link, before)
        self._loads.setdefault(now, {})[link.id] = link
        if now < self._least:
            self._least = now

    def _take(self, link: ReceivingLink, load: int) -> None:
        same = self._loads[load]
        del same[link.id]
        if not same:
            del self._loads[load]

    def _forget(self) -> None:
        """Forget what is remembered of its receivers."""
        self.details.clear()
        self._everybody = ()

    def everybody(self) -> tuple[ReceivingLink, ...]:
        """Return all receivers, in the order in which they came."""
        if len(self._everybody) != len(self.receivers):
            self._everybody = tuple(self.receivers.values())
        return self._everybody

    def least_loaded(self) -> ReceivingLink:
        """Return the receiver with the least load; of several, the one whose turn it is."""
        if not self._loads:
            return next(iter(self.receivers.values()))
        while self._least not in self._loads:
            self._least += 1
        return next(iter(self._loads[self._least].values()))

    @property
    def least_cost(self) -> int:
        """The cost of the way to the nearest receivers."""
        return min(self._by_cost)

    def nearest(self) -> ReceivingLink:
        """Return the receiver with the least cost; of several, the one whose turn it is."""
        near = self._by_cost[self.least_cost]
        number, link = next(iter(near.items()))
        del near[number]
        near[number] = link
        return link


class DirectLinks:
    """All direct addresses that are in use, at phase 0 by name, and their links by id.

    `changed` are names with a queue of this broker whose first receiver came, or whose last one
    went; `emptied` are those whose queue is being emptied (`engine.consumers.fallback`), which has
    a `connection` of the broker itself. `copying` are addresses of which not all receivers have got
    a message. `holders` are, by connection, those of its receivers.
    """

    __slots__ = (
        "addresses", "changed", "connection", "copying", "emptied", "holders", "of_connection",
        "receivers", "senders",
    )  # fmt: skip

    def __init__(self) -> None:
        self.changed: Final[dict[str, None]] = {}
        self.emptied: Final[dict[str, Any]] = {}
        self.connection = 0
        self.copying: Final[dict[DirectAddress, None]] = {}
        self.addresses: Final[dict[str, DirectAddress]] = {}
        self.senders: Final[dict[int, SendingLink]] = {}
        self.receivers: Final[dict[int, ReceivingLink]] = {}
        self.of_connection: Final[dict[int, dict[int, SendingLink | ReceivingLink]]] = {}
        self.holders: Final[dict[int, dict[int, list[int]]]] = {}

    @property
    def count(self) -> int:
        """How many links there are."""
        return len(self.senders) + len(self.receivers)

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk of all large messages that a receiver has still to get; 0 if there
        are none."""
        waiting = [
            each.message
            for link in self.receivers.values()
            if link.waits
            for line in link.waiting.values()
            for each in line
        ]
        waiting += [each.forwarding.message for at in self.copying for each in at.copies]
        return min((each.chunks[0] for each in waiting if each.chunks), default=0)

    def add(self, link: SendingLink | ReceivingLink) -> None:
        """Add a link."""
        if isinstance(link, ReceivingLink):
            self.receivers[link.id] = link
            link.address.join(link)
        else:
            self.senders[link.id] = link
            if link.address is not None:
                link.address.senders[link.id] = link
        self.of_connection.setdefault(link.connection_id, {})[link.id] = link

    def remove(self, link: SendingLink | ReceivingLink) -> None:
        """Remove a link, and its address with the last one."""
        if isinstance(link, ReceivingLink):
            del self.receivers[link.id]
            link.address.leave(link)
        else:
            del self.senders[link.id]
            if link.address is not None:
                del link.address.senders[link.id]
        address = link.address
        if address is not None and not address.is_used:
            self._forget(address)
        links = self.of_connection[link.connection_id]
        del links[link.id]
        if not links:
            del self.of_connection[link.connection_id]
            self.holders.pop(link.connection_id, None)

    def _forget(self, address: DirectAddress) -> None:
        root = address.root
        root.later.pop(address.phase, None)
        if not root.is_used:
            del self.addresses[root.name]

    def settle_by_message(self, link: ReceivingLink) -> None:
        """Let `holders` find a receiver by what it has to settle."""
        link.holders = self.holders.setdefault(link.connection_id, {})

    def receivers_of(self, connection: int) -> Iterator[ReceivingLink]:
        """Iterate over the receivers of a connection for which messages wait, those with the
        highest priority first."""
        found = [
            link
            for link in self.of_connection.get(connection, {}).values()
            if isinstance(link, ReceivingLink) and (link.waits or link.drains)
        ]
        found.sort(key=lambda link: PRIORITIES - link.first_priority)
        return iter(found)
