"""Message groups whose consumers follow from their names: consistent hashing (ADR 62).

A group belongs to the consumer of the highest priority that wants the message, and among these to
the one with the highest score, which is a hash of the group and of the consumer's id. So a consumer
that comes takes its share of the groups from all others, one that leaves gives its share to all
others, and no other group changes its consumer. Idle groups need no memory: only those with
messages in flight are known. Such a group waits before it goes to another consumer. Volatile, as
`engine.queues.groups`. Must never know when the engine delivers.
"""

from typing import Final

from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import Taker
from daybook.engine.queues.groups import Asking, GroupCount, Grouping, look_again

REMEMBERED_MAX: Final = 4096
"""For how many groups a queue remembers which consumer it chose, so as not to choose again."""
_GOLDEN: Final = 0x9E3779B97F4A7C15
_FACTOR_1: Final = 0xBF58476D1CE4E5B9
_FACTOR_2: Final = 0x94D049BB133111EB
_MASK: Final = (1 << 64) - 1


class HashedGroups(Grouping):
    """The groups of one queue that have messages in flight: `bound` says with which consumer.

    `consumers` is the queue's own list, which changes as they come and leave.
    """

    __slots__ = (
        "_chosen",
        "_consumers",
        "_counts",
        "_earliest",
        "_expected",
        "_expected_key",
        "_expected_name",
        "_flights",
        "_met",
        "_waiting",
    )  # fmt: skip

    def __init__(self, count: GroupCount, buckets: int, consumers: list[Taker]) -> None:
        super().__init__(count, buckets)
        self._consumers: Final = consumers
        # Which consumer comes first for a group; which groups a consumer had a message of.
        self._chosen: dict[int, Taker] = {}
        self._met: set[int] = set()
        # The group of each message in flight, and how many of each group are in flight.
        self._flights: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        # The message that is about to be delivered, and its group.
        self._expected: int = 0
        self._expected_key: int = -1
        self._expected_name: str = ""
        # By group and priority, the first message that waits until the group is not in flight.
        self._waiting: dict[int, dict[int, int]] = {}
        # By priority, the first message that was passed over since consumers came or left.
        self._earliest: dict[int, int] = {}

    def choose(self, key: int, message: Message, passes: Asking) -> Taker | None:
        """Return the consumer to which a message of a group belongs; None if nobody wants it."""
        chosen = self._chosen.get(key)
        if chosen is None:
            chosen = self._best(key, None, passes)
            if chosen is None:
                return None
            if len(self._chosen) >= REMEMBERED_MAX:
                self._chosen.clear()
            self._chosen[key] = chosen
        if chosen.matcher is None or passes(chosen.matcher, message):
            return chosen
        return self._best(key, message, passes)

    def _best(self, key: int, message: Message | None, passes: Asking) -> Taker | None:
        """Return the first consumer for a group, or of those that want a message of it."""
        best: Taker | None = None
        highest = -1
        for consumer in self._consumers:
            if best is not None and consumer.priority < best.priority:
                continue
            matcher = consumer.matcher
            if message is not None and matcher is not None and not passes(matcher, message):
                continue
            score = score_of(key, consumer.id)
            if best is None or consumer.priority > best.priority or score > highest:
                best, highest = consumer, score
        return best

    def has_to_wait(self, key: int, consumer: Taker) -> bool:
        """Whether a group has messages in flight with another consumer, or messages that wait for
        that."""
        return self.bound.get(key, consumer) is not consumer or key in self._waiting

    def wait(self, key: int, priority: int, position: int) -> None:
        """Note a message that waits until nothing of its group is in flight."""
        places = self._waiting.setdefault(key, {})
        if position < places.get(priority, position + 1):
            places[priority] = position
        self.pass_over(priority, position)

    def pass_over(self, priority: int, position: int) -> None:
        """Note a message that its consumer cannot take now, and others passed over."""
        if position < self._earliest.get(priority, position + 1):
            self._earliest[priority] = position

    def is_met(self, key: int) -> bool:
        """Whether the consumer of a group had a message of it; from here on it is."""
        if key in self._met:
            return True
        if len(self._met) >= REMEMBERED_MAX:
            self._met.clear()
        self._met.add(key)
        return False

    def expect(self, message: int, key: int, name: str) -> None:
        """Note that the next delivery is of this message, of this group."""
        self._expected = message
        self._expected_key = key
        self._expected_name = name

    def take_off(self, consumer: Taker, message: int) -> None:
        """Note a delivery, if it is the expected one: others are of no group."""
        if message != self._expected:
            return
        self._expected = 0
        key = self._expected_key
        self._flights[message] = key
        self._counts[key] = self._counts.get(key, 0) + 1
        self._count.flying += 1
        if key not in self.bound:
            self.bound[key] = consumer
            self.name_key(key, self._expected_name)

    def land(self, message: int) -> None:
        """Note the end of a delivery. After the last one of its group, what waited may go."""
        key = self._flights.pop(message, -1)
        if key < 0:
            return
        self._count.flying -= 1
        self._counts[key] -= 1
        if self._counts[key]:
            return
        del self._counts[key]
        del self.bound[key]
        self.names.pop(key, None)
        for priority, position in self._waiting.pop(key, {}).items():
            look_again(self._consumers, priority, position)

    def change(self) -> None:
        """Choose again for all groups, because the consumers of the queue are others now."""
        self._chosen.clear()
        self._met.clear()
        self._waiting.clear()
        for priority, position in self._earliest.items():
            look_again(self._consumers, priority, position)
        self._earliest.clear()

    def leave(self, consumer: Taker, consumers: list[Taker]) -> None:
        """Give the groups of a consumer that left to these others."""
        if consumers:
            self.change()
        else:
            self.release_all(consumers)

    def release_all(self, consumers: list[Taker]) -> None:
        """Forget what is in flight; these consumers consider again what they passed over."""
        self._count.flying -= len(self._flights)
        self._flights.clear()
        self._counts.clear()
        self.bound.clear()
        self.names.clear()
        self.change()


def score_of(key: int, number: int) -> int:
    """Return the score of a consumer for a group: a hash of both (the finalizer of SplitMix64)."""
    value = (key + number * _GOLDEN) & _MASK
    value = (value ^ value >> 30) * _FACTOR_1 & _MASK
    value = (value ^ value >> 27) * _FACTOR_2 & _MASK
    return value ^ value >> 31
