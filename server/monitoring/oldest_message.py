"""The ready message of all queues that has waited for longest.

There may be 100,000 queues, so each tick looks at a few and a round may take many ticks; where the
store has to be asked, after a start, a tick asks for a few milliseconds at most. Reports show what
the last whole round found, as long as it waits. Only reads. Must never know its callers.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

from daybook.engine.queues.level_scan import oldest_known
from daybook.engine.queues.queue import Queue
from daybook.engine.state.state import State
from daybook.server.administration.views import entered, oldest_of

LOOKED_AT: Final = 500
"""At how many queues one tick looks."""
ASKED: Final = 50
"""For how many queues one tick asks the store, some 50 µs each."""
TICK_SECONDS: Final = 0.002
"""How long a tick asks the store: reading from a slow disk takes longer."""
MS_PER_S: Final = 1000


class OldestMessage:
    """The result of the last round, and the round that has begun."""

    def __init__(self) -> None:
        self._found: Queue | None = None
        self._best: tuple[int, Queue] | None = None
        self._round: Iterator[Queue] | None = None
        self._since: tuple[int, int | None] = 0, None
        self._state: State | None = None

    def look(self, state: State) -> None:
        """Look at the next few queues; called about ten times a second."""
        self._state = state
        if self._round is None:
            self._round = iter(list(state.queues.values()))
            self._best = None
        asked = 0
        until = time.monotonic() + TICK_SECONDS
        for _ in range(LOOKED_AT):
            queue = next(self._round, None)
            if queue is None:
                self._round = None
                self._found = self._best[1] if self._best is not None else None
                return
            if not queue.ready_count or not self._is_there(queue):
                continue
            asked += oldest_known(queue) is None
            oldest = oldest_of(queue)
            if oldest and (self._best is None or oldest < self._best[0]):
                self._best = oldest, queue
            if asked >= ASKED or (asked and time.monotonic() > until):
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
