"""Dispatching: looks at every queue that was touched, and delivers what is ready.

`engine.dispatch.consumer_choice` chooses the consumer, `engine.settling.delivery` makes the
delivery. When the budget is spent, the next dispatch continues.
"""

from typing import Final

from daybook.engine.core.capacity import review, review_all
from daybook.engine.core.core import Core
from daybook.engine.core.unreadable import let_rest, read_again, rests
from daybook.engine.dispatch.browsers import browse, note_deliveries
from daybook.engine.dispatch.consumer_choice import dispatch_queue
from daybook.engine.entries import retroactive, rings
from daybook.engine.entries.arrivals import let_enter
from daybook.engine.queues.queue import ContentError, Queue
from daybook.engine.settling import drains
from daybook.engine.topology.bundle_members import first_in_line

TOUCHED_SHIFT: Final = 1
"""Looking at queues that were touched costs one unit for 2 to this power."""
FEW: Final = 64
"""So many touched queues are looked at in one go, unless others wait already."""
LINE_UNITS: Final = 100
"""The units for the queues of one connection before those of others have their turn."""


def dispatch(core: Core) -> None:
    """Look at every touched queue, and at those that this touches in turn; then at sizes.

    When the budget is spent, the next dispatch continues with the rest.
    """
    backlog = core.backlog
    while core.touched or core.refilled or backlog:
        touched = first_in_line(core) if core.refilled else core.touched
        core.touched = {}
        if backlog or len(touched) > FEW:
            for queue in touched.values():
                # Limits of memory need what is held at once.
                _count(core, queue)
            backlog.add(touched.values())
            is_cut = _look_at_lines(core)
        else:
            is_cut = _look_at_few(core, touched)
        if is_cut:
            # What continues for long must not stand before what others touch meanwhile.
            backlog.add(core.later.values())
            core.later = {}
            if core.refilled:
                core.touched = first_in_line(core)
            break
    # Queues that were touched meanwhile wait as well.
    if core.touched:
        core.later.update(core.touched)
        core.touched = {}
    if core.later:
        core.touched, core.later = core.later, {}
    if core.room.review_due:
        core.room.review_due = False
        core.room.resized.clear()
        review_all(core)
        return
    resized = core.room.resized
    core.room.resized = {}
    review(core, resized.values())


def _look_at_few(core: Core, touched: dict[int, Queue]) -> bool:
    """Look at some queues; return whether the budget was spent before the last of them."""
    core.budget.spent += len(touched) >> TOUCHED_SHIFT
    if core.state.arrivals:
        let_enter(core, touched.values())
    is_cut = False
    has_rings = rings.are_there(core)
    histories = core.state.histories
    draining = core.draining
    last = 0
    for queue in touched.values():
        if queue.browsers or _delivers(queue):
            if is_cut:
                core.later[queue.id] = queue
            else:
                _dispatch_readable(core, queue)
                is_cut = core.budget.is_spent
                last = queue.id
        if draining and queue.id in draining and queue.id not in core.later:
            drains.answer(core, queue)
        if histories and queue.id in histories and queue.id not in core.later:
            retroactive.trim(core, queue)
        elif has_rings and queue.id not in core.later:
            rings.trim(core, queue)
        _count(core, queue)
    if is_cut and last in core.later:
        # The one that was cut short goes behind the others.
        core.later[last] = core.later.pop(last)
    return is_cut


def _look_at_lines(core: Core) -> bool:
    """Look at queues of the backlog, those of one connection after those of another, until the
    budget is spent; return whether it is."""
    backlog, budget = core.backlog, core.budget
    whole = budget.limit
    looked = 0
    while backlog and budget.spent < whole:
        owner, line = backlog.begin()
        budget.limit = min(whole, budget.spent + LINE_UNITS)
        while line and not budget.is_spent:
            number, queue = line.popitem(last=False)
            looked += 1
            if not looked & ((1 << TOUCHED_SHIFT) - 1):
                budget.spent += 1
            if core.state.queues.get(number) is queue:
                _look_at_few(core, {number: queue})
                if core.later:
                    # It has more, or what was looked at touched others.
                    line.update(core.later)
                    core.later = {}
        backlog.end(owner, line)
    budget.limit = whole
    return budget.is_spent


def _delivers(queue: Queue) -> bool:
    """Whether consumers may get something."""
    return bool(queue.consumers) and queue.ready_count > 0 and not queue.is_paused


def _count(core: Core, queue: Queue) -> None:
    core.room.sizes.count(queue)
    address = queue.address
    if address.guarded or address.paging:
        core.room.resized[address.id] = address


def _show_and_dispatch(core: Core, queue: Queue) -> None:
    """Let browsers read on, and then deliver."""
    browse(core, queue)
    if _delivers(queue):
        since = len(core.effects)
        dispatch_queue(core, queue)
        note_deliveries(core, queue, since)


def _dispatch_readable(core: Core, queue: Queue) -> None:
    """Deliver from a queue, unless what is next in it cannot be read."""
    if core.unreadable and rests(core, queue):
        return
    try:
        if queue.browsers:
            _show_and_dispatch(core, queue)
        else:
            dispatch_queue(core, queue)
    except ContentError as error:
        let_rest(core, queue, error)
    else:
        if core.unreadable:
            read_again(core, queue)
