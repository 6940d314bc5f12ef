"""Removing queues that may have consumers: their clients have no part in it, and hear why.

A queue cannot be found by name or address any more at once. Its consumers end, then its messages
are removed, and then the queue itself: at once if that is little, else in turns to come
(`engine.consumers.slices`).
"""

from daybook.engine.consumers.subscriptions import detach_consumer, retire
from daybook.engine.core.core import Core
from daybook.engine.core.parts import Emptying
from daybook.engine.facts import reasons
from daybook.engine.queues.consumer import consumers_of
from daybook.engine.queues.queue import Queue
from daybook.engine.topology.topology import begin_deletion, delete_queue, empty


def remove(core: Core, queue: Queue, reason: int, connection: int, text: str) -> None:
    """Remove a queue with its messages and consumers; `text` tells the consumers why."""
    if not queue.consumers:
        delete_queue(core, queue, reason, connection)
        return
    begin_deletion(core, queue, reason, connection)
    for consumer in list(consumers_of(queue)):
        retire(core, consumer)
    emptying = Emptying(queue, reason, connection, text)
    if not go_on(core, emptying):
        core.work.emptying[queue.id] = emptying


def go_on(core: Core, emptying: Emptying) -> bool:
    """Continue the removal of a queue; return whether the queue is gone."""
    queue = emptying.queue
    while queue.consumers:
        consumer = consumers_of(queue)[0]
        if not detach_consumer(core, consumer, reasons.QUEUE_REMOVED, emptying.text):
            return False
        if core.budget.is_spent and queue.consumers:
            return False
    if queue.id not in core.state.queues:
        # It ended with its last consumer.
        return True
    return empty(core, queue, emptying.reason, emptying.connection)
