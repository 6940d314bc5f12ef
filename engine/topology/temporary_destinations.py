"""Deciding about the end of temporary destinations (ADR 57).

They end with their connection: their queues first, in slices where they hold much, then their
addresses. After a restart no connection is left, so none of them is.
"""

from daybook.engine.core.core import Core
from daybook.engine.facts import reasons
from daybook.engine.topology.topology import delete_if_useless, delete_queue

END_UNITS = 10
"""What the end of a temporary destination costs, in units of the budget, besides its messages."""


def end_all(core: Core, connection: int) -> bool:
    """Delete the temporary destinations of a connection that is closing and has no consumers.

    Return whether nothing is left to decide; messages of a queue that is being deleted may be.
    """
    for address in list(core.state.temporaries.get(connection, {}).values()):
        for queue in address.queues():
            delete_queue(core, queue, reasons.UNUSED, connection)
        if address.id in core.state.addresses:
            delete_if_useless(core, address, connection)
        core.budget.spent += END_UNITS
        if core.budget.is_spent and core.state.temporaries.get(connection):
            return False
    return True
