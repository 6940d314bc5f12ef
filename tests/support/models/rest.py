"""Laws that hold when no decision is pending, and that no single event shows.

An audit judges each event; these laws judge what is *not* there: a message that was not removed, or
not delivered. They read events and the state that these fold to.
"""

from typing import Any

from daybook.engine.facts import events, reasons
from daybook.engine.facts.events import CONSUMER, KIND, MESSAGE, QUEUE, REASON, Row
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.entry import IN_FLIGHT, READY, Entry
from daybook.engine.queues.queue import Queue
from daybook.engine.settings.setting_key import NO_LIMIT
from daybook.engine.settling.delivery import can_take
from daybook.engine.state.state import State

RESIZING = (events.QUEUE_UPDATED, events.SETTINGS_CHANGED)
REGROUPING = {
    "exclusive", "group_buckets", "group_hashing", "group_rebalance",
    "group_rebalance_pause_dispatch",
}  # fmt: skip
"""The attributes whose change may let a queue deliver nothing until all is settled (ADR 62)."""


class Rest:
    """Follows a journal; `check` judges the state that it folds to."""

    def __init__(self) -> None:
        # Queues whose last consumer left, and nobody chose since what is in them.
        self._unserved: set[int] = set()
        self._browsers: set[int] = set()
        # By queue and message: the last value key.
        self._keys: dict[tuple[int, int], str] = {}
        # What everybody may read, with the consumers that it was shown to.
        self._shown: set[tuple[int, int]] = set()
        # How many messages a ring had that was made smaller, by queue.
        self._room: dict[int, int] = {}
        self._is_resized = True
        self._queues: set[int] = set()
        # Queues whose deliveries in flight were grouped by another rule: they may wait for these.
        self._regrouped: set[int] = set()

    def take(self, event: tuple[int, Row, bytes, bytes, bytes]) -> None:
        """Take in an event."""
        lsn, row, detail = event[:3]
        kind = row[KIND]
        if kind in (events.ROUTED, events.RECALLED, events.DUE) and detail:
            self._note_keys(lsn, row, events.decode_detail(kind, detail))
        if kind in RESIZING:
            self._is_resized = True
            self._unserved.discard(row[QUEUE])
            changed = getattr(events.decode_detail(kind, detail), "changed", ())
            if not REGROUPING.isdisjoint(changed):
                self._regrouped.add(row[QUEUE])
        elif kind == events.ROUTED and row[REASON] == reasons.ADMINISTRATION:
            chosen = getattr(events.decode_detail(kind, detail), "queues", ())
            self._unserved.difference_update((*chosen, row[QUEUE]))
        elif kind == events.SHOWN:
            self._shown.add((row[CONSUMER], row[MESSAGE]))
        elif kind == events.CONSUMER_ATTACHED:
            if getattr(events.decode_detail(kind, detail), "browses", False):
                self._browsers.add(lsn)
        elif kind == events.CONSUMER_DETACHED and row[CONSUMER] not in self._browsers:
            self._unserved.add(row[QUEUE])
        elif kind == events.BROKER_STARTED:
            self._is_resized = True
            self._unserved |= self._queues
        elif kind == events.QUEUE_CREATED:
            self._queues.add(row[QUEUE])

    def _note_keys(self, lsn: int, row: Row, detail: Any) -> None:
        values = getattr(detail, "last_values", None) or {}
        if row[KIND] == events.DUE:
            values = {row[QUEUE]: detail.last_value} if detail.last_value else {}
        for queue, key in values.items():
            self._keys[queue, row[MESSAGE] or lsn] = key

    def check(self, state: State) -> None:
        """Judge a state behind which nothing is left to decide."""
        for queue in state.queues.values():
            if not queue.deleting:
                self._check_ring(state, queue)
                self._check_keys(queue)
                self._check_unserved(queue)
        self._is_resized = False

    def _check_ring(self, state: State, queue: Queue) -> None:
        """A ring that was made smaller keeps what it had, and does not grow above it."""
        size = queue.definition.ring_size
        if size < 0:
            size = state.settings.resolve(queue.address.name).default_ring_size
        ready = queue.ready_count
        if self._is_resized or size < 0:
            self._room[queue.id] = ready if size >= 0 else NO_LIMIT
            return
        most = max(size, self._room.get(queue.id, NO_LIMIT))
        assert ready <= most, f"{queue.name} has {ready} messages, not {size}"
        self._room[queue.id] = ready if ready > size else NO_LIMIT

    def _check_keys(self, queue: Queue) -> None:
        standing = [
            self._keys.get((queue.id, message))
            for message, entry in queue.entries.items()
            if entry.state != IN_FLIGHT
        ]
        keys = [key for key in standing if key is not None]
        assert len(keys) == len(set(keys)), f"{queue.name} has two messages with one key"

    def _check_unserved(self, queue: Queue) -> None:
        is_left = queue.id in self._unserved and not queue.consumers
        if is_left and queue.definition.purge_on_no_consumers:
            assert not queue.message_count, f"{queue.name} keeps messages without consumers"

    # ---- consumers that wait in vain

    def check_nobody_waits(self, state: State) -> None:
        """A consumer with credit has what may be for it."""
        for queue in state.queues.values():
            definition = queue.definition
            is_still = queue.is_paused or queue.deleting or queue.waits_since
            if not queue.in_flight_count:
                self._regrouped.discard(queue.id)
            # Whether groups are being given to others is not in the journal.
            if is_still or definition.group_rebalance or queue.id in self._regrouped:
                continue
            for entry in queue.entries.values():
                if entry.state == READY and entry.level < PRIORITIES:
                    self._check_taken(state, queue, entry)

    def _check_taken(self, state: State, queue: Queue, entry: Entry) -> None:
        definition = queue.definition
        wanting = [
            consumer
            for consumer in (state.consumers[each.id] for each in queue.consumers)
            if _wants(consumer, entry) and (consumer.id, entry.message.id) not in self._shown
        ]
        is_grouped = bool(definition.group_buckets) and not definition.non_destructive
        if queue.holder is not None:
            wanting = [each for each in wanting if each is queue.holder]
        elif is_grouped and (
            (len(wanting) < len(queue.consumers) and not definition.exclusive)
            or (definition.group_hashing and queue.in_flight_count)
        ):
            # Its group may be that of a consumer that cannot take it, or has to wait.
            return
        assert not wanting, f"{wanting[0].id} waits for {entry.message.id} of {queue.name}"


def _wants(consumer: Consumer, entry: Entry) -> bool:
    is_wanted = consumer.matcher is None or consumer.matcher.matches(entry.message)
    return is_wanted and can_take(consumer)
