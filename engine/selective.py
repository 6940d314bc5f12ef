"""Deciding who gets what when consumers have filters: what nobody wants is passed over, once.

Each consumer remembers up to where it has seen everything and wanted none of it (`passed`), by
level; what comes back behind that is looked at again. So a consumer never waits behind messages
that are not for it, wherever they live, and a dispatch costs what is new, not the backlog.
"""

from collections import deque
from itertools import islice
from typing import Final

from daybook.engine.core import Core
from daybook.engine.departing import expire
from daybook.engine.expiry import is_expired
from daybook.engine.gap import Gap
from daybook.engine.handing import can_take, deliver
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
        place = queue.place_of(entry)
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
    if queue.returned:
        queue.order_returned()
    found = _in_deque(queue, queue.levels[priority], place)
    gap = queue.gap(priority)
    if found or gap is None:
        return found
    return _in_gap(queue, priority, gap, place) or _in_deque(queue, queue.tails[priority], place)


def _in_deque(queue: Queue, level: deque[Entry], place: int) -> list[Entry]:
    while level and level[0].state != READY:
        queue.unlink(level.popleft())
    if not level:
        return []
    if queue.place_of(level[0]) > place:
        return list(islice((entry for entry in level if entry.state == READY), SCAN_ENTRIES))
    # From the end, because what is new is there; the earliest of what is found stays.
    later: deque[Entry] = deque(maxlen=SCAN_ENTRIES)
    for entry in reversed(level):
        if entry.state != READY:
            continue
        if queue.place_of(entry) <= place:
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
            loaded = [entry for entry in answer.entries if entry.message.id <= gap.until]
            reached = min(answer.reached, gap.until)
        for entry in islands:
            found = queue.place_of(entry)
            if place < found <= reached:
                loaded.append(entry)
        if loaded or reached >= gap.until:
            loaded.sort(key=queue.place_of)
            return loaded
        number = reached
