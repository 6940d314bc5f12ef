"""Which broker decided an event: the level and epoch that its BrokerStarted records (ADR 81).

Rules grow. An event is asked only for the rules that its own broker had, so the decisions of an
older release stay allowed. To change the engine in a way that an older event does not satisfy, add
a row to `CHANGES` and ask `context.has(CHANGE)` in the rule. Must never know what a rule says.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from daybook.engine.facts import details, events
from daybook.history.event_finder import EventFinder
from daybook.history.search import Clause, Search
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import open_segment, segment_names

UNKNOWN: Final = 0
"""The level of brokers from before there were levels."""
_STARTS: Final = frozenset((events.BROKER_STARTED,))


class Change(NamedTuple):
    """A rule that brokers follow from a level on, and what older ones did instead."""

    level: int
    rule: str
    before: str


RETURNED_FLAG: Final = Change(
    3, "facts", "returns of deliveries did not all repeat that the message was delivered before"
)
ORIGINS: Final = Change(
    4, "copy", "copies of dead letters and expired messages had fewer headers, and no `origin`"
)
BASIS: Final = Change(
    6,
    "dropped",
    "no event had the basis of a decision: the request of a sender, how full something was, "
    "the headers that a filter read",
)
ENTERS_ASIDE: Final = Change(
    7, "schedule", "an event for each queue, behind Routed, set aside what its sender scheduled"
)
RETAINED: Final = Change(
    11, "history", "no event said which of the messages of before had been retained for a queue"
)
STORED: Final = Change(
    13,
    "forwarded",
    "no message to a direct address said which one of a queue it was, or how long what is not "
    "journaled of it",
)
CHANGES: Final = (RETURNED_FLAG, ORIGINS, BASIS, ENTERS_ASIDE, RETAINED, STORED)


class Decider(NamedTuple):
    """The broker that decided an event: its level, the epoch in which it led a cluster (0 outside
    of one), the event of its start, and its node in the cluster; 0 and "" for what is not known."""

    level: int = UNKNOWN
    epoch: int = 0
    start: int = 0
    node: str = ""


NOBODY: Final = Decider()


def decider_of(lsn: int, detail: bytes) -> Decider:
    """Return the broker that a BrokerStarted with this detail is of."""
    if not detail:
        return Decider(start=lsn)
    decoded = cast(details.BrokerStartedDetail, events.decode_detail(events.BROKER_STARTED, detail))
    return Decider(decoded.level, decoded.epoch, lsn, decoded.node)


def deciders_at(disk: Disk, lsns: Sequence[int]) -> list[Decider]:
    """Return the brokers that had decided last by these events, in ascending order.

    Where the journal begins later than its broker, its level is that of the segment, which its
    broker knew at least. Raises JournalError.
    """
    found: list[Decider] = []
    finder, reached, decider = EventFinder(disk), 0, NOBODY
    for lsn in lsns:
        starts = Search(Clause(_STARTS), from_lsn=reached + 1, to_lsn=lsn)
        newest = next(finder.find_back(starts), None)
        if newest is not None:
            decider = decider_of(newest.lsn, newest.detail)
        elif not reached and lsn:
            decider = Decider(_level_of_segment(disk, lsn))
        found.append(decider)
        reached = lsn
    return found


def _level_of_segment(disk: Disk, lsn: int) -> int:
    """Return the level of the segment that has an event, UNKNOWN if none has it."""
    names = [name for name in segment_names(disk) if (segment_first_lsn(name) or 0) <= lsn]
    if not names:
        return UNKNOWN
    segment = open_segment(disk, names[-1])
    try:
        return segment.header.level
    finally:
        segment.close()
