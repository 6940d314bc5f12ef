"""Searches for events: clauses, at least one of which an event must fit, in a span of events.

A clause says whether an event fits, and for each source (footers, catalogs, the columns of a block;
ADR 99) where events that fit may be. Must never know how a source is read.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Final, Protocol

import msgspec

from daybook.engine.facts import events
from daybook.engine.facts.events import (
    ADDRESS,
    BY_NUMBER,
    CONNECTION,
    CONSUMER,
    KIND,
    MESSAGE,
    QUEUE,
    RELATED,
    TIME,
)
from daybook.engine.facts.kinds import TOPOLOGY
from daybook.history.catalogs import NotCatalogued
from daybook.history.scan import Event, Picker
from daybook.journal.blocks.block import Block, kind_bit, queue_bit
from daybook.journal.blocks.format import FooterEntry
from daybook.paging.catalogs.catalog_file import CatalogFile
from daybook.paging.catalogs.catalog_keys import MESSAGES, subject_of, subjects_at

Thing = tuple[str, int]
"""A subject, and its id."""


def kinds_mask(kinds: Set[int]) -> int:
    """Return the kinds as the bit set that footers use."""
    mask = 0
    for kind in kinds:
        mask |= kind_bit(kind)
    return mask


_RELATED: Final = kinds_mask(
    {kind for kind, each in BY_NUMBER.items() if "related" in each.columns}
)
_TOPOLOGY: Final = kinds_mask(TOPOLOGY)


class Contents(Protocol):
    """A condition on the content of an event; `is_catalogued` says whether catalogs can say where
    it holds."""

    is_catalogued: bool

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """Return the numbers of the blocks that may have it. Raises Damage, NotCatalogued."""
        ...

    def may_have(self, block: Block, picker: Picker) -> bool:
        """Whether a block may have it."""
        ...

    def is_in(self, event: Event) -> bool:
        """Whether an event has it. Raises StoreError."""
        ...


class Uncatalogued:
    """A condition of which catalogs know nothing, as a part of `Contents`."""

    is_catalogued = False

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """Raise NotCatalogued."""
        raise NotCatalogued(f"{catalog.path} does not have it")


class Clause(msgspec.Struct, eq=False):
    """Events that fit every field; None fits all, and an empty set no event.

    `messages` are those that an event is about, `related` the messages or events that it refers to,
    `things` the addresses, queues and others that it begins, changes or ends. `queues` are ids; a
    message routed to several queues fits each. `lsns` are in ascending order. Times are
    microseconds since 1970, both inclusive. A set may grow during a search: see `Search.version`.
    """

    kinds: Set[int] | None = None
    messages: Set[int] | None = None
    related: Set[int] | None = None
    things: Set[Thing] | None = None
    queues: Set[int] | None = None
    addresses: Set[int] | None = None
    connections: Set[int] | None = None
    consumers: Set[int] | None = None
    lsns: Sequence[int] | None = None
    since: int | None = None
    until: int | None = None
    contents: Contents | None = None
    _mask: int = -1
    _columns: tuple[tuple[int, Set[int]], ...] = ()

    def __post_init__(self) -> None:
        """Derive what is compared: bits of footers, and columns with their values."""
        if self.kinds is not None:
            self._mask = kinds_mask(self.kinds)
        if self.related is not None:
            self._mask &= _RELATED
        if self.things is not None:
            self._mask &= _TOPOLOGY
        columns = (
            (KIND, self.kinds), (MESSAGE, self.messages), (RELATED, self.related),
            (ADDRESS, self.addresses), (CONNECTION, self.connections), (CONSUMER, self.consumers),
            (KIND, TOPOLOGY if self.things is not None else None),
        )  # fmt: skip
        self._columns = tuple((column, ids) for column, ids in columns if ids is not None)

    def fits(self, event: Event) -> bool:
        """Whether an event fits. Raises StoreError."""
        row = event.row
        for column, ids in self._columns:
            if row[column] not in ids:
                return False
        if self.since is not None and row[TIME] < self.since:
            return False
        if self.until is not None and row[TIME] > self.until:
            return False
        if self.lsns is not None:
            at = bisect_left(self.lsns, event.lsn)
            if at == len(self.lsns) or self.lsns[at] != event.lsn:
                return False
        if self.things is not None and subject_of(row) not in self.things:
            return False
        if self.queues is not None and self.queues.isdisjoint(queues_of(event)):
            return False
        return self.contents is None or self.contents.is_in(event)

    def may_be_in(self, entry: FooterEntry) -> bool:
        """Whether an event in the block of a footer's entry may fit."""
        if not entry.kinds & self._mask:
            return False
        if self.since is not None and entry.time_max < self.since:
            return False
        if self.until is not None and entry.time_min > self.until:
            return False
        if self.queues is not None and not entry.queues & self._queue_bits():
            return False
        if self.lsns is not None:
            begin = bisect_left(self.lsns, entry.first_lsn)
            if begin == bisect_left(self.lsns, entry.first_lsn + entry.event_count):
                return False
        return self.messages is None or any(
            entry.message_min <= message <= entry.message_max for message in self.messages
        )

    def _queue_bits(self) -> int:
        """Return the bits of the queues, and of 0, for messages routed to several."""
        bits = queue_bit(0)
        for queue in self.queues or ():
            bits |= queue_bit(queue)
        return bits

    @property
    def is_open(self) -> bool:
        """Whether every event fits."""
        others = (self.queues, self.lsns, self.since, self.until, self.things, self.contents)
        return not self._columns and all(other is None for other in others)

    @property
    def is_catalogued(self) -> bool:
        """Whether catalogs can say where fitting events are."""
        if self.contents is not None:
            return self.contents.is_catalogued
        return any(key is not None for key in (self.messages, self.related, self.things))

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """Return the numbers of the blocks of a catalog that may have a fitting event.

        Raises Damage, and NotCatalogued if the catalog cannot say it.
        """
        tables = catalog.told.tables
        if self.contents is not None:
            return self.contents.numbers(catalog)
        ids = self.messages if self.messages is not None else self.related
        found: set[int] = set()
        if ids is not None:
            for number in ids:
                found.update(catalog.numbers(tables[MESSAGES], number))
            return found
        for subject, number in self.things or ():
            for position in catalog.numbers(tables.get(subject), number):
                found.add(catalog.number_at(catalog.told.first_lsn + position))
        return found

    def positions(self, block: Block, picker: Picker, span: range) -> Iterable[int]:
        """Return which positions of a block, of those in a span, have events that may fit."""
        found: Iterable[int] = span
        if self.lsns is not None:
            first = block.first_lsn
            begin, end = (bisect_left(self.lsns, first + each) for each in (span.start, span.stop))
            found = [lsn - first for lsn in self.lsns[begin:end]]
        columns = block.columns()
        for column, ids in self._columns:
            values = columns[column].tolist()
            if ids.isdisjoint(values):
                # Most blocks have none, and this is quicker than to look at each event.
                return ()
            found = [at for at in found if values[at] in ids]
        if self.queues is not None:
            values, kinds = columns[QUEUE].tolist(), columns[KIND].tolist()
            # One routed to several queues has them in its detail.
            found = [
                at
                for at in found
                if values[at] in self.queues or (kinds[at] == events.ROUTED and not values[at])
            ]
        if self.things is not None:
            found = [at for at, thing in subjects_at(columns, found) if thing in self.things]
        may_have = self.contents is None or not found or self.contents.may_have(block, picker)
        return found if may_have else ()


