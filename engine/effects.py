"""Effects: what follows from decisions outside of the engine, in the order of the decisions.

A delivery is a plain tuple, because there is one for each message. The other kinds are rare: each
is a class that says what happened to one consumer, and calls the method of its receiver. An effect
is never journaled, and dropped in a fold. `gate` is the LSN that must be durable before anybody
outside may learn of it. Must never know a protocol.
"""

from typing import Any, Final, Protocol, TypeAlias

from daybook.engine.facts.definitions import LinkRoute
from daybook.engine.links.links import Ending
from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import Taker

REDELIVERED: Final = 1
"""Mark of a delivery: there may have been one of the message before, even if that did not count."""
RETAINED: Final = 2
"""Mark of a delivery: the address remembered the message for its queue, and the consumer wants to
know (`engine.commands.Attach.tells_retained`)."""

Delivered: TypeAlias = tuple[Taker, Message, int, int, int]
"""A delivery: consumer, message, the number of the attempt, the marks, and the gate."""


class Receiver(Protocol):
    """The receiver of a consumer's deliveries (`engine.commands.Attach.receiver`), with a method
    for each kind of effect."""

    def deliver(self, message: Message, count: int, marks: int, gate: int) -> None:
        """Take a delivery, the count-th attempt."""
        ...

    def browsed(self) -> None:
        """Take note that a browser has read everything, and gets nothing more."""
        ...

    def drained(self, unused: int, total: int) -> None:
        """Take note that a drain is over: so much credit was taken back, and the consumer got and
        lost so much in all since it attached."""
        ...

    def settled(self, messages: tuple[int, ...], reason: int, gate: int) -> None:
        """Take note that the broker ended deliveries, of these messages, for a reason of events."""
        ...

    def detached(self, reason: int, text: str, gate: int, now: int) -> None:
        """Take note that the broker detached the consumer, with all that it had in flight; the
        text says why, to people."""
        ...


class SenderEnds(Protocol):
    """The receiver of what concerns a sender to a direct address
    (`engine.commands.AttachSender.receiver`)."""

    def ended(self, token: Any, ending: Ending, now: int) -> None:
        """Take note of the end of a message."""
        ...

    def opened(self, is_open: bool, now: int) -> None:
        """Take note that somebody receives from now on, or nobody any more."""
        ...


class RouteHost(Protocol):
    """The receiver of links that are passed on to a container (`engine.commands.HostLinks`)."""

    def route_begun(self, end: Taker, route: LinkRoute, asked: Any, now: int) -> None:
        """Attach a link to the container, and set `receiver` of this end of it."""
        ...


class RoutedEnds(Protocol):
    """The receiver of what concerns one end of a link that is passed on
    (`engine.commands.RouteLink`)."""

    def passed(self, what: Any, now: int) -> None:
        """Say what the other end said."""
        ...

    def opened(self, is_open: bool, now: int) -> None:
        """Take note that the other end has room again."""
        ...

    def route_ended(self, what: Any, now: int) -> None:
        """Take note that the other end has ended, with its last word, None if its connection was
        lost."""
        ...


class Effect:
    """Base of all effects but deliveries."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Taker) -> None:
        self.consumer: Final = consumer

    def hand_to(self, receiver: Any, now: int) -> None:
        """Call the method of the receiver that is for this kind, at this time in microseconds."""
        raise NotImplementedError


class Browsed(Effect):
    """A browser has read everything: all of its queue, or of all queues of its bundle."""

    __slots__ = ()

    def hand_to(self, receiver: Receiver, now: int) -> None:
        """Tell the receiver of the end."""
        receiver.browsed()


class Drained(Effect):
    """A drain is over: the consumer got what there was, and has no credit left.

    `unused` is the credit that was taken back. `total` is how many deliveries it got and how much
    credit drains took back, since it attached: that is what AMQP counts as deliveries.
    """

    __slots__ = ("total", "unused")

    def __init__(self, consumer: Taker, unused: int, total: int) -> None:
        super().__init__(consumer)
        self.unused: Final = unused
        self.total: Final = total

    def hand_to(self, receiver: Receiver, now: int) -> None:
        """Answer the drain."""
        receiver.drained(self.unused, self.total)


class Settled(Effect):
    """The broker ended deliveries of a consumer in flight, whose subscription stays: a later
    settlement of one of them means nothing."""

    __slots__ = ("gate", "messages", "reason")

    def __init__(self, consumer: Taker, messages: tuple[int, ...], reason: int, gate: int) -> None:
        super().__init__(consumer)
        self.messages: Final = messages
        self.reason: Final = reason
        self.gate: Final = gate

    def hand_to(self, receiver: Receiver, now: int) -> None:
        """Tell the receiver which deliveries ended."""
        receiver.settled(self.messages, self.reason, self.gate)


class Detached(Effect):
    """The broker detached a consumer whose client did not ask for it: its queue is gone.

    All that it had in flight has ended. Its connection stays, with its other consumers.
    """

    __slots__ = ("gate", "reason", "text")

    def __init__(self, consumer: Taker, reason: int, text: str, gate: int) -> None:
        super().__init__(consumer)
        self.reason: Final = reason
        self.text: Final = text
        self.gate: Final = gate

    def hand_to(self, receiver: Receiver, now: int) -> None:
        """Tell the receiver that the consumer is gone."""
        receiver.detached(self.reason, self.text, self.gate, now)


class Ended(Effect):
    """Messages to direct addresses have ended: their sender hears how."""

    __slots__ = ("ending", "tokens")

    def __init__(self, sender: Taker, token: Any, ending: Ending) -> None:
        super().__init__(sender)
        self.tokens: Final = [token]
        self.ending: Final = ending

    def hand_to(self, receiver: SenderEnds, now: int) -> None:
        """Tell the sender."""
        for token in self.tokens:
            receiver.ended(token, self.ending, now)


class Passed(Effect):
    """One end of a link that is passed on said something: the other end is to say it too."""

    __slots__ = ("what",)

    def __init__(self, end: Taker, what: Any) -> None:
        super().__init__(end)
        self.what: Final = what

    def hand_to(self, receiver: RoutedEnds, now: int) -> None:
        """Tell the end."""
        receiver.passed(self.what, now)


class RouteBegun(Effect):
    """A link is to be passed on to a container: its receiver for new links attaches it."""

    __slots__ = ("asked", "route")

    def __init__(self, end: Taker, route: LinkRoute, asked: Any) -> None:
        super().__init__(end)
        self.route: Final = route
        self.asked: Final = asked

    def hand_to(self, receiver: RouteHost, now: int) -> None:
        """Let it attach the link."""
        receiver.route_begun(self.consumer, self.route, self.asked, now)


class RouteEnded(Effect):
    """The other end of a link that is passed on has ended, with its last word, None if its
    connection was lost."""

    __slots__ = ("what",)

    def __init__(self, end: Taker, what: Any) -> None:
        super().__init__(end)
        self.what: Final = what

    def hand_to(self, receiver: RoutedEnds, now: int) -> None:
        """Tell the end."""
        receiver.route_ended(self.what, now)


class Opened(Effect):
    """Somebody receives from the address of a sender from now on, or nobody any more; or the other
    end of a link that is passed on has room again."""

    __slots__ = ("is_open",)

    def __init__(self, sender: Taker, is_open: bool) -> None:
        super().__init__(sender)
        self.is_open: Final = is_open

    def hand_to(self, receiver: SenderEnds, now: int) -> None:
        """Tell the sender."""
        receiver.opened(self.is_open, now)
