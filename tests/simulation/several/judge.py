"""The judge of several brokers: an account that clients alone keep.

It knows what each sender sent and heard, what each receiver got and said, and by which name a
store had it: the newest stop of its trace, or the broker and message number of the receiver's own
queue. Knows nothing of brokers, links between them, or faults.
"""

from typing import Final

import msgspec

from tests.simulation.judges.direct_oracle import is_ending
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link
from tests.simulation.several.scenes import Scene

ACCEPTED: Final = "accepted"
RELEASED: Final = "released"
MODIFIED: Final = "modified"
UNKNOWN: Final = 0


class Sent(msgspec.Struct, eq=False):
    """A message, and what its sender heard of it; "" for nothing."""

    tag: int
    sender: int
    group: str
    heard: str = ""


class Stored(msgspec.Struct, frozen=True, order=True):
    """A message as a store has it: the id of the store, and the number there, UNKNOWN if the queue
    or the sender of a broker hands it to a receiver there by a direct address."""

    store: str
    number: int


class Judge:
    """What all clients of a run did."""

    def __init__(self, scene: Scene) -> None:
        self._scene: Final = scene
        self.sent: Final[dict[int, Sent]] = {}
        self.got: Final[dict[int, Stored]] = {}
        self.taken: Final[set[int]] = set()
        # Messages that a receiver did not accept: if it got one from its sender, that hears of it.
        self._given_back: Final[set[int]] = set()
        # The connections on which messages were accepted.
        self._taken_by: Final[dict[int, Link]] = {}

    @property
    def is_of_receiver(self) -> bool:
        """Whether the store of a message is the broker that its receiver speaks to."""
        return self._scene.keeps

    def send(self, sender: int, group: str) -> Sent:
        """A client sends a message."""
        sent = Sent(len(self.sent) + 1, sender, group)
        self.sent[sent.tag] = sent
        return sent

    def hear(self, tag: int, outcome: str) -> None:
        """A sender hears what became of its message."""
        sent = self.sent[tag]
        if sent.heard:
            raise Violation("several", f"{sent} has ended twice, now as {outcome}")
        if outcome not in (ACCEPTED, RELEASED, MODIFIED):
            raise Violation("several", f"{sent} was {outcome}, for which there is no reason")
        sent.heard = outcome
        if outcome == RELEASED and tag in self.got and tag not in self._given_back:
            raise Violation("several", f"nobody got {sent}, and somebody has: {self.got[tag]}")

    def get(self, tag: int, stored: Stored, *, is_late: bool = False) -> None:
        """A receiver gets a message; one that `is_late` has ended already, so the message may have
        been given to another one while it was on its way."""
        sent = self.sent.get(tag)
        if sent is None:
            raise Violation("several", f"nobody sent {tag}")
        if sent.heard == RELEASED:
            raise Violation("several", f"nobody got {sent}, and somebody gets it: {stored}")
        before = self.got.setdefault(tag, stored)
        if before != stored:
            raise Violation("several", f"{sent} was stored twice: as {before}, and as {stored}")
        by = self._taken_by.get(tag)
        if by is not None and not (is_late or by.client_gone or is_ending(by)):
            raise Violation("several", f"{sent} was accepted, and comes again: {stored}")

    def take(self, tag: int, by: Link) -> None:
        """A receiver accepts a message."""
        self.taken.add(tag)
        if self._scene.keeps:
            self._taken_by[tag] = by

    def give_back(self, tag: int) -> None:
        """A receiver does not accept a message."""
        self._given_back.add(tag)

    @property
    def owed(self) -> list[Sent]:
        """The messages that were promised to be stored, and that nobody has taken."""
        return [
            each
            for each in self.sent.values()
            if each.heard == ACCEPTED and each.tag not in self.taken
        ]

    def check_end(self) -> None:
        """Check, when all queues are empty, that nothing is lost, and that order was kept."""
        if self.owed:
            raise Violation("several", f"nobody got what was accepted: {self.owed[:5]}")
        if self._scene.is_grouped:
            self._check_order()

    def _check_order(self) -> None:
        newest: dict[tuple[int, str], tuple[Sent, Stored]] = {}
        for tag, sent in self.sent.items():
            # One in doubt may have been late.
            if sent.heard != ACCEPTED or not sent.group:
                continue
            stored = self.got[tag]
            before = newest.get((sent.sender, sent.group))
            newest[sent.sender, sent.group] = sent, stored
            if before is None:
                continue
            if before[1].store != stored.store:
                raise Violation("several", f"one group has two stores: {before}, {sent}, {stored}")
            if UNKNOWN not in (before[1].number, stored.number) and before[1] > stored:
                raise Violation("several", f"the order is lost: {before}, {sent}, {stored}")
