"""The journals of several brokers, and what ties them together: the stops of their messages.

An event says by `came_from` which message of which data directory a message was before. Must never
know what is asked.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import KIND
from daybook.engine.facts.kinds import SAYING_CAME_FROM
from daybook.errors import DaybookError
from daybook.history.event_finder import EventFinder
from daybook.history.scan import Event, Picker
from daybook.history.search import Uncatalogued
from daybook.journal.blocks.block import Block
from daybook.journal.segments.segment import first_lsn_of, open_segment, segment_names

_FIELD: Final = b"came_from"


class SameBrokerError(DaybookError):
    """Two of the directories are of one broker; the text names them."""


class Stop(NamedTuple):
    """A message on a broker, before it left for another one. A queue kept it if it `is_stored`."""

    data_id: str
    message: int
    is_stored: bool


def stop_of(text: str) -> Stop | None:
    """Return a stop that an event names; None for none, and for other text."""
    data_id, _, rest = text.partition("/")
    message, _, place = rest.partition("/")
    if not message.isdecimal():
        return None
    return Stop(data_id, int(message), place.startswith("q"))


def arrival(event: Event) -> Stop | None:
    """Return what a message was before it came with an event; None if it came from no broker."""
    if event.row[KIND] not in SAYING_CAME_FROM or _FIELD not in event.detail:
        return None
    decoded = cast(details.RoutedDetail, events.decode_detail(event.row[KIND], event.detail))
    return stop_of(decoded.came_from)


def traced_link(event: Event) -> str | None:
    """Return the name of the link that begins with an event, and by which messages leave for
    another broker; None if none does."""
    kind = event.row[KIND]
    if kind == events.CONSUMER_ATTACHED:
        consumer = cast(details.ConsumerAttachedDetail, events.decode_detail(kind, event.detail))
        return consumer.subscription if consumer.traced else None
    if kind == events.LINK_ATTACHED:
        link = cast(details.LinkAttachedDetail, events.decode_detail(kind, event.detail))
        return link.name if link.traced else None
    return None


class CameFrom(Uncatalogued):
    """Events by which one of some messages came, as a condition of searches."""

    def __init__(self, data_id: str, messages: Iterable[int]) -> None:
        self._messages: Final = frozenset(messages)
        self._data_id: Final = data_id
        self._raw: Final = [f"{data_id}/{each}/".encode() for each in self._messages]

    def may_have(self, block: Block, picker: Picker) -> bool:
        """As `Contents.may_have`."""
        found = picker.details()
        return any(each in found for each in self._raw)

    def is_in(self, event: Event) -> bool:
        """As `Contents.is_in`."""
        stop = arrival(event)
        return stop is not None and stop.data_id == self._data_id and stop.message in self._messages


class Journal:
    """The journal of a data directory. `data_id` is the id that its messages carry now, `ids` are
    all of its history: a fork begins with that of another directory."""

    def __init__(self, path: Path, finder: EventFinder) -> None:
        """Read the ids. Raises JournalError and OSError."""
        self.path: Final = path
        self.finder: Final = finder
        found = []
        for name in segment_names(finder.disk):
            segment = open_segment(finder.disk, name)
            segment.close()
            found.append(segment.header.data_id.hex())
        self.ids: Final = tuple(dict.fromkeys(reversed(found)))
        self.data_id: Final = self.ids[0] if self.ids else ""

    @property
    def first_lsn(self) -> int:
        """The first event that it has."""
        return first_lsn_of(self.finder.disk)

    def way_out(self, taker: int) -> str | None:
        """Return the name of the link by which a consumer takes messages to another broker; None if
        it does not, "" if the journal does not know it any more."""
        begun = self.finder.at(taker)
        if begun is None:
            return ""
        return traced_link(begun)


def by_id(journals: Sequence[Journal]) -> dict[str, Journal]:
    """Return journals by all their ids; one that is of two is of the one that has it now. Raises
    SameBrokerError."""
    found: dict[str, Journal] = {}
    for journal in journals:
        other = found.setdefault(journal.data_id, journal)
        if other is not journal:
            raise SameBrokerError(
                f"{other.path} and {journal.path} have the same id, {journal.data_id}: they are of"
                " one broker; name one of them"
            )
    for journal in journals:
        for each in journal.ids:
            found.setdefault(each, journal)
    return found
