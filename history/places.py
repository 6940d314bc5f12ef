"""Where messages are, folded from their own events and from the topology with the engine's `apply`.

So the engine itself says what a restart, which has no events about messages, did to them. Must
never know where events come from, or how a story is shown.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.events import DELIVERY_COUNT, KIND, MESSAGE, QUEUE
from daybook.engine.facts.kinds import ENTERING, LEAVING, OF_ENTRIES, TOPOLOGY
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import Queue
from daybook.engine.state.apply import apply
from daybook.engine.state.state import State
from daybook.history.forwards import Forwards
from daybook.history.names import Names
from daybook.history.scan import Event
from daybook.history.search import queues_of

if TYPE_CHECKING:
    from daybook.history.initial_state import Beginning


class Consequence(NamedTuple):
    """An effect of an event that the event does not name; `message` is 0 if it is about no entry.

    `queue` is a name, and `delivery_count` that of the entry.
    """

    text: str
    message: int = 0
    queue: str = ""
    delivery_count: int = 0


class Places:
    """The places of messages after the events that were taken, which come in order.

    Without `folds` no event is applied, because the state before the first one is not known; then
    only the events themselves say where a message was. That is so for the messages in `unknown`
    alone, too.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.state = State()
        self.forwards = Forwards()
        self.last: dict[tuple[int, int], Event] = {}
        self.deliveries: Counter[tuple[int, int]] = Counter()
        self.dropped: dict[int, list[str]] = {}
        self.queue_ids: dict[int, None] = {}
        self.folded_lsn = 0
        self.folds = True
        self.unknown: set[int] = set()

    def begin(self, start: "Beginning") -> None:
        """Apply the state from before the first event."""
        for event in start.events:
            self.names.learn(event.row, event.detail)
            self.apply(event)
        for message, queue_id, count in start.counts:
            self.state.queues[queue_id].entries[message].delivery_count = count
        self.folded_lsn = start.lsn

    def take(self, event: Event) -> list[Consequence]:
        """Take the next event; return what it did beside what it says."""
        self.names.learn(event.row, event.detail)
        consequences: list[Consequence] = []
        if event.row[KIND] not in TOPOLOGY:
            if event.lsn > self.folded_lsn:
                self.apply(event)
            self._note_last(event)
            self.forwards.take(event)
            if event.row[KIND] == events.DELIVERED:
                consequences = list(self._count_delivery(event))
        elif event.lsn > self.folded_lsn:
            consequences = self._change_topology(event)
            self.names.forget(event.row)
        return consequences

    def apply(self, event: Event) -> None:
        """Apply an event if its message is known."""
        row = event.row
        if not self.folds or row[MESSAGE] in self.unknown:
            return
        apply(self.state, event.lsn, row, event.detail, event.headers, b"")
        if row[KIND] in ENTERING:
            self.queue_ids.update(dict.fromkeys(queues_of(event)))

    def entries(self) -> Iterator[tuple[int, Queue, Entry]]:
        """Yield the entries, with message and queue."""
        for number in self.queue_ids:
            queue = self.state.queues.get(number)
            if queue is not None:
                for message in sorted(queue.entries):
                    yield message, queue, queue.entries[message]

    def consumers(self) -> dict[tuple[int, int], tuple[str, str]]:
        """Return (message, queue id) to the queue's name and the consumer, if any."""
        return {
            (message, queue.id): (
                queue.name, f"consumer {entry.consumer.id}" if entry.consumer is not None else ""
            )
            for message, queue, entry in self.entries()
        }  # fmt: skip

    def _count_delivery(self, event: Event) -> Iterator[Consequence]:
        """Yield a sentence if deliveries of the message before this one did not count."""
        row = event.row
        self.deliveries[row[MESSAGE], row[QUEUE]] += 1
        number = self.deliveries[row[MESSAGE], row[QUEUE]]
        uncounted = number - row[DELIVERY_COUNT]
        if uncounted > 0:
            queue, count = self.names.queue(row[QUEUE]), row[DELIVERY_COUNT]
            yield Consequence(
                f"this is delivery {number} from queue '{queue}'; it is attempt {count} because "
                f"{uncounted:,} of the deliveries before did not count",
                row[MESSAGE], queue, count,
            )  # fmt: skip

    def _note_last(self, event: Event) -> None:
        """Note the last event of a message in a queue, or in those that it enters."""
        if event.row[KIND] in OF_ENTRIES:
            for queue_id in queues_of(event):
                self.last[event.row[MESSAGE], queue_id] = event

    def _change_topology(self, event: Event) -> list[Consequence]:
        """Fold an event of the topology; return what a restart did to messages.

        Only a restart moves messages without events; before a queue is deleted, events of their own
        remove its messages.
        """
        if event.row[KIND] != events.BROKER_STARTED:
            self.apply(event)
            return []
        found = [Consequence(text, message) for message, text in self.forwards.restart(event.lsn)]
        before = self.consumers()
        counts = {
            (message, queue.id): each.delivery_count for message, queue, each in self.entries()
        }
        self.apply(event)
        after = self.consumers()
        for (message, queue_id), (queue, consumer) in before.items():
            count = counts[message, queue_id]
            if (message, queue_id) not in after:
                text = f"dropped from queue '{queue}', which does not outlive the broker"
                if queue_id in self.state.queues:
                    text = f"dropped from queue '{queue}': it is not persistent"
                self.dropped.setdefault(message, []).append(f"{text} (event {event.lsn})")
                found.append(Consequence(f"message {message} is {text}", message, queue, count))
            elif consumer:
                text = (
                    f"message {message}, in flight to {consumer}, is returned to its place in "
                    f"queue '{queue}' by the restart; attempt {count} counts"
                )
                found.append(Consequence(text, message, queue, count))
        return found + list(self._unknown_after_restart())

    def _unknown_after_restart(self) -> Iterator[Consequence]:
        """Yield the entries of which nothing says what a restart did to them."""
        for (message, queue_id), seen in self.last.items():
            is_known = self.folds and message not in self.unknown
            if not is_known and seen.row[KIND] not in LEAVING:
                queue = self.names.queue(queue_id)
                text = f"what the restart did to message {message} in queue '{queue}' is not known"
                yield Consequence(text, message, queue, seen.row[DELIVERY_COUNT])
