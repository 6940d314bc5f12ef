"""Consumers that return messages as not for themselves: they take no more of them.

The messages are part of the logical state while the consumer is attached: its refusals end with it
(`engine.queues.entry.Taker.refused`). What decides is a filter before its own one, so all rules of
who gets what follow it, those of groups too. A message that every consumer of its queue refused
waits, as one that no filter passes: for another consumer, or for its expiry. Must never know how a
delivery ends.
"""

from typing import Final

from daybook.engine.messages.message import Filter, Message
from daybook.engine.queues.consumer import Consumer


class Unrefused:
    """The filter of a consumer that gets what it has not refused, if another filter passes it."""

    __slots__ = ("_consumer", "_inner")

    def __init__(self, consumer: Consumer, inner: Filter | None) -> None:
        self._consumer: Final = consumer
        self._inner: Final = inner

    def matches(self, message: Message) -> bool:
        """Whether it did not refuse the message, and the other filter, if any, passes it."""
        if message.id in self._consumer.refused:
            return False
        return self._inner is None or self._inner.matches(message)

    def work(self, message: Message) -> int:
        """Return how many steps it takes to ask about a message."""
        return self._inner.work(message) if self._inner is not None else 1


def look_at(consumer: Consumer) -> None:
    """Let the filter of a consumer that refused something say so."""
    if not isinstance(consumer.matcher, Unrefused):
        consumer.matcher = Unrefused(consumer, consumer.matcher)
