"""Comparing journals: a message that another broker accepted must be in its journal, and once.

Each journal is read once. Messages to direct addresses may come twice, as their senders decide.
Must never know how messages are sent from broker to broker.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from daybook.engine.facts import events, reasons
from daybook.engine.facts.events import CONSUMER, KIND, MESSAGE, QUEUE, REASON
from daybook.engine.facts.kinds import (
    ENDING_A_DELIVERY,
    LEAVING,
    OF_LINKS,
    SAYING_CAME_FROM,
    TAKING,
    changing,
)
from daybook.engine.facts.life import BEGINS
from daybook.engine.facts.life import CONSUMER as CONSUMERS
from daybook.history.brokers.journals import Journal, Stop, arrival, by_id, traced_link
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.texts import counted

_KINDS: Final = (
    SAYING_CAME_FROM
    | OF_LINKS
    | TAKING
    | (ENDING_A_DELIVERY & LEAVING)
    | changing({CONSUMERS}, {BEGINS})
)
LISTED_MAX: Final = 5
"""How many events a finding names."""


class Finding(NamedTuple):
    """A message that two journals contradict each other about: LOST, TWICE or UNSENT, in which
    journal, by which event there."""

    rule: str
    journal: Journal
    lsn: int
    text: str


LOST: Final = "lost"
TWICE: Final = "twice"
UNSENT: Final = "unsent"


class Exchanges(NamedTuple):
    """The result: how many messages came from one of the journals into another, the faults, and
    notes on what could not be compared."""

    arrived: int
    findings: list[Finding]
    notes: list[str]


class Accepted(NamedTuple):
    """A delivery that another broker accepted, by the event that says so, and the link."""

    lsn: int
    link: str


class _Side:
    """One journal's account of its messages, by id: the queues from which they were delivered to
    other brokers, and which of them accepted them; and the direct messages that it forwarded."""

    def __init__(self, journal: Journal) -> None:
        self.journal: Final = journal
        self.links: Final[dict[int, str]] = {}
        self.delivered: Final[defaultdict[int, set[int]]] = defaultdict(set)
        self.accepted: Final[defaultdict[Stop, list[Accepted]]] = defaultdict(list)
        self.forwarded: Final[set[int]] = set()

    @property
    def is_whole(self) -> bool:
        """Whether the journal has its beginning."""
        return self.journal.first_lsn == 1

    def take(self, event: Event) -> None:
        """Take the next event."""
        row, kind = event.row, event.row[KIND]
        begun = traced_link(event)
        if begun is not None:
            self.links[row[CONSUMER]] = begun
        elif kind == events.FORWARDED:
            self.forwarded.add(row[MESSAGE])
        elif row[CONSUMER] in self.links:
            self._take_of_link(event)

    def _take_of_link(self, event: Event) -> None:
        """Take a delivery to another broker, or the end of one."""
        row, kind = event.row, event.row[KIND]
        accepted = Accepted(event.lsn, self.links[row[CONSUMER]])
        if kind in TAKING:
            self.delivered[row[MESSAGE]].add(row[QUEUE])
        elif kind == events.ACKNOWLEDGED:
            self.accepted[Stop(self.journal.data_id, row[MESSAGE], True)].append(accepted)
        elif kind == events.FORWARD_SETTLED and row[REASON] == reasons.BY_CONSUMER:
            self.accepted[Stop(self.journal.data_id, row[MESSAGE], False)].append(accepted)


class Arrived(NamedTuple):
    """An event by which a message came; to a direct address it may come again, if nobody there
    accepted it."""

    journal: Journal
    lsn: int
    is_direct: bool


def compare(
    journals: Sequence[Journal], advance: Callable[[int], None] = lambda count: None
) -> Exchanges:
    """Compare all of them; `advance` is called with numbers of events that were read. Raises
    SameBrokerError, JournalError."""
    known = by_id(journals)
    arrived: defaultdict[Stop, list[Arrived]] = defaultdict(list)
    sides = {}
    for journal in journals:
        side = sides[journal.data_id] = _Side(journal)
        last = 0
        for event in journal.finder.find(Search(Clause(_KINDS))):
            side.take(event)
            stop = arrival(event)
            if stop is not None and event.row[REASON] != reasons.DUPLICATE:
                is_direct = event.row[KIND] == events.FORWARDED
                arrived[stop].append(Arrived(journal, event.lsn, is_direct))
            advance(event.lsn - last)
            last = event.lsn
    findings: list[Finding] = []
    notes: list[str] = []
    is_whole = all(each.is_whole for each in sides.values())
    if not is_whole:
        notes.append(
            "a journal does not have its beginning, so a message that is missing may have been in"
            " what was removed: --with-archive takes it along"
        )
    for side in sides.values():
        for found in _lost(side, arrived):
            if isinstance(found, str):
                notes.append(found)
            elif is_whole:
                findings.append(found)
    foreign: Counter[str] = Counter()
    for stop, came in arrived.items():
        sender = known.get(stop.data_id)
        if sender is None:
            foreign[stop.data_id] += len(came)
        else:
            findings += _wrong(sides[sender.data_id], stop, came)
    for data_id, count in foreign.items():
        notes.append(
            f"{counted(count, 'message')} came from the data directory {data_id}, which was not"
            " named"
        )
    total = sum(map(len, arrived.values())) - foreign.total()
    return Exchanges(total, findings, notes)


def _lost(side: _Side, arrived: dict[Stop, list[Arrived]]) -> Iterator[Finding | str]:
    """Yield what was accepted and is nowhere; of links by which nothing came to any journal, only
    that one is missing."""
    journal = side.journal
    leading: set[str] = set()
    gone: list[tuple[int, Accepted]] = []
    for stop, accepted in side.accepted.items():
        count = len(arrived.get(stop, ()))
        if count:
            leading |= {each.link for each in accepted}
        gone += [(stop.message, each) for each in accepted[count:]]
    elsewhere = Counter(each.link for _, each in gone if each.link not in leading)
    for link, number in elsewhere.items():
        yield (
            f"link '{link}' of {journal.path} leads to a broker whose journal was not named:"
            f" {counted(number, 'message')} went there"
        )
    for message, each in gone:
        if each.link in leading:
            text = (
                f"message {message} of {journal.path} was accepted at link '{each.link}' (event"
                f" {each.lsn}), and no journal has it"
            )
            yield Finding(LOST, journal, each.lsn, text)


def _wrong(side: _Side, stop: Stop, came: list[Arrived]) -> Iterator[Finding]:
    """Yield the faults of the arrivals of a message."""
    where = f"message {stop.message} of {side.journal.path}"
    first = came[0]
    queues = side.delivered.get(stop.message, ())
    has_left = bool(queues)
    if not stop.is_stored:
        # Numbers that no event has are those of messages that were not journaled.
        has_left = not side.forwarded or stop.message in side.forwarded
    if not has_left:
        if side.is_whole:
            text = f"{where} came to {first.journal.path}, and never left"
            yield Finding(UNSENT, first.journal, first.lsn, text)
        return
    kept = [each for each in came if not each.is_direct]
    if stop.is_stored and len(kept) > len(queues):
        listed = ", ".join(f"{each.lsn} in {each.journal.path}" for each in kept[:LISTED_MAX])
        text = f"{where} left {counted(len(queues), 'queue')}, and came {len(kept)} times: {listed}"
        surplus = kept[len(queues)]
        yield Finding(TWICE, surplus.journal, surplus.lsn, text)
