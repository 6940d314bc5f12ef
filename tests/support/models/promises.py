"""The promises of the documentation about single events, stated without the engine's rules.

An audit asks the engine's own rules, so it cannot see a mistake in a rule itself; and no event says
what a sender asked for. These are the promises of which tests keep a second statement.
"""

from random import Random
from typing import Any

import msgspec

from daybook.engine.facts import reasons
from daybook.engine.facts.events import ADDRESS, CONSUMER, DELIVERY_COUNT, MESSAGE, QUEUE, TIME
from daybook.engine.names.syntax import syntax_of
from daybook.engine.settings.setting_key import NO_LIMIT
from daybook.engine.settings.settings import AddressSettings, Settings
from daybook.engine.state.state import State
from daybook.tools.drills.crash_points.reckoning import Reckoning
from tests.support.world import Event


class Promises:
    """Follows a journal; `asked` are, by body, the earliest delivery and the expiry of a message,
    in milliseconds since 1970, 0 for nothing."""

    def __init__(self, asked: dict[bytes, tuple[int, int]]) -> None:
        self._asked = asked
        self._reckoning = Reckoning(State())
        self._settings = Settings({})
        self._names: dict[int, str] = {}
        # By queue: how many messages left because it ends.
        self._ending: dict[int, int] = {}
        # By queue: its consumers, whether each is exclusive; who gets everything, or 0.
        self._consumers: dict[int, dict[int, bool]] = {}
        self._holders: dict[int, int] = {}
        self._definitions: dict[int, Any] = {}
        # When messages expire, in milliseconds since 1970.
        self._expires: dict[int, int] = {}

    def take(self, event: Event) -> None:
        """Judge an event."""
        handler = _HANDLERS.get(event.name)
        if handler is not None:
            handler(self, event)
        self._reckoning.take(event.lsn, event.row, event.detail)

    def check(self, state: State) -> None:
        """Hold a state against what its events say, which is read without `apply`."""
        wrong = self._reckoning.contradictions(state, Random(0))
        assert not wrong, wrong[0].what

    def _address_created(self, event: Event) -> None:
        self._names[event.row[ADDRESS]] = event.decoded.name

    def _settings_changed(self, event: Event) -> None:
        detail = event.decoded
        self._settings = Settings.from_dict(detail.settings, syntax_of(detail.syntax), detail.live)

    def _routed(self, event: Event) -> None:
        detail = event.decoded
        self._expires[event.lsn] = detail.expires
        if event.reason == reasons.SENT and event.body in self._asked:
            due, expires = self._asked[event.body]
            now = event.row[TIME] // 1000
            settings = self._settings.resolve(self._names[event.row[ADDRESS]])
            wanted = (due if due > now else 0), expires_by(settings, expires, now)
            found = detail.due, detail.expires
            assert found == wanted, f"event {event.lsn} is due and expires at {found}, not {wanted}"

    def _delivered(self, event: Event) -> None:
        """The delivery count grows by one for each attempt, also over restarts."""
        told = self._reckoning.there.get((event.row[QUEUE], event.row[MESSAGE]))
        count = event.row[DELIVERY_COUNT]
        assert told is None or count == told.attempts + 1, f"{event} after {told}"
        self._handed_out(event)

    def _handed_out(self, event: Event) -> None:
        """Nothing is delivered after its time, except where expired messages go."""
        expires = self._expires.get(event.row[MESSAGE], 0)
        if 0 < expires * 1000 <= event.row[TIME]:
            settings = map(self._settings.resolve, self._names.values())
            here = self._names[event.row[ADDRESS]]
            assert here in {each.expiry_address for each in settings}, f"{event} is too late"
        self._check_holder(event)

    # ---- consumers

    def _check_holder(self, event: Event) -> None:
        """An exclusive consumer gets everything, and an exclusive queue has one consumer."""
        queue, consumer = event.row[QUEUE], event.row[CONSUMER]
        definition = self._definitions[queue]
        if consumer not in self._consumers.get(queue, ()):
            return
        if not definition.non_destructive or definition.exclusive:
            holder = self._holders.get(queue, 0)
            assert holder in (0, consumer), f"{event} belongs to {holder}"
        if definition.exclusive:
            self._holders[queue] = consumer

    def _find_holder(self, queue: int) -> None:
        there = self._consumers.get(queue, {})
        self._holders[queue] = next(
            (each for each, is_exclusive in there.items() if is_exclusive), 0
        )

    def _attached(self, event: Event) -> None:
        if event.decoded.browses:
            return
        queue, consumer = event.row[QUEUE], event.row[CONSUMER]
        there = self._consumers.setdefault(queue, {})
        there[consumer] = event.decoded.exclusive
        if event.decoded.exclusive and not there.get(self._holders.get(queue, 0)):
            self._holders[queue] = consumer

    def _detached(self, event: Event) -> None:
        queue, consumer = event.row[QUEUE], event.row[CONSUMER]
        self._consumers.get(queue, {}).pop(consumer, None)
        if self._holders.get(queue) == consumer:
            self._find_holder(queue)

    def _started(self, event: Event) -> None:
        self._consumers.clear()
        self._holders.clear()

    # ---- queues

    def _queue_created(self, event: Event) -> None:
        self._definitions[event.row[QUEUE]] = event.decoded

    def _queue_updated(self, event: Event) -> None:
        queue, detail = event.row[QUEUE], event.decoded
        if detail.deleting:
            self._check_unused(event)
            return
        changes = {name: getattr(detail, name) for name in detail.changed}
        self._definitions[queue] = msgspec.structs.replace(self._definitions[queue], **changes)
        if not self._definitions[queue].exclusive:
            self._find_holder(queue)

    def _check_unused(self, event: Event) -> None:
        """Nothing is deleted for not being used while somebody could miss it."""
        queue = event.row[QUEUE]
        most = self._definitions[queue].auto_delete_message_count
        gone = self._ending.pop(queue, 0)
        if event.reason == reasons.AUTO_DELETE and most >= 0:
            count = gone + sum(each == queue for each, _ in self._reckoning.there)
            assert count <= most, f"{event} ends a queue with {count} messages"

    def _removed(self, event: Event) -> None:
        """A ring evicts only what nobody has in delivery."""
        row = event.row
        if event.reason == reasons.QUEUE_REMOVED:
            self._ending[row[QUEUE]] = self._ending.get(row[QUEUE], 0) + 1
        elif event.reason == reasons.RING_EVICTED:
            told = self._reckoning.there.get((row[QUEUE], row[MESSAGE]))
            assert told is None or not told.is_taken, f"{event} evicts what is in delivery"


_HANDLERS = {
    "AddressCreated": Promises._address_created,
    "BrokerStarted": Promises._started,
    "ConsumerAttached": Promises._attached,
    "ConsumerDetached": Promises._detached,
    "Delivered": Promises._delivered,
    "QueueCreated": Promises._queue_created,
    "QueueDeleted": Promises._check_unused,
    "QueueUpdated": Promises._queue_updated,
    "Removed": Promises._removed,
    "Routed": Promises._routed,
    "SettingsChanged": Promises._settings_changed,
    "Shown": Promises._handed_out,
}


def expires_by(settings: AddressSettings, sent: int, now: int) -> int:
    """When a message expires, by the words of the documentation on expiry."""
    if settings.no_expiry:
        return 0
    least, most = settings.min_expiry_delay, settings.max_expiry_delay
    if settings.expiry_delay >= 0:
        least = most = NO_LIMIT
        if sent == 0:
            return now + settings.expiry_delay
    if sent == 0:
        longest = most if most >= 0 else least
        return now + longest if longest >= 0 else 0
    if most >= 0 and sent > now + most:
        sent = now + most
    if least >= 0 and sent < now + least:
        sent = now + least
    return sent
