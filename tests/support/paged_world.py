"""A world whose queues keep almost nothing in memory: the rest is in a store that lags behind."""

from typing import Any

from daybook.engine.broker import Broker
from daybook.engine.commands import Start
from daybook.engine.core.residency import page_out
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.queue import Queue
from daybook.engine.state.state import State
from tests.support.models.memory_store import MemoryStore
from tests.support.world import World, fold


def strip(state: State, store: MemoryStore) -> State:
    """Reduce a state to a loaded checkpoint: counts instead of ready entries, no content."""
    state.attach_store(store)
    for queue in state.queues.values():
        _page_out_everything(queue, store.indexed_lsn)
        for entry in queue.entries.values():
            entry.message.headers = entry.message.body = b""
            entry.message.resident = False
    for queue in state.queues.values():
        queue.latest = None
        queue.oldest = 0
    for timers in (state.expiring, state.scheduled):
        timers.heap.clear()
    return state


def _page_out_everything(queue: Queue, indexed_lsn: int) -> None:
    for number, level in enumerate(queue.levels):
        if level is None:
            continue
        ready = list(level.ready())
        queue.levels[number] = None
        queue.occupied &= ~(1 << number)
        if ready:
            if number < PRIORITIES:
                queue.occupied |= 1 << number
            paged = queue.level(number).open_paged(0, indexed_lsn)
            for entry in ready:
                paged.add(entry.message)
            queue.count_out(ready)
    for entry in queue.entries.values():
        entry.linked = False


class PagedWorld(World):
    """Pages out after every turn, as if every address paged: `window` entries stay of each queue.

    The store lags by `lag` events, and is brought up in steps of `lag + 1`.
    """

    def __init__(self, window: int, lag: int, **options: Any) -> None:
        self.window = window
        self.lag = lag
        self.paged = 0
        super().__init__(**options)

    def new_store(self) -> MemoryStore:
        """The options of paging of a started broker."""
        return MemoryStore(self.journal)

    def _start(self, skipped: int = 0) -> None:
        self.store = self.new_store()
        indexed = max(0, len(self.journal) - self.lag)
        self.store.advance(indexed)
        state = strip(fold(self.journal[:indexed]), self.store)
        state.window.messages = max(self.window, 1)
        fold(self.journal[indexed:], state)
        self.broker = Broker(state, len(self.journal) + 1, self.options)
        self.ok(Start(version="test", skipped=skipped))

    def turn(self) -> None:
        super().turn()
        if len(self.journal) - self.store.indexed_lsn > 2 * self.lag:
            self.store.advance(len(self.journal) - self.lag)
        for queue in self.state.queues.values():
            self.paged += page_out(queue, self.store.indexed_lsn, self.window, 1 << 30)
