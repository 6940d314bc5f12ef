"""The queued entries of an index, read as a start and consumers would read them."""

from daybook.engine.queues.entry import LEVELS, Entry
from daybook.engine.queues.queue import PAST_ALL
from daybook.engine.queues.window import Window
from daybook.engine.state.state import State
from daybook.paging.content.store import IndexStore


def entries_of(store: IndexStore, state: State) -> dict[tuple[int, int], Entry]:
    """Return all entries that a start would find queued, with their content."""
    found = {}
    for queue in state.queues.values():
        for entry in queue.entries.values():
            store.fill([entry.message])
            found[queue.id, entry.message.id] = entry
        for priority in range(LEVELS):
            after = 0
            while queue.paged_range(priority) is not None and after < PAST_ALL:
                loaded = store.load(queue, priority, after, Window(3, 500))
                found |= {(queue.id, each.message.id): each for each in loaded.entries}
                after = loaded.reached
    return found
