"""Deciding who gets what when consumers have filters: what nobody wants is passed over, once.

Each consumer remembers up to where it has seen everything and wanted none of it (`passed`), by
level; what comes back behind that is looked at again. So a consumer never waits behind messages
that are not for it, wherever they live, and a dispatch costs what is new, not the backlog.
"""

from collections import deque
from heapq import merge
from itertools import islice
from typing import Final

from daybook.engine.core import Core
from daybook.engine.departing import expire
from daybook.engine.expiry import is_expired
from daybook.engine.gap import Gap
from daybook.engine.handing import can_take, deliver
from daybook.engine.level import Run, position_of
from daybook.engine.message import PRIORITIES, READY, Entry
from daybook.engine.queues import Queue
from daybook.engine.state import NOTHING_PASSED, Consumer

SCAN_ENTRIES: Final = 500
"""How many entries are looked at at a time."""
TURN_ENTRIES: Final = 5_000
"""How many entries of a queue are looked at before others have their turn."""


def dispatch_selectively(core: Core, queue: Queue) -> None:
    """Deliver from a queue some of whose consumers have filters."""
    # Each entry is shown to each consumer.
    shown = max(1, len(queue.consumers))
    left = min(TURN_ENTRIES, max(SCAN_ENTRIES, core.budget.left // shown))
    for priority in range(PRIORITIES - 1, -1, -1):
        while True:
            able = [consumer for consumer in queue.consumers if can_take(consumer)]
            if not able:
                return
            start = min(each.passed.get(priority, NOTHING_PASSED) for each in able)
            entries = behind(queue, priority, start)
            if not entries:
                break
            if left <= 0:
                core.later[queue.id] = queue
                return
            left -= len(entries)
            core.budget.spent += len(entries) * shown
            _hand_out(core, queue, priority, entries)


def _hand_out(core: Core, queue: Queue, priority: int, entries: list[Entry]) -> None:
    """Offer entries in order, until nobody can take any more."""
    for entry in entries:
        able = [consumer for consumer in queue.consumers if can_take(consumer)]
        if not able:
            return
        place = entry.position
        if all(place <= each.passed.get(priority, NOTHING_PASSED) for each in able):
            # Who had not passed it can take no more: it is not to be looked at now.
            continue
        if entry.message.expires and is_expired(core, queue, entry):
            queue.make_resident(entry)
            expire(core, queue, entry)
            continue
        if not entry.message.resident:
            core.fill(entry.message)
        chosen = _next_taker(queue, entry, priority, place)
        if chosen is not None:
            queue.make_resident(entry)
            deliver(core, entry, chosen)
            continue
        for consumer in able:
            if consumer.passed.get(priority, NOTHING_PASSED) < place:
                consumer.passed[priority] = place
                queue.has_passed = True


def _next_taker(queue: Queue, entry: Entry, priority: int, place: int) -> Consumer | None:
    count = len(queue.consumers)
    for step in range(count):
        position = (queue.next_consumer + step) % count
        consumer = queue.consumers[position]
        if not can_take(consumer) or place <= consumer.passed.get(priority, NOTHING_PASSED):
            continue
        if consumer.matcher is None or consumer.matcher.matches(entry.message):
            queue.next_consumer = (position + 1) % count
            return consumer
    return None


# ---- looking into a level from a place on


def behind(queue: Queue, priority: int, place: int) -> list[Entry]:
    """Return some of the ready entries of a level behind a place, in order; none if there is none.

    What is in the store only has content, and is not resident by it.
    """
    level = queue.levels[priority]
    if level is None:
        return []
    found = _in_run(level.head, place)
    if found or level.gap is None:
        return found
    return _in_gap(queue, priority, level.gap, place) or _in_run(level.end, place)


def _in_run(run: Run, place: int) -> list[Entry]:
    run.settle_if_short()
    found = _in_line(run.line, place)
    if not run.back:
        return found
    returned = [each[2] for each in run.back if each[0] > place and each[2].state == READY]
    if not returned:
        return found
    returned.sort(key=position_of)
    return list(islice(merge(found, returned, key=position_of), SCAN_ENTRIES))


def _in_line(line: deque[Entry], place: int) -> list[Entry]:
    first = next((entry for entry in line if entry.state == READY), None)
    if first is None:
        return []
    if first.position > place:
        return list(islice((entry for entry in line if entry.state == READY), SCAN_ENTRIES))
    # From the end, because what is new is there; the earliest of what is found stays.
    later: deque[Entry] = deque(maxlen=SCAN_ENTRIES)
    for entry in reversed(line):
        if entry.state != READY:
            continue
        if entry.position <= place:
            break
        later.appendleft(entry)
    return list(later)


def _in_gap(queue: Queue, priority: int, gap: Gap, place: int) -> list[Entry]:
    number = max(place, gap.after)
    islands = [entry for entry in gap.islands if entry.state == READY]
    while True:
        loaded: list[Entry] = []
        reached = gap.until
        if gap.count and number < gap.until:
            assert queue.store is not None
            answer = queue.store.load(queue, priority, number, queue.window)
            loaded = [entry for entry in answer.entries if entry.position <= gap.until]
            reached = min(answer.reached, gap.until)
        loaded += [entry for entry in islands if place < entry.position <= reached]
        if loaded or reached >= gap.until:
            loaded.sort(key=position_of)
            return loaded
        number = reached
