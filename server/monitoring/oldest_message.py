"""The ready message of all queues that has waited for longest.

There may be 100,000 queues, so each look is at a few and a round may take many of them; where the
store has to be asked, after a start, a look asks for a few milliseconds at most. The first round
hurries, so that nobody who lists queues waits for the store. Reports show what the last whole round
found, as long as it waits. Only reads. Must never know its callers.
"""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from daybook.engine.queues.queue import Queue
from daybook.engine.state.state import State
from daybook.server.administration.views import entered, oldest_of, oldest_of_each

LOOKED_AT: Final = 500
"""How many queues one look is at."""
AT_ONCE: Final = 100
"""For how many queues the store is asked at once, some 10 µs each."""
LOOK_SECONDS: Final = 0.002
"""How long a look asks the store: reading from a slow disk takes longer."""
FIRST_PAUSE_SECONDS: Final = 0.005
"""Between two looks of the first round, which have a third of the time of an idle broker."""
MS_PER_S: Final = 1000


class OldestMessage:
    """The result of the last round, and the round that has begun."""

    def __init__(self) -> None:
        self._found: Queue | None = None
        self._best: tuple[int, Queue] | None = None
        self._round: Iterator[Queue] | None = None
        self._since: tuple[int, int | None] = 0, None
        self._state: State | None = None
        self._has_looked = False

    def pause(self, usual: float) -> float:
        """Return how many seconds to wait before the next look; after the first round, as long as
        usual."""
        return usual if self._has_looked else FIRST_PAUSE_SECONDS

    def look(self, state: State) -> None:
        """Look at the next few queues."""
        self._state = state
        if self._round is None:
            self._round = iter(list(state.queues.values()))
            self._best = None
        until = time.monotonic() + LOOK_SECONDS
        for _ in range(LOOKED_AT // AT_ONCE):
            some = list(islice(self._round, AT_ONCE))
            if not some:
                self._round = None
                self._has_looked = True
                self._found = self._best[1] if self._best is not None else None
                return
            there = [each for each in some if each.ready_count and self._is_there(each)]
            for queue, oldest in zip(there, oldest_of_each(there), strict=True):
                if oldest and (self._best is None or oldest < self._best[0]):
                    self._best = oldest, queue
            if time.monotonic() > until:
                return

    def status(self, now: int) -> dict[str, Any]:
        """Return the message, its queue and its age in seconds at a time, in milliseconds since
        1970; None for each if no message is ready."""
        queue = self._queue()
        oldest = oldest_of(queue) if queue is not None else 0
        if queue is None or not oldest:
            return {
                "oldest_ready": None, "oldest_ready_queue": None, "oldest_ready_age_seconds": None,
            }  # fmt: skip
        if self._since[0] != oldest or self._since[1] is None:
            self._since = oldest, entered(queue, oldest)
        since = self._since[1]
        return {
            "oldest_ready": oldest,
            "oldest_ready_queue": queue.name,
            # An event that is not durable came just now.
            "oldest_ready_age_seconds": max(0, now - (since or now)) / MS_PER_S,
        }

    def _queue(self) -> Queue | None:
        """Return the queue with the message: that of the last round, or else of this one."""
        best = self._best[1] if self._best is not None else None
        for queue in (self._found, best):
            if queue is not None and queue.ready_count and self._is_there(queue):
                return queue
        return None

    def _is_there(self, queue: Queue) -> bool:
        return self._state is not None and self._state.queues.get(queue.id) is queue
