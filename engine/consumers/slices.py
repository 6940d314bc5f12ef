"""Work that continues in slices without commands: closing connections, emptying queues, recalls.

All of it was decided before, so no client waits for it; each slice leaves a consistent state, and
ends when the budget of the turn is spent. If the broker ends before the work does: its connections
are gone, and the journal says which queues are being deleted, so that the next start continues.
"""

from daybook.engine.consumers import bundle_subscriptions, queue_removal
from daybook.engine.consumers.connections import close
from daybook.engine.consumers.subscriptions import detach_stolen
from daybook.engine.core.core import Core
from daybook.engine.direct.serving import hand_out
from daybook.engine.entries import arrivals, recalls
from daybook.engine.topology import history_removal
from daybook.engine.topology.purges import purge
from daybook.engine.topology.topology import ALL


def has_more(core: Core) -> bool:
    """Whether there is work left."""
    if core.state.arrivals or core.work.emptying or core.work.purging or core.work.stolen:
        return True
    if core.direct.copying:
        return True
    if core.work.histories_to_review or core.wildcard_subscriptions.has_work:
        return True
    # Asked several times a turn: no generator where there is nothing to ask.
    if core.work.closing and any(each.is_left for each in core.work.closing.values()):
        return True
    return bool(core.state.recalling) and recalls.can_go_on(core)


def go_on(core: Core) -> None:
    """Do a slice, round robin, until the budget is spent or nothing is left."""
    if core.direct.copying:
        hand_out(core)
    if core.state.arrivals:
        # What follows looks at any queues.
        arrivals.go_on(core)
        if core.state.arrivals:
            return
    closings = list(core.work.closing.values()) if core.work.closing else ()
    for closing in closings:
        if not closing.is_left:
            continue
        if core.budget.is_spent:
            return
        if not close(core, closing):
            # Behind the others; perhaps only one step is missing.
            core.work.closing[closing.connection.id] = core.work.closing.pop(closing.connection.id)
    if core.work.stolen and not detach_stolen(core):
        return
    if core.wildcard_subscriptions.has_work:
        bundle_subscriptions.seek(core)
    for queue_id in list(core.work.purging):
        if core.budget.is_spent:
            return
        purge(core, queue_id, ALL)
    history_removal.review(core)
    for queue in list(core.state.recalling.values()):
        if core.budget.is_spent:
            return
        # Behind the others, if it has more.
        core.state.recalling[queue.id] = core.state.recalling.pop(queue.id)
        recalls.go_on(core, queue)
    for queue_id, emptying in list(core.work.emptying.items()):
        if core.budget.is_spent:
            return
        del core.work.emptying[queue_id]
        if not queue_removal.go_on(core, emptying):
            core.work.emptying[queue_id] = emptying
