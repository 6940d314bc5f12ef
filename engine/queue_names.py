"""Finding a queue by the name that somebody gives it: QUEUE, or ADDRESS::QUEUE (fully qualified).

Names of queues are unique in the broker, so the address adds no information; it is checked. Must
never know what is done with the queue.
"""

from daybook.engine.names import DIVIDER
from daybook.engine.queues import Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state import State


def split(name: str) -> tuple[str, str]:
    """Return the address and the queue that a name says; the address is empty if it says none."""
    address, divider, queue = name.partition(DIVIDER)
    return (address, queue) if divider else ("", name)


def find_queue(state: State, name: str) -> Queue | Refusal:
    """Return the queue of this name."""
    address, queue_name = split(name)
    queue = state.queue_by_name.get(queue_name)
    if queue is None:
        return Refusal(Code.NOT_FOUND, f"there is no queue '{queue_name}'")
    if address and queue.address.name != address:
        return Refusal(
            Code.NOT_FOUND,
            f"queue '{queue_name}' is on address '{queue.address.name}', not on '{address}'",
        )
    return queue
