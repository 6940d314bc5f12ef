"""Bindings: each routes messages of an address into one queue (ADR 35).

A binding is derived from the definition of its queue; when that changes, a new one replaces it.
Must never know which queue is chosen where several are bound.
"""

from typing import Final

from daybook.engine.message import Filter, Message
from daybook.engine.queues import Queue


class _Nothing:
    """The filter of a queue that is not enabled."""

    def matches(self, message: Message) -> bool:
        """Return False."""
        return False


NOTHING: Final = _Nothing()


class Binding:
    """The fact that a queue is bound to an address, with its routing type and filter.

    `address` is the name that messages are sent to. `matcher` is the compiled filter, compiled when
    it is first needed; that of a queue that is not enabled lets nothing in.
    """

    __slots__ = ("address", "filter", "matcher", "queue", "routing_type")

    def __init__(self, address: str, queue: Queue) -> None:
        self.address = address
        self.queue = queue
        self.routing_type = queue.definition.routing_type
        self.filter = queue.definition.filter
        self.matcher: Filter | None = None if queue.definition.enabled else NOTHING


NO_BINDINGS: Final[list[Binding]] = []
"""The bindings of every address without any; must not be changed."""


def bound(bindings: list[Binding], binding: Binding) -> list[Binding]:
    """Return the bindings with one more: the same list, unless there were none."""
    if bindings is NO_BINDINGS:
        return [binding]
    bindings.append(binding)
    return bindings


def unbound(bindings: list[Binding], binding: Binding) -> list[Binding]:
    """Return the bindings with one less: the same list, unless there are none left."""
    bindings.remove(binding)
    return bindings or NO_BINDINGS
