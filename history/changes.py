"""The changes between two moments: of addresses, queues, diverts and settings, in their order, and
who asked for each of them, and for any other event.

Comparing two states does not show what was changed and changed back, nor that the broker stopped or
crashed, which ends consumers and connections. Must never know how a change is shown.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from daybook.engine.facts import details, events, life, reasons
from daybook.engine.facts.events import ADDRESS, BY_NUMBER, KIND, REASON, RELATED, TIME
from daybook.engine.facts.kinds import ENDING_A_SOURCE, OF_CHANGES, TURNS, changing
from daybook.engine.facts.kinds import names as names_of
from daybook.history.descriptions import (
    changed_by,
    equal_requests,
    is_equal_request,
    kind_name,
    reason_name,
    sentence,
    who,
)
from daybook.history.event_finder import EventFinder
from daybook.history.moments import newest_lsn
from daybook.history.names import Names
from daybook.history.scan import Event
from daybook.history.search import Clause, Search, Thing
from daybook.history.selection import Question, begun
from daybook.history.topology import Topology
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.catalogs.catalog_keys import subject_of
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.tables.tables import IndexDamaged

if TYPE_CHECKING:
    from daybook.history.initial_state import Beginning

CHANGES_MAX: Final = 1000
"""How many changes are listed; `journal inspect` shows all."""

DROPPED_MAX: Final = 100_000
"""How many messages that were dropped are counted."""

UPDATES: Final = changing({life.ADDRESS, life.QUEUE}, {life.CHANGES})
"""Kinds by which attributes of queues and addresses change."""
_OF_THE_BROKER: Final = frozenset(names_of(TURNS))
"""The names of the kinds by which a broker starts and stops, which no request changes."""
THINGS_MAX: Final = 1_000
"""Of how many queues and addresses the changes are kept in memory."""
EVENTS_MAX: Final = 100 * CHANGES_MAX
"""How many events of changes and requests are read for a list."""
PART_MOST: Final = 20_000
"""A part of a request has so many events at most."""


def changes(directory: Path, finder: EventFinder, after: int, until: int) -> dict[str, Any]:
    """Return the changes after one event and until another, and the starts and stops of the broker,
    the first ones, and whether there are more. `is_crash` says that a start follows a crash. Equal
    requests that follow each other are one, with their `count` and the last of them. Raises
    JournalError, StoreError and OSError."""
    question = Question(from_lsn=after + 1, to_lsn=until, kinds=OF_CHANGES | TURNS)
    inspection = begun(directory, finder, question, reads_names=False, note=lambda _: None)
    rows: list[dict[str, Any]] = []
    former = Former(finder, directory)
    before: Event | None = None
    count = 0
    for event in islice(inspection.events(), EVENTS_MAX):
        count += 1
        if before is not None and is_equal_request(before, event):
            number = rows[-1]["count"] + 1
            rows[-1] |= {
                "last_lsn": event.lsn, "last_time": event.row[TIME], "count": number,
                "text": equal_requests(before, event, number),
            }  # fmt: skip
            continue
        before = None
        if len(rows) > CHANGES_MAX:
            break
        if event.row[KIND] == events.ADMINISTERED and (
            _claim(rows, event) or event.row[RELATED] <= after
        ):
            continue
        is_crash = is_after_a_crash(finder, event)
        previous = former.before(event)
        text = sentence(event, inspection.names, before=previous, is_crash=is_crash)
        rows.append(
            {
                "lsn": event.lsn, "time": event.row[TIME], "kind": kind_name(event.row[KIND]),
                "text": text, "is_crash": is_crash, "by": _maker(event, inspection.names),
                "last_lsn": event.lsn, "last_time": event.row[TIME], "count": 1,
            }
        )  # fmt: skip
        before = event
    last = request_of(finder, until) if rows else None
    if last is not None:
        _claim(rows, last)
    has_more = len(rows) > CHANGES_MAX or count == EVENTS_MAX
    return {"changes": rows[:CHANGES_MAX], "more_changes": has_more}


def _maker(event: Event, names: Names) -> str | None:
    """Return who made a change, as far as its event says it."""
    if event.row[KIND] == events.ADMINISTERED:
        return asker_of(event)
    return who(event.row, names) or None


def is_after_a_crash(finder: EventFinder, event: Event) -> bool:
    """Whether an event is the start of a broker, and the one before it was killed, or its machine
    failed.

    A clean stop is the last event of a broker. In a copy of a data directory, and where events were
    lost by damage, nothing says how the broker before ended.
    """
    if event.row[KIND] != events.BROKER_STARTED:
        return False
    before = None
    # Readers of the events before report damage there; this start can be read.
    with suppress(JournalError):
        before = finder.at(event.lsn - 1) if event.lsn > FIRST_LSN else None
    if before is None or before.row[KIND] in ENDING_A_SOURCE:
        return False
    return before.row[KIND] != events.BROKER_STOPPED


def dropped(directory: Path, finder: EventFinder, after: int, until: int) -> dict[str, Any]:
    """Return how many messages were dropped at each address after one event and until another, for
    each reason, and whether there are more than were counted. Raises as `changes`."""
    question = Question(from_lsn=after + 1, to_lsn=until, kinds=frozenset({events.DROPPED}))
    inspection = begun(directory, finder, question, reads_names=False, note=lambda _: None)
    counts: Counter[tuple[str, int]] = Counter()
    for event in islice(inspection.events(), DROPPED_MAX + 1):
        counts[inspection.names.address(event.row[ADDRESS]), event.row[REASON]] += 1
    rows = [
        {"address": address, "reason": reason_name(reason), "messages": count}
        for (address, reason), count in sorted(counts.items())
    ]
    return {"dropped": rows, "more_dropped": counts.total() > DROPPED_MAX}


def _claim(rows: list[dict[str, Any]], event: Event) -> bool:
    """Say who asked for the changes of a request; return whether there are any."""
    by = asker_of(event)
    claimed = [
        row
        for row in rows
        if row["lsn"] >= event.row[RELATED] and row["kind"] not in _OF_THE_BROKER
    ]
    for row in claimed:
        row["by"] = by
    return bool(claimed)


def request_of(finder: EventFinder, lsn: int) -> Event | None:
    """Return the Administered that covers an event, None if nobody asked for it. Raises
    JournalError."""
    event = _first_administered(finder, lsn, lsn + PART_MOST)
    return event if event is not None and event.row[RELATED] <= lsn else None


def _first_administered(finder: EventFinder, begin: int, end: int) -> Event | None:
    """Return the first Administered from one event until another. Raises JournalError."""
    clause = Clause({events.ADMINISTERED})
    return next(finder.find(Search(clause, from_lsn=begin, to_lsn=end)), None)


def asker_of(event: Event) -> str:
    """Return the administrator of an Administered."""
    detail = cast(details.AdministeredDetail, events.decode_detail(event.row[KIND], event.detail))
    return detail.by


class Former:
    """Finds the values that changes of queues, addresses and settings replaced. Changes of settings
    are asked about in the order of the journal, without a gap."""

    def __init__(self, finder: EventFinder, directory: Path) -> None:
        self._finder: Final = finder
        self._topology: Final = Topology(finder, partial(_beginning, directory, finder))
        self._attributes: Final[dict[Thing, tuple[int, list[tuple[int, dict[str, Any]]]]]] = {}
        self._settings: Event | None = None

    def before(self, event: Event) -> dict[str, Any] | None:
        """Return the values before an event, by the fields of its detail; None if it changes none,
        or if they are not known. Raises JournalError, and what reading the base raises."""
        if event.row[KIND] == events.SETTINGS_CHANGED:
            return self._settings_before(event)
        if event.row[KIND] in UPDATES:
            return self._attributes_before(event)
        return None

    def _attributes_before(self, event: Event) -> dict[str, Any] | None:
        thing = subject_of(event.row)
        assert thing is not None
        until, known = self._attributes.get(thing, (0, []))
        if event.lsn > until:
            until = max(event.lsn, newest_lsn(self._finder))
            known = list(_attributes(self._of(thing, until)))
            if len(self._attributes) >= THINGS_MAX:
                self._attributes.clear()
            self._attributes[thing] = until, known
        place = bisect_left(known, event.lsn, key=lambda each: each[0])
        return known[place - 1][1] if place else None

    def _of(self, thing: Thing, until: int) -> list[Event]:
        try:
            return self._topology.of(thing, until)
        except (BaseDamaged, IndexDamaged):
            # The reader of the names of this journal said already that a part is missing.
            return []

    def _settings_before(self, event: Event) -> dict[str, Any] | None:
        before = self._settings
        if before is None or before.lsn >= event.lsn:
            search = Search(Clause({events.SETTINGS_CHANGED}), to_lsn=event.lsn - 1)
            before = next(self._finder.find_back(search), None)
        self._settings = event
        if before is not None:
            return _values(before)
        return {} if first_lsn_of(self._finder.disk) == FIRST_LSN else None


def _attributes(changes: Iterable[Event]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the attributes of a queue or an address after each of its changes."""
    values: dict[str, Any] = {}
    for event in changes:
        if event.row[KIND] in UPDATES:
            decoded = events.decode_detail(event.row[KIND], event.detail)
            fields = changed_by(decoded)
            values = values | {name: getattr(decoded, name) for name in fields}
        elif BY_NUMBER[event.row[KIND]].change == life.BEGINS:
            values = _values(event)
        yield event.lsn, values


