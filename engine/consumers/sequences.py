"""Sequence numbers: consumers that get only messages from a number on (ADR 50).

The sequence number of a message in its queue is its id, which is the LSN of its event: it grows
with every message that enters, is the same after a restart and in paged queues, and is never given
again, also not by a queue of the same name that is created later. Must never know how a consumer
reads.
"""

from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.messages.message import Filter, Message
from daybook.engine.queues.consumer import Consumer
from daybook.engine.refusals import Code, Refusal

TAIL: Final = -1
"""Asks for what enters the queue from now on."""
SEQUENCE_MAX: Final = (1 << 62) - 1


class Since:
    """The filter of a consumer that gets messages from a sequence number on, if another filter
    passes them."""

    __slots__ = ("_first", "_inner")

    def __init__(self, first: int, inner: Filter | None) -> None:
        self._first: Final = first
        self._inner: Final = inner

    def matches(self, message: Message) -> bool:
        """Whether the number is high enough, and the other filter, if any, passes the message."""
        inner = self._inner
        return message.id >= self._first and (inner is None or inner.matches(message))

    def work(self, message: Message) -> int:
        """Return how many steps it takes to ask about a message."""
        inner = self._inner
        return inner.work(message) if inner is not None and message.id >= self._first else 1


def filter_of(consumer: Consumer, own: Filter | None) -> Filter | None:
    """Return the filter of a consumer, given the compiled text of its own one, if it has any."""
    return Since(consumer.first, own) if consumer.first else own


def check(core: Core, address: str, sequence: int) -> Refusal | None:
    """Return why a consumer cannot begin at a sequence number, None if it can."""
    if core.state.settings.syntax.is_pattern(address):
        return Refusal(
            Code.INVALID,
            "sequence numbers are those of one destination: from-seq cannot be used with wildcards;"
            " subscribe to each queue by itself",
        )
    if not TAIL <= sequence <= SEQUENCE_MAX:
        return Refusal(
            Code.INVALID,
            f"from-seq is {sequence}; it is a sequence number, 0 for all messages that are there,"
            " or -1 for new ones only",
        )
    return None


def first_of(core: Core, sequence: int | None) -> int:
    """Return the lowest sequence number that a consumer gets, 0 for any."""
    if sequence is None:
        return 0
    return core.next_lsn if sequence == TAIL else sequence
