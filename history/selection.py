"""Choosing which events to show: filters by place in the journal, time, name, message and kind.

Names are learned from the topology events on the way, also from those before the first selected
event, so that a story that begins in the middle has all names. From the history before, only blocks
with such events are read, where footers show which these are.
"""

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

import msgspec

from daybook.engine.facts import events
from daybook.engine.facts.events import (
    ADDRESS,
    BY_NAME,
    CONNECTION,
    KIND,
    MESSAGE,
    QUEUE,
    RELATED,
    TIME,
    Row,
)
from daybook.engine.facts.kinds import TOPOLOGY
from daybook.history.catalogs import Catalogs
from daybook.history.names import Names
from daybook.history.scan import Event, events_of, kinds_mask, wanted_blocks
from daybook.history.topology import NamesAsked, Topology
from daybook.journal.blocks.block import Block, queue_bit
from daybook.journal.blocks.format import FooterEntry
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.catalogs.catalog_file import CatalogFile
from daybook.paging.catalogs.catalog_keys import MESSAGES
from daybook.paging.tables.layout import LAYOUT


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


def asks_columns(question: Question, lsn: int, row: Row) -> bool:
    """Apply the filters that need no names."""
    if lsn < question.from_lsn or (question.to_lsn is not None and lsn > question.to_lsn):
        return False
    if question.kinds and row[KIND] not in question.kinds:
        return False
    if question.message and question.message not in (row[MESSAGE], row[RELATED]):
        return False
    if question.connection and row[CONNECTION] != question.connection:
        return False
    if question.since is not None and row[TIME] < question.since:
        return False
    return question.until is None or row[TIME] <= question.until


def _excludes(question: Question, entry: FooterEntry) -> bool:
    """Whether no event in the block of a footer's entry is of a time and a kind that are asked
    for."""
    if question.since is not None and entry.time_max < question.since:
        return True
    if question.until is not None and entry.time_min > question.until:
        return True
    return bool(question.kinds) and not entry.kinds & kinds_mask(question.kinds)


