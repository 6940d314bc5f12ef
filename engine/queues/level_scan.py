"""Reading a level from a position on, without making the entries of the store resident.

Costs what is found, at most SCAN_ENTRIES at a time, not the length of the level. Must never know
the reader.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import Final

from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.level import Level, Run, position_of
from daybook.engine.queues.paged_range import PagedRange
from daybook.engine.queues.queue import Queue
from daybook.engine.queues.window import Window

SCAN_ENTRIES: Final = 500
"""How many entries are read at a time at most."""
FEW: Final = 64
"""So few entries are fetched one by one from the middle of a line."""
_LEVELS: Final = tuple(
    tuple(number for number in range(PRIORITIES) if bits & 1 << number)
    for bits in range(1 << PRIORITIES)
)
"""The levels to deliver from of each set of them, as bits: asked for each of many queues."""


def behind(queue: Queue, number: int, position: int, most: int = SCAN_ENTRIES) -> list[Entry]:
    """Return some ready entries of a level after a position, in order, if there are any.

    About `most` of them. Entries that are only in the store are returned with content and do not
    become resident.
    """
    level = queue.levels[number]
    if level is None:
        return []
    found = _in_run(level.head, position, most)
    if found or level.paged is None:
        return found
    return _in_paged(queue, number, level.paged, position, most) or _in_run(
        level.end, position, most
    )


def entry_of(queue: Queue, message_id: int) -> Entry | None:
    """Return an entry by its message, None if the queue does not have it; one that is only in the
    store does not become resident."""
    entry = queue.entries.get(message_id)
    if entry is not None or queue.store is None or not queue.paged_count:
        return entry
    return queue.store.find(queue, message_id) if message_id not in queue.gone else None


def is_there(queue: Queue, message_id: int) -> bool:
    """Whether a queue has a message, in memory or in the store."""
    if message_id in queue.entries:
        return True
    if queue.store is None or not queue.paged_count or message_id in queue.gone:
        return False
    return queue.store.find(queue, message_id) is not None


def oldest_ready(queue: Queue) -> int:
    """Return the ready message that entered a queue first, 0 if none is ready.

    The store is asked for a level whose first entry only it has, once for each such entry. Raises
    StoreError.
    """
    known = oldest_known(queue)
    if known is None:
        ask_for_oldest([queue])
        known = oldest_known(queue)
    if known is not None:
        return known
    firsts = [_first_of(level) for level in queue.levels[:PRIORITIES] if level is not None]
    return min(filter(None, firsts), default=0)


def ask_for_oldest(queues: Iterable[Queue]) -> None:
    """Ask the store, once for all of these queues, for the entries that `oldest_known` lacks.
    Raises StoreError."""
    unknown = [
        (queue, number, level.paged)
        for queue in queues
        for number in _LEVELS[queue.occupied % len(_LEVELS)]
        if (level := queue.levels[number]) is not None and level.paged is not None
        and level.paged.count and not level.paged.first and level.first() is None
    ]  # fmt: skip
    if not unknown:
        return
    store = unknown[0][0].store
    assert store is not None
    firsts = store.firsts([(queue, number, paged.after) for queue, number, paged in unknown])
    for (_, _, paged), first in zip(unknown, firsts, strict=True):
        paged.first = first if first <= paged.until else 0


def oldest_known(queue: Queue) -> int | None:
    """Return what `oldest_ready` does, None if the store has to be asked; many queues are.

    The queue remembers it: its levels lie anywhere in memory, so that to look at those of very many
    queues takes long.
    """
    if not queue.ready_count:
        return 0
    oldest = queue.oldest
    if oldest:
        return oldest
    levels = queue.levels
    for number in _LEVELS[queue.occupied % len(_LEVELS)]:
        level = levels[number]
        if level is None:
            continue
        head, paged = level.head, level.paged
        # The usual cases of `_first_of`, written out because many queues are asked.
        if head.line and not head.back and (entry := head.line[0]).state == READY:
            found = entry.position
        elif (head.line or head.back) and (first := level.first()) is not None:
            found = first.position
        elif paged is None:
            continue
        elif paged.count and not paged.first:
            return None
        elif paged.count and not paged.islands:
            found = paged.first
        else:
            found = _first_of(level)
        if found and (not oldest or found < oldest):
            oldest = found
    queue.oldest = oldest
    return oldest


def _first_of(level: Level) -> int:
    """Return the first ready entry of a level, 0 if it has none; of what only the store has, the
    one that is known."""
    first = level.first()
    if first is not None:
        return first.position
    paged = level.paged
    if paged is None:
        return 0
    firsts = [each.position for each in paged.islands if each.state == READY]
    if paged.count:
        firsts.append(paged.first)
    firsts = firsts or [each.position for each in islice(level.end.ready(), 1)]
    return min(filter(None, firsts), default=0)


def _in_run(run: Run, position: int, most: int) -> list[Entry]:
    found = _in_line(run.line, position, most)
    returned = _in_line(run.back, position, most)
    return list(islice(merge(found, returned, key=position_of), most)) if returned else found


def _in_line(line: deque[Entry], position: int, most: int) -> list[Entry]:
    if not line or line[-1].position <= position:
        return []
    place = bisect_right(line, position, key=position_of) if line[0].position <= position else 0
    if most > FEW or not place:
        return list(
            islice((each for each in islice(line, place, None) if each.state == READY), most)
        )
    found: list[Entry] = []
    # A deque finds a place from its nearer end, which is cheaper than to iterate over all before.
    while place < len(line) and len(found) < most:
        entry = line[place]
        if entry.state == READY:
            found.append(entry)
        place += 1
    return found


def _in_paged(
    queue: Queue, number: int, paged: PagedRange, position: int, most: int
) -> list[Entry]:
    after = max(position, paged.after)
    islands = [entry for entry in paged.islands if entry.state == READY]
    window = queue.window
    if most < window.messages:
        window = Window(most, window.bytes)
    while True:
        loaded: list[Entry] = []
        reached = paged.until
        if paged.count and after < paged.until:
            assert queue.store is not None
            answer = queue.store.load(queue, number, after, window)
            loaded = [entry for entry in answer.entries if entry.position <= paged.until]
            reached = min(answer.reached, paged.until)
        loaded += [entry for entry in islands if position < entry.position <= reached]
        if loaded or reached >= paged.until:
            loaded.sort(key=position_of)
            return loaded
        after = reached
