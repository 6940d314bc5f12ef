"""Judges what browsers are shown, for the referee: everything in its order, once, and nothing else.

A part of `tests.support.referee`, with the same rules: it knows events, and no broker.
"""

from typing import TYPE_CHECKING, Any

from daybook.engine.facts import events, reasons
from daybook.engine.facts.life import IN_FLIGHT, READY
from tests.support.world import Event

if TYPE_CHECKING:
    from tests.support.referee import Referee
    from tests.support.shelves import Item, Shelf


def is_choosy(consumer: Any) -> bool:
    """Whether a consumer, by its detail, does not want every message of its queue."""
    return bool(consumer.filter or consumer.first)


class Readers:
    """The browsers of a journal: by id, the queue and the detail of each, and what it was shown."""

    def __init__(self, referee: "Referee") -> None:
        self.referee = referee
        self.browsers: dict[int, tuple[int, Any, set[int]]] = {}
        self.priorities: dict[int, int] = {}
        # Messages that were set aside for a time: they may come late, and twice.
        self.aside: set[int] = set()

    def take(self, event: Event) -> bool:
        """Judge an event; return whether it was about a browser alone."""
        row = event.row
        consumer = row[events.CONSUMER]
        match event.name:
            case "Routed":
                self.priorities[row[events.MESSAGE]] = row[events.PRIORITY]
                if event.decoded.due:
                    self.aside.add(row[events.MESSAGE])
            case "Scheduled" | "Held":
                self.aside.add(row[events.MESSAGE])
            case "BrokerStarted":
                self.browsers.clear()
            case "QueueDeleted":
                left = [each for each in self.browsers.values() if each[0] == row[events.QUEUE]]
                self.referee.expect(not left, f"leaves browsers behind: {left}", event)
            case "ConsumerAttached" if event.decoded.browses:
                self.browsers[consumer] = row[events.QUEUE], event.decoded, set()
                return True
            case "ConsumerDetached" if consumer in self.browsers:
                self._detached(event, consumer)
                return True
            case "Shown" if consumer in self.browsers:
                self._shown(event, consumer)
                return True
            case "Delivered" | "Acknowledged" | "Returned":
                self.referee.expect(consumer not in self.browsers, "is of a browser", event)
        return False

    def _detached(self, event: Event, consumer: int) -> None:
        queue, detail, shown = self.browsers.pop(consumer)
        shelf = self.referee.queues[queue]
        if event.reason == reasons.END_OF_BROWSE and not detail.filter:
            # What came before the last message that it was shown; later ones may have come since.
            last = max(shown, default=0)
            self._expect_all(event, shelf, detail, shown, lambda item: item.message < last)

    def _shown(self, event: Event, consumer: int) -> None:
        referee = self.referee
        queue, detail, shown = self.browsers[consumer]
        message = event.row[events.MESSAGE]
        shelf = referee.queues[queue]
        item = shelf.items.get(message)
        referee.expect(queue == event.row[events.QUEUE], "is of another queue", event)
        referee.expect(item is not None, "is about a message that is not there", event)
        assert item is not None
        referee.expect(item.where in (READY, IN_FLIGHT), f"was {item}", event)
        referee.expect(not shelf.is_deleting, "leaves a queue that ends", event)
        referee.expect(message >= detail.first, f"begins at {detail.first}", event)
        is_again = message in shown and message not in self.aside
        referee.expect(not is_again, f"was shown before: {shown}", event)
        if not detail.filter:
            priority = self.priorities[message]
            self._expect_all(
                event, shelf, detail, shown,
                lambda each: each.message < message and self.priorities[each.message] == priority,
            )  # fmt: skip
        shown.add(message)

    def _expect_all(
        self, event: Event, shelf: "Shelf", detail: Any, shown: set[int], which: Any
    ) -> None:
        """Of these messages of a queue the browser was shown each that it can have been shown."""
        now = self.referee.now

        def is_due(item: "Item") -> bool:
            stays = not item.expires or now < item.expires * 1000
            there = item.where in (READY, IN_FLIGHT) and item.message not in self.aside
            return there and stays and item.message >= detail.first

        missed = [
            item.message
            for item in shelf.items.values()
            if which(item) and is_due(item) and item.message not in shown
        ]
        self.referee.expect(not missed, f"passes over {missed}", event)