def queues_of(event: Event) -> tuple[int, ...]:
    """Return the queues of an event: its own, or those that a message is routed to."""
    if event.row[QUEUE] or event.row[KIND] != events.ROUTED:
        return (event.row[QUEUE],)
    return events.routed_detail(event.detail).queues


class Search:
    """Events that fit one of some clauses, from one event to another."""

    def __init__(
        self,
        *clauses: Clause,
        from_lsn: int = 1,
        to_lsn: int | None = None,
        aside: Iterable[Clause] = (),
        bodies: bool = False,
        proven: bool = False,
        follow: Callable[[], bool] | None = None,
        unreadable: Callable[[str, Exception], None] | None = None,
        joins: bool = False,
    ) -> None:
        """Look for events with their `bodies`, or without.

        `joins`: of `Skipped` events that follow each other in a block only the first is found, and
        `joined` has the last one.

        Events that fit clauses in `aside` are found only beside others, in the same block.
        `proven` and `follow` are those of `read_blocks`. `unreadable` is called with each segment
        that cannot be read, and the error, and the search continues behind it; without it, the
        error is raised.
        """
        self.from_lsn: Final = from_lsn
        self.to_lsn: Final = to_lsn
        self.bodies: Final = bodies
        self.proven: Final = proven
        self.follow: Final = follow
        self.unreadable: Final = unreadable
        self.joined: Final[dict[int, int]] = {}
        """The last of the events that one stands for, by its number."""
        self._joins: Final = joins
        self.version = 0
        """Raise it after the set of a clause has grown, which it may between two events."""
        self._clauses: Final = clauses
        self._all: Final = (*clauses, *aside)
        self._is_open: Final = any(clause.is_open for clause in clauses)

    @property
    def is_catalogued(self) -> bool:
        """Whether catalogs can say where the events are."""
        return all(clause.is_catalogued for clause in self._clauses)

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """Return the numbers of the blocks of a catalog that may have the events.

        Raises Damage, and NotCatalogued if the catalog cannot say it.
        """
        return set[int]().union(*(clause.numbers(catalog) for clause in self._clauses))

    def may_be_in(self, entry: FooterEntry) -> bool:
        """Whether the block of a footer's entry may have the events."""
        return any(clause.may_be_in(entry) for clause in self._clauses)

    def events_in(self, block: Block) -> Iterator[Event]:
        """Yield the events of a block. Raises Damage, StoreError."""
        if block.is_mark:
            return
        picker = Picker(block)
        begin = max(self.from_lsn - block.first_lsn, 0)
        end = block.count
        if self.to_lsn is not None:
            end = min(end, self.to_lsn + 1 - block.first_lsn)
        if self._is_open:
            picker.read_rows()
            positions = self._apart(block, range(begin, end))
            yield from (picker.event(at, bodies=self.bodies) for at in positions)
            return
        while begin < end:
            version = self.version
            for at in self._apart(block, self._positions(block, picker, range(begin, end))):
                event = picker.event(at, bodies=self.bodies)
                if not any(clause.fits(event) for clause in self._all):
                    continue
                yield event
                begin = at + 1
                if self.version != version:
                    break
            else:
                return

    def _positions(self, block: Block, picker: Picker, span: range) -> Iterable[int]:
        found = [clause.positions(block, picker, span) for clause in self._all]
        return found[0] if len(found) == 1 else sorted(set[int]().union(*found))

    def _apart(self, block: Block, positions: Iterable[int]) -> Iterable[int]:
        """Return the positions without those of `Skipped` events that follow another one."""
        if not self._joins:
            return positions
        kinds = block.columns()[KIND].tolist()
        if events.SKIPPED not in kinds:
            return positions
        found: list[int] = []
        before = -2
        for at in positions:
            is_skipped = kinds[at] == events.SKIPPED
            if not (is_skipped and at == before + 1):
                found.append(at)
            if is_skipped:
                self.joined[block.first_lsn + found[-1]] = block.first_lsn + at
                before = at
        return found
