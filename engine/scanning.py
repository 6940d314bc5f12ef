"""Reading a level from a position on, without making the entries of the store resident.

Costs what is found, at most SCAN_ENTRIES at a time, not the length of the level. Must never know
the reader.
"""

from collections import deque
from heapq import merge
from itertools import islice
from typing import Final

from daybook.engine.gap import Gap
from daybook.engine.level import Run, position_of
from daybook.engine.message import READY, Entry
from daybook.engine.queues import Queue

SCAN_ENTRIES: Final = 500
"""How many entries are read at a time."""


def behind(queue: Queue, number: int, position: int) -> list[Entry]:
    """Return some ready entries of a level after a position, in order, if there are any.

    Entries that are only in the store are returned with content and do not become resident.
    """
    level = queue.levels[number]
    if level is None:
        return []
    found = _in_run(level.head, position)
    if found or level.gap is None:
        return found
    return _in_gap(queue, number, level.gap, position) or _in_run(level.end, position)


def _in_run(run: Run, position: int) -> list[Entry]:
    run.settle_if_short()
    found = _in_line(run.line, position)
    if not run.back:
        return found
    returned = [each[2] for each in run.back if each[0] > position and each[2].state == READY]
    if not returned:
        return found
    returned.sort(key=position_of)
    return list(islice(merge(found, returned, key=position_of), SCAN_ENTRIES))


def _in_line(line: deque[Entry], position: int) -> list[Entry]:
    first = next((entry for entry in line if entry.state == READY), None)
    if first is None:
        return []
    if first.position > position:
        return list(islice((entry for entry in line if entry.state == READY), SCAN_ENTRIES))
    # From the end, because new entries are there; the earliest ones found stay.
    later: deque[Entry] = deque(maxlen=SCAN_ENTRIES)
    for entry in reversed(line):
        if entry.state != READY:
            continue
        if entry.position <= position:
            break
        later.appendleft(entry)
    return list(later)


def _in_gap(queue: Queue, number: int, gap: Gap, position: int) -> list[Entry]:
    after = max(position, gap.after)
    islands = [entry for entry in gap.islands if entry.state == READY]
    while True:
        loaded: list[Entry] = []
        reached = gap.until
        if gap.count and after < gap.until:
            assert queue.store is not None
            answer = queue.store.load(queue, number, after, queue.window)
            loaded = [entry for entry in answer.entries if entry.position <= gap.until]
            reached = min(answer.reached, gap.until)
        loaded += [entry for entry in islands if position < entry.position <= reached]
        if loaded or reached >= gap.until:
            loaded.sort(key=position_of)
            return loaded
        after = reached
