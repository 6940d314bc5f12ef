"""Collects all events of a message, of those it was made from, and of those made from it.

It folds only this family and the topology into a state, with the engine's own `apply`: so the
engine itself says what a restart did to a delivery in flight, and where the message is now.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from daybook.engine.facts import details, events, life
from daybook.engine.facts.events import (
    CONNECTION,
    KIND,
    MESSAGE,
    REASON,
    RELATED,
)
from daybook.engine.facts.kinds import LEAVING, TOPOLOGY, WITH_CHUNKS
from daybook.errors import DaybookError
from daybook.history.changes import Askers, is_after_a_crash
from daybook.history.contents import WithBody, WithHeader, check_is_there, found_messages
from daybook.history.descriptions import as_object, kind_name, reason_name, replay_of, sentence
from daybook.history.event_finder import EventFinder
from daybook.history.forwards import link_of, link_words, receivers_of, stored_of
from daybook.history.places import Consequence, Places
from daybook.history.scan import Event
from daybook.history.search import Clause, Search, Thing
from daybook.history.topology import Topology, things_of
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.catalogs.catalog_keys import subject_of
from daybook.recovery.signing.redaction import NOTHING, Redaction
from daybook.texts import counted

if TYPE_CHECKING:
    from daybook.history.initial_state import Beginning
    from daybook.recovery.signing.export_proof import Head

LINKS_MOST: Final = 20
"""A message to a direct address tells of so many of its links who they are."""
TRANSACTION_ENDS: Final = frozenset({events.TRANSACTION_COMMITTED})


class NoSuchMessageError(DaybookError):
    """There is no message with this id; the text says which event has it instead."""


def _is_new(event: Event) -> bool:
    """Whether the number of an event is the id of a message."""
    return event.row[KIND] in WITH_CHUNKS and event.row[MESSAGE] == event.lsn


class Lane(NamedTuple):
    """A message of the family in a queue."""

    message: int
    queue: str


class Step(NamedTuple):
    """One event with its sentence, its consequences, and where the family is after it. `is_crash`
    says that it is a start after a crash."""

    event: Event
    text: str
    told: dict[str, Any]
    consequences: tuple[Consequence, ...]
    transaction: str
    places: tuple[tuple[Lane, str], ...] = ()
    is_crash: bool = False


class Trail(NamedTuple):
    """A message's family in the order of their ids, their steps, and where each message is now.

    `missing` says where the beginning of the story is, if it left the journal. `ended` says that
    the story may continue elsewhere.
    """

    messages: tuple[int, ...]
    steps: tuple[Step, ...]
    now: tuple[tuple[int, str], ...]
    missing: str = ""
    ended: str = ""


def follow(finder: EventFinder, message: int, directory: Path) -> Trail:
    """Collect everything about a message in the journal of a data directory.

    With catalogs nothing else is read than what matters. Raises NoSuchMessageError, JournalError,
    and what reading the base raises.
    """
    disk = finder.disk
    missing_here = partial(missing_before, disk, directory)
    root, missing = _root(finder, message, missing_here)
    has_catalogs = finder.catalogs is not None
    teller = (
        _Asking(root, Topology(finder, partial(_beginning, directory, disk)))
        if has_catalogs
        else _Teller(root)
    )
    exported = _head_of(directory)
    if exported is not None:
        teller.redacted = exported.redaction()
    is_whole = first_lsn_of(disk) == 1
    if missing:
        start = _beginning(directory, disk, root)
        teller.folds = start.lsn > 0
    elif has_catalogs:
        teller.folds = is_whole or 0 < _base_lsn(directory, disk) < root
    else:
        start = _beginning(directory, disk, until=root - 1)
        teller.folds = is_whole or 0 < start.lsn < root
    if not teller.folds:
        missing = f"{missing or missing_here()}; an id without a name is shown like '#1'"
    elif missing:
        teller.begin(start)
    elif has_catalogs:
        teller.first_lsn = root
    else:
        teller.begin(start)
        # Of the message itself nothing was before.
        teller.first_lsn = start.lsn + 1
    told = teller.tell(finder)
    if missing and not told.steps and not teller.consumers():
        raise NoSuchMessageError(f"nothing is known of message {message}; {missing}")
    ended = f"the export ends with event {exported.to_lsn}" if exported is not None else ""
    return told._replace(missing=missing, ended=ended)


def follow_each(
    finder: EventFinder, contents: WithHeader | WithBody, directory: Path, from_lsn: int = 1
) -> Iterator[tuple[int, Trail | None]]:
    """Yield each message that contains something, in the order of the journal, with its family;
    with None if the family was there before.

    It may begin with a later message: families with an earlier one that contains it were there
    before. Raises LeftOutError, and as `follow`.
    """
    check_is_there(directory, contents)
    met: set[int] = set()
    for message in found_messages(finder, contents, from_lsn):
        if message in met:
            yield message, None
            continue
        told = follow(finder, message, directory)
        met.update(told.messages)
        earlier = (each for each in told.messages if each < from_lsn)
        was_there = any(_contains(finder, contents, each) for each in earlier)
        yield message, None if was_there else told


def _contains(finder: EventFinder, contents: WithHeader | WithBody, message: int) -> bool:
    """Whether a message contains something."""
    return message in found_messages(finder, contents, message, message)


def _head_of(directory: Path) -> "Head | None":
    from daybook.recovery.signing.export_proof import head_of  # noqa: PLC0415 (slow to import)

    return head_of(directory)


def _base_lsn(directory: Path, disk: Disk) -> int:
    from daybook.history.initial_state import base_lsn  # noqa: PLC0415 (slow to import)

    return base_lsn(directory, disk)


def _root(finder: EventFinder, message: int, missing_here: Callable[[], str]) -> tuple[int, str]:
    """Return the first message of the family, following each message to the one it was made from.

    Also return a text about its beginning, if that left the journal.
    """
    event = finder.at(message)
    if event is None and message < first_lsn_of(finder.disk):
        return message, missing_here()
    if event is None:
        raise NoSuchMessageError(f"the journal has no event {message}, so no message has that id")
    row = event.row
    if row[KIND] == events.FORWARDED and not stored_of(row, event.detail):
        return message, ""
    if not _is_new(event):
        hint = f"; it is about message {row[MESSAGE]}" if row[MESSAGE] else ""
        raise NoSuchMessageError(
            f"there is no message {message}: the id of a message is the LSN of its Routed event "
            f"or of its Forwarded, and event {message} is {kind_name(row[KIND])}{hint}"
        )
    while row[RELATED]:
        earlier = finder.at(row[RELATED])
        if earlier is None:
            return row[MESSAGE], missing_here() if row[RELATED] < first_lsn_of(finder.disk) else ""
        if earlier.row[KIND] != events.ROUTED:
            break
        row = earlier.row
    return row[MESSAGE], ""


def _beginning(directory: Path, disk: Disk, message: int = 0, *, until: int = 0) -> "Beginning":
    from daybook.history.initial_state import beginning  # noqa: PLC0415 (slow to import)

    return beginning(directory, disk, [message] if message else [], until=until)


def missing_before(disk: Disk, directory: Path) -> str:
    """Say where the history before a journal is; "" if the journal has its first event."""
    if first_lsn_of(disk) == 1:
        return ""
    from daybook.history.initial_state import what_is_missing  # noqa: PLC0415 (slow to import)

    return what_is_missing(directory, disk)


class _Teller(Places):
    """Reads the journal once, from `first_lsn` on because of names, and collects the family's
    steps, until the whole family has left all queues."""

    def __init__(self, root: int) -> None:
        super().__init__()
        self.root = root
        self.first_lsn = 1
        self.family: Final = {root: None}
        self.steps: list[Step] = []
        self.in_transaction: dict[int, str] = {}
        self.redacted: Redaction = NOTHING
        self.search = Search()
        self._finder: EventFinder | None = None
        self._askers: Askers | None = None

    def tell(self, finder: EventFinder) -> Trail:
        """Read, and return the trail. Raises JournalError."""
        self._finder = finder
        self._askers = Askers(finder)
        family = self.family.keys()
        # The block with a copy has an event of its original, and a transaction is in one block with
        # its commit.
        beside = Clause({events.ROUTED}, related=family), Clause(TRANSACTION_ENDS)
        forwarded = Clause({events.FORWARDED}, related=family)
        self.search = Search(
            Clause(messages=family), forwarded, self.topology(),
            from_lsn=self.first_lsn, aside=beside,
        )  # fmt: skip
        for block in finder.blocks(self.search):
            count = len(self.steps)
            for event in self.search.events_in(block):
                self.look_at(event)
            if len(self.steps) > count and self._is_gone(block.last_lsn):
                break
        steps = [
            step._replace(transaction=self.in_transaction.get(step.event.lsn, ""))
            for step in self._told_steps()
        ]
        return Trail(tuple(self.family), tuple(steps), tuple(self._now()))

    def _told_steps(self) -> Iterator[Step]:
        """Yield the steps; a crash without a consequence only between two deliveries: it may have
        lost an answer of the client, which is why the message came twice."""
        delivered = [
            step.event.lsn for step in self.steps if step.event.row[KIND] == events.DELIVERED
        ]
        for step in self.steps:
            is_bare = step.is_crash and not step.consequences
            if not is_bare or step.event.lsn < delivered[-1]:
                yield step

    def _is_gone(self, lsn: int) -> bool:
        """Whether the family has left all queues, so that no event after this one is about it.

        Whatever becomes of a message begins with an entry in a queue, and what a command decides is
        in one block.
        """
        is_known = self.folds and lsn > self.folded_lsn
        return is_known and not self.forwards.are_open and next(self.entries(), None) is None

    def topology(self) -> Clause:
        """Return the events to look for besides those of the family."""
        return Clause(TOPOLOGY)

    def look_at(self, event: Event) -> None:
        """Take an event; a copy joins the family with its Routed event."""
        message = event.row[MESSAGE]
        if _is_new(event) and message not in self.family:
            self.family[message] = None
            self.search.version += 1
        self._take(event)

    def _take(self, event: Event) -> None:
        kind = event.row[KIND]
        if kind in TRANSACTION_ENDS:
            if event.lsn > self.folded_lsn:
                self._end_transaction(event)
            return
        is_crash = self._finder is not None and is_after_a_crash(self._finder, event)
        consequences = self.take(event)
        if consequences or kind not in TOPOLOGY or (is_crash and self._may_come_again(event.lsn)):
            self._add_step(event, consequences, is_crash=is_crash)

    def _may_come_again(self, lsn: int) -> bool:
        """Whether the family has a message in a queue, after an event, and was delivered before."""
        is_there = lsn > self.folded_lsn and next(self.entries(), None) is not None
        return is_there and bool(self.deliveries)

    def _add_step(self, event: Event, consequences: list[Consequence], *, is_crash: bool) -> None:
        text = sentence(event, self.names, self.redacted, is_crash=is_crash)
        told = as_object(event, self.names, self.redacted)
        places = tuple(
            (Lane(message, queue.name), entry.place) for message, queue, entry in self.entries()
        )
        asked = self._askers.words(event) if self._askers is not None else ""
        more = (*replay_of(event), *self._of(event), *filter(None, [asked]))
        told_too = (*consequences, *map(Consequence, more))
        self.steps.append(Step(event, text, told, told_too, "", places, is_crash))

    def _of(self, event: Event) -> Iterator[str]:
        """Yield who the links are by which a message to a direct address came and went."""
        if event.row[KIND] == events.FORWARDED and self._finder is not None:
            links = link_of(event.row, event.detail), *receivers_of(event.row, event.detail)
            for link in filter(None, links[:LINKS_MOST]):
                begun = self._finder.at(link)
                if begun is not None and begun.row[KIND] == events.LINK_ATTACHED:
                    yield link_words(begun)

    def _end_transaction(self, event: Event) -> None:
        """Record which steps the transaction made, if any."""
        decoded = cast(
            details.TransactionDetail, events.decode_detail(event.row[KIND], event.detail)
        )
        for step in reversed(self.steps):
            if step.event.lsn < decoded.first:
                return
            self.in_transaction[step.event.lsn] = (
                f"'{decoded.transaction}' of connection {event.row[CONNECTION]}, "
                f"committed by event {event.lsn}"
            )

    def _standing(self, queue_id: int, message: int) -> str:
        return self.state.queues[queue_id].entries[message].place

    def _now(self) -> Iterator[tuple[int, str]]:
        """Return where each message of the family is, or how it left."""
        places = self.consumers()
        for message in self.family if self.folds else ():
            words = [
                f"in flight to {consumer} from queue '{queue}'"
                if consumer
                else f"{self._standing(queue_id, message)} in queue '{queue}', "
                + counted(
                    self.state.queues[queue_id].entries[message].delivery_count, "counted attempt"
                )
                for (each, queue_id), (queue, consumer) in places.items()
                if each == message
            ]
            words += [*self._departures(message), *self.dropped.get(message, [])]
            words += self.forwards.words(message)
            yield message, "; ".join(words) or "in no queue"
        for message in () if self.folds else self.family:
            words = [*self._departures(message), *self._last_seen(message)]
            words += self.forwards.words(message)
            yield message, "; ".join(words) or "is not mentioned"

    def _last_seen(self, message: int) -> Iterator[str]:
        """Yield the last event of a message in each queue that it is not known to have left."""
        for (each, queue_id), event in self.last.items():
            if each == message and event.row[KIND] not in LEAVING:
                yield (
                    f"last seen in queue '{self.names.queue(queue_id)}' by event {event.lsn}: "
                    f"{kind_name(event.row[KIND])}"
                )

    def _departures(self, message: int) -> Iterator[str]:
        for (each, queue_id), event in self.last.items():
            if each == message and event.row[KIND] in LEAVING:
                reason = reason_name(event.row[REASON])
                yield (
                    f"left queue '{self.names.queue(queue_id)}' with event {event.lsn}: "
                    f"{kind_name(event.row[KIND])}" + (f" ({reason})" if reason else "")
                )


class _Asking(_Teller):
    """Reads the blocks that catalogs name, and learns of the topology what the family meets."""

    def __init__(self, root: int, topology: Topology) -> None:
        super().__init__(root)
        self._topology: Final = topology
        self._known: Final[set[Thing]] = {(life.BROKER, 0)}

    def begin(self, start: "Beginning") -> None:
        """As `Places.begin`, without what the family does not meet."""
        for event in start.events:
            if subject_of(event.row) is None:
                self._meet(event, start.lsn)
                self.apply(event)
        for message, queue_id, count in start.counts:
            self.state.queues[queue_id].entries[message].delivery_count = count
        self.folded_lsn = start.lsn

    def topology(self) -> Clause:
        """As `_Teller.topology`."""
        return Clause(things=self._known)

    def look_at(self, event: Event) -> None:
        """As `_Teller.look_at`."""
        if event.row[MESSAGE]:
            self._meet(event, event.lsn)
        super().look_at(event)

    def _meet(self, event: Event, until: int) -> None:
        """Learn of what an event refers to, as of an event."""
        for thing in things_of(event):
            if thing in self._known:
                continue
            self._known.add(thing)
            self.search.version += 1
            for each in self._topology.of(thing, until):
                self._meet(each, each.lsn or until)
                self.names.learn(each.row, each.detail)
                self.apply(each)
                self.names.forget(each.row)


def step_object(step: Step) -> dict[str, Any]:
    """Return a step for programs: its event, and what the trail adds to it."""
    return step.told | {
        "text": step.text,
        "is_crash": step.is_crash,
        "consequences": [each.text for each in step.consequences],
        "transaction": step.transaction or None,
    }
