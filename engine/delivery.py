"""Dispatching: every queue that was touched is looked at, and who gets what of it is chosen.

Who that is says `engine.choosing`, what a delivery is `engine.handing`. When others are to have
their turn, what is left is looked at by the next dispatch.
"""

from typing import Final

from daybook.engine.choosing import dispatch_queue
from daybook.engine.core import Core
from daybook.engine.limits import review, review_all
from daybook.engine.queues import ContentError, Queue
from daybook.engine.unreadable import let_rest, read_again, rests

TOUCHED_SHIFT: Final = 3
"""Looking at queues that were touched costs one unit for 2 to this power."""


def dispatch(core: Core) -> None:
    """Look at every queue touched, and at those that this touches in turn; then at sizes.

    When others are to have their turn, what is left is looked at by the next dispatch.
    """
    while core.touched:
        touched = core.touched
        core.touched = {}
        core.budget.spent += len(touched) >> TOUCHED_SHIFT
        is_cut = False
        last = 0
        for queue in touched.values():
            if queue.consumers and queue.ready_count and not queue.paused:
                if is_cut:
                    core.later[queue.id] = queue
                else:
                    _dispatch_readable(core, queue)
                    is_cut = core.budget.is_spent
                    last = queue.id
            _count(core, queue)
        if is_cut:
            if last in core.later:
                # The one that was cut short comes behind the others.
                core.later[last] = core.later.pop(last)
            break
    # What was touched meanwhile waits as well.
    if core.touched:
        core.later.update(core.touched)
        core.touched = {}
    if core.later:
        core.touched, core.later = core.later, {}
    if core.review_due:
        core.review_due = False
        core.resized.clear()
        review_all(core)
        return
    resized = core.resized
    core.resized = {}
    review(core, resized.values())


def _count(core: Core, queue: Queue) -> None:
    core.sizes.count(queue)
    address = queue.address
    if address.guarded or address.paging:
        core.resized[address.id] = address


def _dispatch_readable(core: Core, queue: Queue) -> None:
    """Deliver from a queue, unless what is next in it cannot be read."""
    if core.unreadable and rests(core, queue):
        return
    try:
        dispatch_queue(core, queue)
    except ContentError as error:
        let_rest(core, queue, error)
    else:
        if core.unreadable:
            read_again(core, queue)