def _values(event: Event) -> dict[str, Any]:
    """Return all fields of the detail of an event."""
    decoded = events.decode_detail(event.row[KIND], event.detail)
    assert decoded is not None
    return {name: getattr(decoded, name) for name in decoded.__struct_fields__}


def _beginning(directory: Path, finder: EventFinder) -> "Beginning":
    from daybook.history.initial_state import beginning  # noqa: PLC0415 (slow to import)

    return beginning(directory, finder.disk)


class Askers:
    """Finds the administrators behind events; those of one request, in the order of the journal,
    are looked up once, and so are events that nobody asked for."""

    def __init__(self, finder: EventFinder, *, grows: bool = False) -> None:
        """`grows`: the journal may get events while this is used."""
        self._finder: Final = finder
        self._grows: Final = grows
        self._from = 0
        self._until = 0
        self._found: Event | None = None
        """The first Administered from the one event until the other."""

    def words(self, event: Event) -> str:
        """Return which administrator asked for an event, "" if none did. Raises JournalError."""
        if event.row[REASON] != reasons.ADMINISTRATION:
            return ""
        found = self._first_from(event.lsn)
        if found is None or found.row[RELATED] > event.lsn:
            return ""
        return f"{asker_of(found)} asked for it, by event {found.lsn}"

    def _first_from(self, lsn: int) -> Event | None:
        """Return the first Administered from an event on, None if it covers no part of one."""
        found = self._found
        if found is not None and self._from <= lsn <= found.lsn:
            return found
        begin = lsn
        if found is None and self._from <= lsn <= self._until and not self._grows:
            if lsn + PART_MOST <= self._until:
                return None
            begin = self._until + 1
        self._from, self._until = lsn, begin + PART_MOST
        self._found = _first_administered(self._finder, begin, self._until)
        return self._found
