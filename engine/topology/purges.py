"""Queues that keep messages only while they have consumers: when the last one leaves, the rest is
removed.

A start of the broker counts, too: then nobody is attached. Messages are removed in slices (ADR 27).
Until all are gone the queue delivers nothing, so that a consumer that attaches meanwhile gets only
the messages that arrive after it. Must never know how a message is routed.
"""

from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.facts import reasons
from daybook.engine.queues.queue import Queue
from daybook.engine.topology.topology import remove_entries

AT_ONCE: Final = 1_000
"""So many messages are removed at once, if the budget allows; the others in turns to come."""


def left(core: Core, queue: Queue) -> None:
    """Empty a queue that is without consumers, if it keeps messages only for them."""
    if queue.definition.purge_on_no_consumers and not queue.consumers and queue.message_count:
        core.work.purging[queue.id] = core.next_lsn
        purge(core, queue.id, AT_ONCE)


def purge(core: Core, queue_id: int, limit: int) -> None:
    """Remove a slice of what such a queue had when its last consumer left."""
    queue = core.state.queues.get(queue_id)
    through = core.work.purging[queue_id]
    if queue is not None and not queue.deleting:
        most = min(limit, max(core.budget.left, 1))
        removed = remove_entries(core, queue, reasons.NO_CONSUMERS, 0, through, most)
        if removed == most and queue.message_count:
            return
        core.touch(queue)
    del core.work.purging[queue_id]


def all_left(core: Core) -> None:
    """Begin with all such queues, of which none has consumers when the broker starts."""
    for queue in list(core.state.queues.values()):
        if not queue.deleting:
            left(core, queue)
