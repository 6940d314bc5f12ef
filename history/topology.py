"""What ids stand for, found where it is asked for: the events by which things began and changed.

Connections and consumers are named after the events by which they began, so those are read at once;
addresses and queues are in tables of catalogs (ADR 64). What began before the journal does is taken
from its base. Reads only what it is asked for. Must never know what the answer is used for.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from daybook.engine.facts import life
from daybook.engine.facts.events import ADDRESS, BY_NUMBER, CONNECTION, CONSUMER, KIND
from daybook.engine.facts.kinds import OF_LINKS, changing
from daybook.history.catalogs import Span
from daybook.history.event_finder import EventFinder
from daybook.history.names import Names
from daybook.history.scan import Event
from daybook.history.search import Clause, Search, Thing, queues_of
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import Damage
from daybook.paging.catalogs.catalog_keys import SUBJECT_COLUMNS, subject_of, subjects_at

if TYPE_CHECKING:
    # Slow to import, and rarely needed.
    from daybook.history.initial_state import Beginning

RECENT_MAX: Final = 16
_LASTING: Final = frozenset({life.ADDRESS, life.QUEUE})
_OF_LASTING: Final = changing(_LASTING, {life.BEGINS, life.CHANGES, life.ENDS})
_BEGINNINGS: Final = changing(SUBJECT_COLUMNS, {life.BEGINS})


def things_of(event: Event) -> Iterator[Thing]:
    """Yield the things that an event refers to; each after those that it belongs to."""
    row = event.row
    if row[ADDRESS]:
        yield life.ADDRESS, row[ADDRESS]
    for queue in queues_of(event):
        if queue:
            yield life.QUEUE, queue
    if row[CONNECTION]:
        yield life.CONNECTION, row[CONNECTION]
    if row[CONSUMER] and row[KIND] not in OF_LINKS:
        yield life.CONSUMER, row[CONSUMER]


class Topology:
    """Answers for one journal."""

    def __init__(self, finder: EventFinder, base: "Callable[[], Beginning]") -> None:
        """`base` returns the state before the first event; called if something began there."""
        self._finder: Final = finder
        self._base: Final = base
        self._of_base: dict[Thing, Event] | None = None

    def of(self, thing: Thing, until: int) -> list[Event]:
        """Return the events by which a thing began, changed and ended up to an event, in order.

        Of a connection or consumer, that is the first one only. Raises JournalError, and what
        reading the base raises.
        """
        if thing[0] not in _LASTING:
            event = self._finder.at(thing[1]) if thing[1] <= until else None
            if event is not None and subject_of(event.row) == thing:
                return [event]
            return self._from_base(thing)
        lsns: list[int] = []
        for span in self._finder.spans_back(until):
            found = [lsn for lsn in self._in_span(span, thing) if lsn <= until]
            lsns = found + lsns
            begun = self._finder.at(found[0]) if found else None
            if begun is not None and begun.row[KIND] in _BEGINNINGS:
                return self._events(lsns)
        return self._from_base(thing) + self._events(lsns)

    def _events(self, lsns: list[int]) -> list[Event]:
        return [event for event in map(self._finder.at, lsns) if event is not None]

    def _in_span(self, span: Span, thing: Thing) -> list[int]:
        if span.catalog is not None:
            told = span.catalog.told
            try:
                found = span.catalog.numbers(told.tables.get(thing[0]), thing[1])
                return [told.first_lsn + each for each in found]
            except Damage as damage:
                span = self._finder.give_up(span, damage)
        changed = self._finder.changed
        if span.first_lsn not in changed:
            changed[span.first_lsn] = self._read_span(span)
        return changed[span.first_lsn].get(thing, [])

    def _read_span(self, span: Span) -> dict[Thing, list[int]]:
        """Collect where addresses and queues change in a span without a catalog."""
        search = Search(Clause(_OF_LASTING), from_lsn=span.first_lsn, to_lsn=span.last_lsn)
        found: dict[Thing, list[int]] = {}
        for block in self._finder.blocks(search):
            for lsn, thing in _lasting_in(block):
                if span.first_lsn <= lsn and (span.last_lsn is None or lsn <= span.last_lsn):
                    found.setdefault(thing, []).append(lsn)
        return found

    def _from_base(self, thing: Thing) -> list[Event]:
        if self._of_base is None:
            self._of_base = {}
            for event in self._base().events:
                known = subject_of(event.row)
                if known is not None:
                    self._of_base[known] = event
        found = self._of_base.get(thing)
        return [found] if found is not None else []


def _lasting_in(block: Block) -> Iterator[tuple[int, Thing]]:
    """Yield which addresses and queues change in a block, and by which events. Raises Damage."""
    kinds = block.columns()[KIND].tolist()
    if _OF_LASTING.isdisjoint(kinds):
        return
    positions = [at for at, kind in enumerate(kinds) if kind in _OF_LASTING]
    for at, thing in subjects_at(block.columns(), positions):
        yield block.first_lsn + at, thing


class NamesAsked:
    """Gives names to the ids of events that are read one here and one there."""

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        self.names: Final = Names()
        self._known: Final[set[Thing]] = set()

    def meet(self, event: Event) -> None:
        """Learn the names of what an event refers to, as of the event; call this before it is
        shown. Raises JournalError, and what reading the base raises."""
        for thing in things_of(event):
            if thing in self._known:
                continue
            self._known.add(thing)
            for each in self._topology.of(thing, event.lsn):
                self.names.learn(each.row, each.detail)
        self.names.learn(event.row, event.detail)

    def forget(self, event: Event) -> None:
        """Drop the names of what ends with an event; call this after the event is shown."""
        self.names.forget(event.row)
        kind = BY_NUMBER.get(event.row[KIND])
        if kind is not None and kind.subject == life.BROKER and kind.change == life.BEGINS:
            self._known.difference_update(
                [thing for thing in self._known if thing[0] not in _LASTING]
            )
