"""Slow consumers, by the settings of their address: detects, reports and disconnects them.

Each consumer is checked once in the `slow-consumer-check-period` of its address: how many messages
it has consumed since (acknowledged, or sent to it if it does not acknowledge), and how many it
could have consumed. It is slow if it could have reached `slow-consumer-threshold` but did not.
Addresses without a threshold cost almost nothing. Must never know sockets.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from daybook.engine.broker import Broker
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.queue import Queue
from daybook.engine.settings.setting_keys import KILL
from daybook.engine.settings.settings import AddressSettings
from daybook.server.hub.peer import Peer

ROUND_US: Final = 1_000_000
"""How often consumers are checked; periods are rounded up to a multiple of it."""

LOOKED_AT_A_TIME: Final = 1000
SHOWN_MAX: Final = 100
US_PER_SECOND: Final = 1_000_000


class Mark(NamedTuple):
    """The counts of a consumer at a moment (microseconds)."""

    moment: int
    handed: int
    unacked: int
    ready: int
    added: int


class SlowConsumers:
    """The slow consumers of one broker. `find` returns the peer of a connection."""

    def __init__(
        self,
        broker: Broker,
        find: Callable[[int], Peer | None],
        dismiss: Callable[[Peer, str, str], None],
    ) -> None:
        self._broker: Final = broker
        self._find: Final = find
        self._dismiss: Final = dismiss
        self._marks: dict[int, Mark] = {}
        # For each slow consumer, the messages a second that it consumed at its check.
        self._slow: dict[int, float] = {}
        self._left: list[Consumer] = []
        self._next_round = 0

    def tick(self, now: int) -> None:
        """Check some consumers."""
        if not self._left and now >= self._next_round:
            self._next_round = now + ROUND_US
            self._begin_round()
        for consumer in self._left[-LOOKED_AT_A_TIME:]:
            if consumer.id in self._broker.state.consumers:
                self._look(consumer, now)
        del self._left[-LOOKED_AT_A_TIME:]

    def _begin_round(self) -> None:
        state = self._broker.state
        if state.settings.has_slow_threshold:
            self._left = list(state.consumers.values())
        for known in (self._marks, self._slow):
            for gone in [number for number in known if number not in state.consumers]:
                del known[gone]

    def _look(self, consumer: Consumer, now: int) -> None:
        queue = consumer.queue
        settings = self._broker.state.settings.resolve(queue.address.name)
        if settings.slow_consumer_threshold < 0 or consumer.browses:
            # A browser delays nobody, so it may read as slowly as it likes.
            return
        period = settings.slow_consumer_check_period * US_PER_SECOND
        before = self._marks.get(consumer.id)
        # After a clock was set back, the period starts again.
        if before is not None and before.moment <= now < before.moment + period:
            return
        handed, unacked = _counts(consumer)
        self._marks[consumer.id] = Mark(now, handed, unacked, queue.ready_count, queue.added)
        if before is None or before.moment > now or _is_stopped(queue):
            return
        wanted = settings.slow_consumer_threshold * (now - before.moment) / US_PER_SECOND
        consumed = handed - before.handed + before.unacked - unacked
        offered = before.ready + queue.added - before.added
        if consumed >= wanted or before.unacked + offered / len(queue.consumers) < wanted:
            self._slow.pop(consumer.id, None)
            return
        rate = consumed * US_PER_SECOND / (now - before.moment)
        self._found(consumer, settings, rate)

    def _found(self, consumer: Consumer, settings: AddressSettings, rate: float) -> None:
        what = (
            f"subscription '{consumer.subscription}' consumed {rate:.1f} messages a second from "
            f"queue '{consumer.queue.name}', and slow-consumer-threshold is "
            f"{settings.slow_consumer_threshold}"
        )
        connection = consumer.connection
        who = f"connection {connection.id} of {connection.peer} (user '{connection.user}')"
        peer = self._find(connection.id)
        if settings.slow_consumer_policy == KILL and peer is not None:
            self._broker.notices.append(f"{who} is closed: {what}")
            self._dismiss(peer, what, "consume faster, or subscribe where a slow consumer may be")
        elif consumer.id not in self._slow:
            self._broker.notices.append(f"{who} is slow: {what}")
        self._slow[consumer.id] = rate

    def describe(self) -> list[dict[str, Any]]:
        """Describe the slow consumers, for `daybook status`."""
        rows: list[dict[str, Any]] = []
        for number, rate in list(self._slow.items())[:SHOWN_MAX]:
            consumer = self._broker.state.consumers.get(number)
            if consumer is not None:
                rows.append(
                    {
                        "consumer": number,
                        "connection": consumer.connection_id,
                        "peer": consumer.connection.peer,
                        "user": consumer.connection.user,
                        "queue": consumer.queue.name,
                        "rate": round(rate, 1),
                    }
                )
        return rows


def _counts(consumer: Consumer) -> tuple[int, int]:
    """Return how many messages were delivered to a consumer, and how many it has not settled.

    For a subscription to several queues the counts are those of the subscription: its queues share
    one credit, so one queue may have to wait while the subscriber consumes from the others as fast
    as it can.
    """
    bundle = consumer.bundle
    if bundle is None:
        return consumer.handed, consumer.unsettled
    return bundle.handed, len(bundle.order)


def _is_stopped(queue: Queue) -> bool:
    """Whether a queue delivers nothing, however fast its consumers are."""
    return queue.paused or queue.waits_since > 0
