"""Effects: what follows from decisions outside of the engine, in the order of the decisions.

A delivery is a plain tuple, because there is one for each message. The other kinds are rare: each
is a class that says what happened to one consumer, and calls the method of its receiver. An effect
is never journaled, and dropped in a fold. `gate` is the LSN that must be durable before anybody
outside may learn of it. Must never know a protocol.
"""

from typing import Final, Protocol, TypeAlias

from daybook.engine.messages.message import Message
from daybook.engine.queues.consumer import Consumer

Delivered: TypeAlias = tuple[Consumer, Message, int, bool, int]
"""A delivery: consumer, message, the number of the attempt, whether it may have been delivered
before, and the gate."""


class Receiver(Protocol):
    """What a consumer's deliveries are handed to (`engine.commands.Attach.receiver`): it has a
    method for each kind of effect."""

    def deliver(self, message: Message, count: int, redelivered: bool, gate: int) -> None:
        """Take a delivery, the count-th attempt; `redelivered` says that there may have been one
        before, even if that did not count."""
        ...

    def browsed(self) -> None:
        """Take note that a browser has read everything, and gets nothing more."""
        ...

    def drained(self, unused: int, total: int) -> None:
        """Take note that a drain is over: so much credit was taken back, and the consumer got and
        lost so much in all since it attached."""
        ...


class Effect:
    """Base of all effects but deliveries."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer: Final = consumer

    def hand_to(self, receiver: Receiver) -> None:
        """Call the method of the receiver that is for this kind."""
        raise NotImplementedError


class Browsed(Effect):
    """A browser has read everything: all of its queue, or of all queues of its bundle."""

    __slots__ = ()

    def hand_to(self, receiver: Receiver) -> None:
        """Tell the receiver of the end."""
        receiver.browsed()


class Drained(Effect):
    """A drain is over: the consumer got what there was, and has no credit left.

    `unused` is the credit that was taken back. `total` is how many deliveries it got and how much
    credit drains took back, since it attached: that is what AMQP counts as deliveries.
    """

    __slots__ = ("total", "unused")

    def __init__(self, consumer: Consumer, unused: int, total: int) -> None:
        super().__init__(consumer)
        self.unused: Final = unused
        self.total: Final = total

    def hand_to(self, receiver: Receiver) -> None:
        """Answer the drain."""
        receiver.drained(self.unused, self.total)