class Inspection:
    """One reading of the journal. `names` are as of the last event that was returned.

    `known` are events that give the meaning of ids after the event `known_lsn`, or at the beginning
    of the journal.
    """

    def __init__(self, question: Question, known: Iterable[Event] = (), known_lsn: int = 0) -> None:
        self.known_lsn = known_lsn
        self.names = Names()
        self._question = question
        self._mask = kinds_mask(TOPOLOGY)
        self._queue_ids: set[int] = set()
        self._address_ids: set[int] = set()
        for event in known:
            self._learn(event)

    def events(
        self, disk: Disk, *, proven: bool, follow: Callable[[], bool] | None
    ) -> Iterator[Event]:
        """The selected events, in order.

        `proven` leaves out events that are not known to be durable yet. `follow`: see
        `read_blocks`.
        """
        question = self._question
        if question.from_lsn > self.known_lsn + 1:
            self._learn_before(disk)
        blocks = (
            wanted_blocks(
                disk, self._may_hold, from_lsn=question.from_lsn, to_lsn=question.to_lsn
            )
            if follow is None and not proven
            else read_blocks(
                disk, LAYOUT, from_lsn=question.from_lsn, to_lsn=question.to_lsn,
                proven=proven, follow=follow,
            )
        )  # fmt: skip
        for block in blocks:
            yield from self._of_block(block)

    def known(self, kind: str) -> list[str]:
        """Names in the journal, for a hint: of kind "queue" or "address"."""
        return sorted((self.names.queues if kind == "queue" else self.names.addresses).values())

    @property
    def unknown(self) -> str:
        """The kind ("queue", "address") of a requested name that the journal never had, or ""."""
        if self._question.queue and not self._queue_ids:
            return "queue"
        if self._question.address and not self._address_ids:
            return "address"
        return ""

    def _learn_before(self, disk: Disk) -> None:
        last = self._question.from_lsn - 1
        known = self.known_lsn
        blocks = wanted_blocks(
            disk, lambda entry: bool(entry.kinds & self._mask), from_lsn=known + 1, to_lsn=last
        )
        for block in blocks:
            chosen = events_of(
                block, lambda lsn, row: known < lsn <= last and row[KIND] in TOPOLOGY
            )
            for event in chosen:
                self._learn(event)
                self.names.forget(event.row)

    def _may_hold(self, entry: FooterEntry) -> bool:
        """Whether a block may contain selected events, or names."""
        question = self._question
        if entry.kinds & self._mask:
            return True
        if _excludes(question, entry):
            return False
        if question.queue and not entry.queues & self._queue_bits():
            return False
        # The events of a copy name its original message; only the Routed event shows it.
        copies = entry.kinds & kinds_mask(frozenset({events.ROUTED}))
        touches = entry.message_min <= question.message <= entry.message_max
        return not question.message or touches or bool(copies)

    def _queue_bits(self) -> int:
        """The bits of the queue's ids, and of 0, for messages routed to several queues."""
        bits = queue_bit(0)
        for queue_id in self._queue_ids:
            bits |= queue_bit(queue_id)
        return bits

    def _of_block(self, block: Block) -> Iterator[Event]:
        for event in events_of(block, self._wants, bodies=self._question.bodies):
            if event.row[KIND] in TOPOLOGY:
                self._learn(event)
            if self._asks(event.lsn, event.row) and self._asks_queue(event):
                yield event
            self.names.forget(event.row)

    def _learn(self, event: Event) -> None:
        row = event.row
        self.names.learn(row, event.detail)
        if row[QUEUE] and self.names.queue(row[QUEUE]) == self._question.queue:
            self._queue_ids.add(row[QUEUE])
        if row[ADDRESS] and self.names.address(row[ADDRESS]) == self._question.address:
            self._address_ids.add(row[ADDRESS])

    def _wants(self, lsn: int, row: Row) -> bool:
        """Whether an event must be decoded: topology, and events that names may select."""
        return row[KIND] in TOPOLOGY or self._asks_columns(lsn, row)

    def _asks_columns(self, lsn: int, row: Row) -> bool:
        return asks_columns(self._question, lsn, row)

    def _asks(self, lsn: int, row: Row) -> bool:
        if not self._asks_columns(lsn, row):
            return False
        return not self._question.address or row[ADDRESS] in self._address_ids

    def _asks_queue(self, event: Event) -> bool:
        if not self._question.queue or event.row[QUEUE] in self._queue_ids:
            return True
        if event.row[KIND] != events.ROUTED or event.row[QUEUE]:
            return False
        decoded = events.routed_detail(event.detail)
        return not self._queue_ids.isdisjoint(decoded.queues)


class ByCatalogs:
    """A reading of the journal that finds events by catalogs, and names where they are met.

    It asks for no names of queues or addresses.
    """

    def __init__(self, question: Question, catalogs: Catalogs, topology: Topology) -> None:
        self.version = 0
        self._question = question
        self._catalogs = catalogs
        self._asked = NamesAsked(topology)

    @property
    def names(self) -> Names:
        """Names as of the last event that was returned."""
        return self._asked.names

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """As `BlockQuestion.numbers`."""
        if not self._question.message:
            return set(range(catalog.told.blocks.bytes // 16))
        return set(catalog.numbers(catalog.told.tables[MESSAGES], self._question.message))

    def may_matter(self, entry: FooterEntry) -> bool:
        """As `BlockQuestion.may_matter`."""
        return not _excludes(self._question, entry)

    def events(self, *, proven: bool) -> Iterator[Event]:
        """The selected events, in order; see `Inspection.events`. Raises JournalError."""
        question = self._question
        for block in self._blocks(proven=proven):
            for event in events_of(
                block, lambda lsn, row: asks_columns(question, lsn, row), bodies=question.bodies
            ):
                self._asked.meet(event)
                yield event
                self._asked.forget(event)

    def _blocks(self, *, proven: bool) -> Iterator[Block]:
        question = self._question
        if question.message:
            return self._catalogs.blocks(self, question.from_lsn, question.to_lsn, proven=proven)
        return self._catalogs.read(
            self.may_matter, question.from_lsn, question.to_lsn, proven=proven
        )
