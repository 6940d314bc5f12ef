"""Judges the events of one entry: a message in one queue, from when it entered to its end.

The rules are those of `engine.state.apply`. At most one fault is reported for an event, and then
the event is accepted as true, so that one error gives one fault. Between two events of an entry its
queue, its consumer or the broker may have ended (`audit_lives`). Must never know SQL.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from daybook.engine.core.core import DELIVERY_COUNT_MAX
from daybook.engine.facts import events
from daybook.engine.facts.events import BY_NUMBER
from daybook.engine.facts.kinds import ENTERING, LEAVING, LIVES, outcome
from daybook.engine.facts.life import ASIDE, GONE, IN_FLIGHT, NOWHERE, ON_HOLD, ON_SCHEDULE, READY
from daybook.engine.facts.reasons import REASONS
from daybook.engine.facts.settlements import ATTEMPTED, ENDS, USUAL
from daybook.engine.facts.settlements import NEVER as COUNTS_NEVER
from daybook.pipeline.jobs.audit_lives import NEVER, Fault, Lives

UNKNOWN: Final = "unknown"
"""The place of an entry that is older than the span, until an event shows it."""

SETTLED: Final = "settled"
DROPPED: Final = "dropped by a restart"
LOST: Final = "lost"

ANY_COUNT: Final = -1

NOT_THERE: Final = {(ON_HOLD,): "not-held", (ON_SCHEDULE,): "not-scheduled"}
"""By the places where alone an event can happen: the fault if the entry was elsewhere."""


class EntryEvent(NamedTuple):
    """An event of an entry; `scheduled` if it enters to be delivered later."""

    lsn: int
    kind: int
    reason: int
    message: int
    queue: int
    consumer: int
    connection: int
    delivery_count: int
    persistent: bool
    scheduled: bool = False


class Verdict(NamedTuple):
    """Whether an entry is older than the span, its place at the end, and its faults."""

    opening: bool
    place: str
    faults: list[Fault]


def judge(lives: Lives, last: int, story: Sequence[EntryEvent]) -> Verdict:
    """Judge an entry by all its events, in order, of a span that ends with event `last`."""
    return _Judge(lives, story[0]).over(story, last)


class _Judge:
    """The current state of one entry."""

    def __init__(self, lives: Lives, start: EntryEvent) -> None:
        self.lives = lives
        self.message = start.message
        self.queue = start.queue
        self.persistent = start.persistent
        self.faults: list[Fault] = []
        self.place = NOWHERE
        self.lsn = 0
        self.entered = start.message
        self.consumer = 0
        self.connection = 0
        self.delivered = 0
        self.count = 0
        self.left = ""

    def over(self, story: Sequence[EntryEvent], last: int) -> Verdict:
        start = story[0]
        opening = start.message < self.lives.first and start.kind not in ENTERING
        if opening:
            self.place, self.count, self.lsn = UNKNOWN, ANY_COUNT, self.lives.first - 1
        for event in story:
            self._until(event.lsn)
            wrong = self._wrong(event)
            if wrong is not None:
                self._blame(event, *wrong)
            self._follow(event)
        self._until(last + 1)
        return Verdict(opening, self.place, self.faults)

    def _until(self, lsn: int) -> None:
        """Apply what ended without an event of this entry, up to an LSN."""
        queue = self.lives.queues.get(self.queue)
        while self.place in (READY, IN_FLIGHT, *ASIDE, UNKNOWN):
            restart = self.lives.restart_after(self.lsn)
            deleted = queue.ends if queue is not None and queue.deleted else NEVER
            # An event of a queue that was already deleted is another fault.
            deleted = deleted if deleted > self.lsn else NEVER
            detached = self._detached()
            ended = min(restart, deleted, detached)
            if ended >= lsn:
                return
            if ended == restart:
                self._restarted(restart)
            elif ended == deleted:
                self._lost(deleted, "it was in its queue when that was deleted")
            else:
                text = f"it was in flight to consumer {self.consumer} when that left"
                self._lost(detached, f"{text}, and was not returned")
            self.lsn = ended

    def _detached(self) -> int:
        """Return when the consumer of the entry was detached, NEVER if it is attached."""
        if self.place != IN_FLIGHT:
            return NEVER
        ended = self.lives.consumer_end(self.consumer, self.connection, self.delivered)
        # A consumer that was detached before is reported as a fault of the delivery.
        return ended if ended > self.delivered else NEVER

    def _restarted(self, lsn: int) -> None:
        queue = self.lives.queues.get(self.queue)
        if not self.persistent or (queue is not None and not queue.durable):
            self.place = DROPPED
            self.left = f"dropped by the restart (event {lsn})"
        elif self.place not in (*ASIDE, UNKNOWN):
            self.place = READY

    def _lost(self, lsn: int, why: str) -> None:
        queue, address = self.lives.place(self.queue)
        text = f"message {self.message} is lost: {why} (event {lsn})"
        lsns = (self.delivered or self.message, lsn)
        self.faults.append(Fault("lost", lsns, text, self.message, queue, address))
        self.place = LOST
        self.left = f"lost with event {lsn}"

    def _wrong(self, event: EntryEvent) -> tuple[str, str] | None:
        """Return kind and reason of an event's fault, None if it fits the entry's place."""
        kind, place = event.kind, self.place
        if kind in ENTERING:
            return self._wrong_entering(event)
        if place == NOWHERE:
            return "not-routed", "the message was never routed into this queue"
        if place in (SETTLED, DROPPED):
            twice = kind in LEAVING and place == SETTLED
            return "settled-twice" if twice else "after-settlement", f"it was {self.left} before"
        if place in (UNKNOWN, LOST):
            return None
        if place not in LIVES[kind].before:
            return self._misplaced(kind)
        if event.consumer and place == IN_FLIGHT and event.consumer != self.consumer:
            return "wrong-consumer", f"it was delivered to consumer {self.consumer}"
        return self._wrong_count(event)

    def _misplaced(self, kind: int) -> tuple[str, str]:
        """Return the fault of an event that is impossible at the entry's place."""
        life, place = LIVES[kind], self.place
        if life.before in NOT_THERE:
            return NOT_THERE[life.before], f"it was {place}"
        if place in ASIDE:
            return "not-ready", f"it was {place}"
        if place == READY:
            return "not-delivered", "it was not in flight"
        where = f"it was in flight to consumer {self.consumer}"
        if life.after == IN_FLIGHT:
            return "delivered-twice", f"{where} since event {self.delivered}"
        if life.after == GONE:
            return f"{outcome(kind)}-in-flight", where
        return "not-ready", where

    def _wrong_entering(self, event: EntryEvent) -> tuple[str, str] | None:
        if self.place != NOWHERE:
            return "routed-twice", f"event {self.entered} had put it there"
        if event.kind == events.ROUTED and event.lsn != event.message:
            return "misnumbered", "the id of a message is the LSN of its Routed"
        return None

    def _wrong_count(self, event: EntryEvent) -> tuple[str, str] | None:
        if self.count == ANY_COUNT:
            return None
        expected = self.count
        told = event.delivery_count
        if event.kind == events.DELIVERED:
            expected = min(self.count + 1, DELIVERY_COUNT_MAX)
        elif event.kind == events.RETURNED:
            counts = ENDS.get(event.reason, USUAL).counts
            # A delivery that was only prefetched does not count, but no event records that.
            if counts == COUNTS_NEVER or (counts == ATTEMPTED and told != self.count):
                expected = self.count - 1
        if told == expected:
            return None
        return "delivery-count", f"its delivery count is {told} there and should be {expected}"

    def _blame(self, event: EntryEvent, kind: str, why: str) -> None:
        name = BY_NUMBER[event.kind].name
        reason = REASONS.get(event.reason, ("",))[0]
        what = f"{name} ({reason})" if reason else name
        by = f" by consumer {event.consumer}" if event.consumer else ""
        queue, address = self.lives.place(event.queue)
        text = f"event {event.lsn}, {what} of message {event.message}{by}: {why}"
        before = (self.lsn,) if self.lsn and self.lsn >= self.lives.first else ()
        lsns = (*before, event.lsn)
        self.faults.append(Fault(kind, lsns, text, event.message, queue, address))

    def _follow(self, event: EntryEvent) -> None:
        """Accept the event as true."""
        kind = event.kind
        self.lsn, self.count, self.persistent = event.lsn, event.delivery_count, event.persistent
        if kind in ENTERING:
            self.entered = event.lsn
        if kind in LEAVING:
            self.place = SETTLED
            self.left = f"{outcome(kind)} by event {event.lsn}"
            return
        self.place = ON_SCHEDULE if event.scheduled else LIVES[kind].after
        if self.place == IN_FLIGHT:
            self.delivered = event.lsn
            self.consumer, self.connection = event.consumer, event.connection
