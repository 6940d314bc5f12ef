"""Bindings: each routes messages of an address into one queue (ADR 35).

A binding is derived from the definition of its queue; when that changes, a new one replaces it.
Must never know which queue is chosen where several are bound.
"""

from bisect import bisect_left
from typing import Final

from daybook.engine.message import Filter
from daybook.engine.queues import Queue


class SharedFilter:
    """The filter of one or more bindings of an address, all with the same text.

    `matcher` is None until it is needed; `count` is how many bindings have it.
    """

    __slots__ = ("count", "matcher")

    def __init__(self) -> None:
        self.count = 0
        self.matcher: Filter | None = None


NO_FILTER: Final = SharedFilter()
"""The filter of bindings that have none; must not be changed."""


class Binding:
    """The fact that a queue is bound to an address, with its routing type and filter.

    `address` is the name that messages are sent to. `shared` is the filter, which other bindings of
    the address may have as well. A queue that is not enabled takes nothing, nor does the history of
    an address (`is_shut`); where `served_only` is set, it takes messages only while it has
    consumers.
    `takes_all` says that nothing of this needs a look. `number` rises in the order of
    binding.
    """

    __slots__ = (
        "address", "filter", "is_shut", "number", "queue", "routing_type", "served_only",
        "shared", "takes_all",
    )  # fmt: skip

    def __init__(self, address: str, queue: Queue) -> None:
        self.address = address
        self.queue = queue
        self.number = 0
        self.routing_type = queue.definition.routing_type
        self.filter = queue.definition.filter
        self.served_only = queue.definition.purge_on_no_consumers
        self.shared = NO_FILTER
        self.is_shut = not queue.definition.enabled or bool(queue.definition.keeps)
        self.takes_all = not (self.is_shut or self.served_only or self.filter)

    @property
    def is_open(self) -> bool:
        """Whether it takes every message, without a look at its content."""
        definition = self.queue.definition
        return definition.enabled and not (
            self.filter or self.served_only or definition.keyed_by or definition.keeps
        )


NO_FILTERS: Final[dict[str, SharedFilter]] = {}
"""The filters of every address whose bindings have none; must not be changed."""

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
