"""Paused queues in which messages wait: how many there are, and the names of some.

There may be 100,000 of them, so each tick looks at a few and a round may take several ticks.
Reports show the result of the last whole round. Only reads. Must never know its callers.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from daybook.engine.queues.queue import Queue
from daybook.engine.state.state import State

LOOKED_AT: Final = 500
"""At how many paused queues one tick looks."""
NAMED_MAX: Final = 20
"""How many of them are reported with names and counts."""


class PausedQueues:
    """The result of the last round, and the round that has begun."""

    def __init__(self) -> None:
        self._count = 0
        self._named: list[dict[str, Any]] = []
        self._round: Iterator[Queue] | None = None
        self._next_count = 0
        self._next_named: list[dict[str, Any]] = []

    def look(self, state: State) -> None:
        """Look at the next few queues; called about ten times a second."""
        if self._round is None:
            self._round = _paused(state)
            self._next_count, self._next_named = 0, []
        seen = 0
        for queue in islice(self._round, LOOKED_AT):
            seen += 1
            if queue.ready_count and state.queues.get(queue.id) is queue:
                self._note(queue)
        if seen < LOOKED_AT:
            self._round = None
            self._count, self._named = self._next_count, self._next_named

    def _note(self, queue: Queue) -> None:
        self._next_count += 1
        if len(self._next_named) < NAMED_MAX:
            self._next_named.append(
                {
                    "queue": queue.name,
                    "address": queue.address.name,
                    "messages": queue.ready_count,
                    "paused": "queue" if queue.paused else "address",
                }
            )

    def status(self) -> dict[str, Any]:
        """Return how many paused queues hold messages, and the first of them."""
        return {"count": self._count, "queues": self._named}


def _paused(state: State) -> Iterator[Queue]:
    """Yield the queues that are paused, or whose address is, as of now; each once."""
    yield from list(state.paused.values())
    for address in list(state.paused_addresses.values()):
        yield from (queue for queue in address.queues() if not queue.paused)
