"""When a queue begins to deliver: with so many consumers, or some time after the first one.

The decision is an event, so that it is the same after a fold, and holds until the last consumer
left. `Queue.waits_since` is set while it is to be taken. Must never know how entries are delivered.
"""

from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.facts import events, reasons
from daybook.engine.queues.queue import Queue
from daybook.engine.state.state import State
from daybook.engine.state.timers import NEVER

WAITING_SHIFT: Final = 6
"""Looking at queues that wait costs one unit of the budget for 2 to this power."""


def why_begin(queue: Queue, now: int) -> int:
    """Return why a queue whose consumers wait begins to deliver at a time; 0 if it does not."""
    if len(queue.consumers) >= queue.definition.consumers_before_dispatch:
        return reasons.CONSUMERS_CAME
    return reasons.DELAY_OVER if time_of(queue) * 1000 <= now else 0


def begins(core: Core, queue: Queue) -> bool:
    """Whether a queue delivers, which had consumers that waited; record it if it begins now."""
    reason = why_begin(queue, core.now)
    if not reason:
        return False
    core.emit(
        events.row(
            events.DISPATCH_STARTED,
            reason=reason, address=queue.address.id, queue=queue.id, time=core.now,
        )
    )  # fmt: skip
    core.touch(queue)
    return True


def decide(core: Core, queue: Queue) -> bool:
    """Whether a queue delivers whose consumers waited; if not, wake the broker when it will."""
    if begins(core, queue):
        return True
    core.state.wake_at = min(core.state.wake_at, time_of(queue))
    return False


def begin_due(core: Core) -> None:
    """Begin to deliver from the queues whose first consumers have waited long enough."""
    waiting = core.state.waiting
    core.budget.spent += len(waiting) >> WAITING_SHIFT
    for queue in [each for each in waiting.values() if time_of(each) * 1000 <= core.now]:
        begins(core, queue)


def time_of(queue: Queue) -> int:
    """Return when a queue begins without the consumers that it waits for, in milliseconds since
    1970; NEVER if it does not."""
    delay = queue.definition.delay_before_dispatch
    return -(-queue.waits_since // 1000) + delay if delay >= 0 else NEVER


def next_time(state: State) -> int:
    """Return when the next queue begins because of the time; NEVER if none does."""
    return min(map(time_of, state.waiting.values()), default=NEVER)
