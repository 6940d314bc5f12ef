"""Browsers: they read the messages of a queue in order, and take none (ADR 50).

A browser is a consumer that is in `Queue.browsers` and not in `Queue.consumers`: no rule about
consumers knows it, and nothing that it does changes what consumers get. It has cursors as the
consumers of a non-destructive queue have (`engine.settling.non_destructive`), so the entries in the
store are read a few at a time and stay there. It also reads messages in flight to consumers, in
their places, because they are still in the queue. It reads messages that are set aside (scheduled
or held) when they are ready.

Invariant: the cursor of a level never passes an entry, ready or in flight, that the browser was not
offered. Must never know how consumers are chosen.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from daybook.engine.consumers.subscriptions import detach_consumer
from daybook.engine.core.core import Core
from daybook.engine.facts import reasons
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.consumer import BEHIND_ALL, BrowseState, Consumer, Key, browsers_of
from daybook.engine.queues.entry import IN_FLIGHT, NOTHING_PASSED, READY, Entry
from daybook.engine.queues.flights import ALL, ENDED_MAX, FILL_ENTRIES, Flights
from daybook.engine.queues.level import position_of
from daybook.engine.queues.level_scan import SCAN_ENTRIES, behind
from daybook.engine.queues.queue import Queue
from daybook.engine.routing.departures import expire
from daybook.engine.routing.expiry import is_expired
from daybook.engine.settling.delivery import can_take
from daybook.engine.settling.non_destructive import SHOW_UNITS, SHOWN_AT_A_TIME, again_of, show
from daybook.engine.topology.bundle_members import tell_end

BROWSERS_SHIFT: Final = 4
"""Asking browsers whether they have read everything costs one unit for 2 to this power."""
FLIGHTS_SHIFT: Final = 3
"""Looking through what is in flight costs one unit for 2 to this power."""
LOOK_ENTRIES: Final = 8
"""How many entries are read at first: often the browser has credit for a few."""


def browse(core: Core, queue: Queue) -> None:
    """Let the browsers of a queue read on, each some messages in its turn.

    Where consumers wait too, only with half of the budget that is left. If that is spent before all
    have read everything that they can take, the queue is then in `core.later`.
    """
    if queue.deleting or queue.recall is not None or queue.id in core.work.purging:
        # While a queue gets the history of its address, that comes in behind newer messages.
        return
    share = core.budget.left // 2 if queue.consumers and queue.ready_count else core.budget.left
    stop = core.budget.spent + max(share, SHOW_UNITS)
    if not _take_up_flights(core, queue):
        core.later[queue.id] = queue
        return
    core.budget.spent += len(queue.browsers) >> BROWSERS_SHIFT
    there = [each for each in browsers_of(queue) if not each.detaching]
    waiting = [each for each in there if _has_more(core, queue, each)]
    while waiting:
        further = []
        for place, consumer in enumerate(waiting):
            if core.budget.spent >= stop:
                # Those that had no turn begin next time.
                _put_first(queue, waiting[place:])
                core.later[queue.id] = queue
                return
            if _read_on(core, queue, consumer, stop):
                further.append(consumer)
        waiting = further


def _has_more(core: Core, queue: Queue, consumer: Consumer) -> bool:
    """Whether a browser may have something to read; one that is done leaves."""
    browse = consumer.browse
    assert browse is not None
    if browse.is_over:
        if not consumer.shown:
            detach_consumer(core, consumer, reasons.END_OF_BROWSE)
        return False
    if consumer.caught_up == queue.newest:
        return False
    return can_take(consumer) or not browse.waits


def _put_first(queue: Queue, some: list[Consumer]) -> None:
    first = {each.id for each in some}
    queue.browsers = [*some, *(each for each in queue.browsers if each.id not in first)]


def _read_on(core: Core, queue: Queue, consumer: Consumer, stop: int) -> bool:
    """Show a browser its next messages; return whether it can take more of them now."""
    browse = consumer.browse
    assert browse is not None
    browse.waits = False
    left = SHOWN_AT_A_TIME
    most = LOOK_ENTRIES
    while left > 0:
        entries = _next(core, queue, consumer, browse, most)
        most = min(SCAN_ENTRIES, most * 4)
        if entries is None:
            return True
        if not entries:
            consumer.caught_up = queue.newest
            if browse.ends:
                _end(core, consumer, browse)
            return False
        for entry in islice(entries, left):
            has_expired = entry.message.expires and is_expired(core, queue, entry)
            if has_expired:
                _expire(core, queue, entry)
            elif not _offer(core, queue, consumer, entry):
                browse.waits = True
                return False
            _pass(consumer, entry)
            left -= 1
            if core.budget.spent >= stop:
                return True
            if has_expired and queue.definition.keyed_by:
                # A divert may have brought back a copy that replaced others of these.
                break
    return True


def _end(core: Core, consumer: Consumer, browse: BrowseState) -> None:
    """Tell a browser that it has read everything; it leaves once it has settled all of that."""
    browse.is_over = True
    tell_end(core, consumer)
    if not consumer.shown:
        detach_consumer(core, consumer, reasons.END_OF_BROWSE)


def _expire(core: Core, queue: Queue, entry: Entry) -> None:
    """Let a message leave whose time has passed, unless a consumer still has it."""
    core.budget.spent += SHOW_UNITS
    if entry.state == READY:
        queue.make_resident(entry)
        expire(core, queue, entry)


def _offer(core: Core, queue: Queue, consumer: Consumer, entry: Entry) -> bool:
    """Show an entry to a browser that wants it; return False if that must wait for credit."""
    message = entry.message
    core.budget.spent += SHOW_UNITS
    if not message.resident:
        core.fill(message)
    if consumer.matcher is not None and not core.passes(consumer.matcher, message):
        return True
    if message.id in consumer.shown:
        return True
    if not can_take(consumer):
        return False
    show(core, queue, entry, consumer)
    return True


def _pass(consumer: Consumer, entry: Entry) -> None:
    if consumer.again:
        consumer.again.pop(entry.message.id, None)
    if _is_ahead(consumer, entry):
        consumer.passed[entry.level] = entry.position


def _is_ahead(consumer: Consumer, entry: Entry) -> bool:
    return entry.position > consumer.passed.get(entry.level, NOTHING_PASSED)


# ---- the next entry


def _next(
    core: Core, queue: Queue, consumer: Consumer, browse: BrowseState, most: int
) -> list[Entry] | None:
    """Return the next entries for a browser, in order; none if it has read everything.

    None instead of a list if it must look again.
    """
    if consumer.again:
        found = list(_again(queue, consumer))
        if found:
            return sorted(found, key=position_of) if browse.in_sequence else found
    ready = _ready(queue, consumer, browse, most)
    return _with_flying(core, queue, consumer, browse, ready, most) if queue.flights else ready


def _again(queue: Queue, consumer: Consumer) -> Iterator[Entry]:
    """Yield what became ready behind the cursors."""
    for priority in range(PRIORITIES - 1, -1, -1):
        yield from again_of(queue, consumer, priority)


def _ready(queue: Queue, consumer: Consumer, browse: BrowseState, most: int) -> list[Entry]:
    """Return the next ready entries: of the highest priority, or in sequence of all of them."""
    found: list[list[Entry]] = []
    for priority in range(PRIORITIES - 1, -1, -1):
        if queue.levels[priority] is None:
            continue
        entries = behind(queue, priority, consumer.passed.get(priority, NOTHING_PASSED), most)
        if entries and not browse.in_sequence:
            return entries
        if entries:
            found.append(entries)
    if len(found) < 2:
        return found[0] if found else []
    # Behind the last one of a level there may be more of it.
    reached = min(entries[-1].position for entries in found)
    together = (entry for entries in found for entry in entries if entry.position <= reached)
    return sorted(together, key=position_of)


def _with_flying(
    core: Core, queue: Queue, consumer: Consumer, browse: BrowseState, ready: list[Entry], most: int
) -> list[Entry] | None:
    """Return ready entries with those in flight between them, as far as both are known.

    None if deliveries that ended were in the way: there may be more behind them.
    """
    lowest = ready[-1].level if ready and not browse.in_sequence else 0
    flying, known = _flying(queue, consumer, browse, lowest, most)
    core.budget.spent += len(flying) >> FLIGHTS_SHIFT
    reached = min(known, browse.key_of(ready[-1])) if ready else known
    together = [entry for entry in (*ready, *flying) if browse.key_of(entry) <= reached]
    if not together and known != BEHIND_ALL:
        core.budget.spent += ENDED_MAX >> FLIGHTS_SHIFT
        return None
    return sorted(together, key=browse.key_of) if flying else together


def _flying(
    queue: Queue, consumer: Consumer, browse: BrowseState, lowest: int, most: int
) -> tuple[list[Entry], Key]:
    """Return the next entries in flight of some priorities, and up to where these are all."""
    flights = queue.flights
    assert flights is not None
    found: list[Entry] = []
    known = BEHIND_ALL
    for priority in range(PRIORITIES - 1, lowest - 1, -1):
        passed = consumer.passed.get(priority, NOTHING_PASSED)
        entries, reached = flights.behind(queue.entries, priority, passed, most)
        found += entries
        if reached != ALL or (len(found) >= most and not browse.in_sequence):
            known = min(known, browse.key_at(priority, reached))
            if not browse.in_sequence:
                # Lower levels come behind.
                break
    return found, known


def _take_up_flights(core: Core, queue: Queue) -> bool:
    """Know what is in flight from a queue; return False if that needs further turns."""
    if queue.flights is None:
        if not queue.in_flight_count:
            return True
        queue.flights = Flights(queue.consumers)
    core.budget.spent += min(queue.flights.unfilled_count, FILL_ENTRIES) >> FLIGHTS_SHIFT
    return queue.flights.fill(queue.entries)


def note_deliveries(core: Core, queue: Queue, since: int) -> None:
    """Note for the browsers which messages were delivered, in the effects from `since` on."""
    flights = queue.flights
    if flights is None:
        return
    for effect in islice(core.effects, since, None):
        entry = queue.entries.get(effect[1].id) if isinstance(effect, tuple) else None
        if entry is not None and entry.state == IN_FLIGHT:
            flights.add(entry)
