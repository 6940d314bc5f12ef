"""Message groups: which consumer has which group of a queue (ADR 48).

All messages of a group go to one consumer, in order, as long as it is attached. Volatile, like
everything about consumers: it affects later decisions, and each decision is an event. The hash of a
group's name stands for it, and only so many groups are known each by itself, so that the memory is
bounded whatever names clients choose. This is the rule by which consumers get new groups in turn;
`engine.queues.hashed_groups` is the other one. Must never know how the consumer of a new group is
chosen.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeAlias

from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.limits.pools import GROUPS, Charges
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.message import PRIORITIES, Filter, Message
from daybook.engine.queues.entry import Taker

KNOWN_PER_QUEUE_MAX: Final = 20_000
"""How many groups of one queue are known each by itself, besides the limits of `pools.GROUPS`;
further groups of the queue share SHARED places."""
SHARED: Final = 64
KEY_BYTES: Final = 7
"""The part of the hash of a name that stands for it; it fits into a signed integer of 64 bits."""
NAME_CHARACTERS_MAX: Final = 64
"""How much of the name of a group is kept, for administrators only."""
KEY_MAX: Final = (1 << 8 * KEY_BYTES) - 1
SEQUENCES: Final = ("JMSXGroupSeq", "_AMQ_GROUP_SEQUENCE")
"""Properties with the number of a message in its group; a negative one closes the group."""
HASH_FACTOR: Final = 0xBF58476D1CE4E5B9


Asking: TypeAlias = Callable[[Filter, Message], bool]
"""Says whether a message passes a filter (`Core.passes`)."""


class GroupCount:
    """How many groups all queues know, and those of each user and connection that consume them; and
    how many messages are in flight from queues that choose consumers by hashing."""

    __slots__ = ("charges", "flying", "known")

    def __init__(self) -> None:
        self.known: int = 0
        self.flying: int = 0
        self.charges: Charges = Charges()

    def bind(self, consumer: Taker) -> None:
        """Count a group that a consumer got."""
        self.known += 1
        self.charges.add(consumer.user, consumer.connection_id)

    def release(self, consumer: Taker, count: int = 1) -> None:
        """Stop counting groups that a consumer had."""
        self.known -= count
        self.charges.remove(consumer.user, consumer.connection_id, count)

    def is_full_for(self, consumer: Taker) -> bool:
        """Whether a consumer gets no further group that is known by itself."""
        user, connection = consumer.user, consumer.connection_id
        used = *self.charges.of(user, connection), self.known
        return GROUPS.refusal(used, 1, user) is not None


class Grouping:
    """What any rule of groups says about one queue.

    `bound` has the consumer by the key of a group, and `names` the beginnings of the names of
    groups with a key of their own. `pauses` says that nothing is delivered until what is in flight
    is settled.
    """

    __slots__ = ("_count", "bound", "buckets", "names", "pauses")

    def __init__(self, count: GroupCount, buckets: int) -> None:
        # `group-buckets` of the queue when its groups were bound.
        self.buckets: int = buckets
        self.bound: dict[int, Taker] = {}
        self.names: dict[int, str] = {}
        self.pauses: bool = False
        self._count: GroupCount = count

    def name_key(self, key: int, name: str) -> None:
        """Keep the beginning of the name of a group, unless it shares its key with others."""
        if key >= 0 and self.buckets <= 0 and name:
            self.names[key] = name[:NAME_CHARACTERS_MAX]

    def leave(self, consumer: Taker, consumers: list[Taker]) -> None:
        """Release the groups of a consumer that left these others, and has nothing in flight."""
        raise NotImplementedError

    def release_all(self, consumers: list[Taker]) -> None:
        """Release all groups: these consumers consider again what they passed over."""
        raise NotImplementedError


class Groups(Grouping):
    """The groups of one queue whose consumers get new ones in turn.

    A negative key is a place that several groups share; once one was needed, no group gets a place
    of its own any more, or its messages could be with two consumers.
    """

    __slots__ = ("_is_full", "_skipped")

    def __init__(self, count: GroupCount, buckets: int) -> None:
        super().__init__(count, buckets)
        self._is_full: bool = False
        # The first position of messages that had to wait for their consumer, by key and priority.
        self._skipped: dict[tuple[int, int], int] = {}

    def find(self, key: int, message: Message, passes: Asking) -> tuple[int, Taker | None]:
        """Return the consumer that a message of a group must go to, None if any may have it, and
        the key by which to bind it.

        If the group's consumer does not want the message because of its filter, another one has
        the messages that it does not want.
        """
        while True:
            consumer = self.bound.get(key)
            if consumer is None and self._is_full and key >= 0:
                key = -1 - key % SHARED
                consumer = self.bound.get(key)
            if consumer is None:
                return key, None
            if consumer.matcher is None or passes(consumer.matcher, message):
                return key, consumer
            key = mixed(key, consumer.id)

    def bind(self, key: int, consumer: Taker, is_short: bool, name: str = "") -> None:
        """Give a group to a consumer; `is_short` says that there is no memory for more groups."""
        count = self._count
        if key >= 0 and not self._is_full:
            no_place = len(self.bound) >= KNOWN_PER_QUEUE_MAX or count.is_full_for(consumer)
            self._is_full = is_short or no_place
            if self._is_full:
                key = -1 - key % SHARED
        if key not in self.bound:
            count.bind(consumer)
            self.bound[key] = consumer
            self.name_key(key, name)

    def skip(self, key: int, priority: int, position: int) -> None:
        """Note that a message waits for the consumer of its group, and others passed over it."""
        place = key, priority
        if position < self._skipped.get(place, position + 1):
            self._skipped[place] = position

    def release(self, key: int, consumers: list[Taker]) -> None:
        """Release a group: its next message may go to any of these consumers."""
        consumer = self.bound.pop(key, None)
        if consumer is not None:
            self._count.release(consumer)
            self.names.pop(key, None)
        if not self._skipped:
            return
        for priority in range(PRIORITIES):
            position = self._skipped.pop((key, priority), 0)
            if position:
                look_again(consumers, priority, position)

    def release_all(self, consumers: list[Taker]) -> None:
        """Release all groups."""
        for consumer, count in Counter(self.bound.values()).items():
            self._count.release(consumer, count)
        self.bound.clear()
        self.names.clear()
        self._is_full = False
        for (_, priority), position in self._skipped.items():
            look_again(consumers, priority, position)
        self._skipped.clear()

    def places_of(self, key: int) -> list[int]:
        """Return the keys under which a group is bound: that of its name, or the place that it
        shares, and those of its messages that the consumer of these does not want."""
        found: list[int] = []
        for begin in (key, -1 - key % SHARED):
            place = begin
            while (consumer := self.bound.get(place)) is not None and place not in found:
                found.append(place)
                place = mixed(place, consumer.id)
        return found

    def leave(self, consumer: Taker, consumers: list[Taker]) -> None:
        """Release the groups of a consumer that left these others."""
        for key in [key for key, each in self.bound.items() if each is consumer]:
            self.release(key, consumers)


def look_again(consumers: list[Taker], priority: int, position: int) -> None:
    """Make consumers consider again what they passed over from a position on."""
    for consumer in consumers:
        if position <= consumer.passed.get(priority, 0):
            consumer.passed[priority] = position - 1


def mixed(key: int, number: int) -> int:
    """Return another key that follows from a key and a number."""
    value = (key ^ number) * HASH_FACTOR & (1 << 64) - 1
    return value >> 8 ^ value & KEY_MAX


def key_of(message: Message) -> int:
    """Return what stands for the group of a message, -1 if it has none. Its headers are
    resident."""
    name = name_of(message)
    return key_of_name(name) if name else -1


def name_of(message: Message) -> str:
    """Return the name of the group of a message, empty if it has none. Its headers are resident."""
    name = codec_of(message.flags).said(message.headers, "group_id")
    return str(name) if name else ""


def key_of_name(name: str) -> int:
    """Return the key of a group's name."""
    digest = sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:KEY_BYTES], "big")


def bucket_of(definition: QueueDefinition, message: Message) -> int:
    """Return the key by which a queue knows the group of a message, -1 if it is in none."""
    buckets = definition.group_buckets
    key = key_of(message) if buckets else -1
    return key % buckets if buckets > 0 and key >= 0 else key


def bucket_of_name(definition: QueueDefinition, name: str) -> int:
    """Return the key by which a queue knows a group; it must have message groups."""
    key = key_of_name(name)
    return key % definition.group_buckets if definition.group_buckets > 0 else key


def closes(message: Message) -> bool:
    """Whether a message is the last of its group."""
    codec = codec_of(message.flags)
    for name in SEQUENCES:
        value = codec.first(message.headers, name)
        if isinstance(value, int):
            return value < 0
        if isinstance(value, str):
            text = value.strip()
            return text.startswith("-") and text[1:].isdecimal() and text.strip("-0") != ""
    return False
