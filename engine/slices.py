"""What goes on by itself, a slice at a time: connections that end, queues that are being emptied.

Each was decided before, so nobody waits for it; each slice leaves a state as good as any other, and
ends when the budget of the turn is spent. Not finished when the broker ends: connections are gone
then, and a queue that is being deleted says so in the journal, so that the next start goes on.
"""

from daybook.engine.connections import close
from daybook.engine.core import Core
from daybook.engine.topology import empty


def has_more(core: Core) -> bool:
    """Whether there is anything to go on with."""
    return bool(core.emptying) or any(each.is_left for each in core.closing.values())


def go_on(core: Core) -> None:
    """Do a slice, round robin, until the budget is spent or nothing is left."""
    for closing in [each for each in core.closing.values() if each.is_left]:
        if core.budget.is_spent:
            return
        if not close(core, closing):
            # Behind the others; it may be that but one more step is missing.
            core.closing[closing.connection.id] = core.closing.pop(closing.connection.id)
    for queue_id, emptying in list(core.emptying.items()):
        if core.budget.is_spent:
            return
        del core.emptying[queue_id]
        if not empty(core, emptying.queue, emptying.reason, emptying.connection):
            core.emptying[queue_id] = emptying
