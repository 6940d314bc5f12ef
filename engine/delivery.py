"""Deciding who gets what: ready entries meet consumers with credit.

Strict priority between levels, first in first out within; round robin between the consumers that
have credit (messages or bytes: one positive is enough, as in Apollo) and room in their connection.
A delivery is decided, applied and counted here, before any byte of it exists.
"""

from typing import Final

from daybook.engine.core import Core
from daybook.engine.departing import expire
from daybook.engine.expiry import is_expired
from daybook.engine.handing import can_take, deliver
from daybook.engine.limits import review, review_all
from daybook.engine.queues import ContentError, Queue
from daybook.engine.selective import dispatch_selectively
from daybook.engine.unreadable import let_rest, read_again, rests

DELIVERY_UNITS: Final = 2
"""What a delivery costs with its encoding, in units of the budget."""
CONSUMERS_SHIFT: Final = 6
"""Asking consumers whether they can take costs one unit for 2 to this power."""
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


def dispatch_queue(core: Core, queue: Queue) -> None:
    """Deliver from a queue until nothing is ready or nobody can take it.

    If others are to have their turn before that, the queue is then among `core.later`.
    """
    consumers = queue.consumers
    for consumer in consumers:
        if consumer.filter:
            dispatch_selectively(core, queue)
            return
    count = len(consumers)
    position = queue.next_consumer % count
    unable = 0
    left = most = max(core.budget.left // DELIVERY_UNITS, 1)
    while unable < count:
        consumer = consumers[position]
        position += 1
        if position == count:
            position = 0
        if not can_take(consumer):
            unable += 1
            continue
        entry = queue.head()
        if entry is None:
            # Nobody was served in this step: the same consumer is next when something comes.
            position = (position - 1) % count
            break
        if left == 0:
            position = (position - 1) % count
            core.later[queue.id] = queue
            break
        left -= 1
        unable = 0
        if entry.message.expires and is_expired(core, queue, entry):
            expire(core, queue, entry)
            position = (position - 1) % count
            continue
        deliver(core, entry, consumer)
    queue.next_consumer = position
    core.budget.spent += (most - left) * DELIVERY_UNITS + (count >> CONSUMERS_SHIFT)
