"""Following a message from broker to broker: back to where it began, and from there to all brokers
that got it.

Data flow: the trail in one journal says where the message came from; the other journals are
searched for what came from it. Must never know how events are found.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.events import CONSUMER, KIND, MESSAGE
from daybook.engine.facts.kinds import OF_ENTRIES, SAYING_CAME_FROM
from daybook.history import trail
from daybook.history.brokers.journals import CameFrom, Journal, Stop, arrival, by_id
from daybook.history.descriptions import kind_name
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.history.trail import NoSuchMessageError, Trail


class Leg(NamedTuple):
    """What happened to a message on one broker. `before` says where it came from, `behind` where it
    went without being seen again."""

    journal: Journal
    trail: Trail
    before: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


def follow(journals: Sequence[Journal], message: int) -> list[Leg]:
    """Follow a message of the first journal; its first leg is where it began. Raises
    SameBrokerError, and as `trail.follow`."""
    return _Journey(journals).from_its_beginning(journals[0], message)


class _Journey:
    def __init__(self, journals: Sequence[Journal]) -> None:
        self._journals: Final = journals
        self._by_id: Final = by_id(journals)
        self._trails: Final[dict[tuple[str, int], Trail]] = {}

    def _trail(self, journal: Journal, message: int) -> Trail:
        key = journal.data_id, message
        if key not in self._trails:
            self._trails[key] = trail.follow(journal.finder, message, journal.path)
        return self._trails[key]

    def from_its_beginning(self, journal: Journal, message: int) -> list[Leg]:
        """Return all legs, each behind the one that it came from."""
        journal, message, before = self._beginning(journal, message)
        waiting = deque([(journal, message, before)])
        seen: set[tuple[str, int]] = set()
        legs = []
        while waiting:
            journal, message, before = waiting.popleft()
            if (journal.data_id, message) in seen:
                continue
            told = self._trail(journal, message)
            seen |= {(journal.data_id, each) for each in told.messages}
            left = dict(_left(journal, told))
            behind = []
            for other, event, stop in self._arrivals(journal, left):
                left[stop.message] = ""
                words = f"came from message {stop.message} in {journal.path}"
                if event.row[MESSAGE]:
                    number = event.row[MESSAGE]
                    waiting.append((other, number, (f"message {number} {words}",)))
                else:
                    kind = kind_name(event.row[KIND])
                    behind.append(f"in {other.path} event {event.lsn}, {kind}, {words}")
            behind += [
                f"message {each} went to another broker {by}, and no journal that was named has it"
                for each, by in left.items()
                if by
            ]
            legs.append(Leg(journal, told, before, tuple(behind)))
        return legs

    def _beginning(self, journal: Journal, message: int) -> tuple[Journal, int, tuple[str, ...]]:
        """Return where a message began, as far as the journals know, and why not further."""
        seen: set[tuple[str, int]] = set()
        while (journal.data_id, message) not in seen:
            seen.add((journal.data_id, message))
            stop = next(filter(None, map(arrival, _events(self._trail(journal, message)))), None)
            if stop is None:
                break
            words = f"it came from message {stop.message} of the data directory {stop.data_id}"
            earlier = self._by_id.get(stop.data_id)
            if earlier is None:
                return journal, message, (f"{words}, which was not named",)
            try:
                self._trail(earlier, stop.message)
            except NoSuchMessageError as error:
                return journal, message, (f"{words} ({earlier.path}), which lacks it: {error}",)
            journal, message = earlier, stop.message
        return journal, message, ()

    def _arrivals(
        self, journal: Journal, left: dict[int, str]
    ) -> Iterator[tuple[Journal, Event, Stop]]:
        """Yield by which events of which journal messages came that left this one."""
        if not left:
            return
        for other in self._journals:
            found = Clause(SAYING_CAME_FROM, contents=CameFrom(journal.data_id, left))
            for event in other.finder.find(Search(found)):
                stop = arrival(event)
                assert stop is not None
                yield other, event, stop


def _events(told: Trail) -> Iterator[Event]:
    return (step.event for step in told.steps)


def _left(journal: Journal, told: Trail) -> Iterator[tuple[int, str]]:
    """Yield the messages of a trail that may be on other brokers, each with how it is known that
    it was accepted there, "" if that is not known."""
    for event in _events(told):
        row = event.row
        if row[KIND] == events.FORWARDED:
            yield row[MESSAGE], ""
        elif row[CONSUMER] and row[KIND] in OF_ENTRIES:
            name = journal.way_out(row[CONSUMER])
            if name is not None:
                is_known = row[KIND] == events.ACKNOWLEDGED and name
                yield row[MESSAGE], f"by link '{name}' (event {event.lsn})" if is_known else ""
