"""Choosing the one anycast queue that gets a message, where an address has several.

The queues take turns. A queue that somebody consumes from comes before one where the message would
only wait. Messages of one group all go to the same queue, as long as the queues stay the same, so
that one consumer can process them in order. Must never know other routing types.
"""

from typing import Final
from zlib import crc32

from daybook.engine.core.core import Core
from daybook.engine.messages.content import view_of
from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import Address, Queue

FILTERS_MAX: Final = 32
"""How many filters of consumers are asked about one message; more of them count as wanting it."""
ASKED_SHIFT: Final = 5
"""Looking at consumers costs one unit of the budget for 2 to this power."""


def next_anycast(
    core: Core, address: Address, message: Message, asked: dict[str, bool]
) -> Queue | None:
    """Return the anycast queue of an address that gets a message, None if no filter accepts it.

    `asked` is as in `Core.accepts`.
    """
    bindings = address.anycast
    count = len(bindings)
    if count == 1:
        return bindings[0].queue if core.accepts(bindings[0], message, asked) else None
    start = address.next_anycast
    group = str(view_of(message).standard.group_id) if count else ""
    if group:
        start = crc32(group.encode("utf-8", "surrogatepass"))
    waiting: int = -1
    core.budget.spent += count >> ASKED_SHIFT
    for step in range(count):
        position = (start + step) % count
        binding = bindings[position]
        if not core.accepts(binding, message, asked):
            continue
        if group:
            return binding.queue
        if is_served(core, binding.queue, message):
            address.next_anycast = (position + 1) % count
            return binding.queue
        if waiting < 0:
            waiting = position
    if waiting < 0:
        return None
    address.next_anycast = (waiting + 1) % count
    return bindings[waiting].queue


def is_served(core: Core, queue: Queue, message: Message) -> bool:
    """Whether a consumer of a queue would take a message, now or when it has credit again."""
    asked = 0
    for consumer in queue.consumers:
        if consumer.detaching:
            continue
        matcher = consumer.matcher
        if matcher is None or asked >= FILTERS_MAX or core.passes(matcher, message):
            return True
        asked += 1
    core.budget.spent += len(queue.consumers) >> ASKED_SHIFT
    return False
