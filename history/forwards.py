"""What became of messages to direct addresses: which receivers got one, and how each of them ended
it.

No queue has such a message, so its own events say all, but for a restart, which has none about it.
"""

from collections.abc import Iterator
from typing import Final, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import CONSUMER, KIND, MESSAGE, REASON, RELATED, Row
from daybook.engine.facts.kinds import NAMING_DIRECT
from daybook.engine.facts.reasons import REASONS
from daybook.history.scan import Event, Picker
from daybook.history.search import Uncatalogued
from daybook.journal.blocks.block import Block

_NOBODY: Final = 0
"""In the place of a receiver, if there was none."""


def receivers_of(row: Row, detail: bytes) -> tuple[int, ...]:
    """Return who got a message, from its Forwarded."""
    if row[CONSUMER]:
        return (row[CONSUMER],)
    return _decoded(detail).receivers


def stored_of(row: Row, detail: bytes) -> int:
    """Return the message of a queue that a Forwarded is of; 0 if none had it."""
    return row[RELATED] if _decoded(detail).link else 0


def link_of(row: Row, detail: bytes) -> int:
    """Return the link that a message came by, 0 for none, from its Forwarded."""
    return _decoded(detail).link or row[RELATED]


def _decoded(detail: bytes) -> details.ForwardedDetail:
    return cast(details.ForwardedDetail, events.decode_detail(events.FORWARDED, detail))


def address_of(event: Event) -> str:
    """Return the direct address that an event of OF_LINKS names, "" if it names none."""
    if event.row[KIND] not in NAMING_DIRECT:
        return ""
    decoded = events.decode_detail(event.row[KIND], event.detail)
    return cast("details.LinkAttachedDetail | details.ForwardedDetail", decoded).address


class AtDirect(Uncatalogued):
    """Events that name a direct address, as a condition of searches."""

    def __init__(self, name: str) -> None:
        self._name: Final = name

    def may_have(self, block: Block, picker: Picker) -> bool:
        """As `Contents.may_have`."""
        return True

    def is_in(self, event: Event) -> bool:
        """As `Contents.is_in`."""
        return address_of(event) == self._name


class Forwards:
    """The deliveries of messages: by message and receiver, how one ended; "" if it has not."""

    def __init__(self) -> None:
        self._ends: Final[dict[int, dict[int, str]]] = {}

    def take(self, event: Event) -> None:
        """Take the next event."""
        row = event.row
        if row[KIND] == events.FORWARDED:
            ends = dict.fromkeys(receivers_of(row, event.detail), "")
            self._ends[row[MESSAGE]] = ends or {_NOBODY: "went to no receiver"}
        elif row[KIND] == events.FORWARD_SETTLED:
            reason = REASONS.get(row[REASON], (str(row[REASON]),))[0]
            words = f"ended at link {row[CONSUMER]} with event {event.lsn}: {reason}"
            self._ends.setdefault(row[MESSAGE], {})[row[CONSUMER]] = words

    def restart(self, lsn: int) -> Iterator[tuple[int, str]]:
        """End what is open by the start of the broker; yield the messages, and what it did."""
        for message, ends in self._ends.items():
            for link in [each for each, end in ends.items() if not end]:
                ends[link] = f"ended with link {link}, by the restart (event {lsn})"
                yield (
                    message,
                    f"message {message}, in flight to link {link}, is gone: the restart ended both",
                )

    @property
    def are_open(self) -> bool:
        """Whether a delivery has not ended."""
        return any(not end for ends in self._ends.values() for end in ends.values())

    def words(self, message: int) -> Iterator[str]:
        """Yield where a message is, or how it ended, for each receiver."""
        for link, end in self._ends.get(message, {}).items():
            yield end or f"in flight to link {link}"


def link_words(event: Event) -> str:
    """Return who a link is, from its LinkAttached."""
    decoded = cast(
        details.LinkAttachedDetail, events.decode_detail(events.LINK_ATTACHED, event.detail)
    )
    name = f" '{decoded.name}'" if decoded.name else ""
    place = f"of address '{decoded.address}'" if decoded.address else "without an address"
    if decoded.phase:
        place += f" at phase {decoded.phase}"
    if decoded.auto_link:
        place += f" by auto-link '{decoded.auto_link}'"
    if decoded.is_fallback:
        place += " with fallback"
    return (
        f"link {event.lsn}{name} is a {decoded.role} {place}, "
        f"of connection {event.row[events.CONNECTION]}"
    )
