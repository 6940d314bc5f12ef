"""The referee: a second opinion about every event of a journal, for all kinds of queues together.

It reads events in order and knows what each kind of queue promises: who may get a message, when,
and what may leave a queue and why. It shares no code with the decisions or with `apply`; only the
settings are resolved by the product, which has laws of its own for that. `take` judges an event,
`at_rest` a journal behind which nothing is left to decide. What is new in a queue is added here.
"""

from collections import Counter
from typing import Any

import msgspec

from daybook.engine.facts import events, reasons
from daybook.engine.names.syntax import syntax_of
from daybook.engine.settings.setting_key import NO_LIMIT
from daybook.engine.settings.settings import AddressSettings, Settings
from tests.support import group_rulings
from tests.support.keepers import Keepers
from tests.support.readers import Readers
from tests.support.rulings import expires_by, group_of
from tests.support.shelves import (
    FAILURES,
    HELD,
    IN_FLIGHT,
    READY,
    SCHEDULED,
    Foul,
    Item,
    Shelf,
    Told,
)
from tests.support.world import Event


class Referee:
    """Reads a journal, event by event."""

    def __init__(self, told: Told | None = None) -> None:
        """Without `told` nothing is checked for which one must know it."""
        self.told = told
        # How often what happened, by kind and reason.
        self.seen: Counter[tuple[str, int]] = Counter()
        self.lsn = 0
        self.now = 0
        self.settings = Settings({})
        self.names: dict[int, str] = {}
        self.paused: set[int] = set()
        self.queues: dict[int, Shelf] = {}
        self.ids: dict[int, list[str]] = {}
        self.in_transaction: dict[int, str] = {}
        # By message: when one is due that takes the place of a scheduled one.
        self.moved: dict[int, int] = {}
        self.readers = Readers(self)
        self.keepers = Keepers(self)

    def take_all(self, journal: list[Event]) -> None:
        """Judge what is new in a journal."""
        for event in journal[self.lsn :]:
            self.take(event)

    def take(self, event: Event) -> None:
        """Judge an event."""
        self.expect(event.lsn == self.lsn + 1, f"follows event {self.lsn}", event)
        self.lsn = event.lsn
        self.seen[event.name, event.reason] += 1
        self.now = event.row[events.TIME]
        handler = _HANDLERS.get(event.name)
        if not self.readers.take(event) and handler is not None:
            handler(self, event)
        self.keepers.take(event)

    def expect(self, holds: bool, what: str, event: Event | None = None) -> None:
        """Complain unless something holds."""
        if not holds:
            detail = event.decoded if event is not None and event.detail else ""
            name = f"event {event.lsn} ({event.name}, {event.row}, {detail}) " if event else ""
            raise Foul(f"{name}{what}")

    def settings_of(self, shelf: Shelf) -> AddressSettings:
        return self.settings.resolve(self.names[shelf.address])

    # ---- at rest

    def at_rest(self) -> None:
        """Judge what the queues hold when nothing is left to decide."""
        self.expect(not self.in_transaction, f"left open: {self.in_transaction}")
        for shelf in self.queues.values():
            if shelf.is_deleting:
                continue
            self._ring_at_rest(shelf)
            self._values_at_rest(shelf)
            if shelf.must_empty and not shelf.consumers:
                self.expect(not shelf.items, f"{shelf} keeps messages without consumers")

    def takers(self, shelf: Shelf, item: Item) -> set[int]:
        """The consumers that may have a message now, whatever their filters and credit."""
        definition = shelf.definition
        is_paused = shelf.is_paused or shelf.address in self.paused or shelf.is_recalling
        if is_paused or shelf.is_deleting or not shelf.begun or item.where != READY:
            return set()
        if definition.non_destructive:
            readers = set(shelf.consumers) - item.readers
            return readers & {shelf.holder} if shelf.holder else readers
        if definition.exclusive or shelf.holder:
            return {shelf.holder} if shelf.holder else set(shelf.consumers)
        return group_rulings.takers(shelf, item)

    def size_of(self, shelf: Shelf) -> int:
        own: int = shelf.definition.ring_size
        return own if own >= 0 else self.settings_of(shelf).default_ring_size

    def _ring_at_rest(self, shelf: Shelf) -> None:
        """A ring that was made smaller keeps what it had, and does not grow above it."""
        size, ready = self.size_of(shelf), shelf.count_of(READY)
        if size < 0:
            shelf.room = NO_LIMIT
            return
        self.expect(ready <= max(size, shelf.room), f"{shelf} has {ready} messages, not {size}")
        shelf.room = ready if ready > size else NO_LIMIT

    def _values_at_rest(self, shelf: Shelf) -> None:
        values = [item for item in shelf.items.values() if item.key is not None]
        standing = [item.key for item in values if item.where != IN_FLIGHT]
        self.expect(len(standing) == len(set(standing)), f"{shelf} has two messages with one key")

    # ---- addresses, queues, consumers

    def _address(self, event: Event) -> None:
        address = event.row[events.ADDRESS]
        if event.name == "AddressDeleted":
            self.ids.pop(address, None)
            return
        detail = event.decoded
        if event.name == "AddressCreated":
            self.names[address] = detail.name
        if event.name == "AddressCreated" or "paused" in detail.changed:
            (self.paused.add if detail.paused else self.paused.discard)(address)

    def _settings_changed(self, event: Event) -> None:
        detail = event.decoded
        for shelf in self.queues.values():
            self._ring_may_shrink(shelf)
        self.settings = Settings.from_dict(detail.settings, syntax_of(detail.syntax), detail.live)
        for address, ids in self.ids.items():
            size = self.settings.resolve(self.names[address]).id_cache_size
            del ids[: max(0, len(ids) - size)]

    def _ring_may_shrink(self, shelf: Shelf) -> None:
        """What a ring has when its size changes may be more than it takes afterwards."""
        shelf.room = max(shelf.count_of(READY), shelf.room)

    def _queue_created(self, event: Event) -> None:
        row = event.row
        self.queues[row[events.QUEUE]] = Shelf(
            row[events.QUEUE], row[events.ADDRESS], event.decoded
        )

    def _queue_updated(self, event: Event) -> None:
        shelf = self.queues[event.row[events.QUEUE]]
        detail = event.decoded
        if detail.deleting:
            self._check_end(shelf, event)
            shelf.is_deleting = True
            return
        shelf.address = event.row[events.ADDRESS]
        fields = detail.changed or ("routing_type", "filter")
        self._ring_may_shrink(shelf)
        shelf.definition = msgspec.structs.replace(
            shelf.definition, **{name: getattr(detail, name) for name in fields}
        )
        if not shelf.definition.exclusive:
            shelf.find_holder()
        if group_rulings.CHANGES & set(fields):
            shelf.bound.clear()
        if "consumers_before_dispatch" in fields and shelf.consumers:
            shelf.begun = None
        if "purge_on_no_consumers" in fields:
            shelf.must_empty = False
        if "non_destructive" in fields:
            # Its consumers begin at the front again.
            for item in shelf.items.values():
                item.readers.clear()

    def _check_end(self, shelf: Shelf, event: Event) -> None:
        """Nothing is deleted for not being used while somebody could miss it."""
        if event.reason != reasons.AUTO_DELETE:
            return
        most = shelf.definition.auto_delete_message_count
        self.expect(shelf.definition.auto_delete, "ends what stays", event)
        self.expect(not shelf.consumers, "ends what is used", event)
        count = len(shelf.items) + shelf.ending
        self.expect(most < 0 or count <= most, f"ends {shelf} with {count} messages", event)
        self.expect(
            not shelf.is_paused and shelf.address not in self.paused, "ends what is paused", event
        )

    def _queue_deleted(self, event: Event) -> None:
        shelf = self.queues.pop(event.row[events.QUEUE])
        self.expect(not shelf.items, f"leaves messages behind: {shelf.items}", event)
        self.expect(not shelf.consumers, f"leaves consumers behind: {shelf.consumers}", event)
        if not shelf.is_deleting:
            self._check_end(shelf, event)

    def _queue_paused(self, event: Event) -> None:
        self.queues[event.row[events.QUEUE]].is_paused = event.name == "QueuePaused"

    def _attached(self, event: Event) -> None:
        row = event.row
        shelf = self.queues[row[events.QUEUE]]
        most = shelf.definition.max_consumers
        self.expect(most < 0 or len(shelf.consumers) < most, f"is one too many of {most}", event)
        if not shelf.consumers:
            shelf.begun = shelf.definition.consumers_before_dispatch <= 1
            shelf.must_empty = shelf.definition.purge_on_no_consumers
        shelf.consumers[row[events.CONSUMER]] = event.decoded
        if event.decoded.exclusive and not shelf.is_held_for_good:
            shelf.holder = row[events.CONSUMER]
            shelf.bound.clear()
        if shelf.definition.group_rebalance or shelf.definition.group_hashing:
            shelf.bound.clear()

    def _detached(self, event: Event) -> None:
        row = event.row
        shelf = self.queues[row[events.QUEUE]]
        consumer = row[events.CONSUMER]
        del shelf.consumers[consumer]
        held = [item for item in shelf.items.values() if item.consumer == consumer]
        self.expect(not held, f"leaves in flight: {held}", event)
        self._forget(shelf, consumer)

    def _forget(self, shelf: Shelf, consumer: int) -> None:
        if shelf.holder == consumer:
            shelf.find_holder()
        for key in [key for key, each in shelf.bound.items() if each == consumer]:
            del shelf.bound[key]
        if not shelf.consumers:
            shelf.begun = False
            shelf.bound.clear()
            shelf.is_vague = False
            shelf.must_empty = shelf.definition.purge_on_no_consumers

    def _dispatch_started(self, event: Event) -> None:
        shelf = self.queues[event.row[events.QUEUE]]
        wanted = shelf.definition.consumers_before_dispatch
        if event.reason == reasons.CONSUMERS_CAME:
            self.expect(len(shelf.consumers) >= wanted, f"of {len(shelf.consumers)}", event)
        else:
            self.expect(shelf.definition.delay_before_dispatch >= 0, "by no delay", event)
        shelf.begun = True

    def _started(self, event: Event) -> None:
        for number, shelf in list(self.queues.items()):
            definition = shelf.definition
            if definition.temporary or not definition.durable:
                del self.queues[number]
                continue
            shelf.consumers.clear()
            shelf.bound.clear()
            shelf.is_vague = False
            shelf.holder = 0
            shelf.begun = False
            shelf.must_empty = definition.purge_on_no_consumers
            for message, item in list(shelf.items.items()):
                if not item.is_persistent:
                    del shelf.items[message]
                elif item.where == IN_FLIGHT:
                    item.where, item.consumer = READY, 0
            # A start makes every ring as small as it is to be.
            shelf.room = NO_LIMIT

    # ---- messages

    def _routed(self, event: Event) -> None:
        row, detail = event.row, event.decoded
        message = row[events.MESSAGE]
        self.expect(message == event.lsn, "has another id", event)
        self._note_transaction(event, detail)
        self._check_copy(event)
        flags = row[events.FLAGS]
        due = self._check_claim(event, detail)
        group, closes = group_of(event) if flags & events.GROUPED else (-1, False)
        for number in detail.queues or (row[events.QUEUE],):
            shelf = self.queues[number]
            definition = shelf.definition
            self.expect(not shelf.is_deleting, f"goes to {definition.name}, which ends", event)
            # An administrator chooses a queue, and may change the priority of what is there.
            chosen = event.reason == reasons.ADMINISTRATION
            is_used = not definition.purge_on_no_consumers or shelf.consumers
            self.expect(chosen or definition.enabled, f"goes to {definition.name}, disabled", event)
            self.expect(chosen or bool(is_used), f"goes to {definition.name}, unused", event)
            item = Item(message, bool(flags & events.PERSISTENT), detail.expires, group, closes)
            item.key = detail.last_values.get(number)
            item.not_before = self.moved.pop(message, due)
            if detail.due:
                self.expect(detail.due * 1000 > self.now, "is scheduled for the past", event)
                item.where, item.due = SCHEDULED, detail.due
            # What an administrator chose stays there.
            shelf.must_empty = shelf.must_empty and not chosen
            shelf.items[message] = item

    def _check_claim(self, event: Event, detail: Any) -> int:
        """What its sender says about a message; return when it may be delivered, 0 for at once."""
        if self.told is None or event.reason != reasons.SENT:
            return 0
        if event.body not in self.told.claims:
            return 0
        due, expires = self.told.claims[event.body]
        settings = self.settings.resolve(self.names[event.row[events.ADDRESS]])
        wanted = expires_by(settings, expires, self.now // 1000)
        self.expect(detail.expires == wanted, f"expires not at {wanted}, sent {expires}", event)
        wanted = due if due * 1000 > self.now else 0
        self.expect(detail.due == wanted, f"is due at {detail.due}, sent {due}", event)
        return due

    def _diverted(self, event: Event) -> None:
        self._note_transaction(event, event.decoded)

    def _note_transaction(self, event: Event, detail: Any) -> None:
        if detail.transaction:
            self.in_transaction[event.lsn] = detail.transaction

    def _check_copy(self, event: Event) -> None:
        """A copy follows what it was made from; copies of a transaction are within it."""
        if event.reason == reasons.DIVERT:
            related = event.row[events.RELATED]
            self.expect(0 < related < event.lsn, "is a copy of nothing", event)

    def _committed(self, event: Event) -> None:
        detail = event.decoded
        self.expect(detail.first + detail.events == event.lsn, "does not end its group", event)
        for lsn, name in self.in_transaction.items():
            self.expect(
                lsn >= detail.first and name == detail.transaction, f"left out event {lsn}", event
            )
        self.in_transaction.clear()

    def _find(self, event: Event) -> tuple[Shelf, Item]:
        row = event.row
        shelf = self.queues.get(row[events.QUEUE])
        item = shelf.items.get(row[events.MESSAGE]) if shelf is not None else None
        self.expect(item is not None, "is about a message that is not there", event)
        assert shelf is not None
        assert item is not None
        return shelf, item

    def _check_turn(self, event: Event, shelf: Shelf, item: Item) -> None:
        """What holds for every message that is handed to somebody."""
        consumer = event.row[events.CONSUMER]
        paused = shelf.is_paused or shelf.address in self.paused
        self.expect(consumer in shelf.consumers, "goes to a stranger", event)
        self.expect(item.where == READY, f"was {item}", event)
        self.expect(not paused, "leaves a queue that is paused", event)
        self.expect(not shelf.is_recalling, "comes before what was sent before", event)
        self.expect(not shelf.is_deleting, "leaves a queue that ends", event)
        self.expect(shelf.begun is not False, "does not wait for more consumers", event)
        self.expect(item.not_before * 1000 <= self.now, f"is too early: {item}", event)
        self.expect(not item.owes_delay, f"is not delayed: {item}", event)
        if 0 < item.expires * 1000 <= self.now:
            own = self.settings_of(shelf).expiry_address
            targets = {own} | {
                self.settings.resolve(name).expiry_address for name in self.names.values()
            }
            self.expect(self.names[shelf.address] in targets, f"is too late: {item}", event)
        if not shelf.definition.non_destructive or shelf.definition.exclusive:
            self.expect(shelf.holder in (0, consumer), f"belongs to {shelf.holder}", event)
        if shelf.definition.exclusive:
            shelf.holder = consumer

    def _delivered(self, event: Event) -> None:
        shelf, item = self._find(event)
        consumer = event.row[events.CONSUMER]
        self._check_turn(event, shelf, item)
        self.expect(not shelf.definition.non_destructive, "takes what all may read", event)
        self.expect(
            event.row[events.DELIVERY_COUNT] == item.count + 1, f"after {item.count}", event
        )
        if not (shelf.definition.exclusive or shelf.holder):
            self.expect(*group_rulings.take(shelf, item, consumer), event)
        item.count += 1
        item.where, item.consumer = IN_FLIGHT, consumer

    def _shown(self, event: Event) -> None:
        shelf, item = self._find(event)
        self.expect(shelf.definition.non_destructive, "shows what one consumer takes", event)
        self._check_turn(event, shelf, item)
        consumer = event.row[events.CONSUMER]
        self.expect(consumer not in item.readers, f"was shown to {item.readers}", event)
        item.readers.add(consumer)

    def _returned(self, event: Event) -> None:
        shelf, item = self._find(event)
        count = event.row[events.DELIVERY_COUNT]
        self.expect(item.where == IN_FLIGHT, f"was {item}", event)
        self.expect(item.count - count in (0, 1), f"had {item.count}", event)
        failed = event.reason in FAILURES and count == item.count
        item.owes_delay = failed and self.settings_of(shelf).redelivery_delay > 0
        item.count = count
        item.where, item.consumer = READY, 0

    def _scheduled(self, event: Event) -> None:
        shelf, item = self._find(event)
        self.expect(item.where == READY, f"was {item}", event)
        item.where, item.due = SCHEDULED, event.decoded.due
        item.not_before, item.owes_delay = item.due, False
        if event.reason == reasons.REDELIVERY_DELAY:
            self._check_delay(event, shelf, item)
        else:
            self.expect(item.count == 0, f"was delivered before: {item}", event)

    def _check_delay(self, event: Event, shelf: Shelf, item: Item) -> None:
        """The delay is right, as far as chance is not in it."""
        settings = self.settings_of(shelf)
        most = settings.max_redelivery_delay
        most = most if most >= 0 else 10 * settings.redelivery_delay
        wanted = settings.redelivery_delay * settings.redelivery_delay_multiplier ** max(
            item.count - 1, 0
        )
        slack = settings.redelivery_collision_avoidance_factor * wanted + 1
        found = item.due - self.now // 1000
        self.expect(
            min(wanted, most) - slack <= found <= min(wanted + slack, most),
            f"waits {found} ms, not {wanted}, {most}",
            event,
        )

    def _due(self, event: Event) -> None:
        _, item = self._find(event)
        self.expect(item.where == SCHEDULED, f"was {item}", event)
        if event.reason != reasons.ADMINISTRATION:
            self.expect(item.due * 1000 <= self.now, f"is too early: {item}", event)
        item.where, item.due, item.not_before = READY, 0, 0
        item.key = event.decoded.last_value or item.key if event.detail else item.key

    def _held(self, event: Event) -> None:
        _, item = self._find(event)
        self.expect(item.where in (READY, SCHEDULED), f"was {item}", event)
        item.where, item.due, item.not_before, item.owes_delay = HELD, 0, 0, False

    def _released(self, event: Event) -> None:
        _, item = self._find(event)
        self.expect(item.where == HELD, f"was {item}", event)
        item.where = READY

    def _left(self, event: Event) -> None:
        """It left its queue; the table of events says from where each kind may."""
        shelf, item = self._find(event)
        row = event.row
        match event.name:
            case "Acknowledged":
                self.expect(item.where == IN_FLIGHT, f"was {item}", event)
                self.expect(row[events.CONSUMER] == item.consumer, f"is of {item.consumer}", event)
            case "Expired":
                self.expect(item.where != IN_FLIGHT, f"was {item}", event)
            case "DeadLettered":
                self.expect(item.where in (IN_FLIGHT, HELD), f"was {item}", event)
                self._check_attempts(event, shelf, item)
            case "Moved":
                self.expect(item.where != IN_FLIGHT, f"was {item}", event)
                if item.where == SCHEDULED and not item.count:
                    self.moved[row[events.RELATED]] = item.due
            case "Removed":
                self._removed(event, shelf, item)
        del shelf.items[row[events.MESSAGE]]

    def _check_attempts(self, event: Event, shelf: Shelf, item: Item) -> None:
        """A message dies after the last attempt, or because its consumer will never take it."""
        if self.told is None or item.where != IN_FLIGHT or item.message in self.told.refused:
            return
        most = self.settings_of(shelf).max_delivery_attempts
        self.expect(0 < most <= item.count, f"had {item.count} of {most}", event)

    def _removed(self, event: Event, shelf: Shelf, item: Item) -> None:
        if shelf.is_history:
            self.expect(item.where != IN_FLIGHT, f"was {item}", event)
        elif event.reason == reasons.RING_EVICTED:
            size = self.size_of(shelf)
            self.expect(item.where == READY, f"evicts {item}", event)
            self.expect(0 <= size < shelf.count_of(READY), f"of a ring of {size}", event)
        elif event.reason == reasons.REPLACED:
            self.expect(item.where != IN_FLIGHT, f"replaces {item}", event)
            keyed = shelf.definition.last_value or shelf.definition.last_value_key
            self.expect(bool(keyed), "replaces what has no key", event)
        elif event.reason == reasons.NO_CONSUMERS:
            self.expect(item.where != IN_FLIGHT, f"purges {item}", event)
            self.expect(shelf.definition.purge_on_no_consumers, "purges what stays", event)
        elif event.reason == reasons.QUEUE_REMOVED:
            shelf.ending += 1
        else:
            self.expect(item.where != IN_FLIGHT, f"removes {item}", event)

    def _groups_reset(self, event: Event) -> None:
        """Consumers give up one group or all; which messages are of one group a hash says."""
        self.queues[event.row[events.QUEUE]].bound.clear()

    # ---- duplicate ids

    def _id_recorded(self, event: Event) -> None:
        address = event.row[events.ADDRESS]
        ids = self.ids.setdefault(address, [])
        name = event.decoded.duplicate_id
        self.expect(name not in ids, f"is there twice: {ids}", event)
        ids.append(name)
        size = self.settings.resolve(self.names[address]).id_cache_size
        del ids[: max(0, len(ids) - size)]

    def _ids_cleared(self, event: Event) -> None:
        self.ids.pop(event.row[events.ADDRESS], None)


_HANDLERS = {
    **dict.fromkeys(("AddressCreated", "AddressUpdated", "AddressDeleted"), Referee._address),
    "SettingsChanged": Referee._settings_changed,
    "QueueCreated": Referee._queue_created,
    "QueueUpdated": Referee._queue_updated,
    "QueueDeleted": Referee._queue_deleted,
    **dict.fromkeys(("QueuePaused", "QueueResumed"), Referee._queue_paused),
    "ConsumerAttached": Referee._attached,
    "ConsumerDetached": Referee._detached,
    "DispatchStarted": Referee._dispatch_started,
    "GroupsReset": Referee._groups_reset,
    "BrokerStarted": Referee._started,
    "Routed": Referee._routed,
    "Diverted": Referee._diverted,
    "Dropped": Referee._diverted,
    "TransactionCommitted": Referee._committed,
    "Delivered": Referee._delivered,
    "Shown": Referee._shown,
    "Returned": Referee._returned,
    "Scheduled": Referee._scheduled,
    "Due": Referee._due,
    "Held": Referee._held,
    "Released": Referee._released,
    "Acknowledged": Referee._left,
    "Expired": Referee._left,
    "DeadLettered": Referee._left,
    "Moved": Referee._left,
    "Removed": Referee._left,
    "DuplicateIdRecorded": Referee._id_recorded,
    "DuplicateIdsCleared": Referee._ids_cleared,
}
