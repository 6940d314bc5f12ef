"""Deciding who gets what: ready entries meet consumers with credit.

Strict priority between levels, first in first out within; round robin between the consumers that
have credit (messages or bytes: one positive is enough, as in Apollo) and room in their connection.
A delivery is decided, applied and counted here, before any byte of it exists.
"""

from engine.core import Core
from engine.expiry import expire, is_expired
from engine.handing import can_take, deliver
from engine.limits import review, review_all
from engine.queues import Queue
from engine.selective import dispatch_selectively


def dispatch(core: Core) -> None:
    """Look at every queue touched, and at those that this touches in turn; then at sizes."""
    sizes = core.sizes
    while core.touched:
        touched = core.touched
        core.touched = {}
        for queue in touched.values():
            if queue.consumers and queue.ready_count and not queue.paused:
                dispatch_queue(core, queue)
            sizes.count(queue)
            address = queue.address
            if address.guarded or address.paging:
                core.resized[address.id] = address
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


def dispatch_queue(core: Core, queue: Queue) -> None:
    """Deliver from a queue until nothing is ready or nobody can take it."""
    consumers = queue.consumers
    for consumer in consumers:
        if consumer.filter:
            dispatch_selectively(core, queue)
            return
    count = len(consumers)
    position = queue.next_consumer % count
    unable = 0
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
        unable = 0
        if entry.message.expires and is_expired(core, queue, entry):
            expire(core, queue, entry)
            position = (position - 1) % count
            continue
        deliver(core, entry, consumer)
    queue.next_consumer = position
