"""Bindings: each routes messages of an address into one queue (ADR 35).

A binding is derived from the definition of its queue; when that changes, a new one replaces it.
Must never know which queue is chosen where several are bound.
"""

from bisect import bisect_left
from typing import Final

from daybook.engine.message import Filter, Message
from daybook.engine.queues import Queue


class _Nothing:
    """The filter of a queue that takes nothing: it is not enabled, or gets its messages
    otherwise."""

    def matches(self, message: Message) -> bool:
        """Return False."""
        return False


NOTHING: Final = _Nothing()


class Binding:
    """The fact that a queue is bound to an address, with its routing type and filter.

    `address` is the name that messages are sent to. `matcher` is the compiled filter, compiled when
    it is first needed; that of a queue that is not enabled lets nothing in, nor does that of the
    history of an address, and where `served_only`
    is set it also wants the queue to have consumers. `number` rises in the order of binding.
    """

    __slots__ = ("address", "filter", "matcher", "number", "queue", "routing_type", "served_only")

    def __init__(self, address: str, queue: Queue) -> None:
        self.address = address
        self.queue = queue
        self.number = 0
        self.routing_type = queue.definition.routing_type
        self.filter = queue.definition.filter
        self.served_only = queue.definition.purge_on_no_consumers
        self.matcher: Filter | None = None
        if not queue.definition.enabled or queue.definition.keeps:
            self.matcher = NOTHING
        elif self.served_only and not self.filter:
            self.matcher = Served(queue, None)

    @property
    def is_open(self) -> bool:
        """Whether it takes every message, without a look at its content."""
        definition = self.queue.definition
        return definition.enabled and not (
            self.filter or self.served_only or definition.keyed_by or definition.keeps
        )

    def compiled(self, matcher: Filter) -> Filter:
        """Set the compiled filter; return what a message must match."""
        self.matcher = Served(self.queue, matcher) if self.served_only else matcher
        return self.matcher


class Served:
    """The filter of a queue that takes messages only while it has consumers."""

    __slots__ = ("_inner", "_queue")

    def __init__(self, queue: Queue, inner: Filter | None) -> None:
        self._queue: Final = queue
        self._inner: Final = inner

    def matches(self, message: Message) -> bool:
        """Whether the queue has consumers and the message passes the filter of the queue."""
        inner = self._inner
        return bool(self._queue.consumers) and (inner is None or inner.matches(message))


NO_BINDINGS: Final[list[Binding]] = []
"""The bindings of every address without any; must not be changed."""


def bound(bindings: list[Binding], binding: Binding) -> list[Binding]:
    """Return the bindings with one more: the same list, unless there were none."""
    if bindings is NO_BINDINGS:
        return [binding]
    if bindings:
        binding.number = bindings[-1].number + 1
    bindings.append(binding)
    return bindings


def place_of(bindings: list[Binding], binding: Binding) -> int:
    """Return the place of a binding. Raises ValueError if it is not there.

    Found by its number: a topic may have a hundred thousand subscribers that leave together.
    """
    place = bisect_left(bindings, binding.number, key=_number_of)
    if place < len(bindings) and bindings[place] is binding:
        return place
    raise ValueError(f"queue '{binding.queue.name}' is not bound")


def _number_of(binding: Binding) -> int:
    return binding.number


def unbound(bindings: list[Binding], binding: Binding) -> list[Binding]:
    """Return the bindings with one less: the same list, unless there are none left."""
    del bindings[place_of(bindings, binding)]
    return bindings or NO_BINDINGS
