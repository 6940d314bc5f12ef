"""An oracle of direct addresses: the outcomes that a sender may hear, by those of its receivers.

The table of 12.1.1.4 says which of several outcomes counts. The last bytes of a client
may be lost with its connection, and so may those of the broker: then several answers are right.
Knows clients alone, and nothing of the broker but which messages entered a queue.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tests.simulation.judges.facts import Facts
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link

RANKS: Final = {"released": 0, "modified": 1, "failed": 2, "accepted": 3, "rejected": 4}
"""Outcomes by their strength; "failed" is modified with delivery-failed, which is in doubt, too."""
NOTHING: Final = -1
FALLING_BACK: Final = "direct.safe"
MULTICAST: Final = "direct.all"
TRANSIENT: Final = ("direct.one", "direct.near", "direct.first", MULTICAST)
PLACES: Final = (*TRANSIENT, FALLING_BACK)


def is_ending(link: Link) -> bool:
    """Whether the broker ends a connection."""
    is_closing = link.peer is not None and bool(link.peer.session.closing)
    is_stopping = link.hub is not None and bool(link.hub.stopping)
    return link.broker_gone or link.close_at > 0 or is_closing or is_stopping


def is_behind(link: Link) -> bool:
    """Whether something is on its way between a client and the broker, or stays there."""
    return bool(link.to_broker or link.to_client) or link.stalled or not link.reading


class Receiving(msgspec.Struct, eq=False):
    """A link or subscription that receives. It settles nothing if it `is_automatic`. It is over
    when its client ended it or lost it, and `is_confirmed` when the client heard that it is. Where
    `reads_failed` it may end for that."""

    number: int
    address: str
    link: Link
    is_automatic: bool
    reads_failed: Callable[[], bool]
    is_over: bool = False
    is_lost: bool = False
    is_confirmed: bool = False
    credit: int = 0
    newest: dict[tuple[int, int, int], int] = {}

    @property
    def is_cut(self) -> bool:
        """Whether the broker may have ended it, or never read what it said last."""
        return self.is_lost or is_ending(self.link) or self.reads_failed()

    @property
    def has_ended(self) -> bool:
        """Whether it may have ended."""
        return self.is_over or self.is_cut

    @property
    def is_gone(self) -> bool:
        """Whether the broker gives it nothing any more, for sure."""
        return self.link.broker_gone or (self.is_over and self.is_confirmed)


class Copy(msgspec.Struct, eq=False):
    """A message that a receiver got, and its outcome, "" as long as there is none."""

    receiving: Receiving
    said: str = ""

    def ends(self) -> set[int]:
        """Return how it may have ended, by rank; nothing if it cannot have."""
        receiving = self.receiving
        if receiving.is_automatic:
            return {RANKS["accepted"]}
        found = {RANKS[self.said]} if self.said else set()
        if receiving.is_cut or (receiving.is_over and not self.said):
            found.add(RANKS["failed"])
        return found


class DirectSent(msgspec.Struct, eq=False):
    """A message to a direct address, which came by the link `sender` of a connection. Its client
    `hears` of the outcome; receivers in `gone` had ended before."""

    tag: int
    address: str
    link: Link
    sender: int
    priority: int
    hears: bool
    gone: frozenset[int]
    heard: str = ""
    is_lost: bool = False
    copies: list[Copy] = []


class DirectOracle:
    """All that clients of direct addresses sent, got and said."""

    def __init__(self, facts: Facts, reads_failed: Callable[[], bool]) -> None:
        """`reads_failed` says that the broker may have failed to read a body, which ends links."""
        self._reads_failed: Final = reads_failed
        # Those of a run, so that senders and receivers meet.
        self.places: list[str] = list(PLACES)
        self._facts: Final = facts
        self._sent: Final[dict[int, DirectSent]] = {}
        self._open: Final[dict[int, dict[int, DirectSent]]] = {}
        self._receivings: Final[dict[str, dict[int, Receiving]]] = {each: {} for each in PLACES}
        self._numbers = 0

    # ---- receivers

    def attach(self, address: str, link: Link, *, is_automatic: bool) -> Receiving:
        """A client begins to receive."""
        self._numbers += 1
        found = Receiving(self._numbers, address, link, is_automatic, self._reads_failed)
        self._receivings[address][found.number] = found
        return found

    def got(self, receiving: Receiving, tag: int) -> Copy:
        """A client got a message."""
        sent = self._sent.get(tag)
        if sent is None or sent.address != receiving.address:
            raise Violation("direct", f"{receiving} got {tag}, which nobody sent there: {sent}")
        copy = Copy(receiving)
        if sent.address == FALLING_BACK:
            self._got_stored(sent, copy)
        else:
            self._got_new(sent, copy)
        sent.copies.append(copy)
        return copy

    def _got_new(self, sent: DirectSent, copy: Copy) -> None:
        receiving = copy.receiving
        if any(each.receiving is receiving for each in sent.copies):
            raise Violation("direct", f"{receiving} got {sent.tag} twice")
        if sent.copies and sent.address != MULTICAST:
            raise Violation("direct", f"several got {sent.tag}: {sent.copies}, {receiving}")
        if sent.heard and not (receiving.has_ended or receiving.is_automatic):
            raise Violation("direct", f"{receiving} got {sent.tag} after all had ended: {sent}")
        stream = sent.link.serial, sent.sender, sent.priority
        if receiving.newest.get(stream, 0) > sent.tag:
            raise Violation("direct", f"{receiving} got {sent.tag} behind {receiving.newest}")
        receiving.newest[stream] = sent.tag

    def _got_stored(self, sent: DirectSent, copy: Copy) -> None:
        # What arrives late was given back before others got it.
        for each in sent.copies if not copy.receiving.has_ended else ():
            if not (each.receiving.has_ended or each.said or each.receiving.is_automatic):
                raise Violation("direct", f"{sent.tag} is at two receivers: {each}, {copy}")

    def over(self, receiving: Receiving, *, is_lost: bool = False) -> None:
        """A client ends a link, or has lost it."""
        receiving.is_over = True
        receiving.is_lost = receiving.is_lost or is_lost

    def taken(self, tag: int) -> bool:
        """Whether a receiver may have accepted a message, so that its queue may be without it."""
        sent = self._sent.get(tag)
        if sent is None:
            return False
        has_taken = any(each.said == "accepted" for each in sent.copies)
        receivings = self._receivings[sent.address].values()
        return has_taken or any(each.is_automatic for each in receivings)

    # ---- senders

    def send(
        self, tag: int, address: str, link: Link, sender: int, priority: int, *, hears: bool
    ) -> DirectSent:
        """A client sends a message."""
        known = self._receivings[address].values()
        gone = frozenset(each.number for each in known if each.is_gone)
        sent = DirectSent(tag, address, link, sender, priority, hears, gone)
        self._sent[tag] = sent
        if hears:
            self._open.setdefault(link.serial, {})[tag] = sent
        return sent

    def hear(self, tag: int, link: Link, outcome: str) -> None:
        """A client hears how its message ended."""
        sent = self._sent[tag]
        if not sent.hears or sent.heard:
            raise Violation("direct", f"{link.serial} hears {outcome} of {sent}")
        sent.heard = outcome
        self._open.get(link.serial, {}).pop(tag, None)
        possible = self._possible(sent)
        if RANKS[outcome] not in possible:
            names = [name for name, rank in RANKS.items() if rank in possible]
            raise Violation("direct", f"{link.serial} hears {outcome}, and not {names}: {sent}")

    def refused(self, tag: int, link: Link, why: str) -> None:
        """A client hears that the broker itself takes no message now."""
        sent = self._sent[tag]
        if sent.heard or sent.copies or tag in self._facts.routed:
            raise Violation("direct", f"{sent} is refused, and somebody has it: {why}")
        sent.heard = "refused"
        self._open.get(link.serial, {}).pop(tag, None)

    def sender_lost(self, link: Link) -> None:
        """A client is gone, and hears nothing any more."""
        for sent in self._open.pop(link.serial, {}).values():
            sent.is_lost = True

    def link_lost(self, link: Link, sender: int) -> None:
        """A client has ended a link to send by, and hears nothing of its messages any more."""
        known = self._open.get(link.serial, {})
        for tag in [tag for tag, each in known.items() if each.sender == sender]:
            known.pop(tag).is_lost = True

    def is_stored(self, tag: int) -> bool:
        """Whether a queue has had a message, durably."""
        return tag in self._facts.routed

    def _possible(self, sent: DirectSent) -> set[int]:
        """Return the outcomes that the sender may hear now, by rank."""
        if sent.tag in self._facts.routed:
            return {RANKS["accepted"]}
        found = {NOTHING}
        for copy in sent.copies:
            found = _strongest(found, copy.ends())
        seen = {each.receiving.number for each in sent.copies}
        for receiving in self._receivings[sent.address].values():
            if receiving.number in sent.gone or receiving.number in seen:
                continue
            if receiving.is_automatic:
                found = _strongest(found, {NOTHING, RANKS["accepted"]})
            elif receiving.has_ended:
                found = _strongest(found, {NOTHING, RANKS["failed"]})
        return {RANKS["released"] if each == NOTHING else each for each in found}

    # ---- at rest

    def check_rest(self, credits: Iterable[tuple[Link, str, int]]) -> int:
        """Check, when nothing is under way in the broker, that all senders have heard that can
        have; and that credit is where somebody receives. Return how many were judged: addresses
        where a word is still on its way are left out."""
        left_out = {
            each.address
            for each in self._all()
            if not each.is_gone and (each.is_over or is_ending(each.link) or is_behind(each.link))
        }
        there = {
            address: [each for each in known.values() if not (each.is_over or each.is_gone)]
            for address, known in self._receivings.items()
        }
        count = 0
        for link, address, credit in credits:
            if address in left_out or is_ending(link) or is_behind(link):
                continue
            count += 1
            if address in TRANSIENT and credit and not there[address]:
                raise Violation("direct", f"{link.serial} has credit, and nobody is at {address}")
            if there.get(address) and not (credit or self._open.get(link.serial)):
                raise Violation("direct", f"{link.serial} has no credit for {address}")
        for sent in self._awaited(there):
            if sent.address in left_out or is_ending(sent.link) or is_behind(sent.link):
                continue
            raise Violation("direct", f"nobody hears of {sent}")
        return count

    def _awaited(self, there: dict[str, list[Receiving]]) -> Iterable[DirectSent]:
        """Return the messages whose end their senders must have heard, with these receivers."""
        waiting = {
            copy.receiving.number
            for sent in self._sent.values()
            for copy in sent.copies
            if not (copy.said or copy.receiving.is_over or copy.receiving.is_automatic)
        }
        unheard = [each for known in self._open.values() for each in known.values()]
        # A message for the queue of an address waits if that is full, or for the disk; with it
        # all that the same connection of STOMP sends.
        stuck = {
            sent.link.serial
            for sent in unheard
            if sent.address == FALLING_BACK and not there[sent.address]
        }
        return (
            sent
            for sent in unheard
            if sent.link.serial not in stuck
            and all(each.credit > 0 and each.number not in waiting for each in there[sent.address])
        )

    def _all(self) -> Iterable[Receiving]:
        return (each for known in self._receivings.values() for each in known.values())


def _strongest(first: set[int], second: set[int]) -> set[int]:
    return {max(one, other) for one in first for other in second}
