"""What an index has queued, read as a start and consumers would."""

from daybook.engine.message import PRIORITIES, Entry
from daybook.engine.queues import PAST_ALL, Window
from daybook.engine.state import State
from daybook.paging.store import IndexStore


def entries_of(store: IndexStore, state: State) -> dict[tuple[int, int], Entry]:
    """Everything that a start would find queued, with its content."""
    found = {}
    for queue in state.queues.values():
        for entry in queue.entries.values():
            store.fill([entry.message])
            found[queue.id, entry.message.id] = entry
        for priority in range(PRIORITIES):
            after = 0
            while queue.gap(priority) is not None and after < PAST_ALL:
                loaded = store.load(queue, priority, after, Window(3, 500))
                found |= {(queue.id, each.message.id): each for each in loaded.entries}
                after = loaded.reached
    return found
