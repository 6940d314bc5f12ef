"""Judges histories, retained messages and what new queues get of them, for the referee.

A part of `tests.support.referee`, with the same rules: it knows events, and no broker.
"""

from typing import TYPE_CHECKING

import msgspec

from daybook.engine.facts import events, reasons
from daybook.engine.names.syntax import syntax_of
from tests.support.shelves import READY, Shelf
from tests.support.world import Event

if TYPE_CHECKING:
    from tests.support.referee import Referee

RETAINED = "$.artemis.internal.retained"


def is_for_retained(shelf: Shelf) -> bool:
    """Whether it has the retained messages of a virtual host."""
    return bool(shelf.definition.name.rpartition("::")[2] == RETAINED)


class Keepers:
    """What the broker keeps for queues to come."""

    def __init__(self, referee: "Referee") -> None:
        self.referee = referee
        self.syntaxes: dict[int, str] = {}
        # By queue: the last event before it was created.
        self.before: dict[int, int] = {}

    def take(self, event: Event) -> None:
        """Judge an event."""
        match event.name:
            case "AddressCreated":
                self.syntaxes[event.row[events.ADDRESS]] = event.decoded.syntax
            case "AddressDeleted":
                self._address_deleted(event)
            case "QueueCreated":
                self.before[event.row[events.QUEUE]] = event.lsn - 1
            case "Routed":
                self._routed(event)
            case "RecallStarted":
                self._recall_started(event)
            case "RecallEnded":
                self._shelf(event).is_recalling = False
            case "Recalled":
                self._recalled(event)
            case "Removed" if event.reason == reasons.FORGOTTEN:
                is_right = is_for_retained(self._shelf(event))
                self.referee.expect(is_right, "is forgotten where nothing is retained", event)

    def _shelf(self, event: Event) -> Shelf:
        return self.referee.queues[event.row[events.QUEUE]]

    def retained(self) -> list[Shelf]:
        """The shelves of the retained messages, one for each virtual host."""
        return [each for each in self.referee.queues.values() if is_for_retained(each)]

    def _routed(self, event: Event) -> None:
        """What is retained is a message to a topic, and its key is its address."""
        queues = event.decoded.queues or (event.row[events.QUEUE],)
        for shelf in self.retained():
            if shelf.id not in queues:
                continue
            key = event.decoded.last_values.get(shelf.id)
            self.referee.expect(key == str(event.row[events.ADDRESS]), f"has the key {key}", event)
            kinds = (reasons.SENT, reasons.HISTORY_ONLY)
            self.referee.expect(event.reason in kinds, "is retained, and nobody sent it", event)

    def _address_deleted(self, event: Event) -> None:
        items = [item for shelf in self.retained() for item in shelf.items.values()]
        left = [item for item in items if item.key == str(event.row[events.ADDRESS])]
        self.referee.expect(not left, f"leaves retained messages behind: {left}", event)

    def _recall_started(self, event: Event) -> None:
        shelf = self._shelf(event)
        shelf.is_recalling = True
        until = event.decoded.until
        self.referee.expect(until <= event.lsn - 1, "recalls what is to come", event)
        if event.decoded.retained:
            is_topic = shelf.definition.routing_type == "multicast"
            self.referee.expect(is_topic, "retained messages are for topics", event)

    def _recalled(self, event: Event) -> None:
        """What a history has enters a new queue, once, as it is there."""
        row = event.row
        message = row[events.MESSAGE]
        shelf = self._shelf(event)
        kept = self.referee.queues[event.decoded.history]
        found = kept.items.get(message)
        self.referee.expect(found is not None, "is not kept any more", event)
        self.referee.expect(kept.is_history, "comes from no history", event)
        self.referee.expect(shelf.is_recalling, "comes to a queue that has all", event)
        self.referee.expect(message not in shelf.items, "is there twice", event)
        self.referee.expect(message <= self.before[shelf.id], "was sent to the queue", event)
        if is_for_retained(kept):
            self._check_fits(event, shelf)
        assert found is not None
        item = msgspec.structs.replace(
            found, where=READY, count=0, consumer=0, owes_delay=False, readers=set(), key=None
        )
        item.key = event.decoded.last_values.get(shelf.id)
        shelf.items[message] = item

    def _check_fits(self, event: Event, shelf: Shelf) -> None:
        """It was sent to the address of the queue, or perhaps to one that the pattern matches."""
        if event.row[events.ADDRESS] == shelf.address:
            return
        syntax = syntax_of(self.syntaxes.get(shelf.address, ""))
        is_pattern = syntax.is_pattern(self.referee.names[shelf.address])
        self.referee.expect(is_pattern, "was retained at another address", event)
