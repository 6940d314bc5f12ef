"""Choosing messages of history by where they were sent, what they say, and what became of them.

Data flow: blocks with messages (and with the ends of entries, if fates are asked for) are read
once, in order. Memory grows with what was queued at a time, and by eight bytes for each chosen
message. Must never know what is done with them.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import ADDRESS, FLAGS, KIND, MESSAGE, PRIORITY, QUEUE, REASON, Row
from daybook.engine.facts.kinds import LEAVING, outcome
from daybook.engine.filters.compiling import CompiledFilter, compile_filter
from daybook.engine.messages.content import UnknownFormat
from daybook.engine.messages.message import Message
from daybook.history.descriptions import replayed_from
from daybook.history.event_finder import EventFinder
from daybook.history.initial_state import beginning
from daybook.history.names import LEARNED, Names
from daybook.history.replays.fate_words import (
    ACKNOWLEDGED,
    NEVER_ACKNOWLEDGED,
    WAITING,
)
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.journal.disk import Disk
from daybook.recovery.signing.export_proof import redacted_in
from daybook.recovery.signing.redaction import Redaction


class Request(msgspec.Struct, frozen=True):
    """Which messages: all that fit every field that is not empty.

    `only` are FATES, in any of the queues that the message was in, or of those in `queues`.
    Messages that the broker made from others, and replays, are left out without `copies`.
    """

    from_lsn: int = 1
    to_lsn: int = 0
    addresses: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    filter: str = ""
    only: tuple[str, ...] = ()
    messages: tuple[int, ...] = ()
    copies: bool = False


class Chosen(msgspec.Struct):
    """The messages that fit, in the order of their ids, with counts for people.

    `bytes` are those of bodies. `unjournaled` are messages that fit, and whose content was never
    journaled, `redacted` those whose content is not in this export; `copies` those that were left
    out as copies or replays.
    """

    messages: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    addresses: Counter[str] = msgspec.field(default_factory=Counter)
    bytes: int = 0
    large: int = 0
    unjournaled: int = 0
    redacted: int = 0
    copies: int = 0


class _Open(msgspec.Struct):
    """A message whose fate is not known yet: how many entries are left, and how others ended."""

    address: str
    body_bytes: int
    is_large: bool
    is_persistent: bool
    left: int
    fates: set[str] = msgspec.field(default_factory=set)


def choose(
    directory: Path,
    disk: Disk,
    request: Request,
    *,
    note: Callable[[str], None],
    progress: Callable[[int], None] | None = None,
    until: int | None = None,
    excluded: "array[int] | None" = None,
) -> Chosen:
    """Find the messages of a history that fit; `progress` is called with the last event read.

    `to_lsn` of the request must be set. Fates are those at the event `until`, or at the end of
    history. `excluded`, in order, are left out. `note` is called with a sentence about each name
    that history does not have. Raises ValueError for a filter that cannot be read, JournalError,
    ExportError, BaseDamaged, IndexDamaged, StoreError and OSError.
    """
    choice = _Choice(request, excluded, redacted=redacted_in(directory))
    begun = beginning(directory, disk, until=request.from_lsn - 1, note=note)
    for event in begun.events:
        choice.names.learn(event.row, event.detail)
    kinds = LEARNED | {events.ROUTED}
    if request.only:
        kinds |= LEAVING | {events.BROKER_STARTED}
    # Fates may come after the span.
    end = until if request.only else request.to_lsn
    wanted = Search(Clause(kinds), from_lsn=begun.lsn + 1, to_lsn=end, bodies=choice.reads)
    for block in EventFinder(disk).blocks(wanted):
        for found in wanted.events_in(block):
            choice.take(found)
        if progress is not None:
            progress(block.last_lsn)
    for sentence in choice.unknown():
        note(sentence)
    return choice.finish()


class _Choice:
    def __init__(
        self, request: Request, excluded: "array[int] | None", *, redacted: Redaction
    ) -> None:
        self._request: Final = request
        self._redacted: Final = redacted
        self._excluded: Final = excluded or array("Q")
        self._wanted: Final = frozenset(request.messages)
        self.names: Final = Names()
        self._filter: CompiledFilter | None = None
        if request.filter:
            self._filter = compile_filter(request.filter, self.names.address)
        self.reads: Final = self._filter is not None
        self._open: Final[dict[int, _Open]] = {}
        self._chosen: Final = Chosen()
        self._seen: Final[set[int]] = set()

    def take(self, event: Event) -> None:
        """Look at one event."""
        row = event.row
        self.names.learn(row, event.detail)
        if row[KIND] == events.ROUTED:
            if self._request.from_lsn <= event.lsn <= self._request.to_lsn:
                self._consider(event)
        elif row[KIND] == events.BROKER_STARTED:
            # Messages that are not persistent do not outlive the broker.
            for message in [each for each, known in self._open.items() if not known.is_persistent]:
                self._decide(message, self._open.pop(message))
        elif row[KIND] in LEAVING and row[MESSAGE] in self._open and self._counts(row[QUEUE]):
            known = self._open[row[MESSAGE]]
            known.left -= 1
            known.fates.add(outcome(row[KIND]))
            if not known.left:
                del self._open[row[MESSAGE]]
                self._decide(row[MESSAGE], known)

    def finish(self) -> Chosen:
        """Decide about the messages that are waiting at the end of history."""
        for message, known in self._open.items():
            known.fates.add(WAITING)
            self._decide(message, known)
        found = self._chosen
        found.messages = array("Q", sorted(found.messages))
        return found

    def unknown(self) -> Iterator[str]:
        """Yield a sentence about each name, and each message, that was asked for and not found."""
        request = self._request
        where = f"events {request.from_lsn} to {request.to_lsn} of history know no"
        for name in sorted(set(request.addresses) - set(self.names.addresses.values())):
            yield f"{where} address {name!r}"
        for name in sorted(set(request.queues) - set(self.names.queues.values())):
            yield f"{where} queue {name!r}"
        for message in sorted(self._wanted - self._seen):
            yield f"{where} message {message}"

    def _counts(self, queue: int) -> bool:
        return not self._request.queues or self.names.queue(queue) in self._request.queues

    def _consider(self, event: Event) -> None:
        request, row = self._request, event.row
        if self._wanted:
            if event.lsn not in self._wanted:
                return
            self._seen.add(event.lsn)
        address = self.names.address(row[ADDRESS])
        if request.addresses and address not in request.addresses:
            return
        detail = events.routed_detail(event.detail)
        queues = [each for each in detail.queues or (row[QUEUE],) if self._counts(each)]
        if not queues or not self._passes(event, detail):
            return
        if not request.copies and is_copy(row, event.headers):
            self._chosen.copies += 1
            return
        if row[FLAGS] & events.BODY_OMITTED:
            self._chosen.unjournaled += 1
            return
        is_large = bool(row[FLAGS] & events.LARGE)
        if self._redacted.of(row[ADDRESS], is_large=is_large):
            self._chosen.redacted += 1
            return
        size = detail.body_bytes if is_large else event.body_bytes
        persistent = bool(row[FLAGS] & events.PERSISTENT)
        known = _Open(address, size, is_large, persistent, len(queues))
        if request.only:
            self._open[event.lsn] = known
        else:
            self._add(event.lsn, known)

    def _passes(self, event: Event, detail: details.RoutedDetail) -> bool:
        if self._filter is None:
            return True
        row = event.row
        message = Message(
            event.lsn, row[ADDRESS], row[PRIORITY], row[FLAGS], detail.expires, event.headers,
            event.body or b"",
        )  # fmt: skip
        try:
            return self._filter.matches(message)
        except UnknownFormat:
            return False

    def _decide(self, message: int, known: _Open) -> None:
        fates = known.fates
        if ACKNOWLEDGED not in fates:
            fates.add(NEVER_ACKNOWLEDGED)
        if fates.intersection(self._request.only):
            self._add(message, known)

    def _add(self, message: int, known: _Open) -> None:
        found = self._chosen
        at = bisect_left(self._excluded, message)
        if at < len(self._excluded) and self._excluded[at] == message:
            return
        found.messages.append(message)
        found.addresses[known.address] += 1
        found.bytes += known.body_bytes
        found.large += known.is_large


def is_copy(row: Row, headers: bytes) -> bool:
    """Return whether the broker made a message from another one, or it is a replay."""
    return row[REASON] != reasons.SENT or bool(replayed_from(row, headers))
