"""What ids stand for, found where it is asked for: the events by which things began and changed.

Connections and consumers are named after the events by which they began, so those are read at once;
addresses and queues are in tables of catalogs (ADR 64). What began before the journal does is taken
from its base. Reads only what it is asked for. Must never know what the answer is used for.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast

from daybook.engine.facts import details, events, life
from daybook.engine.facts.events import ADDRESS, BY_NUMBER, CONNECTION, CONSUMER, KIND, QUEUE, Row
from daybook.engine.facts.kinds import ENTERING, changing
from daybook.history.catalogs import Catalogs, Span
from daybook.history.names import Names
from daybook.history.scan import Event, Picker, event_at, kinds_mask, wanted_blocks
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import Damage
from daybook.paging.catalogs.catalog_keys import SUBJECT_COLUMNS, subject_of

if TYPE_CHECKING:
    # Slow to import, and rarely needed.
    from daybook.history.initial_state import Beginning

Thing = tuple[str, int]
"""A subject, and its id."""
RECENT_MAX: Final = 16
_LASTING: Final = frozenset({life.ADDRESS, life.QUEUE})
_OF_LASTING: Final = changing(_LASTING, {life.BEGINS, life.CHANGES, life.ENDS})
_BEGINNINGS: Final = changing(SUBJECT_COLUMNS, {life.BEGINS})


def things_of(row: Row, detail: bytes) -> Iterator[Thing]:
    """Yield the things that an event refers to; each after those that it belongs to."""
    if row[ADDRESS]:
        yield life.ADDRESS, row[ADDRESS]
    if row[QUEUE]:
        yield life.QUEUE, row[QUEUE]
    elif row[KIND] in ENTERING:
        decoded = events.decode_detail(row[KIND], detail)
        for queue in cast(details.RoutedDetail, decoded).queues:
            yield life.QUEUE, queue
    if row[CONNECTION]:
        yield life.CONNECTION, row[CONNECTION]
    if row[CONSUMER]:
        yield life.CONSUMER, row[CONSUMER]


class Topology:
    """Answers for one journal."""

    def __init__(self, catalogs: Catalogs, base: "Callable[[], Beginning]") -> None:
        """`base` returns the state before the first event; called if something began there."""
        self._catalogs: Final = catalogs
        self._base: Final = base
        self._of_base: dict[Thing, Event] | None = None
        self._read: dict[int, dict[Thing, list[int]]] = {}
        self._recent: dict[int, tuple[Block, Picker]] = {}

    def event(self, lsn: int) -> Event | None:
        """Return an event, None if the journal has none. Raises JournalError."""
        for recent, picker in self._recent.values():
            if recent.first_lsn <= lsn <= recent.last_lsn:
                return picker.event(lsn - recent.first_lsn)
        block = self._catalogs.block_with(lsn)
        if block is None:
            return event_at(self._catalogs.disk, lsn)
        if len(self._recent) >= RECENT_MAX:
            del self._recent[next(iter(self._recent))]
        picker = Picker(block)
        self._recent[block.first_lsn] = block, picker
        return picker.event(lsn - block.first_lsn) if lsn <= block.last_lsn else None

    def of(self, thing: Thing, until: int) -> list[Event]:
        """Return the events by which a thing began, changed and ended up to an event, in order.

        Of a connection or consumer, that is the first one only. Raises JournalError, and what
        reading the base raises.
        """
        if thing[0] not in _LASTING:
            event = self.event(thing[1]) if thing[1] <= until else None
            if event is not None and subject_of(event.row) == thing:
                return [event]
            return self._from_base(thing)
        lsns: list[int] = []
        for span in self._catalogs.spans_back(until):
            found = [lsn for lsn in self._in_span(span, thing) if lsn <= until]
            lsns = found + lsns
            begun = self.event(found[0]) if found else None
            if begun is not None and begun.row[KIND] in _BEGINNINGS:
                return self._events(lsns)
        return self._from_base(thing) + self._events(lsns)

    def _events(self, lsns: list[int]) -> list[Event]:
        return [event for event in map(self.event, lsns) if event is not None]

    def _in_span(self, span: Span, thing: Thing) -> list[int]:
        if span.catalog is not None:
            told = span.catalog.told
            try:
                found = span.catalog.numbers(told.tables.get(thing[0]), thing[1])
                return [told.first_lsn + each for each in found]
            except Damage as damage:
                span = self._catalogs.give_up(span, damage)
        if span.first_lsn not in self._read:
            self._read[span.first_lsn] = self._read_span(span)
        return self._read[span.first_lsn].get(thing, [])

    def _read_span(self, span: Span) -> dict[Thing, list[int]]:
        """Collect where addresses and queues change in a span without a catalog."""
        mask = kinds_mask(_OF_LASTING)
        found: dict[Thing, list[int]] = {}
        blocks = wanted_blocks(
            self._catalogs.disk, lambda entry: bool(entry.kinds & mask),
            from_lsn=span.first_lsn, to_lsn=span.last_lsn,
        )  # fmt: skip
        for block in blocks:
            picker = Picker(block)
            for position in picker.positions(span.first_lsn, (), _OF_LASTING):
                thing = subject_of(picker.row(position))
                if thing is not None:
                    found.setdefault(thing, []).append(block.first_lsn + position)
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


class NamesAsked:
    """Gives names to the ids of events that are read one here and one there."""

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        self.names: Final = Names()
        self._known: Final[set[Thing]] = set()

    def meet(self, event: Event) -> None:
        """Learn the names of what an event refers to, as of the event; call this before it is
        shown. Raises JournalError, and what reading the base raises."""
        for thing in things_of(event.row, event.detail):
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
