"""Finding a queue by the name that somebody gives it: QUEUE, or ADDRESS::QUEUE (fully qualified).

Names of queues are unique on their virtual host, so the address adds no information; it is checked.
On another host than the default one the host comes first: HOST::QUEUE, or HOST::ADDRESS::QUEUE.
Must never know what is done with the queue.
"""

from daybook.engine.names.names import DIVIDER, beside
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal, no_queue
from daybook.engine.state.state import State


def meant(state: State, name: str) -> tuple[str, str]:
    """Return the full names of the address and the queue that a name says; the address is empty if
    it says none."""
    return ("", name) if name in state.queue_by_name else split(name)


def split(name: str) -> tuple[str, str]:
    """Return the address and the queue that a name says if it says both; else the address is
    empty."""
    address, divider, queue = name.rpartition(DIVIDER)
    return (address, beside(address, queue)) if divider else ("", name)


def find_queue(state: State, name: str) -> Queue | Refusal:
    """Return the queue of this name."""
    address, queue_name = meant(state, name)
    if DIVIDER in name and not address:
        other, of_it = split(name)
        found = state.queue_by_name.get(of_it)
        if found is not None and found.address.name == other:
            return Refusal(
                Code.INVALID,
                f"'{name}' is a queue of a virtual host, and queue '{of_it}' is on an address"
                f" '{other}'; name the virtual host by itself, or the queue without its address",
            )
    queue = state.queue_by_name.get(queue_name)
    if queue is None:
        return no_queue(queue_name)
    if address and queue.address.name != address:
        return Refusal(
            Code.NOT_FOUND,
            f"queue '{queue_name}' is on address '{queue.address.name}', not on '{address}'",
        )
    return queue
