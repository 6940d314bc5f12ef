"""Choosing which events to show: filters by place in the journal, time, name, message and kind.

Names are learned from the topology events on the way, also from those before the first selected
event, so that a story that begins in the middle has all names. From the history before, only blocks
with such events are read, where footers show which these are.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from daybook.engine.facts import events
from daybook.engine.facts.events import (
    ADDRESS,
    BROKER_STARTED,
    BY_NAME,
    CONSUMER,
    KIND,
    LINK_ATTACHED,
    LINK_DETACHED,
    QUEUE,
    SKIPPED,
    TIME,
)
from daybook.engine.facts.kinds import NAMING, NAMING_DIRECT, OF_LINKS, TOPOLOGY
from daybook.history.event_finder import EventFinder
from daybook.history.forwards import AtDirect, address_of
from daybook.history.initial_state import EVERYTHING, beginning
from daybook.history.moments import newest_lsn
from daybook.history.names import NamedIds, Names, WithName
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.history.topology import NamesAsked, Topology
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import IndexDamaged

LAST_SPAN: Final = 4096
"""How many events before the end are asked first for the last ones."""
LAST_GROWTH: Final = 16
"""How many times as long the next span is."""
_SAYING: Final = frozenset(events.BY_NUMBER) - {SKIPPED}
"""The kinds of events that say something."""


class Question(msgspec.Struct, frozen=True):
    """The filters; None, "" and 0 mean no filter. Times are microseconds since 1970."""

    from_lsn: int = 1
    to_lsn: int | None = None
    since: int | None = None
    until: int | None = None
    address: str = ""
    queue: str = ""
    message: int = 0
    kinds: frozenset[int] = frozenset()
    connection: int = 0
    bodies: bool = False


def parse_kinds(names: tuple[str, ...]) -> frozenset[int]:
    """Return the numbers of kinds by name, in upper or lower case; ValueError with the right
    names."""
    by_name = {name.lower(): entry.number for name, entry in BY_NAME.items()}
    numbers = set()
    for name in names:
        number = by_name.get(name.lower())
        if number is None:
            close = get_close_matches(name.lower(), list(by_name), n=1)
            hint = f"did you mean {kind_called(by_name[close[0]])}?" if close else ""
            raise ValueError(
                f"there is no kind of event '{name}'; {hint or 'kinds: ' + ', '.join(BY_NAME)}"
            )
        numbers.add(number)
    return frozenset(numbers)


def kind_called(number: int) -> str:
    """Name of a kind that exists."""
    return events.BY_NUMBER[number].name


class NamesRead:
    """Names that are learned from all events about the topology, in the order of the journal."""

    def __init__(self) -> None:
        self.names: Final = Names()

    def meet(self, event: Event) -> None:
        """Learn of an event; call this before it is shown."""
        self.names.learn(event.row, event.detail)

    def forget(self, event: Event) -> None:
        """Drop what ends with an event; call this after it is shown."""
        self.names.forget(event.row)


class Inspection:
    """One search for the events of a question. `names` are as of the last event that was returned.

    With a `topology` names are looked up where they are met, and of the events about the topology
    only those are read that may have the name of the queue or address asked for, unless `ids` are
    known. Without one all names are read. Both begin with the event `known_lsn`, of which `known`
    gives the names.
    """

    def __init__(
        self,
        finder: EventFinder,
        question: Question,
        *,
        topology: Topology | None = None,
        known: Iterable[Event] = (),
        known_lsn: int = 0,
        ids: NamedIds | None = None,
    ) -> None:
        self.known_lsn = known_lsn
        self._finder: Final = finder
        self._question: Final = question
        self._ids: Final = ids or NamedIds()
        self._clauses: Final = self._asked()
        self._reads_all: Final = topology is None
        self._naming: Final = NamesRead() if topology is None else NamesAsked(topology)
        self._topology: Final = self._naming_clause()
        self._search = Search()
        for event in known:
            self.names.learn(event.row, event.detail)
            self._note_ids(event)

    def _naming_clause(self) -> Clause | None:
        """Return the events to learn names and ids from, None if there is no need."""
        links = {LINK_ATTACHED} if self._question.address else set()
        if self._reads_all:
            return Clause(TOPOLOGY | links)
        named = named_in(self._question)
        return Clause(NAMING | links, contents=named) if named is not None else None

    @property
    def names(self) -> Names:
        """Names as of the last event that was returned."""
        return self._naming.names

    def runs(
        self,
        *,
        joins: bool = True,
        proven: bool = False,
        follow: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[Event, int]]:
        """Yield each selected event with its LSN; of `Skipped` events that follow each other the
        first, with the LSN of the last, unless `joins` is false.

        A start after a crash skips thousands of LSNs, and each says no more than the others.
        Parameters as for `events`. Raises JournalError.
        """
        first: Event | None = None
        last_lsn = 0
        for event in self.events(proven=proven, follow=follow, joins=joins):
            is_skipped = joins and event.row[KIND] == SKIPPED
            if first is not None and not (is_skipped and event.lsn == last_lsn + 1):
                yield first, last_lsn
                first = None
            if not is_skipped:
                yield event, event.lsn
                continue
            first = first or event
            last_lsn = self._search.joined.pop(event.lsn, event.lsn)
        if first is not None:
            yield first, last_lsn

    def events(
        self,
        *,
        proven: bool = False,
        follow: Callable[[], bool] | None = None,
        joins: bool = False,
    ) -> Iterator[Event]:
        """Yield the selected events, in order.

        `proven` leaves out events that are not known to be durable yet. `follow`: see
        `read_blocks`. `joins`: see `Search`. Raises JournalError.
        """
        question, topology = self._question, self._topology
        last = question.from_lsn - 1
        if last > self.known_lsn:
            self.read_names(last)
        clauses = (*self._clauses, topology) if topology is not None else self._clauses
        self._search = Search(
            *clauses, from_lsn=question.from_lsn, to_lsn=question.to_lsn,
            bodies=question.bodies, proven=proven, follow=follow, joins=joins,
        )  # fmt: skip
        is_open = topology is None or self._clauses[0].is_open
        for event in self._finder.find(self._search):
            last = event.lsn
            self._meet(event)
            if is_open or any(clause.fits(event) for clause in self._clauses):
                yield event
            self._forget(event)
        self._ids.until = max(self._ids.until, last)

    def _asked(self) -> tuple[Clause, ...]:
        """Return the clauses of the question; a copy refers to its original as related."""
        question = self._question
        whole = Clause(
            kinds=question.kinds or None,
            queues=self._ids.queues if question.queue else None,
            addresses=self._ids.addresses if question.address else None,
            connections={question.connection} if question.connection else None,
            since=question.since, until=question.until,
        )  # fmt: skip
        clauses = (whole, *self._asked_of_links(whole))
        if not question.message:
            return clauses
        message = {question.message}
        return tuple(
            asked
            for each in clauses
            for asked in (replace(each, messages=message), replace(each, related=message))
        )

    def _asked_of_links(self, whole: Clause) -> Iterator[Clause]:
        """Yield the clauses of a direct address, whose name is in details."""
        question = self._question
        if not question.address or question.queue:
            return
        kinds = question.kinds or OF_LINKS
        named = replace(whole, addresses=None, kinds=kinds & NAMING_DIRECT)
        yield replace(named, contents=AtDirect(question.address))
        yield replace(named, kinds=kinds & (OF_LINKS - NAMING_DIRECT), consumers=self._ids.links)

    def known(self, kind: str) -> list[str]:
        """Names that were read, for a hint: of kind "queue" or "address"."""
        return sorted((self.names.queues if kind == "queue" else self.names.addresses).values())

    @property
    def unknown(self) -> str:
        """The kind ("queue", "address") of a requested name that the journal never had, or ""."""
        ids = self._ids
        if self._question.queue and not ids.queues:
            return "queue"
        if self._question.address and not (ids.addresses or ids.is_direct):
            return "address"
        return ""

    def read_names(self, last: int | None) -> None:
        """Learn names up to an event, the last one of the journal if it is None, without a look at
        what is selected. Raises JournalError."""
        if self._topology is None:
            return
        naming = Search(self._topology, from_lsn=self.known_lsn + 1, to_lsn=last)
        for event in self._finder.find(naming):
            self._meet(event)
            self._forget(event)

    def _meet(self, event: Event) -> None:
        """Learn names, and the ids of what is asked for."""
        self._naming.meet(event)
        self._note_ids(event)

    def _note_ids(self, event: Event) -> None:
        """Learn the ids of the queue and address asked for; each may have several."""
        row, names, question = event.row, self.names, self._question
        if question.address and row[KIND] in NAMING_DIRECT:
            self._note_direct(event)
        if row[KIND] not in TOPOLOGY:
            return
        if row[QUEUE] and names.queue(row[QUEUE]) == question.queue:
            self._ids.queues.add(row[QUEUE])
            self._search.version += 1
        if row[ADDRESS] and names.address(row[ADDRESS]) == question.address:
            self._ids.addresses.add(row[ADDRESS])
            self._search.version += 1

    def _note_direct(self, event: Event) -> None:
        """Learn which links the direct address asked for has."""
        if address_of(event) == self._question.address:
            self._ids.is_direct = True
            if event.row[KIND] == LINK_ATTACHED:
                self._ids.links.add(event.row[CONSUMER])
                self._search.version += 1

    def _forget(self, event: Event) -> None:
        self._naming.forget(event)
        if not self._reads_all:
            return
        # A reader that follows the journal keeps what is open, not what was.
        if event.row[KIND] == LINK_DETACHED:
            self._ids.links.discard(event.row[CONSUMER])
        elif event.row[KIND] == BROKER_STARTED:
            self._ids.links.clear()


def begun(
    directory: Path,
    finder: EventFinder,
    question: Question,
    *,
    reads_names: bool,
    note: Callable[[str], None],
) -> Inspection:
    """Return an inspection that learns names in the quickest way.

    `reads_names` is for what is not written yet, and for all names. `note` is called with a
    sentence about a damaged base. Raises JournalError, StoreError and OSError.
    """
    before = question.from_lsn - 1
    topology, named, ids = None, None, NamedIds()
    if not reads_names and (finder.catalogs is not None or not finder.uncatalogued()):
        topology = Topology(finder, partial(beginning, directory, finder.disk))
        named = named_in(question)
        if named is None:
            return Inspection(finder, question, topology=topology)
        ids = finder.named.setdefault((question.queue, question.address), ids)
        if ids.since is not None and ids.since <= before <= ids.until:
            return Inspection(finder, question, topology=topology, known_lsn=before, ids=ids)
    known = EVERYTHING
    try:
        known = beginning(directory, finder.disk, until=before, named=named)
    except (BaseDamaged, IndexDamaged) as error:
        note(f"some names are missing: {error}")
    ids.since = ids.until = known.lsn
    return Inspection(
        finder, question, topology=topology, known=known.events, known_lsn=known.lsn, ids=ids
    )


def named_in(question: Question) -> WithName | None:
    """Return where the names that a question has may be, None if it has none."""
    names = [name for name in (question.queue, question.address) if name]
    return WithName(*names) if names else None


def begins_before(disk: Disk, question: Question) -> bool:
    """Return whether a span, or the life of a message, was asked for that begins before the
    journal."""
    first_lsn = first_lsn_of(disk)
    if first_lsn == FIRST_LSN or question.from_lsn >= first_lsn:
        return False
    if question.message:
        return question.message < first_lsn
    if question.since is not None:
        blocks = (block for block in read_blocks(disk, LAYOUT, heaps=False) if not block.is_mark)
        return any(question.since < row[TIME] for row in islice(next(blocks).rows(), 1))
    ends = (question.to_lsn, question.until)
    return question.from_lsn > FIRST_LSN or ends != (None, None)


def begin_of_last(
    finder: EventFinder,
    directory: Path,
    question: Question,
    count: int,
    *,
    proven: bool = False,
    joins: bool = False,
) -> int:
    """Return the LSN of the first of the last `count` events that fit a question; of the first one
    that fits if there are fewer, and where the question begins if there are none.

    Spans before the end are asked, each longer than the one before, until one has enough events: so
    the cost grows with the way back to them, and not with the history.

    `proven` leaves out events that are not known to be durable yet. With `joins`, those that
    `Inspection.runs` joins count as one. Raises as `begun`.
    """
    last = newest_lsn(finder)
    if question.to_lsn is not None:
        last = min(last, question.to_lsn)
    earliest = max(question.from_lsn, first_lsn_of(finder.disk))
    span = LAST_SPAN
    while True:
        begin = max(earliest, last - span + 1)
        asked = replace(question, from_lsn=begin, bodies=False)
        inspection = begun(directory, finder, asked, reads_names=False, note=lambda _: None)
        runs = inspection.runs(joins=joins, proven=proven)
        found = deque(((event.lsn, event.row[KIND] == SKIPPED) for event, _ in runs), maxlen=count)
        if begin <= earliest:
            return found[0][0] if found else question.from_lsn
        # Events that are joined may begin before the span.
        if len(found) == count and not (joins and found[0] == (begin, True)):
            return found[0][0]
        span *= LAST_GROWTH


def event_before(finder: EventFinder, lsn: int) -> int | None:
    """Return the last event before another one that is not `Skipped`, None if there is none.
    Raises JournalError."""
    first = first_lsn_of(finder.disk)
    end, span = lsn - 1, 1
    while end >= first:
        begin = max(first, end - span + 1)
        search = Search(Clause(_SAYING), from_lsn=begin, to_lsn=end)
        found = deque((event.lsn for event in finder.find(search)), maxlen=1)
        if found:
            return found[0]
        end, span = begin - 1, span * LAST_GROWTH
    return None


def event_after(finder: EventFinder, lsn: int) -> int | None:
    """Return the next event that is not `Skipped`, None if there is none. Raises JournalError."""
    search = Search(Clause(_SAYING), from_lsn=lsn + 1)
    return next((event.lsn for event in finder.find(search)), None)
